"""The soundings of a run's map, without those that were left out, for other programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import shapely

from ...core.errors import InputError
from ...core.files import atomic_write
from ..folder import make_folder
from ..run import Run
from .chart import ExportSettings
from .contours import geopackage_of

ENDINGS = (".csv", ".gpkg", ".xyz")
#: Decimals of degrees (1 cm), and of metres.
DEGREES, METRES = 7, 3
WGS84 = "EPSG:4326"


def export_soundings(run: Run | Path, to: Path, settings: ExportSettings) -> Path:
    """Write the soundings that are in a map: longitude and latitude (WGS 84), or x and y in m
    without an origin or where ``settings`` ask for a projected system; elevation or depth in m.

    ``.csv`` and ``.gpkg`` also have the other columns of ``samples.csv`` (line, row, file, day);
    ``.xyz`` has three columns without a header.

    Returns:
        The file.

    Raises:
        InputError: the ending is another one, the run has no soundings, or pyogrio is missing.
        OSError: the file cannot be written.
    """
    ending = to.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"to: expected a file that ends with {', '.join(ENDINGS)}, got {to.name}")
    columns, crs = _columns(Run.of(run), settings)
    make_folder(to.parent)
    if ending == ".gpkg":
        content = _geopackage(to.name, columns, crs)
    else:
        header = "" if ending == ".xyz" else ",".join(columns) + "\n"
        chosen = list(columns.values())[: 3 if ending == ".xyz" else None]
        separator = " " if ending == ".xyz" else ","
        rows = (separator.join(row) for row in zip(*map(_texts, chosen), strict=True))
        content = (header + "".join(f"{row}\n" for row in rows)).encode()
    with atomic_write(to) as file:
        file.write(content)
    return to


def _columns(run: Run, settings: ExportSettings) -> tuple[dict[str, np.ndarray], str | None]:
    """The columns by name, each [N], places first; and their coordinate system, None if unknown."""
    samples, place = run.mapped, settings.place
    if "z" not in samples or not len(samples["z"]):
        raise InputError(f"{run.folder / 'samples.csv'}: expected soundings with z, got none")
    xy, names, crs = run.xy, ("x", "y"), None
    if place is not None:
        xy, crs = place.to_projected(xy), place.system().to_wkt()
        if not place.crs:
            xy, names, crs = place.degrees(xy), ("longitude", "latitude"), WGS84
    digits = DEGREES if crs == WGS84 else METRES
    height = settings.water_level - samples["z"] if settings.depth else samples["z"]
    columns = {name: each.round(digits) for name, each in zip(names, xy.T, strict=True)}
    columns["depth" if settings.depth else "elevation"] = height.round(METRES)
    columns |= {name: each for name, each in samples.items() if name not in ("x", "y", "z")}
    return columns, crs


def _texts(column: np.ndarray) -> list[str]:
    return [str(each) for each in column.tolist()]


def _geopackage(name: str, columns: dict[str, np.ndarray], crs: str | None) -> bytes:
    """Points in a layer ``soundings``."""
    (_, x), (_, y), *rest = columns.items()
    fields = {k: each.astype(object) if each.dtype.kind in "US" else each for k, each in rest}
    return geopackage_of(name, {"soundings": ("Point", shapely.points(x, y), fields)}, crs)
