"""The budget of a mission: limits, the vehicle's track, and when it has to turn back to be home in
time, in a current that is learned from the track. Numpy only."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import quantity
from ..core.geometry import Current, Extent, path_length
from ..planning.planners import no_extra
from .itinerary import GoalQueue

#: Distance in m between the places whose differences are taken as velocities.
STEP = 2.5
#: Shortest sum of two successive steps, as a share of their lengths: the track is straight there.
STRAIGHT = 0.98
#: Standard deviations, as shares of the vehicle's speed: of a velocity, of the current, and of the
#: speed through water from the stated one. The last two decide where the track has one direction.
NOISE, CURRENT, SPEED = 0.05, 0.3, 0.2
#: Least number of straight parts.
ENOUGH = 3


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
        """Time left at ``now`` (s), in s, by ``max_duration``, and by ``max_samples`` at the rate
        so far; infinite if unknown."""
        left = self.duration_left(now)
        if self.start_time_s is not None and self.samples_left is not None and self.taken > 0:
            left = min(left, self.samples_left * (now - self.start_time_s) / self.taken)
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
        distance, start = math.inf, self.start_time_s
        if self.samples_left is not None and self.samples:
            distance = self.samples_left * driven / self.samples
        if self.max_duration and now is not None and start is not None and now > start:
            distance = min(distance, self.duration_left(now) * self.pace(driven, now, speed))
        return distance

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``restore``."""
        start, first, driven = self.start_time_s, self.samples_at_start, self.driven_at_start
        return {"began": start, "samples": self.samples, "first": first, "driven": driven}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Restore the values of ``to_dict``."""
        self.start_time_s, self.samples = values["began"], values["samples"]
        self.samples_at_start, self.driven_at_start = values["first"], values["driven"]

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
