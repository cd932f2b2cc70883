"""Opens RViz with a layout that fits the running survey. It only listens.

    python -m poam_ros.ros.viewers.rviz [--folder DIR] [--workspace X X Y Y] [--no-rviz]
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
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from sensor_msgs.msg import PointCloud2

from ...core.errors import InputError
from ...core.geometry import Extent
from ..common import clouds
from ..common.executor import DONE, WRONG_ARGUMENTS, run_node
from ..common.messages import bare_frame
from ..common.qos import LATCHED, SENSOR_READ
from .layout import DEFAULT, Shown, write_layouts

WAIT_S = 30.0  # for a mapper that is being started
LATCHED_S = 2.0  # until what is latched has arrived from all nodes


class SurveyFinder(Node):
    """Finds out from latched topics what there is to show.

    Args:
        workspace: the extent, if known.
    """

    def __init__(self, workspace: Extent | None) -> None:
        super().__init__("rviz_layout")
        self._extent, self._cell, self._terrain_cell = workspace, 1.0, 1.0
        self._frame = DEFAULT.frame
        self._heights: dict[str, tuple[float, float]] = {}
        self._began, self._since = time.monotonic(), math.inf  # s; since when an extent is known
        self.create_subscription(OccupancyGrid, "map/mean", self._on_grid, LATCHED)
        for topic in ("map/points", "terrain"):
            self.create_subscription(PointCloud2, topic, partial(self._on_cloud, topic), LATCHED)
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSOR_READ)

    @property
    def shown(self) -> Shown | None:
        """What is known so far; None without an extent."""
        if self._extent is None:
            return None
        flat = Shown(self._extent, self._cell, terrain_cell=self._terrain_cell, frame=self._frame)
        if not self._heights:
            return flat
        low, high = zip(*self._heights.values(), strict=True)
        return replace(flat, low=min(low), high=max(high))

    @property
    def finished(self) -> bool:
        """Whether the map has come, or is not waited for any longer."""
        now = time.monotonic()
        if self._extent is not None:
            self._since = min(self._since, now)
        late = now > self._began + WAIT_S or now > self._since + LATCHED_S
        return late or "map/points" in self._heights

    def _on_grid(self, message: OccupancyGrid) -> None:
        info = message.info
        corner, cell = info.origin.position, info.resolution
        if cell > 0 and info.width and info.height:
            x, y = corner.x + info.width * cell, corner.y + info.height * cell
            self._see(Extent(corner.x, x, corner.y, y), cell, message)

    def _on_cloud(self, topic: str, message: PointCloud2) -> None:
        try:
            grid, layers = clouds.read_cloud(message)
        except InputError:
            return  # the planner says so
        if min(grid.shape) < 2:
            return
        cell = float(grid.x[1] - grid.x[0])
        if topic == "terrain":
            self._terrain_cell = cell
        else:
            self._see(grid.borders, cell, message)
        z = layers["z"][np.isfinite(layers["z"])]
        if z.size:
            self._heights[topic] = float(z.min()), float(z.max())

    def _on_odometry(self, message: Odometry) -> None:
        """The vehicle and what it is told are at this height."""
        z = message.pose.pose.position.z
        if math.isfinite(z):
            self._heights["odom"] = z, z

    def _see(self, extent: Extent, cell: float, message: OccupancyGrid | PointCloud2) -> None:
        self._extent, self._cell = extent, round(cell, 6)
        self._frame = bare_frame(message.header.frame_id)


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
    finders: list[SurveyFinder] = []

    def start() -> SurveyFinder:
        finders.append(SurveyFinder(workspace))
        return finders[-1]

    status = run_node(start, ros_args)
    if status != DONE or not finders[0].finished:  # Ctrl-C
        return status
    shown = finders[0].shown
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
