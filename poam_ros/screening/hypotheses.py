"""The likeliest hypothesis of each sounding of a record (Viterbi 1967), line by line.

A sounding is of the bottom; a double or triple echo; part of a smooth run of something else; or
nonsense of any range. Hypotheses persist along a line. The bottom goes on as smoothly as it does
nearby, or jumps at the rate of the record's own cliffs. A multiple begins where half or a third of
its range continues the bottom. What other lines predict counts in proportion to the track's length
in distances to them, because the errors of a prediction are correlated over such a distance.

So nothing is refused because it is unlikely as bottom; another hypothesis must be much likelier.
The density of false ranges is learned from the record: a sounder that hears itself ring, or a
layer below the boat, says the same range again and again. Metres everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .densities import false_density, log_normal_density
from .lines import GAP_STEPS, LEAST_STEP, usual_step

#: Hypotheses with a depth: range divided by 1, 2 or 3; and a smooth false run.
FACTORS = np.array([1.0, 2.0, 3.0, 1.0])
RUN = 3
#: Multiples that are recognised.
MULTIPLES = (2, 3)
#: What a sounding is that is neither bottom nor a multiple.
OTHER_ECHO = 0

MAX_SKIPPED = 12  # nonsense between two other soundings, at most
GRAIN = 0.1  # standard deviation of a step along the bottom, relative to the range
EXACT = 0.02  # the same where a multiple begins or ends
MULTIPLE_WITHIN = 0.1  # share of a ratio's value by which that of a multiple differs, at most
LEVEL = 0.1  # of the depth: smaller differences between lines are offsets, not echoes
UNSEEN = 0.01  # share of the bottom that other lines say nothing about: a cliff, a wreck, a pit
WIDTH = 4.0  # ranges that are not predicted lie between 0 and this times those nearby
CLIFFS = 5e-4, 0.03  # limits of the rate of cliffs
RETURNS = 0.01  # share of jumps up after which the bottom falls to where it was: a wreck, a rock
ECHOES = 1e-4, 0.03  # limits of the rate at which multiples begin
RUNS = 1e-5  # rate at which smooth runs of something else begin
#: Relative rate of those deeper than the bottom: echoes of something else are early, and late ones
#: are multiples, so such a run may be a pit.
DEEPER = 0.1
NONSENSE = 0.01, 0.5  # limits of the share of nonsense
REPEATED = 0.5  # share of nonsense after nonsense
BESIDE = 1.2  # nonsense differs by this ratio from the bottom
NEAR = 0.002  # density of nonsense near the bottom, relative to elsewhere
#: Log rate at which a sounding begins hypothesis [to] after [from]; at the begin of a line; and
#: after a gap in a dense line, where the sounder may have lost the bottom, and found an echo. A
#: true line that is lost is worse than a false one that stays, which a person sees.
CHANGES = np.log(
    [
        [1.0, 1e-4, 1e-4, RUNS],
        [0.01, 1.0, 1e-4, RUNS],
        [0.01, 1e-4, 1.0, RUNS],
        [0.01, 1e-4, 1e-4, 1.0],
    ]
)
BEGINS = np.log([1.0, 5e-4, 2.5e-4, 1e-4])
AFTER_GAP = np.log([1.0, 2e-3, 1e-3, 1e-4])
NO_READING = 0.05  # m: no boat floats on this; sounders say so when they hear nothing
NO_READINGS = 0.01  # rate at which a run of these begins
#: A piece of a line between gaps is none of the bottom if it is deeper by this ratio than all that
#: other lines confirm, and shorter than this many times its depth.
LONE_RATIO, LONE_LENGTH = 1.25, 3.0
OBJECT_LENGTH = 60.0  # m: a wreck or a rock is no longer
AT_ONCE = 256  # soundings that steps are weighed to at a time


class Forecast(NamedTuple):
    """What other lines say of the ranges [N]: mean, standard deviation, and that which a bank adds,
    in m, and the number of independent predictions that a sounding stands for; 0: none."""

    mean: np.ndarray
    std: np.ndarray
    bank: np.ndarray
    weight: np.ndarray


class Rates(NamedTuple):
    """Of nonsense, cliffs and begins of multiples, per sounding; the ranges that were nonsense,
    runs of something else, and bottom, in m."""

    nonsense: float
    cliffs: float
    multiples: float
    nonsense_ranges: np.ndarray
    run_ranges: np.ndarray
    bottom_ranges: np.ndarray


def likeliest(
    xy: np.ndarray,
    ranges: np.ndarray,
    line: np.ndarray,
    forecast: Forecast,
    scatter: np.ndarray,
    slope: float,
    rates: Rates,
    confirmed: float,
) -> tuple[np.ndarray, Rates]:
    """The likeliest hypothesis of each sounding, and the rates by it.

    Args:
        xy: places [N, 2] in the order of the record.
        ranges: measured there, at least ``MIN_RANGE_M`` [N].
        line: of each, joined (``join_lines``); the soundings of a line are in one row [N].
        forecast: by other lines.
        scatter: standard deviation of the steps around each sounding [N].
        slope: standard deviation of the bottom's slope.
        rates: assumed.
        confirmed: the depth to which other lines confirm the bottom.

    Returns:
        Index into ``FACTORS``, or -1 for nonsense [N].
    """
    begin = np.r_[0, np.flatnonzero(np.diff(line)) + 1]
    length = np.diff(np.r_[begin, len(line)])
    order = np.argsort(-length, kind="stable")
    paths = _Paths(xy, ranges, forecast, scatter, slope, rates, begin[order], length[order])
    found, jumped, rates = paths.find()
    found[_beside_object(xy, ranges, line, found, jumped)] = 0
    step = np.hypot(*np.diff(xy, axis=0).T)
    cuts = np.flatnonzero((np.diff(line) != 0) | (step > paths.reach[1:])) + 1
    for piece in np.split(np.arange(len(line)), cuts):
        bottom = piece[found[piece] == 0]
        depth = float(np.median(ranges[bottom])) if len(bottom) else 0.0
        if depth > LONE_RATIO * confirmed and step[piece[:-1]].sum() < LONE_LENGTH * depth:
            found[bottom] = RUN
    return found, rates


class _Steps(NamedTuple):
    """Steps to soundings [A], each from several before it [K], between hypotheses [S]: negative log
    density, without ``_Paths._add_returns``, and whether it is a jump of the bottom [A, K, S, S];
    from bottom to bottom the log densities of a usual step, of a jump, and of no other hypothesis
    [A, K, 3]; whether there is a gap [A, K]; the sounding's as nonsense, negative [A, K, S]."""

    cost: np.ndarray
    jumps: np.ndarray
    bottom: np.ndarray
    gap: np.ndarray
    nonsense: np.ndarray


