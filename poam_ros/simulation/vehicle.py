"""A Dubins car: forward only, bounded speed and turn rate, never outside its environment.

A path is planned once per goal and then followed exactly, so the vehicle never alternates between
paths. Metres, seconds, radians, ENU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..core.geometry import Current, Extent

# Paths keep this far inside the border, so that rounding never puts a pose outside.
BORDER_MARGIN = 1e-9
# A goal within this distance is reached, in m (the goal radius of the published experiment).
ARRIVAL_RADIUS = 0.1
# Turns are driven at the first of these shares of the maximum speed with a path that stays inside:
# at a given turn rate the radius is proportional to the speed.
TURN_SPEEDS = (1.0, 0.75, 0.5, 0.25, 0.1)
# Two turns end at most four radii from their start; the fifth is for rounding.
CLEARANCE_RADII = 5.0
# Time steps in which the speed over ground on an arc is integrated, in s.
MAX_STEP = 0.1


@dataclass(frozen=True)
class Pose:
    """Place in metres and heading in radians, (-pi, pi], from east to north."""

    x: float
    y: float
    yaw: float


@dataclass(frozen=True)
class Leg:
    """Motion at constant speed (m/s) and turn rate (rad/s, left positive) for ``duration`` s."""

    speed: float
    turn_rate: float
    duration: float

    def drive(self, pose: Pose, time: float) -> Pose:
        """The pose ``time`` seconds after ``pose``; closed form, so exact for any time."""
        if self.turn_rate == 0:
            travelled = self.speed * time
            x = pose.x + travelled * math.cos(pose.yaw)
            return Pose(x, pose.y + travelled * math.sin(pose.yaw), pose.yaw)
        radius = self.speed / self.turn_rate
        yaw = pose.yaw + self.turn_rate * time
        return Pose(
            pose.x + radius * (math.sin(yaw) - math.sin(pose.yaw)),
            pose.y - radius * (math.cos(yaw) - math.cos(pose.yaw)),
            wrap(yaw),
        )

    def extremes(self, pose: Pose) -> Iterator[tuple[float, float]]:
        """The end of the leg from ``pose``, and where its arc is furthest along an axis."""
        end = self.drive(pose, self.duration)
        yield end.x, end.y
        if self.turn_rate == 0:
            return
        swept = abs(self.turn_rate) * self.duration
        for quarter in range(4):
            # An arc is furthest along an axis where it heads along the other one.
            turn = _turn(quarter * math.pi / 2 - pose.yaw, self.turn_rate)
            if turn <= swept:
                at = self.drive(pose, turn / abs(self.turn_rate))
                yield at.x, at.y


@dataclass(frozen=True)
class Path:
    """Legs over ground, driven one after the other from ``start``; without legs the vehicle stays
    there. Times are those of still water.

    In a current the vehicle heads into it by the crab angle, so that it stays on the path. A circle
    of radius r over ground takes a turn rate of up to (w + c)^2 / (w r), with w the speed through
    water and c the current: more than the leg's, which holds in still water. So that w exceeds c
    also in slow turns, it is the hypotenuse of the leg's speed and c, up to the maximum.
    """

    start: Pose
    legs: tuple[Leg, ...] = ()

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return sum(leg.duration for leg in self.legs)

    def length(self, time: float = 0.0) -> float:
        """Metres that are left ``time`` seconds after the start."""
        metres = 0.0
        for leg in self.legs:
            metres += leg.speed * max(0.0, min(leg.duration, leg.duration - time))
            time = max(0.0, time - leg.duration)
        return metres

    def pose(self, time: float) -> Pose:
        """The pose ``time`` seconds after the start, heading along the path; the last one after
        the end."""
        pose = self.start
        for leg in self.legs:
            spent = min(time, leg.duration)
            pose = leg.drive(pose, spent)
            time -= spent
            if time <= 0:
                break
        return pose

    def at(self, time: float) -> Leg | None:
        """The leg just before ``time``; None after the end."""
        for leg in self.legs:
            if time <= leg.duration:
                return leg
            time -= leg.duration
        return None

    def heading_pose(self, time: float, current: Current) -> Pose:
        """The pose at a time, with the vehicle's heading in a current."""
        pose = self.pose(time)
        if current.still or not self.legs:
            return pose
        water = _through_water(self.at(time) or self.legs[-1], current)
        return Pose(pose.x, pose.y, wrap(water.heading(pose.yaw)))

    def after(self, begin: float, seconds: float, current: Current) -> float:
        """The path's time after driving in a current for ``seconds`` from the time ``begin``."""
        if current.still:
            return begin + seconds
        for _ in range(steps := max(1, math.ceil(seconds / MAX_STEP))):
            begin = self._step(begin, seconds / steps, current)
        return begin

    def _step(self, begin: float, seconds: float, current: Current) -> float:
        end = 0.0
        for leg in self.legs:
            end += leg.duration
            if begin >= end:
                continue
            water = _through_water(leg, current)
            rate = water.speed_over_ground(self.pose(begin).yaw) / leg.speed
            if leg.turn_rate:  # the midpoint rule
                middle = min(begin + rate * seconds / 2, end)
                rate = water.speed_over_ground(self.pose(middle).yaw) / leg.speed
            if begin + rate * seconds <= end:
                return begin + rate * seconds
            seconds -= (end - begin) / rate
            begin = end
        return begin

    def stays_inside(self, environment: Extent) -> bool:
        """Whether every point of the path is inside, at least BORDER_MARGIN from the border."""
        pose, points = self.start, [(self.start.x, self.start.y)]
        for leg in self.legs:
            points.extend(leg.extremes(pose))
            pose = leg.drive(pose, leg.duration)
        return bool(np.all(environment.contains(np.array(points), slack=-BORDER_MARGIN)))


