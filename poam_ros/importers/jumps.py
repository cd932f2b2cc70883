"""Positions of a log that the vehicle cannot have reached: false fixes, as from multipath.

A position is impossible if the vehicle would have had to move faster than it ever does in this log
for more than a moment. Such a step divides the track into parts. Of the parts that can follow each
other, those with the most positions in total are kept: an excursion that comes back is left out as
a whole; after a jump that stays, positions are left out until the vehicle could have arrived there.
"""

from __future__ import annotations

import logging
import math
from itertools import pairwise

import numpy as np

from ..core.clock import SECOND

log = logging.getLogger(__name__)

#: The reason of the soundings that this rule leaves out.
POSITION_JUMP = "position_jump"
#: Factor by which the sustained speed may be exceeded for a moment; and the smallest limit (m/s),
#: which wind and waves give to slow vehicles, too.
MARGIN, LEAST_SPEED = 1.5, 3.0
#: Maximum share of the time in which the speed may exceed the log's speed.
FASTER = 0.02
#: Steps over which a speed is sustained: half of them may be false.
SUSTAINED = 9
#: A shorter log (s) does not show the vehicle's sustained speed.
SHORTEST = 9.0
#: A step of this length (m) is possible at any time, besides the receiver's noise and resolution.
LEAST_STEP = 3.0
#: Between positions farther apart in time than this (s), and than this many usual intervals,
#: nobody knows what the vehicle did.
GAP, GAPS = 10.0, 5.0
#: To leave out this little (s) of the end of one part or the beginning of the next, so that they
#: can follow each other, costs as much as to leave out positions of this time (s).
TRIM, TRIM_COST = 10.0, 30.0
#: Within this many s of an impossible step, a step longer than this share of the possible may be
#: the way back.
NEAR, SUSPECT = 10.0, 0.4
#: To continue at the other end of a jump costs as much as to leave out positions of this time (s),
#: or of this share of the log.
STAY, STAY_SHARE = 600.0, 0.25
#: Maximum number of jumps in warnings.
WARNED = 3
#: Parts that another may follow.
LOOK_BACK = 64
#: With a larger share of impossible steps, the log is not that of one vehicle. Nor is it if more
#: than a share of the positions would be left out, in at least this many parts, most of which can
#: follow each other.
TOO_MANY, OTHERS, PARTS, FOLLOW = 0.2, 0.05, 5, 0.9


