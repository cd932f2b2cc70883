"""The nodes' console scripts: where ROS 2 is not installed they say so in a line."""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib import import_module

from ..models.native.loader import announce

WRONG = 2  # exit status, as of wrong arguments
#: Python packages that come with ROS 2.
ROS = re.compile(r"rclpy|\w+_(msgs|srvs|interfaces)")


def needs_ros(who: str, module: str = "rclpy") -> str:
    """What somebody says who needs a module of ROS 2 that is not there."""
    return (
        f"{who} needs ROS 2's {module}, which this Python does not have: pip install "
        "'poam_ros[ros]', or use a Python that sees a ROS 2 installation (source its setup file)"
    )


#: The module of each node.
MODULES = {
    **{node: f"poam_ros.ros.{node}.node" for node in ("mapper", "planner", "simulator", "monitor")},
    "bring_up": "poam_ros.ros.common.bring_up",
    "drapes": "poam_ros.ros.viewers.node",
}


def start(node: str) -> int:
    """Run a node by its name with the command line's arguments; returns the exit status."""
    if node == "mapper":
        announce()
    try:
        module = import_module(MODULES[node])
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if not ROS.fullmatch(missing):
            raise
        sys.stderr.write(f"{needs_ros(node, missing)}\n")
        return WRONG
    return module.main()


mapper = partial(start, "mapper")
planner = partial(start, "planner")
simulator = partial(start, "simulator")
monitor = partial(start, "monitor")
bring_up = partial(start, "bring_up")
drapes = partial(start, "drapes")
