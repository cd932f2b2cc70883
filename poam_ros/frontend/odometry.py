"""Odometry: from messages, in the order of its stamps, interpolated. Needs no ROS."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.clock import SECOND

#: Largest deviation of an attitude's norm from 1. Rounding causes some 1e-7; a quaternion that is
#: farther off is not a rotation at all.
NORM_TOLERANCE = 0.1
#: A position that the vehicle cannot have reached: refused, or accepted because it lasts.
JUMP, MOVED = "jump", "moved"
#: Standard deviations of a correction: 99 % of true ones in the plane are within.
SIGMAS = 3.0
SPEED_FACTOR = 3.0  # a vehicle may be so much faster than usual for a moment
LONGEST_FRAME = 255  # characters
DIAGONAL = [0, 7, 14]  # variances of x, y, z in a covariance [36]


@dataclass(frozen=True)
class VehicleState:
    """Position, attitude and speed of the vehicle at a time.

    Attributes:
        stamp_ns: time of measurement, ns.
        position: x, y, z in metres.
        quaternion: attitude (x, y, z, w), body to map, of about unit norm.
        speed: forward speed, m/s.
        frame_id: frame of position and attitude.
        child_frame_id: frame of the vehicle.
        variance: of x, y, z, in m^2, as reported; a value not above 0 is unknown.
    """

    stamp_ns: int
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    speed: float = 0.0
    frame_id: str = "map"
    variance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    child_frame_id: str = "base_link"

    @property
    def known_variance(self) -> tuple[float, float, float]:
        """The variance of x, y, z; NaN where it is unknown: 0 (as of MAVROS), or no variance."""
        x, y, z = (v if 0 < v < math.inf else math.nan for v in self.variance)
        return x, y, z

    @property
    def invalid_variance(self) -> bool:
        """Whether a variance is invalid: negative, infinite or NaN."""
        return not all(0 <= v < math.inf for v in self.variance)

    @property
    def yaw(self) -> float:
        """Heading, counter-clockwise from x (east)."""
        x, y, z, w = self.quaternion
        return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def stamp_to_ns(stamp: Any) -> int:
    """The stamp of a message, of rclpy or of a bag's reader, in nanoseconds."""
    nanoseconds: int = stamp.sec * SECOND + stamp.nanosec
    return nanoseconds


def bare_frame(frame_id: str) -> str:
    """A frame id without the leading slash of old days, so that it compares; and cut, since
    thousands of messages are kept, and nobody bounds what a header holds."""
    return frame_id.lstrip("/")[:LONGEST_FRAME]


def read_odometry(message: Any) -> VehicleState:
    """A nav_msgs/Odometry; whether its attitude is one is for the buffer to judge."""
    state, frame_id = read_pose(message), bare_frame(message.child_frame_id)
    vx, vy, vz = message.pose.covariance[DIAGONAL].tolist()
    speed = message.twist.twist.linear.x
    return replace(state, speed=speed, variance=(vx, vy, vz), child_frame_id=frame_id)


def read_pose(message: Any) -> VehicleState:
    """A geometry_msgs/PoseStamped or PoseWithCovarianceStamped: a state without speed."""
    pose = getattr(message.pose, "pose", message.pose)
    p, q = pose.position, pose.orientation
    frame_id = bare_frame(message.header.frame_id)
    place, attitude = (p.x, p.y, p.z), (q.x, q.y, q.z, q.w)
    return VehicleState(stamp_to_ns(message.header.stamp), place, attitude, frame_id=frame_id)


class OdometryRefused(NamedTuple):
    """Odometry that could not be brought into the map's frame, and why."""

    reason: str


def rotate(quaternion: tuple[float, float, float, float], vector: np.ndarray) -> np.ndarray:
    """vector [3] rotated by a unit quaternion (x, y, z, w)."""
    (x, y, z, w), (a, b, c) = quaternion, vector
    # v + w t + u x t with t = 2 u x v; plain floats: this runs for every ping
    p, q, r = 2 * (y * c - z * b), 2 * (z * a - x * c), 2 * (x * b - y * a)
    turned = (a + w * p + y * r - z * q, b + w * q + z * p - x * r, c + w * r + x * q - y * p)
    return np.array(turned)


