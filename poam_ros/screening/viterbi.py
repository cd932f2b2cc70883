"""The likeliest path of the is_bottom under a track (Viterbi 1967). Ranges and places in metres.

Every ping measured the is_bottom or is an echo. The is_bottom goes on from the last ping that measured
it as a random walk, whose steps are as large as those about here, or jumps; an echo comes late,
seldom early, and more often after another. The path is what makes all pings together likeliest,
so that the pings after one tell as much of it as those before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .track import neighbourhood_radius

MAX_SKIPPED = 20  # pings at most from one that measured the is_bottom to the next that did
SCATTER_WINDOW = 20  # steps that make the scatter at a ping
MAX_ITERATIONS = 3  # at most, of a path and the scatter along it
RATIO_SIGMAS = 3.5  # deviations that are granted to a range of ``ratio`` times the expected one
BOTTOM_SLOPE = 0.35  # of the is_bottom, in its deviation across a gap
MAD_SCALE = 0.6745  # median of |x| of a standard normal x
FIRST_WINDOW, FIRST_SIGMA_RATIO = (
    11,
    0.25,
)  # pings whose median the first is expected to have, and how surely

LATE_ECHO_RATE = 0.05  # of echoes that are late, between ...
LATE_MIN_RATIO, LATE_MAX_RATIO = 1.2, 4.0  # ... so many times the expected range
OTHER_ECHO_RATE, BOTTOM_ECHO_RATE = (
    0.005,
    1e-4,
)  # of echoes that are elsewhere, and of those about where the is_bottom is
REPEATED_ECHO_RATE = 0.5  # of echoes after an echo
JUMP_RATE = 1e-3  # of the pings that follow a jump of the is_bottom
MAPPED_JUMP_RATE = 0.1  # the same, to where the map has the is_bottom
MAP_AGREEMENT_SIGMAS = 2.0  # deviations within which track and map agree
MIN_RANGE_M = 0.01  # m: no range is taken for shorter


class PredictedRanges(NamedTuple):
    """What the map expects of the ranges: mean [N] and variance [N]."""

    mean: np.ndarray
    variance: np.ndarray


class BottomPath(NamedTuple):
    """Which pings measured the is_bottom [N]; from which row each of these is expected, -1 for one
    that was known before [N]; and which of them jumped from there, or are not beside it [N]."""

    is_bottom: np.ndarray
    origin: np.ndarray
    jumped: np.ndarray


def follow(
    known: np.ndarray,
    xy: np.ndarray,
    ranges: np.ndarray,
    mapped: PredictedRanges | None,
    ratio: float,
) -> BottomPath:
    """The path through pings at xy [N, 2] of these ranges [N].

    Args:
        known: x, y and range of the is_bottom just before, in order [K, 3].
        xy: in the order of the track, at least one.
        ranges: measured there.
        mapped: None where there is no map.
        ratio: to an expected range, that is just no jump.
    """
    first_variance = 0.0
    if not len(known):
        begin = float(np.median(ranges[:FIRST_WINDOW]))
        known, first_variance = np.array([[*xy[0], begin]]), (FIRST_SIGMA_RATIO * begin) ** 2
    count = len(known)
    points = np.concatenate([known[:, :2], xy])
    r = np.maximum(np.concatenate([known[:, 2], ranges]), MIN_RANGE_M)
    # At first the steps that no echo explains: a scatter that grows with what is accepted.
    steps = np.abs(np.diff(r))
    scatter = _about(steps, np.maximum(r[1:], r[:-1]) <= ratio * np.minimum(r[1:], r[:-1]))
    for _ in range(MAX_ITERATIONS):
        walk = _Viterbi(
            points, r, count, scatter, mapped, (ratio - 1) / RATIO_SIGMAS, first_variance
        )
        found = walk.path()
        is_bottom = np.flatnonzero(np.concatenate([np.ones(count, dtype=bool), found.is_bottom]))
        used = np.zeros(len(steps), dtype=bool)
        used[is_bottom[1:] - 1] = True
        steps[is_bottom[1:] - 1] = np.abs(np.diff(r[is_bottom]))
        before, scatter = scatter, _about(steps, used)
        if np.allclose(before, scatter):
            break
    return found


class _Viterbi:
    """The best courses that end with each row; the known ones come first."""

    def __init__(
        self,
        points: np.ndarray,
        r: np.ndarray,
        count: int,
        scatter: np.ndarray,
        mapped: PredictedRanges | None,
        grain: float,
        first_variance: float,
    ) -> None:
        self.points, self.r, self.count, self.scatter = points, r, count, scatter
        self.mapped, self.grain, self.first_variance = mapped, grain, first_variance

    def path(self) -> BottomPath:
        r, count, size = self.r, self.count, len(self.r)
        cost, origin = np.zeros(size), np.zeros(size, dtype=int)
        jumped = np.zeros(size, dtype=bool)
        skipped = np.zeros(size)  # what it costs that all after a row are echoes
        for row in range(count, size):
            rows = np.arange(max(count - 1, row - MAX_SKIPPED), row)
            goes_on, jumps = self._densities(rows, row)
            costs = cost[rows] + skipped[rows] - np.log(goes_on + jumps)
            best = int(np.argmin(costs))
            cost[row], origin[row] = costs[best], rows[best]
            jumped[row] = jumps[best] > goes_on[best] or not self._beside(rows[best], row)
            after = np.where(rows == row - 1, 1.0, REPEATED_ECHO_RATE / LATE_ECHO_RATE)
            skipped[rows] -= np.log(after * _echo(r[row], r[rows]))
        last = np.arange(max(count - 1, size - MAX_SKIPPED), size)
        row = int(last[np.argmin(cost[last] + skipped[last])])
        is_bottom = np.zeros(size, dtype=bool)
        while row >= count:
            is_bottom[row], row = True, int(origin[row])
        origin = np.maximum(origin - count, -1)
        return BottomPath(is_bottom[count:], origin[count:], jumped[count:])

    def _densities(self, rows: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Of the range at a row, if the is_bottom goes on from rows [n], and if it jumps."""
        r, before = self.r[row], self.r[rows]
        low = np.minimum(r, before)
        away = np.hypot(*(self.points[rows] - self.points[row]).T)
        variance = (self.grain * low) ** 2 + self.scatter[row - 1] ** 2 * (row - rows)
        variance += (BOTTOM_SLOPE * away) ** 2 + np.where(
            rows < self.count, self.first_variance, 0.0
        )
        goes_on, jumps = _normal(r - before, variance), JUMP_RATE / (LATE_MAX_RATIO * low)
        if self.mapped is None:
            return goes_on, jumps
        mean, its = (values[row - self.count] for values in self.mapped)
        both = 1 / (1 / variance + 1 / its)
        joint = _normal(r - both * (before / variance + mean / its), both)
        agree = (mean - before) ** 2 <= MAP_AGREEMENT_SIGMAS**2 * (variance + its)
        goes_on = np.where(agree, (goes_on + joint) / 2, goes_on)
        return goes_on, jumps + MAPPED_JUMP_RATE * _normal(r - mean, its)

    def _beside(self, one: int, other: int) -> bool:
        away = np.hypot(*(self.points[one] - self.points[other]))
        return bool(away <= neighbourhood_radius(min(self.r[one], self.r[other])))


