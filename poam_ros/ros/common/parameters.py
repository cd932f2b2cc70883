"""The parameters of every node, one table each: what lower packages declare, and the node's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import InputError
from ...core.geometry import Extent
from ...core.settings import Setting, Value, check, rows, setting
from ...frontend.batching import TimedBatches, TrainingSettings
from ...frontend.events import HOLD, ON_DONE
from ...frontend.settings import GateSettings, water_level_setting
from ...journal.folder import JournalSettings
from ...mission.store import MissionStoreSettings
from ...mission.target import TargetSettings
from ...mission.watchdog import WatchdogSettings
from ...models.registry import MODEL_FILE, MODELS, ModelSettings, option_rows, read_model
from ...outputs.saving import SaveSettings
from ...planning.areas import AreaSettings
from ...planning.arrival import CAPTURE_RADIUS
from ...planning.pilots import PILOTS
from ...planning.planners import PLANNERS, planner_rows
from ...screening.screen import ScreeningSettings
from ...simulation.settings import MissionSettings
from ...simulation.world.simulator import SonarSettings


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
OUTPUT = Setting("output", "", "Folder of the results when the mission is done. Empty: none")
MANAGED = Setting(
    "managed", False, "Wait to be configured and activated by the standard lifecycle services"
)
TERRAIN = Setting(
    "terrain",
    "jacksboro",
    "Built-in terrain (jacksboro, lake, seamounts, corner), SRTM tile (N17E073), or a file",
)


MAPPER: tuple[Setting, ...] = (
    *rows(ModelSettings),
    MODEL_FILE,
    SEED,
    WORKSPACE,
    FRAME,
    MANAGED,
    OUTPUT,
    Setting("resolution", 1.0, "Cell size of the published maps", "m", 0.01, 1000.0),
    Setting(
        "pilot_samples",
        500,
        "Start the model at this many accepted pings where nobody publishes mission/state",
        minimum=5,
        maximum=1_000_000,
        mutable=True,
    ),
    *rows(
        JournalSettings,
        GateSettings,
        TimedBatches,
        TrainingSettings,
        ScreeningSettings,
        SaveSettings,
    ),
    replace(
        _TARGET["target.tvu"],
        description="S-44 order (exclusive, special, 1a, 1b or 2) whose total vertical uncertainty "
        "map/tvu compares the map's with. Empty: map/tvu is not published",
    ),
)

PLANNER: tuple[Setting, ...] = (
    _MISSION["planner"],
    replace(_MISSION["pilot"], choices=PILOTS),
    SEED,
    WORKSPACE,
    FRAME,
    MANAGED,
    Setting("autostart", False, "Start with the first odometry, without ~/start"),
    Setting(
        "max_samples",
        5000,
        "End the mission at this many accepted pings since its start. 0: no such end",
        minimum=0,
        maximum=10_000_000,
        mutable=True,
    ),
    Setting(
        "max_duration",
        0.0,
        "End the mission this long after its start, in ROS time. 0: no such end",
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
        "Repeat a travel goal this often, in ROS time. 0: send each once",
        "s",
        minimum=0.0,
        maximum=3600.0,
    ),
    Setting(
        "goal_action",
        "",
        "Name of a nav2_msgs/NavigateToPose action that goals go to. Empty: the topic goal_pose",
    ),
    Setting(
        "goal_radius",
        0.1,
        "Count a goal as reached within this distance",
        "m",
        minimum=1e-3,
        maximum=1e3,
        mutable=True,
    ),
    Setting(
        "capture_radius",
        CAPTURE_RADIUS,
        "Count a goal as reached when the vehicle passes it within this distance: about its "
        "turning diameter",
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
    *rows(MissionStoreSettings, AreaSettings, TargetSettings, WatchdogSettings),
)

SIMULATOR: tuple[Setting, ...] = (
    TERRAIN,
    Setting(
        "elevation_range",
        (0.0, 0.0),
        "Lowest and highest elevation to scale the terrain to. Two equal numbers: do not scale it",
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
        "Stop the vehicle when its goal was not repeated for this long, in ROS time",
        "s",
        minimum=0.1,
        maximum=3600.0,
        mutable=True,
    ),
    Setting(
        "wait_for_mission",
        False,
        "Stop the clock until somebody hears the sonar and gives goals, at most 60 s of wall time",
    ),
    *rows(SonarSettings),
    Setting(
        "sonar.field_of_view", 0.05, "Width of the sonar's beam", "rad", minimum=0.0, maximum=3.1416
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


@dataclass(frozen=True)
class DrapeSettings:
    """How maps are draped.

    Raises:
        InputError: a value is outside its range.
    """

    exaggeration: float = setting(
        1.0, "Draw elevations this many times as large", minimum=0.01, maximum=1000.0, mutable=True
    )
    water_level: float = water_level_setting()
    max_cells: int = setting(
        40_000, "Leave out rows and columns of larger maps, until about this many cells are left",
        minimum=100, maximum=4_000_000, mutable=True,
    )  # fmt: skip

    def __post_init__(self) -> None:
        check(self)


#: The node that draws for viewers. It is not part of the closed loop: no node waits for it.
DRAPES: tuple[Setting, ...] = rows(DrapeSettings)
VIEWERS: dict[str, tuple[Setting, ...]] = {"drapes": DRAPES}


#: The options of the built-in models and planners, which stand behind a prefix of their own. Of
#: these a node has those of the row in use alone.
INNER: dict[str, tuple[Setting, ...]] = {"mapper": option_rows(), "planner": planner_rows()}


def inner_rows(node: str, values: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The options of the model or the planner that a node uses, with the model file's defaults.

    Args:
        node: its name; most have no such options.
        values: of its parameters.

    Raises:
        InputError: the model file is wrong.
    """
    if node == "planner":
        return rows(PLANNERS[values["planner"]].options)
    if node != "mapper":
        return ()
    options = MODELS[values["method"]].options
    own = read_model(values["model"], options)
    return tuple(
        replace(row, default=row.convert(own[row.name])) if row.name in own else row
        for row in rows(options)
    )


#: What a vehicle's launch file and parameter file give, where it is not what the nodes have: the
#: more accurate model and planner, and no false echoes. The nodes' own defaults are the paper's.
ROBOT_DEFAULTS: dict[str, Value] = {
    "method": "nngp",
    "planner": "path-entropy",
    "training.duty": 0.05,
    "screening.enabled": True,
}


def robot_tables() -> dict[str, tuple[Setting, ...]]:
    """The tables of a vehicle's nodes with its defaults."""
    return {
        node: tuple(
            replace(row, default=ROBOT_DEFAULTS[row.name]) if row.name in ROBOT_DEFAULTS else row
            for row in NODES[node]
        )
        for node in ("mapper", "planner")
    }