def multiply(
    a: tuple[float, float, float, float], b: tuple[float, float, float, float]
) -> tuple[float, float, float, float]:
    """The rotation b followed by a, as a quaternion (x, y, z, w)."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def largest_std(xx: float, xy: float, yy: float) -> float:
    """The largest standard deviation of a position in the plane, in m, from its covariance in m^2.

    0 where unknown (drivers send zeros or a negative variance); NaN where invalid.
    """
    if xx < 0 or yy < 0:
        return 0.0
    largest = (xx + yy) / 2 + math.hypot((xx - yy) / 2, xy)
    return math.sqrt(largest) if largest >= 0 else math.nan


def reachable(distance: Any, seconds: Any, speed: float, slack: float) -> Any:
    """Whether a vehicle of this speed (m/s) can have gone so far (m): ``slack`` m more than what
    ``SPEED_FACTOR`` times its speed covers. Of numbers or of arrays."""
    return distance - slack <= SPEED_FACTOR * speed * seconds


class JumpDetector:
    """Distinguishes position jumps from motion.

    A position is possible if it is ``reachable`` with ``max_jump`` m. The vehicle's speed is the
    largest of the given one, the odometry's own, and the median over the newest steps. Other
    positions are jumps and are refused. After ``MIN_JUMPS`` of them in a row over at least
    ``MIN_JUMP_S``, the vehicle or the odometry's origin really has moved, and the position is
    accepted.
    """

    MIN_JUMPS, MIN_JUMP_S = 3, 1.0
    MAX_SPEEDS, MIN_SPEEDS = 21, 11  # speeds that the median is taken of

    def __init__(self) -> None:
        self.distance = 0.0  # length of the last jump, m
        self._last: VehicleState | None = None  # newest accepted
        self._before: VehicleState | None = None
        self._jumps = 0  # since then, in a row
        self._speeds: deque[float] = deque(maxlen=self.MAX_SPEEDS)

    def check(self, state: VehicleState, max_speed: float, max_jump: float) -> str | None:
        """``JUMP``, ``MOVED``, or None if it can be reached; ``max_jump`` 0: no check."""
        before, self._before = self._before, state
        if before is None or self._last is None or state.stamp_ns <= before.stamp_ns:
            self._last, self._jumps = state, 0
            return None
        length = math.dist(before.position, state.position)
        self._speeds.append(min(length * SECOND / (state.stamp_ns - before.stamp_ns), 1e6))
        distance = math.dist(self._last.position, state.position)
        since_s = (state.stamp_ns - self._last.stamp_ns) / SECOND
        explained = SIGMAS * math.hypot(_std(self._last), _std(state))
        if not max_jump or distance <= max(max_jump, explained) or self._reaches(
            distance, since_s, max(max_speed, state.speed, self._last.speed), max_jump
        ):  # fmt: skip
            self._last, self._jumps = state, 0
            return None
        self._jumps, self.distance = self._jumps + 1, distance
        if self._jumps < self.MIN_JUMPS or since_s < self.MIN_JUMP_S:
            return JUMP
        self._last, self._jumps = state, 0
        return MOVED

    def _reaches(self, distance: float, seconds: float, speed: float, slack: float) -> bool:
        if len(self._speeds) >= self.MIN_SPEEDS:
            speed = max(speed, sorted(self._speeds)[len(self._speeds) // 2])
        elif not speed > 0:
            return True
        return bool(reachable(distance, seconds, speed, slack))


class CourseCheck:
    """Notices odometry whose course is mirrored against its heading: axes north, east, or a
    heading clockwise from north.

    Over the newest steps, course minus heading is constant for a vehicle that drives where it
    looks, backwards or in a current. Where the sum is constant instead, they are mirrored.
    """

    STEP_M, ENOUGH = 1.0, 30
    CONSTANT, VARIES = 0.9, 0.5  # length of the mean of unit vectors

    def __init__(self) -> None:
        self._place: tuple[float, float] | None = None
        self._steps: deque[tuple[float, float]] = deque(maxlen=2 * self.ENOUGH)
        self._verdict = False

    def mirrored(self, state: VehicleState) -> bool:
        """Whether course and heading are mirrored, after another state."""
        x, y, _ = state.position
        x0, y0 = self._place = self._place or (x, y)
        if math.dist((x0, y0), (x, y)) >= self.STEP_M:
            self._place = x, y
            self._steps.append((math.atan2(y - y0, x - x0), state.yaw))
            course, heading = np.exp(1j * np.array(self._steps)).T
            turned, total = abs((course / heading).mean()), abs((course * heading).mean())
            mirrored = bool(total > self.CONSTANT and turned < self.VARIES)
            self._verdict = len(self._steps) >= self.ENOUGH and mirrored
        return self._verdict


class OdometryBuffer:
    """The newest states of the vehicle, in the order of their stamps.

    Args:
        capacity: at least this many states are stored, at most twice as many.
    """

    #: A stamp this far behind the newest one means that time was set back (a bag or a simulation
    #: was restarted): the buffer is cleared.
    RESTART_NS = SECOND

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._states: list[VehicleState] = []
        self._watch = JumpDetector()
        self._jumps: set[int] = set()  # stamps of states that the vehicle cannot have reached
        self.restarts = self.added = 0  # number of states added so far

    def __len__(self) -> int:
        return len(self._states)

    @property
    def newest_ns(self) -> int | None:
        """Stamp of the newest state."""
        return self._states[-1].stamp_ns if self._states else None

    def clear(self) -> None:
        """Remove all states."""
        self._states.clear()
        self._jumps.clear()
        self._watch = JumpDetector()

    @property
    def jumped(self) -> bool:
        """Whether the newest state was accepted as ``MOVED``."""
        return self.newest_ns in self._jumps

    def add(self, state: VehicleState, max_speed: float = 0.0, max_jump: float = 0.0) -> str | None:
        """Append a state; returns the reason if it is refused.

        ``max_speed`` (m/s), ``max_jump`` (m): see ``JumpDetector``. A state that is ``MOVED`` is
        stored, but nothing is interpolated between it and the state before.
        """
        numbers = (*state.position, *state.quaternion)
        if not all(math.isfinite(number) for number in numbers):
            return "not_finite"
        # An attitude that was never filled in (all zero) is not a rotation; assuming a level
        # vehicle would place pings wrongly without notice.
        if abs(math.hypot(*state.quaternion) - 1) > NORM_TOLERANCE:
            return "invalid_orientation"
        newest = self.newest_ns
        if newest is not None and state.stamp_ns <= newest:
            if state.stamp_ns > newest - self.RESTART_NS:
                return "duplicate" if state.stamp_ns == newest else "out_of_order"
            self.clear()
            self.restarts += 1
        fault = self._watch.check(state, max_speed, max_jump)
        if fault == JUMP:
            return fault
        if fault == MOVED:
            self._jumps.add(state.stamp_ns)
        self._states.append(state)
        self.added += 1
        if len(self._states) > 2 * self._capacity:
            del self._states[: self._capacity]
            self._jumps = {ns for ns in self._jumps if ns >= self._states[0].stamp_ns}
        return None

    def heights(self, stamp_ns: np.ndarray) -> np.ndarray:
        """z of the vehicle at stamps [N], as [N] in m, however long the gaps; before the oldest
        state and after the newest one that of these. NaN without any."""
        if not self._states:
            return np.full(len(stamp_ns), np.nan)
        return np.interp(stamp_ns, *np.array([(s.stamp_ns, s.position[2]) for s in self._states]).T)

    def at(self, stamp_ns: int, max_gap_ns: int) -> VehicleState | None:
        """The state interpolated to a stamp; None outside the buffer, across a gap longer than
        ``max_gap_ns`` and across a jump.

        Position linearly; attitude along the chord, normalised (the error against the great circle
        is far below a milliradian for the turns between two odometry messages).
        """
        after = bisect_left(self._states, stamp_ns, key=lambda state: state.stamp_ns)
        if after == len(self._states):
            return None
        b = self._states[after]
        if b.stamp_ns == stamp_ns:
            return b
        if after == 0:
            return None
        a = self._states[after - 1]
        gap = b.stamp_ns - a.stamp_ns
        if gap > max_gap_ns or b.stamp_ns in self._jumps:
            return None
        return _between(a, b, (stamp_ns - a.stamp_ns) / gap, stamp_ns)


def _std(state: VehicleState) -> float:
    """The standard deviation of a position along x or y, the larger one, in m; 0: unknown."""
    return math.sqrt(max((v for v in state.known_variance[:2] if v >= 0), default=0.0))


def _between(a: VehicleState, b: VehicleState, t: float, stamp_ns: int) -> VehicleState:
    # q and -q are the same attitude: choose b's sign that is closer to a.
    side = 1.0 if sum(p * q for p, q in zip(a.quaternion, b.quaternion, strict=True)) >= 0 else -1.0
    mixed = [(1 - t) * p + t * side * q for p, q in zip(a.quaternion, b.quaternion, strict=True)]
    norm = math.hypot(*mixed)
    if norm < 1e-9:  # half a turn between two messages: no unique middle
        mixed, norm = list(a.quaternion), math.hypot(*a.quaternion)
    x, y, z = ((1 - t) * p + t * q for p, q in zip(a.position, b.position, strict=True))
    qx, qy, qz, qw = (q / norm for q in mixed)
    pairs = zip(a.known_variance, b.known_variance, strict=True)
    vx, vy, vz = ((1 - t) * p + t * q for p, q in pairs)  # NaN where either is
    return replace(
        a, stamp_ns=stamp_ns, position=(x, y, z), quaternion=(qx, qy, qz, qw),
        speed=(1 - t) * a.speed + t * b.speed, variance=(vx, vy, vz),
    )  # fmt: skip
