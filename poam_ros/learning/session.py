"""The model loop (judge, update, draw, checkpoint, recover), the same behind a front end, and a
thread that runs it.

The mapper node, lock-step missions and ``poam map`` run the same loop. It needs no thread and has
no clock: the caller passes the time.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..core.clock import Moment
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.samples import BatchPolicy, SampleQueue, Samples
from ..frontend.events import EXPLORING, PILOT, LoopEvent, MissionFinished, ModelReset, Problem
from ..frontend.front_end import OVERLOAD, FrontEnd
from ..frontend.odometry import OdometryRefused, VehicleState
from ..frontend.pings import FrontEndSettings, RawPing
from ..frontend.refused_pings import WITHDRAWN, Ledger, RefusedPings
from ..journal.tables import DROP, UPDATE, JournalStep
from ..journal.writer import Journal
from ..screening import ScreeningSettings
from .recovery import Recovery
from .updater import TRIES, BatchVerdicts, ModelUpdater, UpdaterStatus

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

NO_SCREENING = ScreeningSettings()
#: Longest wait for the last pings to be stored, in s, before the last map is drawn without them.
DISK_S = 2.0


class ModelLoop:
    """Placed pings in; maps and other events out.

    A ping is accepted as soon as it is placed, and waits for the model's next batch once it is
    stored. With screening, verdicts on it and on older pings are part of that batch: pings that are
    no bottom are withdrawn. ``work`` may be called on a thread of its own; all other methods return
    at once, and are called on one other thread.

    Args:
        mapper: the model.
        ledger: counts the pings.
        policy: decides when a batch is due.
        grid: of the maps; None: none are drawn.
        screening: whether false echoes are withdrawn.
        begins: takes a number of pings; whether they may be the first batch.

    Attributes:
        sample_queue: accepted pings that wait for the model; its policy may be replaced.
        journal: accepted pings count once they are stored in it.
        verdicts: on accepted pings.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        ledger: Ledger,
        policy: BatchPolicy,
        grid: Grid | None = None,
        screening: ScreeningSettings = NO_SCREENING,
        begins: Callable[[int], bool] = lambda samples: True,
    ) -> None:
        self.mapper, self.ledger, self.grid = mapper, ledger, grid
        self._updater = ModelUpdater(mapper, grid)
        self.journal = Journal()
        self._begins = begins
        self.verdicts = BatchVerdicts(self._updater, screening)
        self.sample_queue = SampleQueue(policy)
        self._recovery: Recovery | None = None  # steps that are still to be repeated
        # A reset that the model has not done yet: until then its events are discarded.
        self._resetting = False
        self._finishing = False
        # Guards queue, flags and the journal; never held while the model works.
        self._lock = threading.Lock()

    @property
    def stored(self) -> int:
        """Accepted and stored pings since the beginning or the last reset."""
        return self.ledger.samples - self.journal.unstored_count

    @property
    def samples(self) -> int:
        """Those of them that are not withdrawn now."""
        recovery = self._recovery
        withdrawn = self.status.withdrawn if recovery is None else recovery.withdrawn
        return self.stored - (0 if self._resetting else withdrawn)

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
        if self._recovery:
            return Samples.joined([self._recovery.in_use, waiting])
        # Reinstated pings wait, too: after a failed update they are in the next batch.
        return Samples.joined([self.mapper.data, self._updater.withdrawals.to_learn(waiting)])

    @property
    def withdrawn(self) -> Samples:
        """The accepted pings that are withdrawn."""
        return Samples.empty() if self._resetting else self._updater.withdrawals.withdrawn

    @property
    def refused_and_withdrawn(self) -> RefusedPings:
        """The newest refused pings, and the accepted ones that are withdrawn."""
        pings = self.withdrawn
        return self.ledger.refused.more(WITHDRAWN, pings.stamp_ns, pings.xyz)

    def recover(self, journal: Journal, recovery: Recovery) -> None:
        """Write a journal, and recover what it holds first. Call before anything else."""
        self.journal, self._recovery = journal, recovery or None
        self.ledger.recover(len(recovery.data), recovery.refused)

    def add(self, accepted: Samples, now_ns: int) -> Samples:
        """Queue accepted pings; returns those, or earlier ones, that are now stored."""
        with self._lock:
            stored = self.journal.append(accepted, self.ledger.take_refused())
            self.sample_queue.add(stored, now_ns)
            return stored

    def add_soundings(self, soundings: Samples, now_ns: int) -> Samples:
        """Like ``add``, for soundings that no front end has counted."""
        self.ledger.receive(len(soundings))
        return self.add(self.ledger.accept(soundings), now_ns)

    def waypoint_reached(self) -> None:
        """The vehicle has reached a waypoint."""
        with self._lock:
            self.sample_queue.waypoint_reached()

    def finish(self) -> None:
        """The mission is done: all waiting pings are the last batch."""
        with self._lock:
            self._finishing = True
            self.status.finished = False

    def reset(self, now_ns: int) -> None:
        """Forget all waiting pings now; clear model and map with the next ``work``."""
        with self._lock:
            self._resetting, self._finishing = True, False
            self.journal.append(Samples.empty(), self.ledger.take_refused())
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
            if not (self.mapper.initialised or self._begins(len(self.sample_queue))):
                return False
            return self.sample_queue.batch_due(now.unadjusted_ns)

    def work(self, now: Moment) -> Iterator[LoopEvent]:
        """Judge the batch that is due, update the model and draw the map; yields the events."""
        with self._lock:
            resetting, self._resetting = self._resetting, False
            if resetting:  # what was queued after it belongs to the new map
                self._recovery = None
            elif self._recovery is None:
                final, self._finishing = self._finishing, False
                batch = self.sample_queue.take()
        if resetting:
            self._updater.reset()
            self.verdicts.clear()
            yield ModelReset()
            return
        if self._recovery is not None:
            yield from self._repeat(self._recovery, now)
            return
        for outcome in self._learn(batch, now, TRIES if final else 1, final):
            yield outcome
            if self._resetting:
                return
        yield from self._updater.draw(now.ros_ns)
        if final and not self._resetting:
            yield MissionFinished(self.map, self.mapper.data)
            self.status.finished = True
        with self._lock:
            mark = None if self._resetting else self.journal.checkpoint_due(now)
        if mark is not None and (text := self.journal.checkpoint(mark, self.mapper)):
            yield Problem("checkpoint", text)

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
        yield from self._learn(batch, now, 1, True)
        yield from self._updater.draw(now.ros_ns)

    def failed(self, error: Exception, outcome: str) -> Problem:
        """Count a failure of the caller in processing an event; returns its own event."""
        return self._updater.failed(error, outcome)

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

    def _learn(self, batch: Samples, now: Moment, tries: int, final: bool) -> Iterator[LoopEvent]:
        """Learn a batch, with at most ``tries`` tries; retries include the pings accepted since.
        Unless it is ``final``, unconfirmed pings at its end wait for the next."""
        queue = self.sample_queue
        while len(batch) and tries:
            try:
                steps, events = self.verdicts.decide(batch, now.ros_ns)
                self._record(steps)
                count = len(batch) - (0 if final else self.verdicts.unconfirmed(batch))
                taken, left = batch[:count], batch[count:]
                limit = queue.policy.update_budget
                outcome, retry = self._updater.learn(taken, limit) if count else (None, True)
            except BaseException:  # Ctrl-C: no ping is lost
                with self._lock:
                    queue.put_back(batch, now.unadjusted_ns, retry=True)
                raise
            if not retry:
                first, last = taken.number[[0, -1]].tolist()
                report = getattr(outcome, "report", None)
                kind, trained = (DROP, 0) if report is None else (UPDATE, report.steps)
                self._record([JournalStep(kind, first, last, trained, now.ros_ns)])
            left, tries = batch if retry else left, tries - 1
            with self._lock:
                if not self._resetting:
                    queue.put_back(left, now.unadjusted_ns, retry=True)
                    batch = queue.take() if retry and tries else Samples.empty()
            yield from events
            if outcome is not None:
                yield outcome

    def _record(self, steps: Sequence[JournalStep]) -> None:
        with self._lock:
            if not self._resetting:
                self.journal.append_steps(steps)


