"""The model loop: screen, update, draw, checkpoint, recover.

The mapper node, a lock-step mission and ``poam map`` run the same loop. It has no thread and no
clock: the caller passes the time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..core.clock import Moment
from ..core.errors import InputError
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.samples import Samples
from ..frontend.batching import DEFAULT_TRAINING, BatchPolicy, SampleQueue, TrainingSettings
from ..frontend.events import (
    LoopEvent,
    Message,
    MissionFinished,
    ModelReset,
    PingsScreened,
    Problem,
)
from ..frontend.ledger import Ledger
from ..frontend.refused_pings import WITHDRAWN, RefusedPings
from ..journal.interface import Journal, JournalStep, NoJournal, ScreeningState
from ..screening.screen import FALSE_ECHO, Screener, ScreeningSettings
from .crossing_lines import BatchVerdicts
from .recovery import Recovery
from .updater import TRIES, IdleTraining, MapModel, ModelUpdater, UpdaterStatus
from .withdrawals import without

RESET = "reset"  # why unscreened and held pings are refused then
NO_SCREENING = ScreeningSettings()
#: Longest wait for the last pings to be stored, in s, before the last map is drawn without them.
DISK_S = 2.0


class ModelLoop:
    """Placed pings in; maps and other events out.

    Without screening all pings are accepted at once. With screening they wait in a queue of their
    own; when a batch is due, they are screened, and the accepted ones are the model's next batch as
    soon as they are stored. ``work`` may be called on a thread of its own; all other methods return
    at once, and are called on one other thread.

    Args:
        mapper: the model.
        ledger: counts the pings.
        policy: decides when a batch is due.
        grid: of the maps; None: none are drawn.
        training: how long the model trains.
        screening: which pings are held or refused.
        begins: takes a number of pings; whether they may be the first batch.

    Attributes:
        sample_queue: accepted pings that wait for the model.
        queue: where new pings wait and make a batch due: the same, or that of the screening.
        held: placed pings that wait for confirmation.
        journal: accepted pings count once they are stored in it.
        idle_training: trains between batches, on the thread of ``work``.
        verdicts: by crossing lines.
    """

    def __init__(
        self,
        mapper: MapModel,
        ledger: Ledger,
        policy: BatchPolicy,
        grid: Grid | None = None,
        training: TrainingSettings = DEFAULT_TRAINING,
        screening: ScreeningSettings = NO_SCREENING,
        begins: Callable[[int], bool] = lambda samples: True,
    ) -> None:
        self.mapper, self.ledger, self.grid, self.screening = mapper, ledger, grid, screening
        self._updater = ModelUpdater(mapper, grid, training)
        self.idle_training = IdleTraining(self._updater, self._record)
        self.journal: Journal = NoJournal()
        self._begins = begins
        self._screen = Screener(screening) if screening.enabled else None
        self.verdicts = BatchVerdicts(self._updater, screening)
        self.sample_queue = SampleQueue(policy)
        self.queue = self.sample_queue if self._screen is None else SampleQueue(policy)
        self.held = Samples.empty()
        self._in_screening = Samples.empty()  # taken from the queue, not screened yet
        self._unlearned = False  # the last screening accepted pings that the model does not have
        self._placed = self._screened = 0  # pings since the beginning or a reset
        self._problem = ""  # with the screening state before a restart
        self._recovery: Recovery | None = None  # steps that are still to be repeated
        # A reset that the model has not done yet: until then its events are discarded.
        self._resetting = False
        self._finishing = False
        # Guards queues, flags and the journal; never held while the model works.
        self._lock = threading.Lock()

    @property
    def samples(self) -> int:
        """Accepted and stored pings since the beginning or the last reset."""
        return self.ledger.samples - self.journal.unstored_count

    @property
    def undecided(self) -> int:
        """Pings that wait for screening, or are held."""
        return self.ledger.unscreened + self.ledger.held

    @property
    def full(self) -> bool:
        """Whether no more pings should be taken, because model or screening are too slow."""
        return self.sample_queue.full or self.queue.full

    @property
    def status(self) -> UpdaterStatus:
        """Status of the model."""
        return self._updater.status

    @property
    def map(self) -> ElevationMap | None:
        """The latest map that the caller of ``work`` has processed."""
        return self._updater.map

    def all_samples(self) -> Samples:
        """All accepted samples that are not withdrawn. Not while ``work`` runs."""
        waiting = Samples.joined([self.sample_queue.samples, self.journal.unstored()])
        if self._resetting:  # the model still has the pings before it
            return waiting
        known = self._recovery.in_use if self._recovery else self.mapper.data
        return Samples.joined([known, without(waiting, self.withdrawn.number)])

    @property
    def withdrawn(self) -> Samples:
        """The accepted pings that are withdrawn."""
        return self._updater.withdrawals.withdrawn

    @property
    def refused_and_withdrawn(self) -> RefusedPings:
        """The newest refused pings, and the accepted ones that are withdrawn."""
        pings = self.withdrawn
        return self.ledger.refused.newest().more(WITHDRAWN, pings.stamp_ns, pings.xyz)

    def recover(self, journal: Journal, recovery: Recovery) -> None:
        """Write a journal, and recover what it holds first. Call before anything else.

        Without screening, unscreened pings stay in the journal until screening is enabled again.
        """
        self.journal, self._recovery = journal, recovery or None
        held = waiting = Samples.empty()
        if self._screen is not None:
            screening_state, waiting = recovery.screening_state, recovery.unscreened
            held, self._screened = screening_state.held, screening_state.screened
            self._placed = int(waiting.number[-1]) + 1 if len(waiting) else screening_state.screened
            try:
                if screening_state.screener or len(held):
                    self._screen.load_state(held, screening_state.screener)
            except InputError as error:
                self._problem = f"{error}: {len(held)} held pings are screened again"
                waiting, held = Samples.joined([held, waiting]), Samples.empty()
            self.held = held
            self.queue.add(waiting, None)
            # As without a restart: accepted pings are learned before more are screened.
            self._unlearned = len(recovery.unlearned) > 0
        self.ledger.recover(len(recovery.data), recovery.refused, len(waiting), len(held))

    def add(self, placed: Samples, now_ns: int) -> Samples:
        """Queue placed pings; returns those, or earlier ones, that are now accepted and stored."""
        with self._lock:
            if self._screen is None:
                return self._store(placed, now_ns)
            if len(placed):
                first, self._placed = self._placed, self._placed + len(placed)
                if self.ledger.numbering:
                    placed = replace(placed, number=np.arange(first, self._placed, dtype=np.int64))
                self.queue.add(placed, now_ns)
                self.journal.append_unscreened(placed)
            return self._store(Samples.empty(), now_ns)

    def add_soundings(self, soundings: Samples, now_ns: int) -> Samples:
        """Like ``add``, for soundings that no front end has counted."""
        self.ledger.receive_placed(len(soundings))
        return self.add(soundings if self._screen else self.ledger.accept(soundings), now_ns)

    def waypoint_reached(self) -> None:
        """The vehicle has reached a waypoint."""
        with self._lock:
            self.queue.waypoint_reached()

    def change(self, policy: BatchPolicy, training: TrainingSettings) -> None:
        """Replace the batch policy and the training settings."""
        for queue in (self.sample_queue, self.queue):
            queue.change(policy)
        self._updater.training = training

    def finish(self) -> None:
        """The mission is done: all waiting pings are the last batch."""
        with self._lock:
            self._finishing = True
            self._updater.set_finished(False)

    def reopen(self) -> None:
        """More pings follow after all."""
        self._updater.set_finished(False)

    def reset(self, now_ns: int) -> None:
        """Refuse all waiting pings now; clear model and map with the next ``work``."""
        with self._lock:
            self._resetting, self._finishing = True, False
            waiting = Samples.empty() if self._screen is None else self.queue.samples
            forgotten = Samples.joined([self.held, self._in_screening, waiting])
            self.ledger.reset(RESET, forgotten)
            self.journal.append(Samples.empty(), refused=self.ledger.refused.take_new())
            self.held = self._in_screening = Samples.empty()
            self._unlearned, self._problem = False, ""
            self._placed = self._screened = 0
            self.queue.clear()
            self.sample_queue.clear()
            self.journal.reset(now_ns)
            self.ledger.restart()

    def due(self, now: Moment) -> bool:
        """Whether there is work for the model."""
        with self._lock:
            if self._resetting or self._recovery is not None:
                return True
            if self._finishing:
                return not self.journal.unstored_count
            waiting = len(self.sample_queue) + (0 if self._screen is None else len(self.queue))
            begun = self.mapper.initialised or (self._unlearned and self._screened)
            if not (begun or self._begins(waiting)):  # screening may have refused some since
                return False
            if self._unlearned:
                return not self.journal.unstored_count
            return self.queue.batch_due(now.unadjusted_ns)

    def work(self, now: Moment) -> Iterator[LoopEvent]:
        """Screen the batch that is due, update the model and draw the map; yields the events."""
        updater = self._updater
        with self._lock:
            resetting, self._resetting = self._resetting, False
            if resetting:  # what was queued after it belongs to the new map
                self._recovery = None
            elif self._recovery is None:
                final, self._finishing = self._finishing, False
        if resetting:
            updater.reset()
            if self._screen is not None:
                self._screen.clear()
            self.verdicts.clear()
            yield ModelReset()
            return
        if self._recovery is not None:
            yield from self._repeat(self._recovery, now)
            return
        yield from self._screen_batch(now, final)
        with self._lock:
            batch = None if self._resetting else self._take()
            if batch is None:  # accepted pings are learned once they are stored
                self._finishing |= final and not self._resetting
                return
        for outcome in self._learn(batch, now, TRIES if final else 1):
            yield outcome
            if self._resetting:
                return
        yield from updater.draw(now.ros_ns)
        if final and not self._resetting:
            yield MissionFinished(updater.map, self.mapper.data)
            self._updater.set_finished(True)
        yield from self._write_checkpoint(now)

    def wrap_up(self, now: Moment) -> Iterator[LoopEvent]:
        """Learn the waiting pings and draw the last map when a mission is interrupted. ``work``
        must not be called any more."""
        if self._resetting:
            self._updater.reset()
        if self._resetting or self._recovery is not None:
            return
        end = time.monotonic() + DISK_S
        while self.journal.unstored_count and time.monotonic() < end:
            self.add(Samples.empty(), now.unadjusted_ns)  # takes the stored pings
            time.sleep(0.01)
        with self._lock:
            batch = self.sample_queue.take() if self.mapper.initialised else Samples.empty()
        yield from self._learn(batch, now, 1)
        yield from self._updater.draw(now.ros_ns)

    def failed(self, error: Exception, outcome: str) -> Message:
        """Count a failure of the caller in processing an event; returns the message."""
        return self._updater.failed(error, outcome).message

    def _repeat(self, recovery: Recovery, now: Moment) -> Iterator[LoopEvent]:
        """Repeat the journal's steps; its pings without a step go first in the queue."""
        for outcome in recovery.run(self._updater, now.ros_ns):
            yield outcome
            if self._resetting:
                return
        self.verdicts.recover(recovery)
        with self._lock:
            if not self._resetting:
                self._recovery = None
                self.sample_queue.put_back(recovery.unlearned, now.unadjusted_ns, retry=False)

    def _screen_batch(self, now: Moment, final: bool) -> Iterator[LoopEvent]:
        """Screen the waiting pings. The accepted ones are learned before more are screened, so that
        a screening depends only on the pings before it."""
        screen, mapper = self._screen, self.mapper
        if screen is None or (self._unlearned and not final):
            return
        if self._problem:
            text, self._problem = self._problem, ""
            yield Problem(Message("screen", text), error=False)
        with self._lock:
            if self._resetting:  # the waiting pings came after it
                return
            fresh = self._in_screening = self.queue.take()
        if not len(fresh) and not (final and len(self.held)):
            return
        predict = mapper.predict if mapper.initialised else None
        try:
            try:
                result = screen.screen(fresh, predict, final)
            except Exception as error:
                yield self._updater.failed(error, "pings are screened without the map")
                result = screen.screen(fresh, None, final)
        except BaseException:  # Ctrl-C: no ping is lost
            with self._lock:
                if not self._resetting:
                    self.queue.put_back(fresh, now.unadjusted_ns, retry=True)
                    self._in_screening = Samples.empty()
            raise
        passed, held, refused = result.accepted, result.held, result.refused
        with self._lock:
            if self._resetting:  # these pings were refused
                return
            self._in_screening, self.held = Samples.empty(), held
            self._unlearned |= len(passed) > 0
            self._screened = int(fresh.number[-1]) + 1 if len(fresh) else self._screened
            passed = self.ledger.screen(len(fresh), passed, held, FALSE_ECHO, refused)
            screening_state = ScreeningState(self._screened, held, screen.dump_state())
            accepted = self._store(passed, now.unadjusted_ns, screening_state)
        yield PingsScreened(accepted, held, refused)

    def _take(self) -> Samples | None:
        """The batch of the update; None: some accepted pings are not stored yet."""
        if self._screen is not None and self.journal.unstored_count:
            return None
        self._unlearned = False
        return self.sample_queue.take()

    def _learn(self, batch: Samples, now: Moment, tries: int) -> Iterator[LoopEvent]:
        """Learn a batch, with at most ``tries`` tries; retries include the pings accepted since."""
        queue = self.sample_queue
        while len(batch) and tries:
            try:
                steps, events = self.verdicts.decide(batch, now.ros_ns)
                self._record(steps)
                outcome, retry = self._updater.learn(batch)
            except BaseException:  # Ctrl-C: no ping is lost
                with self._lock:
                    queue.put_back(batch, now.unadjusted_ns, retry=True)
                raise
            if not retry:
                self.verdicts.learned()
                if outcome is not None:
                    report = getattr(outcome, "report", None)  # a dropped batch has none
                    self._record([JournalStep.of(batch, report, now.ros_ns)])
            batch, tries = batch if retry else Samples.empty(), tries - 1
            with self._lock:
                if not self._resetting:
                    queue.put_back(batch, now.unadjusted_ns, retry=True)
                    batch = queue.take() if retry and tries else Samples.empty()
            yield from events
            if outcome is not None:
                yield outcome

    def _record(self, steps: Sequence[JournalStep]) -> None:
        """Write steps to the journal, all or nothing."""
        with self._lock:
            if not self._resetting:
                self.journal.append_steps(steps)

    def _write_checkpoint(self, now: Moment) -> Iterator[LoopEvent]:
        """Write a checkpoint if one is due."""
        with self._lock:
            mark = None if self._resetting else self.journal.checkpoint_due(now)
        if mark is not None and (text := self.journal.checkpoint(mark, self.mapper)):
            yield Problem(Message("checkpoint", text))

    def _store(
        self, accepted: Samples, now_ns: int, screening_state: ScreeningState | None = None
    ) -> Samples:
        """Append pings to the journal, with those refused meanwhile; queue the stored ones for the
        model and return them."""
        stored = self.journal.append(accepted, screening_state, self.ledger.refused.take_new())
        self.sample_queue.add(stored, now_ns)
        return stored
