"""Opens RViz with a layout that fits the running survey; it only listens. Layouts for RViz and for
Foxglove or Lichtblick.

    python -m poam_ros.ros.rviz [--folder DIR] [--no-rviz] [--ros-args ...]

The extent is that of the map, which the mapper latches before there is any ping. RViz takes this
process over, with the same ROS arguments. The files in config/ fit ``DEFAULT``. Of a larger survey
everything is drawn larger in metres, and so as large on the screen.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from rclpy.wait_for_message import wait_for_message
from sensor_msgs.msg import PointCloud2

from ..core.errors import InputError
from ..core.files import atomic_write, shipped
from ..core.geometry import Extent
from ..core.reading import read_yaml
from ..frontend.odometry import bare_frame
from . import messages
from .node import DONE, LATCHED, SENSOR_READ, WRONG_ARGUMENTS, avoid_shared_memory

WAIT_S = 30.0  # for a mapper that is being started
LATCHED_S = 2.0  # until what is latched has arrived from all nodes
#: px, of the picture in RViz's window: its height, its narrowest and widest, and what is beside it.
HEIGHT, WIDTHS, PANELS = 808, (500, 1220), 380
#: px, about, of the picture in Foxglove's or Lichtblick's.
PANEL_HEIGHT = 850
#: Share of the picture's width or height that the map takes.
SHARE = 0.97
#: Squares must be larger than the cells, to leave no gaps on slopes.
CELLS = 1.4
#: z in m where RViz's camera from above is, which sees nothing above itself.
CAMERA_Z = 500.0
#: Half of RViz's angle of view in perspective, as a tangent.
HALF_VIEW = math.tan(math.radians(22.5))
#: Sizes in m that grow with the survey, by their names in RViz's layout and in Foxglove's.
GROWING = {
    "Line Width", "Shaft Length", "Shaft Radius", "Head Length", "Head Radius",
    "Position Tolerance", "Marker Scale", "lineWidth", "arrowScale", "axisScale",
}  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """What a view is fitted to; metres.

    Attributes:
        extent: of the map.
        cell: width of its cells.
        low, high: its elevations.
        terrain_cell: width of the cells of the simulator's terrain.
        frame: of the map.
    """

    extent: Extent
    cell: float = 1.0
    low: float = 0.0
    high: float = 0.0
    terrain_cell: float = 1.0
    frame: str = "map"

    def cell_of(self, topic: str) -> float:
        """Width of the cells of a topic."""
        return self.terrain_cell if topic.endswith("terrain") else self.cell

    @property
    def width(self) -> int:
        """Width of RViz's picture in pixels, such that the map fills it as far as possible."""
        width, height = self.extent.size.tolist()
        narrowest, widest = WIDTHS
        return round(min(max(HEIGHT * width / height, narrowest), widest))

    @property
    def pixels(self) -> float:
        """Pixels per metre at which RViz's picture has the whole map."""
        width, height = self.extent.size.tolist()
        return SHARE * min(self.width / width, HEIGHT / height)

    @property
    def larger(self) -> float:
        """How many times larger it is than ``DEFAULT``."""
        return DEFAULT.pixels / self.pixels

    @property
    def centre(self) -> tuple[float, float, float]:
        """x, y and z of the middle."""
        x, y = self.extent.centre
        return float(x), float(y), (self.low + self.high) / 2

    def distance(self, pitch: float, yaw: float) -> float:
        """How far from the middle, in m, a camera in this direction has the whole map in view."""
        size = (*self.extent.size.tolist(), self.high - self.low)
        corners = np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * size
        right = np.array((-math.sin(yaw), math.cos(yaw), 0.0))
        ahead = np.array((right[1], -right[0], 0.0))
        near = corners @ (ahead * math.cos(pitch) + (0.0, 0.0, math.sin(pitch)))
        up = corners @ ((0.0, 0.0, math.cos(pitch)) - ahead * math.sin(pitch))
        aside = np.maximum(abs(up), abs(corners @ right) * HEIGHT / self.width)
        return float(np.max(near + aside / (SHARE * HALF_VIEW)))

    @property
    def grid(self) -> tuple[float, int]:
        """Width of a grid's cells (1, 2 or 5 times a power of ten), and their number."""
        wanted = 5 * self.larger
        power = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
        cell = max(step * power for step in (1, 2, 5) if step * power <= wanted * 1.01)
        return cell, 2 * math.ceil(0.55 * max(self.extent.size) / cell)


DEFAULT = Shown(Extent(-30.0, 30.0, -30.0, 30.0), 1.0, -30.0, 0.0)


def write_layouts(shown: Shown, folder: Path) -> Path:
    """Write fitted copies of view.rviz and foxglove.json into a folder; returns the first.

    Raises:
        InputError: the layouts are not installed.
        OSError: the folder cannot be written.
    """
    import yaml

    rviz, foxglove = shipped("view.rviz"), shipped("foxglove.json")
    if rviz is None or foxglove is None:
        raise InputError("view.rviz, foxglove.json: expected in config/ of the installation")
    folder.mkdir(parents=True, exist_ok=True)
    layout = yaml.safe_dump(fitted(read_yaml(rviz), shown), sort_keys=False, width=10_000)
    scene = fitted(json.loads(foxglove.read_text(encoding="utf-8")), shown)
    texts = {rviz.name: layout, foxglove.name: json.dumps(scene, indent=2) + "\n"}
    for name, text in texts.items():
        with atomic_write(folder / name) as file:
            file.write(text.encode())
    return folder / rviz.name


