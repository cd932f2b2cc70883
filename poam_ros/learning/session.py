"""The survey session: a front end with a model loop, for the node and lock-step missions."""

from __future__ import annotations

from ..core.clock import Moment
from ..core.geometry import Grid
from ..core.samples import Samples
from ..frontend.batching import DEFAULT_TRAINING, BatchPolicy, TrainingSettings
from ..frontend.events import EXPLORING, PILOT
from ..frontend.front_end import OVERLOAD, FrontEnd
from ..frontend.odometry import OdometryRefused, VehicleState
from ..frontend.ranges import RawPing
from ..frontend.settings import FrontEndSettings
from ..journal.interface import Journal
from ..screening import ScreeningSettings
from .loop import NO_SCREENING, ModelLoop
from .recovery import Recovery
from .updater import MapModel


class SurveySession(ModelLoop):
    """What arrives is taken by methods that return at once; ``work`` runs the model.

    It may be called on a thread of its own; all others are called on one thread. The first batch is
    due when the pilot survey is over: when the mission is exploring or done or, without a mission
    state, after ``pilot_samples``.

    Args:
        front_end: how pings are placed.
        pilot_samples: see above.
        mapper, policy, grid, training, screening: see ``ModelLoop``.

    Attributes:
        front_end: takes mounts and levels as well. ``pilot``: its pilot survey.
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
        """See ``ModelLoop``; call before anything else."""
        super().recover(journal, recovery)
        self.pilot.after_reset = recovery.after_reset

    def odometry(self, state: VehicleState | OdometryRefused, now: Moment) -> None:
        """Take a state of the vehicle."""
        self.front_end.odometry(state, now)

    def ping(self, ping: RawPing, now: Moment) -> None:
        """Take a ping; ``tick`` places it."""
        # The disk, or the model, is too slow.
        full = "log_full" if self.journal.full else OVERLOAD if self.full else ""
        self.front_end.ping(ping, now, full)

    def tick(self, now: Moment) -> Samples:
        """Place pings, and queue the accepted ones; returns those that are stored now."""
        return self.add(self.front_end.take(now), now.unadjusted_ns)

    def mission(self, state: str, now: Moment) -> None:
        """Take the state of the mission."""
        if state in (PILOT, EXPLORING):
            self.reopen()
        last = self.front_end.mission(state, now)
        if last is not None:
            self.add(last, now.unadjusted_ns)
            self.finish()

    def reset(self, now_ns: int) -> None:
        """See ``ModelLoop``."""
        super().reset(now_ns)
        self.front_end.reset()
