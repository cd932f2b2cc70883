"""The console scripts of the nodes. Without ROS 2 they end with one line."""

from __future__ import annotations

import re
import sys
from functools import partial
from importlib import import_module

from ..core.errors import needs_extra
from ..models.native.loader import announce

WRONG = 2  # exit status, as for wrong arguments
#: Python packages that come with ROS 2.
ROS = re.compile(r"rclpy|\w+_(msgs|srvs|interfaces)")


def needs_ros(who: str, module: str = "rclpy") -> str:
    """The error text if a module of ROS 2 is missing."""
    needed = needs_extra(who, f"{module} of ROS 2", "ros")
    return f"{needed}, or source the setup file of a ROS 2 installation"


#: What a node says of itself after its name: rclpy would start it.
HELP = """[--ros-args [--params-file FILE] [-p NAME:=VALUE ...] [-r NAME:=OTHER ...]]

Runs the node until Ctrl-C. Its parameters are in docs/parameters.md, its topics and services in
docs/interfaces.md."""
#: The module of each node.
NODES = ("mapper", "planner", "simulator", "monitor")
MODULES = {node: f"poam_ros.ros.{node}" for node in NODES}


def start(node: str) -> int:
    """Run a node with the arguments of the command line; returns the exit status."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        sys.stdout.write(f"usage: {node} {HELP}\n")
        return 0
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


mapper, planner, simulator, monitor = (partial(start, node) for node in NODES)
