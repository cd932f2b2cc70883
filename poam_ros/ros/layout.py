"""The layouts of config/ for RViz and for Foxglove or Lichtblick, fitted to a survey. No ROS.

The files fit ``DEFAULT``. Of a larger survey everything is drawn larger in metres, and so as large
on the screen.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.files import atomic_write, shipped
from ..core.geometry import Extent
from ..core.reading import read_yaml

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
#: Sizes in m at ``DEFAULT``, by class of RViz's displays.
SIZES = {
    "Path": ("Line Width",),
    "Pose": ("Shaft Length", "Shaft Radius", "Head Length", "Head Radius"),
    "Odometry": ("Position Tolerance",),
    "TF": ("Marker Scale",),
}


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
        width, depth = self.extent.size.tolist()
        farthest = 0.0
        for i, j, k in itertools.product((-0.5, 0.5), repeat=3):
            x, y, z = i * width, j * depth, k * (self.high - self.low)
            ahead = x * math.cos(yaw) + y * math.sin(yaw)
            near = ahead * math.cos(pitch) + z * math.sin(pitch)  # towards the camera
            up = z * math.cos(pitch) - ahead * math.sin(pitch)
            right = y * math.cos(yaw) - x * math.sin(yaw)
            aside = max(abs(up), abs(right) * HEIGHT / self.width)
            farthest = max(farthest, near + aside / (SHARE * HALF_VIEW))
        return farthest

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
    layout = yaml.safe_dump(fit_rviz(read_yaml(rviz), shown), sort_keys=False, width=10_000)
    scene = fit_foxglove(json.loads(foxglove.read_text(encoding="utf-8")), shown)
    texts = {rviz.name: layout, foxglove.name: json.dumps(scene, indent=2) + "\n"}
    for name, text in texts.items():
        with atomic_write(folder / name) as file:
            file.write(text.encode())
    return folder / rviz.name


def fit_rviz(layout: dict[str, Any], shown: Shown) -> dict[str, Any]:
    """RViz's layout, with sizes and views fitted to what is shown."""
    layout = copy.deepcopy(layout)
    manager = layout["Visualization Manager"]
    manager["Global Options"]["Fixed Frame"] = shown.frame
    layout["Window Geometry"]["Width"] = PANELS + shown.width
    for display in manager["Displays"]:
        _fit_display(display, shown)
    views = manager["Views"]
    for view in (views["Current"], *views["Saved"]):
        _fit_view(view, shown)
    if shown.high > 0.9 * CAMERA_Z:
        orbit = next(view for view in views["Saved"] if "Distance" in view)
        views["Current"] = {**copy.deepcopy(orbit), "Name": views["Current"]["Name"]}
    return layout


def _fit_display(display: dict[str, Any], shown: Shown) -> None:
    kind, (x, y, _) = display["Class"].rpartition("/")[2], shown.centre
    if kind == "Grid":
        cell, count = shown.grid
        display |= {"Name": f"Grid of {cell:g} m", "Cell Size": cell, "Plane Cell Count": count}
        display["Offset"] |= {"X": x, "Y": y}
    elif kind == "PointCloud2":
        truth = display["Topic"]["Value"] == "terrain"
        display["Size (m)"] = round(CELLS * (shown.terrain_cell if truth else shown.cell), 4)
    for name in SIZES.get(kind, ()):
        display[name] = round(shown.larger * display[name], 4)
    shape = display.get("Shape")
    if isinstance(shape, dict):
        shape |= {n: round(shown.larger * shape[n], 4) for n in SIZES["Pose"]}


def _fit_view(view: dict[str, Any], shown: Shown) -> None:
    x, y, z = shown.centre
    if "Scale" in view:
        view |= {"X": x, "Y": y, "Scale": round(shown.pixels, 4)}
    else:
        view["Distance"] = round(shown.distance(view["Pitch"], view["Yaw"]), 2)
        view["Focal Point"] = {"X": x, "Y": y, "Z": z}


def fit_foxglove(layout: dict[str, Any], shown: Shown) -> dict[str, Any]:
    """Foxglove's or Lichtblick's layout, with sizes and view fitted to what is shown.

    Points there have a size in pixels: they are a surface until one comes closer.
    """
    layout = copy.deepcopy(layout)
    scene = next(panel for name, panel in layout["configById"].items() if name.startswith("3D!"))
    scene["followTf"] = shown.frame
    x, y, z = shown.centre
    height = float(max(shown.extent.size)) / SHARE
    scene["cameraState"] |= {"distance": round(height, 3), "targetOffset": [x, y, z]}
    frames = scene["scene"]["transforms"]
    frames["axisScale"] = round(shown.larger * frames["axisScale"], 4)
    for name, topic in scene["topics"].items():
        if "pointSize" in topic:
            cell = shown.terrain_cell if name == "/terrain" else shown.cell
            topic["pointSize"] = max(1, round(CELLS * cell * PANEL_HEIGHT / height))
        if "lineWidth" in topic:
            topic["lineWidth"] = round(shown.larger * topic["lineWidth"], 4)
        if "arrowScale" in topic:
            topic["arrowScale"] = [round(shown.larger * size, 4) for size in topic["arrowScale"]]
    cell, count = shown.grid
    for grid in scene["layers"].values():
        grid |= {
            "label": f"Grid of {cell:g} m",
            "frameId": shown.frame,
            "size": cell * count,
            "divisions": count,
        }
        grid["position"] = [x, y, 0.0]
    return layout