class SurveySession(ModelLoop):
    """What arrives is taken by methods that return at once; ``work`` runs the model.

    It may be called on a thread of its own; all others are called on one thread. The first batch is
    due when the pilot survey is over: when the mission is exploring or done or, without a mission
    state, after ``pilot_samples``.

    Args:
        front_end: how pings are placed.
        pilot_samples: see above.
        mapper, policy, grid, screening: see ``ModelLoop``.

    Attributes:
        front_end: takes mounts and levels as well. ``pilot``: its pilot survey.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        front_end: FrontEndSettings,
        policy: BatchPolicy,
        grid: Grid | None = None,
        pilot_samples: int = 500,
        screening: ScreeningSettings = NO_SCREENING,
    ) -> None:
        self.front_end = FrontEnd(front_end, pilot_samples)
        self.pilot = self.front_end.pilot
        ledger, begins = self.front_end.ledger, self.pilot.over
        super().__init__(mapper, ledger, policy, grid, screening, begins)

    def recover(self, journal: Journal, recovery: Recovery) -> None:
        """See ``ModelLoop``; call before anything else."""
        super().recover(journal, recovery)
        self.pilot.after_reset = recovery.after_reset

    def odometry(self, state: VehicleState | OdometryRefused, now: Moment) -> None:
        """Take a state of the vehicle."""
        self.front_end.odometry(state, now)

    def ping(self, ping: RawPing, now: Moment) -> None:
        """Take a ping; ``tick`` places it."""
        # The disk, or the model, is too slow.
        full = "log_full" if self.journal.full else OVERLOAD if self.sample_queue.full else ""
        self.front_end.ping(ping, now, full)

    def tick(self, now: Moment) -> Samples:
        """Place pings, and queue the accepted ones; returns those that are stored now."""
        return self.add(self.front_end.take(now), now.unadjusted_ns)

    def mission(self, state: str, now: Moment) -> None:
        """Take the state of the mission."""
        if state in (PILOT, EXPLORING):
            self.status.finished = False  # more pings follow after all
        last = self.front_end.mission(state, now)
        if last is not None:
            self.add(last, now.unadjusted_ns)
            self.finish()

    def reset(self, now_ns: int) -> None:
        """See ``ModelLoop``."""
        super().reset(now_ns)
        self.front_end.reset()


log = logging.getLogger(__name__)

POLL_PERIOD_S = 0.05  # between checks whether a batch is due: also by its age
ERROR_PAUSE_S = 0.5  # after an unexpected error


class ModelThread:
    """Runs a session's ``work`` and passes its events on.

    Args:
        session: its events are handled on one other thread.
        now: returns the time; called on this thread as well.
        take: called on this thread with every event. Its errors are counted like any other, and
            passed to it as ``Problem``.
    """

    def __init__(
        self, session: SurveySession, now: Callable[[], Moment], take: Callable[[LoopEvent], None]
    ) -> None:
        self._session, self._now, self._take = session, now, take
        self._changed = threading.Condition()
        self._stopping = False
        # A daemon: an update in progress does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Check for work at once."""
        with self._changed:
            self._changed.notify()

    def stop(self, timeout: float = 5.0) -> bool:
        """End the thread; whether it ended within the timeout (s)."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stopping:
            try:
                with self._changed:
                    while not (self._stopping or self._session.due(self._now())):
                        self._changed.wait(POLL_PERIOD_S)
                for outcome in () if self._stopping else self._session.work(self._now()):
                    if self._stopping:
                        return
                    try:
                        self._take(outcome)
                    except Exception as error:
                        self._report_error(error)
            except Exception as error:  # whatever it is, the thread continues and reports it
                self._report_error(error)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, ERROR_PAUSE_S)

    def _report_error(self, error: Exception) -> None:
        if self._stopping:  # publishing fails while a node is shut down
            return
        try:
            self._take(self._session.failed(error, traceback.format_exc()))
        except Exception:
            log.exception("a failure cannot be reported")
