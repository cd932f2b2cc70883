"""The table of export formats: a row for each file ending."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.files import atomic_write
from ..folder import make_folder
from ..run import Run
from .chart import Chart, ExportSettings, read_chart
from .sections import read_section_lines, sections
from .vectors import geojson, geopackage, kml
from .writers import bag, geotiff, nav2, netcdf, page, picture, table

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Format:
    """A format of maps.

    Attributes:
        write: returns the contents of the files by name, the requested file last.
        summary: for ``--help``.
        origin: ``needed``, ``taken`` (optional) or ``refused``.
        depth: whether it can hold depths.
        crs: whether it holds a coordinate system; a vertical datum then needs an origin.
        units: whether heights may be in another unit than m.
    """

    write: Callable[[Chart, str], dict[str, bytes]]
    summary: str
    origin: str = "taken"
    depth: bool = True
    crs: bool = False
    units: bool = False


FORMATS = {
    ".tif": Format(geotiff, "GeoTIFF", crs=True),
    ".bag": Format(bag, "Bathymetric Attributed Grid", origin="needed", depth=False, crs=True),
    ".nc": Format(netcdf, "NetCDF-CF", crs=True),
    ".csv": Format(table, "XYZ table"),
    ".yaml": Format(nav2, "Nav2 map, with its .pgm", origin="refused", depth=False),
    ".geojson": Format(geojson, "contours, areas and bands", origin="needed", units=True),
    ".gpkg": Format(geopackage, "the same as GeoPackage", crs=True, units=True),
    ".kml": Format(kml, "the same as KML", origin="needed", units=True),
    ".png": Format(picture, "picture"),
    ".html": Format(page, "page with picture and numbers"),
}


def export_settings(run: Run | Path, to: Path, chosen: Mapping[str, Any]) -> ExportSettings:
    """The export settings of a run: as given, otherwise as recorded in the run.

    Args:
        run: the run, or its folder; its settings may have an origin and a water level.
        to: the file; its format may refuse an origin.
        chosen: fields of ``ExportSettings`` chosen by the user.

    Raises:
        InputError: if a value is wrong, there is no such run, or its config.yaml is no YAML.
    """
    own = dict(Run.of(run).recorded)
    wanted = FORMATS.get(to.suffix.lower())
    if chosen.get("origin") is not None or (wanted and wanted.origin == "refused"):
        own = {key: own[key] for key in own if key in ("water_level", "contour_interval")}
    elif "heading" in chosen:
        raise InputError("heading: needs --origin LAT LON as well")
    if chosen.get("units", "m") != "m":
        own.pop("contour_interval", None)  # which is in m
    return ExportSettings(**{**own, **chosen})


def export(
    run: Run | Path, to: Path, settings: ExportSettings, section: Sequence[str] = ()
) -> list[Path]:
    """Write the map of a run in the format of the file's ending.

    Args:
        run: the run, or its folder.
        to: the file.
        settings: of the export.
        section: write the values along these lines instead; see ``sections.read_section_lines``.

    Returns:
        The files written, the requested one last. Each appears only when complete.

    Raises:
        InputError: if there is no such format, the settings do not suit it, the run has no map, a
            package for the format is not installed, or the folder cannot be written.
        OSError: a file cannot be written; earlier files by these names stay.
    """
    wanted = _checked(to, settings)
    if section and to.suffix.lower() != ".csv":
        raise InputError(f"to: expected a .csv file for a section, got {to.name}")
    chart = read_chart(run, settings)
    if "missing" in chart.provenance:
        log.warning("%s lacks %s", chart.provenance["title"], chart.provenance["missing"])
    if section:
        files = sections(chart, to.name, read_section_lines(section, chart.place))
    else:
        files = wanted.write(chart, to.name)
    make_folder(to.parent)
    for name, content in files.items():
        with atomic_write(to.parent / name) as file:
            file.write(content)
    return [to.parent / name for name in files]


def _checked(to: Path, settings: ExportSettings) -> Format:
    """The format of a file; raises ``InputError`` if the settings do not suit it."""
    ending = to.suffix.lower()
    if ending not in FORMATS:
        raise InputError(f"to: expected a file that ends with {', '.join(FORMATS)}, got {to.name}")
    wanted, placed = FORMATS[ending], settings.origin is not None
    if wanted.origin == "needed" and not placed:
        raise InputError(f"to: {ending} needs a georeference; expected --origin LAT LON")
    if wanted.origin == "refused" and placed:
        raise InputError(f"to: {ending} is in the map's own frame; expected no --origin")
    if settings.depth and not wanted.depth:
        raise InputError(f"to: {ending} holds elevations, positive up; expected no --depth")
    if settings.units != "m" and not wanted.units:
        raise InputError(
            f"units: {ending} is in m; expected --units with contours: .geojson, .gpkg or .kml"
        )
    if settings.vertical_datum is not None and wanted.crs and not placed:
        raise InputError(
            f"vertical_datum: {ending} stores it together with the georeference; "
            f"expected --origin LAT LON"
        )
    return wanted
