"""The graphs that `poam sim` and the launch files start: arguments, parameters, remappings.

Needs neither rclpy nor the launch tools.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.files import shipped
from ..core.settings import Setting, Value, flat, instance, rows
from ..mavlink.frame import PlaceSettings
from ..models.registry import ModelSettings
from ..planning.areas import AreaSettings
from ..ros.parameters import NODES
from ..simulation.settings import MissionSettings

#: The parameters of all nodes, by name.
ROWS = {row.name: row for table in NODES.values() for row in table}
#: Those of a simulation, with the defaults of config/sim.yaml.
SIM_ROWS = ROWS | {
    "method": replace(ROWS["method"], default=ModelSettings.method),
    "planner": replace(ROWS["planner"], default=MissionSettings.planner),
}
NAMESPACE = Setting("namespace", "", "Namespace of all nodes, without slashes at its ends")
PARAMS_FILE = Setting(
    "params_file", "", "ROS parameter file, as config/robot.yaml. It overrides the defaults, and "
    "arguments override it. Several: separated by commas, later ones override earlier ones. A name "
    "without a folder may be that of a preset",
)  # fmt: skip
RVIZ = Setting("rviz", False, "Show the mission in RViz (package rviz2)")
#: Arguments for a graph as a whole.
OWN = (PARAMS_FILE, NAMESPACE, RVIZ)

#: Arguments of a simulation that are parameters. Each goes to every node that declares it.
FORWARDED = (
    "terrain", "speed", "max_samples", "method", "planner", "pilot", "sonar_rate", "seed",
    "output", "keep",
)  # fmt: skip
# The simulated clock and frames belong to one simulation: they move into its namespace.
_REMAPPINGS = [("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")]


def base_file(name: str) -> list[str]:
    """The parameter file that a launch file loads before all others; none if it is not installed.

    ``name``: ``sim.yaml`` or ``robot.yaml``.
    """
    path = shipped(name)
    return [] if path is None else [str(path)]


def remappings(namespace: str) -> list[tuple[str, str]]:
    """The remappings of every node of a simulation in a namespace; none without one."""
    return _REMAPPINGS if namespace else []


#: The workspace of commands that also take it in degrees, or from the areas' polygon.
WORKSPACE = replace(
    ROWS["workspace"], default=(0.0,) * 4,
    description="Rectangle to be mapped: xmin, xmax, ymin, ymax. Default: that in degrees, or "
    "the box around the areas' polygon",
)  # fmt: skip
ROBOT_NODES = ("mapper", "planner")
#: Arguments of robot.launch.py that are parameters.
ROBOT_FORWARDED = "workspace", "frame_id", "mission_dir", "range_type", "range_field", "mavros"
ROBOT_ROWS = {row.name: row for node in ROBOT_NODES for row in NODES[node]}
#: Topics that may have other names on a vehicle; the defaults are the nodes' own names.
ROBOT_TOPICS = (
    Setting("range_topic", "sonar/range", "Topic of the pings, of type range_type"),
    Setting("odom_topic", "odom", "Topic of the odometry, nav_msgs/Odometry"),
    Setting("goal_topic", "goal_pose", "Topic of the goals, geometry_msgs/PoseStamped"),
    Setting("water_level_topic", "water_level", "Topic of the water level, std_msgs/Float64"),
)
#: In a parameter file of robot.launch.py, but no parameter of a node.
(WORKSPACE_DEGREES,) = (row for row in rows(PlaceSettings) if row.name == "workspace_degrees")
#: Defaults of settings that robot.launch.py looks up in the parameter file.
DEFAULTS = {row.name: row.default for row in (*ROBOT_ROWS.values(), WORKSPACE_DEGREES)}
USE_SIM_TIME = Setting("use_sim_time", False, "Take the time from /clock (simulator or bag)")
#: All arguments of robot.launch.py.
ROBOT_ARGUMENTS = (
    *(ROBOT_ROWS[name] for name in ROBOT_FORWARDED), *ROBOT_TOPICS, USE_SIM_TIME, *OWN,
)  # fmt: skip


def robot_remappings(value: Callable[[str], Value]) -> list[tuple[str, str]]:
    """The remappings of a vehicle's nodes; ``value``: of an argument of ``ROBOT_TOPICS``."""
    return [(str(row.default), str(value(row.name))) for row in ROBOT_TOPICS]


