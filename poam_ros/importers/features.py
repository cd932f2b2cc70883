"""Soundings from points in GIS files."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, requires_extra
from ..core.files import UNREADABLE
from ..core.geodesy import WGS84, transformed
from ..core.reading import refuse_large_dataset
from ..mapping.soundings import LINE, Labels
from .altitudes import with_altitudes
from .cells import UNITS, Times, number, value_with_unit
from .columns import MEANINGS, Columns, unit_in_column, unit_of
from .questions import check_heights, check_unit, question
from .raw import RawSoundings, ReadOptions
from .tables import SAMPLE

#: Endings of files of points. (A GeoPackage has its signature at byte 68.)
FEATURE_FILES = (".gpx", ".geojson", ".gpkg", ".shp", ".fgb", ".kml")
MULTIPOINT, POINT = 4, 1
#: A depth in the XML of a GPX extension.
_DEPTH = re.compile(r"depth>\s*([-+\d.eE]+)\s*<", re.IGNORECASE)
#: Attributes that repeat what a point's geometry says.
MEANINGS_OF_PLACE = {name for m in ("x", "y", "latitude", "longitude") for name in MEANINGS[m]}


def is_features(path: Path, head: bytes) -> bool:
    """Whether a file is a GIS file."""
    begin = head[:2000].lstrip()
    return (
        path.suffix.lower() in FEATURE_FILES
        or head[68:72] == b"GPKG"
        or (begin.startswith(b"<?xml") and b"<gpx" in begin)
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
            points = [_point(bytes(data)) if data else None for data in geometries]
            contents.append(f"{layer}: {len(points)} features, {', '.join(meta['fields'])[:120]}")
            if any(point is not None for point in points):
                try:
                    return _features(path, options, meta, points, columns)
                except InputError as error:
                    first = first or error
    except (*UNREADABLE, DataSourceError, DataLayerError, GeometryError, sqlite3.Error) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected points with depths ({reason})") from None
    if first is not None:
        raise first
    raise InputError(f"{path}: expected points with depths, got none ({'; '.join(contents)})")


def _point(data: bytes) -> tuple[float, float, float] | None:
    """x, y, z of a point in well-known binary, with z NaN if absent; None if it is no point."""
    order = "<" if data[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, 1)
    if kind % 1000 == MULTIPOINT and struct.unpack_from(f"{order}I", data, 5) == (1,):
        return _point(data[9:])
    if kind & 0x1FFFFFFF not in (POINT, 1000 + POINT, 2000 + POINT, 3000 + POINT):
        return None
    high = kind & 0x80000000 or kind & 0x1FFFFFFF in (1000 + POINT, 3000 + POINT)
    values = struct.unpack_from(f"{order}{3 if high else 2}d", data, 5)
    return values if len(values) == 3 else (*values, np.nan)


def _features(
    path: Path, options: ReadOptions, meta: Mapping[str, Any],
    points: list[tuple[float, float, float] | None], values: list[np.ndarray],
) -> RawSoundings:  # fmt: skip
    """The soundings of a layer: its description, points and attributes as pyogrio reads them."""
    with requires_extra(f"{path}: its coordinates", "pyproj"):
        from pyproj import CRS
    crs = CRS.from_user_input(meta["crs"]) if meta["crs"] else None
    degrees = crs is not None and crs.is_geographic
    nowhere = (np.nan, np.nan, np.nan)
    xyz = np.array([nowhere if point is None else point for point in points])
    if crs is not None and degrees and (flat := crs.to_2d()).to_epsg() != 4326:
        xyz[:, :2] = transformed(flat, WGS84, xyz[:, :2])
    names = ("longitude", "latitude") if degrees else ("x", "y")
    fields = {str(name): each for name, each in zip(meta["fields"], values, strict=True)}
    own = {name: each for name, each in fields.items() if name.lower() not in MEANINGS_OF_PLACE}
    if np.isfinite(xyz[:, 2]).any() and xyz[:, 2].any() and "z" not in own:
        own["z"] = xyz[:, 2]
    for name in [name for name, cells in own.items() if _has_depths(cells)]:
        own.setdefault("depth", own.pop(name))  # of an extension of GPX
    columns = _columns(path, options, names, own, "" if degrees else str(meta["crs"] or ""))
    height = np.array([_value(cell, columns.unit) for cell in own[columns.height].tolist()])
    if columns.depth_beside:
        depth = [_value(cell, columns.unit) for cell in own[columns.depth_beside].tolist()]
        check_heights(columns, np.column_stack((height, depth)), str(path))
    lost = dict[str, np.ndarray]()
    if columns.altitude:
        unit = columns.altitude_unit or columns.unit
        above = np.array([_value(cell, unit) for cell in own[columns.altitude].tolist()])
        columns, height, lost = with_altitudes(
            columns, xyz[:, :2], height, above, str(path), options.sound_scale
        )
    stamps = None
    if columns.time and columns.time in own:
        texts = [str(cell) for cell in own[columns.time].tolist()]
        times = Times(texts[:SAMPLE])
        if options.timed or not times.ambiguous:
            stamps, timed = times.decided(f"{path}: attribute {columns.time}").stamps(texts)
    found = RawSoundings(
        xyz[:, 1::-1] if degrees else xyz[:, :2], height, degrees, columns.down, columns.unit,
        "" if degrees or crs is None else str(meta["crs"]), stamps, understood=columns.description,
        layout=f"points of {path.suffix[1:] or 'a GIS'}", source={"columns": asdict(columns)},
        question=partial(question, columns, decimals=(7, 7, 2)),
    )  # fmt: skip
    labels = {}
    for name in options.labels | {LINE}:
        if name in fields:
            values_of, code = np.unique([str(c) for c in fields[name]], return_inverse=True)
            labels[name] = Labels(code, tuple(map(str, values_of)))
    found = replace(found, labels=labels)
    wrong = {"no_point": np.array([point is None for point in points]), **lost}
    if stamps is not None and options.timed:
        wrong["no_time"] = ~timed
    return found.without(wrong)


def _columns(
    path: Path, options: ReadOptions, names: tuple[str, str], own: Mapping[str, np.ndarray],
    crs: str,
) -> Columns:  # fmt: skip
    """The columns among the places' ``names`` and the attributes; ``crs``: of x and y, if known."""
    header = [*names, *own]
    columns = Columns.of(header, options.columns, str(path), (), options.units)
    unit = options.units or unit_of(columns.height)
    if not options.units:
        rows = [
            ["", "", *map(str, row)]
            for row in zip(*(cells[:SAMPLE].tolist() for cells in own.values()), strict=True)
        ]
        unit = unit_in_column(header, rows, columns.height, str(path)) or unit
    unit = unit or ("m" if _unit_beside(own[columns.height]) else "")
    degrees = names[0] == "longitude"
    check_unit(str(path), "" if degrees else options.crs or crs, columns.height, unit)
    return replace(columns, unit=unit or "m", given=(*names, *options.columns))


def _has_depths(cells: np.ndarray) -> bool:
    """Whether an attribute is the XML of a GPX extension with depths."""
    return any(isinstance(cell, str) and _DEPTH.search(cell) for cell in cells[:SAMPLE].tolist())


def _unit_beside(cells: np.ndarray) -> bool:
    """Whether an attribute's values have their unit beside them."""
    texts = [cell for cell in cells[:SAMPLE].tolist() if isinstance(cell, str)]
    return bool(texts) and all(map(value_with_unit, texts))


def _value(cell: Any, unit: str) -> float:
    """A number, one with its unit beside it, or the depth in the XML of a GPX extension; in
    ``unit``."""
    if isinstance(cell, str):
        inside = _DEPTH.search(cell)
        cell = inside.group(1) if inside else cell
        scale = 1.0
        if found := value_with_unit(cell):
            cell, scale = found[0], UNITS[found[1]] / UNITS[unit]
        return scale * number(cell, "," in cell)
    return np.nan if cell is None else float(cell)
