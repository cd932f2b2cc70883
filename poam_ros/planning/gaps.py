"""Coverage gaps, and the goals that close them. Numpy and scipy only."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.geometry import Grid, path_length
from .areas import inside
from .routes import Routes

#: Maximum number of places that a tour is computed from; if there are more, every Nth.
MAX_PLACES = 20_000
#: Maximum number of legs of a tour that are measured around keep-outs; longer tours count straight.
MAX_ROUTES = 60


def to_nearest(grid: Grid, marked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From every cell of a grid to the nearest marked one, centre to centre.

    Args:
        grid: of 2 x 2 points or more.
        marked: boolean [rows, columns].

    Returns:
        The distance [rows, columns] in m, infinite if none is marked; and the nearest marked cell
        [rows, columns], as an index into the flat grid.
    """
    if not marked.any():
        return np.full(grid.shape, np.inf), np.zeros(grid.shape, dtype=int)
    from scipy.ndimage import distance_transform_edt  # only needed with a map target

    steps = float(grid.y[1] - grid.y[0]), float(grid.x[1] - grid.x[0])
    distance, (row, column) = distance_transform_edt(~marked, sampling=steps, return_indices=True)
    return distance, row * grid.shape[1] + column


def diagonal(grid: Grid) -> float:
    """Diagonal of a cell, in m: the error of a distance between cells instead of places."""
    return math.hypot(grid.x[1] - grid.x[0], grid.y[1] - grid.y[0])


class ReachableCells:
    """The cells of a grid that the vehicle can reach, and their distances from all others.

    Attributes:
        grid: of the cells.
        areas: where they may lie.
        enterable: cells whose centre is allowed and has a route [rows, columns].
        counted: cells inside the area's polygon, including keep-outs [rows, columns].
        away: distance from each cell to the nearest of the enterable ones [rows, columns], in m.
        entry: this nearest cell [rows, columns], as an index into the flat grid.
    """

    def __init__(self, grid: Grid, routes: Routes, position: np.ndarray) -> None:
        from scipy.ndimage import label  # only needed with a map target

        areas, every = routes.areas, np.ones(grid.shape, dtype=bool)
        self.grid, self.areas = grid, areas
        self.enterable = areas.allowed(grid.points).reshape(grid.shape)
        parts, count = label(self.enterable)
        if count and not areas.unrestricted:
            # To one cell of each connected part: routes to all cells would take minutes.
            firsts = np.unique(parts, return_index=True)[1][-count:]  # without part 0: not allowed
            reached = routes.reachable(position, grid.points[firsts])
            self.enterable = np.concatenate(([False], reached))[parts]
        polygon = areas.polygon
        within = every if polygon is None else inside(polygon, grid.points)
        self.counted = within.reshape(grid.shape)
        self.away, self.entry = to_nearest(grid, self.enterable)


@dataclass(frozen=True)
class CoverageGaps:
    """Places that are too far from every ping.

    Attributes:
        places: [U, 2], in m.
        limit: allowed distance of each place from the nearest ping [U], in m.
        excess: distance of each place beyond its limit [U], in m; infinite without any ping.
        entries: the vehicle's goal for each place [U, 2], in m.
    """

    places: np.ndarray
    limit: np.ndarray
    excess: np.ndarray
    entries: np.ndarray

    @classmethod
    def none(cls) -> CoverageGaps:
        """No gap."""
        return cls(np.empty((0, 2)), np.empty(0), np.empty(0), np.empty((0, 2)))

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: slice | np.ndarray) -> CoverageGaps:
        parts = self.places, self.limit, self.excess, self.entries
        return CoverageGaps(*(part[index] for part in parts))


def gap_closing_goals(position: np.ndarray, gaps: CoverageGaps) -> np.ndarray:
    """Goals [K, 2] that close all gaps, in the order of travel from position [2].

    The place farthest from any ping is chosen next, until none is left (Gonzalez 1985, k-centres).
    The order is by nearest neighbour.
    """
    gaps = gaps[:: math.ceil(len(gaps) / MAX_PLACES) or 1]
    goals = []
    while len(gaps):
        worst = int(np.argmax(gaps.excess))
        goals.append(gaps.entries[worst])
        distance = np.linalg.norm(gaps.places - gaps.entries[worst], axis=1) - gaps.limit
        left = distance > 0
        left[worst] = False
        nearer = np.minimum(gaps.excess, distance)
        gaps = CoverageGaps(gaps.places, gaps.limit, nearer, gaps.entries)[left]
    order, waiting = [position], np.array(goals).reshape(-1, 2)
    while len(waiting):
        nearest = np.argmin(np.linalg.norm(waiting - order[-1], axis=1))
        order.append(waiting[nearest])
        waiting = np.delete(waiting, nearest, axis=0)
    return np.array(order[1:]).reshape(-1, 2)


def tour_length(position: np.ndarray, goals: np.ndarray, routes: Routes) -> float:
    """Length of the route from position [2] along the goals [K, 2], in m."""
    starts = np.vstack((position[None], goals[:-1]))
    if routes.areas.unrestricted or len(goals) > MAX_ROUTES:
        return float(np.linalg.norm(goals - starts, axis=1).sum())
    total = 0.0
    for start, goal in zip(starts, goals, strict=True):
        route = routes.route(start, goal)
        turns = np.vstack((start, goal)) if route is None else np.vstack((start, route))
        total += path_length(turns)
    return total
