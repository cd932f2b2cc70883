"""Polygons of vector files: GeoPackage, Shapefile and what else pyogrio reads."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .errors import InputError, requires_extra
from .files import UNREADABLE
from .reading import refuse_large_dataset

#: A polygon: its border, then its holes, each corners [K, 2].
Rings = tuple[np.ndarray, ...]
#: Of well-known binary: what its geometries are.
POLYGON, MULTIPOLYGON, COLLECTION = 3, 6, 7


class PolygonLayer(NamedTuple):
    """Polygons [N], the value of a column for each [N] (empty where there is none), and the
    coordinate system, if the file says one."""

    polygons: list[Rings]
    values: list[str]
    crs: str | None


def read_polygon_layer(path: Path, what: str, column: str = "") -> PolygonLayer:
    """Polygons of a file's first layer.

    Args:
        path: of the file.
        what: it is, for the message that pyogrio is needed.
        column: whose values are wanted.

    Raises:
        InputError: the file cannot be read, or pyogrio is not installed.
    """
    with requires_extra(f"{path}: {what}", "pyogrio"):
        from pyogrio import raw
        from pyogrio.errors import DataLayerError, DataSourceError, GeometryError
    if not path.exists():
        raise InputError(f"{path}: cannot be read (No such file or directory)")
    try:
        refuse_large_dataset(path)
        columns = [column] if column else []
        meta, _, geometries, fields = raw.read(path, columns=columns, force_2d=True)
    except (*UNREADABLE, DataSourceError, DataLayerError, GeometryError, sqlite3.Error) as error:
        raise InputError(f"{path}: expected polygons ({shown_error(error)})") from None
    named = fields[0] if len(fields) else [""] * len(geometries)
    found = [
        (rings, str(value or ""))
        for data, value in zip(geometries, named, strict=True)
        if data
        for rings in _of_binary(bytes(data), [0])
    ]
    return PolygonLayer([rings for rings, _ in found], [text for _, text in found], meta["crs"])


def shown_error(error: Exception) -> str:
    """What is wrong, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _of_binary(data: bytes, at: list[int]) -> Iterator[Rings]:
    """Polygons of well-known binary (OGC 06-103r4, 8.2) in two dimensions, from ``at`` on."""
    order = "<" if data[at[0]] else ">"

    def number() -> int:
        (found,) = struct.unpack_from(f"{order}I", data, at[0])
        at[0] += 4
        return found

    at[0] += 1
    kind, count = number(), number()
    if kind == POLYGON:
        rings = []
        for _ in range(count):
            corners = number()
            rings.append(np.frombuffer(data, f"{order}f8", 2 * corners, at[0]).reshape(-1, 2))
            at[0] += 16 * corners
        yield tuple(ring.astype(float) for ring in rings)
    elif kind in (MULTIPOLYGON, COLLECTION):
        for _ in range(count):
            yield from _of_binary(data, at)
