"""The parameters of every node, one table each: what rooms below declare, and the node's own."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import InputError
from ...core.geometry import Extent
from ...core.settings import Setting, Value, rows
from ...frontend.batching import Effort, TimedBatches
from ...frontend.events import HOLD, ON_DONE
from ...frontend.front_end import GateSettings
from ...journal.folder import KeepingSettings
from ...mission.memory import MemorySettings
from ...mission.target import TargetSettings
from ...mission.watchdog import WatchSettings
from ...models.registry import model_rows
from ...outputs.saving import SaveSettings
from ...planning.areas import AreaSettings
from ...planning.arrival import CAPTURE_RADIUS
from ...planning.pilots import PILOTS
from ...planning.planners import planner_rows
from ...screening.screen import ScreeningSettings
from ...simulation.settings import MissionSettings
from ...simulation.world.sonar import SONAR_NAMES, SonarSettings
from ..viewers.drapes import DrapeSettings


def _frame_name(name: str) -> None:
    if not name or name.startswith("/"):
        raise InputError(f"a frame's name without a leading slash, got {name!r}")


_TARGET = {row.name: row for row in rows(TargetSettings)}
_MISSION = {row.name: row for row in rows(MissionSettings)}
SEED = replace(_MISSION["seed"], description="Seed of every random draw of the node")
FRAME = Setting("frame_id", "map", "Frame of the map, without a leading slash", check=_frame_name)
WORKSPACE = Setting(
    "workspace",
    MissionSettings.workspace.bounds,
    "Rectangle to be mapped: xmin, xmax, ymin, ymax",
    "m",
    check=Extent.of,
)
OUTPUT = Setting("output", "", "Folder for the results when the mission is done; empty: none")
MANAGED = Setting(
    "managed",
    False,
    "Wait to be configured and activated from outside, by the standard lifecycle services",
)
TERRAIN = Setting(
    "terrain",
    "jacksboro",
    "Built-in terrain (jacksboro, lake, seamounts, corner), SRTM tile (N17E073), or a file",
)


MAPPER: tuple[Setting, ...] = (
    *model_rows(),
    SEED,
    WORKSPACE,
    FRAME,
    MANAGED,
    OUTPUT,
    Setting("resolution", 1.0, "Cell size of the published maps", "m", 0.01, 1000.0),
    *rows(GateSettings),
    *rows(TimedBatches),
    *rows(Effort),
    *rows(KeepingSettings),
    *rows(ScreeningSettings),
    *rows(SaveSettings),
    replace(
        _TARGET["target_tvu"],
        description="The S-44 order (exclusive, special, 1a, 1b, 2) whose total vertical "
        "uncertainty map/tvu compares the map's with; empty: map/tvu says nothing",
    ),
    Setting(
        "pilot_samples",
        500,
        "Accepted pings that start the model where nobody publishes mission/state",
        minimum=5,
        maximum=1_000_000,
        mutable=True,
    ),
)

PLANNER: tuple[Setting, ...] = (
    _MISSION["planner"],
    replace(_MISSION["pilot"], choices=PILOTS),
    SEED,
    WORKSPACE,
    *rows(AreaSettings),
    FRAME,
    MANAGED,
    Setting("autostart", False, "Start with the first odometry, without ~/start"),
    Setting(
        "max_samples",
        5000,
        "The mission is done at this many accepted pings since its start; 0: no such end",
        minimum=0,
        maximum=10_000_000,
        mutable=True,
    ),
    Setting(
        "max_duration",
        0.0,
        "The mission is done this long after its start, in ROS time; 0: no such end",
        "s",
        minimum=0.0,
        maximum=1e7,
        mutable=True,
    ),
    Setting(
        "on_done",
        HOLD,
        "What the vehicle does when the mission is done: stay, or go to where it began and stay",
        choices=ON_DONE,
    ),
    Setting(
        "goal_period",
        1.0,
        "A travel goal is repeated this often, in ROS time; 0: each is sent once",
        "s",
        minimum=0.0,
        maximum=3600.0,
    ),
    Setting(
        "goal_action",
        "",
        "Name of a nav2_msgs/NavigateToPose action that goals go to; empty: the topic goal_pose",
    ),
    *rows(TargetSettings),
    *rows(WatchSettings),
    *rows(MemorySettings),
    Setting("goal_radius", 0.1, "A goal this near is reached", "m", 1e-3, 1e3, mutable=True),
    Setting(
        "capture_radius",
        CAPTURE_RADIUS,
        "A goal passed this near counts as reached: about the vehicle's turning diameter",
        "m",
        minimum=1e-3,
        maximum=1e4,
        mutable=True,
    ),
    Setting(
        "max_speed",
        1.0,
        "Speed of the vehicle, by which a goal's time limit is set",
        "m/s",
        minimum=1e-3,
        maximum=100.0,
        mutable=True,
    ),
    *planner_rows(),
)

SIMULATOR: tuple[Setting, ...] = (
    TERRAIN,
    Setting(
        "elevation_range",
        (0.0, 0.0),
        "Lowest and highest elevation the terrain is scaled to; two equal numbers: as it is",
        "m",
        minimum=-1e5,
        maximum=1e5,
    ),
    Setting(
        "environment",
        (-31.0, 31.0, -31.0, 31.0),
        "Rectangle of the terrain, which the vehicle never leaves: xmin, xmax, ymin, ymax",
        "m",
        check=Extent.of,
    ),
    WORKSPACE,
    SEED,
    FRAME,
    MANAGED,
    Setting(
        "speed",
        1.0,
        "Simulated seconds per second of wall time",
        minimum=0.01,
        maximum=1000.0,
        mutable=True,
    ),
    Setting(
        "control_rate", 10.0, "Rate of control and odometry", "Hz", minimum=0.1, maximum=1000.0
    ),
    Setting("max_speed", 1.0, "Speed of the vehicle", "m/s", minimum=1e-3, maximum=100.0),
    Setting("max_turn_rate", 1.5, "Turn rate of the vehicle", "rad/s", minimum=1e-3, maximum=100.0),
    Setting(
        "goal_timeout",
        3.0,
        "The vehicle stops when its goal was not repeated for this long, in ROS time",
        "s",
        minimum=0.1,
        maximum=3600.0,
        mutable=True,
    ),
    *rows(SonarSettings, SONAR_NAMES),
    Setting("field_of_view", 0.05, "Width of the sonar's beam", "rad", minimum=0.0, maximum=3.1416),
    Setting(
        "wait_for_mission",
        False,
        "Time begins when somebody hears the sonar and gives goals, or after 60 s of wall time",
    ),
)

MONITOR: tuple[Setting, ...] = (
    WORKSPACE,
    OUTPUT,
    MANAGED,
    Setting("keep", False, "Stay up when the mission is done"),
    Setting(
        "linger",
        10.0,
        "Wall time between the mission's end and the monitor's own",
        "s",
        minimum=0.0,
        maximum=3600.0,
    ),
)

NODES: dict[str, tuple[Setting, ...]] = {
    "mapper": MAPPER,
    "planner": PLANNER,
    "simulator": SIMULATOR,
    "monitor": MONITOR,
}

#: Of the node that draws for viewers. It is no part of the ring, and nothing waits for it.
DRAPES: tuple[Setting, ...] = rows(DrapeSettings)
VIEWERS: dict[str, tuple[Setting, ...]] = {"drapes": DRAPES}


#: What a vehicle's launch file and parameter file give, where it is not what the nodes have: the
#: more accurate model and planner, and no false echoes. The nodes' own defaults are the paper's.
ON_ROBOT: dict[str, Value] = {
    "method": "nngp",
    "planner": "path-entropy",
    "training_duty": 0.05,
    "screening": True,
}


def robot_tables() -> dict[str, tuple[Setting, ...]]:
    """The tables of a vehicle's nodes with its defaults."""
    return {
        node: tuple(
            replace(row, default=ON_ROBOT[row.name]) if row.name in ON_ROBOT else row
            for row in NODES[node]
        )
        for node in ("mapper", "planner")
    }
