"""The most likely path of the bottom under a track (Viterbi 1967). Ranges and places in metres.

Every ping is either from the bottom or an echo of something else. From one bottom ping to the next
the range is a random walk, with steps as large as those nearby, or it jumps. An echo is mostly
late, seldom early, and more likely after another echo. The path maximises the joint likelihood of
all pings, so a ping is explained by those after it as well as by those before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .paths import MIN_RANGE_M
from .track import neighbourhood_radius

MAX_SKIPPED = 20  # echoes between one bottom ping and the next, at most
SCATTER_WINDOW = 20  # steps around a ping that give its scatter
MAX_ITERATIONS = 3  # of finding a path and the scatter along it
RATIO_SIGMAS = 3.5  # a range ``ratio`` times the expected one is this many standard deviations off
BOTTOM_SLOPE = 0.35  # slope of the bottom in the standard deviation across a gap
MAD_SCALE = 0.6745  # median of |x| of a standard normal x
FIRST_WINDOW = 11  # pings whose median is the expected first range
FIRST_SIGMA_RATIO = 0.25  # its standard deviation as a share of the range

LATE_ECHO_RATE = 0.05  # share of late echoes, between the two ratios to the expected range
LATE_MIN_RATIO, LATE_MAX_RATIO = 1.2, 4.0
OTHER_ECHO_RATE = 0.005  # share of other echoes away from the bottom
BOTTOM_ECHO_RATE = 1e-4  # share of echoes near the range of the bottom
REPEATED_ECHO_RATE = 0.5  # share of echoes after an echo
JUMP_RATE = 1e-3  # share of pings that follow a jump of the bottom
MAPPED_JUMP_RATE = 0.1  # the same, for a jump to where the map predicts the bottom
MAP_AGREEMENT_SIGMAS = 2.0  # track and map agree within this many standard deviations


class PredictedRanges(NamedTuple):
    """What the map predicts for the ranges: mean [N] and variance [N]."""

    mean: np.ndarray
    variance: np.ndarray


class BottomPath(NamedTuple):
    """The bottom pings among N.

    Attributes:
        is_bottom: whether a ping is from the bottom [N].
        origin: the row that each is expected from [N]; -1: a known ping before the first row.
        jumped: whether it jumped from there, or does not lie beside it [N].
    """

    is_bottom: np.ndarray
    origin: np.ndarray
    jumped: np.ndarray


def follow(
    known: np.ndarray,
    xy: np.ndarray,
    ranges: np.ndarray,
    mapped: PredictedRanges | None,
    ratio: float,
    step: float,
) -> BottomPath:
    """The most likely path through pings.

    Args:
        known: x, y and range of the bottom pings just before, in order [K, 3].
        xy: places of the pings in the order of the track [N, 2], N > 0.
        ranges: measured there [N].
        mapped: the map's prediction; None: there is no map.
        ratio: largest ratio to the expected range that is not a jump.
        step: the usual distance between successive pings.
    """
    first_variance = 0.0
    if not len(known):
        begin = float(np.median(ranges[:FIRST_WINDOW]))
        known, first_variance = np.array([[*xy[0], begin]]), (FIRST_SIGMA_RATIO * begin) ** 2
    count = len(known)
    points = np.concatenate([known[:, :2], xy])
    r = np.maximum(np.concatenate([known[:, 2], ranges]), MIN_RANGE_M)
    # Start with the steps within the ratio; the scatter then grows with the accepted pings.
    steps = np.abs(np.diff(r))
    scatter = _scatter(steps, np.maximum(r[1:], r[:-1]) <= ratio * np.minimum(r[1:], r[:-1]))
    grain = (ratio - 1) / RATIO_SIGMAS
    for _ in range(MAX_ITERATIONS):
        found = _Viterbi(points, r, count, scatter, mapped, grain, first_variance, step).path()
        bottom = np.flatnonzero(np.concatenate([np.ones(count, dtype=bool), found.is_bottom]))
        used = np.zeros(len(steps), dtype=bool)
        used[bottom[1:] - 1] = True
        steps[bottom[1:] - 1] = np.abs(np.diff(r[bottom]))
        before, scatter = scatter, _scatter(steps, used)
        if np.allclose(before, scatter):
            break
    return found


class _Viterbi:
    """The best path that ends with each row; the ``count`` known pings come first."""

    def __init__(
        self,
        points: np.ndarray,
        r: np.ndarray,
        count: int,
        scatter: np.ndarray,
        mapped: PredictedRanges | None,
        grain: float,
        first_variance: float,
        step: float,
    ) -> None:
        self.points, self.r, self.count, self.scatter = points, r, count, scatter
        self.mapped, self.grain, self.first_variance = mapped, grain, first_variance
        self.step = step

    def path(self) -> BottomPath:
        r, count, size = self.r, self.count, len(self.r)
        cost, origin = np.zeros(size), np.zeros(size, dtype=int)
        jumped = np.zeros(size, dtype=bool)
        skipped = np.zeros(size)  # cost if all pings after a row are echoes
        for row in range(count, size):
            rows = np.arange(max(count - 1, row - MAX_SKIPPED), row)
            continues, jumps = self._densities(rows, row)
            costs = cost[rows] + skipped[rows] - np.log(continues + jumps)
            best = int(np.argmin(costs))
            cost[row], origin[row] = costs[best], rows[best]
            jumped[row] = jumps[best] > continues[best] or not self._beside(rows[best], row)
            after = np.where(rows == row - 1, 1.0, REPEATED_ECHO_RATE / LATE_ECHO_RATE)
            skipped[rows] -= np.log(after * _echo_density(r[row], r[rows]))
        last = np.arange(max(count - 1, size - MAX_SKIPPED), size)
        row = int(last[np.argmin(cost[last] + skipped[last])])
        is_bottom = np.zeros(size, dtype=bool)
        while row >= count:
            is_bottom[row], row = True, int(origin[row])
        origin = np.maximum(origin - count, -1)
        return BottomPath(is_bottom[count:], origin[count:], jumped[count:])

    def _densities(self, rows: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Density of the range at ``row`` if the bottom continues from rows [n], or jumps."""
        r, before = self.r[row], self.r[rows]
        low = np.minimum(r, before)
        away = np.hypot(*(self.points[rows] - self.points[row]).T)
        variance = (self.grain * low) ** 2 + self.scatter[row - 1] ** 2 * (row - rows)
        first = np.where(rows < self.count, self.first_variance, 0.0)
        variance += (BOTTOM_SLOPE * away) ** 2 + first
        continues, jumps = _normal(r - before, variance), JUMP_RATE / (LATE_MAX_RATIO * low)
        if self.mapped is None:
            return continues, jumps
        mean, its = (values[row - self.count] for values in self.mapped)
        both = 1 / (1 / variance + 1 / its)
        joint = _normal(r - both * (before / variance + mean / its), both)
        agree = (mean - before) ** 2 <= MAP_AGREEMENT_SIGMAS**2 * (variance + its)
        continues = np.where(agree, (continues + joint) / 2, continues)
        return continues, jumps + MAPPED_JUMP_RATE * _normal(r - mean, its)

    def _beside(self, one: int, other: int) -> bool:
        away = np.hypot(*(self.points[one] - self.points[other]))
        return bool(away <= neighbourhood_radius(min(self.r[one], self.r[other]), self.step))


