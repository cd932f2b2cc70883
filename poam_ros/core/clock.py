"""The two clocks of a mission: the one of stamps, and a steady one that never stops or jumps."""

from __future__ import annotations

from dataclasses import dataclass

#: Nanoseconds in a second.
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Moment:
    """The present time on both clocks.

    Attributes:
        ros_ns: the clock of stamps, in ns: wall, simulated or recorded time; it may jump.
        steady_s: a monotonic clock for timeouts, in s.
    """

    ros_ns: int
    steady_s: float
