"""Depths that a sounder repeats, as it does where it has lost the bottom."""

from __future__ import annotations

import logging

import numpy as np

log = logging.getLogger(__name__)

#: The reason of the soundings that this rule leaves out.
FROZEN = "repeats_last_depth"
#: A depth is repeated at least so often, over so many m, and so many times as often as usual.
FEWEST, LONGEST, TIMES = 15, 15.0, 5.0
#: The bottom beside a repeated depth changes by this (m), and by this share of the depth.
CHANGES, SHARE = 0.3, 0.06
#: A sounder that finds the bottom again jumps to it by so many steps of its resolution.
RESUMES = 5
#: Soundings beside: within this share of the length over which a depth is repeated.
BESIDE = 0.25


def frozen(where: str, xy: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Which soundings repeat the last depth although the bottom changes; boolean [N].

    A run of the same depth, longer than any flat bottom gives in this record, is refused where
    soundings beside it, of other lines or around its ends, differ; else it is named in a warning.

    Args:
        where: start of warnings.
        xy: places in m [N, 2].
        height: depths or elevations as the file has them [N].
    """
    wrong = np.zeros(len(height), dtype=bool)
    if len(height) < 2 * FEWEST:
        return wrong
    begins = np.flatnonzero(np.diff(height, prepend=np.nan) != 0)
    counts = np.diff(begins, append=len(height))
    steps = np.append(0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T)))
    # Half of all soundings stand in runs of at most this many.
    half = int(np.searchsorted(np.cumsum(np.sort(counts)), len(height) / 2))
    usual = float(np.sort(counts)[min(half, len(counts) - 1)])
    long = np.flatnonzero(counts >= max(FEWEST, TIMES * usual))
    runs = [(a, a + n) for a, n in zip(begins[long], counts[long], strict=True)]
    runs = [(a, b) for a, b in runs if steps[b - 1] - steps[a] >= LONGEST]
    inside = np.zeros(len(height), dtype=bool)
    for begin, end in runs:
        inside[begin:end] = True
    changes = np.abs(np.diff(height))
    step = float(changes[changes > 0].min(initial=np.inf))
    for begin, end in runs:
        if _is_shown(xy, height, inside, begin, end, steps[end - 1] - steps[begin]):
            wrong[begin + 1 : end] = True  # the first of them was measured
        elif end < len(height) and changes[end - 1] > RESUMES * step:
            log.warning(
                "%s: %d soundings over %.0f m have the same depth of %g (from sounding %d on): a "
                "flat bottom, or a sounder that lost it",
                where, end - begin, steps[end - 1] - steps[begin], abs(height[begin]), begin,
            )  # fmt: skip
    return wrong


def _is_shown(
    xy: np.ndarray, height: np.ndarray, inside: np.ndarray, begin: int, end: int, length: float
) -> bool:
    """Whether soundings beside a run say that the bottom changes along it."""
    from scipy.spatial import cKDTree

    value = height[begin]
    least = max(CHANGES, SHARE * abs(value))
    after = height[end : end + 5]
    jumps = len(after) > 0 and abs(np.median(after) - value) > 2 * least
    others = np.flatnonzero(~inside)
    if not len(others):
        return False
    near, match = cKDTree(xy[others]).query(xy[begin:end], distance_upper_bound=BESIDE * length)
    known = np.isfinite(near)
    if known.sum() < 0.3 * (end - begin):
        return bool(jumps)
    beside = height[others[match[known]]]
    off = np.quantile(np.abs(beside - value), 0.75)
    return bool(np.quantile(beside, 0.9) - np.quantile(beside, 0.1) > least and off > least)