def _normal(error: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * error**2 / variance) / np.sqrt(2 * np.pi * variance)


def _echo_density(measured: float, expected: np.ndarray) -> np.ndarray:
    """Density of an echo, times the share of echoes, where the bottom is expected at [n]."""
    ratio = measured / expected
    is_late = (ratio > LATE_MIN_RATIO) & (ratio < LATE_MAX_RATIO)
    late = np.where(is_late, LATE_ECHO_RATE / (LATE_MAX_RATIO - LATE_MIN_RATIO), 0.0)
    elsewhere = (ratio < 1 / LATE_MIN_RATIO) | (ratio > LATE_MIN_RATIO)
    other = np.where(elsewhere, OTHER_ECHO_RATE, BOTTOM_ECHO_RATE) / LATE_MAX_RATIO
    return (late + other) / expected


def _scatter(steps: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Standard deviation of the used steps around each step [N], from their median."""
    rows = np.flatnonzero(used)
    if not len(rows):
        return np.zeros(len(steps))
    width = min(SCATTER_WINDOW, len(rows))
    middle = np.searchsorted(rows, np.arange(len(steps)))
    first = np.clip(middle - width // 2, 0, len(rows) - width)
    near = np.lib.stride_tricks.sliding_window_view(steps[rows], width)
    return np.median(near, axis=1)[first] / MAD_SCALE
