"""Shapes of vector files: GeoPackage, Shapefile and what else pyogrio reads."""

from __future__ import annotations

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
#: Types of geometries in well-known binary.
POINT, LINE, POLYGON, SEVERAL = 1, 2, 3, (4, 5, 6, 7)


class VectorLayer(NamedTuple):
    """The shapes of a layer.

    Attributes:
        polygons: border and holes of each [N].
        values: of a column, for each polygon [N]; empty text if there is none.
        crs: coordinate system; None if the file does not say.
        places: points and lines [K, 2], each with its value of the column.
    """

    polygons: list[Rings]
    values: list[str]
    crs: str | None
    places: list[tuple[np.ndarray, str]]


def read_layer(path: Path, what: str, column: str = "") -> VectorLayer:
    """Shapes of a file's first layer.

    Args:
        path: of the file.
        what: the file is, for the message that pyogrio is missing.
        column: of the values to read; empty: none.

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
    except (*UNREADABLE, DataSourceError, DataLayerError, GeometryError) as error:
        raise InputError(f"{path}: expected polygons ({shown_error(error)})") from None
    named = fields[0] if len(fields) else [""] * len(geometries)
    found = [
        (kind, rings, str(value or ""))
        for data, value in zip(geometries, named, strict=True)
        if data
        for kind, rings in _of_binary(bytes(data), [0])
    ]
    polygons = [(rings, text) for kind, rings, text in found if kind == POLYGON]
    places = [(rings[0], text) for kind, rings, text in found if kind != POLYGON]
    return VectorLayer(
        [r for r, _ in polygons], [text for _, text in polygons], meta["crs"], places
    )


def shown_error(error: Exception) -> str:
    """The error as one line of text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _of_binary(data: bytes, at: list[int]) -> Iterator[tuple[int, Rings]]:
    """Kind and shape of well-known binary (OGC 06-103r4, 8.2) in two dimensions, from ``at`` on."""
    order = "<" if data[at[0]] else ">"

    def number() -> int:
        (found,) = struct.unpack_from(f"{order}I", data, at[0])
        at[0] += 4
        return found

    def places(count: int) -> np.ndarray:
        found = np.frombuffer(data, f"{order}f8", 2 * count, at[0]).reshape(-1, 2)
        at[0] += 16 * count
        return found.astype(float)

    at[0] += 1
    kind = number()
    if kind == POINT:
        place = places(1)
        if np.isfinite(place).all():  # an empty one is NaN
            yield kind, (place,)
    elif kind == LINE:
        yield kind, (places(number()),)
    elif kind == POLYGON:
        yield kind, tuple(places(number()) for _ in range(number()))
    elif kind in SEVERAL:
        for _ in range(number()):
            yield from _of_binary(data, at)
