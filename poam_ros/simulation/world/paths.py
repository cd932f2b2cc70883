"""Paths of a Dubins vehicle: arcs and straight lines in closed form.

With a free final heading the shortest path is a turn and a straight line, or two opposite turns if
the goal lies inside the turning circle (X.-N. Bui, J.-D. Boissonnat, P. Soueres and J.-P. Laumond,
"Shortest path synthesis for Dubins non-holonomic robot", ICRA 1994). Metres, seconds, radians, ENU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...core.geometry import Extent

# Paths keep this far inside the border, so that rounding never puts a pose outside.
BORDER_MARGIN = 1e-9


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
    """Legs driven one after the other from ``start``; without legs the vehicle stays there."""

    start: Pose
    legs: tuple[Leg, ...] = ()

    @property
    def duration(self) -> float:
        """Seconds from start to end."""
        return sum(leg.duration for leg in self.legs)

    @property
    def length(self) -> float:
        """Metres from start to end."""
        return sum(leg.speed * leg.duration for leg in self.legs)

    def pose(self, time: float) -> Pose:
        """The pose ``time`` seconds after the start; the last one after the end."""
        pose = self.start
        for leg in self.legs:
            spent = min(time, leg.duration)
            pose = leg.drive(pose, spent)
            time -= spent
            if time <= 0:
                break
        return pose

    def remaining(self, time: float) -> Path:
        """The rest of the path after ``time`` seconds, from the pose at that time."""
        legs, spent = [], time
        for leg in self.legs:
            left = min(leg.duration, leg.duration - spent)
            spent = max(0.0, spent - leg.duration)
            if left > 0:
                legs.append(Leg(leg.speed, leg.turn_rate, left))
        return Path(self.pose(time), tuple(legs))

    def rates(self, time: float) -> tuple[float, float]:
        """Speed and turn rate just before ``time``; (0, 0) after the end."""
        for leg in self.legs:
            if time <= leg.duration:
                return leg.speed, leg.turn_rate
            time -= leg.duration
        return 0.0, 0.0

    def stays_inside(self, environment: Extent) -> bool:
        """Whether every point of the path is inside, at least BORDER_MARGIN from the border."""
        pose, points = self.start, [(self.start.x, self.start.y)]
        for leg in self.legs:
            points.extend(leg.extremes(pose))
            pose = leg.drive(pose, leg.duration)
        return bool(np.all(environment.contains(np.array(points), slack=-BORDER_MARGIN)))


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
    if turn < 0:
        turn += 2 * math.pi
    # Rounding must not turn zero into a full circle.
    return 0.0 if turn > 2 * math.pi - 1e-9 else turn
