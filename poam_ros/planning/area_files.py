"""Areas and goals in files: GeoJSON, GeoPackage, .plan, KML."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import WGS84, GeoReference, transformed
from ..core.reading import parse_json
from ..core.vectors import MALFORMED, VectorLayer, geojson_layer, read_layer

WORKSPACE, KEEP_OUT = KINDS = "workspace", "keep_out"
GOAL, HOME = PLACES = "goal", "home"
#: Kind and corners of a polygon, or kind and the places of a point or line [K, 2].
Shape = tuple[str, np.ndarray]
SHAPES = "polygons", "points or lines"
SIDES = 64  # of the polygon that replaces a circle
WAYPOINTS = (16, 17, 18, 19, 82)  # MAV_CMD_NAV_: WAYPOINT, three LOITER, SPLINE_WAYPOINT


def read_areas(path: Path) -> tuple[Sequence[Shape], bool]:
    """Kind and corners [K, 2] of the polygons, and whether the format has longitude and latitude.

    Holes of a workspace are keep-outs.

    Raises:
        InputError: the file cannot be read, or has no polygons.
    """
    return _read("areas.file", path, 0, KINDS)


def read_goals(path: Path) -> tuple[np.ndarray, np.ndarray | None, bool]:
    """The places of points and lines [K, 2] in order, the place of home [2] if the file has one,
    and whether the format has longitude and latitude.

    Raises:
        InputError: the file cannot be read, or has no goals.
    """
    found, degrees = _read("goals.file", path, 1, PLACES)
    goals = [places for kind, places in found if kind == GOAL]
    homes = [places[0] for kind, places in found if kind == HOME]
    if not goals:
        raise InputError(f"goals.file: expected points or lines in {path}, got none")
    return np.concatenate(goals), homes[0] if homes else None, degrees


def _read(
    name: str, path: Path, shape: int, kinds: tuple[str, ...]
) -> tuple[Sequence[Shape], bool]:
    """The shapes of one of ``SHAPES``, for the parameter with this name."""
    called, shapes, degrees = FORMATS.get(path.suffix.lower(), ("GeoJSON", _geojson, False))
    try:
        found = list(shapes(path)[shape])
        if not all(p.shape[1:] == (2,) and np.isfinite(p).all() for _, p in found):
            raise ValueError("no places")
    except OSError as error:
        raise InputError(f"{name}: cannot read {path}: {error.strerror}") from None
    except InputError as error:
        raise InputError(f"{name}: cannot read {path}: {error}") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InputError(f"{name}: cannot read {path}: it is not {called}") from None
    except MALFORMED:
        raise InputError(f"{name}: expected {called} with {SHAPES[shape]} in {path}") from None
    if not found:
        raise InputError(f"{name}: expected {SHAPES[shape]} in {path}, got none")
    for other in (kind for kind, _ in found if kind not in kinds):
        expected = f"kind {' or '.join(kinds)} in {path}"
        raise InputError(f"{name}: expected {expected}, got {other}")
    return found, degrees


#: The areas and the goals of a file, as far as they are asked for.
Shapes = tuple[Iterator[Shape], Iterator[Shape]]


def _plan(path: Path) -> Shapes:
    content = parse_json(path)
    return _fence(content), _plan_goals(content)


def _fence(content: Any) -> Iterator[Shape]:
    """The geofence: inclusions are workspaces, exclusions keep-outs; without one, the polygons of
    surveys.

    Source: https://docs.qgroundcontrol.com/master/en/qgc-dev-guide/file_formats/plan.html
    """
    fence = content["geoFence"]
    if not (fence.get("polygons") or fence.get("circles")):
        for item in content.get("mission", {}).get("items", ()):
            if item.get("polygon"):
                yield WORKSPACE, np.array(item["polygon"], dtype=float)[:, 1::-1]
    for polygon in fence.get("polygons", ()):
        corners = np.array(polygon["polygon"], dtype=float)[:, 1::-1]
        yield WORKSPACE if polygon["inclusion"] else KEEP_OUT, corners
    for one in fence.get("circles", ()):
        (latitude, longitude), radius = one["circle"]["center"][:2], one["circle"]["radius"]
        if not (abs(float(latitude)) <= 90 and abs(float(longitude)) <= 360):
            raise ValueError("no place on the Earth")
        # Inside the circle of a workspace, and around the circle of a keep-out.
        reach = float(radius) / (1.0 if one["inclusion"] else math.cos(math.pi / SIDES))
        angle = np.arange(SIDES) * (2 * math.pi / SIDES)
        ring = reach * np.column_stack((np.cos(angle), np.sin(angle)))
        place = GeoReference(float(latitude), float(longitude))
        yield WORKSPACE if one["inclusion"] else KEEP_OUT, transformed(place.local_crs, WGS84, ring)


def _plan_goals(content: Any) -> Iterator[Shape]:
    """The waypoints, including those of surveys, and the planned home position."""
    mission = content["mission"]
    waypoints = np.array(list(_waypoints(mission["items"])), dtype=float).reshape(-1, 2)
    if len(waypoints):
        yield GOAL, waypoints[:, ::-1]
    if home := mission.get("plannedHomePosition"):
        yield HOME, np.array([home[1::-1]], dtype=float)


def _waypoints(items: Any) -> Iterator[Any]:
    """Latitude and longitude of items and of the items inside them, in order."""
    for item in items:
        yield from _waypoints(item.get("TransectStyleComplexItem", {}).get("Items", ()))
        if item.get("command") in WAYPOINTS:
            yield item["params"][4:6]


def _layer(path: Path, column: str = "kind") -> VectorLayer:
    try:
        layer = read_layer(path, "places in this format", column)
    except InputError as error:  # the caller names the file
        raise InputError(str(error).removeprefix(f"{path}: ")) from None
    if layer.crs is None:
        raise InputError("expected a file with a coordinate system")
    return layer


def _kml(path: Path) -> Shapes:
    """A polygon named ``workspace`` is one, and a point named ``home`` is home."""
    layer = _layer(path, "Name")
    names = {WORKSPACE: WORKSPACE, HOME: HOME}
    values = [names.get(value.strip().lower(), "") for value in layer.values]
    places = [(at, names.get(value.strip().lower(), "")) for at, value in layer.places]
    return _shapes(layer._replace(values=values, places=places))


def _geojson(path: Path) -> Shapes:
    return _shapes(geojson_layer(parse_json(path), "kind"))


def _shapes(layer: VectorLayer) -> Shapes:
    return _areas(layer), ((kind or GOAL, _placed(at, layer.crs)) for at, kind in layer.places)


def _areas(layer: VectorLayer) -> Iterator[Shape]:
    """The polygons of a layer, by their ``kind``; without one they are keep-outs."""
    for (outer, *holes), kind in zip(layer.polygons, layer.values, strict=True):
        yield kind or KEEP_OUT, _placed(outer, layer.crs)
        for hole in holes if kind == WORKSPACE else ():
            yield KEEP_OUT, _placed(hole, layer.crs)


def _placed(places: np.ndarray, crs: str | None) -> np.ndarray:
    """Longitude and latitude; of GeoJSON what it has."""
    return places if crs is None else transformed(crs, WGS84, places)


#: By ending: name of a format, its reader, and whether it is always in degrees; else it is GeoJSON.
FORMATS: dict[str, tuple[str, Callable[[Path], Shapes], bool]] = {
    ".plan": ("a QGroundControl plan", _plan, True),
    ".kml": ("KML", _kml, True),
    ".gpkg": ("GeoPackage", lambda path: _shapes(_layer(path)), True),
    ".shp": ("a Shapefile", lambda path: _shapes(_layer(path)), True),
}
