"""The likeliest hypotheses of the soundings of lines (Viterbi 1967): the densities of steps.

In C if it was built (``models/native/hypotheses.c``); otherwise NumPy finds the same, more slowly.
Metres everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..models.native import hypotheses as native
from .lines import LEAST_STEP, gaps, usual_step

#: Hypotheses with a depth: range divided by 1, 2 or 3; and a smooth false run.
FACTORS = np.array([1.0, 2.0, 3.0, 1.0])
RUN = 3
#: Multiples that are recognised.
MULTIPLES = (2, 3)

#: More soundings than this, or more depths along the track, are a long run: false ones are short,
#: and a long one needs another pass to say so. Multiples end at the rate of one in so many.
LONG, LONG_DEPTHS = 20, 3.0
MAX_SKIPPED = 12  # nonsense between two other soundings, at most
GRAIN = 0.1  # standard deviation of a step along the bottom, relative to the range
EXACT = 0.02  # the same where a multiple begins or ends
WIDTH = 4.0  # ranges that are not predicted lie between 0 and this times those nearby
ECHOES = 1e-4, 0.03  # limits of the rate at which multiples begin
RUNS = 1e-5  # rate at which smooth runs of something else begin
REPEATED = 0.5  # share of nonsense after nonsense
BESIDE = 1.2  # nonsense differs by this ratio from the bottom
NEAR = 0.002  # density of nonsense near the bottom, relative to elsewhere
END = 1 / LONG
#: Log rate at which a sounding begins hypothesis [to] after [from]; and at the begin of a line. A
#: true line that is lost is worse than a false one that stays, which a person sees.
CHANGES = np.log(
    [
        [1.0, 1e-4, 1e-4, RUNS],
        [END, 1.0, 1e-4, RUNS],
        [END, 1e-4, 1.0, RUNS],
        [END, 1e-4, 1e-4, 1.0],
    ]
)
BEGINS = np.log([1.0, 5e-4, 2.5e-4, 1e-4])
NO_READING = 0.05  # m: no boat floats on this; sounders say so when they hear nothing
#: Share of the depth before it: what is shallower, and nearer than it is shallower, is what a
#: sounder hears of itself when it has lost the bottom.
LOST = 1 / 8
NO_READINGS = 0.01  # rate at which a run of either begins
NEVER = 1e6  # log odds of what is ruled out
AT_ONCE = 256  # soundings that steps are weighed to at a time

MIN_RANGE_M = 0.01  # shorter ranges count as this
BIN = 0.1  # width of the classes of ranges, in their logarithm
PRIOR = 20  # soundings for which a uniform density of false ranges stands


class Rates(NamedTuple):
    """Of nonsense, cliffs and begins of multiples, per sounding; the ranges that were nonsense,
    runs of something else, and bottom, in m."""

    nonsense: float
    cliffs: float
    multiples: float
    nonsense_ranges: np.ndarray
    run_ranges: np.ndarray
    bottom_ranges: np.ndarray


class _Steps(NamedTuple):
    """Steps to soundings [A], each from several before it [K], between hypotheses [S]: negative log
    density, and whether it is a jump [A, K, S, S]; the sounding's as nonsense, negative
    [A, K, S]."""

    cost: np.ndarray
    jumps: np.ndarray
    nonsense: np.ndarray


class Path:
    """The best path through a record: the bottom goes on in a turn.

    Args:
        xy: places [N, 2].
        ranges: measured there [N].
        evidence: log likelihood of each hypothesis by other lines [N, S].
        kept: where a sounding is no part of a run [N], boolean.
        scatter: standard deviation of the steps around each sounding [N].
        slope: standard deviation of the bottom's slope.
        rates: assumed.
    """

    def __init__(
        self,
        xy: np.ndarray,
        ranges: np.ndarray,
        evidence: np.ndarray,
        kept: np.ndarray,
        scatter: np.ndarray,
        slope: float,
        rates: Rates,
    ) -> None:
        xy, ranges, evidence, scatter = (
            np.asarray(each, dtype=np.float64) for each in (xy, ranges, evidence, scatter)
        )
        self.xy, self.r, self.scatter, self.slope = xy, ranges, scatter, slope
        self.evidence = evidence - np.outer(kept, np.where(np.arange(len(FACTORS)) > 0, NEVER, 0))
        self.depth = ranges[:, None] / FACTORS  # [N, S]
        self.usual = usual_step(np.hypot(*np.diff(xy, axis=0).T))
        self.reach = gaps(ranges, self.usual)
        self.wide = float(np.log(WIDTH * np.median(ranges)))
        self.as_nonsense, self.as_run = (
            -np.log(false_density(false, rates.bottom_ranges, ranges, np.exp(-self.wide)))
            for false in (rates.nonsense_ranges, rates.run_ranges)
        )  # [N]
        self.logs = np.log([rates.nonsense, REPEATED, rates.cliffs])
        more = np.zeros(len(FACTORS))  # multiples beyond the least rate
        more[1:RUN] = np.log(rates.multiples / ECHOES[0])
        self.begins = np.minimum(BEGINS + more, np.maximum(BEGINS, np.log(ECHOES[1])))
        self.changes = CHANGES.copy()
        self.changes[0] += more

    def find(self) -> tuple[np.ndarray, np.ndarray]:
        """Hypotheses, indices into ``FACTORS`` or -1 for nonsense [N]; and which soundings the
        bottom, or a multiple, jumped to [N]."""
        if not native.available():
            return self._search()
        return native.find(
            MAX_SKIPPED,
            [
                self.slope, self.usual, self.wide, *self.logs, GRAIN, EXACT, LEAST_STEP, BESIDE,
                NO_READING, LOST, *np.log([NEAR, NO_READINGS]),
            ],
            [
                self.begins, self.changes, self.xy, self.r, self.scatter, self.reach,
                self.evidence, self.as_nonsense, self.as_run,
            ],
        )  # fmt: skip

    def _search(self) -> tuple[np.ndarray, np.ndarray]:
        count, states = self.depth.shape
        cost = np.full((count, states), np.inf)
        skipped = np.zeros((count, states))  # cost if all after a row are nonsense
        origin = np.full((count, states), -1, dtype=np.int64)  # row * states + hypothesis
        jumped = np.zeros((count, states), dtype=bool)
        lead, which = 0.0, np.arange(states)  # cost if all so far are nonsense
        for row, steps in self._ahead():
            first = max(0, row - MAX_SKIPPED)
            costs = (steps.cost + (cost[first:row] + skipped[first:row])[..., None]).reshape(
                -1, states
            )
            jumps, begins = steps.jumps.reshape(-1, states), row < MAX_SKIPPED
            if begins:  # the record may begin here: the first of the costs
                begin = lead - self.begins + self.wide
                begin[RUN] += self.as_run[row] - self.wide
                if self.r[row] <= NO_READING:
                    begin[RUN] += BEGINS[RUN] - np.log(NO_READINGS)
                costs, jumps = np.vstack((begin, costs)), np.vstack((which < 0, jumps))
                lead += self.as_nonsense[row] - self.logs[0 if row == 0 else 1]
            least = costs.argmin(0)
            cost[row] = costs[least, which] - self.evidence[row]
            origin[row] = first * states + least - begins
            jumped[row] = jumps[least, which]
            skipped[first:row] += steps.nonsense
        return self._trace(cost + skipped, origin, jumped)

    def _trace(
        self, total: np.ndarray, origin: np.ndarray, jumped: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        (count, states), jumps = total.shape, np.zeros(len(total), dtype=bool)
        found, first = np.full(count, -1), max(0, count - MAX_SKIPPED)
        at = first * states + int(total[first:].argmin())
        while at >= 0:
            row, state = divmod(at, states)
            found[row], jumps[row] = state, jumped[row, state]
            at = int(origin[row, state])
        return found, jumps

    def _ahead(self) -> Iterator[tuple[int, _Steps]]:
        """Each sounding in turn, counted from 0, and the steps to it, which are weighed to many at
        once."""
        back = np.arange(-MAX_SKIPPED, 0)
        for begin in range(0, len(self.r), AT_ONCE):
            rows = np.arange(begin, min(begin + AT_ONCE, len(self.r)))
            steps = self._steps(rows, back)
            for k, row in enumerate(rows.tolist()):
                yield row, _Steps(*(values[k, max(0, MAX_SKIPPED - row) :] for values in steps))

    def _steps(self, rows: np.ndarray, back: np.ndarray) -> _Steps:
        """The steps to rows [A] from rows + back [A, K]; meaningless before the begin of a line."""
        near = np.maximum(rows[:, None] + back, 0)  # [A, K]
        away = np.hypot(*(self.xy[near] - self.xy[rows, None]).transpose(2, 0, 1))
        gap = (away > self.reach[rows, None])[..., None, None]
        now, past = self.depth[rows][:, None, None, :], self.depth[near][..., None]
        low = np.minimum(now, past)
        same = np.eye(len(FACTORS), dtype=bool)
        grain = np.where(same, GRAIN, EXACT) * low + LEAST_STEP / FACTORS
        away = away[..., None, None]
        cliff = self.logs[2] + np.log(np.maximum(away / self.usual, 1.0))  # a rate by distance
        far = away
        away = np.where(same, away, np.maximum(away + (self.usual * back)[:, None, None], 0.0))
        steps = (self.scatter[rows, None] ** 2 * -back)[..., None, None] + (self.slope * away) ** 2
        variance = grain**2 + steps / FACTORS**2
        smooth = log_normal_density(now - past, variance)
        jump = np.where(gap, 0.0, np.where(same, cliff, -np.inf)) - self.wide
        beside = np.where((now < BESIDE * past) & (past < BESIDE * now), np.log(NEAR), 0.0)
        jump[..., RUN, :RUN] = (beside - self.wide)[..., RUN, :RUN]
        jump[..., :RUN, RUN] = beside[..., :RUN, RUN] - self.as_run[rows, None, None]
        jump[..., RUN, RUN] += self.changes[0, RUN] - self.logs[2]  # another run
        smooth[..., RUN, :RUN] = smooth[..., :RUN, RUN] = -np.inf
        change = np.broadcast_to(self.changes, gap.shape[:2] + self.changes.shape).copy()
        anew = np.maximum(change, self.begins)  # after a gap it may begin as the record does
        change = np.where(gap, anew, change)
        lost = ((now < LOST * past) & (past - now > far)) | (now <= NO_READING)
        lost[..., RUN, :] = lost[..., :RUN] = False
        change[lost] = np.log(NO_READINGS)
        jumps = (jump > smooth) & same & ~gap
        cost = -(np.logaddexp(smooth - np.log(FACTORS), jump) + change)
        return _Steps(cost, jumps, self._nonsense(rows, near, back))

    def _nonsense(self, rows: np.ndarray, near: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Negative log density of rows [A] as nonsense after each at the rows ``near``, which are
        rows + back: [A, K, S]."""
        expected = self.depth[near]
        ratio = self.r[rows, None, None] / expected
        kind = np.where((ratio > BESIDE) | (ratio * BESIDE < 1), 1.0, NEAR)
        first = np.where(back == -1, self.logs[0], self.logs[1])[:, None]
        return self.as_nonsense[rows, None, None] - np.log(kind) - first


def log_normal_density(error: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Logarithm of a normal density, from errors and their variances."""
    return -0.5 * (error**2 / variance + np.log(2 * np.pi * variance))


def false_density(
    false: np.ndarray, bottom: np.ndarray, ranges: np.ndarray, uniform: float
) -> np.ndarray:
    """Density of ranges that are false, per m [N]: uniform, and more where the record's own ranges
    are false more often than bottom, by a smoothed histogram."""
    bins = np.arange(np.log(MIN_RANGE_M) - 1.5 * BIN, np.log(ranges.max()) + 2 * BIN, BIN)
    false, bottom = (
        np.convolve(np.histogram(np.log(of), bins)[0], (0.25, 0.5, 0.25), mode="same")
        for of in (false, bottom)
    )
    share = np.where(false > bottom, false, 0.0) / (PRIOR + false.sum())
    found = np.interp(np.log(ranges), (bins[1:] + bins[:-1]) / 2, share)
    return np.maximum(found / (BIN * ranges), uniform)
