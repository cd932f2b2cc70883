"""Shapes of vector files: GeoJSON, and by pyogrio GeoPackage, Shapefile and others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import shapely
from shapely.errors import ShapelyError

from .errors import InputError, requires_extra
from .files import UNREADABLE
from .geodesy import WGS84
from .reading import refuse_large_dataset

#: A polygon: its border, then its holes, each corners [K, 2].
Rings = tuple[np.ndarray, ...]
#: What content that is no GeoJSON raises.
MALFORMED = (
    ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError, ShapelyError,
)  # fmt: skip


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
    """Shapes of a file's first layer; of KML, whose folders are layers, of all.

    Args:
        path: of the file.
        what: the file is, for the message that pyogrio is missing.
        column: of the values to read; empty: none.

    Raises:
        InputError: the file cannot be read, or pyogrio is not installed.
    """
    with requires_extra(f"{path}: {what}", "pyogrio"):
        from pyogrio import list_layers, raw
        from pyogrio.errors import DataLayerError, DataSourceError, GeometryError
    if not path.exists():
        raise InputError(f"{path}: cannot be read (No such file or directory)")
    errors = *UNREADABLE, DataSourceError, DataLayerError, GeometryError, ShapelyError
    try:
        refuse_large_dataset(path)
        layers = list_layers(path)[:, 0] if path.suffix.lower() == ".kml" else (None,)
        features, crs = list[tuple[Any, Any]](), WGS84  # KML may have no layer
        for name in layers:
            columns = [column] if column else []
            meta, _, binary, fields = raw.read(path, layer=name, columns=columns, force_2d=True)
            crs = meta["crs"]
            named = fields[0] if len(fields) else [""] * len(binary)
            features += zip(named, shapely.from_wkb(binary), strict=True)
    except errors as error:
        raise InputError(
            f"{path}: expected polygons, points or lines ({shown_error(error)})"
        ) from None
    return _layer(iter(features), crs)


def geojson_layer(tree: Any, column: str = "") -> VectorLayer:
    """Shapes of a GeoJSON object, whatever its coordinates are.

    ``column``: the property that ``values`` holds; empty: none.

    Raises:
        MALFORMED: it is no GeoJSON.
    """
    return _layer(_features(tree, column), None)


def _features(tree: Any, column: str, value: Any = "") -> Iterator[tuple[Any, Any]]:
    """Value and geometry of each feature of a GeoJSON object."""
    if tree["type"] == "FeatureCollection":
        for feature in tree["features"]:
            yield from _features(feature, column)
    elif tree["type"] == "Feature":
        if (geometry := tree["geometry"]) is not None:
            yield from _features(geometry, column, (tree.get("properties") or {}).get(column))
    else:
        yield value, shapely.force_2d(shapely.geometry.shape(tree))


def _layer(features: Iterator[tuple[Any, Any]], crs: str | None) -> VectorLayer:
    """A layer of values and geometries, which may be None or have several parts."""
    layer = VectorLayer([], [], crs, [])
    for value, geometry in features:
        for part in _parts(geometry):
            if isinstance(part, shapely.Polygon):
                layer.polygons.append(
                    tuple(
                        shapely.get_coordinates(ring) for ring in (part.exterior, *part.interiors)
                    )
                )
                layer.values.append(str(value or ""))
            else:
                layer.places.append((shapely.get_coordinates(part), str(value or "")))
    return layer


def _parts(geometry: Any) -> Iterator[Any]:
    """The points, lines and polygons of a geometry, however deep in collections."""
    if geometry is None or geometry.is_empty:
        return
    if not hasattr(geometry, "geoms"):
        yield geometry
        return
    for part in geometry.geoms:
        yield from _parts(part)


def shown_error(error: Exception) -> str:
    """The error as one line of text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
