"""A survey: the front end and the model loop behind it, fed with events.

A vehicle's node and a mission in lock-step feed the same one: the same gate, screen, batching and
retries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.clock import Moment
from ..core.geometry import Grid
from ..frontend import events
from ..frontend.batching import DEFAULT_TRAINING, BatchPolicy, TrainingSettings
from ..frontend.events import EXPLORING, PILOT, Event, EventResult, Tick
from ..frontend.front_end import NOTHING, FrontEnd
from ..frontend.ranges import RawPing
from ..frontend.settings import GateSettings
from ..journal.interface import Journal
from ..screening.screen import ScreeningSettings
from .loop import NO_SCREENING, ModelLoop
from .recovery import Recovery

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper


class SurveySession(ModelLoop):
    """``handle`` takes what happens and returns at once; ``work`` runs the model.

    They may be called on two threads, each of them on one. The first batch is closed when the
    pilot survey is over: when the mission explores or is done or, where nobody announces its
    states, after ``pilot_samples``.

    Args:
        gate: how pings are placed.
        pilot_samples: as above.
        mapper, policy, grid, training, screening: as of ``ModelLoop``.

    Attributes:
        front_end: takes the events. ``pilot``: its pilot survey.
    """

    def __init__(
        self,
        mapper: BathymetricMapper,
        gate: GateSettings,
        policy: BatchPolicy,
        grid: Grid | None = None,
        pilot_samples: int = 500,
        training: TrainingSettings = DEFAULT_TRAINING,
        screening: ScreeningSettings = NO_SCREENING,
    ) -> None:
        self.front_end = FrontEnd(gate, pilot_samples, screening.enabled)
        self.pilot = self.front_end.pilot
        ledger, begins = self.front_end.ledger, self.pilot.over
        super().__init__(mapper, ledger, policy, grid, training, screening, begins)

    @property
    def mission_state(self) -> str | None:
        """As it was announced last; None before."""
        return self.pilot.state

    def recover(self, journal: Journal, recovery: Recovery) -> None:
        """Keep what happens, and take up first what was kept; before the first event."""
        super().recover(journal, recovery)
        self.pilot.recover(recovery.after_reset)

    def handle(self, event: Event, now: Moment) -> EventResult:
        """Take what happened; returns the samples that it made, and what is to be said of it."""
        full = False
        match event:
            case RawPing() if self.journal.full:
                self.ledger.refuse_arrival("log_full", event, now.steady_s)  # the disk is behind
                return NOTHING
            case RawPing():
                full = self.full
            case events.WaypointReached():
                self.waypoint_reached()
            case events.SettingsChanged(_, policy, _, training):
                self.change(policy, training)
            case events.ResetRequested():
                self.reset(now.ros_ns)
            case events.MissionStateChanged(state) if state in (PILOT, EXPLORING):
                self.reopen()
        handled = self.front_end.handle(event, now, full)
        if not (isinstance(event, Tick) or handled.done):
            return handled
        samples = self.add(handled.samples, now.ros_ns)
        if handled.done:
            self.finish()
        return EventResult(samples, done=handled.done)
