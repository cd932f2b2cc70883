"""The two times of a mission: that of its stamps, and a steady one that never stands or jumps."""

from __future__ import annotations

from dataclasses import dataclass

#: Nanoseconds in a second.
SECOND = 1_000_000_000


@dataclass(frozen=True)
class Moment:
    """Now, by both clocks.

    Attributes:
        ros_ns: the clock that stamps follow: wall, simulated or recorded time; it may jump.
        steady_s: a monotonic clock, by which patience is measured.
    """

    ros_ns: int
    steady_s: float
