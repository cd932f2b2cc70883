"""What each sounding of a record is: bottom, an echo, or nonsense (Viterbi 1967), line by line.

A sounding is of the bottom; a double or triple echo; part of a smooth run of something else; or
nonsense of any range. Hypotheses persist along a line. The bottom goes on as smoothly as it does
nearby, or jumps at the rate of the record's own cliffs. A multiple begins where half or a third of
its range continues the bottom. What other lines predict counts in proportion to the track's length
in distances to them, because the errors of a prediction are correlated over such a distance.

So nothing is refused because it is unlikely as bottom; another hypothesis must be much likelier.
And a long run is refused only if other passes contradict it: echoes are usually few at a time, and
along a line alone, half of a slope looks like the other's multiple. What would be refused without
that is suspicious. The density of false ranges is learned from the record: a sounder that hears
itself ring, or a layer below the boat, says the same range again and again. Metres everywhere.

The search is in C if that was built (``models/native/hypotheses.c``); otherwise NumPy finds the
same, more slowly.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..models.native.loader import INTEGER, POINTER, REAL, declared, structure
from .lines import LEAST_STEP, OtherLines, gaps, slopes_on, steps_scatter, usual_slope, usual_step

#: Hypotheses with a depth: range divided by 1, 2 or 3; and a smooth false run.
FACTORS = np.array([1.0, 2.0, 3.0, 1.0])
RUN = 3
#: Multiples that are recognised; and what a sounding is that is neither bottom nor a multiple.
MULTIPLES, OTHER_ECHO = (2, 3), 0
#: More soundings than this are a long run, which needs another pass to be false; so are those that
#: go on for more depths of the bottom beside them, and farther than they are deep: no pit is seen
#: that is deeper than wide. Multiples end at one in so many.
LONG, LONG_DEPTHS = 20, 3.0
MAX_SKIPPED = 12  # nonsense between two other soundings, at most
GRAIN = 0.1  # standard deviation of a step along the bottom, relative to the range
EXACT = 0.02  # the same where a multiple begins or ends
WIDTH = 4.0  # ranges that are not predicted lie between 0 and this times those nearby
BESIDE = 1.2  # nonsense differs by this ratio from the bottom
NEAR = 0.002  # density of nonsense near the bottom, relative to elsewhere
REPEATED = 0.5  # share of nonsense after nonsense
NONSENSE = 0.01, 0.5  # limits of the share of nonsense
CLIFFS = 5e-4, 0.03  # limits of the rate of cliffs
ECHOES = 1e-4, 0.03  # limits of the rate at which multiples begin
RUNS = 1e-5  # rate at which smooth runs of something else begin
END = 1 / LONG
#: Log rate at which a sounding begins hypothesis [to] after [from]; and at the begin of a line. A
#: true line that is lost is worse than a false one that stays, which a person sees.
CHANGES = np.log([
    [1.0, 1e-4, 1e-4, RUNS], [END, 1.0, 1e-4, RUNS], [END, 1e-4, 1.0, RUNS], [END, 1e-4, 1e-4, 1.0],
])  # fmt: skip
BEGINS = np.log([1.0, 5e-4, 2.5e-4, 1e-4])
NO_READING = 0.05  # m: no boat floats on this; sounders say so when they hear nothing
#: Share of the depth before it: what is shallower, and nearer than it is shallower, is what a
#: sounder hears of itself when it has lost the bottom.
LOST = 1 / 8
NO_READINGS = 0.01  # rate at which a run of such readings begins
NEVER = 1e6  # log odds of what is ruled out
AT_ONCE = 256  # soundings that NumPy weighs steps to at a time
MIN_RANGE_M = 0.01  # shorter ranges count as this
BIN = 0.1  # width of the classes of ranges, in their logarithm
PRIOR = 20  # soundings for which a uniform density of false ranges stands
LEVEL = 0.1  # of the depth: smaller differences between lines are offsets, not echoes
UNSEEN = 0.01  # share of the bottom that other lines say nothing about: a cliff, a wreck, a pit
#: Log odds by other passes that contradict a run: one in twenty.
CONTRADICTED = np.log(20)
#: And on average for each independent prediction: along a bank all are off to one side.
CLEARLY = np.log(5)
MIN_SOUNDINGS = 20  # a shorter record is not tested
MAX_ROUNDS = 8  # of predicting, and of searching
LEAST_BOTTOM = 0.4  # share of the readings that are bottom, at least, or nothing is refused
AS = {2: "twice the depth beside it", 3: "three times the depth beside it",
      OTHER_ECHO: "unlike the bottom beside it"}  # fmt: skip


#: As in hypotheses.c.
_Paths = structure(
    (INTEGER, "soundings skipped_most"),
    (REAL, "slope usual wide nonsense repeated cliffs grain exact least_step beside no_reading"),
    (REAL, "lost near no_readings"),
    (POINTER, "begins changes xy r scatter reach evidence as_nonsense as_run"),
    (POINTER, "cost skipped origin jumps"),
)
_library = declared("hypotheses", hypotheses_find=(None, ctypes.POINTER(_Paths), POINTER, POINTER))


class Suspicious(NamedTuple):
    """A run that stays, though it is false by its own line, as no other pass contradicts it: its
    rows, in order [n]; 2 or 3 if they may be double or triple echoes, 0 if other false echoes; and
    whether another pass comes near."""

    rows: np.ndarray
    multiple: int
    crossed: bool

    @property
    def sentence(self) -> str:
        """What is suspicious of it, in words."""
        why = "no other pass contradicts it" if self.crossed else "nothing crosses it"
        return f"{AS[self.multiple]}, and {why}"


class Rates(NamedTuple):
    """Of nonsense, cliffs and begins of multiples, per sounding; the ranges that were nonsense,
    runs of something else, and bottom, in m."""

    nonsense: float = 0.1
    cliffs: float = 1e-3
    multiples: float = 1e-4
    nonsense_ranges: np.ndarray = np.empty(0)
    run_ranges: np.ndarray = np.empty(0)
    bottom_ranges: np.ndarray = np.empty(0)


def block_length(xy: np.ndarray, ranges: np.ndarray) -> float:
    """The length along a line of the blocks of soundings that are compared, in m: a quarter of the
    median range [N], or three usual steps between places [N, 2] if that is more."""
    step = np.hypot(*np.diff(xy, axis=0).T)
    quarter = float(np.median(np.maximum(ranges, MIN_RANGE_M))) / 4 if len(ranges) else 0.0
    return max(quarter, 3 * usual_step(step))


def judged(
    xy: np.ndarray,
    z: np.ndarray,
    line: np.ndarray,
    ranges: np.ndarray,
    distance: np.ndarray,
    quick: bool = False,
) -> tuple[np.ndarray, tuple[Suspicious, ...]]:
    """What soundings are: 2 or 3 if double or triple echoes, 0 if other false echoes, else 1 [N];
    and the runs that stay without evidence.

    Args:
        xy: places [N, 2], in the order of the record, in m.
        z: elevations [N], in m.
        line: of each; the soundings of a line are in one row [N].
        ranges: from the surface, or the sounder [N], in m.
        distance: along the record up to each sounding [N], in m.
        quick: whether to predict no more than twice, and once if next to nothing changes.
    """
    xy, z, ranges = (np.asarray(each, dtype=float) for each in (xy, z, ranges))
    if len(z) < MIN_SOUNDINGS or float(np.median(ranges)) <= NO_READING:
        return np.ones(len(z), dtype=np.int64), ()
    record = _Record(xy, z, line, np.maximum(ranges, MIN_RANGE_M), distance)
    return record.verdicts(2 if quick else MAX_ROUNDS, LONG if quick else 0)


@dataclass
class _Record:
    """The soundings of a record, with fields as arguments of ``judged``, and what they are.

    Each search assumes the rates of the one before.
    """

    xy: np.ndarray
    z: np.ndarray
    line: np.ndarray
    r: np.ndarray
    distance: np.ndarray

    def __post_init__(self) -> None:
        xy, ranges = self.xy, self.r
        self.block = block_length(xy, ranges)
        self.others = OtherLines(xy, self.line, self.distance, self.block)
        step = np.hypot(*np.diff(xy, axis=0).T)
        self.share = (np.r_[0.0, step] + np.r_[step, 0.0]) / 2
        self.travelled = np.r_[0.0, np.cumsum(step)]
        self.on, self.usual = slopes_on(xy, ranges), usual_step(step)
        self.reach = gaps(ranges, self.usual)
        self.gap = np.r_[True, step > self.reach[1:]]
        self.wide = float(np.log(WIDTH * np.median(self.r)))
        self.rates = Rates()

    def verdicts(self, rounds: int, settled: int) -> tuple[np.ndarray, tuple[Suspicious, ...]]:
        """See ``judged``; predicts at most ``rounds`` times, until no more than ``settled`` change.

        First runs may be of any length: what is found so is suspected, and predicts no others,
        until nothing changes. Then long ones that no other pass contradicts are bottom.
        """
        nothing, count = np.zeros(len(self.z), dtype=bool), len(self.z)
        found = self._likeliest(~nothing, np.zeros((count, len(FACTORS))), nothing)
        predicts = found == 0
        for rows in self._long_runs(found):  # the track alone is no reason to leave these out
            predicts[rows] = True
        for _ in range(rounds):
            odds, weight, near = self._evidence(predicts)
            suspected = self._likeliest(predicts, odds, nothing)
            before, predicts = predicts, suspected == 0
            if (predicts != before).sum() <= settled:
                break
        found, kept = suspected, nothing.copy()
        for _ in range(MAX_ROUNDS):
            runs = self._unsupported(found, odds, weight)
            if all(kept[rows].all() for rows in runs):
                break
            for rows in runs:  # bottom, or single nonsense
                kept[rows] = True
            found = self._likeliest(found == 0, odds, kept)
        found = found.copy()
        for rows in self._unsupported(found, odds, weight):
            found[rows] = 0
        if (found == 0).sum() < LEAST_BOTTOM * (self.r > NO_READING).sum():
            return np.ones_like(found), ()  # nothing tells what the bottom is
        multiple = np.where((found < 0) | (found == RUN), OTHER_ECHO, found + 1)
        suspicious = []
        stay = (run[multiple[run] == 1] for run in self._long_runs(suspected))
        for rows in filter(len, stay):
            kind = int(np.bincount(suspected[rows] + 1).argmax()) - 1
            factor = OTHER_ECHO if kind in (-1, RUN) else kind + 1
            suspicious.append(Suspicious(rows, factor, bool(near[rows].any())))
        return multiple, tuple(suspicious)

    def _evidence(self, bottom: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What the bottom on other passes says of each sounding: log likelihood of the hypotheses
        [N, S]; the number of independent predictions that it stands for [N]; and whether another
        pass is near [N]."""
        predicted = self.others.predict(self.z, bottom)
        mean, std, bank, away = (values[self.others.of] for values in predicted)
        odds, known = np.zeros((len(mean), len(FACTORS))), np.flatnonzero(np.isfinite(away))
        depth = np.maximum((self.z + self.r - mean)[known], MIN_RANGE_M)
        found = across(self.r[known, None] / FACTORS, depth, std[known], bank[known])
        weight = np.minimum(self.share / (2 * away + self.block), 1)
        odds[known] = weight[known, None] * found
        return odds, weight, away <= 2 * self.block

    def _long_runs(self, found: np.ndarray) -> list[np.ndarray]:
        """Rows of each long run of soundings that are not bottom. Readings of nothing are no
        soundings, and no part of a run."""
        rows = np.flatnonzero(self.r > NO_READING)
        false = found[rows] != 0
        gap = np.diff(np.cumsum(self.gap)[rows]) > 0
        run = np.cumsum(np.r_[True, gap | (np.diff(false) != 0)])[false]
        bottom, rows = rows[~false], rows[false]
        if not (len(rows) and len(bottom)):
            return []
        first = np.flatnonzero(np.r_[True, np.diff(run) != 0])
        end = np.r_[first[1:], len(rows)]
        beside = np.searchsorted(bottom, rows[first])[:, None] + np.array([-1, 0])
        around = bottom[np.clip(beside, 0, len(bottom) - 1)]
        depth, ends = self.r[around], np.column_stack((rows[first], rows[end - 1]))
        length = np.diff(self.travelled[ends])[:, 0]
        # A sounder that lost the bottom: both steps are steep, and no bottom changes as much.
        away = np.abs(self.travelled[around] - self.travelled[ends])
        least, most = (of.reduceat(self.r[rows], first) for of in (np.minimum, np.maximum))
        lost = (most < LOST * depth.min(1)) & (depth - most[:, None] > away).all(1)
        short = lost | (length <= np.maximum(LONG_DEPTHS * depth.mean(1), least))
        long = (end - first > LONG) | ~short
        return [rows[i:j] for i, j in zip(first[long].tolist(), end[long].tolist(), strict=True)]

    def _unsupported(
        self, found: np.ndarray, odds: np.ndarray, weight: np.ndarray
    ) -> list[np.ndarray]:
        """Rows of long runs that no other pass contradicts."""
        own = np.where(found < 0, 0.0, odds[np.arange(len(found)), np.maximum(found, 0)])
        against = own - odds[:, 0]
        least = lambda rows: max(CONTRADICTED, CLEARLY * weight[rows].sum())  # noqa: E731
        return [rows for rows in self._long_runs(found) if against[rows].sum() < least(rows)]

    def _likeliest(self, bottom: np.ndarray, odds: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """The likeliest hypothesis of each sounding, index into ``FACTORS`` or -1 for nonsense [N];
        remembers the rates by it.

        Args:
            bottom: which were bottom before [N].
            odds: log likelihood of the hypotheses by other passes [N, S].
            kept: where a sounding is no part of a run [N], boolean.
        """
        rates, more = self.rates, np.zeros(len(FACTORS))  # multiples beyond the least rate
        more[1:RUN] = np.log(rates.multiples / ECHOES[0])
        changes = CHANGES.copy()
        changes[0] += more
        path = _Path(
            self,
            usual_slope(self.xy, self.r, self.line, bottom),
            np.log([rates.nonsense, REPEATED, rates.cliffs]),
            np.minimum(BEGINS + more, np.maximum(BEGINS, np.log(ECHOES[1]))),
            changes,
            np.hypot(steps_scatter(self.r, bottom), self.on / 2),
            odds - np.outer(kept, np.where(np.arange(len(FACTORS)) > 0, NEVER, 0)),
            *(
                -np.log(false_density(false, rates.bottom_ranges, self.r, np.exp(-self.wide)))
                for false in (rates.nonsense_ranges, rates.run_ranges)
            ),
        )
        found, jumped = path.in_c() if _library is not None else path.in_numpy()
        used = found[found >= 0]
        multiple, usual = (used > 0) & (used < RUN), max(1, len(used))
        begun = (multiple & np.r_[True, ~multiple[:-1]]).sum() + 0.5
        starts = (found[1:] < 0) & (found[:-1] >= 0)  # as the share of nonsense after others
        self.rates = Rates(
            float(np.clip((starts.sum() + 1) / (usual + 20), *NONSENSE)),
            float(np.clip((jumped.sum() + 0.5) / (usual + 1000), *CLIFFS)),
            float(np.clip(begun / (usual + 1000), *ECHOES)),
            self.r[found < 0],
            self.r[(found == RUN) & (self.r > NO_READING)],
            self.r[found == 0],
        )
        return found


class _Path(NamedTuple):
    """The densities of a path through a record: the bottom goes on in a turn.

    Attributes:
        slope: standard deviation of the bottom's slope.
        logs: of the rates of nonsense, of nonsense after nonsense, and of cliffs [3].
        begins, changes: as ``BEGINS`` [S] and ``CHANGES`` [S, S].
        scatter: standard deviation of the steps around each sounding [N].
        evidence: log likelihood of each hypothesis by other lines [N, S].
        as_nonsense, as_run: negative log density of each sounding as such [N].
    """

    of: _Record
    slope: float
    logs: np.ndarray
    begins: np.ndarray
    changes: np.ndarray
    scatter: np.ndarray
    evidence: np.ndarray
    as_nonsense: np.ndarray
    as_run: np.ndarray

    def in_c(self) -> tuple[np.ndarray, np.ndarray]:
        """The best hypotheses, indices into ``FACTORS`` or -1 for nonsense [N]; and which soundings
        the bottom, or a multiple, jumped to [N]."""
        of, shape = self.of, self.evidence.shape
        given = self.begins, self.changes, of.xy, of.r, self.scatter, of.reach, self.evidence
        arrays = [np.ascontiguousarray(a) for a in (*given, self.as_nonsense, self.as_run)]
        arrays += [np.empty(shape, kind) for kind in (float, float, np.int64, np.uint8)]  # room
        found, jumped = np.empty(shape[0], np.int64), np.empty(shape[0], bool)
        paths = _Paths(
            shape[0], MAX_SKIPPED, self.slope, of.usual, of.wide, *self.logs, GRAIN, EXACT,
            LEAST_STEP, BESIDE, NO_READING, LOST, *np.log([NEAR, NO_READINGS]),
            *(array.ctypes.data for array in arrays),
        )  # fmt: skip
        _library.hypotheses_find(paths, found.ctypes.data, jumped.ctypes.data)
        return found, jumped

    def in_numpy(self) -> tuple[np.ndarray, np.ndarray]:
        """The same."""
        r, (count, states) = self.of.r, self.evidence.shape
        cost = np.full((count, states), np.inf)
        skipped = np.zeros((count, states))  # cost if all after a row are nonsense
        origin = np.full((count, states), -1, dtype=np.int64)  # row * states + hypothesis
        jumped = np.zeros((count, states), dtype=bool)
        lead, which = 0.0, np.arange(states)  # cost if all so far are nonsense
        for row in range(count):
            if row % AT_ONCE == 0:
                ahead = self._steps(np.arange(row, min(row + AT_ONCE, count)))
            first = max(0, row - MAX_SKIPPED)
            step, jumps, nonsense = (
                each[row % AT_ONCE, MAX_SKIPPED - row + first :] for each in ahead
            )
            costs = (step + (cost[first:row] + skipped[first:row])[..., None]).reshape(-1, states)
            jumps, begins = jumps.reshape(-1, states), row < MAX_SKIPPED
            if begins:  # the record may begin here: the first of the costs
                begin = lead - self.begins + self.of.wide
                begin[RUN] += self.as_run[row] - self.of.wide
                if r[row] <= NO_READING:
                    begin[RUN] += BEGINS[RUN] - np.log(NO_READINGS)
                costs, jumps = np.vstack((begin, costs)), np.vstack((which < 0, jumps))
                lead += self.as_nonsense[row] - self.logs[0 if row == 0 else 1]
            least = costs.argmin(0)
            cost[row] = costs[least, which] - self.evidence[row]
            origin[row] = first * states + least - begins
            jumped[row] = jumps[least, which]
            skipped[first:row] += nonsense
        found, jumps, first = np.full(count, -1), np.zeros(count, bool), max(0, count - MAX_SKIPPED)
        at = first * states + int((cost + skipped)[first:].argmin())
        while at >= 0:
            row, state = divmod(at, states)
            found[row], jumps[row], at = state, jumped[row, state], int(origin[row, state])
        return found, jumps

    def _steps(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps to rows [A], each from the ``MAX_SKIPPED`` before it [K], between hypotheses [S]:
        negative log density, and whether it is a jump [A, K, S, S]; the row's as nonsense, negative
        [A, K, S]. Meaningless before the begin of the record."""
        of, back, same = self.of, np.arange(-MAX_SKIPPED, 0), np.eye(len(FACTORS), dtype=bool)
        near, wide = np.maximum(rows[:, None] + back, 0), of.wide  # [A, K]
        away = np.hypot(*(of.xy[near] - of.xy[rows, None]).transpose(2, 0, 1))[..., None, None]
        gap = away > of.reach[rows, None, None, None]
        now, past = of.r[rows, None, None, None] / FACTORS, (of.r[near][..., None] / FACTORS)
        past = past[..., None]
        grain = np.where(same, GRAIN, EXACT) * np.minimum(now, past) + LEAST_STEP / FACTORS
        cliff = self.logs[2] + np.log(np.maximum(away / of.usual, 1.0))  # a rate by distance
        aside = np.maximum(away + (of.usual * back)[:, None, None], 0.0)
        steps = (self.scatter[rows, None] ** 2 * -back)[..., None, None]
        steps = steps + (self.slope * np.where(same, away, aside)) ** 2
        variance = grain**2 + steps / FACTORS**2
        smooth = -0.5 * ((now - past) ** 2 / variance + np.log(2 * np.pi * variance))
        jump = np.where(gap, 0.0, np.where(same, cliff, -np.inf)) - wide
        beside = np.where((now < BESIDE * past) & (past < BESIDE * now), np.log(NEAR), 0.0)
        jump[..., RUN, :RUN] = (beside - wide)[..., RUN, :RUN]
        jump[..., :RUN, RUN] = beside[..., :RUN, RUN] - self.as_run[rows, None, None]
        jump[..., RUN, RUN] += self.changes[0, RUN] - self.logs[2]  # another run
        smooth[..., RUN, :RUN] = smooth[..., :RUN, RUN] = -np.inf
        # After a gap it may begin as the record does.
        change = np.where(gap, np.maximum(self.changes, self.begins), self.changes)
        lost = ((now < LOST * past) & (past - now > away)) | (now <= NO_READING)
        lost[..., RUN, :] = lost[..., :RUN] = False
        change[lost] = np.log(NO_READINGS)
        cost = -(np.logaddexp(smooth - np.log(FACTORS), jump) + change)
        ratio = of.r[rows, None, None] / past[..., 0]
        kind = np.where((ratio > BESIDE) | (ratio * BESIDE < 1), 1.0, NEAR)
        after = np.where(back == -1, self.logs[0], self.logs[1])[:, None]
        nonsense = self.as_nonsense[rows, None, None] - np.log(kind) - after
        return cost, (jump > smooth) & same & ~gap, nonsense


def across(depth: np.ndarray, mean: np.ndarray, std: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """Log likelihood of each hypothesis, with its depth [N, S], by what one independent prediction
    says: relative to a range that has nothing to do with the bottom; but a smooth run of something
    else must explain its ranges better than a bank that the other lines do not see.

    Args:
        depth: by hypothesis [N, S], in m.
        mean: of the ranges, as other lines predict it [N], in m.
        std: its standard deviation [N].
        bank: the standard deviation that a bank adds [N].
    """
    mean, std, bank = (each[:, None] for each in (mean, std, bank))
    std = np.hypot(std, LEVEL * mean)
    scale = np.maximum(mean, depth[:, :1]) / 2 + std

    def density(error: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Of Student's t with 4 degrees of freedom."""
        return -np.log(scale) - 2.5 * np.log1p((error / scale) ** 2 / 4)

    error = depth[:, :1] - mean
    found = density(depth - mean, std) - np.log(FACTORS) - density(error, scale)
    on_bank = density(error, np.hypot(std, bank)) - density(error, scale)
    found, on_bank = np.logaddexp(found, np.log(UNSEEN)), np.logaddexp(on_bank, np.log(UNSEEN))
    found[:, RUN] = np.minimum(found[:, 0] - on_bank[:, 0], 0.0)
    return found


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
