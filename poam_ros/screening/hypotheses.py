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
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .evidence import OtherLines
from .lines import gaps, slopes_on, steps_scatter, usual_slope, usual_step
from .paths import (
    ECHOES,
    FACTORS,
    LONG,
    LONG_DEPTHS,
    LOST,
    MIN_RANGE_M,
    NO_READING,
    RUN,
    Path,
    Rates,
)  # fmt: skip

#: What a sounding is that is neither bottom nor a multiple.
OTHER_ECHO = 0

LEVEL = 0.1  # of the depth: smaller differences between lines are offsets, not echoes
UNSEEN = 0.01  # share of the bottom that other lines say nothing about: a cliff, a wreck, a pit
#: Log odds by other passes that contradict a run, or agree with a part of it: what one of them says
#: at most of its bottom.
CONTRADICTED = -np.log(UNSEEN)
#: And on average for each independent prediction: along a bank all are off to one side. Without it
#: 480 lakes (seeds 9000 to 9239, 41000 to 41239) lose twice as many true soundings.
CLEARLY = np.log(5)
CLIFFS = 5e-4, 0.03  # limits of the rate of cliffs
NONSENSE = 0.01, 0.5  # limits of the share of nonsense
FIRST_RATES = Rates(0.1, 1e-3, 1e-4, *(np.empty(0) for _ in range(3)))
MIN_SOUNDINGS = 20  # a shorter record is not tested
MAX_ROUNDS = 8  # of predicting, and of searching
LEAST_BOTTOM = 0.4  # share of the readings that are bottom, at least, or nothing is refused
AS = {2: "twice the depth beside it", 3: "three times the depth beside it",
      OTHER_ECHO: "unlike the bottom beside it"}  # fmt: skip


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
    """What soundings are: the factor of each [N], and the runs that stay without evidence.

    Args:
        xy: places [N, 2], in the order of the record, in m.
        z: elevations [N], in m.
        line: of each [N].
        ranges: from the surface, or the sounder [N], in m.
        distance: along the record up to each sounding [N], in m.
        quick: whether to predict no more than twice, and once if next to nothing changes.
    """
    if len(z) < MIN_SOUNDINGS or float(np.median(ranges)) <= NO_READING:
        return np.ones(len(z), dtype=np.int64), ()
    found = Hypotheses(xy, z, line, np.maximum(ranges, MIN_RANGE_M), distance)
    return found.verdicts(quick)


class Suspicious(NamedTuple):
    """A run that stays, though it is false by its own line: no other pass contradicts it.

    Attributes:
        rows: of the soundings, in order [n].
        multiple: 2 or 3 if they may be double or triple echoes, 0 if other false echoes.
        crossed: whether another pass comes near.
    """

    rows: np.ndarray
    multiple: int
    crossed: bool

    @property
    def sentence(self) -> str:
        """What is suspicious of it, in words."""
        why = "no other pass contradicts it" if self.crossed else "nothing crosses it"
        return f"{AS[self.multiple]}, and {why}"


class Evidence(NamedTuple):
    """What other passes say of each sounding: log likelihood of the hypotheses [N, S]; the number
    of independent predictions that it stands for [N]; and whether another pass is near [N]."""

    odds: np.ndarray
    weight: np.ndarray
    near: np.ndarray

    @classmethod
    def none(cls, count: int) -> Evidence:
        """Without other passes."""
        nothing = np.zeros(count)
        return cls(np.zeros((count, len(FACTORS))), nothing, nothing > 0)


