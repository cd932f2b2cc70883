"""From raw pings and odometry to placed elevations. Knows no ROS; metres, nanoseconds, radians.

A ping becomes a sample in two steps: its range is judged (REP-117), then it waits until odometry
brackets its time of measurement, and is placed by interpolation. Every ping ends in exactly one of
three heaps, so that always ``received = accepted + pending + sum of rejected``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from .geometry import Extent

SECOND = 1_000_000_000


@dataclass(frozen=True)
class VehicleState:
    """Where the vehicle was.

    Attributes:
        stamp_ns: time.
        position: x, y, z in metres.
        quaternion: attitude (x, y, z, w), body to map, of unit norm.
        speed: forward speed, m/s.
        yaw_rate: rad/s.
        frame_id: frame of position and attitude.
    """

    stamp_ns: int
    position: tuple[float, float, float]
    quaternion: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)
    speed: float = 0.0
    yaw_rate: float = 0.0
    frame_id: str = "map"

    @property
    def yaw(self) -> float:
        """Heading, counter-clockwise from x (east)."""
        x, y, z, w = self.quaternion
        return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def rotate(quaternion: tuple[float, float, float, float], vector: np.ndarray) -> np.ndarray:
    """vector [3] turned by a unit quaternion (x, y, z, w)."""
    axis, w = np.array(quaternion[:3]), quaternion[3]
    # v + 2 w (u x v) + 2 u x (u x v)
    across = 2 * np.cross(axis, vector)
    return vector + w * across + np.cross(axis, across)


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


class OdometryBuffer:
    """The last states of the vehicle, in the order of their stamps.

    Args:
        capacity: number of states kept at least; twice as many at most.
        restart_ns: a stamp this far behind the newest one means that time was set back (a bag or a
            simulation that started again): the buffer starts again with it.
    """

    def __init__(self, capacity: int = 4096, restart_ns: int = SECOND) -> None:
        self._capacity = capacity
        self._restart_ns = restart_ns
        self._stamps: list[int] = []
        self._states: list[VehicleState] = []
        self.restarts = 0

    def __len__(self) -> int:
        return len(self._stamps)

    @property
    def newest_ns(self) -> int | None:
        """Stamp of the newest state."""
        return self._stamps[-1] if self._stamps else None

    def clear(self) -> None:
        """Forget every state."""
        self._stamps.clear()
        self._states.clear()

    def add(self, state: VehicleState) -> str | None:
        """Append a state; return the reason where it is refused, None where it is kept."""
        numbers = (*state.position, *state.quaternion)
        if not all(math.isfinite(number) for number in numbers):
            return "not_finite"
        norm = math.hypot(*state.quaternion)
        # An attitude that nobody filled in (all zero) is no rotation; guessing "level" would place
        # pings wrongly without a word.
        if norm < 1e-3:
            return "invalid_orientation"
        if self._stamps and state.stamp_ns <= self._stamps[-1]:
            if state.stamp_ns > self._stamps[-1] - self._restart_ns:
                return "duplicate" if state.stamp_ns == self._stamps[-1] else "out_of_order"
            self.clear()
            self.restarts += 1
        self._stamps.append(state.stamp_ns)
        self._states.append(state)
        if len(self._stamps) > 2 * self._capacity:
            del self._stamps[: self._capacity]
            del self._states[: self._capacity]
        return None

    def at(self, stamp_ns: int, max_gap_ns: int) -> VehicleState | None:
        """The state interpolated to a stamp; None outside the buffer or across too long a gap.

        Position linearly; attitude along the chord, normalised (the error against the great circle
        is far below a milliradian for the turns between two odometry messages).
        """
        after = bisect_left(self._stamps, stamp_ns)
        if after == len(self._stamps):
            return None
        b = self._states[after]
        if b.stamp_ns == stamp_ns:
            return b
        if after == 0:
            return None
        a = self._states[after - 1]
        gap = b.stamp_ns - a.stamp_ns
        if gap > max_gap_ns:
            return None
        return _between(a, b, (stamp_ns - a.stamp_ns) / gap, stamp_ns)


def _between(a: VehicleState, b: VehicleState, t: float, stamp_ns: int) -> VehicleState:
    # q and -q are one attitude: take the sign of b that lies on a's side.
    side = 1.0 if sum(p * q for p, q in zip(a.quaternion, b.quaternion, strict=True)) >= 0 else -1.0
    mixed = [(1 - t) * p + t * side * q for p, q in zip(a.quaternion, b.quaternion, strict=True)]
    norm = math.hypot(*mixed)
    if norm < 1e-9:  # half a turn between two messages has no unique middle
        mixed, norm = list(a.quaternion), math.hypot(*a.quaternion)
    x, y, z = ((1 - t) * p + t * q for p, q in zip(a.position, b.position, strict=True))
    qx, qy, qz, qw = (q / norm for q in mixed)
    return VehicleState(
        stamp_ns,
        (x, y, z),
        (qx, qy, qz, qw),
        (1 - t) * a.speed + t * b.speed,
        (1 - t) * a.yaw_rate + t * b.yaw_rate,
        a.frame_id,
    )


@dataclass(frozen=True)
class RawPing:
    """A range as the sonar reports it: stamp, range, and the limits of validity in metres."""

    stamp_ns: int
    range: float
    min_range: float
    max_range: float


def fault_of(ping: RawPing) -> str | None:
    """Why a range is no measurement (REP-117), or None where it is one."""
    if ping.min_range <= ping.range <= ping.max_range and math.isfinite(ping.range):
        return None
    if math.isnan(ping.range):
        return "nan"
    if ping.range == math.inf:
        return "no_return"
    # -inf is REP-117's "too close", and lies below every minimum.
    return "too_close" if ping.range < ping.min_range else "out_of_range"


@dataclass(frozen=True)
class GateSettings:
    """How pings are placed.

    Attributes:
        offset_ns: time of measurement = stamp + this.
        max_gap_ns: longest gap between two odometry messages that is interpolated across.
        wait_s: longest wait for odometry, in the seconds of the caller's monotonic clock.
        capacity: largest number of waiting pings.
        sonar_offset: place of the sonar in the body frame; its beam is the body's -z axis.
        area: samples outside are not used; None for everywhere.
    """

    offset_ns: int = 0
    max_gap_ns: int = SECOND
    wait_s: float = 5.0
    capacity: int = 4096
    sonar_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    area: Extent | None = None


@dataclass
class PingGate:
    """Takes pings and odometry in any interleaving and hands back placed samples, in order."""

    settings: GateSettings = field(default_factory=GateSettings)
    buffer: OdometryBuffer = field(default_factory=OdometryBuffer)

    def __post_init__(self) -> None:
        self.closed = False
        self.received = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self.odometry_rejected: Counter[str] = Counter()
        self._waiting: deque[tuple[RawPing, float]] = deque()

    @property
    def pending(self) -> int:
        """Pings that wait for odometry."""
        return len(self._waiting)

    def add_odometry(self, state: VehicleState) -> str | None:
        """Take one state; return the reason where it is refused (it is counted)."""
        restarts = self.buffer.restarts
        reason = self.buffer.add(state)
        if reason is not None:
            self.odometry_rejected[reason] += 1
        if self.buffer.restarts > restarts:
            self._reject_waiting("no_odometry")
        return reason

    def refuse_odometry(self, reason: str) -> None:
        """Count a state that the caller could not bring into the map's frame."""
        self.odometry_rejected[reason] += 1

    def add_ping(self, ping: RawPing, now_s: float) -> None:
        """Take one ping: it is rejected at once, or waits for `take`."""
        self.received += 1
        reason = "after_mission" if self.closed else fault_of(ping)
        if reason is not None:
            self.rejected[reason] += 1
            return
        if len(self._waiting) >= self.settings.capacity:
            self._waiting.popleft()
            self.rejected["no_odometry"] += 1
        self._waiting.append((ping, now_s))

    def take(self, now_s: float) -> np.ndarray:
        """The samples (x, y, z) that can be placed by now, [N, 3], in the order of arrival."""
        placed: list[np.ndarray] = []
        still: deque[tuple[RawPing, float]] = deque()
        newest = self.buffer.newest_ns
        for ping, since in self._waiting:
            measured = ping.stamp_ns + self.settings.offset_ns
            if newest is None or measured > newest:
                if now_s - since > self.settings.wait_s:
                    self.rejected["no_odometry"] += 1
                else:
                    still.append((ping, since))
                continue
            state = self.buffer.at(measured, self.settings.max_gap_ns)
            if state is None:
                self.rejected["no_odometry"] += 1
                continue
            sample = self._place(state, ping.range)
            if self.settings.area is not None and not self.settings.area.contains(sample[:2]):
                self.rejected["outside_workspace"] += 1
                continue
            placed.append(sample)
        self._waiting = still
        self.accepted += len(placed)
        return np.array(placed).reshape(-1, 3)

    def close(self) -> None:
        """The mission is done: what waits and what comes is rejected as `after_mission`."""
        self.closed = True
        self._reject_waiting("after_mission")

    def open(self) -> None:
        """A mission goes on, or begins again."""
        self.closed = False

    def restart(self) -> None:
        """Time was set back: odometry and waiting pings belong to another time."""
        self.buffer.clear()
        self._reject_waiting("no_odometry")

    def _place(self, state: VehicleState, distance: float) -> np.ndarray:
        body = np.array(self.settings.sonar_offset) + np.array((0.0, 0.0, -distance))
        norm = math.hypot(*state.quaternion)
        x, y, z, w = (q / norm for q in state.quaternion)
        return np.array(state.position) + rotate((x, y, z, w), body)

    def _reject_waiting(self, reason: str) -> None:
        if self._waiting:
            self.rejected[reason] += len(self._waiting)
            self._waiting.clear()
