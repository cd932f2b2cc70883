"""Log messages on soundings and predictions of a map that are doubtful, with their places."""

from __future__ import annotations

import logging

import numpy as np

log = logging.getLogger(__name__)

#: Number of contradicting soundings whose places are logged.
PLACES = 3


class DoubtLog:
    """Logs once that soundings contradict each other, and once more if predictions are limited."""

    def __init__(self) -> None:
        self._logged = 0  # highest level so far

    def log(self, contradicting: np.ndarray, limited: np.ndarray) -> None:
        """Log what is new. Arguments: as of ``interface.Doubts``, in m."""
        count = len(contradicting)
        level = logging.WARNING if len(limited) else logging.INFO if count else 0
        if level <= self._logged:
            return
        self._logged = level
        if count:
            places = "; ".join(f"{x:.1f}, {y:.1f}" for x, y in contradicting[:PLACES].tolist())
            log.log(
                level, "soundings that contradict those around them and count less: %d, at x, y "
                "(m): %s%s", count, places, "; ..." if count > PLACES else "",
            )  # fmt: skip
        for x, y in limited.tolist():  # without their number: a map is predicted in tiles
            log.warning(
                "predicted elevations far outside the range of the soundings around them are "
                "limited to it, with a larger uncertainty; the first at x, y (m): %.1f, %.1f", x, y,
            )  # fmt: skip