def impossible_positions(where: str, seconds: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Which positions of a log are impossible; boolean [N]. Warns of jumps that stay. In a log of
    several vehicles it refuses nothing, and warns.

    Args:
        where: beginning of warnings.
        seconds: times [N], in s, in the order of the log; NaN where unknown.
        xy: positions [N, 2], in m; repeated ones hold until the next.

    A new track begins where times are unknown or go back.
    """
    refused = np.zeros(len(seconds), dtype=bool)
    first = _first_of_each(seconds, xy)
    times, places = seconds[first], xy[first]
    steps = np.diff(times)
    usual = steps[steps > 0]
    if len(usual) < SUSTAINED or usual.sum() < SHORTEST:
        return refused
    held = np.cumsum(np.bincount(first, minlength=len(seconds))) - 1
    seen = np.fmax.reduceat(seconds, first)
    track = _Track(times, places, seen, float(np.median(usual)))
    wrong = track.impossible()
    if track.several:
        log.warning(
            "%s: positions jump back and forth, as those of several vehicles do: none are refused "
            "as %s. Map each vehicle from a file of its own", where, POSITION_JUMP,
        )  # fmt: skip
    for last, index in track.stays[:WARNED]:
        log.warning(
            "%s: positions jump by %.0f m and stay there (from sounding %d on): those before or "
            "after it may be displaced",
            where, np.hypot(*(places[index] - places[last])), first[index],
        )  # fmt: skip
    judged = np.isfinite(seconds) & np.isfinite(xy).all(1)  # the first of them begins ``held``
    refused[judged] = wrong[held[judged]]
    return refused


def placed_by(false: np.ndarray, times: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Which depths, at ``seconds`` [N], are placed by a false position; ``false``: boolean [K], at
    ``times``, ascending."""
    number = np.append(0, np.cumsum(false))  # false positions before each
    first, after = (np.searchsorted(times, seconds, side=side) for side in ("left", "right"))
    between = first == after
    low = np.maximum(first - between, 0)
    return number[np.minimum(after + between, len(times))] > number[low]


class _Track:
    """Positions that each differ from the one before, with the log's limits.

    Args:
        times: [N], in s.
        places: [N, 2], in m.
        seen: the last time at each [N], in s.
        interval: the usual time between them, in s.
    """

    def __init__(
        self, times: np.ndarray, places: np.ndarray, seen: np.ndarray, interval: float
    ) -> None:
        self.times, self.places, self.interval = times, places, interval
        self.several, self.stays = False, list[tuple[int, int]]()
        longest = max(GAP, GAPS * interval)
        # While a receiver repeats a position, the vehicle may have moved on.
        self.left = np.maximum(times, seen - longest)
        self.spent = np.append(0.0, np.cumsum(seen - times + interval))  # before each position
        elapsed, length = times[1:] - self.left[:-1], np.hypot(*np.diff(places, axis=0).T)
        self.gap = ~((elapsed >= 0) & (times[1:] - seen[:-1] <= longest))
        # Positions at the same time differ by the resolution of the times.
        coarse = (np.diff(times) == 0).mean() > 0.01
        self.unresolved = interval if coarse else 0.0
        self.noise = LEAST_STEP + 3 * _noise(times, places) + 2 * _resolution(places)
        sustained = _sustained(times, places, max(1.0, interval))
        self.usual_speed = float(np.quantile(sustained, 1 - FASTER))
        self.speed = max(MARGIN * self.usual_speed, LEAST_SPEED)
        self.local = np.maximum(MARGIN * sustained, self.speed)
        limit = np.maximum(self.local[1:], self.local[:-1])
        reach = self._reach(elapsed, limit)
        self.jump, self.long = ~self.gap & (length > reach), length > SUSPECT * reach

    def _reach(self, elapsed: np.ndarray | float, speed: np.ndarray | float) -> np.ndarray:
        """How far the vehicle can move in ``elapsed`` s, in m. At least the usual interval counts,
        as receivers and links deliver several positions at once after a delay."""
        return self.noise + speed * (np.maximum(elapsed, self.interval) + self.unresolved)

    def impossible(self) -> np.ndarray:
        """Which positions are left out [N], boolean."""
        wrong = np.zeros(len(self.times), dtype=bool)
        self.several = bool(self.jump.mean() > TOO_MANY)
        if not self.jump.any() or self.several:
            return wrong
        ends = [0, *(np.flatnonzero(self.gap) + 1).tolist(), len(wrong)]
        begins = self.times[1:]
        jumps = np.sort(begins[self.jump])
        near = np.searchsorted(jumps, begins + NEAR) > np.searchsorted(jumps, begins - NEAR)
        divides = self.jump | (self.long & near)
        for begin, end in pairwise(ends):
            if not self.jump[begin : end - 1].any():
                continue
            cuts = (begin + 1 + np.flatnonzero(divides[begin : end - 1])).tolist()
            self._choose([begin, *cuts, end], wrong)
        if self._are_others(wrong):
            self.several, self.stays = True, []
            wrong[:] = False
        return wrong

    def _are_others(self, wrong: np.ndarray) -> bool:
        """Whether the positions to be left out are the track of another vehicle."""
        begins = np.flatnonzero(wrong & ~np.r_[False, wrong[:-1]])
        if wrong.mean() <= OTHERS or len(begins) < PARTS:
            return False
        ends = np.flatnonzero(wrong & ~np.r_[wrong[1:], False])
        away = np.hypot(*(self.places[begins[1:]] - self.places[ends[:-1]]).T)
        elapsed = self.times[begins[1:]] - self.times[ends[:-1]]
        return bool((away <= self._reach(elapsed, self.usual_speed)).mean() >= FOLLOW)

    def _choose(self, ends: list[int], wrong: np.ndarray) -> None:
        """Mark what is left out between the gaps; ``ends`` of the parts that jumps divide."""
        most = STAY_SHARE * self.spent[-1]
        stay, trim = min(STAY, most), min(TRIM_COST, most)
        parts = list(pairwise(ends))
        # Of the chain to each part: gain, part before, its end, begin.
        best: list[tuple[float, int, int, int]] = []
        for number, (begin, end) in enumerate(parts):
            found = (self.spent[end] - self.spent[begin], -1, 0, begin)
            for before in range(max(0, number - LOOK_BACK), number):
                first, last = best[before][3], parts[before][1]
                start, until = self._later(last - 1, begin, end), last
                if start > begin:
                    earlier = self._earlier(first, last, begin)  # the false ones may be before
                    if earlier > first and self.times[last - 1] - self.times[earlier] <= TRIM:
                        start, until = begin, earlier
                cost = 0.0
                if start == end:
                    continue
                if start > begin or until < last:
                    late = self.times[start] - self.times[begin]
                    cost = trim if late <= TRIM else stay
                gain = best[before][0] + self.spent[end] - self.spent[start]
                gain -= self.spent[last] - self.spent[until] + cost
                if gain > found[0]:
                    found = gain, before, until, start
            best.append(found)
        number = max(range(len(parts)), key=lambda each: best[each][0])
        wrong[ends[0] : ends[-1]] = True
        end = parts[number][1]
        while number >= 0:
            _, before, until, start = best[number]
            wrong[start:end] = False
            if start > parts[number][0]:
                self.stays.append((parts[number][0] - 1, parts[number][0]))
            number, end = before, until

    def _earlier(self, begin: int, end: int, index: int) -> int:
        """The end of what the vehicle can have left for the position ``index``, of a part;
        ``begin`` if nothing."""
        away = np.hypot(*(self.places[begin:end] - self.places[index]).T)
        limit = np.maximum(self.local[index], self.local[begin:end])
        there = away <= self._reach(self.times[index] - self.left[begin:end], limit)
        return end - int(there[::-1].argmax()) if there.any() else begin

    def _later(self, last: int, begin: int, end: int) -> int:
        """The first position of a part that the vehicle can have reached; ``end`` if none."""
        away = np.hypot(*(self.places[begin:end] - self.places[last]).T)
        limit = np.maximum(self.local[last], self.local[begin:end])
        there = away <= self._reach(self.times[begin:end] - self.left[last], limit)
        return begin + int(there.argmax()) if there.any() else end


def _first_of_each(seconds: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Indices of the known positions that differ from the one before."""
    known = np.flatnonzero(np.isfinite(seconds) & np.isfinite(xy).all(1))
    moved = np.ones(len(known), dtype=bool)
    moved[1:] = (xy[known][1:] != xy[known][:-1]).any(1)
    return known[moved]


def _sustained(times: np.ndarray, places: np.ndarray, interval: float) -> np.ndarray:
    """The speed around each position [N], in m/s: the median over steps of at least this time."""
    chosen, last = [0], times[0]
    for index, time in enumerate(times.tolist()):
        if not 0 <= time - last < interval:
            chosen.append(index)
            last = time
    steps = np.diff(times[chosen])
    length = np.hypot(*np.diff(places[chosen], axis=0).T)
    speed = np.divide(length, steps, out=np.zeros(len(steps)), where=steps > 0)
    half = SUSTAINED // 2
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(speed, half, "reflect"), SUSTAINED)
    return np.median(windows, axis=1)[np.clip(np.searchsorted(chosen, np.arange(len(times)),
        side="right") - 1, 0, len(speed) - 1)]  # fmt: skip


def _noise(times: np.ndarray, places: np.ndarray) -> float:
    """How far nine tenths of the positions are at most from the line between their neighbours in
    time, in m."""
    before, after = times[1:-1] - times[:-2], times[2:] - times[1:-1]
    orderly = (before >= 0) & (after >= 0) & (before + after > 0)
    if not orderly.any():
        return 0.0
    share = (before[orderly] / (before + after)[orderly])[:, None]
    between = places[:-2][orderly] * (1 - share) + places[2:][orderly] * share
    return float(np.quantile(np.hypot(*(places[1:-1][orderly] - between).T), 0.9))


def _resolution(places: np.ndarray) -> float:
    """The length of the positions' least steps, in m."""
    steps = np.abs(np.diff(places, axis=0)).T
    least = [np.quantile(axis[axis > 0], 0.1) if (axis > 0).any() else 0.0 for axis in steps]
    return math.hypot(*least)


def seconds_of(stamp_ns: np.ndarray) -> np.ndarray:
    """Times in s since the first [N]; NaN where they are unknown (0)."""
    known = stamp_ns != 0
    first = stamp_ns[known].min() if known.any() else 0
    return np.where(known, (stamp_ns - first) / SECOND, np.nan)
