"""Shortest routes around keep-outs, along corners that are visible from each other."""

from __future__ import annotations

import heapq
import math

import numpy as np

from .areas import NavigableArea


class Routes:
    """Shortest routes between two places in a navigable area.

    A* on the visibility graph of the area's corners, whose edges are computed on demand.
    """

    def __init__(self, areas: NavigableArea) -> None:
        self.areas = areas
        self._seen: dict[int, np.ndarray] = {}  # corners visible from a corner

    def route(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        """The turns from start to goal [2] and the goal itself [K, 2]; None if there is no route.

        If the start lies in a keep-out or outside the area, the first leg goes to the nearest
        allowed place, whatever it crosses.
        """
        goal = np.asarray(goal, dtype=float)
        if self.areas.unrestricted or self.areas.leg_allowed(start, goal[None])[0]:
            return goal[None]
        route = self._shortest(start, goal)
        if route is None and not self.areas.allowed(start[None])[0]:
            out = self.areas.nearest(start)
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
        reached = self.areas.visible(start, self.areas.corners)
        waiting = np.flatnonzero(reached).tolist()
        while waiting and not reached.all():
            found = self._sees(waiting.pop()) & ~reached
            reached |= found
            waiting += np.flatnonzero(found).tolist()
        return reached

    def _shortest(self, start: np.ndarray, goal: np.ndarray) -> np.ndarray | None:
        corners = self.areas.corners
        if not self.areas.allowed(goal[None])[0]:
            return None
        first, last = self.areas.visible(start, corners), self.areas.visible(corners, goal)
        if not (first.any() and last.any()):
            return None
        ahead = np.linalg.norm(corners - goal, axis=1)
        length = np.where(first, np.linalg.norm(corners - start, axis=1), math.inf)
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
            reach = length[k] + np.linalg.norm(corners - corners[k], axis=1)
            for j in np.flatnonzero(self._sees(k) & (reach < length)).tolist():
                length[j], before[j] = reach[j], k
                heapq.heappush(open_, (reach[j] + ahead[j], j, False))
        return None

    def _sees(self, k: int) -> np.ndarray:
        if k not in self._seen:
            self._seen[k] = self.areas.visible(self.areas.corners[k], self.areas.corners)
        return self._seen[k]

    def _back(self, k: int, before: np.ndarray) -> list[np.ndarray]:
        turns = []
        while k >= 0:
            turns.append(self.areas.corners[k])
            k = int(before[k])
        return turns[::-1]
