"""The options of `poam map`."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.settings import Setting, rows
from ..frontend.settings import GateSettings
from ..importers.bags import BagSettings
from ..importers.soundings import ON_MAP, SoundingMapSettings
from ..models.registry import model_rows
from ..screening.screen import ScreeningSettings
from .options import add_settings

MODEL = tuple(
    replace(row, default=ON_MAP[row.name]) if row.name in ON_MAP else row
    for row in model_rows()
)
SCREENING = tuple(row for row in rows(ScreeningSettings) if row.name != "screening")
RESOLUTION = Setting("resolution", 1.0, "Cell size", "m", minimum=1e-3, maximum=1e6)
MARGIN = Setting("margin", 1.0, "Room round the soundings", "m", minimum=0.0, maximum=1e6)
FRACTION = Setting("hold_out", 0.1, "Share", minimum=1e-6, maximum=1 - 1e-6)
#: What the front end of a recording may be told; the first is the workspace's own here, frames
#: are tf2's, and the water's level is every log's.
GATE = tuple(
    row for row in rows(GateSettings) if row.name not in ("margin", "base_frame", "water_level")
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("log", type=Path, metavar="LOG",
        help="CSV file with columns x,y,z (m) or latitude,longitude,depth; a rosbag2 recording: "
        "its folder, .mcap or .db3 (extra `bags`); or a mission's folder")  # fmt: skip
    add("--output", type=Path, metavar="DIR", help="folder of results (default: runs/map-LOG)")
    add("--columns", nargs="+", default=[], metavar="MEANING=NAME",
        help="other names of columns, as in latitude=LAT longitude=LON depth=D; "
        "meanings: x, y or latitude, longitude; z (up) or depth (down); time")  # fmt: skip
    add(
        "--workspace",
        nargs=4,
        type=float,
        metavar=("XMIN", "XMAX", "YMIN", "YMAX"),
        help="rectangle of the map in m; soundings outside are left out (default: their own box)",
    )
    add("--margin", dest="room", type=_checked(MARGIN), metavar="M",
        help="room round that box in m (default: a hundredth of its longer side)")  # fmt: skip
    add("--resolution", type=_checked(RESOLUTION), metavar="M",
        help="cell size in m (default: about 256 cells along the longer side)")  # fmt: skip
    add("--units", metavar="UNIT",
        help="unit of depths and elevations: m, ft, fathom, cm or mm (default: as the header says, "
        "else m)")  # fmt: skip
    add("--crs", default="", metavar="EPSG:N",
        help="coordinate reference system of x and y, as in EPSG:25833 (extra `geo`; default: "
        "metres of no known place)")  # fmt: skip
    add("--water-level", default=argparse.SUPPRESS, type=_level, metavar="FILE|M",
        help="elevation of the water's surface, from which depths are counted (m), or a gauge's "
        "file of time and level (default: 0)")  # fmt: skip
    add_settings(parser, (row for row in rows(SoundingMapSettings) if row.name != "water_level"))
    _add_chart(parser.add_argument_group("chart"))
    _add_validation(parser.add_argument_group("validation"))
    group = parser.add_argument_group("recordings")
    group.add_argument("--mission", type=Path, metavar="DIR",
        help="folder of the mission that was recorded: the map that it had")  # fmt: skip
    add_settings(group, rows(BagSettings))
    add_settings(group, GATE)
    group = parser.add_argument_group("false echoes")
    group.add_argument("--no-screening", dest="screening", action="store_false",
        help="believe every sounding")  # fmt: skip
    add_settings(group, SCREENING)
    add_settings(parser.add_argument_group("the model and its options"), MODEL)


def _add_chart(group: Any) -> None:
    group.add_argument("--outline", type=Path, metavar="FILE",
        help="polygons with islands where the map ends: GeoJSON (degrees); GeoPackage, Shapefile, "
        "KML (extra `geo`)")  # fmt: skip
    group.add_argument("--extrapolate", action=argparse.BooleanOptionalAction,
        help="show cells that the soundings say nothing about (default: within an outline, "
        "and of recordings and missions)")  # fmt: skip


def _add_validation(group: Any) -> None:
    add = group.add_argument
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--hold-out", type=_checked(FRACTION), metavar="F",
        help="keep this share of the soundings out of the map, and compare")  # fmt: skip
    kind.add_argument("--folds", type=int, metavar="K",
        help="hold out every sounding once, in K maps more")  # fmt: skip
    add("--by", metavar="COLUMN",
        help="hold out whole groups (recommended): a column's, or `line`: where there is no such "
        "column lines are found in the track, by its turns")  # fmt: skip
    add(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="bands of the map, and folds, side by side in so many processes (default: in turn; "
        "needs dask)",
    )
    add("--scheduler", metavar="ADDRESS", help="or on a dask scheduler, as tcp://10.0.0.5:8786")


def _level(text: str) -> float | Path:
    """A level, or the file of a gauge."""
    row = next(row for row in rows(SoundingMapSettings) if row.name == "water_level")
    return _checked(row)(text) if re.fullmatch(r"[-+.\deE]+", text) else Path(text)


def _checked(row: Setting) -> Any:
    def read(text: str) -> Any:
        try:
            return row.read(text)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error).removeprefix(f"{row.name}: ")) from None

    return read
