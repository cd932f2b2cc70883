"""Places that are too far from every ping, and the way that closes them. Numpy and scipy only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.geometry import Grid
from . import polygons
from .areas import Areas
from .routes import Routes

#: Places that a tour is worked out from at most; of more, every so many-th.
MOST_PLACES = 20_000
#: Legs of a tour that are measured round keep-outs; of a longer one they count as straight.
MOST_ROUTES = 60


def to_nearest(grid: Grid, marked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From every cell of a grid to the nearest marked one, centre to centre.

    Args:
        grid: of 2 x 2 points or more.
        marked: boolean [rows, columns].

    Returns:
        The distance [rows, columns] in m, infinite where none is marked; and which one it is
        [rows, columns], as an index into the flat grid.
    """
    if not marked.any():
        return np.full(grid.shape, np.inf), np.zeros(grid.shape, dtype=int)
    from scipy.ndimage import distance_transform_edt  # here: whoever sets no target needs none

    steps = float(grid.y[1] - grid.y[0]), float(grid.x[1] - grid.x[0])
    distance, (row, column) = distance_transform_edt(~marked, sampling=steps, return_indices=True)
    return distance, row * grid.shape[1] + column


def diagonal(grid: Grid) -> float:
    """Of a cell, in m: so much farther from a ping may a place be than its cell is from its."""
    return math.hypot(grid.x[1] - grid.x[0], grid.y[1] - grid.y[0])


class Reach:
    """Where on a grid a vehicle may go, and how near it can come to the rest.

    Attributes:
        grid: as given.
        enterable: cells whose centre may be entered, and that a way leads to [rows, columns].
        counted: cells inside the area's polygon [rows, columns]; keep-outs are counted.
        away: from each cell to the next enterable one [rows, columns], in m.
        entry: which one that is [rows, columns], as an index into the flat grid.
    """

    def __init__(self, grid: Grid, routes: Routes, position: np.ndarray) -> None:
        self.grid = grid
        self.enterable = _connected(grid, routes, position)
        self.counted = _inside(grid, routes.areas)
        self.away, self.entry = to_nearest(grid, self.enterable)


def _connected(grid: Grid, routes: Routes, position: np.ndarray) -> np.ndarray:
    """Cells that may be entered and hang together with one that a way leads to [rows, columns].

    Asked for one cell of each connected part: for every cell it would take minutes.
    """
    allowed = routes.areas.allowed(grid.points).reshape(grid.shape)
    if routes.areas.everywhere or not allowed.any():
        return allowed
    from scipy.ndimage import label

    parts, count = label(allowed)
    _, firsts = np.unique(parts, return_index=True)  # of 0, what is not allowed, as well
    firsts = firsts[-count:]
    reached = np.concatenate(([False], routes.reachable(position, grid.points[firsts])))
    return reached[parts]


def _inside(grid: Grid, areas: Areas) -> np.ndarray:
    if areas.polygon is None:
        return np.ones(grid.shape, dtype=bool)
    return polygons.inside(areas.polygon, grid.points).reshape(grid.shape)


@dataclass(frozen=True)
class Gaps:
    """Places that are too far from every ping.

    Attributes:
        places: [U, 2], in m.
        limit: how far each may be from a ping [U], in m.
        excess: how much farther it is [U], in m; infinite where there is no ping at all.
        entries: where the vehicle goes for each [U, 2], in m.
    """

    places: np.ndarray
    limit: np.ndarray
    excess: np.ndarray
    entries: np.ndarray

    @classmethod
    def none(cls) -> Gaps:
        """No gap."""
        return cls(np.empty((0, 2)), np.empty(0), np.empty(0), np.empty((0, 2)))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: slice | np.ndarray) -> Gaps:
        parts = self.places, self.limit, self.excess, self.entries
        return Gaps(*(part[index] for part in parts))


def closing(position: np.ndarray, gaps: Gaps) -> np.ndarray:
    """Goals [K, 2] that close all gaps, in the order that they are driven to from position [2].

    The place that is farthest from a ping is next, until none is left (Gonzalez 1985, of
    k-centres); then from each goal to the nearest.
    """
    gaps = gaps[:: math.ceil(len(gaps) / MOST_PLACES) or 1]
    goals = []
    while len(gaps):
        worst = int(np.argmax(gaps.excess))
        goals.append(gaps.entries[worst])
        distance = np.linalg.norm(gaps.places - gaps.entries[worst], axis=1) - gaps.limit
        left = distance > 0
        left[worst] = False
        nearer = np.minimum(gaps.excess, distance)
        gaps = Gaps(gaps.places, gaps.limit, nearer, gaps.entries)[left]
    return _in_order(position, np.array(goals).reshape(-1, 2))


def _in_order(position: np.ndarray, goals: np.ndarray) -> np.ndarray:
    found, left = np.empty_like(goals), np.ones(len(goals), dtype=bool)
    for number in range(len(goals)):
        distance = np.where(left, np.linalg.norm(goals - position, axis=1), np.inf)
        nearest = int(np.argmin(distance))
        left[nearest], found[number] = False, goals[nearest]
        position = goals[nearest]
    return found


def way_along(position: np.ndarray, goals: np.ndarray, routes: Routes) -> float:
    """Length of the way from position [2] along the goals [K, 2], in m."""
    starts = np.vstack((position[None], goals[:-1]))
    if routes.areas.everywhere or len(goals) > MOST_ROUTES:
        return float(np.linalg.norm(goals - starts, axis=1).sum())
    total = 0.0
    for start, goal in zip(starts, goals, strict=True):
        way = routes.route(start, goal)
        turns = np.vstack((start, goal)) if way is None else np.vstack((start, way))
        total += float(np.linalg.norm(np.diff(turns, axis=0), axis=1).sum())
    return total
