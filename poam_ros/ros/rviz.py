"""Opens RViz with a layout that fits the running survey. It only listens.

    python -m poam_ros.ros.rviz [--folder DIR] [--workspace X X Y Y] [--no-rviz]
        [--ros-args ...]

The extent is that of the map, which the mapper latches before there is any ping. RViz takes this
process over, with the same ROS arguments.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.utilities import remove_ros_args
from rclpy.wait_for_message import wait_for_message
from sensor_msgs.msg import PointCloud2

from ..core.errors import InputError
from ..core.geometry import Extent
from . import messages
from .layout import DEFAULT, Shown, write_layouts
from .node import DONE, LATCHED, SENSOR_READ, WRONG_ARGUMENTS, avoid_shared_memory

WAIT_S = 30.0  # for a mapper that is being started
LATCHED_S = 2.0  # until what is latched has arrived from all nodes


def survey(node: Node, workspace: Extent | None) -> Shown | None:
    """What there is to show, by latched topics; None without an extent.

    Args:
        node: that listens.
        workspace: the extent, if known.
    """

    def heard(kind: type, topic: str, seconds: float, how: QoSProfile = LATCHED) -> Any:
        return wait_for_message(kind, node, topic, qos_profile=how, time_to_wait=seconds)[1]

    shown = None if workspace is None else Shown(workspace)
    picture = heard(OccupancyGrid, "map/mean", LATCHED_S if shown else WAIT_S)
    if picture is not None and picture.info.resolution > 0:
        info, corner = picture.info, picture.info.origin.position
        width, height = info.width * info.resolution, info.height * info.resolution
        extent = Extent(corner.x, corner.x + width, corner.y, corner.y + height)
        frame = messages.bare_frame(picture.header.frame_id)
        shown = Shown(extent, round(info.resolution, 6), frame=frame)
    if shown is None:
        return None
    heights = []
    for topic in ("map/points", "terrain"):
        try:
            grid, layers = messages.read_cloud(
                heard(PointCloud2, topic, LATCHED_S) or PointCloud2()
            )
        except InputError:
            continue  # the planner says so
        z = layers["z"][np.isfinite(layers["z"])]
        heights += [float(z.min()), float(z.max())] if z.size else []
        if topic == "terrain" and len(grid.x) > 1:
            shown = replace(shown, terrain_cell=float(grid.x[1] - grid.x[0]))
    if (odometry := heard(Odometry, "odom", LATCHED_S, SENSOR_READ)) is not None:
        # The vehicle and what it is told are at this height.
        heights += filter(math.isfinite, [odometry.pose.pose.position.z])
    return replace(shown, low=min(heights), high=max(heights)) if heights else shown


def main(args: Sequence[str] | None = None) -> int:
    """Write the layouts and become RViz; returns the exit status if there is no RViz."""
    given = list(sys.argv[1:] if args is None else args)
    parser = argparse.ArgumentParser(description="Open RViz with a layout fitted to the survey.")
    parser.add_argument("--folder", type=Path, help="Where the layouts are written.")
    parser.add_argument("--workspace", type=float, nargs=4, metavar="M", help="xmin xmax ymin ymax")
    parser.add_argument("--no-rviz", action="store_true", help="Write the layouts only.")
    options = parser.parse_args(remove_ros_args(given))
    ros_args = given[given.index("--ros-args") :] if "--ros-args" in given else []
    if not options.no_rviz and shutil.which("rviz2") is None:
        sys.stderr.write("rviz2: expected on the path; it comes with ROS 2 (ros-jazzy-rviz2)\n")
        return WRONG_ARGUMENTS
    workspace = Extent.of(options.workspace) if options.workspace else None
    avoid_shared_memory()
    rclpy.init(args=ros_args)
    node = Node("rviz_layout")
    try:
        shown = survey(node, workspace)
        interrupted = not rclpy.ok()
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
    if interrupted:
        return DONE
    folder = options.folder or Path(tempfile.mkdtemp(prefix="poam-view-"))
    layout = write_layouts(shown or DEFAULT, folder)
    what = "no map yet: RViz opens as for 60 m" if shown is None else "fitted to the survey"
    sys.stdout.write(f"{layout}, foxglove.json: {what}\n")
    sys.stdout.flush()
    if not options.no_rviz:
        os.execvp("rviz2", ["rviz2", "-d", str(layout), *ros_args])
    return 0


if __name__ == "__main__":
    sys.exit(main())