def _through_water(leg: Leg, current: Current) -> Current:
    """A current, and the speed through water at which a leg is driven in it."""
    speed = min(current.speed, math.hypot(leg.speed, current.x, current.y))
    return Current(current.x, current.y, speed)


def wrap(angle: float) -> float:
    """The same direction in (-pi, pi]."""
    wrapped = math.remainder(angle, 2 * math.pi)
    return math.pi if wrapped <= -math.pi else wrapped


def dubins_paths(
    start: Pose, goal: tuple[float, float], turn_speed: float, turn_rate: float, speed: float
) -> list[Path]:
    """Candidates LS, RS, LR, RL (two each of the latter) for the shortest path to a goal.

    The final heading is free. Turns are driven at ``turn_speed`` and ``turn_rate``, so with a
    radius of turn_speed / turn_rate; straights at ``speed``. At least one candidate always exists.
    """
    radius = turn_speed / turn_rate
    paths = []
    for side in (1.0, -1.0):  # left, right
        cx = start.x - side * radius * math.sin(start.yaw)
        cy = start.y + side * radius * math.cos(start.yaw)
        distance = math.hypot(goal[0] - cx, goal[1] - cy)
        bearing = math.atan2(goal[1] - cy, goal[0] - cx)
        if distance >= radius:
            straight = math.sqrt(distance**2 - radius**2)
            heading = bearing + side * math.atan2(radius, straight)
            turn = Leg(turn_speed, side * turn_rate, _turn(heading - start.yaw, side) / turn_rate)
            paths.append(Path(start, (turn, Leg(speed, 0.0, straight / speed))))
        if radius <= distance <= 3 * radius:
            # The second centre is 2 r from the first and r from the goal: the law of cosines.
            cosine = (distance**2 + 3 * radius**2) / (4 * radius * distance)
            opening = math.acos(min(1.0, cosine))
            for direction in (bearing + opening, bearing - opening):
                away = _turn(direction + side * math.pi / 2 - start.yaw, side)
                ox = cx + 2 * radius * math.cos(direction)
                oy = cy + 2 * radius * math.sin(direction)
                last = math.atan2(goal[1] - oy, goal[0] - ox)
                back = _turn(last - direction - math.pi, -side)
                first = Leg(turn_speed, side * turn_rate, away / turn_rate)
                second = Leg(turn_speed, -side * turn_rate, back / turn_rate)
                paths.append(Path(start, (first, second)))
    return paths


def _turn(angle: float, side: float) -> float:
    """How far to turn to the side of the sign of ``side`` to change the heading by ``angle``."""
    turn = math.fmod(math.copysign(1.0, side) * angle, 2 * math.pi)
    turn += 2 * math.pi if turn < 0 else 0.0
    # Rounding must not turn zero into a full circle.
    return 0.0 if turn > 2 * math.pi - 1e-9 else turn


