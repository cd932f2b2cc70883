"""Where a mission goes: the queue of goals, when one counts as reached, whatever moves the vehicle;
where the vehicle was; and when it has to turn back to be home in time, in a current that is learned
from the track. No ROS."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Current, Extent, path_length
from ..planning.planners import no_extra
from ..planning.routes import Routes
from .states import Budget

#: m; about the turning diameter of the published vehicle.
GOAL_RADIUS, CAPTURE_RADIUS = 0.1, 1.34

REACHED, PASSED, TIMEOUT = "reached", "passed", "timeout"
#: A vehicle that has moved less than this between two routes, in m, has stopped.
STOPPED = 0.02
#: Kinds of legs: along a route; straight out of a keep-out or its margin; back from shallow water.
ROUTE, ESCAPE, BACK = "route", "escape", "back"
#: The time limit of a waypoint: times that of its route, and s for each leg of it.
DETOUR, GRACE = 2.0, 30.0
#: Distance in m between the places whose differences are taken as velocities.
STEP = 2.5
#: Shortest sum of two successive steps, as a share of their lengths: the track is straight there.
STRAIGHT = 0.98
#: Standard deviations, as shares of the vehicle's speed: of a velocity, of the current, and of the
#: speed through water from the stated one. The last two decide where the track has one direction.
NOISE, CURRENT, SPEED = 0.05, 0.3, 0.2
#: Least number of straight parts.
ENOUGH = 3


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
        self._newest.extend((time_s, x, y) for time_s, x, y in newest)
        for row, column, time_s, x, y in visited:
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

    def visited(self, until_s: float = math.inf) -> np.ndarray:
        """One place in every square of the workspace visited up to a time in s [K, 2]."""
        places = [place[1:] for place in self._visited.values() if place[0] <= until_s]
        return np.array(places, dtype=float).reshape(-1, 2)


def learned_current(
    track: np.ndarray, speed: float, stated: Sequence[float] = (0.0, 0.0)
) -> Current | None:
    """The current, and the speed through water, from which a track follows best; None: too short.

    Velocities over ground of a vehicle at constant speed through water lie on a circle around the
    current. It is fitted by least squares, then with residuals r / sqrt(1 + r^2), as the vehicle
    may have slowed down or stopped (Geman and McClure 1985).

    Args:
        track: times in s and places in m, oldest first [K, 3].
        speed: the vehicle's stated speed, in m/s.
        stated: the current's stated velocity [2], in m/s.
    """
    from scipy.optimize import least_squares  # only with a way home

    velocities = _velocities(track)
    if len(velocities) < ENOUGH:
        return None
    noise = NOISE * float(np.median(np.linalg.norm(velocities, axis=1)))
    prior = np.array([*stated, speed])
    loose = np.array([CURRENT, CURRENT, SPEED]) * speed

    def residuals(x: np.ndarray, robust: bool) -> np.ndarray:
        away = (np.linalg.norm(velocities - x[:2], axis=1) - x[2]) / noise
        return np.append(away / np.sqrt(1 + away**2) if robust else away, (x - prior) / loose)

    start = least_squares(residuals, prior, args=(False,)).x
    *velocity, through = least_squares(residuals, start, args=(True,)).x.tolist()
    return Current.at_most(velocity, max(through, 1e-3 * speed))


def _velocities(track: np.ndarray) -> np.ndarray:
    """Velocities over ground in m/s where the track is straight [N, 2]."""
    knots: list[list[float]] = []
    for row in track.tolist():
        if not knots or math.dist(row[1:], knots[-1][1:]) >= STEP:
            knots.append(row)
    if len(knots) < ENOUGH:
        return np.empty((0, 2))
    times, places = np.array(knots)[:, 0], np.array(knots)[:, 1:]
    steps = np.diff(places, axis=0)
    lengths, sums = np.linalg.norm(steps, axis=1), steps[1:] + steps[:-1]
    straight = np.linalg.norm(sums, axis=1) >= STRAIGHT * (lengths[1:] + lengths[:-1])
    seconds = times[2:] - times[:-2]
    good = straight & (seconds > 0)
    return sums[good] / seconds[good, None]


class WayHome:
    """The way home, to be driven before the mission's duration is over.

    Args:
        goals: whose routes and arrival the way has.
        track: where the vehicle was.
        budget: of the mission.
        reserve: time to be home before the end, in s; 0: the way is driven after the end.

    Attributes:
        current: as last learned, or as stated before; None: neither, or not needed.
    """

    PERIOD = 1.0  # s between two checks

    def __init__(
        self, goals: GoalQueue, track: VehicleTrack, budget: Budget, reserve: float
    ) -> None:
        self._goals, self._track, self._budget, self._reserve = goals, track, budget, reserve
        self._checked_at = -math.inf
        self.current: Current | None = None

    def due(self, position: np.ndarray | None, home: np.ndarray | None, now: float) -> bool:
        """Whether what is left at ``now`` (s) is needed for the way; checked once a second."""
        if not self._limited or position is None or home is None:
            return False
        if 0 <= now - self._checked_at < self.PERIOD:
            return False
        self._checked_at = now
        seconds = self._seconds(home, self._goals.max_speed)
        return self._budget.duration_left(now) <= seconds(position)

    def extra(
        self, position: np.ndarray, home: np.ndarray, now: float, speed: float
    ) -> Callable[[np.ndarray], float]:
        """As ``Situation.extra``, at ``now`` (s) and a top speed in m/s."""
        driven, budget = self._track.length, self._budget
        left = budget.distance_left(driven, now, speed)
        if not self._limited or left == budget.distance_left(driven):
            return no_extra  # samples end the mission before its duration does
        pace, way_home = budget.pace(driven, now, speed), self._seconds(home, speed)
        current = self.current
        if current is None:
            return lambda path: pace * way_home(path[-1])
        # How many times as long the rest takes, as pauses so far, and slower parts, go on.
        mean = current.mean_speed(self._track.newest[:, 1:])
        pauses = max(1.0, mean / pace) if pace > 0 else 1.0

        def extra(path: np.ndarray) -> float:
            path = np.vstack((position, path))
            seconds = pauses * current.seconds(path) + way_home(path[-1])
            return pace * seconds - path_length(path)

        return extra

    @property
    def _limited(self) -> bool:
        return self._reserve > 0 and self._budget.max_duration > 0

    def _seconds(self, home: np.ndarray, speed: float) -> Callable[[np.ndarray], float]:
        """Time in s for the way from a place [2], with a turn at its beginning, and the reserve; in
        the current as learned, or as stated, at ``speed`` (m/s)."""
        stated = Current.at_most(self._goals.stated_current, speed)
        learned = learned_current(self._track.newest, speed, (stated.x, stated.y))
        self.current = learned or (None if stated.still else stated)
        current = self.current or stated
        extra = math.pi * self._goals.turning_radius / current.speed + self._reserve

        def seconds(place: np.ndarray) -> float:
            route = self._goals.routes.route(place, home)
            return current.seconds(np.vstack((place, home if route is None else route))) + extra

        return seconds
