"""The planner ``gap-search``: curved paths along the middle of the gaps between earlier tracks.

A line halfway between two tracks halves their gap; a line that crosses them leaves pieces of every
width. So paths of arcs are searched for, a beam of the best at a time, over a raster of what a line
at each place would remove of the map's error. Numpy and scipy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..core.geometry import Grid
from ..core.settings import Settings, setting
from .budget import roughness
from .path_entropy import PathEntropyOptions, path_entropy
from .situation import MapView, Situation

#: Lengths below are shares of the workspace's side: the root of its area.
#: Length of an arc; cell of the raster of gains; distance from pings within which roughness counts.
ARC, CELL, REACH = 1 / 30, 1 / 120, 1 / 15
#: Distance from all tracks beyond which the bottom counts as no smoother than it is on average.
FAR = 0.13
#: A driven path deviates from its waypoints by no more than this share of an arc.
TOLERANCE = 1 / 8
#: Arcs that continue a path, and the largest change of heading in one, in rad.
ARCS, MAX_BEND = 7, 1.2
#: Places of an arc whose gains are added, an even number; two of them are remembered.
LOOKS = 4
#: Remembered places of a path that are too new to bound its own gap.
NEWEST = 3
#: The gain of a line is roughness times this power of the distance to the nearest track. In theory
#: 2.5 (``budget``); lower ones leave more even gaps, higher ones go from coarse to fine faster.
POWER = 2.0
#: A line beside the border counts as this many times its distance from it away from tracks: what
#: lies outside has no ping, so lines end up 0.4 times their spacing from the border.
BORDER = 2.5
#: Of paths that end in the same cell, in arcs, and sector of headings, the best alone is continued.
SAME, SECTORS = 1 / 2, 12
#: In each of so many directions from the vehicle, the path that leads farthest is continued, too.
DIRECTIONS = 48
#: Headings to begin with if the vehicle's is unknown, and paths tried if legs are not allowed.
HEADINGS, TRIES = 24, 20


@dataclass(frozen=True)
class GapSearchOptions(Settings):
    """Options of ``gap-search``. Lengths are shares of the workspace's side, the root of its
    area."""

    prefix = "gap_search"

    paths: int = setting(
        100, "Number of best paths that the search continues at each step", minimum=1,
        maximum=10_000, mutable=True,
    )  # fmt: skip
    horizon: float = setting(
        0.8, "Length of the paths compared, as a share of the workspace's side", minimum=0.03,
        maximum=10.0, mutable=True,
    )  # fmt: skip
    max_leg: float = setting(
        0.2, "Maximum distance driven before planning again, as a share of the workspace's side",
        minimum=0.03, maximum=10.0, mutable=True,
    )  # fmt: skip


def gap_search(
    view: MapView, situation: Situation, options: GapSearchOptions, rng: np.random.Generator
) -> np.ndarray:
    """The beginning of the path of arcs with the highest sum of gains, [K, 2].

    Places near the path's own earlier part count as near a track. If none of the best paths is
    allowed, it is the next leg of ``path-entropy``.

    Raises:
        InputError: no place has a usable variance, or no path is allowed.
    """
    workspace = situation.workspace
    side = math.sqrt(float(np.prod(workspace.size)))
    arc = max(ARC * side, 1.5 * situation.turning_radius)
    count = math.ceil(min(options.horizon * side, situation.distance_left) / arc)
    found = _search(_Gains(view, situation, side), situation, arc, max(count, 1), options.paths)
    driven = max(2, round(2 * options.max_leg * side / arc)) + 1
    for path in found[:TRIES]:
        waypoints = workspace.clip(simplified(path[:driven], TOLERANCE * arc)[1:])
        starts = np.vstack((situation.position, waypoints[:-1]))
        first = situation.leg_allowed(situation.position, waypoints[:1])
        if first.all() and situation.leg_allowed(starts[1:], waypoints[1:]).all():
            return waypoints
    return path_entropy(view, situation, PathEntropyOptions(), rng)


class _Gains:
    """What a line would remove of the map's error, on a raster.

    Attributes:
        grid: its nodes.
        distance: to the nearest track, at most ``BORDER`` times that to the border [rows, columns],
            in m.
        rough: roughness [rows, columns], up to a factor.
    """

    def __init__(self, view: MapView, situation: Situation, side: float) -> None:
        from scipy.ndimage import distance_transform_edt

        workspace = situation.workspace
        cells = np.maximum(np.round(workspace.size / (CELL * side)), 2).astype(int)
        self.grid = Grid.nodes(workspace, *(cells + 1))
        self._steps = workspace.size / cells
        coarse = Grid.nodes(workspace, *(np.maximum(cells // 4, 1) + 1))
        rough = roughness(view, situation, coarse.points, REACH * side).reshape(coarse.shape)
        self.rough = coarse.interpolate(rough, self.grid.points).reshape(self.grid.shape)
        # Tracks on a raster of half cells.
        seen = np.vstack((situation.visited, situation.recent_track, situation.position[None]))
        free = np.ones(2 * np.array(self.grid.shape) - 1, dtype=bool)
        column, row = self._nodes(seen[self.grid.borders.contains(seen)], 2).T
        free[row, column] = False
        steps = self._steps[::-1]
        nearest = np.full(self.grid.shape, np.inf)
        if not free.all():
            nearest = distance_transform_edt(free, sampling=steps / 2)[::2, ::2]
        area = situation.routes.areas if situation.routes else None
        self._open: np.ndarray = np.ones(self.grid.shape, dtype=bool)
        if area is not None and not area.unrestricted:
            self._open = area.allowed(self.grid.points).reshape(self.grid.shape)
        beside = distance_transform_edt(np.pad(self._open, 1), sampling=steps)[1:-1, 1:-1]
        limit = BORDER * np.maximum(beside - steps.min(), 0.0)
        self.distance = np.minimum(nearest, limit)
        # No model knows how rough the bottom is far from all pings.
        far = -np.expm1(-np.square(np.minimum(nearest / (FAR * side), 9.0)))
        self.rough += far * np.maximum(self.rough.mean() - self.rough, 0.0)

    def at(self, places: np.ndarray, nearest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gains [...] at places [..., 2] with a further track ``nearest`` m away [...], and
        whether the vehicle may be there."""
        column, row = np.moveaxis(self._nodes(places, 1), -1, 0)
        inside = self.grid.borders.contains(places.reshape(-1, 2)).reshape(column.shape)
        distance = np.minimum(self.distance[row, column], nearest)
        return self.rough[row, column] * distance**POWER, inside & self._open[row, column]

    def _nodes(self, places: np.ndarray, fineness: int) -> np.ndarray:
        """Column and row [..., 2] of the node nearest to each place [..., 2] in m."""
        scaled = (places - (self.grid.x[0], self.grid.y[0])) / self._steps * fineness
        last = fineness * (np.array(self.grid.shape[::-1]) - 1)
        return np.clip(np.rint(scaled).astype(int), 0, last)


