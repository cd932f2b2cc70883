"""The options of `poam map`."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.settings import Setting, rows
from ..frontend.settings import GateSettings
from ..importers.bags import BagSettings
from ..importers.soundings import MAP_DEFAULTS, SoundingMapSettings
from ..models.registry import model_rows
from ..screening.screen import ScreeningSettings
from .options import Parser, add_settings, reader

MODEL = tuple(
    replace(row, default=MAP_DEFAULTS[row.name]) if row.name in MAP_DEFAULTS else row
    for row in model_rows()
)
SCREENING = tuple(
    replace(row, default=True) if row.name == "screening.enabled" else row
    for row in rows(ScreeningSettings)
)
RESOLUTION = Setting("resolution", 1.0, "Cell size", "m", minimum=1e-3, maximum=1e6)
MARGIN = Setting("margin", 1.0, "Margin around the soundings", "m", minimum=0.0, maximum=1e6)
FRACTION = Setting("hold_out", 0.1, "Share", minimum=1e-6, maximum=1 - 1e-6)
#: What the front end of a recording may be told; the first is the workspace's own here, frames
#: are tf2's, and the water's level is every log's.
GATE = tuple(
    row
    for row in rows(GateSettings)
    if row.name not in ("margin", "sonar.base_frame", "water.level")
)
#: What people use; ``--help-all`` shows the rest.
COMMON_OPTIONS = (
    "output", "columns", "workspace", "resolution", "method", "model", "seed", "water.level",
    "screening.enabled", "hold_out", "folds", "by", "workers", "mission",
)  # fmt: skip


def add_arguments(parser: Parser) -> None:
    parser.common = COMMON_OPTIONS
    add = parser.add_argument
    add("log", type=Path, metavar="LOG",
        help="CSV file with columns x,y,z (m) or latitude,longitude,depth; a rosbag2 recording: "
        "its folder, .mcap or .db3 (extra `bags`); or a mission's folder")  # fmt: skip
    group = parser.add_argument_group("map")
    add = group.add_argument
    add("--output", type=Path, metavar="DIR", help="Folder of results (default: runs/map-LOG).")
    add("--columns", nargs="+", default=[], metavar="MEANING=NAME",
        help="Other names of columns, as in latitude=LAT longitude=LON depth=D. "
        "Meanings: x, y or latitude, longitude; z (up) or depth (down); time.")  # fmt: skip
    add("--workspace", nargs=4, type=float, metavar=("XMIN", "XMAX", "YMIN", "YMAX"),
        help="Rectangle of the map (m). Leave out soundings outside (default: the box around all "
        "soundings, with --margin).")  # fmt: skip
    add("--margin", dest="room", type=reader(MARGIN), metavar="M",
        help="Margin around that box (m; default: a hundredth of its longer side).")  # fmt: skip
    add("--resolution", type=reader(RESOLUTION), metavar="M",
        help="Cell size (m; default: about 256 cells along the longer side).")  # fmt: skip
    add("--units", metavar="UNIT",
        help="Unit of depths and elevations: m, ft, fathom, cm or mm (default: as the header says, "
        "else m).")  # fmt: skip
    add("--crs", default="", metavar="EPSG:N",
        help="Coordinate reference system of x and y, as in EPSG:25833 (extra `geo`; default: "
        "metres of no known place).")  # fmt: skip
    add("--water-level", "--water.level", dest="water.level", default=argparse.SUPPRESS,
        type=_level, metavar="FILE|M",
        help="Elevation of the water's surface, from which depths are counted (m), or a gauge's "
        "file of time and level (default: 0).")  # fmt: skip
    add_settings(group, (row for row in rows(SoundingMapSettings) if row.name != "water.level"))
    _add_chart(parser.add_argument_group("chart"))
    add_settings(parser.add_argument_group("model"), MODEL)
    add_settings(parser.add_argument_group("false echoes"), SCREENING)
    _add_validation(parser.add_argument_group("validation"))
    group = parser.add_argument_group("recordings")
    group.add_argument("--mission", type=Path, metavar="DIR",
        help="Folder of the mission that was recorded: make the map that it had.")  # fmt: skip
    add_settings(group, rows(BagSettings))
    add_settings(group, GATE)


def _add_chart(group: Any) -> None:
    group.add_argument("--outline", type=Path, metavar="FILE",
        help="Polygons with islands where the map ends: GeoJSON (degrees); GeoPackage, Shapefile, "
        "KML (extra `geo`)")  # fmt: skip
    group.add_argument("--extrapolate", action=argparse.BooleanOptionalAction,
        help="Show cells that the soundings say nothing about (default: within an outline, "
        "and of recordings and missions)")  # fmt: skip


def _add_validation(group: Any) -> None:
    add = group.add_argument
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--hold-out", type=reader(FRACTION), metavar="F",
        help="Keep this share of the soundings out of the map, and compare.")  # fmt: skip
    kind.add_argument("--folds", type=int, metavar="K",
        help="Hold out every sounding once, in K more maps.")  # fmt: skip
    add("--by", metavar="COLUMN",
        help="Hold out whole groups (recommended): those of a column, or `line`: where there is no "
        "such column, lines found in the track by its turns.")  # fmt: skip
    add("--workers", type=int, default=1, metavar="N",
        help="Draw bands of the map, and compute folds, in this many processes (default: 1; needs "
        "dask).")  # fmt: skip
    add("--scheduler", metavar="ADDRESS",
        help="Use this dask scheduler, as tcp://10.0.0.5:8786, instead.")  # fmt: skip


def _level(text: str) -> Any:
    """A level, or the file of a gauge."""
    row = next(row for row in rows(SoundingMapSettings) if row.name == "water.level")
    return reader(row)(text) if re.fullmatch(r"[-+.\deE]+", text) else Path(text)