class Hypotheses:
    """The soundings of a record, and what they are.

    Args:
        xy: places [N, 2], in the order of the record, in m.
        z: elevations [N], in m.
        line: of each; the soundings of a line are in one row [N].
        ranges: from the surface, or the sounder; at least ``MIN_RANGE_M`` [N], in m.
        distance: along the record up to each sounding [N], in m.
    """

    def __init__(
        self,
        xy: np.ndarray,
        z: np.ndarray,
        line: np.ndarray,
        ranges: np.ndarray,
        distance: np.ndarray,
    ) -> None:
        self._xy, self._z, self._line, self._ranges = xy, z, line, ranges
        self._block = block_length(xy, ranges)
        self._others = OtherLines(xy, line, distance, self._block)
        step = np.hypot(*np.diff(xy, axis=0).T)
        self._share = (np.r_[0.0, step] + np.r_[step, 0.0]) / 2
        self._travelled = np.r_[0.0, np.cumsum(step)]
        self._on = slopes_on(xy, ranges)
        self._gap = np.r_[True, step > gaps(ranges, usual_step(step))[1:]]

    def verdicts(self, quick: bool) -> tuple[np.ndarray, tuple[Suspicious, ...]]:
        """The factor of each sounding [N], see ``Compared.multiple``; and the runs that stay
        without evidence.

        First runs may be of any length: what is found so is suspected, and predicts no others,
        until nothing changes. Then long ones that no other pass contradicts are bottom. ``quick``:
        see ``judged``.
        """
        nothing = np.zeros(len(self._z), dtype=bool)
        found, rates = self._likeliest(~nothing, Evidence.none(len(nothing)), FIRST_RATES, nothing)
        predicts = found == 0
        for rows in self._long_runs(found):  # the track alone is no reason to leave these out
            predicts[rows] = True
        for _ in range(2 if quick else MAX_ROUNDS):
            evidence = self._evidence(predicts)
            suspected, rates = self._likeliest(predicts, evidence, rates, nothing)
            before, predicts = predicts, suspected == 0
            if (predicts != before).sum() <= (LONG if quick else 0):
                break
        found = self._supported(suspected, evidence, rates)
        if (found == 0).sum() < LEAST_BOTTOM * (self._ranges > NO_READING).sum():
            return np.ones_like(found), ()  # nothing tells what the bottom is
        multiple = np.where((found < 0) | (found == RUN), OTHER_ECHO, found + 1)
        return multiple, tuple(self._suspicious(suspected, multiple, evidence.near))

    def _supported(self, found: np.ndarray, evidence: Evidence, rates: Rates) -> np.ndarray:
        """What is likeliest if long runs that no other pass contradicts are bottom, or single
        nonsense [N]."""
        kept = np.zeros(len(found), dtype=bool)
        for _ in range(MAX_ROUNDS):
            runs = self._unsupported(found, evidence)
            if all(kept[rows].all() for rows in runs):
                break
            for rows in runs:
                kept[rows] = True
            found, rates = self._likeliest(found == 0, evidence, rates, kept)
        for rows in self._unsupported(found, evidence):
            found[rows] = 0
        return found

    def _evidence(self, bottom: np.ndarray) -> Evidence:
        """What the bottom on other lines says."""
        mean, std, bank, away = (
            values[self._others.of] for values in self._others.predict(self._z, bottom)
        )
        odds, known = np.zeros((len(mean), len(FACTORS))), np.flatnonzero(np.isfinite(away))
        depth = np.maximum((self._z + self._ranges - mean)[known], MIN_RANGE_M)
        found = across(self._ranges[known, None] / FACTORS, depth, std[known], bank[known])
        weight = np.minimum(self._share / (2 * away + self._block), 1)
        odds[known] = weight[known, None] * found
        return Evidence(odds, weight, away <= 2 * self._block)

    def _likeliest(
        self,
        bottom: np.ndarray,
        evidence: Evidence,
        rates: Rates,
        kept: np.ndarray,
    ) -> tuple[np.ndarray, Rates]:
        """The likeliest hypothesis of each sounding, index into ``FACTORS`` or -1 for nonsense [N],
        and the rates by it.

        Args:
            bottom: which were bottom before [N].
            evidence: of other passes.
            rates: assumed.
            kept: where a sounding is no part of a run [N], boolean.
        """
        scatter = np.hypot(steps_scatter(self._ranges, bottom), self._on / 2)
        slope = usual_slope(self._xy, self._ranges, self._line, bottom)
        found, jumped = Path(
            self._xy, self._ranges, evidence.odds, kept, scatter, slope, rates
        ).find()
        return found, _rates(self._ranges, found, jumped)

    def _long_runs(self, found: np.ndarray) -> list[np.ndarray]:
        """Rows of each long run of soundings that are not bottom.

        Readings of nothing are no soundings, and no part of a run."""
        rows = np.flatnonzero(self._ranges > NO_READING)
        false = found[rows] != 0
        gap = np.diff(np.cumsum(self._gap)[rows]) > 0
        run = np.cumsum(np.r_[True, gap | (np.diff(false) != 0)])[false]
        bottom, rows = rows[~false], rows[false]
        if not (len(rows) and len(bottom)):
            return []
        first = np.flatnonzero(np.r_[True, np.diff(run) != 0])
        end = np.r_[first[1:], len(rows)]
        beside = np.searchsorted(bottom, rows[first])[:, None] + np.array([-1, 0])
        around = bottom[np.clip(beside, 0, len(bottom) - 1)]
        depth = self._ranges[around]
        ends = np.column_stack((rows[first], rows[end - 1]))
        length = np.diff(self._travelled[ends])[:, 0]
        # A sounder that lost the bottom: both steps are steep, and nothing below it is as shallow.
        least = np.maximum.reduceat(self._ranges[rows], first)
        steep = depth - least[:, None] > np.abs(self._travelled[around] - self._travelled[ends])
        lost = (least < LOST * depth.min(1)) & steep.all(1)
        long = (end - first > LONG) | (~lost & (length > LONG_DEPTHS * depth.mean(1)))
        return [rows[i:j] for i, j in zip(first[long].tolist(), end[long].tolist(), strict=True)]

    def _unsupported(self, found: np.ndarray, evidence: Evidence) -> list[np.ndarray]:
        """Rows of long runs that no other pass contradicts."""
        odds = evidence.odds
        own = np.where(found < 0, 0.0, odds[np.arange(len(found)), np.maximum(found, 0)])
        against = own - odds[:, 0]
        return [
            rows
            for rows in self._long_runs(found)
            if against[rows].sum() < max(CONTRADICTED, CLEARLY * evidence.weight[rows].sum())
        ]

    def _suspicious(
        self, suspected: np.ndarray, multiple: np.ndarray, near: np.ndarray
    ) -> list[Suspicious]:
        """The long runs that were suspected, and stay."""
        runs = []
        for run in self._long_runs(suspected):
            rows = run[multiple[run] == 1]
            if len(rows):
                kind = int(np.bincount(suspected[rows] + 1).argmax()) - 1
                factor = OTHER_ECHO if kind in (-1, RUN) else kind + 1
                runs.append(Suspicious(rows, factor, bool(near[rows].any())))
        return runs


