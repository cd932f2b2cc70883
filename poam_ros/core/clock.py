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
        lasting_s: ROS time that never goes back (``LastingTime``), by which limits in ROS time are
            measured; None: as ``ros_ns``, where nothing sets that clock.
    """

    ros_ns: int
    steady_s: float
    lasting_s: float | None = None

    @property
    def limit_s(self) -> float:
        """The time in s that limits in ROS time are measured by."""
        return self.ros_ns / SECOND if self.lasting_s is None else self.lasting_s


class LastingTime:
    """ROS time for limits: it begins as the clock stands, and no setting of a clock moves it.

    Where stamps follow the system's clock, which GPS and NTP set, the steady clock counts. Where
    they follow ``/clock``, that counts: its steps forward are time, its steps back are left out.
    """

    def __init__(self) -> None:
        self._total: float | None = None
        self._before = (False, 0.0)  # whether time was simulated, and that clock in s

    def read(self, ros_s: float, steady_s: float, simulated: bool) -> float:
        """The time in s, by the present readings of both clocks in s."""
        source, now = simulated, ros_s if simulated else steady_s
        if self._total is None:
            self._total = ros_s
        elif self._before[0] == source:
            self._total += max(0.0, now - self._before[1])
        self._before = source, now
        return self._total
