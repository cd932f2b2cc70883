"""The tables of parameters of every node: settings of lower packages and the node's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InputError
from ..core.geodesy import HEADING, ORIGIN
from ..core.geometry import Extent
from ..core.samples import LiveBatches
from ..core.settings import Setting, Settings, Value, rows, setting
from ..frontend.events import HOLD, ON_DONE
from ..frontend.pings import SURFACE, FrontEndSettings
from ..journal.folder import JournalSettings
from ..mavlink.frame import PlaceSettings as PlacesInDegrees
from ..mission.guidance import MissionStoreSettings
from ..mission.itinerary import CAPTURE_RADIUS
from ..mission.states import WatchdogSettings
from ..mission.target import TargetSettings
from ..models.registry import MODELS, ModelSettings, option_rows
from ..planning.areas import AreaSettings, one_polygon
from ..planning.pilots import PILOTS
from ..planning.planners import PLANNERS, planner_rows
from ..planning.routes import ClearanceSettings
from ..screening import ScreeningSettings
from ..simulation.settings import MissionSettings
from ..simulation.simulator import SonarSettings


@dataclass(frozen=True)
class RangeSettings(Settings):
    """From which messages ranges are read."""

    range_type: str = setting(
        "sensor_msgs/msg/Range",
        "Type of the messages with the ranges, as `ros2 topic info` shows it",
    )
    range_field: str = setting(
        "", "Field of the message that holds the range, as in data, altitude or beams[0].range. "
        "Empty: a sensor_msgs/Range",
    )  # fmt: skip
    range_scale: float = setting(
        1.0, "Metres in a unit of range_field: 0.001 for millimetres", "m", minimum=1e-9,
        maximum=1e3,
    )  # fmt: skip
    range_valid_field: str = setting(
        "", "Field that says how good the range is, such as a bottom lock or a confidence. Empty: "
        "every range is good",
    )  # fmt: skip
    range_valid_min: float = setting(
        1.0, "Smallest value of range_valid_field of a good range; true is 1", minimum=-1e9,
        maximum=1e9,
    )  # fmt: skip


def _frame_name(name: str) -> None:
    if not name or name.startswith("/"):
        raise InputError(f"a frame's name without a leading slash, got {name!r}")


_TARGET = {row.name: row for row in rows(TargetSettings)}
_MISSION = {row.name: row for row in rows(MissionSettings)}
(VERTICAL,) = (row for row in rows(FrontEndSettings) if row.name == "odometry.vertical")
SEED = _MISSION["seed"]
FRAME = Setting("frame_id", "map", "Frame of the map, without a leading slash", check=_frame_name)
WORKSPACE = Setting(
    "workspace", MissionSettings.workspace.bounds, "Rectangle to be mapped: xmin, xmax, ymin, ymax",
    "m", check=Extent.of,
)  # fmt: skip
OUTPUT = Setting("output", "", "Folder for the results of a finished mission. Empty: none")
TERRAIN = Setting(
    "terrain", "jacksboro", "Built-in terrain (jacksboro, lake, seamounts, corner), SRTM tile "
    "(N17E073), or a file",
)  # fmt: skip


#: Defaults of the nodes that differ from those of `poam run`, which are the paper's: a vehicle has
#: a more accurate model and planner, and screening. config/sim.yaml has those of a simulation.
VEHICLE: dict[str, Value] = {
    "method": "nngp", "planner": "path-entropy", "screening.enabled": True,
    "odometry.vertical": SURFACE,
}  # fmt: skip


def _of_vehicle(*table: Setting) -> tuple[Setting, ...]:
    return tuple(
        replace(row, default=VEHICLE[row.name]) if row.name in VEHICLE else row for row in table
    )


MAPPER: tuple[Setting, ...] = _of_vehicle(
    *rows(ModelSettings),
    SEED,
    WORKSPACE,
    FRAME,
    OUTPUT,
    Setting("resolution", 1.0, "Cell size of the published maps", "m", 0.01, 1000.0),
    Setting(
        "pilot_samples", 500, "Start the model at this many accepted pings if nobody publishes "
        "mission/state", minimum=5, maximum=1_000_000, mutable=True,
    ),
    *rows(RangeSettings),
    Setting("simulated", False, "Say in saved maps that their pings are simulated"),
    *rows(
        JournalSettings, FrontEndSettings, LiveBatches, ScreeningSettings,
    ),
    ORIGIN,
    HEADING,
    replace(
        _TARGET["target.tvu"],
        description="Compare the map's uncertainty with the TVU of this S-44 order (exclusive, "
        "special, 1a, 1b or 2) in map/tvu. Empty: do not publish map/tvu",
    ),
)  # fmt: skip

PLANNER: tuple[Setting, ...] = _of_vehicle(
    _MISSION["planner"],
    replace(_MISSION["pilot"], choices=PILOTS),
    SEED,
    WORKSPACE,
    FRAME,
    Setting("autostart", False, "Start with the first odometry, without ~/start"),
    Setting(
        "max_samples", 5000, "End the mission at this many accepted pings since its start. 0: no "
        "limit", minimum=0, maximum=10_000_000, mutable=True,
    ),
    Setting(
        "max_duration", 0.0, "End the mission this long after its start, in ROS time. 0: no limit",
        "s", minimum=0.0, maximum=1e7, mutable=True,
    ),
    Setting(
        "on_done", HOLD, "When the mission is done, hold station where the vehicle is, or return "
        "to the start first", choices=ON_DONE,
    ),
    Setting(
        "home_reserve", 0.0, "With on_done home, turn back in time to be there this long before "
        "max_duration. 0: turn back when max_duration has passed", "s", minimum=0.0, maximum=1e7,
    ),
    Setting(
        "home_degrees", (0.0, 0.0), "Latitude and longitude of the place to return to when the "
        "mission is done (on_done home). 0, 0: where it began", "deg", minimum=-180.0,
        maximum=180.0,
    ),
    Setting(
        "goals.metres", "", "Waypoints that replace the pilot survey, as in '0 0, 9 0, 9 9'. "
        "Empty: drive the pilot survey", "m", check=one_polygon,
    ),
    Setting(
        "goals.degrees", "", "As goals.metres, with latitude and longitude of each, as in '47.1 "
        "8.5, 47.2 8.5'. Needs origin", "deg", check=one_polygon,
    ),
    Setting(
        "goals.file", "", "As goals.metres, from a file: points and lines of GeoJSON, KML, "
        "GeoPackage or Shapefile in order, or the waypoints of a QGroundControl .plan. A point of "
        "kind (KML: named) home, or the planned home of the .plan, is the place to return to",
    ),
    Setting(
        "goals.action", "", "Send goals to this action of type nav2_msgs/NavigateToPose. Empty: to "
        "the topic goal_pose",
    ),
    Setting(
        "goals.depth", 0.0, "Send goals this deep below the water's surface. 0, with "
        "goals.altitude 0: as deep as the vehicle is at ~/start or ~/resume", "m", minimum=0.0,
        maximum=1.2e4, mutable=True,
    ),
    Setting(
        "goals.altitude", 0.0, "Send goals this high above the map's bottom plus its 95 % "
        "uncertainty, but never above the surface; without a map at goals.depth. 0: off", "m",
        minimum=0.0, maximum=1.2e4, mutable=True,
    ),
    VERTICAL,
    *rows(RangeSettings),
    Setting(
        "mavros", "mavros", "Prefix of MAVROS' topics: take-overs are noticed by its topic state. "
        "Empty: do not listen",
    ),
    Setting(
        "goal_period", 1.0, "Period at which a goal is repeated, in ROS time. 0: send each goal "
        "once", "s", minimum=0.0, maximum=3600.0,
    ),
    Setting(
        "goal_radius", 0.1, "Count a goal as reached within this distance", "m", minimum=1e-3,
        maximum=1e3, mutable=True,
    ),
    Setting(
        "capture_radius", CAPTURE_RADIUS, "Count a goal as reached when the vehicle passes it "
        "within this distance. Set it to about the turning diameter", "m", minimum=1e-3,
        maximum=1e4, mutable=True,
    ),
    Setting(
        "max_speed", 1.0, "Speed of the vehicle, for the time limit of a goal", "m/s", minimum=1e-3,
        maximum=100.0, mutable=True,
    ),
    Setting(
        "current", (0.0, 0.0), "Velocity of the water along x and y of the map, if known: for the "
        "time limits of goals, and with home_reserve until it is learned", "m/s",
        minimum=-100.0, maximum=100.0, mutable=True,
    ),
    *rows(MissionStoreSettings, AreaSettings, ClearanceSettings, TargetSettings, WatchdogSettings),
)  # fmt: skip

SIMULATOR: tuple[Setting, ...] = (
    TERRAIN,
    Setting(
        "elevation_range", (0.0, 0.0), "Scale the terrain to this lowest and highest elevation. "
        "Two equal numbers: do not scale", "m", minimum=-1e5, maximum=1e5,
    ),
    Setting(
        "environment", (-31.0, 31.0, -31.0, 31.0), "Rectangle of the terrain, which the vehicle "
        "cannot leave: xmin, xmax, ymin, ymax", "m", check=Extent.of,
    ),
    WORKSPACE,
    SEED,
    FRAME,
    Setting(
        "speed", 1.0, "Speed of simulated time, relative to wall time", minimum=0.01,
        maximum=1000.0, mutable=True,
    ),
    Setting("max_speed", 1.0, "Speed of the vehicle", "m/s", minimum=1e-3, maximum=100.0),
    Setting("max_turn_rate", 1.5, "Turn rate of the vehicle", "rad/s", minimum=1e-3, maximum=100.0),
    _MISSION["current"],
    Setting(
        "goal_timeout", 3.0, "Stop the vehicle when its goal is not repeated for this long, in ROS "
        "time", "s", minimum=0.1, maximum=3600.0, mutable=True,
    ),
    Setting(
        "wait_for_mission", False, "Stop the clock until mapper and planner are connected, for at "
        "most 60 s of wall time",
    ),
    *rows(SonarSettings),
    Setting(
        "sonar.field_of_view", 0.05, "Width of the sonar's beam", "rad", minimum=0.0, maximum=3.1416
    ),
)  # fmt: skip

MONITOR: tuple[Setting, ...] = (
    WORKSPACE,
    OUTPUT,
    Setting("keep", False, "Keep running when the mission is done"),
    Setting(
        "linger", 10.0, "End the monitor this long after the mission, in wall time", "s",
        minimum=0.0, maximum=3600.0,
    ),
)  # fmt: skip

NODES: dict[str, tuple[Setting, ...]] = {
    "mapper": MAPPER,
    "planner": PLANNER,
    "simulator": SIMULATOR,
    "monitor": MONITOR,
}

#: The options of the built-in models and planners, each with a prefix. A node has only those of the
#: model or planner in use.
INNER: dict[str, tuple[Setting, ...]] = {"mapper": option_rows(), "planner": planner_rows()}


def known_names() -> frozenset[str]:
    """The names of all parameters of all nodes, models and planners of this package."""
    tables = (*NODES.values(), *INNER.values(), rows(PlacesInDegrees))
    return frozenset(row.name for table in tables for row in table)


def inner_rows(node: str, values: Mapping[str, Any]) -> tuple[Setting, ...]:
    """The options of the model or planner that a node uses, by the values of its parameters."""
    if node == "planner":
        return rows(PLANNERS[values["planner"]].options)
    return rows(MODELS[values["method"]].options) if node == "mapper" else ()
