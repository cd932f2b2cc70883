"""`poam export`: export the map of a run for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.settings import declared, rows
from ...outputs.chart import UNITS, ExportSettings
from ...outputs.exports import FORMATS, export, export_settings
from ...outputs.run import Run
from ...outputs.vectors import export_soundings
from ..command import Parser, add_setting, add_settings

_ORIGIN = "Latitude and longitude of the map's (0, 0), WGS 84 (deg; default: as recorded)."
_UTM = "Project to the UTM zone of the origin instead of a transverse Mercator at the origin."
_CRS = "Project to this coordinate system: EPSG:25833, ..."
_DATUM = "EPSG code of the vertical datum: 5703 (NAVD88 height), 3855 (EGM2008 height), ..."
_CONTOURS = (
    "Interval between contours; 0: a round one, for about 12 contours (m; default: as recorded, or "
    "0)."
)
_DEPTH = "Write depths below the water level instead of elevations."
_SECTION = (
    "Write the map along a line instead, as a .csv with a figure beside it: coordinates X Y ... "
    "(m), or a GeoJSON file of lines."
)
_SOUNDINGS = (
    "Write the soundings of the map instead, in degrees where the map has an origin: as .csv, "
    ".gpkg or .xyz."
)
_UNITS = "Unit of contours and of their interval (default: m)."
#: Options that are fields of the settings, but no settings of a parameter file.
FIELDS = ("origin", "crs", "vertical_datum", "depth", "units")
ROWS = {row.name: row for row in rows(ExportSettings)}


def add_arguments(parser: Parser) -> None:
    add, absent = parser.add_argument, argparse.SUPPRESS  # as settings that are not given
    endings = ", ".join(f"{ending} ({row.summary})" for ending, row in FORMATS.items())
    formats = f"File to write. Its ending selects the format: {endings}."
    add("run", type=Path, metavar="RUN", help="Folder of a run: map.npz, samples.csv, config.yaml.")
    add("--to", type=Path, required=True, metavar="FILE", help=formats)
    add("--origin", nargs=2, type=float, metavar=("LAT", "LON"), default=absent, help=_ORIGIN)
    add_settings(parser, [ROWS["heading"]])
    add_water_level(parser, "as recorded")
    add_settings(parser, [ROWS["clearance"]])
    add_setting(parser, ROWS["contour_interval"], text=_CONTOURS, metavar="M")
    add("--section", nargs="+", metavar="X Y", default=(), help=_SECTION)
    add("--soundings", action="store_true", help=_SOUNDINGS)
    add("--units", choices=tuple(UNITS), default=absent, help=_UNITS)
    system = parser.add_mutually_exclusive_group()
    system.add_argument("--utm", action="store_const", dest="crs", const="UTM", default=absent,
        help=_UTM)  # fmt: skip
    system.add_argument("--crs", metavar="EPSG:N", default=absent, help=_CRS)
    add("--vertical-datum", type=int, metavar="EPSG", default=absent, help=_DATUM)
    add("--depth", action=argparse.BooleanOptionalAction, default=False, help=_DEPTH)
    parser.takes(ROWS.values())


def add_water_level(parser: Parser, default: str) -> None:
    """Add the option of the water level; ``default``: for the help."""
    text = f"Water level above the map's datum (m; default: {default})."
    add_setting(parser, ROWS["water.level"], text=text, metavar="M")


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings of an export that are given, by field."""
    named = declared(ExportSettings).items()
    return {own: vars(args)[row.name] for own, row in named if row.name in args}


def run(args: argparse.Namespace) -> int:
    """Write the file; returns the exit status."""
    options = {name: vars(args)[name] for name in FIELDS if name in args} | given_settings(args)
    if "origin" in options:
        options["origin"] = tuple(options["origin"])
    opened = Run.open(args.run)
    if str(args.to.resolve()) == opened.settings.get("log"):
        raise InputError(f"--to: {args.to} is the log that this map is of: expected another file")
    settings = export_settings(opened, args.to, options)
    if args.soundings:
        for name in ("section", "units", "contour_interval", "vertical_datum", "clearance"):
            if vars(args).get(name):
                raise InputError(f"--{name.replace('_', '-')}: does not apply to --soundings")
        print(export_soundings(opened, args.to, settings))
        return 0
    for path in export(opened, args.to, settings, args.section):
        print(path)
    return 0