class DubinsVehicle:
    """A vehicle that drives from goal to goal and holds station in between.

    Guarantees:
        - It never leaves the environment. It always has a path that stays inside and ends in
          ``interior``. From there some path to every other goal stays inside, if only at slow
          speed. If a new goal has no such path yet, the vehicle follows the old path until it has.
        - A goal outside ``interior`` is replaced by the nearest point inside.
        - ``at_goal`` becomes True at the end of the period in which the vehicle came within
          ARRIVAL_RADIUS. It drives the last decimetre and then holds station at the goal. With the
          next goal set as soon as ``at_goal`` is True, it keeps moving at full speed.

    In a current it follows the same paths over ground, faster or slower, at a crab angle. Its
    heading then turns at up to (1 + current / max_speed)^2 times ``max_turn_rate``, and faster in
    the slow turns near the border.

    Args:
        current: velocity of the water (x, y), in m/s.

    Attributes:
        speed: over ground, in m/s. ``turn_rate``: of the heading, in rad/s.
        direction: of the motion over ground, in rad.

    Raises:
        InputError: a limit is not positive, the start is not in ``interior``, or the current is not
            slower than the vehicle.
    """

    def __init__(
        self,
        start: Pose,
        environment: Extent,
        *,
        max_speed: float = 1.0,
        max_turn_rate: float = 1.5,
        current: Sequence[float] = (0.0, 0.0),
    ) -> None:
        for name, value in (("max_speed", max_speed), ("max_turn_rate", max_turn_rate)):
            if not 0 < value < math.inf:
                raise InputError(f"{name}: expected a positive number, got {value}")
        self.environment = environment
        self.max_speed, self.max_turn_rate = float(max_speed), float(max_turn_rate)
        self._current = Current(float(current[0]), float(current[1]), self.max_speed)
        self.interior = _interior(environment, TURN_SPEEDS[-1] * max_speed / max_turn_rate)
        numbers = (start.x, start.y, start.yaw)
        if not np.all(np.isfinite(numbers)) or not self.interior.contains(np.array(numbers[:2])):
            raise InputError(
                f"start: expected a pose inside {self.interior.bounds} (the environment less the "
                f"margin for the smallest turn), got {numbers}"
            )
        self.goal: tuple[float, float] | None = None
        self.at_goal, self.speed, self.turn_rate = False, 0.0, 0.0
        self._path = Path(Pose(float(start.x), float(start.y), wrap(start.yaw)))
        self._time, self._moving = 0.0, False  # since the path's start
        self._planned = False  # the path leads to the present goal, not to an earlier one

    @property
    def pose(self) -> Pose:
        return self._path.heading_pose(self._time, self._current)

    @property
    def direction(self) -> float:
        return self._path.pose(self._time).yaw

    def set_goal(self, goal: Sequence[float] | np.ndarray | None) -> None:
        """Drive to goal (x, y) from now on, or hold station here (None).

        Repeating the present goal has no effect, even after it was reached.

        Raises:
            InputError: if the goal is not two finite numbers; the present goal then stays.
        """
        if goal is None:
            self.goal, self.at_goal, self._moving = None, False, False
            return
        xy = np.asarray(goal, dtype=float)
        if xy.shape != (2,) or not np.all(np.isfinite(xy)):
            raise InputError(f"goal: expected two finite numbers x, y, got {goal}")
        x, y = (float(value) for value in self.interior.clip(xy))
        if self.goal is not None and math.dist(self.goal, (x, y)) < 1e-6:
            return
        self.goal, self.at_goal, self._moving, self._planned = (x, y), False, True, False
        self._check_arrival((x, y))
        if not self.at_goal:
            self._plan((x, y))

    def advance(self, duration: float) -> Callable[[float], Pose]:
        """Drive (or hold station) for one control period of ``duration`` seconds; returns the pose
        at any time in it, in seconds from its beginning."""
        self.speed, self.turn_rate, before = 0.0, 0.0, self.pose
        if self.goal is None or not self._moving:
            return lambda seconds: before
        if not self._planned:
            self._plan(self.goal)
        path, begin, current, before = self._path, self._time, self._current, self.pose
        end = path.after(begin, duration, current)
        if leg := path.at(end):
            self.speed, self.turn_rate = leg.speed, leg.turn_rate
        self._time = min(end, path.duration)
        if not current.still:
            pose = self.pose
            self.speed = math.dist((pose.x, pose.y), (before.x, before.y)) / duration
            self.turn_rate = wrap(pose.yaw - before.yaw) / duration
        self._check_arrival(self.goal)
        return lambda seconds: path.heading_pose(path.after(begin, seconds, current), current)

    def _plan(self, goal: tuple[float, float]) -> None:
        """Take the shortest path that stays inside; keep the present one if there is none yet."""
        pose = self._path.pose(self._time)
        for share in TURN_SPEEDS:
            turn_speed = share * self.max_speed
            paths = dubins_paths(pose, goal, turn_speed, self.max_turn_rate, self.max_speed)
            inside = [path for path in paths if path.stays_inside(self.environment)]
            if inside:
                # Of equally long paths (a goal right behind) the first, despite rounding.
                self._path = min(inside, key=lambda path: round(path.length(), 6))
                self._time, self._planned = 0.0, True
                return

    def _check_arrival(self, goal: tuple[float, float]) -> None:
        """Update ``at_goal``, and stop unless only the last bit of the path is left."""
        pose, left = self.pose, self._path.length(self._time)
        near = math.dist((pose.x, pose.y), goal) <= ARRIVAL_RADIUS
        self.at_goal = self.at_goal or near or (self._planned and not left)
        if self.at_goal:
            # Passing the goal on a longer path to it counts as arrival: the rest is not driven.
            self._moving = self._planned and 0 < left <= 2 * ARRIVAL_RADIUS


def _interior(environment: Extent, smallest_radius: float) -> Extent:
    """The places from which every turn at the lowest turning speed stays inside the environment."""
    margin = CLEARANCE_RADII * smallest_radius
    if not np.all(environment.size > 2 * margin):
        raise InputError(
            f"environment: expected sides longer than {2 * margin:.3g} m, which this vehicle "
            f"needs to turn, got {environment.bounds}"
        )
    return environment.grown(-margin)