def _search(
    gains: _Gains, situation: Situation, arc: float, count: int, kept: int
) -> list[np.ndarray]:
    """Paths of ``count`` arcs from the vehicle [2 count + 1, 2] in m, the best first."""
    headings = np.linspace(0, 2 * math.pi, HEADINGS, endpoint=False)
    headings = np.array([situation.yaw]) if math.isfinite(situation.yaw) else headings
    paths = np.repeat(situation.position[None, None].astype(float), len(headings), axis=0)
    totals = np.zeros(len(headings))
    sharpest = min(MAX_BEND, arc / max(situation.turning_radius, 1e-9))
    bends = np.linspace(-sharpest, sharpest, ARCS)
    for _ in range(count):
        places = _arcs(paths[:, -1], headings, bends, arc)
        remembered = places[:, :, LOOKS // 2 - 1 :: LOOKS // 2]
        near = np.repeat(_nearest(remembered, paths[:, 1:-NEWEST]), LOOKS // 2, axis=2)
        gain, inside = gains.at(places, near)
        allowed = np.all(inside, axis=-1)
        gain = np.where(allowed, gain.mean(-1), -np.inf if allowed.any() else 0.0)
        after = (totals[:, None] + gain).ravel()
        heading = (headings[:, None] + bends).ravel()
        ends = remembered.reshape(len(after), 2, 2)
        best = _selected(ends[:, 1] - situation.position, heading, after, arc, kept)
        paths = np.concatenate((paths[best // ARCS], ends[best]), axis=1)
        headings, totals = heading[best], after[best]
    return list(paths[np.argsort(-totals, kind="stable")])


def _arcs(starts: np.ndarray, headings: np.ndarray, bends: np.ndarray, arc: float) -> np.ndarray:
    """Places [N, C, LOOKS, 2] along arcs of length ``arc`` that turn by ``bends`` [C] rad."""
    share = (np.arange(LOOKS) + 1) / LOOKS
    angle = bends[:, None] * share
    # The chord of an arc of length s that turns by an angle: s sinc(angle / 2), at half the angle.
    chord = arc * share * np.sinc(angle / 2 / math.pi)
    towards = headings[:, None, None] + angle / 2
    ahead = np.stack((np.cos(towards), np.sin(towards)), axis=-1)
    return starts[:, None, None] + chord[..., None] * ahead


def _nearest(places: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Distance [N, C, P] of places [N, C, P, 2] to the nearest of the path's own [N, T, 2]."""
    if not own.shape[1]:
        return np.full(places.shape[:-1], np.inf)
    east, north = (places[..., None, k] - own[:, None, None, :, k] for k in (0, 1))
    return np.sqrt((east * east + north * north).min(-1))


def _selected(
    ends: np.ndarray, headings: np.ndarray, totals: np.ndarray, arc: float, kept: int
) -> np.ndarray:
    """Indices of the paths to continue: the best ``kept``, and the farthest in each direction.

    Of paths that end alike, the best alone. On the way to a wide gap far away, a path is behind
    those that fill narrow gaps nearby.

    Args:
        ends: of the paths [N, 2], in m from the vehicle.
        headings: there [N], in rad.
        totals: sums of gains [N]; infinite below zero: not allowed.
        arc: length of an arc, in m.
        kept: number of best paths.
    """
    order = np.argsort(-totals, kind="stable")
    order = order[np.isfinite(totals[order])]
    sector = np.mod(headings[order], 2 * math.pi) / (2 * math.pi) * SECTORS
    order = order[_first_of(np.column_stack((ends[order] / (SAME * arc), sector)))]
    best, others = order[:kept], order[kept:]
    farthest = others[np.argsort(-(ends[others] ** 2).sum(1), kind="stable")]
    direction = np.arctan2(ends[farthest, 1], ends[farthest, 0]) / (2 * math.pi) * DIRECTIONS
    return np.concatenate((best, farthest[_first_of(direction[:, None])]))


def _first_of(places: np.ndarray) -> np.ndarray:
    """Indices of the first of places [N, D] in each cell of size 1, in ascending order."""
    cells = np.floor(places).astype(np.int64)
    if not len(cells):
        return np.empty(0, dtype=np.int64)
    cells -= cells.min(0)
    key = np.ravel_multi_index(tuple(cells.T), tuple(cells.max(0) + 1))
    return np.sort(np.unique(key, return_index=True)[1])


def simplified(line: np.ndarray, tolerance: float) -> np.ndarray:
    """A polyline [K, 2] without points that are within ``tolerance`` m of it without them.

    Ramer (1972), Douglas and Peucker (1973).
    """
    along = line[-1] - line[0]
    length = float(np.linalg.norm(along))
    offsets = line - line[0]
    away = np.linalg.norm(offsets, axis=1)
    if length > 0:
        away = np.abs(along[0] * offsets[:, 1] - along[1] * offsets[:, 0]) / length
    farthest = int(away.argmax())
    if len(line) < 3 or away[farthest] <= tolerance:
        return line[[0, -1]]
    halves = line[: farthest + 1], line[farthest:]
    first, second = (simplified(half, tolerance) for half in halves)
    return np.vstack((first[:-1], second))
