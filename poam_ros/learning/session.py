"""The survey session: a front end with a model loop, for the node and lock-step missions."""

from __future__ import annotations

from ..core.clock import Moment
from ..core.geometry import Grid
from ..frontend import events
from ..frontend.batching import DEFAULT_TRAINING, BatchPolicy, TrainingSettings
from ..frontend.events import EXPLORING, PILOT, Event, EventResult, Tick
from ..frontend.front_end import NOTHING, FrontEnd
from ..frontend.ranges import RawPing
from ..frontend.settings import FrontEndSettings
from ..journal.interface import Journal
from ..screening import ScreeningSettings
from .loop import NO_SCREENING, ModelLoop
from .recovery import Recovery
from .updater import MapModel


class SurveySession(ModelLoop):
    """``handle`` takes an event and returns at once; ``work`` runs the model.

    They may be called on two threads, each always on the same. The first batch is due when the
    pilot survey is over: when the mission is exploring or done or, without a mission state, after
    ``pilot_samples``.

    Args:
        front_end: how pings are placed.
        pilot_samples: see above.
        mapper, policy, grid, training, screening: see ``ModelLoop``.

    Attributes:
        front_end: takes the events. ``pilot``: its pilot survey.
    """

    def __init__(
        self,
        mapper: MapModel,
        front_end: FrontEndSettings,
        policy: BatchPolicy,
        grid: Grid | None = None,
        pilot_samples: int = 500,
        training: TrainingSettings = DEFAULT_TRAINING,
        screening: ScreeningSettings = NO_SCREENING,
    ) -> None:
        self.front_end = FrontEnd(front_end, pilot_samples)
        self.pilot = self.front_end.pilot
        ledger, begins = self.front_end.ledger, self.pilot.over
        super().__init__(mapper, ledger, policy, grid, training, screening, begins)

    @property
    def mission_state(self) -> str | None:
        """The last mission state received; None before the first."""
        return self.pilot.state

    def recover(self, journal: Journal, recovery: Recovery) -> None:
        """See ``ModelLoop``; call before the first event."""
        super().recover(journal, recovery)
        self.pilot.recover(recovery.after_reset)

    def handle(self, event: Event, now: Moment) -> EventResult:
        """Handle an event; returns the samples accepted by it, and what shall be logged."""
        full = False
        match event:
            case RawPing() if self.journal.full:
                self.ledger.refuse_arrival("log_full", event, now.steady_s)  # the disk is too slow
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
        samples = self.add(handled.samples, now.unadjusted_ns)
        if handled.done:
            self.finish()
        return EventResult(samples, done=handled.done)
