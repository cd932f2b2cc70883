"""Routes around keep-outs along corners that are visible from each other, and routes that keep
water under the transducer."""

from __future__ import annotations

import math
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist, median
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..core.settings import Settings, setting
from .areas import SLACK, NavigableArea

#: What a turn nearer to a corner costs than where the turning circle keeps the margin from it: as
#: much as a detour of so many turning diameters.
NEAR = 4.0
#: Share of the area without a route that is warned of.
UNREACHED_SHARE = 0.02
#: Number of places, at most, at which is assessed what can be reached.
PLACES = 800


class Routes:
    """Shortest routes between two places in a navigable area, with room for the vehicle's turning
    circle: goals and legs keep its diameter from borders where that is more than the margin, as
    turns lead beside a leg. The first and the last leg may be from or to a place without such room.
    If there is room nowhere, the margin alone is kept.

    Dijkstra's algorithm on the visibility graph of the area's corners.

    Attributes:
        areas: where goals and legs may lie; ``stated``: with the margin alone.
    """

    def __init__(self, areas: NavigableArea) -> None:
        self.areas = self.stated = areas
        self._diameter = 0.0  # of the vehicle's turning circle, in m
        self._turns = areas.corners  # where routes turn [M, 2]
        self._costs: np.ndarray = np.zeros(len(self._turns))  # of these turns, in m

    def set_vehicle(self, turning_diameter: float, speed: float) -> None:
        """Set the vehicle's turning diameter in m and its maximum speed in m/s."""
        if turning_diameter == self._diameter:
            return
        self._diameter, self.areas = turning_diameter, self.stated
        self.__dict__.pop("_network", None)
        if turning_diameter > self.stated.margin and not self.stated.unrestricted:
            with suppress(InputError):  # there is room nowhere
                self.areas = replace(self.stated, margin=turning_diameter)
        wide, near = self.areas.corners_at(self.areas.margin + turning_diameter), self.areas.corners
        self._turns = np.vstack((wide, near))
        self._costs = NEAR * turning_diameter * (np.arange(len(self._turns)) >= len(wide))

    def berth(self, place: np.ndarray) -> np.ndarray:
        """Where the vehicle may stay that is to come to a place [2]: it needs no room to turn."""
        there, into = self.stated.nearest(place), self.areas.nearest(place)
        return there if self.stated.leg_allowed(into, there[None])[0] else into

    def route(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """The turns from start to goal [2] and the goal itself [K, 2]; None if there is no route.

        If the start lies in a keep-out or outside the area, the first leg goes to the nearest
        allowed place, whatever it crosses.
        """
        goal = np.asarray(goal, dtype=float)
        areas = self.areas
        if areas.unrestricted or areas.leg_allowed(start, goal[None])[0]:
            return goal[None]
        if not areas.allowed(goal[None])[0]:
            if self.stated.leg_allowed(start, goal[None])[0]:
                return goal[None]
            into = areas.nearest(goal)
            near = self.stated.leg_allowed(into, goal[None])[0]
            way = self.route(start, into) if near else None
            return None if way is None else np.vstack((way, goal))
        if self._sight(start, goal[None])[0]:
            return goal[None]
        route = self._shortest(start, goal)
        if route is None and not areas.allowed(start[None])[0]:
            out = areas.nearest(start)
            route = self.route(out, goal)
            return None if route is None else np.vstack((out, route))
        return route

    def legs_open(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Which straight legs from start [2] (or [N, 2]) to goals [N, 2] are allowed; boolean [N].

        A single start in a keep-out is replaced by the nearest allowed place.
        """
        areas = self.areas
        return areas.leg_allowed(areas.nearest(start) if np.ndim(start) == 1 else start, goals)

    def shortened(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Where legs from the start [2] to the goals [N, 2] may end; here at the goals."""
        return goals

    def too_close(self, position: np.ndarray, goal: np.ndarray) -> bool:
        """As ``NavigableArea.too_close``."""
        return self.areas.too_close(position, goal)

    def reachable(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Which of the goals [N, 2] have a route from the start [2]; boolean [N]."""
        areas, goals = self.areas, np.asarray(goals, dtype=float)
        good = areas.allowed(goals)
        if areas.unrestricted or not good.any():
            return good
        start = areas.nearest(start)
        unseen = np.flatnonzero(good)
        unseen = unseen[~areas.visible(start, goals[unseen])]
        corners = areas.corners[self._reached(start)]
        # The nearest corners first: one of them sees most of the goals.
        distances = np.linalg.norm(goals[unseen, None] - corners, axis=2)
        order = np.argsort(distances, axis=1, kind="stable")
        for turn in range(len(corners) if len(unseen) else 0):
            left = ~areas.visible(corners[order[:, turn]], goals[unseen])
            unseen, order = unseen[left], order[left]
        good[unseen] = False
        return good

    def narrows(self, start: np.ndarray, diameter: str = "capture_radius") -> str:
        """A warning that no route from the start [2] comes near part of the area with the stated
        margin, as passages are too narrow to turn in, whatever the depth; empty: none is."""
        areas, places = self.areas, self.stated.raster
        if self.stated.unrestricted or not len(places):
            return ""
        places = np.random.default_rng(0).permutation(places)[:PLACES]
        into = np.array([areas.nearest(place) for place in places])
        near = np.linalg.norm(into - places, axis=1) <= areas.margin  # or beside it, at the edge
        share = 1.0 - float(np.mean(near & Routes.reachable(self, start, into)))
        name = diameter if areas.margin > self.stated.margin else "areas.margin"
        text = f"{100 * share:.0f} % of the area cannot be reached: passages there are narrower"
        narrow = f"{text} than twice {name} ({areas.margin:g} m)"
        return narrow if share > UNREACHED_SHARE else ""

    def _reached(self, start: np.ndarray) -> np.ndarray:
        """Which corners have a route from an allowed start; boolean [M]."""
        from scipy.sparse.csgraph import connected_components

        # All that can be reached is reached along the near turns, which come last.
        seen = self.areas.visible(start, self.areas.corners)
        first = len(self._turns) - len(seen)
        _, part = connected_components(self._network[first:, first:], directed=False)
        return np.isin(part, part[seen])

    def _sight(self, start: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Which straight legs from a start [2] to allowed places [N, 2] are open; boolean [N].

        From within the margin, a leg may lead out of it: within the turning diameter, and never
        nearer to a border than it starts.
        """
        areas, gap = self.areas, self.areas.gap(start)
        if gap == 0 or gap >= areas.margin or not self._diameter:
            return areas.visible(start, ends)
        legs = ends - start
        lengths = np.linalg.norm(legs, axis=1)
        share = np.minimum(1.0, self._diameter / np.maximum(lengths, 1e-9))
        good = areas.visible(start + share[:, None] * legs, ends)
        good[good] = areas.visible(start, ends[good], gap - SLACK)
        return good

    def _shortest(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        from scipy.sparse.csgraph import dijkstra

        turns = self._turns
        if not len(turns):
            return None
        seen, last = self._sight(start, turns), self.areas.visible(turns, goal)
        first = np.where(seen, np.linalg.norm(turns - start, axis=1) + self._costs, np.inf)
        graph = np.full((len(turns) + 1,) * 2, np.inf)
        graph[:-1, :-1], graph[-1, :-1] = self._network, first
        length, before = dijkstra(graph, indices=len(turns), return_predecessors=True)
        whole = np.where(last, length[:-1] + np.linalg.norm(turns - goal, axis=1), np.inf)
        best = int(np.argmin(whole))
        if math.isinf(whole[best]):
            return None
        return np.vstack((turns[_chain(before, best)[1:]], goal))

    @cached_property
    def _network(self) -> np.ndarray:
        """The cost of driving from a turn to another one [M, M], in m; infinite where a border is
        between them."""
        turns, cost = self._turns, np.full((len(self._turns),) * 2, np.inf)
        for k in range(len(turns)):  # for all at once it would take hundreds of MB
            length = np.linalg.norm(turns[k] - turns[:k], axis=1)
            length[~self.areas.visible(turns[k], turns[:k])] = np.inf
            cost[k, :k] = cost[:k, k] = length
        return cost + self._costs


def _chain(before: np.ndarray, last: int) -> list[int]:
    """The nodes up to the last one, from each one's predecessor; that of the first is negative."""
    chain = []
    while last >= 0:
        chain.append(last)
        last = int(before[last])
    return chain[::-1]


#: Maximum number of cells along the longer side of the raster. A cell is as shallow as the
#: shallowest map cell in it.
SIDE = 200
#: Steepest rise of the bottom that a leg without a map allows for.
SLOPE = 1.0
#: Smallest rise that is assumed ahead over an unknown bottom, and how much steeper it may be ahead
#: and beside than behind.
LEAST_RISE, STEEPER = 0.2, 1.5
#: The bottom ahead is unknown if its variance is more than this many times that at the vehicle.
UNSURE = 2.0
#: Time from a ping until the vehicle begins to turn, in s.
REACTION_S = 2.0
#: Number of pings for the height of the transducer (their median), and for the rise.
HEIGHTS, RISE = 15, 6
#: m: a shallow reading closes the places around it within this, or a cell of the raster; and how
#: often as far the vehicle has driven on when it comes back on another pass.
GUARDED, PASS = 1.0, 4.0


@dataclass(frozen=True)
class ClearanceSettings(Settings):
    """How much water must be under the transducer."""

    min_depth: float = setting(
        0.0, "Drive only where at least this much water is under the transducer. 0: anywhere", "m",
        minimum=0.0, maximum=1e4,
    )  # fmt: skip
    min_depth_probability: float = setting(
        0.99, "Probability, by the map's mean and standard deviation, with which goals and "
        "legs must have min_depth", minimum=0.5, maximum=0.999999,
    )  # fmt: skip


class DeepRoutes(Routes):
    """Routes with enough water under the transducer, by the map and by the newest pings.

    With a map, goals and legs lie where there is enough water with a given probability. Without
    one, legs end where a bottom with the slope ``SLOPE`` would be too shallow, and the vehicle
    turns back when the pings show a bottom that rises too fast. The cost of a choice depends only
    on the size of the raster.

    The height of the transducer above the map's datum is the median, over the newest pings, of
    range plus mean elevation. It thus includes the present water level, the sonar mount and the
    depth of the vehicle.

    Args:
        areas: the area in which goals and legs may lie.
        settings: how much water is needed.

    Attributes:
        turned_back: how often the vehicle had to turn back.
    """

    def __init__(self, areas: NavigableArea, settings: ClearanceSettings) -> None:
        super().__init__(areas)
        self._needed = settings.min_depth
        self._deviations = NormalDist().inv_cdf(settings.min_depth_probability)
        size = areas.workspace.size  # cells of 0.5 m or more
        columns, rows = np.maximum(np.ceil(size / max(0.5, size.max() / SIDE)), 2).astype(int)
        grid = self._grid = Grid.dividing(areas.workspace, (rows, columns))
        self._drawn: ElevationMap | None = None
        self._soundings: deque[tuple[np.ndarray, float]] = deque(maxlen=HEIGHTS)
        self._shallow: list[tuple[np.ndarray, float]] = []  # centre, radius; newer than the map
        self._guarded: dict[tuple[int, int], tuple[np.ndarray, float]] = {}  # place; way to it
        self._cell = grid.cell_size[::-1]  # down and right, in m
        self._radius = max(GUARDED, *self._cell)
        self._way = 0.0  # that the vehicle has driven from ping to ping, in m
        self._margin = self._reach = 0.0
        self.turned_back = 0

    def set_vehicle(self, turning_diameter: float, speed: float) -> None:
        """Set the vehicle's turning diameter in m, which is also the margin around shallow water,
        and its maximum speed in m/s."""
        super().set_vehicle(turning_diameter, speed)
        self._reach = turning_diameter + REACTION_S * speed
        if turning_diameter != self._margin:
            self._margin = turning_diameter
            self._forget()

    def learn(self, drawn: ElevationMap | None) -> None:
        """Take a new map, or None when it is gone."""
        self._drawn = drawn
        self._shallow.clear()
        self._forget()

    def sounded(self, position: np.ndarray, clearance: float) -> None:
        """Take the water under the transducer, in m, at a position [2].

        Where it is less than needed, by the median of three, the place is avoided until another
        pass finds more there, whatever later maps say: a map may lack what looked like a false
        echo.
        """
        if self._soundings:
            self._way += float(np.linalg.norm(position - self._soundings[-1][0]))
        self._soundings.append((position, clearance))
        newest = list(self._soundings)[-RISE // 2 :]
        before = set(self._guarded)
        if len(newest) == RISE // 2 and median(depth for _, depth in newest) < self._needed:
            self._guard(position)
        elif clearance >= self._needed:
            for cell, (place, way) in list(self._guarded.items()):
                beside = float(np.linalg.norm(place - position)) <= self._radius
                if beside and self._way - way > PASS * self._radius:
                    del self._guarded[cell]
        if before != set(self._guarded):
            self._forget()

    @property
    def guarded(self) -> list[list[float]]:
        """The places [2] that are avoided until another pass finds more water there."""
        return [place.tolist() for place, _ in self._guarded.values()]

    def guard(self, places: list[list[float]]) -> None:
        """Avoid these places, as after shallow readings there just now."""
        for place in np.array(places, dtype=float).reshape(-1, 2):
            self._guard(place)
        self._forget()

    def _guard(self, place: np.ndarray) -> None:
        x, y = np.rint(place / self._radius).tolist()
        self._guarded[int(x), int(y)] = place, self._way

    def turns_back(self) -> bool:
        """Whether the vehicle must turn back: there is too little water, or, over an unknown
        bottom, there would be before it has turned. The place ahead is avoided until the next map.
        """
        if len(self._soundings) < RISE:
            return False
        newest = list(self._soundings)[-RISE:]
        (before, old), (now, depth) = (
            (np.mean([place for place, _ in part], axis=0), median(depth for _, depth in part))
            for part in (newest[: RISE // 2], newest[RISE // 2 :])
        )
        step = now - before
        distance = float(np.linalg.norm(step))
        rise = max(STEEPER * (old - depth) / distance if distance > 0 else 0.0, LEAST_RISE)
        position, reach = newest[-1][0], self._reach
        centre = position + (reach * step / distance if distance > 0 else 0.0)
        unknown = self._drawn is None
        if self._drawn is not None:
            around = np.vstack((position, centre))
            here, there = self._drawn.grid.interpolate(self._drawn.variance, around)
            unknown = not there <= UNSURE * here
        # The depth is known late when pings are rare: add the distance between the two halves.
        ahead = rise * (reach + distance) if unknown else 0.0
        if depth - ahead >= self._needed:
            return False
        self.turned_back += 1
        self._shallow.append((centre, reach))
        self._forget()
        return True

    def deep_enough(self, places: np.ndarray) -> np.ndarray:
        """Which places [N, 2] are deep enough with the margin, as far as known; boolean [N]."""
        return self._open.ravel()[self._cells(places)]

    def legs_open(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """As ``Routes.legs_open``."""
        good = super().legs_open(start, goals)
        starts = np.broadcast_to(start, goals.shape)
        good[good] = self._clear_share(starts[good], goals[good], self._open) == 1.0
        return good

    def reachable(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """As ``Routes.reachable``."""
        good = super().reachable(start, goals)
        reached = np.isfinite(self._ways(start)[0])
        good[good] = reached[self._cells(goals[good])]
        return good

    def shortened(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """As ``Routes.shortened``: the goals, or the last deep enough places of the legs."""
        share = self._clear_share(np.broadcast_to(start, goals.shape), goals, self._open)
        return start + share[:, None] * (goals - start)

    def too_close(self, position: np.ndarray, goal: np.ndarray) -> bool:
        """As ``Routes.too_close``."""
        if super().too_close(position, goal):
            return True
        return bool(self._clear_share(position[None], goal[None], self._deep)[0] < 1.0)

    def route(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """As ``Routes.route``. With a map, a goal in water that may be too shallow is moved to the
        nearest place with a route."""
        goal = np.asarray(goal, dtype=float)
        if self.legs_open(start, goal[None])[0]:
            return self._with_stops(start, goal[None])
        ways, before = self._ways(start)
        cell = int(self._cells(goal[None])[0])
        if not math.isfinite(ways[cell]):
            if self._drawn is None or not np.isfinite(ways).any():
                return None
            away = np.linalg.norm(self._grid.points - goal, axis=1)
            cell = int(np.argmin(np.where(np.isfinite(ways), away, np.inf)))
            goal = self._grid.points[cell]
            if math.dist(start, goal) < self._margin:
                return None
        # Along the cells to the goal, without unnecessary turns.
        places = np.vstack((self._grid.points[_chain(before, cell)], goal))
        route, at, here = [], 0, start
        while at < len(places):
            seen = np.flatnonzero(self.legs_open(here, places[at:]))
            at += int(seen[-1]) + 1 if len(seen) else 1
            here = places[at - 1]
            route.append(here)
        # The vehicle cannot drive to a turn within its turning circle.
        while len(route) > 1 and math.dist(route[0], start) < self._margin / 2:
            route.pop(0)
        return self._with_stops(start, np.array(route))

    def _with_stops(self, start: np.ndarray, route: np.ndarray) -> np.ndarray:
        """The route; without a map, with a stop where the bottom may have become too shallow."""
        if self._drawn is not None or not self._soundings:
            return route
        spare = (self._soundings[-1][1] - self._needed) / SLOPE
        leg, length = route[0] - start, math.dist(start, route[0])
        stop = max(spare, 2 * self._margin)
        return route if length <= stop else np.vstack((start + leg * stop / length, route))

    def _forget(self) -> None:
        """Drop the cached rasters."""
        for name in ("_deep", "_open", "_graph"):
            self.__dict__.pop(name, None)

    @cached_property
    def _deep(self) -> np.ndarray:
        """Where there is enough water, as far as known [rows, columns]."""
        grid, drawn = self._grid, self._drawn
        deep = np.ones(grid.shape, dtype=bool)
        if drawn is not None and self._soundings:
            places, ranges = map(np.array, zip(*self._soundings, strict=True))
            height = float(np.nanmedian(ranges + drawn.grid.interpolate(drawn.mean, places)))
            top = drawn.mean + self._deviations * np.sqrt(drawn.variance)
            unsure = ~(height - top >= self._needed)
            deep &= grid.counted(drawn.grid.points[unsure.ravel()]) == 0
            near = drawn.grid.interpolate(unsure.astype(float), grid.points)
            deep &= (near == 0).reshape(grid.shape)
        guarded = [(place, self._radius) for place, _ in self._guarded.values()]
        for centre, radius in (*self._shallow, *guarded):
            deep &= (np.linalg.norm(grid.points - centre, axis=1) > radius).reshape(grid.shape)
        return deep

    @cached_property
    def _open(self) -> np.ndarray:
        """Cells that are allowed and farther than the margin from shallow cells."""
        from scipy.ndimage import distance_transform_edt  # only with min_depth

        grid, deep = self._grid, self._deep
        if not deep.all():
            deep = distance_transform_edt(deep, sampling=self._cell) > self._margin
        return deep & self.areas.allowed(grid.points).reshape(grid.shape)

    @cached_property
    def _graph(self) -> Any:
        """Lengths between neighbouring open cells, a sparse matrix."""
        from scipy.sparse import coo_matrix

        height, width = self._grid.shape
        number = np.arange(height * width).reshape(height, width)
        rows, columns, lengths = [], [], []
        for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            a = np.s_[: height - down, max(0, -right) : width - max(0, right)]
            b = np.s_[down:, max(0, right) : width + min(0, right)]
            both = self._open[a] & self._open[b]
            rows.append(number[a][both])
            columns.append(number[b][both])
            length = math.hypot(down * self._cell[0], right * self._cell[1])
            lengths.append(np.full(both.sum(), length))
        entries = np.concatenate(lengths), (np.concatenate(rows), np.concatenate(columns))
        return coo_matrix(entries, shape=(number.size, number.size)).tocsr()

    def _ways(self, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Length of the shortest path to every cell in m, infinite without one, and the cell before
        it on the path."""
        from scipy.sparse.csgraph import dijkstra

        away = np.linalg.norm(self._grid.points - start, axis=1)
        away[~self._open.ravel()] = np.inf
        first = int(np.argmin(away))
        if not math.isfinite(away[first]):
            return away, np.full(len(away), -1)
        return dijkstra(self._graph, False, first, return_predecessors=True)

    def _cells(self, places: np.ndarray) -> np.ndarray:
        """Index of the cell of each place [..., 2] in the flat raster; the nearest outside it."""
        row, column = self._grid.located(places.reshape(-1, 2))
        return (row * self._grid.shape[1] + column).reshape(places.shape[:-1])

    def _clear_share(self, starts: np.ndarray, ends: np.ndarray, raster: np.ndarray) -> np.ndarray:
        """The share of each leg [N, 2] up to the first cell that is false in the raster [N].

        Such cells do not count at the beginning of a leg, within twice the margin.
        """
        longest = float(np.linalg.norm(ends - starts, axis=1).max(initial=0.0))
        half = float(np.linalg.norm(self._grid.borders.size / self._grid.shape[::-1])) / 2
        looks = np.linspace(0, 1, max(2, math.ceil(longest / half) + 1))
        along = looks[:, None] * (ends - starts)[:, None]
        good = raster.ravel()[self._cells(starts[:, None] + along)]
        leaving = np.linalg.norm(along, axis=2) <= 2 * self._margin
        bad = ~good & (np.logical_or.accumulate(good, axis=1) | ~leaving)
        bad[:, -1] |= ~good[:, -1]
        last = np.where(bad.any(1), bad.argmax(1) - 1, len(looks) - 1)
        row = np.arange(len(ends))
        return np.where((last >= 0) & good[row, last], looks[last], 0.0)