def place_in_metres(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters ``workspace``, ``origin`` and ``heading`` of a workspace in degrees, or of the
    areas' polygon; none if neither is given. Without an origin, the middle of the workspace is the
    map's (0, 0).

    ``values``: settings of places by name.

    Raises:
        InputError: it is not a rectangle, or far from the origin; the file of areas cannot be read,
            or has no workspace.
    """
    from ..mavlink.frame import given_frame, workspace_of

    areas = instance(AreaSettings, values)
    if not (any(values["workspace_degrees"]) or areas.has_polygon):
        return {}
    frame = given_frame(values)
    placed = {**values, "workspace": (0.0,) * 4, **(frame.values if frame else {})}
    return {n: placed[n] for n in ("origin", "heading")} | {
        "workspace": workspace_of(placed, frame).bounds
    }


def require_workspace(given: bool, params_file: str) -> None:
    """Refuse a mission without a workspace.

    Raises:
        InputError: the workspace is neither given nor in the parameter file for both nodes.
    """
    if given:
        return
    missing = [node for node in ROBOT_NODES if "workspace" not in in_files(params_file, node)]
    if missing:
        where = f", and {params_file} has none for {' and '.join(missing)}" if params_file else ""
        raise InputError(
            "launch argument workspace: expected xmin xmax ymin ymax in metres, as in "
            "workspace:='0 120 -40 40'; or in params_file, or there workspace_degrees, or "
            f"areas.file with a polygon of kind workspace; it was not given{where}"
        )


def parameter_files(names: str, what: str = "launch argument params_file") -> list[Path]:
    """The ROS parameter files of a list with commas, as ``PARAMS_FILE`` says.

    Raises:
        InputError: a file does not exist; ``what`` was given.
    """
    files = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        path = Path(name).expanduser()
        if not path.is_file() and path.name == name:
            path = shipped(f"presets/{name}") or path
        if not path.is_file():
            raise InputError(f"{what}: no such file: {name}")
        files.append(path)
    return files


def sections(
    names: str, nodes: Collection[str], what: str = "launch argument params_file"
) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """The sections of these nodes, and of all, in ROS parameter files: file, key and parameters by
    name. Arguments and errors as of ``parameter_files``; also that a file cannot be read.
    """
    from ..core.reading import read_yaml

    for path in parameter_files(names, what):
        try:
            content = read_yaml(path)
        except (OSError, InputError) as error:
            raise InputError(f"{what}: {path}: {error}") from None
        found = content.items() if isinstance(content, dict) else ()
        # As ROS 2 reads it after another file with a section of all nodes, which comes first.
        for key, body in sorted(found, key=lambda item: not str(item[0]).endswith("**")):
            own = str(key).rpartition("/")[2] in (*nodes, "**")
            values = body.get("ros__parameters") if own and isinstance(body, dict) else None
            if isinstance(values, dict):
                yield path, str(key), flat(values)


def in_files(params_file: str, node: str) -> dict[str, Any]:
    """A node's parameters in ROS parameter files by name; as ``sections``."""
    found: dict[str, Any] = {}
    for _, _, values in sections(params_file, (node,)):
        found |= values
    return found


def rviz_command(folder: str = "", rviz: bool = True) -> list[str]:
    """The command that opens RViz with layouts that fit the survey, without its ROS arguments.

    Args:
        folder: where the layouts are written; empty: a new one.
        rviz: whether to open RViz, or only write the layouts.
    """
    command = [sys.executable, "-m", "poam_ros.ros.rviz"]
    command += ["--folder", folder] if folder else []
    return command if rviz else [*command, "--no-rviz"]
