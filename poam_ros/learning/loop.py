"""The model loop: screen, learn, draw, checkpoint, repeat.

A vehicle's mapper, a mission in lock-step and the map of a log run the same one. It has no thread
and no clock: its caller says what time it is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

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
from ..journal.contents import JournalStep, ScreeningState
from ..journal.interface import Journal, NoJournal
from ..screening.screen import FALSE_ECHO, Screener, ScreeningSettings
from .recovery import Recovery
from .updater import TRIES, IdleTraining, ModelUpdater, UpdaterStatus

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: Why pings are refused that waited for screening, or were held, when all was to be forgotten.
RESET = "reset"
NO_SCREENING = ScreeningSettings()
#: How long the last pings may take to the disk, in s, before a map is left without them.
DISK_S = 2.0


class ModelLoop:
    """Placed pings in; maps, and what else comes of them, out.

    Without screening all pings are accepted at once. With it they wait in a queue of its own; when
    that closes, they are screened, and those accepted are the model's next batch, as soon as they
    are kept. ``work`` may be called on a thread of its own; all others return at once, on another.

    Args:
        mapper: the model.
        ledger: counts the pings.
        policy: when a batch closes.
        grid: of the maps; None: none are drawn.
        training: how much the model trains.
        screening: which pings are held or refused.
        begins: whether this number of pings may be the first batch.

    Attributes:
        backlog: accepted pings that wait for the model.
        queue: where new pings wait and close batches: the backlog, or that of the screening.
        held: placed pings that wait for confirmation.
        journal: keeps what is to outlive the process; accepted pings count once it has kept them.
        idle_training: trains on between batches, on the thread of ``work``.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
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
        self.sample_queue = SampleQueue(policy)
        self.queue = self.sample_queue if self._screen is None else SampleQueue(policy)
        self.held = Samples.empty()
        self._in_screening = Samples.empty()  # taken from the queue, and not counted elsewhere yet
        self._unlearned = False  # the last screening accepted some that the model has not seen
        self._placed = self._screened = 0  # pings, since the beginning or a reset
        self._problem = ""  # with what was remembered before a restart
        self._recovery: Recovery | None = None  # what is still to be repeated
        # A reset that the model has not seen: what it does until then belongs to no mission.
        self._resetting = False
        self._finishing = False
        # Of all that waits or is asked for, and of journal; never held while the model works.
        self._lock = threading.Lock()

    @property
    def samples(self) -> int:
        """Accepted pings since the beginning, or the last reset, that are kept."""
        return self.ledger.samples - self.journal.unstored_count

    @property
    def undecided(self) -> int:
        """Pings that wait for screening, or are held."""
        return self.ledger.unscreened + self.ledger.held

    @property
    def full(self) -> bool:
        """Whether no more should be taken: the model, or the screening, is that far behind."""
        return self.sample_queue.full or self.queue.full

    @property
    def status(self) -> UpdaterStatus:
        """What the model did so far."""
        return self._updater.status

    @property
    def map(self) -> ElevationMap | None:
        """The latest map, once whoever took it is done with it."""
        return self._updater.map

    def everything(self) -> Samples:
        """All accepted samples: the model's, then what waits for it. Not while ``work`` runs."""
        known = self._recovery or self.mapper
        return Samples.joined([known.data, self.sample_queue.samples, self.journal.unstored()])

    def recover(self, journal: Journal, recovery: Recovery) -> None:
        """Keep what happens, and take up first what was kept; before anything else.

        Without screening, what waited for it stays where it is kept until there is one again.
        """
        self.journal, self._recovery = journal, recovery or None
        held = waiting = Samples.empty()
        if self._screen is not None:
            screening_state, waiting = recovery.screening_state, recovery.waiting
            held, self._screened = screening_state.held, screening_state.screened
            self._placed = int(waiting.number[-1]) + 1 if len(waiting) else screening_state.screened
            try:
                if screening_state.screener or len(held):
                    self._screen.load_state(held, screening_state.screener)
            except InputError as error:
                self._problem = f"{error}: {len(held)} held pings are judged anew"
                waiting, held = Samples.joined([held, waiting]), Samples.empty()
            self.held = held
            self.queue.add(waiting, None)
            # As if there had been no restart: what was accepted is learned before more is screened.
            self._unlearned = len(recovery.unlearned) > 0
        settled = len(recovery.data), recovery.refused
        self.ledger.recover(*settled, len(waiting), len(held))

    def add(self, placed: Samples, now_ns: int) -> Samples:
        """Queue placed pings; returns those, or earlier ones, that count as accepted by now."""
        with self._lock:
            if self._screen is None:
                return self._keep(placed, now_ns)
            if len(placed):
                first, self._placed = self._placed, self._placed + len(placed)
                if self.ledger.numbering:
                    placed = replace(placed, number=np.arange(first, self._placed, dtype=np.int64))
                self.queue.add(placed, now_ns)
                self.journal.append_unscreened(placed)
            return self._keep(Samples.empty(), now_ns)

    def add_soundings(self, soundings: Samples, now_ns: int) -> Samples:
        """As ``add``, of soundings that came placed: no front end has counted them."""
        self.ledger.receive_placed(len(soundings))
        return self.add(soundings if self._screen else self.ledger.accept(soundings), now_ns)

    def waypoint_reached(self) -> None:
        """The vehicle is at a waypoint."""
        with self._lock:
            self.queue.waypoint_reached()

    def change(self, policy: BatchPolicy, training: TrainingSettings) -> None:
        """From now on batches close, and the model trains, by these."""
        self.sample_queue.policy = self.queue.policy = policy
        self._updater.training = training

    def finish(self) -> None:
        """Nothing comes after this: what waits is the last batch."""
        with self._lock:
            self._finishing, self.status.finished = True, False

    def reopen(self) -> None:
        """More comes after all."""
        self.status.finished = False

    def reset(self, now_ns: int) -> None:
        """Forget all that waits now, and model and map with the next work."""
        with self._lock:
            self._resetting, self._finishing = True, False
            forgotten = [self.held, self._in_screening]
            if self._screen is not None:
                forgotten.append(self.queue.samples)
            self.ledger.reset(RESET, Samples.joined(forgotten))
            self.journal.append(Samples.empty(), refused=self.ledger.refused.take_new())
            self.held = self._in_screening = Samples.empty()
            self._unlearned, self._problem = False, ""
            self._placed = self._screened = 0
            self.queue.clear()
            self.sample_queue.clear()
            self.journal.reset(now_ns)
            self.ledger.restart()

    def due(self, now: Moment) -> bool:
        """Whether there is work for the model now."""
        with self._lock:
            if self._resetting or self._recovery is not None:
                return True
            if self._finishing:
                return not self.journal.unstored_count
            waiting = len(self.sample_queue) + (len(self.queue) if self._screen is not None else 0)
            if not self.mapper.initialised and not self._begins(waiting):
                return False
            return (
                not self.journal.unstored_count
                if self._unlearned
                else self.queue.batch_due(now.ros_ns)
            )

    def work(self, now: Moment) -> Iterator[LoopEvent]:
        """Screen and learn the batch that is due, draw the map, and yield what comes of each."""
        updater = self._updater
        with self._lock:
            resetting, self._resetting = self._resetting, False
            if resetting:  # what was asked for and queued after it is the new map's: it stays
                self._recovery = None
            elif self._recovery is None:
                final, self._finishing = self._finishing, False
        if resetting:
            updater.reset()
            if self._screen is not None:
                self._screen.clear()
            yield ModelReset()
            return
        if self._recovery is not None:
            yield from self._repeat(self._recovery, now)
            return
        yield from self._screen_batch(now, final)
        with self._lock:
            batch = None if self._resetting else self._take()
            if batch is None:  # what is accepted is learned once it is kept
                self._finishing |= final and not self._resetting
                return
        for outcome in self._learn(batch, now, TRIES if final else 1):
            yield outcome
            if self._resetting:
                return
        yield from updater.draw(now.ros_ns)
        if final and not self._resetting:
            yield MissionFinished(updater.map, self.mapper.data)
            self.status.finished = True
        yield from self._keep_model(now)

    def leave(self, now: Moment) -> Iterator[LoopEvent]:
        """Bring the map to where the log ends, when a mission is interrupted: what waits is
        learned. Nobody else calls ``work`` any more."""
        if self._resetting:
            self._updater.reset()
        if self._resetting or self._recovery is not None:
            return
        end = time.monotonic() + DISK_S
        while self.journal.unstored_count and time.monotonic() < end:
            self.add(Samples.empty(), now.ros_ns)  # takes what is kept by now
            time.sleep(0.01)
        with self._lock:
            batch = self.sample_queue.take() if self.mapper.initialised else Samples.empty()
        yield from self._learn(batch, now, 1)
        yield from self._updater.draw(now.ros_ns)

    def failed(self, error: Exception, outcome: str) -> Message:
        """Account for a failure of whoever takes what ``work`` yields."""
        return self._updater.failed(error, outcome).message

    def _repeat(self, recovery: Recovery, now: Moment) -> Iterator[LoopEvent]:
        """Bring the model to where its log ends; the pings that wait there come first in line."""
        for outcome in recovery.run(self._updater, now.ros_ns):
            yield outcome
            if self._resetting:
                return
        with self._lock:
            if not self._resetting:
                self._recovery = None
                self.sample_queue.put_back(recovery.unlearned, now.ros_ns, retry=False)

    def _screen_batch(self, now: Moment, final: bool) -> Iterator[LoopEvent]:
        """Screen what waits for it; what is accepted goes on to the model, and is learned before
        more is screened: a screening depends on nothing but the pings before it."""
        screen, mapper = self._screen, self.mapper
        if screen is None or (self._unlearned and not final):
            return
        if self._problem:
            text, self._problem = self._problem, ""
            yield Problem(Message("screen", text), error=False)
        with self._lock:
            if self._resetting:  # what waits here came after it
                return
            fresh = self._in_screening = self.queue.take()
        if not len(fresh) and not (final and len(self.held)):
            return
        predict = mapper.predict if mapper.initialised else None
        try:
            try:
                result = screen.screen(fresh, predict, final)
            except Exception as error:
                yield self._updater.failed(error, "pings are judged without the map")
                result = screen.screen(fresh, None, final)
        except BaseException:  # Ctrl-C: what was measured is never lost
            with self._lock:
                if not self._resetting:
                    self.queue.put_back(fresh, now.ros_ns, retry=True)
                    self._in_screening = Samples.empty()
            raise
        passed, held, refused = result.accepted, result.held, result.refused
        with self._lock:
            if self._resetting:  # it was counted as forgotten
                return
            self._in_screening, self.held = Samples.empty(), held
            self._unlearned |= len(passed) > 0
            self._screened = int(fresh.number[-1]) + 1 if len(fresh) else self._screened
            passed = self.ledger.screen(len(fresh), passed, held, FALSE_ECHO, refused)
            screening_state = ScreeningState(self._screened, held, screen.dump_state())
            accepted = self._keep(passed, now.ros_ns, screening_state)
        yield PingsScreened(accepted, held, refused)

    def _take(self) -> Samples | None:
        """The batch to be learned; None while some of what was accepted is not kept."""
        if self._screen is not None and self.journal.unstored_count:
            return None
        self._unlearned = False
        return self.sample_queue.take()

    def _learn(self, batch: Samples, now: Moment, tries: int) -> Iterator[LoopEvent]:
        """Try a batch; the mission's last one, with all that came since, a few times."""
        backlog = self.sample_queue
        while len(batch) and tries:
            try:
                outcome, keep = self._updater.learn(batch)
            except BaseException:  # Ctrl-C: what was measured is never lost
                with self._lock:
                    backlog.put_back(batch, now.ros_ns, retry=True)
                raise
            if not keep:
                report = getattr(outcome, "report", None)  # none of a batch that is given up
                self._record(JournalStep.of(batch, report, now.ros_ns))
            batch, tries = Samples.empty() if not keep else batch, tries - 1
            with self._lock:
                if not self._resetting:
                    backlog.put_back(batch, now.ros_ns, retry=True)
                    batch = backlog.take() if keep and tries else Samples.empty()
            yield outcome

    def _record(self, step: JournalStep) -> None:
        """Keep what the model did."""
        with self._lock:
            if not self._resetting:
                self.journal.append_step(step)

    def _keep_model(self, now: Moment) -> Iterator[LoopEvent]:
        """Keep the model's state if it is time to."""
        with self._lock:
            mark = None if self._resetting else self.journal.checkpoint_due(now)
        if mark is not None and (text := self.journal.checkpoint(mark, self.mapper)):
            yield Problem(Message("checkpoint", text))

    def _keep(
        self, accepted: Samples, now_ns: int, screening_state: ScreeningState | None = None
    ) -> Samples:
        """Have accepted pings kept, and who was refused meanwhile; what is kept by now, these or
        earlier ones, waits for the model."""
        kept = self.journal.append(accepted, screening_state, self.ledger.refused.take_new())
        self.sample_queue.add(kept, now_ns)
        return kept
