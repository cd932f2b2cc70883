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

from typing import NamedTuple

import numpy as np

from .paths import CHANGES, ECHOES, FACTORS, GRAIN, NO_READING, RUN, Paths, Rates

#: What a sounding is that is neither bottom nor a multiple.
OTHER_ECHO = 0

LEVEL = 0.1  # of the depth: smaller differences between lines are offsets, not echoes
UNSEEN = 0.01  # share of the bottom that other lines say nothing about: a cliff, a wreck, a pit
CLIFFS = 5e-4, 0.03  # limits of the rate of cliffs
NONSENSE = 0.01, 0.5  # limits of the share of nonsense
#: A piece of a line between gaps is none of the bottom if it is deeper by this ratio than all that
#: other lines confirm, and shorter than this many times its depth.
LONE_RATIO, LONE_LENGTH = 1.25, 3.0


class Forecast(NamedTuple):
    """What other lines say of the ranges [N]: mean, standard deviation, and that which a bank adds,
    in m, and the number of independent predictions that a sounding stands for; 0: none."""

    mean: np.ndarray
    std: np.ndarray
    bank: np.ndarray
    weight: np.ndarray


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
    evidence = _across(ranges[:, None] / FACTORS, forecast)
    paths = Paths(xy, ranges, evidence, scatter, slope, rates, begin[order], length[order])
    found, jumped = paths.find()
    rates = _rates(ranges, found, jumped)
    found[_beside_object(xy, ranges, line, found, jumped)] = 0
    step = np.hypot(*np.diff(xy, axis=0).T)
    cuts = np.flatnonzero((np.diff(line) != 0) | (step > paths.reach[1:])) + 1
    for piece in np.split(np.arange(len(line)), cuts):
        bottom = piece[found[piece] == 0]
        depth = float(np.median(ranges[bottom])) if len(bottom) else 0.0
        if depth > LONE_RATIO * confirmed and step[piece[:-1]].sum() < LONE_LENGTH * depth:
            found[bottom] = RUN
    return found, rates


def _rates(ranges: np.ndarray, found: np.ndarray, jumped: np.ndarray) -> Rates:
    """The rates by hypotheses that were found, and by where the bottom jumped."""
    kept = found[found >= 0]
    used, multiple = max(1, len(kept)), (kept > 0) & (kept < RUN)
    # As many begins as runs, or as runs of the usual length: the fewer, to lose no true lines.
    begins = (multiple & np.r_[True, ~multiple[:-1]]).sum() + 0.5
    begun = min(begins, np.exp(CHANGES[1, 0]) * multiple.sum())
    starts = (found[1:] < 0) & (found[:-1] >= 0)  # as the share of nonsense after others
    return Rates(
        float(np.clip((starts.sum() + 1) / (used + 20), *NONSENSE)),
        float(np.clip((jumped.sum() + 0.5) / (used + 1000), *CLIFFS)),
        float(np.clip(begun / (used + 1000), *ECHOES)),
        ranges[found < 0],
        ranges[(found == RUN) & (ranges > NO_READING)],
        ranges[found == 0],
    )


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
