"""`poam export`: a run's map as a file for other programs."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..core.settings import rows
from ..outputs.exports.chart import ExportSettings
from ..outputs.exports.formats import FORMATS, export, settings_for
from .options import add_settings

_ORIGIN = "of the map's (0, 0), in degrees, WGS 84 (default: what the run recorded, or nowhere)"
_UTM = "in the origin's UTM zone (default: a transverse Mercator around the origin)"
_DATUM = "what the map's zero is: 5703 (NAVD88 height), 3855 (EGM2008 height), ..."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add, absent = parser.add_argument, argparse.SUPPRESS  # as settings that are not given
    endings = ", ".join(f"{ending} ({row.summary})" for ending, row in FORMATS.items())
    add("run", type=Path, metavar="RUN", help="folder of a run: map.npz, samples.csv, config.yaml")
    add("--to", type=Path, required=True, metavar="FILE", help=f"by its ending: {endings}")
    add("--origin", nargs=2, type=float, metavar=("LAT", "LON"), default=absent, help=_ORIGIN)
    add_settings(parser, rows(ExportSettings))
    add("--utm", action="store_true", help=_UTM)
    add("--vertical-datum", type=int, metavar="EPSG", default=absent, help=_DATUM)
    add("--depth", action="store_true", help="depths under the water's level, not elevations")


def run(args: argparse.Namespace) -> int:
    """Write the file; returns the exit status."""
    given = {key: value for key, value in vars(args).items() if key not in ("run", "to")}
    if "origin" in given:
        given["origin"] = tuple(given["origin"])
    for path in export(args.run, args.to, settings_for(args.run, args.to, given)):
        print(path)
    return 0
