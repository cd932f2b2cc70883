"""The front end: events in; placed pings and refusals out. One, for every driver.

A vehicle's node, a mission in lock-step and a recording feed the same one. It has no thread and no
clock: whoever drives it says what time it is.
"""

from __future__ import annotations

from ..core.clock import Moment
from ..core.errors import shown
from ..core.samples import Samples
from . import events
from .events import DONE, EXPLORING, PAUSED, PILOT, STATES, WAITING, Event, Handled, Note
from .gate import AFTER_MISSION, PingGate
from .ledger import Ledger
from .odometry import VehicleState
from .ranges import RawPing
from .settings import GateSettings

NOTHING = Handled()


class PilotSurvey:
    """Over when the mission explores or is done or, where nobody says so, after enough pings.

    Attributes:
        samples: how many are enough; may be replaced at any time.
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

    def resume(self, anew: bool) -> None:
        """Go on after a restart; ``anew``: of a mission that was reset."""
        self.anew = anew

    def over(self, samples: int) -> bool:
        """Whether it is, after so many pings."""
        enough = samples >= self.samples
        if self.anew:
            return enough
        return self.state in (EXPLORING, DONE) or (enough and not self.awaited)


class FrontEnd:
    """Takes what happens, and returns at once.

    Args:
        settings: how pings are placed.
        pilot_samples: of the pilot survey, where nobody announces the mission's states.
        screened: whether placed pings are judged before they are accepted.

    Attributes:
        gate: places pings. ``ledger``: counts them. ``pilot``: the first batch waits for its end.
    """

    def __init__(
        self, settings: GateSettings, pilot_samples: int = 500, screened: bool = False
    ) -> None:
        self.gate = PingGate(settings, screened)
        self.pilot = PilotSurvey(pilot_samples)

    @property
    def ledger(self) -> Ledger:
        """What became of every ping."""
        return self.gate.ledger

    def handle(self, event: Event, now: Moment, full: bool = False) -> Handled:
        """Take what happened; ``full``: whether there is no room for what would be accepted."""
        match event:
            case VehicleState():
                return self._add_odometry(event)
            case RawPing() | events.Mount() | events.WaterLevel():
                self.gate.hear(event, now, full)
            case events.Tick():
                return self._placed(self.gate.take(now))
            case events.MissionState(name):
                return self._follow(name, now)
            case events.StatesAwaited(awaited):
                self.pilot.awaited = awaited
                if not awaited and (lifted := self.gate.reopen(PAUSED, WAITING)):
                    text = f"mission/state has no publisher any more: no longer {lifted}"
                    return Handled(note=Note("states_gone", text))
            case events.OdometryRefused(reason):
                self.ledger.odometry_rejected[reason] += 1
            case events.TimeSetBack():
                self.gate.restart()
                return Handled(note=Note("clock", "the clock was set back: waiting for odometry"))
            case events.SettingsChanged(gate, _, pilot_samples):
                self.gate.settings, self.pilot.samples = gate, pilot_samples
            case events.Reset():
                self.gate.reopen(AFTER_MISSION)
                self.pilot.reset()
        return NOTHING

    def _add_odometry(self, state: VehicleState) -> Handled:
        restarts = self.gate.buffer.restarts
        self.gate.add_odometry(state)
        if self.gate.buffer.restarts == restarts:
            return NOTHING
        return Handled(note=Note("odometry_set_back", "odometry was set back: starting anew"))

    def _placed(self, samples: Samples) -> Handled:
        return Handled(samples) if len(samples) else NOTHING

    def _follow(self, state: str, now: Moment) -> Handled:
        """Do as the mission's state asks."""
        if state not in STATES:
            text = f"mission/state: expected one of {', '.join(STATES)}, got '{shown(state)}'"
            return Handled(note=Note("unknown_state", text))
        previous = self.pilot.state
        self.pilot.follow(state)
        if state == DONE and previous != DONE:
            samples = self.gate.take(now)
            self.gate.finish()
            return Handled(samples, done=True)
        if state != DONE:
            self.gate.close(state if state in (PAUSED, WAITING) else None)
        return NOTHING
