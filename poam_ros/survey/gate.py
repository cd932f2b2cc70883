"""From raw pings and odometry to placed elevations. Knows no ROS; metres, nanoseconds, radians.

A ping becomes a sample in two steps: its range is judged (REP-117), then it waits until odometry
brackets its time of measurement, and is placed by interpolation. Where pings are screened, it then
waits to be judged, and may be held in doubt. Every ping is in exactly one of
four heaps, so that always ``received = accepted + held + pending + sum of rejected``.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, replace

import numpy as np

from ..clock import SECOND, Moment
from ..geometry import Extent
from ..samples import MEASURED, Samples
from ..settings import check, setting
from .odometry import OdometryBuffer, VehicleState, rotate

#: The reason by which pings are refused once the mission is done.
AFTER_MISSION = "after_mission"


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
    """How pings are placed, and where.

    ``workspace``: None for everywhere. ``capacity``: largest number of waiting pings.

    Raises:
        InputError: a value is outside its range.
    """

    margin: float = setting(
        5.0, "Pings taken farther than this outside the workspace are not used", "m", 0.0, 1e6
    )
    range_time_offset: float = setting(
        0.0,
        "Time of measurement = stamp of the ping + this; -0.5 for a sonar that stamps 0.5 s late",
        "s",
        minimum=-60.0,
        maximum=60.0,
        mutable=True,
    )
    odometry_timeout: float = setting(
        1.0,
        "Longest gap between two odometry messages that positions are interpolated across",
        "s",
        minimum=0.01,
        maximum=60.0,
        mutable=True,
    )
    odometry_wait: float = setting(
        5.0, "Longest wait of a ping for its odometry, in wall time", "s", 0.1, 600.0, mutable=True
    )
    sonar_offset: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0),
        "Place of the sonar in the vehicle's frame (x forward, y left, z up); its beam points down",
        "m",
        minimum=-100.0,
        maximum=100.0,
    )
    workspace: Extent | None = None
    capacity: int = 4096

    def __post_init__(self) -> None:
        check(self)


class PingGate:
    """Takes pings and odometry in any interleaving and hands back placed samples, in order.

    ``closed``: the reason by which every ping is refused on arrival, None while pings are taken.
    ``screened``: whether placed pings are judged before they are accepted (``survey/acceptance``),
    which counts those that wait for it (``unjudged``) and those in doubt (``held``) here.
    """

    def __init__(self, settings: GateSettings, screened: bool = False) -> None:
        self.settings, self.screened = settings, screened
        self.unjudged = self.held = 0
        self.buffer = OdometryBuffer()
        self.closed: str | None = None
        self.received = 0
        self.accepted = 0
        self.rejected: Counter[str] = Counter()
        self.odometry_rejected: Counter[str] = Counter()
        self._waiting: deque[tuple[RawPing, float]] = deque()
        self._first = 0  # accepted before the number 0 that is counted from now

    @property
    def pending(self) -> int:
        """Pings that wait for odometry, or to be judged."""
        return len(self._waiting) + self.unjudged

    @property
    def samples(self) -> int:
        """Accepted since the beginning, or since numbers began anew."""
        return self.accepted - self._first

    def counts(self) -> dict[str, int]:
        """How many pings are where; the first is the sum of the others."""
        return {
            "received": self.received,
            "accepted": self.accepted,
            "held": self.held,
            "pending": self.pending,
            "rejected": sum(self.rejected.values()),
        }

    def add_odometry(self, state: VehicleState) -> str | None:
        """Take one state; return the reason where it is refused (it is counted)."""
        restarts = self.buffer.restarts
        reason = self.buffer.add(state)
        if reason is not None:
            self.odometry_rejected[reason] += 1
        if self.buffer.restarts > restarts:
            self._reject_waiting("no_odometry")
        return reason

    def add_ping(self, ping: RawPing, now: Moment) -> None:
        """Take one ping: it is rejected at once, or waits for `take`."""
        self.received += 1
        reason = self.closed or fault_of(ping)
        if reason is not None:
            self.rejected[reason] += 1
            return
        if len(self._waiting) >= self.settings.capacity:
            self._waiting.popleft()
            self.rejected["no_odometry"] += 1
        self._waiting.append((ping, now.steady_s))

    def take(self, now: Moment) -> Samples:
        """The samples that can be placed by now, in the order of arrival; where they are screened,
        they have no numbers yet."""
        settings, newest = self.settings, self.buffer.newest_ns
        offset_ns = round(settings.range_time_offset * SECOND)
        area = None if settings.workspace is None else settings.workspace.grown(settings.margin)
        placed: list[np.ndarray] = []
        ranges: list[float] = []
        stamps: list[int] = []
        still: deque[tuple[RawPing, float]] = deque()
        for ping, since in self._waiting:
            measured = ping.stamp_ns + offset_ns
            if newest is None or measured > newest:
                if now.steady_s - since > settings.odometry_wait:
                    self.rejected["no_odometry"] += 1
                else:
                    still.append((ping, since))
                continue
            state = self.buffer.at(measured, round(settings.odometry_timeout * SECOND))
            if state is None:
                self.rejected["no_odometry"] += 1
                continue
            place = self._place(state, ping.range)
            if area is not None and not area.contains(place[:2]):
                self.rejected["outside_workspace"] += 1
                continue
            placed.append(place)
            stamps.append(measured)
            ranges.append(ping.range)
        self._waiting = still
        samples = _unnumbered(placed, stamps, ranges)
        if not self.screened:
            return self.accept(samples)
        self.unjudged += len(samples)
        return samples

    def accept(self, samples: Samples) -> Samples:
        """Count placed pings as accepted, and number them."""
        numbers = np.arange(self.samples, self.samples + len(samples), dtype=np.int64)
        self.accepted += len(samples)
        return replace(samples, number=numbers)

    def finish(self) -> None:
        """The mission is done: what waits and what comes is rejected as ``after_mission``."""
        self.closed = AFTER_MISSION
        self._reject_waiting(AFTER_MISSION)

    def renumber(self) -> None:
        """The next sample is number 0."""
        self._first = self.accepted

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


def _unnumbered(placed: list[np.ndarray], stamps: list[int], ranges: list[float]) -> Samples:
    if not placed:
        return Samples.empty()
    points, count = np.array(placed), len(placed)
    measured = np.full((count, len(MEASURED)), np.nan)
    measured[:, 0] = ranges
    number, stamp_ns = np.full(count, -1, dtype=np.int64), np.array(stamps, dtype=np.int64)
    return Samples(number, stamp_ns, points[:, :2], points[:, 2], np.full(count, np.nan), measured)
