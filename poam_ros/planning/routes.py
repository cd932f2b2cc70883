"""Shortest routes around keep-outs, along corners that are visible from each other."""

from __future__ import annotations

import heapq
import math

import numpy as np

from .areas import SLACK, NavigableArea

#: What a turn costs at a corner without room for the vehicle's turning circle: as much as a detour
#: of this many turning diameters.
NARROW = 4.0


class Routes:
    """Shortest routes between two places in a navigable area.

    A* on the visibility graph of the area's corners, whose edges are computed on demand. A route
    turns where the vehicle's turning circle keeps the margin from the corner, if there is room or
    a short detour around.
    """

    def __init__(self, areas: NavigableArea) -> None:
        self.areas = areas
        self._diameter = 0.0  # of the vehicle's turning circle, in m
        self._turns = areas.corners  # where routes turn [M, 2]
        self._costs = np.zeros(len(self._turns))  # of these turns, in m
        self._roomy: NavigableArea | None = None  # the places with room to turn
        self._seen: dict[int, np.ndarray] = {}  # turns visible from a turn

    def set_vehicle(self, turning_diameter: float, speed: float) -> None:
        """Set the vehicle's turning diameter in m and its maximum speed in m/s."""
        if turning_diameter == self._diameter:
            return
        self._diameter, areas = turning_diameter, self.areas
        self._roomy = areas.narrowed(turning_diameter)
        wide = areas.corners_at(areas.margin + turning_diameter)
        self._turns = np.vstack((wide, areas.corners))
        self._costs = np.full(len(self._turns), NARROW * turning_diameter)
        self._costs[: len(wide)] = 0.0
        self._seen.clear()

    def route(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """The turns from start to goal [2] and the goal itself [K, 2]; None if there is no route.

        If the start lies in a keep-out or outside the area, the first leg goes to the nearest
        allowed place, whatever it crosses; if one is near, to a place with room to turn.
        """
        goal = np.asarray(goal, dtype=float)
        if self.areas.unrestricted or self.areas.leg_allowed(start, goal[None])[0]:
            return goal[None]
        if self.areas.allowed(goal[None])[0] and self._sight(start, goal[None])[0]:
            return goal[None]
        route = self._shortest(start, goal)
        if route is None and not self.areas.allowed(start[None])[0]:
            out = self._way_out(start)
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
        for turn in range(len(corners)):
            if not len(unseen):
                break
            left = ~areas.visible(corners[order[:, turn]], goals[unseen])
            unseen, order = unseen[left], order[left]
        good[unseen] = False
        return good

    def _reached(self, start: np.ndarray) -> np.ndarray:
        """Which corners have a route from an allowed start; boolean [M]."""
        # All that can be reached is reached along the narrow turns, which come last.
        reached = self.areas.visible(start, self.areas.corners)
        first = len(self._turns) - len(reached)
        waiting = np.flatnonzero(reached).tolist()
        while waiting and not reached.all():
            found = self._sees(first + waiting.pop())[first:] & ~reached
            reached |= found
            waiting += np.flatnonzero(found).tolist()
        return reached

    def _way_out(self, start: np.ndarray) -> np.ndarray:
        """The allowed place [2] to go to from a place that is not allowed.

        At the edge, the vehicle's turn to its goal would lead it back in.
        """
        nearest = self.areas.nearest(start)
        roomy = nearest if self._roomy is None else self._roomy.nearest(start)
        near = math.dist(start, nearest) + 2 * self._diameter
        return roomy if math.dist(start, roomy) <= near else nearest

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
        corners = self._turns
        if not self.areas.allowed(goal[None])[0] or not len(corners):
            return None
        first, last = self._sight(start, corners), self.areas.visible(corners, goal)
        if not (first.any() and last.any()):
            return None
        ahead = np.linalg.norm(corners - goal, axis=1)
        length = np.linalg.norm(corners - start, axis=1) + self._costs
        length[~first] = math.inf
        before = np.full(len(corners), -1)
        open_ = [(length[k] + ahead[k], k, False) for k in np.flatnonzero(first).tolist()]
        heapq.heapify(open_)
        while open_:
            total, k, arrived = heapq.heappop(open_)
            if arrived:
                return np.vstack((*self._back(k, before), goal))
            if total > length[k] + ahead[k]:
                continue  # a shorter route to it was found since
            if last[k]:
                heapq.heappush(open_, (total, k, True))
            reach = length[k] + np.linalg.norm(corners - corners[k], axis=1) + self._costs
            for j in np.flatnonzero(self._sees(k) & (reach < length)).tolist():
                length[j], before[j] = reach[j], k
                heapq.heappush(open_, (reach[j] + ahead[j], j, False))
        return None

    def _sees(self, k: int) -> np.ndarray:
        if k not in self._seen:
            self._seen[k] = self.areas.visible(self._turns[k], self._turns)
        return self._seen[k]

    def _back(self, k: int, before: np.ndarray) -> list[np.ndarray]:
        turns = []
        while k >= 0:
            turns.append(self._turns[k])
            k = int(before[k])
        return turns[::-1]
