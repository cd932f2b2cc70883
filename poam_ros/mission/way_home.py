"""When the vehicle has to turn back to be home in time, and how long the rest of a mission takes,
in a current that is learned from its track. Numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..core.current import STRONGEST, Current
from ..core.geometry import path_length
from ..planning.situation import no_extra
from .itinerary import Budget, GoalQueue, VehicleTrack

#: Distance in m between the places whose differences are taken as velocities.
STEP = 2.5
#: Shortest sum of two successive steps, as a share of their lengths: the track is straight there.
STRAIGHT = 0.98
#: Standard deviations, as shares of the vehicle's speed: of a velocity, of the current, and of the
#: speed through water from the stated one. The last two decide where the track has one direction.
NOISE, CURRENT, SPEED = 0.05, 0.3, 0.2
#: Rounds of the fit.
ROUNDS = 20
#: Least number of straight parts.
ENOUGH = 3


def learned_current(
    track: np.ndarray, speed: float, stated: Sequence[float] = (0.0, 0.0)
) -> Current | None:
    """The current, and the speed through water, from which a track follows best; None: too short.

    Velocities over ground of a vehicle at constant speed through water lie on a circle around the
    current. It is fitted by least squares, with weights 1 / (1 + residual^2)^2 after the first
    rounds, as the vehicle may have slowed down or stopped.

    Args:
        track: times in s and places in m, oldest first [K, 3].
        speed: the vehicle's stated speed, in m/s.
        stated: the current's stated velocity [2], in m/s.
    """
    velocities = _velocities(track)
    if len(velocities) < ENOUGH:
        return None
    noise = NOISE * float(np.median(np.linalg.norm(velocities, axis=1)))
    x, prior = np.array([*stated, speed]), np.array([*stated, speed])
    loose = np.array([CURRENT, CURRENT, SPEED]) * speed
    for turn in range(ROUNDS):
        away = velocities - x[:2]
        radius = np.maximum(np.linalg.norm(away, axis=1), 1e-9)
        residual = (radius - x[2]) / noise
        weights = np.ones(len(away)) if turn < ROUNDS // 4 else (1 + residual**2) ** -2
        rows = np.column_stack((-away / radius[:, None], -np.ones(len(away)))) / noise
        normal = rows.T @ (rows * weights[:, None]) + np.diag(loose**-2)
        x = x - np.linalg.solve(normal, rows.T @ (weights * residual) + (x - prior) / loose**2)
        x[2] = max(x[2], 1e-3 * speed)
        x[:2] *= min(1.0, STRONGEST * x[2] / max(math.hypot(*x[:2]), 1e-12))
    return Current(*x.tolist())


def _velocities(track: np.ndarray) -> np.ndarray:
    """Velocities over ground in m/s where the track is straight [N, 2]."""
    knots: list[list[float]] = []
    for time, *place in track.tolist():
        if not knots or math.dist(place, knots[-1][1:]) >= STEP:
            knots.append([time, *place])
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
        reserve: time to be home before the end, in s; 0: the way is driven after the end.

    Attributes:
        current: as last learned, or as stated before; None: neither, or not needed.
    """

    PERIOD = 1.0  # s between two checks

    def __init__(self, goals: GoalQueue, track: VehicleTrack, reserve: float) -> None:
        self._goals, self._track, self._reserve = goals, track, reserve
        self._checked_at = -math.inf
        self.current: Current | None = None

    def due(
        self, position: np.ndarray | None, home: np.ndarray | None, budget: Budget, now: float
    ) -> bool:
        """Whether what is left at ``now`` (s) is needed for the way; checked once a second."""
        if not self._limited(budget) or position is None or home is None:
            return False
        if 0 <= now - self._checked_at < self.PERIOD:
            return False
        self._checked_at = now
        seconds = self._seconds(home, self._goals.max_speed)
        return budget.duration_left(now) <= seconds(position)

    def extra(
        self, position: np.ndarray, home: np.ndarray, budget: Budget, now: float, speed: float
    ) -> Callable[[np.ndarray], float]:
        """As ``Situation.extra``, at ``now`` (s) and a top speed in m/s."""
        driven = self._track.length
        if not self._limited(budget):
            return no_extra
        if budget.distance_left(driven, now, speed) == budget.distance_left(driven):
            return no_extra  # samples end the mission before its duration does
        pace, way_home = budget.pace(driven, now, speed), self._seconds(home, speed)
        current = self.current
        if current is None:
            return lambda path: pace * way_home(path[-1])
        pauses = self._pauses(current, pace)

        def extra(path: np.ndarray) -> float:
            path = np.vstack((position, path))
            seconds = pauses * current.seconds(path) + way_home(path[-1])
            return pace * seconds - path_length(path)

        return extra

    def _pauses(self, current: Current, pace: float) -> float:
        """How many times as long the rest takes, as pauses since the mission began, and slower
        parts of it, will go on as they were. ``pace``: mean speed so far, in m/s."""
        speed = current.mean_speed(self._track.newest[:, 1:])
        return max(1.0, speed / pace) if pace > 0 else 1.0

    def _limited(self, budget: Budget) -> bool:
        return self._reserve > 0 and budget.max_duration > 0

    def _learn(self, speed: float) -> Current:
        """The current and the speed through water: as learned, or as stated, at ``speed`` (m/s)."""
        stated = Current.at_most(self._goals.arrival.get("current", (0.0, 0.0)), speed)
        learned = learned_current(self._track.newest, speed, (stated.x, stated.y))
        self.current = learned or (None if stated.still else stated)
        return self.current or stated

    def _seconds(self, home: np.ndarray, speed: float) -> Callable[[np.ndarray], float]:
        """Time in s for the way from a place [2], with a turn at its beginning, and the reserve."""
        current = self._learn(speed)
        extra = math.pi * self._goals.turning_radius / current.speed + self._reserve

        def seconds(place: np.ndarray) -> float:
            route = self._goals.routes.route(place, home)
            return current.seconds(np.vstack((place, home if route is None else route))) + extra

        return seconds
