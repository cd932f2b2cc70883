"""How long the same thing took, the last some hundred times."""

from __future__ import annotations

from collections import deque

import numpy as np

KEPT = 500


class Times:
    """Durations in s; a few numbers of them. Written on one thread, read on any."""

    def __init__(self) -> None:
        self._taken: deque[float] = deque(maxlen=KEPT)

    def add(self, seconds: float) -> None:
        """It took so long once more."""
        self._taken.append(seconds)

    @property
    def last(self) -> float:
        """The last one; NaN before there is one."""
        return self._taken[-1] if self._taken else float("nan")

    def quantile(self, share: float) -> float:
        """What this share of them does not exceed, without interpolation; NaN of none."""
        taken = list(self._taken)
        if not taken:
            return float("nan")
        return float(np.quantile(taken, share, method="inverted_cdf"))
