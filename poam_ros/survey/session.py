"""A survey's front end: events in; samples, maps and refusals out. One, for every driver.

A vehicle's node, a mission in lock-step and a replay feed the same session: the same gate, screen,
batching and retries. It has no thread and no clock: whoever drives it says what time it is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..clock import Moment
from ..errors import shown
from ..geometry import Grid
from ..maps import ElevationMap
from ..samples import Samples
from . import events
from .acceptance import Acceptance
from .batching import Backlog, BatchPolicy
from .events import Event, Handled, Note, Outcome
from .gate import AFTER_MISSION, GateSettings, PingGate, RawPing
from .learner import TRIES, Learner, Status
from .odometry import VehicleState
from .screening import ScreeningSettings
from .states import DONE, EXPLORING, PAUSED, PILOT, STATES, WAITING

if TYPE_CHECKING:
    from ..mapping import BathymetricMapper

NOTHING, NO_SCREENING = Handled(), ScreeningSettings()


class Session:
    """``handle`` takes what happens and returns at once; ``work`` runs the model.

    They may be called on two threads, each of them on one. The first batch is closed when the
    pilot survey is over: when the mission explores or is done or, where nobody announces its
    states, after ``pilot_samples``.

    Args:
        mapper: the model.
        gate: how pings are placed.
        policy: when a batch closes; may be replaced at any time.
        grid: of the maps; None: none are drawn.
        pilot_samples: as above.
        screening: which pings are doubted.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        gate: GateSettings,
        policy: BatchPolicy,
        grid: Grid | None = None,
        pilot_samples: int = 500,
        screening: ScreeningSettings = NO_SCREENING,
    ) -> None:
        self.mapper, self.grid = mapper, grid
        self.gate = PingGate(gate)
        self.pilot_samples = pilot_samples
        self.mission_state: str | None = None
        #: Called with every event before it is handled; what it keeps can be replayed.
        self.record: Callable[[Moment, Event], object] | None = None
        self._learner = Learner(mapper, grid)
        self.backlog = Backlog(policy)  # accepted pings that wait for the model
        self.acceptance = Acceptance(self.gate, self.backlog, screening)
        self._lock = threading.Lock()  # of backlog, acceptance and what is asked for
        self._awaited = False  # somebody announces the mission's states
        self._anew = False  # reset, and the end of its pilot survey will not be announced
        self._finishing = self._resetting = False

    @property
    def samples(self) -> int:
        """Accepted pings since the beginning, or the last reset."""
        return self.gate.samples

    @property
    def status(self) -> Status:
        """What the model did so far."""
        return self._learner.status

    @property
    def map(self) -> ElevationMap | None:
        """The latest map, once whoever took it is done with it."""
        return self._learner.map

    def everything(self) -> Samples:
        """All accepted samples: the model's, then what waits for it. Not while ``work`` runs."""
        return Samples.joined([self.mapper.data, self.backlog.samples])

    def counts(self) -> dict[str, int]:
        """What became of all pings: received = accepted + held + pending + rejected."""
        with self._lock:
            return self.gate.counts()

    def handle(self, event: Event, now: Moment) -> Handled:
        """Take what happened; returns the samples that it made, and what is to be said of it."""
        if self.record is not None:
            self.record(now, event)
        match event:
            case VehicleState():
                return self._add_odometry(event)
            case RawPing() | events.Mount() | events.WaterLevel():
                self.gate.hear(event, now)
            case events.Tick():
                return self._place(now)
            case events.MissionState(name):
                return self._follow(name, now)
            case events.StatesAwaited(awaited):
                self._awaited = awaited
                if not awaited and (lifted := self.gate.reopen(PAUSED, WAITING)):
                    text = f"mission/state has no publisher any more: no longer {lifted}"
                    return Handled(note=Note("states_gone", text))
            case events.Arrived():
                with self._lock:
                    self.acceptance.queue.arrive()
            case events.OdometryRefused(reason):
                self.gate.odometry_rejected[reason] += 1
            case events.TimeSetBack():
                self.gate.restart()
                return Handled(note=Note("clock", "the clock was set back: waiting for odometry"))
            case events.SettingsChanged(gate, policy, pilot_samples):
                self.gate.settings, self.pilot_samples = gate, pilot_samples
                self.backlog.policy = self.acceptance.queue.policy = policy
            case events.Reset():
                self._ask_for_reset()
        return NOTHING

    def due(self, now: Moment) -> bool:
        """Whether there is work for the model now."""
        with self._lock:
            if self._finishing or self._resetting:
                return True
            if not self.mapper.initialised and not self._may_start():
                return False
            return self.acceptance.queue.closes(now.ros_ns)

    def work(self, now: Moment) -> Iterator[Outcome]:
        """Learn the batch that is due, draw the map, and yield what comes of each as it comes."""
        with self._lock:
            resetting, self._resetting = self._resetting, False
            if not resetting:
                final, self._finishing = self._finishing, False
                batch = self.acceptance.queue.take()
        if resetting:  # what was asked for and queued after it is the new map's: it stays
            self._learner.reset()
            self.acceptance.clear()
            yield events.Cleared()
            return
        if self.acceptance.on:
            yield from self._judge(batch, now, final)
            with self._lock:
                batch = self.backlog.take()
        for outcome in self._learn(batch, now, TRIES if final else 1):
            yield outcome
            if self._resetting:
                return
        yield from self._learner.draw(now.ros_ns)
        if final and not self._resetting:
            yield events.Finished(self._learner.map, self.mapper.data)
            self.status.finished = True

    def failed(self, error: Exception, outcome: str) -> Note:
        """Account for a failure of whoever takes what ``work`` yields."""
        return self._learner.failed(error, outcome).note

    def _judge(self, fresh: Samples, now: Moment, final: bool) -> Iterator[Outcome]:
        """Have placed pings judged: those that are believed go into the backlog."""
        try:
            file, trouble = self.acceptance.judge(fresh, self.mapper, final)
        except BaseException:  # Ctrl-C: what was measured is never lost
            with self._lock:
                if not self._resetting:
                    self.acceptance.queue.put_back(fresh, now.ros_ns, hold=True)
            raise
        with self._lock:
            outcomes = [] if self._resetting else [file(now.ros_ns)]
        if trouble is not None:
            outcomes.insert(0, self._learner.failed(trouble, "pings are judged without the map"))
        yield from outcomes

    def _learn(self, batch: Samples, now: Moment, tries: int) -> Iterator[Outcome]:
        """Try a batch; the mission's last one, with all that came since, a few times."""
        while len(batch) and tries:
            try:
                outcome, keep = self._learner.learn(batch)
            except BaseException:  # Ctrl-C: what was measured is never lost
                with self._lock:
                    self.backlog.put_back(batch, now.ros_ns, hold=True)
                raise
            batch, tries = Samples.empty() if not keep else batch, tries - 1
            with self._lock:
                if not self._resetting:
                    self.backlog.put_back(batch, now.ros_ns, hold=True)
                    batch = self.backlog.take() if keep and tries else Samples.empty()
            yield outcome

    def _may_start(self) -> bool:
        """Whether the pilot survey is over."""
        enough = self.acceptance.waiting >= self.pilot_samples
        if self._anew:  # after a reset in mid-mission nobody announces a pilot survey
            return enough
        if self.mission_state in (EXPLORING, DONE):
            return True
        return enough and not self._awaited

    def _add_odometry(self, state: VehicleState) -> Handled:
        restarts = self.gate.buffer.restarts
        self.gate.add_odometry(state)
        if self.gate.buffer.restarts == restarts:
            return NOTHING
        return Handled(note=Note("odometry_set_back", "odometry was set back: starting anew"))

    def _place(self, now: Moment) -> Handled:
        """Make samples of the pings that can be placed by now."""
        with self._lock:
            samples = self.acceptance.add(self.gate.take(now), now.ros_ns)
        return Handled(samples) if len(samples) else NOTHING

    def _follow(self, state: str, now: Moment) -> Handled:
        """Do as the mission's state asks."""
        if state not in STATES:
            text = f"mission/state: expected one of {', '.join(STATES)}, got '{shown(state)}'"
            return Handled(note=Note("unknown_state", text))
        previous, self.mission_state = self.mission_state, state
        self._awaited = True
        self._anew = self._anew and state not in (PILOT, DONE)
        if state == DONE and previous != DONE:
            handled = self._place(now)
            self.gate.finish()
            with self._lock:
                self._finishing, self.status.finished = True, False
            return handled
        if state in (PAUSED, WAITING):
            self.gate.closed = state
        elif state != DONE:
            self.gate.closed = None
            self.status.finished = False
        return NOTHING

    def _ask_for_reset(self) -> None:
        with self._lock:
            self._resetting, self._finishing = True, False
            self.backlog.clear()
            self.acceptance.forget()
            self.gate.renumber()
        self.gate.reopen(AFTER_MISSION)
        self._anew = self.mission_state != PILOT
