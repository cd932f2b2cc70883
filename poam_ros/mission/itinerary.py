"""The queue of goals, and when one counts as reached, whatever moves the vehicle. No ROS."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Current, path_length
from ..planning.routes import Routes

#: m; about the turning diameter of the published vehicle.
GOAL_RADIUS, CAPTURE_RADIUS = 0.1, 1.34

REACHED, PASSED, TIMEOUT = "reached", "passed", "timeout"
#: A vehicle that has moved less than this between two routes, in m, has stopped.
STOPPED = 0.02
#: Kinds of legs: along a route; straight out of a keep-out or its margin; back from shallow water.
ROUTE, ESCAPE, BACK = "route", "escape", "back"
#: The time limit of a waypoint: times that of its route, and s for each leg of it.
DETOUR, GRACE = 2.0, 30.0


class Leg:
    """A straight leg to a goal; detects the arrival from positions over time, for any vehicle.

    ``reached``: the path came within ``goal_radius`` of the goal, at or between two positions.
    ``passed``: the closest approach lies within ``capture_radius``, and the vehicle moves away (it
    may never come nearer with bounded turning) or has come to rest there.

    A decrease of the distance that starts inside the capture radius is not an approach: a vehicle
    must first move away from a goal inside its turning circle before it can reach it.

    Args:
        goal: [2], in m.
        kind: of leg.
        goal_radius: in m; also how far the distance must fall and rise again in an approach.
        capture_radius: in m; about the vehicle's turning diameter.
    """

    REST = 3.0  # seconds without motion within the capture radius

    def __init__(
        self,
        goal: np.ndarray,
        kind: str = ROUTE,
        goal_radius: float = GOAL_RADIUS,
        capture_radius: float = CAPTURE_RADIUS,
    ) -> None:
        self.goal, self.kind = np.asarray(goal, dtype=float), kind
        self.goal_radius, self.capture_radius = goal_radius, capture_radius
        self._last_time: float | None = None
        self._position = self._anchor = self.goal

    def update(self, position: np.ndarray, time_s: float) -> str | None:
        """Process the position [2] at a time in s; ``reached``, ``passed`` or None.

        A clock that jumps back restarts detection.
        """
        position = np.asarray(position, dtype=float)
        if self._last_time is None or time_s < self._last_time:
            self._start(position, time_s)
        self._last_time = time_s
        closest = _distance_to_segment(self.goal, self._position, position)
        distance = float(np.linalg.norm(position - self.goal))
        self._position = position
        if closest <= self.goal_radius:
            return REACHED
        if math.dist(position, self._anchor) > self.goal_radius:
            self._anchor, self._anchor_time = position, time_s
        rests = distance <= self.capture_radius and time_s - self._anchor_time >= self.REST
        return PASSED if self._turned_away(closest, distance) or rests else None

    def _start(self, position: np.ndarray, time_s: float) -> None:
        distance = float(np.linalg.norm(position - self.goal))
        self._position = position
        self._anchor, self._anchor_time = position, time_s
        self._falling = False
        self._extreme = distance  # highest distance while rising, lowest while falling
        self._first_distance = distance
        self._approach_counts = distance > self.capture_radius

    def _turned_away(self, closest: float, distance: float) -> bool:
        """Track the extremes of the distance; True after a minimum that is an arrival."""
        # Between two positions the distance first falls to `closest`, then rises to `distance`.
        for value in (closest, distance):
            if self._falling and value - self._extreme >= self.goal_radius:
                if self._approach_counts and self._extreme <= self.capture_radius:
                    return True
                self._falling, self._approach_counts = False, True
                self._extreme = value
            elif not self._falling and self._extreme - value >= self.goal_radius:
                self._falling, self._extreme = True, value
            else:
                self._extreme = (min if self._falling else max)(self._extreme, value)
            if value - self._first_distance >= self.goal_radius:
                self._approach_counts = True
        return False


def _distance_to_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    """Distance of the point [2] from the segment between start and end [2]."""
    along = end - start
    length = float(along @ along)
    fraction = 0.0 if length == 0 else float(np.clip((point - start) @ along / length, 0, 1))
    return float(np.linalg.norm(start + fraction * along - point))


class GoalQueue:
    """The waypoints to drive to, and the legs of the route to the present one.

    The route to a waypoint is planned from where the vehicle is when its turn comes, and again if
    the vehicle drifts so that the rest of the leg comes too close to a keep-out. It is given up
    (``timeout``) after twice the time of its first route, plus half a minute a leg for turning and
    delays. A current against the vehicle lengthens that; a later route does not.

    Args:
        routes: plans routes around keep-outs.
        arrival: see ``set_arrival``.

    Attributes:
        leg: the present leg; None: no goal.
        turns: the ends of the later legs to the present waypoint, which is the last of them.
        queue: the waypoints after it.
        results: number of legs by how they ended: ``reached``, ``passed``, ``timeout``.
        clipped: number of waypoints moved into the navigable area.
        unreachable: number of waypoints dropped because no route leads to them.
        purpose: of the newest path, as who gave it says; empty: none in particular.
        finished: number of waypoints that the vehicle arrived at, or turned back from.
    """

    def __init__(self, routes: Routes, arrival: Mapping[str, Any] | None = None) -> None:
        self.routes = routes
        self.queue: deque[np.ndarray] = deque()
        self.turns: deque[np.ndarray] = deque()
        self.leg: Leg | None = None
        self.purpose = ""
        self.results: Counter[str] = Counter()
        self.clipped = self.unreachable = self.finished = 0
        self._left: float | None = None  # s until the present waypoint is given up
        self._updated_s: float | None = None  # time of the last position on the way to it
        self._aimed: np.ndarray | None = None  # where the last route began
        self.set_arrival(arrival or {})

    @property
    def current(self) -> np.ndarray | None:
        """The goal [2]: the end of the present leg; None: no goal."""
        return None if self.leg is None else self.leg.goal

    @property
    def waypoint(self) -> np.ndarray | None:
        """The waypoint [2] that the present leg is on the way to; None: no goal."""
        return self.turns[-1] if self.turns else self.current

    @property
    def ahead(self) -> list[np.ndarray]:
        """The ends of all further legs, as far as planned, and the waypoints after them [2]."""
        return [*self.turns, *self.queue]

    def set_arrival(self, arrival: Mapping[str, Any]) -> None:
        """Replace the settings of arrival, from the next goal on: ``goal_radius`` and
        ``capture_radius`` as of ``Leg``, the vehicle's ``max_speed`` through water in m/s, and a
        known ``current``, the water's velocity [2] in m/s."""
        values = {"goal_radius": GOAL_RADIUS, "capture_radius": CAPTURE_RADIUS, **arrival}
        self.max_speed = float(values.pop("max_speed", 1.0))
        self.stated_current = values.pop("current", (0.0, 0.0))
        self._radii = values
        self.turning_radius = values["capture_radius"] / 2  # the smallest one, in m
        self.routes.set_vehicle(2 * self.turning_radius, self.max_speed)

    def add(self, path: np.ndarray, purpose: str = "") -> None:
        """Queue waypoints [K, 2] for a purpose, each moved into the navigable area.

        Raises:
            InputError: they are not finite, or not [K, 2].
        """
        path = np.asarray(path, dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not np.all(np.isfinite(path)):
            raise InputError(f"waypoints: expected finite numbers [K, 2], got {path.tolist()}")
        areas = self.routes.areas
        self.clipped += int((~areas.allowed(path)).sum())
        self.purpose = purpose
        self.queue.extend(areas.nearest(place) for place in path)

    def counts(self) -> dict[str, int]:
        """Counts of goals, by their keys in diagnostics."""
        results = (self.results[kind] for kind in (REACHED, PASSED, TIMEOUT))
        names = "reached", "passed", "timed_out", "clipped", "unreachable"
        counts = (*results, self.clipped, self.unreachable)
        return {f"goals_{name}": count for name, count in zip(names, counts, strict=True)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``restore``."""
        goals = [*([] if self.current is None else [self.current]), *self.ahead]
        return {
            "goals": [[float(x), float(y)] for x, y in goals], "arrivals": dict(self.results),
            "clipped": self.clipped, "unreachable": self.unreachable,
        }  # fmt: skip

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore the values of ``to_dict``."""
        self.clear()
        self.queue.extend(np.array(goal, dtype=float) for goal in values["goals"])
        self.results = Counter(values["arrivals"])
        self.clipped, self.unreachable = values["clipped"], values["unreachable"]

    def clear(self, purpose: str = "") -> None:
        """Drop all goals; ``purpose``: of those to come."""
        self.purpose = purpose
        self.queue.clear()
        self.turns.clear()
        self.leg = None

    def turn_back(self, place: np.ndarray) -> None:
        """Give up the present waypoint, and go straight to a place [2]."""
        self.turns.clear()
        self.unreachable += 1
        self.finished += 1
        self._left = self._updated_s = None
        self.leg = Leg(place, BACK, **self._radii)

    def update(self, position: np.ndarray, measured: float) -> str | None:
        """Take position [2] at a time in s; returns how the current leg ended, or None.

        A waypoint whose time is over is given up, with all turns to it.
        """
        leg, before = self.leg, self._updated_s
        if leg is None:
            return None
        self._updated_s = measured
        if self._left is None:
            self._left = self._limit(position, leg)
        self._left -= 0.0 if before is None else max(0.0, measured - before)
        arrival = leg.update(position, measured)
        if arrival is None and self._left < 0:
            arrival = TIMEOUT
        if arrival is not None:
            self.results[arrival] += 1
            self.leg = None
            if arrival == TIMEOUT:
                self.turns.clear()
            elif not self.turns and leg.kind != BACK:
                self.finished += 1
        elif leg.kind == ROUTE and self.routes.too_close(position, leg.goal):
            self.replan(position)
        return arrival

    def next(self, position: np.ndarray) -> None:
        """Go from position [2] to the next place that a route leads to."""
        self.leg = None
        while self.leg is None and self.ahead:
            if self.turns:
                self._aim(position, self.turns.popleft())
                continue
            self._aim(position, self.queue.popleft())
            self._left = self._updated_s = None

    def resume(self, position: np.ndarray | None) -> None:
        """Go on after a pause, which takes no time of the waypoint's limit."""
        self._updated_s = None
        self.replan(position)

    def replan(self, position: np.ndarray | None) -> None:
        """Plan the route to the current goal again."""
        if self.leg is None or position is None:
            return
        self._aim(position, self.leg.goal)
        if self.leg is None:
            self.next(position)

    def rest(self, position: np.ndarray) -> float:
        """Length of the way that is left from position [2] to the present waypoint, in m."""
        ends = [] if self.leg is None else [self.leg.goal]
        return path_length(np.array([position, *ends, *self.turns]))

    def _limit(self, position: np.ndarray, leg: Leg) -> float:
        """How long the way from position [2] to the present waypoint may take, in s."""
        way = np.array([position, leg.goal, *self.turns])
        current = Current.at_most(self.stated_current, self.max_speed)
        seconds = max(current.seconds(way), path_length(way) / self.max_speed)
        return DETOUR * seconds + GRACE * (len(way) - 1)

    def _aim(self, position: np.ndarray, place: np.ndarray) -> None:
        route = self.routes.route(position, place)
        if route is None:
            self.unreachable += 1
            self.leg = None
            return
        # A leg shorter than goal_radius ends at once, where it began. Where the vehicle stopped, on
        # the way out of a margin or beside a corner, it would be planned again without end.
        near = self._radii["goal_radius"]
        stopped = self._aimed is not None and math.dist(position, self._aimed) < STOPPED
        self._aimed = position
        if stopped or not self.routes.areas.allowed(position[None])[0]:
            while len(route) > 1 and math.dist(position, route[0]) <= near:
                if self.routes.too_close(position, route[1]):
                    break
                route = route[1:]
        # The place's array is kept, so that the goal does not count as a new one, unless the route
        # ends elsewhere: near a place in shallow water.
        first, *rest = *route[:-1], place if np.array_equal(route[-1], place) else route[-1]
        self.turns.extendleft(reversed(rest))
        kind = ESCAPE if self.routes.too_close(position, first) else ROUTE
        self.leg = Leg(first, kind, **self._radii)
