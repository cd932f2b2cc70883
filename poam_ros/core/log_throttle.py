"""Warnings, counted by reason and logged at a limited rate."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable

WARNING_PERIOD_S = 10.0  # wall time between two warnings for the same reason
MAX_LINES, MAX_LINE = 60, 400  # lines, and characters of a line: enough for a traceback


class LogThrottle:
    """Counts by reason, and logs a warning for each at most once per ``WARNING_PERIOD_S``.

    A logger's own throttle works by line of code, so that one reason would suppress the others. The
    next warning tells how many were suppressed.

    Args:
        warn: called with a text.
        clock: a steady clock, in s.
    """

    def __init__(
        self, warn: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._warn, self._clock = warn, clock
        self._logged: dict[str, tuple[float, int]] = {}  # time and count of the last warning

    def add(self, reason: str, text: str) -> None:
        """Count one for a reason, and log the text if its period is over."""
        self.counts[reason] += 1
        self.remind(reason, text)

    def remind(self, reason: str, text: str) -> None:
        """Log the text if its period is over; for a state that lasts, which has no count."""
        count, now = self.counts[reason], self._clock()
        when, logged = self._logged.get(reason, (-math.inf, 0))
        if now - when >= WARNING_PERIOD_S:
            self._logged[reason] = now, count
            more = count - logged - 1
            lines = [line[:MAX_LINE] for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
            self._warn("\n".join(lines) + (f" (and {more} more like it)" if more > 0 else ""))
