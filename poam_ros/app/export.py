"""`poam export`: a run's map as a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..core.settings import rows
from ..outputs.exports.chart import ExportSettings
from ..outputs.exports.formats import FORMATS, export, export_settings
from .options import add_settings

_ORIGIN = "Latitude and longitude of the map's (0, 0), WGS 84 (deg; default: as recorded)."
_UTM = "Use the origin's UTM zone, not a transverse Mercator around the origin."
_CRS = "Use this projected coordinate system: EPSG:25833, ..."
_DATUM = "Datum of the map's zero: 5703 (NAVD88 height), 3855 (EGM2008 height), ..."
_DEPTH = "Write depths below the water's surface, not elevations."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, absent = parser.add_argument, argparse.SUPPRESS  # as settings that are not given
    endings = ", ".join(f"{ending} ({row.summary})" for ending, row in FORMATS.items())
    add("run", type=Path, metavar="RUN", help="folder of a run: map.npz, samples.csv, config.yaml")
    add("--to", type=Path, required=True, metavar="FILE", help=f"by its ending: {endings}")
    add("--origin", nargs=2, type=float, metavar=("LAT", "LON"), default=absent, help=_ORIGIN)
    for row in rows(ExportSettings):
        add_settings(parser, [row], *(["--water-level"] if row.name == "water.level" else []))
    add("--utm", action=argparse.BooleanOptionalAction, default=False, help=_UTM)
    add("--crs", metavar="EPSG:N", default=absent, help=_CRS)
    add("--vertical-datum", type=int, metavar="EPSG", default=absent, help=_DATUM)
    add("--depth", action=argparse.BooleanOptionalAction, default=False, help=_DEPTH)


def run(args: argparse.Namespace) -> int:
    """Write the file; returns the exit status."""
    given = {key: value for key, value in vars(args).items() if key not in ("run", "to")}
    if "origin" in given:
        given["origin"] = tuple(given["origin"])
    if "water.level" in given:
        given["water_level"] = given.pop("water.level")
    for path in export(args.run, args.to, export_settings(args.run, args.to, given)):
        print(path)
    return 0
