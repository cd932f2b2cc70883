"""Settings of a lock-step mission, apart from its terrain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.geometry import Extent, map_grid
from ..core.samples import TimedBatches
from ..core.settings import Settings, setting
from ..mission.target import TargetSettings
from ..models.registry import ModelSettings
from ..planning.pilots import PILOTS
from ..planning.planners import PLANNERS
from ..planning.routes import ClearanceSettings
from ..screening import ScreeningSettings
from .simulator import SonarSettings
from .terrain import WORKSPACE

#: The paper's random initialisation: samples at random places, and a random start pose.
RANDOM_SAMPLES = "random-samples"
#: The pilot surveys of a lock-step mission. The last is not in ``PILOTS``, as no vehicle can take
#: samples at random places.
MISSION_PILOTS = (*PILOTS, RANDOM_SAMPLES)
POLICIES = ("paper", "deployed")


@dataclass(frozen=True)
class MissionSettings(Settings):
    """Settings of a lock-step mission, apart from its terrain.

    ``planner_options`` is an instance of the planner's own options, None for the defaults.

    Raises:
        InputError: a value is wrong.
    """

    planner: str = setting(
        "max-entropy", "Planner that chooses waypoints after the pilot survey", choices=PLANNERS
    )
    pilot: str = setting("bezier", "Pilot survey", choices=MISSION_PILOTS)
    policy: str = setting(
        "paper", "Form batches and draw the planner's map as in the paper's experiments, or as on "
        "a vehicle",
        choices=POLICIES,
    )  # fmt: skip
    seed: int = setting(0, "Seed of all random draws", minimum=0, maximum=2**31 - 1)
    max_samples: int = setting(
        5000, "End the mission at this many accepted pings", minimum=1, maximum=10**7
    )
    resolution: float = setting(
        0.5, "Cell size of the final map", "m", minimum=0.01, maximum=1000.0
    )
    planner_noise: bool = setting(
        True, "Plan by the entropy of a ping, noise included, instead of that of the bottom"
    )
    current: tuple[float, ...] = setting(
        (0.0, 0.0), "Velocity of the water to the east and to the north, slower than the vehicle",
        "m/s", minimum=-100.0, maximum=100.0,
    )  # fmt: skip
    planner_options: Any = None
    workspace: Extent = WORKSPACE
    model: ModelSettings = field(default_factory=ModelSettings)
    sonar: SonarSettings = field(default_factory=SonarSettings)
    batches: TimedBatches = field(default_factory=TimedBatches)
    screening: ScreeningSettings = field(default_factory=ScreeningSettings)
    target: TargetSettings = field(default_factory=TargetSettings)
    clearance: ClearanceSettings = field(default_factory=ClearanceSettings)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = PLANNERS[self.planner].options
        self.complete("planner_options", kind, f"planner {self.planner}")
        map_grid(self.workspace, self.resolution)
