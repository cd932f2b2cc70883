"""Goals one after the other, by legs that stay where the vehicle may go. No rclpy."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

import numpy as np

from ..errors import InputError
from ..planning.arrival import CAPTURE_RADIUS, GoalWatch
from ..planning.routes import Routes


class Itinerary:
    """A queue of waypoints, and the one that is gone to.

    Each leg is planned when it begins, from where the vehicle is then, and anew when what is left
    of it has come too near to what may not be entered.

    Args:
        routes: the ways that may be gone.
        arrival: how arrival is judged: goal_radius, capture_radius and max_speed of ``GoalWatch``.

    Attributes:
        target: where the vehicle shall go now, [2]; None: nowhere.
        queue: where it shall go after that.
        arrivals: how goals ended: ``reached``, ``passed``, ``timeout``.
        clipped: waypoints that lay where none may be, and were moved.
        unreachable: waypoints given up because no way led to them.
    """

    def __init__(self, routes: Routes, arrival: Mapping[str, float] | None = None) -> None:
        self.routes = routes
        self.arrival = dict(arrival or {})
        self.target: np.ndarray | None = None
        self.queue: deque[np.ndarray] = deque()
        self.arrivals: Counter[str] = Counter()
        self.clipped = self.unreachable = 0
        self._watch: GoalWatch | None = None
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
            "goals_reached": self.arrivals["reached"],
            "goals_passed": self.arrivals["passed"],
            "goals_timed_out": self.arrivals["timeout"],
            "goals_clipped": self.clipped,
            "goals_unreachable": self.unreachable,
        }

    def clear(self) -> None:
        """Go nowhere."""
        self.queue.clear()
        self.target = self._watch = None

    def follow(self, position: np.ndarray, measured: float) -> str | None:
        """The vehicle is at position [2] at a time in s; how it arrived at the target, or None."""
        if self.target is None or self._watch is None:
            return None
        arrival = self._watch.update(position, measured)
        if arrival is not None:
            self.arrivals[arrival] += 1
            self.target = self._watch = None
        elif not self._escaping and self.routes.areas.off_course(position, self.target):
            self.set_out(position)
        return arrival

    def head_on(self, position: np.ndarray) -> None:
        """From position [2] to the next waypoint that a way leads to; nowhere without one."""
        self.target = self._watch = None
        while self.queue and self.target is None:
            self._aim(position, self.queue.popleft())

    def set_out(self, position: np.ndarray | None) -> None:
        """To the target again, with a new time limit; the vehicle may be elsewhere by now."""
        if self.target is None or position is None:
            return
        self._aim(position, self.target)
        if self.target is None:
            self.head_on(position)

    def _aim(self, position: np.ndarray, waypoint: np.ndarray) -> None:
        way = self.routes.route(position, waypoint)
        if way is None:
            self.unreachable += 1
            self.target = self._watch = None
            return
        # A way without turns leaves the waypoint what it is: whoever follows goals sees no new one.
        first, *rest = (waypoint,) if len(way) == 1 else (*way[:-1], waypoint)
        self.queue.extendleft(reversed(rest))
        self.target = first
        self._watch = GoalWatch(first, **self.arrival)
        self._escaping = self.routes.areas.off_course(position, first)
