"""The simulated graph, as `poam sim` and sim.launch.py start it: what each node is given.

Needs neither rclpy nor the launch tools.
"""

from __future__ import annotations

from pathlib import Path

from ..core.settings import Setting, Value
from ..ros.common.parameters import NODES, VIEWERS

#: Parameters by name.
ROWS = {row.name: row for table in (NODES | VIEWERS).values() for row in table}
#: Options that are parameters: each goes to every node that declares it, and means the same to it.
FORWARDED = (
    "terrain", "speed", "max_samples", "method", "planner", "pilot", "sonar_rate", "seed",
    "output", "keep", "exaggeration", "target.tvu", "target.share", "target.distance",
    "target.depth_factor",
)  # fmt: skip
#: Options of both for the graph as a whole.
NAMESPACE = Setting("namespace", "", "Namespace of all nodes, without slashes at its ends")
PARAMS_FILE = Setting(
    "params_file",
    "",
    "ROS parameter file whose nodes are named as in config/*.yaml (/**/mapper:); it overrides the "
    "defaults, and arguments that are given override it",
)
RVIZ = Setting("rviz", False, "Show the mission in RViz (the rviz2 package), draped by drapes")
#: The options for a graph as a whole.
OWN = (PARAMS_FILE, NAMESPACE, RVIZ)

# The simulated clock and frames belong to one simulation, so they move into its namespace.
_REMAPPINGS = [("/clock", "clock"), ("/tf", "tf"), ("/tf_static", "tf_static")]


def remappings(namespace: str) -> list[tuple[str, str]]:
    """What every node of a simulation in a namespace is remapped by; nothing without one."""
    return _REMAPPINGS if namespace else []


def fixed(node: str) -> dict[str, Value]:
    """Parameters of a node that are what they are, whatever is given."""
    # The monitor lives on wall time, and is spared the clock's messages.
    values: dict[str, Value] = {"use_sim_time": node != "monitor"}
    if node == "simulator":
        # At 20 times real time, minutes of the mission would pass while the mapper loads torch.
        values["wait_for_mission"] = True
    if node == "planner":
        values["autostart"] = True  # nobody is there to call ~/start, and nobody is endangered
    return values


def rviz_layout() -> Path:
    """RViz's layout, in a checkout or in the share folder of an installation."""
    package = Path(__file__).parents[1]
    folders = [package.parent / "config", *(p / "share/poam_ros/config" for p in package.parents)]
    return next((f / "view.rviz" for f in folders if (f / "view.rviz").is_file()), folders[0])
