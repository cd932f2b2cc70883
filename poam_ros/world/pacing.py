"""From wall time to simulated time: how many steps are due. No rclpy."""

from __future__ import annotations

import math


class Pacer:
    """Says how many control steps are due by a steady wall clock.

    A machine that falls behind catches up at no more than twice the speed asked for, and what it is
    behind by more than ``patience`` is dropped: simulated time slows down rather than bursts.

    Args:
        period: simulated time of a step, in seconds.
        speed: simulated seconds per wall second.
        tick: wall time between two calls of ``due``, in seconds.
        patience: largest backlog, in wall seconds.
    """

    def __init__(
        self, period: float, speed: float, *, tick: float = 0.01, patience: float = 0.5
    ) -> None:
        self.period = period
        self.speed = speed
        self._tick = tick
        self._patience = patience
        self._debt = 0.0  # in steps
        self._last: float | None = None

    def due(self, now: float) -> tuple[int, int]:
        """Steps to take at wall time ``now`` (s), and whole steps dropped since the last call.

        The first call starts the count.
        """
        if self._last is None:
            self._last = now
        rate = self.speed / self.period
        self._debt += (now - self._last) * rate
        self._last = now
        burst = max(1, math.ceil(2 * self._tick * rate))
        # The tolerance keeps ten steps of 0.1 s ten in spite of rounding.
        steps = min(int(self._debt + 1e-9), burst)
        self._debt -= steps
        dropped = max(0, math.floor(self._debt - max(1.0, self._patience * rate)))
        self._debt -= dropped
        return steps, dropped
