"""A survey's front end: events in; samples, maps and refusals out. One, for every driver.

A vehicle's node, a mission in lock-step and a replay feed the same session: the same gate, screen,
batching and retries. It has no thread and no clock: whoever drives it says what time it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ..core.clock import Moment
from ..core.errors import shown
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.samples import Samples
from ..frontend import events
from ..frontend.batching import NO_EFFORT, Backlog, BatchPolicy, Effort
from ..frontend.events import (
    DONE,
    EXPLORING,
    PAUSED,
    PILOT,
    STATES,
    WAITING,
    Event,
    Handled,
    Note,
    Outcome,
)
from ..frontend.gate import AFTER_MISSION, GateSettings, PingGate, RawPing
from ..frontend.odometry import VehicleState
from ..journal.interface import Keeping
from ..screening.screen import ScreeningSettings
from .acceptance import Acceptance
from .learner import TRIES, Learner, Status
from .recovery import Chronicle, Resumption
from .spare_time import SpareTime

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

class PilotSurvey:
    """Over when the mission explores or is done or, where nobody says so, after enough pings.

    Attributes:
        samples: how many are enough.
        state: of the mission, as it was announced last; None before.
        awaited: whether there is somebody who announces it.
        anew: after a reset in mid-mission the end of its pilot survey will not be announced.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.state: str | None = None
        self.awaited = self.anew = False

    def follow(self, state: str) -> None:
        """The mission is in another state."""
        self.state, self.awaited = state, True
        self.anew = self.anew and state not in (PILOT, DONE)

    def reset(self) -> None:
        """Model and data are forgotten."""
        self.anew = self.state != PILOT

    def over(self, samples: int) -> bool:
        """Whether it is, after so many pings."""
        enough = samples >= self.samples
        if self.anew:
            return enough
        return self.state in (EXPLORING, DONE) or (enough and not self.awaited)


