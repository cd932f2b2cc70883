"""The queue of goals, the vehicle's track, and the budget of a mission. No ROS."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InputError, quantity
from ..core.geometry import Extent, path_length
from ..planning.routes import Routes
from .arrival import CAPTURE_RADIUS, GOAL_RADIUS, TIMEOUT, ArrivalDetector

#: A vehicle that has moved less than this between two routes, in m, has stopped.
STOPPED = 0.02


#: Kinds of legs: along a route; straight out of a keep-out or its margin; back from shallow water.
ROUTE, ESCAPE, BACK = "route", "escape", "back"


@dataclass(frozen=True)
class Leg:
    """A straight leg to a goal [2], of a kind; ``watch`` detects the arrival."""

    goal: np.ndarray
    kind: str
    watch: ArrivalDetector


class GoalQueue:
    """The waypoints to drive to, and the legs of the route to the present one.

    The route to a waypoint is planned from where the vehicle is when its turn comes, and again if
    the vehicle drifts so that the rest of the leg comes too close to a keep-out. Its time limit is
    that of its first route: no later one renews it.

    Args:
        routes: plans routes around keep-outs.
        arrival: arguments of ``ArrivalDetector`` but the goal.

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
        self._left = math.inf  # s until the present waypoint is given up
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

    @property
    def turning_radius(self) -> float:
        """Smallest radius of a turn, in m."""
        return self.arrival.get("capture_radius", CAPTURE_RADIUS) / 2

    @property
    def max_speed(self) -> float:
        """The vehicle's top speed through water, in m/s."""
        return float(self.arrival.get("max_speed", 1.0))

    def set_arrival(self, arrival: Mapping[str, Any]) -> None:
        """Replace the settings of ``ArrivalDetector``, from the next goal on."""
        self.arrival = dict(arrival)
        self.routes.set_vehicle(2 * self.turning_radius, self.max_speed)

    def add(self, path: np.ndarray, purpose: str = "") -> None:
        """Queue waypoints [K, 2] for a purpose, each moved to where ``Routes.waypoint`` says.

        Raises:
            InputError: they are not finite, or not [K, 2].
        """
        path = np.asarray(path, dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not np.all(np.isfinite(path)):
            raise InputError(f"waypoints: expected finite numbers [K, 2], got {path.tolist()}")
        areas = self.routes.areas
        self.clipped += int((~areas.allowed(path)).sum())
        self.purpose = purpose
        self.queue.extend(self.routes.waypoint(place) for place in path)

    def counts(self) -> dict[str, int]:
        """Counts of goals, by their keys in diagnostics."""
        return {
            "goals_reached": self.results["reached"],
            "goals_passed": self.results["passed"],
            "goals_timed_out": self.results["timeout"],
            "goals_clipped": self.clipped,
            "goals_unreachable": self.unreachable,
        }

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``restore``."""
        goals = [*([] if self.current is None else [self.current]), *self.ahead]
        return {
            "goals": [[float(x), float(y)] for x, y in goals],
            "arrivals": dict(self.results),
            "clipped": self.clipped,
            "unreachable": self.unreachable,
        }

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
        self._left, self._updated_s = math.inf, None
        self.leg = Leg(place, BACK, ArrivalDetector(place, **self.arrival))

    def update(self, position: np.ndarray, measured: float) -> str | None:
        """Take position [2] at a time in s; returns how the current leg ended, or None.

        A waypoint whose time is over is given up, with all turns to it.
        """
        leg, before = self.leg, self._updated_s
        if leg is None:
            return None
        self._updated_s = measured
        self._left -= 0.0 if before is None else max(0.0, measured - before)
        arrival = leg.watch.update(position, measured)
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
            self._updated_s = None
            self._left = self._limit(position)

    def _limit(self, position: np.ndarray) -> float:
        """The time limit of the route from position [2], in s."""
        seconds = 0.0
        for end in () if self.leg is None else (self.leg.goal, *self.turns):
            seconds += ArrivalDetector(end, **self.arrival).limit(position)
            position = end
        return seconds

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

    def _aim(self, position: np.ndarray, place: np.ndarray) -> None:
        route = self.routes.route(position, place)
        if route is None:
            self.unreachable += 1
            self.leg = None
            return
        # A leg shorter than goal_radius ends at once, where it began. Where the vehicle stopped, on
        # the way out of a margin or beside a corner, it would be planned again without end.
        near = self.arrival.get("goal_radius", GOAL_RADIUS)
        stopped = self._aimed is not None and math.dist(position, self._aimed) < STOPPED
        self._aimed = position
        if stopped or not self.routes.areas.allowed(position[None])[0]:
            while len(route) > 1 and math.dist(position, route[0]) <= near:
                if self.routes.too_close(position, route[1]):
                    break
                route = route[1:]
        # A straight route keeps the place's array, so that the goal does not count as a new one.
        first, *rest = (place,) if len(route) == 1 else (*route[:-1], place)
        self.turns.extendleft(reversed(rest))
        kind = ESCAPE if self.routes.too_close(position, first) else ROUTE
        self.leg = Leg(first, kind, ArrivalDetector(first, **self.arrival))


class VehicleTrack:
    """Where the vehicle was, and when. Its size is bounded.

    Args:
        workspace: places in or near it are stored for the whole mission.

    Attributes:
        length: distance travelled so far, in m.
    """

    SPACING = 0.25  # m between two successive places
    NEWEST = 2000  # number of newest places
    SQUARES = 100  # along the workspace's longer side; one place of each is stored
    MARGIN = 0.1  # share of the longer side, around the workspace

    def __init__(self, workspace: Extent) -> None:
        self._newest: deque[tuple[float, float, float]] = deque(maxlen=self.NEWEST)
        side = float(workspace.size.max())
        self._lower, self._square = workspace.lower, side / self.SQUARES
        self._about = workspace.grown(self.MARGIN * side)
        self._visited: dict[tuple[int, ...], tuple[float, float, float]] = {}
        self._last: np.ndarray | None = None
        self.length = 0.0

    def add(self, measured: float, position: np.ndarray) -> None:
        """Add position [2] at a time in s. If the clock was set back, later places are removed, as
        they could not be distinguished from new ones."""
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
        """Plain values for ``restore``."""
        visited = [[*square, *place] for square, place in self._visited.items()]
        return {"newest": list(self._newest), "visited": visited, "length": self.length}

    def restore(self, newest: list[list[float]], visited: list[list[float]], length: float) -> None:
        """Restore the values of ``to_dict``, of the same workspace."""
        for time_s, x, y in newest:
            self._newest.append((time_s, x, y))
        for row, column, *place in visited:
            time_s, x, y = place
            self._visited[int(row), int(column)] = time_s, x, y
        self.length = float(length)

    @property
    def newest(self) -> np.ndarray:
        """Times in s and places in m of the newest places, oldest first [K, 3]."""
        return np.array(self._newest, dtype=float).reshape(-1, 3)

    def since(self, time_s: float) -> np.ndarray:
        """The places after a time in s, newest last [K, 2]; only the newest are stored."""
        later = [place[1:] for place in self._newest if place[0] > time_s]
        return np.array(later, dtype=float).reshape(-1, 2)

    def split_at(self, time_s: float) -> tuple[np.ndarray, np.ndarray]:
        """The places after a time in s, and all up to it, thinned out: [K, 2] each."""
        return self.since(time_s), self.visited(time_s)

    def visited(self, until_s: float = math.inf) -> np.ndarray:
        """One place in every square of the workspace visited up to a time in s [K, 2]."""
        places = [place[1:] for place in self._visited.values() if place[0] <= until_s]
        return np.array(places, dtype=float).reshape(-1, 2)


@dataclass
class Budget:
    """Limits of a mission, and how much of them is used.

    Attributes:
        max_samples: 0: no limit.
        max_duration: s; 0: no limit.
        start_time_s: when the mission began, in s; None before.
        samples: number of samples that the mapper has accepted.
        samples_at_start: number of them when the mission began.
        driven_at_start: how far the vehicle had driven then, in m.
    """

    max_samples: int = 0
    max_duration: float = 0.0
    start_time_s: float | None = None
    samples: int = 0
    samples_at_start: int = 0
    driven_at_start: float = 0.0

    @property
    def unlimited(self) -> bool:
        """Whether neither limit is set."""
        return not (self.max_samples or self.max_duration)

    @property
    def samples_left(self) -> int | None:
        """Samples left; None: no limit."""
        return max(0, self.max_samples - self.taken) if self.max_samples else None

    @property
    def taken(self) -> int:
        """Samples since the mission began."""
        return self.samples - self.samples_at_start

    def __str__(self) -> str:
        """The samples since the mission began, and those in the map if an earlier one took some."""
        taken = quantity(self.taken, "sample")
        return f"{taken} ({self.samples} in the map)" if self.samples_at_start else taken

    def time_left(self, now: float) -> float:
        """Time left at ``now`` (s), in s; infinite if unknown.

        By ``max_duration``, and by ``max_samples`` at the rate so far.
        """
        if self.start_time_s is None:
            return math.inf
        spent = now - self.start_time_s
        left = self.max_duration - spent if self.max_duration else math.inf
        if self.samples_left is not None and self.taken > 0:
            left = min(left, self.samples_left * spent / self.taken)
        return left

    def duration_left(self, now: float) -> float:
        """Time left at ``now`` (s) by ``max_duration`` alone, in s; infinite if unknown."""
        if self.start_time_s is None or not self.max_duration:
            return math.inf
        return max(0.0, self.start_time_s + self.max_duration - now)

    def pace(self, driven: float, now: float, speed: float) -> float:
        """Mean speed so far in m/s, at most ``speed``; after ``driven`` m, at ``now`` (s)."""
        if self.start_time_s is None or now <= self.start_time_s:
            return speed
        return min(speed, (driven - self.driven_at_start) / (now - self.start_time_s))

    def distance_left(
        self, driven: float, now: float | None = None, speed: float = math.inf
    ) -> float:
        """Distance in m that can still be travelled, after ``driven`` m; infinite if unknown.

        By ``max_samples``, at the rate of samples per metre so far; with ``now`` (s) also by
        ``max_duration``, at the mean speed so far, at most ``speed`` (m/s).
        """
        distance = math.inf
        if self.samples_left is not None and self.samples:
            distance = self.samples_left * driven / self.samples
        if (
            now is not None
            and self.max_duration
            and self.start_time_s is not None
            and now > self.start_time_s
        ):
            distance = min(distance, self.duration_left(now) * self.pace(driven, now, speed))
        return distance

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``restore``."""
        start, first, driven = self.start_time_s, self.samples_at_start, self.driven_at_start
        return {"began": start, "samples": self.samples, "first": first, "driven": driven}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore the values of ``to_dict``."""
        self.start_time_s, self.samples = values["began"], values["samples"]
        self.samples_at_start = values["first"]
        self.driven_at_start = values["driven"]

    def begin(self, now: float, driven: float) -> None:
        """A mission begins at ``now`` (s) after ``driven`` m; the samples so far do not count."""
        self.start_time_s, self.samples_at_start = now, self.samples
        self.driven_at_start = driven

    def count(self, samples: int) -> None:
        """Set the number of samples of the mapper; fewer than before if it was reset."""
        self.samples, self.samples_at_start = samples, min(self.samples_at_start, samples)

    def exhausted(self, now: float | None = None) -> str | None:
        """Why the budget is exhausted, by samples and, if given, ``now`` (s); None: it is not."""
        if now and self.start_time_s is not None:  # 0: simulated time has not begun
            # Setting the clock back does not lengthen the mission.
            self.start_time_s = min(self.start_time_s, now)
            if self.max_duration and now - self.start_time_s >= self.max_duration:
                return f"max_duration of {self.max_duration:g} s has passed"
        if self.max_samples and self.taken >= self.max_samples:
            return f"max_samples of {self.max_samples} reached"
        return None
