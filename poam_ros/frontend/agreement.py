"""Two records of one quantity, as of two sonars: are they equal, or how do they differ?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Records that are rounded differently (a tenth of a fathom is 0.18 m), or of two sounders of one
#: boat: nine tenths of the differences are at most this many m and this share of the value.
ROUNDED, SHARE = 0.1, 0.02
#: Fewer pairs do not show how two records differ.
FEWEST = 5
#: Two sonars' readings are of the same bottom within this time, in s.
TOGETHER = 1.0
EQUAL, OFFSET, FACTOR, DIFFERENT, UNKNOWN = "equal", "offset", "factor", "different", "unknown"


class Relation(NamedTuple):
    """How a second record of a quantity differs from the first.

    Attributes:
        kind: ``EQUAL``; ``OFFSET``: by ``value`` m; ``FACTOR``: ``value`` times; ``DIFFERENT``;
            ``UNKNOWN``: too few pairs.
        value: see there; else 0.
    """

    kind: str
    value: float = 0.0


def compare(first: np.ndarray, second: np.ndarray) -> Relation:
    """The relation of a second record to the first; both [N], in m, NaN where unknown.

    A factor is found only where the values differ enough to tell it from an offset.
    """
    known = np.isfinite(first) & np.isfinite(second) & (first != 0)
    one, two = first[known], second[known]
    fewer = min(np.isfinite(first).sum(), np.isfinite(second).sum())
    if len(one) < max(FEWEST, fewer / 10):
        return Relation(UNKNOWN)
    size = np.abs(one)
    offset, factor = float(np.median(two - one)), float(np.median(two / one))
    found = {
        EQUAL: np.abs(two - one),
        OFFSET: np.abs(two - one - offset),
        FACTOR: np.abs(two / factor - one) if factor else np.full(len(one), np.inf),
    }
    for kind, value in ((EQUAL, 0.0), (OFFSET, offset), (FACTOR, factor)):
        if np.quantile(found[kind] - SHARE * size, 0.9) <= ROUNDED:
            return Relation(kind, value)
    return Relation(DIFFERENT)


def at_times(
    seconds: np.ndarray, times: np.ndarray, values: np.ndarray, within: float
) -> np.ndarray:
    """The values [K] at ``times`` [K], ascending, that are the nearest to ``seconds`` [N]; NaN
    where none is ``within`` so many s."""
    if not len(times):
        return np.full(len(seconds), np.nan)
    after = np.clip(np.searchsorted(times, seconds), 1, max(len(times) - 1, 1))
    last = np.minimum(after, len(times) - 1)
    near = np.where(seconds - times[after - 1] <= times[last] - seconds, after - 1, last)
    return np.where(np.abs(times[near] - seconds) <= within, values[near], np.nan)
