"""Simple polygons as corners [K, 2], and distances between segments in the plane. Numpy only.

Sides and borders go from each corner to the next, and from the last to the first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

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
    a, b = points, np.roll(points, -1, axis=0)
    crossing = crosses(a[:, None], b[:, None], a[None], b[None])
    if crossing.any():
        i, j = np.argwhere(crossing)[0]
        raise InputError(f"{name}: the sides from corners {i + 1} and {j + 1} cross each other")
    area = float((_cross(a - a[0], b - a[0])).sum()) / 2
    if not abs(area) > MIN_AREA:
        raise InputError(f"{name}: expected an area, got corners in a line")
    return points if area > 0 else points[::-1]


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
    a, b = border, np.roll(border, -1, axis=0)
    area = float(_cross(a - a[0], b - a[0]).sum())
    return bool(inside(border, point[None])[0]) == (area > 0)


def inside(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which points [N, 2] lie in a simple polygon, by the parity of crossings; boolean [N]."""
    return odd_crossings(corners.T, np.roll(corners, -1, axis=0).T, points)


def odd_crossings(a: np.ndarray, b: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Whether the half-line from each point [N, 2] to the east crosses an odd number of the sides
    from a [2, E] to b [2, E]; boolean [N]."""
    x, y = points[:, :1], points[:, 1:]
    (ax, ay), (bx, by) = a, b
    spans = (ay > y) != (by > y)
    rise = np.where(ay == by, 1.0, by - ay)  # a level side spans nothing
    return (spans & (x < (bx - ax) * (y - ay) / rise + ax)).sum(axis=1) % 2 == 1


def sides(borders: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of all sides of the borders, [1, E, 2] each."""
    ends = [np.roll(border, -1, axis=0) for border in borders]
    return np.concatenate(borders)[None], np.concatenate(ends)[None]


def distance(border: np.ndarray, point: np.ndarray) -> float:
    """Distance of the point [2] from a border, in m."""
    a, b = border, np.roll(border, -1, axis=0)
    return float(to_segments(point[None], a, b).min())


def between(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """The distances between segments a b and c d [..., 2], in m."""
    ends = to_segments(a, c, d), to_segments(b, c, d), to_segments(c, a, b), to_segments(d, a, b)
    return np.where(crosses(a, b, c, d), 0.0, np.minimum.reduce(ends))


def to_segments(points: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The distances of points to segments a b, all [..., 2], in m."""
    # By coordinates: sums over an axis of two are slow.
    along_x, along_y = b[..., 0] - a[..., 0], b[..., 1] - a[..., 1]
    x, y = points[..., 0] - a[..., 0], points[..., 1] - a[..., 1]
    length = along_x**2 + along_y**2
    share = np.clip((x * along_x + y * along_y) / np.where(length > 0, length, 1.0), 0, 1)
    return np.hypot(x - share * along_x, y - share * along_y)


def crosses(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Whether segments a b and c d [..., 2] cross each other, other than at their ends."""
    one = _cross(b - a, c - a) * _cross(b - a, d - a) < 0
    other = _cross(d - c, a - c) * _cross(d - c, b - c) < 0
    return one & other


def _cross(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]
