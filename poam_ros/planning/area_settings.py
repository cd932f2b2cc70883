"""Polygons from parameters and GeoJSON files, in metres or degrees. Numpy only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Extent
from ..core.settings import check, setting
from .areas import Areas

SEMI_MAJOR, FLATTENING = 6378137.0, 1 / 298.257223563  # m, of WGS 84
FARTHEST_M = 200e3  # m from the origin: beyond it the origin, or a coordinate, is a mistake
KINDS = "workspace", "keep_out"


def read_polygons(text: str) -> list[np.ndarray]:
    """Polygons of a text such as ``0 0, 9 0, 9 9; 20 20, 30 20, 30 30`` [K, 2] each.

    Raises:
        InputError: it reads otherwise.
    """
    try:
        found = [
            [[float(number) for number in corner.split()] for corner in part.split(",")]
            for part in text.split(";")
            if part.strip()
        ]
        polygons = [np.array(corners, dtype=float) for corners in found]
    except ValueError:
        polygons = [np.empty(0)]
    if not all(p.ndim == 2 and p.shape[1] == 2 and np.isfinite(p).all() for p in polygons):
        raise InputError(
            f"expected corners as in '0 0, 9 0, 9 9' and ';' between polygons, got {text[:80]!r}"
        )
    return polygons


def _one_polygon(text: str) -> None:
    if len(read_polygons(text)) > 1:
        raise InputError("expected one polygon, got several")


def map_origin() -> Any:
    """The field ``origin`` of every dataclass of settings that places the map on the earth."""
    return setting(
        (0.0, 0.0),
        "Latitude and longitude of the map's origin, WGS 84. 0, 0: not given",
        "deg",
        minimum=-180.0,
        maximum=180.0,
        name="origin",
    )


def map_heading() -> Any:
    """The field ``heading`` of the same."""
    return setting(
        0.0,
        "Direction of the map's y axis, clockwise from true north",
        "deg",
        minimum=-360.0,
        maximum=360.0,
        name="heading",
    )


@dataclass(frozen=True)
class AreaSettings:
    """Where goals and legs may lie within the workspace.

    Raises:
        InputError: a value is wrong.
    """

    prefix = "areas"

    polygon: str = setting(
        "",
        "Corners of the area within the workspace, as in '0 0, 9 0, 9 9'. Empty: all of it",
        "m",
        check=_one_polygon,
    )
    keep_outs: str = setting(
        "",
        "Corners of areas never to be entered, ';' between areas",
        "m",
        check=read_polygons,
    )
    file: str = setting(
        "",
        "GeoJSON file of polygons. Their property kind is keep_out (also without one) or workspace",
    )
    coordinates: str = setting(
        "metres",
        "Coordinates of the file: x y of the map, or longitude latitude",
        choices=("metres", "degrees"),
    )
    origin: tuple[float, ...] = map_origin()
    heading: float = map_heading()
    margin: float = setting(
        1.0,
        "Keep goals and legs this far from keep-outs and from the polygon's border: about the "
        "vehicle's turning diameter",
        "m",
        minimum=0.01,
        maximum=1e4,
    )

    def __post_init__(self) -> None:
        check(self)
        if abs(self.origin[0]) > 90:
            raise InputError(f"origin: expected a latitude within 90 deg, got {self.origin[0]}")

    def open(self, workspace: Extent) -> Areas:
        """The areas that all of this makes in a workspace.

        Raises:
            InputError: a polygon or the file is wrong, or nothing is left.
        """
        outer = read_polygons(self.polygon)
        inner = read_polygons(self.keep_outs)
        for kind, polygon in self._of_file() if self.file else ():
            (outer if kind == "workspace" else inner).append(polygon)
        if len(outer) > 1:
            raise InputError(f"areas: expected one workspace polygon, got {len(outer)}")
        return Areas(workspace, outer[0] if outer else None, tuple(inner), self.margin)

    def _of_file(self) -> Iterator[tuple[str, np.ndarray]]:
        path = Path(self.file).expanduser()
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no JSON"
            raise InputError(f"areas.file: cannot read {path}: {reason}") from None
        try:
            found = list(_geojson(content))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise InputError(f"areas.file: expected GeoJSON with polygons in {path}") from None
        if not found:
            raise InputError(f"areas.file: expected polygons in {path}, got none")
        for kind, corners in found:
            if kind not in KINDS:
                expected = f"kind {' or '.join(KINDS)} in {path}"
                raise InputError(f"areas.file: expected {expected}, got {kind}")
            yield kind, self._in_metres(corners)

    def _in_metres(self, corners: np.ndarray) -> np.ndarray:
        if self.coordinates == "metres":
            return corners
        longitude, latitude = corners.T
        if not (np.abs(latitude) <= 90).all() or not (np.abs(longitude) <= 360).all():
            raise InputError(f"areas.file: expected longitude latitude in deg, got {corners[0]}")
        xy = local_metres(np.column_stack((latitude, longitude)), self.origin, self.heading)
        if not (np.abs(xy) <= FARTHEST_M).all():
            raise InputError(
                f"areas.file: expected polygons within {FARTHEST_M / 1e3:g} km of the origin "
                f"{list(self.origin)}, got one at {corners[0][::-1].tolist()} (latitude longitude)"
            )
        return xy


def local_metres(places: np.ndarray, origin: tuple[float, ...], heading: float = 0.0) -> np.ndarray:
    """Places [N, 2] as latitude and longitude in a plane that touches WGS 84 at ``origin``, in m.

    x east and y north, turned by ``heading`` (deg, clockwise): local east-north-up coordinates as
    GeographicLib's LocalCartesian has them at height 0.
    """
    earth = _earth_centred(np.radians(places)) - _earth_centred(np.radians([origin]))
    latitude, longitude = np.radians(origin)
    s, c, sl, cl = *_turn(latitude), *_turn(longitude)
    east = earth @ (-sl, cl, 0.0)
    north = earth @ (-s * cl, -s * sl, c)
    sh, ch = _turn(math.radians(heading))
    return np.column_stack((ch * east - sh * north, sh * east + ch * north))


def _earth_centred(places: np.ndarray) -> np.ndarray:
    latitude, longitude = places[:, 0], places[:, 1]
    e2 = FLATTENING * (2 - FLATTENING)
    across = SEMI_MAJOR / np.sqrt(1 - e2 * np.sin(latitude) ** 2)
    flat = across * np.cos(latitude)
    z = across * (1 - e2) * np.sin(latitude)
    return np.column_stack((flat * np.cos(longitude), flat * np.sin(longitude), z))


def _turn(angle: float) -> tuple[float, float]:
    return math.sin(angle), math.cos(angle)


def _geojson(content: Any, kind: str = "keep_out") -> Iterator[tuple[str, np.ndarray]]:
    """The kind and outer ring of every polygon; holes of a workspace are keep-outs."""
    match content["type"]:
        case "FeatureCollection":
            for feature in content["features"]:
                yield from _geojson(feature)
        case "Feature":
            own = (content.get("properties") or {}).get("kind", "keep_out")
            yield from _geojson(content["geometry"], own)
        case "Polygon":
            outer, *holes = (np.array(r, dtype=float)[:, :2] for r in content["coordinates"])
            yield kind, outer
            for hole in holes if kind == "workspace" else ():
                yield "keep_out", hole
        case "MultiPolygon":
            for coordinates in content["coordinates"]:
                yield from _geojson({"type": "Polygon", "coordinates": coordinates}, kind)
        case other:
            raise ValueError(other)
