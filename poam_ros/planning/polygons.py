"""Simple polygons as corners [K, 2] in the plane; sides go from each to the next, and to the first.

The geometry is shapely's."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import shapely

from ..core.errors import InputError
from ..core.geometry import MAX_COORDINATE

MAX_CORNERS = 200  # the time for a route grows with their square
MIN_AREA = 1e-9  # m^2


def ring(corners: np.ndarray, name: str) -> np.ndarray:
    """The corners of a simple polygon, counter-clockwise, without repeats [K, 2].

    Raises:
        InputError: ``name`` is not a polygon, or crosses itself.
    """
    points = np.asarray(corners, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2 or not (np.abs(points) <= MAX_COORDINATE).all():
        raise InputError(f"{name}: expected corners x y in metres, got {np.shape(corners)}")
    points = points[(points != np.roll(points, 1, axis=0)).any(axis=1)]  # the closing one, too
    if len(points) < 3:
        raise InputError(f"{name}: expected at least 3 different corners, got {len(points)}")
    if len(points) > MAX_CORNERS:
        raise InputError(f"{name}: expected at most {MAX_CORNERS} corners, got {len(points)}")
    polygon = shapely.Polygon(points)
    if not shapely.minimum_rotated_rectangle(polygon).area > MIN_AREA:
        raise InputError(f"{name}: expected an area, got corners in a line")
    fault, _, where = shapely.is_valid_reason(polygon).partition("[")
    if fault == "Self-intersection":  # as a ring, it may touch itself
        raise InputError(f"{name}: its sides cross each other at {where.rstrip(']')}")
    return points if polygon.exterior.is_ccw else points[::-1]


def around(border: np.ndarray, reach: float) -> np.ndarray:
    """Places around the convex corners on the right side of a border [M, 2].

    Legs between neighbouring places keep ``reach`` m from the corner.
    """
    return np.array(list(_fans(border, reach))).reshape(-1, 2)


def _fans(border: np.ndarray, reach: float) -> Iterator[np.ndarray]:
    normals = outward(border)
    before = np.roll(normals, 1, axis=0)
    turns = np.arctan2(_cross(before, normals), (before * normals).sum(1))
    for corner, first, turn in zip(border, before, turns, strict=True):
        if turn <= 0:
            continue
        steps = max(1, math.ceil(turn / (math.pi / 4)))
        part = turn / steps
        start, radius = math.atan2(first[1], first[0]), reach / math.cos(part / 2)
        for k in range(steps + 1):
            angle = start + k * part
            yield corner + radius * np.array((math.cos(angle), math.sin(angle)))


def outward(border: np.ndarray) -> np.ndarray:
    """The unit normals to the right of each side [K, 2]."""
    along = np.roll(border, -1, axis=0) - border
    return np.column_stack((along[:, 1], -along[:, 0])) / np.linalg.norm(along, axis=1)[:, None]


def wrong_side(border: np.ndarray, point: np.ndarray) -> bool:
    """Whether the point [2] is on the left of a border."""
    ring = shapely.LinearRing(border)
    return bool(inside(border, point[None])[0]) == ring.is_ccw


def inside(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which points [N, 2] lie in a simple polygon; boolean [N]."""
    polygon = shapely.Polygon(corners)
    shapely.prepare(polygon)
    found: np.ndarray = shapely.contains_xy(polygon, *points.T)
    return found


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
