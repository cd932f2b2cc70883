"""Where the vehicle shall go, and where it was. No rclpy."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Extent
from ..planning.arrival import CAPTURE_RADIUS, ArrivalDetector
from ..planning.routes import Routes


class GoalQueue:
    """A queue of waypoints, and the one that is gone to.

    Each leg is planned when it begins, from where the vehicle is then, and anew when what is left
    of it has come too near to what may not be entered.

    Args:
        routes: the ways that may be gone.
        arrival: goal_radius, capture_radius and max_speed of ``ArrivalDetector``.

    Attributes:
        current: where the vehicle shall go now, [2]; None: nowhere.
        queue: where it shall go after that.
        results: how goals ended: ``reached``, ``passed``, ``timeout``.
        clipped: waypoints that lay where none may be, and were moved.
        unreachable: waypoints given up because no way led to them.
    """

    def __init__(self, routes: Routes, arrival: Mapping[str, float] | None = None) -> None:
        self.routes = routes
        self.arrival = dict(arrival or {})
        self.current: np.ndarray | None = None
        self.queue: deque[np.ndarray] = deque()
        self.results: Counter[str] = Counter()
        self.clipped = self.unreachable = 0
        self._watch: ArrivalDetector | None = None
        self._escaping = False  # on the way out of what may not be entered

    @property
    def turning_radius(self) -> float:
        """The smallest circle that the vehicle drives, in m."""
        return self.arrival.get("capture_radius", CAPTURE_RADIUS) / 2

    def add(self, path: np.ndarray) -> None:
        """Queue waypoints [K, 2], each moved to the next place where one may be.

        Raises:
            InputError: they are no path.
        """
        path = np.asarray(path, dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not np.all(np.isfinite(path)):
            raise InputError(f"waypoints: expected finite numbers [K, 2], got {path.tolist()}")
        areas = self.routes.areas
        self.clipped += int((~areas.allowed(path)).sum())
        self.queue.extend(areas.nearest(waypoint) for waypoint in path)

    def counts(self) -> dict[str, int]:
        """What became of the goals, by the names that diagnostics have."""
        return {
            "goals_reached": self.results["reached"],
            "goals_passed": self.results["passed"],
            "goals_timed_out": self.results["timeout"],
            "goals_clipped": self.clipped,
            "goals_unreachable": self.unreachable,
        }

    def to_dict(self) -> dict[str, Any]:
        """What ``restore`` takes, as plain values."""
        goals = [*([] if self.current is None else [self.current]), *self.queue]
        return {
            "goals": [[float(x), float(y)] for x, y in goals],
            "arrivals": dict(self.results),
            "clipped": self.clipped,
            "unreachable": self.unreachable,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.clear()
        self.queue.extend(np.array(goal, dtype=float) for goal in kept["goals"])
        self.results = Counter(kept["arrivals"])
        self.clipped, self.unreachable = kept["clipped"], kept["unreachable"]

    def clear(self) -> None:
        """Go nowhere."""
        self.queue.clear()
        self.current = self._watch = None

    def update(self, position: np.ndarray, measured: float) -> str | None:
        """The vehicle is at position [2] at a time in s; how it arrived at the target, or None."""
        if self.current is None or self._watch is None:
            return None
        arrival = self._watch.update(position, measured)
        if arrival is not None:
            self.results[arrival] += 1
            self.current = self._watch = None
        elif not self._escaping and self.routes.areas.too_close(position, self.current):
            self.replan(position)
        return arrival

    def next(self, position: np.ndarray) -> None:
        """From position [2] to the next waypoint that a way leads to; nowhere without one."""
        self.current = self._watch = None
        while self.queue and self.current is None:
            self._aim(position, self.queue.popleft())

    def replan(self, position: np.ndarray | None) -> None:
        """To the target again, with a new time limit; the vehicle may be elsewhere by now."""
        if self.current is None or position is None:
            return
        self._aim(position, self.current)
        if self.current is None:
            self.next(position)

    def _aim(self, position: np.ndarray, waypoint: np.ndarray) -> None:
        way = self.routes.route(position, waypoint)
        if way is None:
            self.unreachable += 1
            self.current = self._watch = None
            return
        # A way without turns leaves the waypoint what it is: whoever follows goals sees no new one.
        first, *rest = (waypoint,) if len(way) == 1 else (*way[:-1], waypoint)
        self.queue.extendleft(reversed(rest))
        self.current = first
        self._watch = ArrivalDetector(first, **self.arrival)
        self._escaping = self.routes.areas.too_close(position, first)


class VehicleTrack:
    """Where the vehicle was, and when: bounded, however long the mission is.

    Args:
        workspace: places in it, or near it, are remembered to the end.

    Attributes:
        length: driven so far, in m.
    """

    SPACING = 0.25  # m between two of the newest places
    NEWEST = 2000  # of them at most
    SQUARES = 100  # along the workspace's longer side; one place of each is remembered
    MARGIN = 0.1  # of the longer side, about the workspace

    def __init__(self, workspace: Extent) -> None:
        self._newest: deque[tuple[float, float, float]] = deque(maxlen=self.NEWEST)
        side = float(workspace.size.max())
        self._lower, self._square = workspace.lower, side / self.SQUARES
        self._about = workspace.grown(self.MARGIN * side)
        self._visited: dict[tuple[int, ...], tuple[float, float, float]] = {}
        self._last: np.ndarray | None = None
        self.length = 0.0

    def add(self, measured: float, position: np.ndarray) -> None:
        """The vehicle was at position [2] at a time in s; a clock set back takes back what it saw.

        Places that are later than the newest one could never be told from new ones.
        """
        places = self._newest
        while places and places[-1][0] > measured:
            places.pop()
        if places and math.dist(position, places[-1][1:]) < self.SPACING:
            return
        places.append((measured, float(position[0]), float(position[1])))
        if self._last is not None:
            self.length += math.dist(position, self._last)
        self._last = position
        if self._about.contains(position):
            square = np.floor((position - self._lower) / self._square).astype(int)
            self._visited.setdefault(tuple(square.tolist()), places[-1])

    def to_dict(self) -> dict[str, object]:
        """What ``restore`` takes, as plain values."""
        visited = [[*square, *place] for square, place in self._visited.items()]
        return {"newest": list(self._newest), "visited": visited, "length": self.length}

    def restore(self, newest: list[list[float]], visited: list[list[float]], length: float) -> None:
        """Go on from a track of the same workspace."""
        for time_s, x, y in newest:
            self._newest.append((time_s, x, y))
        for row, column, *place in visited:
            time_s, x, y = place
            self._visited[int(row), int(column)] = time_s, x, y
        self.length = float(length)

    def since(self, time_s: float) -> np.ndarray:
        """The newest places after a time in s, newest last [K, 2]."""
        later = [place[1:] for place in self._newest if place[0] > time_s]
        return np.array(later, dtype=float).reshape(-1, 2)

    def split_at(self, time_s: float) -> tuple[np.ndarray, np.ndarray]:
        """The newest places after a time in s, and all up to it, thinned out: [K, 2] each."""
        return self.since(time_s), self.visited(time_s)

    def visited(self, until_s: float = math.inf) -> np.ndarray:
        """One place of every square of the workspace that the vehicle was in by a time [K, 2]."""
        places = [place[1:] for place in self._visited.values() if place[0] <= until_s]
        return np.array(places, dtype=float).reshape(-1, 2)
