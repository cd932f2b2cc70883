"""What a node was sent and could not take: counted by reason, and said, but not all the time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

PERIOD = 10.0  # s of wall time between two warnings for the same reason


class Refusals:
    """Counts, and a warning for each reason at most once per ``PERIOD``.

    A logger's own throttle goes by the place in the code: one reason would silence the others.

    Args:
        warn: takes a line of text.
        clock: seconds that only grow.
    """

    def __init__(
        self, warn: Callable[[str], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._warn, self._clock = warn, clock
        self._said: dict[str, float] = {}

    def add(self, reason: str, text: str) -> None:
        """Count one for a reason, and say the text if it is time to."""
        self.counts[reason] += 1
        now = self._clock()
        if reason not in self._said or now - self._said[reason] >= PERIOD:
            self._said[reason] = now
            self._warn(text)
