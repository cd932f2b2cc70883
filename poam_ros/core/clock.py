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
        ahead_s: what limits of a mission count by is so many s ahead of the steady clock, as GPS
            and NTP adjust the system clock; None: they count by ``ros_ns``, as it is simulated or
            recorded.
    """

    ros_ns: int
    steady_s: float
    ahead_s: float | None = None

    @property
    def unadjusted_s(self) -> float:
        """The time in s that limits of a mission count by."""
        return self.ros_ns / SECOND if self.ahead_s is None else self.steady_s + self.ahead_s

    @property
    def unadjusted_ns(self) -> int:
        """The same in ns."""
        return self.ros_ns if self.ahead_s is None else round(self.unadjusted_s * SECOND)
