"""What a node was sent and could not take: counted by reason, and said, but not all the time."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable

WARNING_PERIOD_S = 10.0  # s of wall time between two warnings for the same reason
MAX_LINES, MAX_LINE = (
    60,
    400,
)  # of a warning at most, and characters of each: a traceback fits, a flood not


class LogThrottle:
    """Counts, and a warning for each reason at most once per ``PERIOD``.

    A logger's own throttle goes by the place in the code: one reason would silence the others. What
    was held back since the last warning is counted in the next.

    Args:
        warn: takes a line of text.
        clock: seconds that only grow.
    """

    def __init__(
        self, warn: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._warn, self._clock = warn, clock
        self._said: dict[str, tuple[float, int]] = {}  # when, and at which count

    def add(self, reason: str, text: str) -> None:
        """Count one for a reason, and say the text if it is time to."""
        self.counts[reason] += 1
        count, now = self.counts[reason], self._clock()
        when, said = self._said.get(reason, (-math.inf, 0))
        if now - when >= WARNING_PERIOD_S:
            self._said[reason] = now, count
            more = count - said - 1
            lines = [line[:MAX_LINE] for line in text.split("\n", MAX_LINES)[:MAX_LINES]]
            self._warn("\n".join(lines) + (f" (and {more} more like it)" if more else ""))
