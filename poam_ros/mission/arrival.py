"""When a waypoint counts as reached, whatever moves the vehicle. Numpy only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..core.current import Current
from ..core.errors import InputError
from ..core.geometry import is_place

#: m; about the turning diameter of the published vehicle.
GOAL_RADIUS, CAPTURE_RADIUS = 0.1, 1.34

Arrival = Literal["reached", "passed", "timeout"]
TIMEOUT: Arrival = "timeout"


class ArrivalDetector:
    """Detects arrival at one goal from positions over time, for any kind of vehicle.

    ``reached``: the path came within ``goal_radius`` of the goal, at or between two positions.
    ``passed``: the closest approach lies within ``capture_radius``, and the vehicle moves away (it
    may never come nearer with bounded turning) or has come to rest there.
    ``timeout``: twice the time of the straight line, plus half a minute for turning and delays. A
    current against the vehicle lengthens it.

    A decrease of the distance that starts inside the capture radius is not an approach: a vehicle
    must first move away from a goal inside its turning circle before it can reach it.

    Args:
        goal: [2], in m.
        goal_radius: in m; also how far the distance must fall and rise again in an approach.
        capture_radius: in m; about the vehicle's turning diameter.
        max_speed: of the vehicle, in m/s; determines the time limit.
        current: velocity of the water [2], in m/s.

    Raises:
        InputError: the goal is not finite, or a radius or the speed is not positive.
    """

    DETOUR = 2.0  # times the straight line
    GRACE = 30.0  # seconds
    REST = 3.0  # seconds without motion within the capture radius

    def __init__(
        self,
        goal: np.ndarray,
        goal_radius: float = GOAL_RADIUS,
        capture_radius: float = CAPTURE_RADIUS,
        max_speed: float = 1.0,
        current: Sequence[float] = (0.0, 0.0),
    ) -> None:
        self.goal = np.array(goal, dtype=float)
        if not is_place(self.goal):
            raise InputError(f"goal: expected two finite numbers, got {goal}")
        if not (goal_radius > 0 and capture_radius > 0 and max_speed > 0):
            raise InputError(
                "arrival: expected positive goal_radius, capture_radius and max_speed, got "
                f"{goal_radius}, {capture_radius} and {max_speed}"
            )
        self.goal_radius = goal_radius
        self.capture_radius = capture_radius
        self._max_speed, self._current = max_speed, Current.at_most(current, max_speed)
        self.deadline = math.inf  # on the clock of update(), from the first position on
        self._last_time: float | None = None
        self._position = self.goal

    def update(self, position: np.ndarray, time_s: float) -> Arrival | None:
        """Process the position [2] at a time in s; 'reached', 'passed', 'timeout' or None.

        The first call starts the clock. Non-finite positions are skipped, but their time counts. A
        clock that jumps back restarts detection.
        """
        position = np.asarray(position, dtype=float)
        finite = is_place(position)
        if self._last_time is None or time_s < self._last_time:
            if not finite:
                return None
            self._start(position, time_s)
        self._last_time = time_s
        if finite:
            closest = _distance_to_segment(self.goal, self._position, position)
            distance = float(np.linalg.norm(position - self.goal))
            self._position = position
            if closest <= self.goal_radius:
                return "reached"
            if self._turned_away(closest, distance) or self._rests(position, distance, time_s):
                return "passed"
        return TIMEOUT if time_s > self.deadline else None

    def limit(self, position: np.ndarray) -> float:
        """The time limit from a position [2], in s."""
        distance, way = float(np.linalg.norm(position - self.goal)), self.goal - position
        angle = math.atan2(way[1], way[0])
        speed = min(self._max_speed, self._current.speed_over_ground(angle))
        return self.DETOUR * distance / speed + self.GRACE

    def _start(self, position: np.ndarray, time_s: float) -> None:
        distance = float(np.linalg.norm(position - self.goal))
        self.deadline = time_s + self.limit(position)
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

    def _rests(self, position: np.ndarray, distance: float, time_s: float) -> bool:
        """Whether the vehicle has come to rest within the capture radius."""
        if np.linalg.norm(position - self._anchor) > self.goal_radius:
            self._anchor, self._anchor_time = position, time_s
        return distance <= self.capture_radius and time_s - self._anchor_time >= self.REST


def _distance_to_segment(point: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    """Distance of the point [2] from the segment between start and end [2]."""
    along = end - start
    length = float(along @ along)
    fraction = 0.0 if length == 0 else float(np.clip((point - start) @ along / length, 0, 1))
    return float(np.linalg.norm(start + fraction * along - point))