class _Paths:
    """The best paths through all lines at once, the longest line first."""

    def __init__(
        self,
        xy: np.ndarray,
        ranges: np.ndarray,
        forecast: Forecast,
        scatter: np.ndarray,
        slope: float,
        rates: Rates,
        begin: np.ndarray,
        length: np.ndarray,
    ) -> None:
        self.xy, self.r, self.scatter, self.slope, self.rates = xy, ranges, scatter, slope, rates
        self.begin, self.length = begin, length
        self.depth = ranges[:, None] / FACTORS  # [N, S]
        self.evidence = _across(self.depth, forecast)
        step = np.hypot(*np.diff(xy, axis=0).T)
        self.usual = usual_step(step)
        self.reach = np.maximum(ranges / 2, GAP_STEPS * self.usual)
        self.wide = float(np.log(WIDTH * np.median(ranges)))
        self.as_nonsense, self.as_run = (
            -np.log(false_density(false, rates.bottom_ranges, ranges, np.exp(-self.wide)))
            for false in (rates.nonsense_ranges, rates.run_ranges)
        )  # [N]
        self.logs = np.log([rates.nonsense, REPEATED, rates.cliffs])
        more = np.zeros(len(FACTORS))  # multiples beyond the least rate
        more[1:RUN] = np.log(rates.multiples / ECHOES[0])
        dense = self.usual <= np.median(ranges) / 2
        self.begins, self.after_gap = (
            np.minimum(each + more, np.maximum(each, np.log(ECHOES[1])))
            for each in (BEGINS, AFTER_GAP if dense else BEGINS)
        )
        self.changes = CHANGES.copy()
        self.changes[0] += more

    def find(self) -> tuple[np.ndarray, np.ndarray, Rates]:
        """Hypotheses [N], which soundings the bottom jumped to [N], and rates."""
        lines, most, states = len(self.begin), int(self.length[0]), len(FACTORS)
        cost = np.full((lines, most, states), np.inf)
        skipped = np.zeros((lines, most, states))  # cost if all after a row are nonsense
        origin = np.full((lines, most, states), -1, dtype=np.int64)  # row * states + hypothesis
        jumped = np.zeros((lines, most, states), dtype=bool)
        below = np.full((lines, most), -1, dtype=np.int64)  # row before the bottom jumped up
        fell = -1  # the last column of ``below`` with such a row
        lead = np.zeros(lines)  # cost if all of a line so far are nonsense
        for t, rows, steps in self._ahead():
            active, first = len(rows), max(0, t - MAX_SKIPPED)
            recent = slice(active), slice(first, t)
            if fell >= first:
                near = rows[:, None] + np.arange(first - t, 0)
                self._add_returns(steps, rows, near, below[recent])
            costs = steps.cost + (cost[recent] + skipped[recent])[..., None]
            costs, jumps = (each.reshape(active, -1, states) for each in (costs, steps.jumps))
            begins = t < MAX_SKIPPED  # a line may begin here: the first of the costs
            if begins:
                begin = lead[:active, None] - self.begins + self.wide
                begin[:, RUN] += self.as_run[rows] - self.wide
                begin[self.r[rows] <= NO_READING, RUN] += BEGINS[RUN] - np.log(NO_READINGS)
                costs = np.concatenate((begin[:, None], costs), axis=1)
                jumps = np.pad(jumps, ((0, 0), (1, 0), (0, 0)))
                lead[:active] += self.as_nonsense[rows] - self.logs[0 if t == 0 else 1]
            which = costs.argmin(1)
            least = np.arange(active)[:, None], which, np.arange(states)
            cost[:active, t] = costs[least] - self.evidence[rows]
            origin[:active, t] = first * states + which - begins
            jumped[:active, t] = leap = jumps[least]
            if fell >= first or leap[:, 0].any():
                past, state = np.divmod(origin[:active, t, 0], states)
                known = below[np.arange(active), past]
                known = self._below(rows, rows + past - t, leap[:, 0], known)
                below[:active, t] = np.where(state == 0, known, -1)
                if (below[:active, t] >= 0).any():
                    fell = t
            skipped[recent] += steps.nonsense
        return self._trace(cost + skipped, origin, jumped)

    def _trace(
        self, total: np.ndarray, origin: np.ndarray, jumped: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, Rates]:
        found, states = np.full(len(self.r), -1), len(FACTORS)
        cliffs = np.zeros(len(self.r), dtype=bool)
        for i, (begin, length) in enumerate(zip(self.begin, self.length, strict=True)):
            first = max(0, length - MAX_SKIPPED)
            at = first * states + int(total[i, first:length].argmin())
            while at >= 0:
                row, state = divmod(at, states)
                found[begin + row] = state
                cliffs[begin + row] = jumped[i, row, state]
                at = int(origin[i, row, state])
        kept = found[found >= 0]
        used, multiple = max(1, len(kept)), (kept > 0) & (kept < RUN)
        # As many begins as runs, or as runs of the usual length: the fewer, to lose no true lines.
        begins = (multiple & np.r_[True, ~multiple[:-1]]).sum() + 0.5
        begun = min(begins, np.exp(CHANGES[1, 0]) * multiple.sum())
        starts = (found[1:] < 0) & (found[:-1] >= 0)  # as the share of nonsense after others
        return (
            found,
            cliffs,
            Rates(
                float(np.clip((starts.sum() + 1) / (used + 20), *NONSENSE)),
                float(np.clip((cliffs.sum() + 0.5) / (used + 1000), *CLIFFS)),
                float(np.clip(begun / (used + 1000), *ECHOES)),
                self.r[found < 0],
                self.r[(found == RUN) & (self.r > NO_READING)],
                self.r[found == 0],
            ),
        )

    def _ahead(self) -> Iterator[tuple[int, np.ndarray, _Steps]]:
        """Each sounding of the lines in turn, counted from 0: its rows [A], and the steps to them.

        The steps to many rows are weighed at once, as few lines are long."""
        most, back, done = int(self.length[0]), np.arange(-MAX_SKIPPED, 0), 0
        while done < most:
            count = max(1, AT_ONCE // int((self.length > done).sum()))
            turns = range(done, min(most, done + count))
            rows = [self.begin[self.length > t] + t for t in turns]
            steps, first = self._steps(np.concatenate(rows), back), 0
            for t, own in zip(turns, rows, strict=True):
                part = slice(first, first + len(own)), slice(max(0, MAX_SKIPPED - t), None)
                yield t, own, _Steps(*(values[part] for values in steps))
                first += len(own)
            done = turns.stop

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
        away = np.where(same, away, np.maximum(away + (self.usual * back)[:, None, None], 0.0))
        steps = (self.scatter[rows, None] ** 2 * -back)[..., None, None] + (self.slope * away) ** 2
        variance = grain**2 + steps / FACTORS**2
        smooth = log_normal_density(now - past, variance)
        jump = np.where(gap, 0.0, np.where(same, cliff, -np.inf)) - self.wide
        beside = np.where((now < BESIDE * past) & (past < BESIDE * now), np.log(NEAR), 0.0)
        jump[..., RUN, :RUN] = (beside - self.wide)[..., RUN, :RUN]
        deeper = np.where(now > past, np.log(DEEPER), 0.0)
        jump[..., :RUN, RUN] = (beside + deeper)[..., :RUN, RUN] - self.as_run[rows, None, None]
        jump[..., RUN, RUN] += self.changes[0, RUN] - self.logs[2]  # another run
        smooth[..., RUN, :RUN] = smooth[..., :RUN, RUN] = -np.inf
        change = np.where(gap, np.maximum(self.changes, self.after_gap), self.changes)
        none = self.r[rows] <= NO_READING
        change[none, :, :RUN, RUN] = np.log(NO_READINGS)
        jumps = (jump > smooth) & same & ~gap
        cost = -(np.logaddexp(smooth - np.log(FACTORS), jump) + change)
        bottom = np.stack([each[..., 0, 0] for each in (smooth, jump, change)], axis=2)
        return _Steps(cost, jumps, bottom, gap[..., 0, 0], self._nonsense(rows, near, back))

    def _below(
        self, rows: np.ndarray, past: np.ndarray, jumped: np.ndarray, known: np.ndarray
    ) -> np.ndarray:
        """The row before the bottom jumped up to where it is at rows [A]; -1: none.

        Args:
            rows: of the bottom [A].
            past: of that before it [A].
            jumped: whether it jumped between them [A].
            known: the same for ``past`` [A].
        """
        rise = self.r[past] / self.r[rows]
        up = (rise > 1) & ~_is_multiple(rise)  # two or three times as deep: an echo has ended
        return np.where(jumped, np.where(up, past, -1), known)

    def _add_returns(
        self, steps: _Steps, rows: np.ndarray, near: np.ndarray, below: np.ndarray
    ) -> None:
        """Let the bottom at rows [A] fall from an object, with the rows ``near``, to the bottom
        before it, with the rows ``below`` [A, K]; -1: there is none."""
        now, past = self.r[rows, None], self.r[below]
        away = np.hypot(*(self.xy[below] - self.xy[rows, None]).transpose(2, 0, 1))
        variance = (GRAIN * np.minimum(now, past) + LEAST_STEP) ** 2 + (self.slope * away) ** 2
        falls = (below >= 0) & (now > self.r[near]) & (away < OBJECT_LENGTH)
        density = log_normal_density(now - past, variance)
        smooth, jump, change = np.moveaxis(steps.bottom, 2, 0)
        jump = np.logaddexp(jump, np.where(falls, np.log(RETURNS) + density, -np.inf))
        steps.cost[..., 0, 0] = -(np.logaddexp(smooth, jump) + change)
        steps.jumps[..., 0, 0] = (jump > smooth) & ~steps.gap

    def _nonsense(self, rows: np.ndarray, near: np.ndarray, back: np.ndarray) -> np.ndarray:
        """Negative log density of rows [A] as nonsense after each at the rows ``near``, which are
        rows + back: [A, K, S]."""
        expected = self.depth[near]
        ratio = self.r[rows, None, None] / expected
        kind = np.where((ratio > BESIDE) | (ratio * BESIDE < 1), 1.0, NEAR)
        first = np.where(back == -1, self.logs[0], self.logs[1])[:, None]
        return self.as_nonsense[rows, None, None] - np.log(kind) - first


def _beside_object(
    xy: np.ndarray, ranges: np.ndarray, line: np.ndarray, found: np.ndarray, jumped: np.ndarray
) -> np.ndarray:
    """Rows of nonsense between a jump of the bottom up and the next one down that is as deep as the
    bottom before or after them: either it or the object may be false, such as a school of fish."""
    bottom = np.flatnonzero(found == 0)
    past, now = bottom[:-1], bottom[1:]
    here = jumped[now] & (line[now] == line[past])
    past, now = past[here], now[here]
    up = np.flatnonzero(ranges[now] < ranges[past])
    up = up[up + 1 < len(now)]
    up = up[(ranges[now[up + 1]] > ranges[past[up + 1]]) & (line[past[up]] == line[now[up + 1]])]
    rows = [np.empty(0, dtype=np.int64)]
    for first, last in zip(past[up].tolist(), now[up + 1].tolist(), strict=True):
        ends = ranges[[first, last]]
        if np.hypot(*(xy[last] - xy[first])) < LONE_LENGTH * ends.max():
            between = np.arange(first + 1, last)
            as_deep = np.abs(ranges[between, None] - ends) <= GRAIN * ends
            rows.append(between[(found[between] < 0) & as_deep.any(1)])
    return np.concatenate(rows)


def _across(depth: np.ndarray, forecast: Forecast) -> np.ndarray:
    """Log likelihood of each hypothesis [N, S] by other lines, relative to a range that has nothing
    to do with the bottom; but a smooth run of something else must explain its ranges better than a
    bank that the other lines do not see."""
    mean, std, bank, weight = (each[:, None] for each in forecast)
    std = np.hypot(std, LEVEL * mean)
    scale = np.maximum(mean, depth[:, :1]) / 2 + std

    def density(error: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Of Student's t with 4 degrees of freedom."""
        return -np.log(scale) - 2.5 * np.log1p((error / scale) ** 2 / 4)

    found = density(depth - mean, std) - np.log(FACTORS) - density(depth[:, :1] - mean, scale)
    error = depth[:, :1] - mean
    on_bank = density(error, np.hypot(std, bank)) - density(error, scale)
    found, on_bank = np.logaddexp(found, np.log(UNSEEN)), np.logaddexp(on_bank, np.log(UNSEEN))
    found[:, RUN] = np.minimum(found[:, 0] - on_bank[:, 0], 0.0)
    return weight * found


def _is_multiple(ratio: np.ndarray) -> np.ndarray:
    """Which ratios of ranges [A] are those of a double or triple echo to the bottom."""
    return (np.abs(ratio[:, None] / np.array(MULTIPLES) - 1) <= MULTIPLE_WITHIN).any(1)
