"""Soundings from points in GIS files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import shapely
from shapely.errors import ShapelyError

from ..core.errors import InputError, requires_extra
from ..core.files import UNREADABLE
from ..core.geodesy import WGS84, transformed
from ..core.reading import refuse_large_dataset
from .cells import value_with_unit
from .columns import MEANINGS
from .options import ReadOptions
from .raw import RawSoundings
from .tables import of_rows

#: Endings of files of points. (A GeoPackage has its signature at byte 68.)
FEATURE_FILES = (".geojson", ".gpkg", ".shp", ".fgb", ".kml")
#: Attributes that repeat what a point's geometry says.
PLACE_NAMES = {name for m in ("x", "y", "latitude", "longitude") for name in MEANINGS[m]}

#: Bytes in which properties of a whole collection stand, and one of them.
HEAD = 65_536
_UNIT = re.compile(rb'"depth_?units?"\s*:\s*"(\w+)"', re.IGNORECASE)


def is_features(path: Path, head: bytes) -> bool:
    """Whether a file is a GIS file."""
    begin = head[:2000].lstrip()
    return (
        path.suffix.lower() in FEATURE_FILES
        or head[68:72] == b"GPKG"
        or (begin.startswith(b"{") and b"Feature" in begin)
    )


def read_features(path: Path, options: ReadOptions) -> RawSoundings:
    """Read the points of the first layer that has depths: in an attribute, found like a table's
    column, or else as the points' third coordinate.

    Raises:
        InputError: the file cannot be read, has no such points, or pyogrio is not installed.
    """
    with requires_extra(f"{path}: points in this format", "pyogrio"):
        from pyogrio import list_layers, raw
        from pyogrio.errors import DataLayerError, DataSourceError, GeometryError
    if not path.exists():
        raise InputError(f"{path}: cannot be read (No such file or directory)")
    first: InputError | None = None
    contents: list[str] = []
    try:
        refuse_large_dataset(path)
        layers = [str(name) for name in list_layers(path)[:, 0]]
        for layer in layers:
            meta, _, geometries, columns = raw.read(path, layer=layer)
            shapes = shapely.from_wkb(geometries)
            points = shapely.get_geometry(shapes, 0)  # of a shape with one alone
            points[shapely.get_num_geometries(shapes) > 1] = None
            contents.append(f"{layer}: {len(points)} features, {', '.join(meta['fields'])[:120]}")
            if np.isfinite(shapely.get_x(points)).any():
                try:
                    return _features(path, options, meta, points, columns, _said_unit(path))
                except InputError as error:
                    first = first or error
    except (*UNREADABLE, DataSourceError, DataLayerError, GeometryError, ShapelyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected points with depths ({reason})") from None
    if first is not None:
        raise first
    raise InputError(f"{path}: expected points with depths, got none ({'; '.join(contents)})")


def _features(
    path: Path, options: ReadOptions, meta: Mapping[str, Any], points: np.ndarray,
    values: list[np.ndarray], unit: str,
) -> RawSoundings:  # fmt: skip
    """The soundings of a layer: its description, points and attributes as pyogrio reads them;
    ``unit``: of all depths, empty if the file does not say it."""
    with requires_extra(f"{path}: its coordinates", "pyproj"):
        from pyproj import CRS
    crs = CRS.from_user_input(meta["crs"]) if meta["crs"] else None
    degrees = crs is not None and crs.is_geographic
    xyz = np.column_stack([each(points) for each in (shapely.get_x, shapely.get_y, shapely.get_z)])
    if crs is not None and degrees and (flat := crs.to_2d()).to_epsg() != 4326:
        xyz[:, :2] = transformed(flat, WGS84, xyz[:, :2])
    columns = dict(zip(("longitude", "latitude") if degrees else ("x", "y"), xyz.T, strict=False))
    fields = zip(map(str, meta["fields"]), values, strict=True)
    columns |= {name: cells for name, cells in fields if name.lower() not in PLACE_NAMES}
    if np.isfinite(xyz[:, 2]).any() and xyz[:, 2].any():
        columns.setdefault("z", xyz[:, 2])
    if unit:
        columns["depth unit"] = np.full(len(points), unit)
    texts = [[_text(cell) for cell in cells.tolist()] for cells in columns.values()]
    rows = list(map(list, zip(*texts, strict=True)))
    kind = f"points of {path.suffix[1:] or 'a GIS'}"
    return of_rows(path, options, tuple(columns), rows, kind,
                   "" if degrees or crs is None else str(meta["crs"]))  # fmt: skip


def _said_unit(path: Path) -> str:
    """The unit of depths that GeoJSON has in the properties of the whole collection, as that of
    crowd-sourced bathymetry (IHO B-12), which pyogrio does not give; empty without one."""
    with path.open("rb") as file:
        head = file.read(HEAD)
    found = _UNIT.search(head) if head.lstrip().startswith(b"{") else None
    return found[1].decode() if found else ""


def _text(cell: Any) -> str:
    """An attribute as the cell of a table."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, str) and value_with_unit(cell):
        return cell.replace(",", ".")
    return str(cell)