def _normal(error: np.ndarray, variance: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * error**2 / variance) / np.sqrt(2 * np.pi * variance)


def _echo(measured: float, expected: np.ndarray) -> np.ndarray:
    """The density of an echo where the is_bottom is expected at [n], with the share of echoes."""
    ratio = measured / expected
    late = np.where(
        (ratio > LATE_MIN_RATIO) & (ratio < LATE_MAX_RATIO),
        LATE_ECHO_RATE / (LATE_MAX_RATIO - LATE_MIN_RATIO),
        0.0,
    )
    odd = (
        np.where(
            (ratio < 1 / LATE_MIN_RATIO) | (ratio > LATE_MIN_RATIO),
            OTHER_ECHO_RATE,
            BOTTOM_ECHO_RATE,
        )
        / LATE_MAX_RATIO
    )
    return (late + odd) / expected


def _about(steps: np.ndarray, used: np.ndarray) -> np.ndarray:
    """The deviation of the used ones of the steps [N] about each, by their median [N]."""
    rows = np.flatnonzero(used)
    if not len(rows):
        return np.zeros(len(steps))
    width = min(SCATTER_WINDOW, len(rows))
    middle = np.searchsorted(rows, np.arange(len(steps)))
    first = np.clip(middle - width // 2, 0, len(rows) - width)
    near = np.lib.stride_tricks.sliding_window_view(steps[rows], width)
    return np.median(near, axis=1)[first] / MAD_SCALE