def _rates(ranges: np.ndarray, found: np.ndarray, jumped: np.ndarray) -> Rates:
    """The rates by hypotheses that were found, and by where the bottom jumped."""
    kept = found[found >= 0]
    used, multiple = max(1, len(kept)), (kept > 0) & (kept < RUN)
    begun = (multiple & np.r_[True, ~multiple[:-1]]).sum() + 0.5
    starts = (found[1:] < 0) & (found[:-1] >= 0)  # as the share of nonsense after others
    return Rates(
        float(np.clip((starts.sum() + 1) / (used + 20), *NONSENSE)),
        float(np.clip((jumped.sum() + 0.5) / (used + 1000), *CLIFFS)),
        float(np.clip(begun / (used + 1000), *ECHOES)),
        ranges[found < 0],
        ranges[(found == RUN) & (ranges > NO_READING)],
        ranges[found == 0],
    )


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

    found = density(depth - mean, std) - np.log(FACTORS) - density(depth[:, :1] - mean, scale)
    error = depth[:, :1] - mean
    on_bank = density(error, np.hypot(std, bank)) - density(error, scale)
    found, on_bank = np.logaddexp(found, np.log(UNSEEN)), np.logaddexp(on_bank, np.log(UNSEEN))
    found[:, RUN] = np.minimum(found[:, 0] - on_bank[:, 0], 0.0)
    return found