#: How long the last pings may take to the disk, in s, before a map is left without them.
DISK_S = 2.0
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
        effort: how much the model trains.
        screening: which pings are doubted.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        gate: GateSettings,
        policy: BatchPolicy,
        grid: Grid | None = None,
        pilot_samples: int = 500,
        effort: Effort = NO_EFFORT,
        screening: ScreeningSettings = NO_SCREENING,
    ) -> None:
        self.mapper, self.grid = mapper, grid
        self.gate = PingGate(gate)
        self.pilot = PilotSurvey(pilot_samples)
        #: Called with every event before it is handled; what it keeps can be replayed.
        self.record: Callable[[Moment, Event], object] | None = None
        self.chronicle = Chronicle()
        self._learner = Learner(mapper, grid, effort)
        #: Trains on between batches, on the thread of ``work``.
        self.spare = SpareTime(self._learner, self.chronicle.record)
        self.backlog = Backlog(policy)  # accepted pings that wait for the model
        self.acceptance = Acceptance(self.gate, self.backlog, self.chronicle, screening)
        self._lock = self.chronicle.lock  # of backlog, acceptance and what is asked for
        self._finishing = False

    @property
    def keeping(self) -> Keeping:
        """Who keeps what is to outlive the process."""
        return self.chronicle.keeping

    @property
    def samples(self) -> int:
        """Accepted pings since the beginning, or the last reset, that are kept."""
        return self.gate.samples - self.keeping.waiting

    @property
    def mission_state(self) -> str | None:
        """As it was announced last; None before."""
        return self.pilot.state

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
        known = self.chronicle.resumption or self.mapper
        return Samples.joined([known.data, self.backlog.samples, self.keeping.rest()])

    def go_on(self, keeping: Keeping, resumption: Resumption) -> None:
        """Keep what happens, and take up first what was kept; before the first event."""
        self.chronicle.keeping = keeping
        self.chronicle.resumption, self.pilot.anew = resumption or None, resumption.anew
        self.gate.renumber(len(resumption.data))
        self.acceptance.go_on(resumption)

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
            case RawPing() if self.keeping.full:
                self.gate.refuse(event, "log_full", now)  # the disk does not come after them
            case RawPing() | events.Mount() | events.WaterLevel():
                self.gate.hear(event, now, self.acceptance.full)
            case events.Tick():
                return self._place(now)
            case events.MissionState(name):
                return self._follow(name, now)
            case events.StatesAwaited(awaited):
                self.pilot.awaited = awaited
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
            case events.SettingsChanged(gate, policy, pilot_samples, effort):
                self.gate.settings, self.pilot.samples = gate, pilot_samples
                self.acceptance.follow(policy)
                self._learner.effort = effort
            case events.Reset():
                self._ask_for_reset(now)
        return NOTHING

    def due(self, now: Moment) -> bool:
        """Whether there is work for the model now."""
        with self._lock:
            if self.chronicle.resetting or self.chronicle.resumption is not None:
                return True
            if self._finishing:
                return not self.keeping.waiting
            if not self.mapper.initialised and not self.pilot.over(self.acceptance.waiting):
                return False
            return self.acceptance.closes(now.ros_ns)

    def work(self, now: Moment) -> Iterator[Outcome]:
        """Learn the batch that is due, draw the map, and yield what comes of each as it comes."""
        chronicle = self.chronicle
        with self._lock:
            resetting, chronicle.resetting = chronicle.resetting, False
            if resetting:  # what was asked for and queued after it is the new map's: it stays
                chronicle.resumption = None
            elif chronicle.resumption is None:
                final, self._finishing = self._finishing, False
        if resetting:
            self._learner.reset()
            self.acceptance.clear()
            yield events.Cleared()
            return
        if chronicle.resumption is not None:
            yield from chronicle.take_up(self._learner, self.backlog, now)
            return
        yield from self.acceptance.judge(self._learner, now, final)
        with self._lock:
            batch = None if chronicle.resetting else self.acceptance.take()
            if batch is None:  # what is believed is learned once it is kept
                self._finishing |= final and not chronicle.resetting
                return
        for outcome in self.acceptance.learn(batch, self._learner, now, TRIES if final else 1):
            yield outcome
            if chronicle.resetting:
                return
        yield from self._learner.draw(now.ros_ns)
        if final and not chronicle.resetting:
            yield events.Finished(self._learner.map, self.mapper.data)
            self.status.finished = True
        yield from chronicle.keep_model(self._learner, now)

    def leave(self, now: Moment) -> Iterator[Outcome]:
        """Bring the map to where the log ends, when a mission is interrupted: what waits is
        learned. Nobody else runs the model any more."""
        chronicle = self.chronicle
        if chronicle.resetting:
            self._learner.reset()
        if chronicle.resetting or chronicle.resumption is not None:
            return
        end = time.monotonic() + DISK_S
        while self.keeping.waiting and time.monotonic() < end:
            self.handle(events.Tick(), now)  # takes what is kept by now
            time.sleep(0.01)
        with self._lock:
            batch = self.backlog.take() if self.mapper.initialised else Samples.empty()
        yield from self.acceptance.learn(batch, self._learner, now, 1)
        yield from self._learner.draw(now.ros_ns)

    def failed(self, error: Exception, outcome: str) -> Note:
        """Account for a failure of whoever takes what ``work`` yields."""
        return self._learner.failed(error, outcome).note

    def _add_odometry(self, state: VehicleState) -> Handled:
        restarts = self.gate.buffer.restarts
        self.gate.add_odometry(state)
        if self.gate.buffer.restarts == restarts:
            return NOTHING
        return Handled(note=Note("odometry_set_back", "odometry was set back: starting anew"))

    def _place(self, now: Moment) -> Handled:
        """Place the pings that can be by now; what counts as accepted by that."""
        with self._lock:
            samples = self.acceptance.add(self.gate.take(now), now.ros_ns)
        return Handled(samples) if len(samples) else NOTHING

    def _follow(self, state: str, now: Moment) -> Handled:
        """Do as the mission's state asks."""
        if state not in STATES:
            text = f"mission/state: expected one of {', '.join(STATES)}, got '{shown(state)}'"
            return Handled(note=Note("unknown_state", text))
        previous = self.pilot.state
        self.pilot.follow(state)
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

    def _ask_for_reset(self, now: Moment) -> None:
        with self._lock:
            self.chronicle.resetting, self._finishing = True, False
            self.acceptance.forget()
            self.keeping.reset(now.ros_ns)
            self.gate.renumber()
        self.gate.reopen(AFTER_MISSION)
        self.pilot.reset()