def fitted(layout: Any, shown: Shown) -> Any:
    """A copy of a layout of RViz or Foxglove, or of a part, that fits what is shown."""
    if isinstance(layout, list):
        return [fitted(part, shown) for part in layout]
    if not isinstance(layout, dict):
        return layout
    part = {name: fitted(value, shown) for name, value in layout.items()}
    (x, y, z), (cell, count) = shown.centre, shown.grid
    match part:
        case {"layerId": "foxglove.Grid"}:
            part |= {"label": f"Grid of {cell:g} m", "size": cell * count, "divisions": count}
            return part | {"frameId": shown.frame, "position": [x, y, 0.0]}
        case {"Plane Cell Count": _}:
            part |= {"Name": f"Grid of {cell:g} m", "Cell Size": cell, "Plane Cell Count": count}
            part["Offset"] |= {"X": x, "Y": y}
        case {"Fixed Frame": _}:
            part["Fixed Frame"] = shown.frame
        case {"QMainWindow State": _}:
            part["Width"] = PANELS + shown.width
        case {"Size (m)": _, "Topic": {"Value": topic}}:
            part["Size (m)"] = round(CELLS * shown.cell_of(topic), 4)
        case {"Scale": _}:
            part |= {"X": x, "Y": y, "Scale": round(shown.pixels, 4)}
        case {"Focal Point": _}:
            part["Distance"] = round(shown.distance(part["Pitch"], part["Yaw"]), 2)
            part["Focal Point"] = {"X": x, "Y": y, "Z": z}
        case {"Current": current, "Saved": saved} if shown.high > 0.9 * CAMERA_Z:
            orbit = next(view for view in saved if "Distance" in view)
            part["Current"] = orbit | {"Name": current["Name"]}
        case {"cameraState": camera, "topics": topics}:
            height = float(max(shown.extent.size)) / SHARE
            camera |= {"distance": round(height, 3), "targetOffset": [x, y, z]}
            part["followTf"] = shown.frame
            for name, topic in topics.items():
                if "pointSize" in topic:  # in pixels: a surface until one comes closer
                    size = CELLS * shown.cell_of(name) * PANEL_HEIGHT / height
                    topic["pointSize"] = max(1, round(size))
    for name in GROWING & part.keys():
        sizes = np.round(np.multiply(part[name], shown.larger), 4)
        part[name] = sizes.tolist()
    return part


def survey(node: Node) -> Shown | None:
    """What there is to show, by latched topics; None without a map."""

    def heard(kind: type, topic: str, seconds: float = LATCHED_S, how: Any = LATCHED) -> Any:
        return wait_for_message(kind, node, topic, qos_profile=how, time_to_wait=seconds)[1]

    picture = heard(OccupancyGrid, "map/mean", WAIT_S)
    if picture is None or not picture.info.resolution > 0:
        return None
    info, corner = picture.info, picture.info.origin.position
    width, height = info.width * info.resolution, info.height * info.resolution
    extent = Extent(corner.x, corner.x + width, corner.y, corner.y + height)
    frame = bare_frame(picture.header.frame_id)
    shown, heights = Shown(extent, round(info.resolution, 6), frame=frame), []
    for topic in ("map/points", "terrain"):
        try:
            grid, layers = messages.read_cloud(heard(PointCloud2, topic) or PointCloud2())
        except InputError:
            continue  # the planner says so
        z = layers["z"][np.isfinite(layers["z"])]
        heights += [float(z.min()), float(z.max())] if z.size else []
        if topic == "terrain" and len(grid.x) > 1:
            shown = replace(shown, terrain_cell=float(grid.x[1] - grid.x[0]))
    if (odometry := heard(Odometry, "odom", how=SENSOR_READ)) is not None:
        # The vehicle and what it is told are at this height.
        heights += filter(math.isfinite, [odometry.pose.pose.position.z])
    return replace(shown, low=min(heights), high=max(heights)) if heights else shown


def main(args: Sequence[str] | None = None) -> int:
    """Write the layouts and become RViz; returns the exit status if there is no RViz."""
    given = list(sys.argv[1:] if args is None else args)
    parser = argparse.ArgumentParser(description="Open RViz with a layout fitted to the survey.")
    parser.add_argument("--folder", type=Path, help="Where the layouts are written.")
    parser.add_argument("--no-rviz", action="store_true", help="Write the layouts only.")
    options = parser.parse_args(remove_ros_args(given))
    ros_args = given[given.index("--ros-args") :] if "--ros-args" in given else []
    if not options.no_rviz and shutil.which("rviz2") is None:
        sys.stderr.write("rviz2: expected on the path; it comes with ROS 2 (ros-jazzy-rviz2)\n")
        return WRONG_ARGUMENTS
    avoid_shared_memory()
    rclpy.init(args=ros_args)
    node = Node("rviz_layout")
    try:
        shown = survey(node)
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
