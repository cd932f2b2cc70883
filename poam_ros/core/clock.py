"""The two clocks of a mission: that of its stamps, and a steady one that never stops or jumps."""

from __future__ import annotations

from dataclasses import dataclass

#: Nanoseconds in a second.
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Moment:
    """Now, by both clocks.

    Attributes:
        ros_ns: the clock that stamps follow: wall, simulated or recorded time; it may jump.
        steady_s: a monotonic clock, by which timeouts are measured.
        unadjusted_clock_s: the time of an ``UnadjustedClock``; None: ``ros_ns`` is never adjusted.
    """

    ros_ns: int
    steady_s: float
    unadjusted_clock_s: float | None = None

    @property
    def unadjusted_s(self) -> float:
        """Unadjusted time in s."""
        if self.unadjusted_clock_s is None:
            return self.ros_ns / SECOND
        return self.unadjusted_clock_s

    @property
    def unadjusted_ns(self) -> int:
        """The same in ns."""
        if self.unadjusted_clock_s is None:
            return self.ros_ns
        return round(self.unadjusted_clock_s * SECOND)


class UnadjustedClock:
    """ROS time without adjustments of the clock, by which limits of a mission count.

    It starts at the clock's reading. If stamps follow the system clock, which GPS and NTP adjust,
    it counts by the steady clock. If they follow ``/clock``, it counts by that: steps forward
    count, steps back are ignored.

    Attributes:
        ahead: by how much it is ahead of the steady clock, in s; None: not read yet, or simulated.
    """

    def __init__(self) -> None:
        self.ahead: float | None = None
        self._total: float | None = None
        self._before = (False, 0.0)  # whether time was simulated, and that clock in s

    def follow(self, ahead: float) -> None:
        """Continue the time of an earlier process, which was ``ahead`` of the steady clock (s)."""
        self.ahead, self._total = ahead, None

    def read(self, ros_s: float, steady_s: float, simulated: bool) -> float:
        """The time in s, by the present readings of both clocks in s."""
        source, now = simulated, ros_s if simulated else steady_s
        if simulated:
            self.ahead = None
        elif self._total is None and self.ahead is None:
            self.ahead = ros_s - steady_s
        if self._total is None:
            self._total = ros_s if self.ahead is None else steady_s + self.ahead
        elif self._before[0] == source:
            self._total += max(0.0, now - self._before[1])
        self._before = source, now
        return self._total
