"""From raw pings and odometry to placed elevations. Knows no ROS; metres, nanoseconds, radians.

A ping becomes a sample in two steps: its range is judged (REP-117), then it waits until odometry
brackets its time of measurement, and is placed by interpolation. Every ping ends in exactly one of
three heaps, so that always ``received = accepted + pending + sum of rejected``.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from ..clock import SECOND
from ..geometry import Extent
from .odometry import OdometryBuffer, VehicleState, rotate


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
