"""What robot.launch.py gives a vehicle's nodes. Needs neither rclpy nor the launch tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.settings import Setting, Value
from ..ros.common.parameters import ON_ROBOT, robot_tables

NODES = ("mapper", "planner")
#: Arguments that are parameters of the nodes, with a vehicle's defaults.
FORWARDED = (
    "workspace", "max_samples", "max_duration", "autostart", "on_done", "method", "model",
    "planner", "pilot", "seed", "output", "areas.file", "areas.coordinates", "areas.margin",
    "origin", "heading", "goal_period", "goal_action", "mission_dir", "autoresume", "managed",
    "screening.enabled", "water.level", "target.tvu", "target.share", "target.distance",
    "target.depth_factor",
)  # fmt: skip
#: The nodes' own names of the topics that a vehicle may call otherwise.
TOPICS = (
    Setting("range_topic", "sonar/range", "Pings: sensor_msgs/Range"),
    Setting("odom_topic", "odom", "Odometry: nav_msgs/Odometry"),
    Setting("goal_topic", "goal_pose", "Waypoints: geometry_msgs/PoseStamped"),
    Setting("water_level_topic", "water_level", "Height of the water's surface: std_msgs/Float64"),
)
USE_SIM_TIME = Setting("use_sim_time", False, "Take the time from /clock (a simulator, a bag)")
_ROWS = {row.name: row for table in robot_tables().values() for row in table}
ROWS: dict[str, Setting] = {name: _ROWS[name] for name in FORWARDED}


def remappings(value: Callable[[str], Value]) -> list[tuple[str, str]]:
    """What the nodes are remapped by, of the values of ``TOPICS`` by name."""
    return [(str(row.default), str(value(row.name))) for row in TOPICS]


def defaults(node: str) -> dict[str, Any]:
    """What a node is given before a parameter file and arguments: a vehicle's defaults."""
    return {row.name: ON_ROBOT[row.name] for row in robot_tables()[node] if row.name in ON_ROBOT}


def require_workspace(given: bool, params_file: str) -> None:
    """Refuse a mission that nobody has said the place of.

    Raises:
        InputError: the workspace is neither given nor in the parameter file for both nodes.
    """
    if given:
        return
    missing = [node for node in NODES if in_file(params_file, node, "workspace") is None]
    if missing:
        where = f", and {params_file} has none for {' and '.join(missing)}" if params_file else ""
        raise InputError(
            "launch argument workspace: expected xmin xmax ymin ymax in metres, as in "
            f"workspace:='0 120 -40 40'; it was not given{where}"
        )


def in_file(params_file: str, node: str, name: str) -> Any:
    """A node's parameter in a ROS parameter file; None where it is not there, or there is no file.

    Raises:
        InputError: the file cannot be read.
    """
    if not params_file:
        return None
    import yaml

    try:
        content = yaml.safe_load(Path(params_file).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        text = " ".join(str(error).split())
        raise InputError(f"launch argument params_file: {params_file}: {text}") from None
    found = None
    for key, body in content.items() if isinstance(content, dict) else ():
        own = str(key).rpartition("/")[2] in (node, "**")
        values = body.get("ros__parameters") if own and isinstance(body, dict) else None
        if isinstance(values, dict):
            found = values.get(name, found)
    return found
