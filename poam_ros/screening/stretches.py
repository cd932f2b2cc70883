"""Stretches of a record: runs of a line without a jump, and their likelihoods from the line itself.

The constants were set by hand, on simulated lakes and on one recorded survey with added errors; the
scatter of the steps, the slope of the bottom and the rate of cliffs come from the soundings.
"""

from __future__ import annotations

import math

import numpy as np

#: Hypotheses of a stretch: the bottom, a multiple by its factor, any other false echo.
BOTTOM, FALSE_ECHO = 1, 0
MULTIPLES = (2, 3)
#: Places from which a stretch is long: not an accident.
LONG = 10

MIN_RANGE_M = 0.01  # shorter ranges count as this
JUMP = 0.1  # of the range: a smaller step is never a jump
STEP = 0.25  # m: nor is this
STEPS = 5.0  # nor is this, in standard deviations of the steps nearby
SLOPE = 0.02, 0.5  # of the bottom, allowed across a gap: limits
STEEP, TIMES = 0.75, 2.0  # the allowed slope is this quantile of the slopes, times this factor
ECHO = 0.35  # of the range: a larger step may be an echo and is not used for estimates
WINDOW = 20  # steps that give the scatter around a sounding
MAX_OPEN = 6  # stretches of a line that may alternate
GAPS = 6.0  # median steps across which a stretch continues; or half the range

DEEPER, SHALLOWER = 0.05, 0.005  # rate of false echoes below and above the bottom
MULTIPLE = 0.01  # rate of stretches that are multiples
UNSEEN = 0.003  # the same if neither begin nor end is seen
REPEATED_ECHO_RATE = 0.5  # share of echoes after an echo
MIN_SHARE = -12.0, -4.0  # least log prior of a false echo: of a smooth and of a rough stretch
ROUGH = 4.0  # weight of the log of a stretch's steps relative to those of others
PIT = 0.2  # share of the cliffs to a deeper bottom that soon end
CLIFFS = 5e-4, 0.03  # limits of the rate of cliffs
FIT = 4.0  # the allowed step in standard deviations
MAX_FIT = 3.0  # largest log density of a multiple at a jump, relative to any level
JUNCTIONS = 4  # jumps that count towards a multiple
PARTS = 8  # segments of a stretch that are examined
AWAY = 40  # segments on either side that are searched for a neighbour


class Stretches:
    """The stretches of a record.

    A sounding continues the stretch of its line whose last range is nearest, unless that is a jump
    or too far back. Echoes in between do not end a stretch: several may alternate. The parts of a
    stretch that no other one interrupts are its segments.

    Attributes:
        xy, z: places [N, 2] and elevations [N], in m.
        range: from the surface, or the sounder, to the bottom [N], in m.
        line: index of each sounding's line [N].
        of: the stretch of each sounding [N].
        rows: the soundings of each stretch.
        places: number of different places of each stretch [S].
        distance: along the record up to each sounding [N], in m.
        usual: median step between places, in m.
        depth: median range, in m.
    """

    def __init__(
        self,
        xy: np.ndarray,
        z: np.ndarray,
        line: np.ndarray,
        ranges: np.ndarray,
        distance: np.ndarray | None = None,
    ) -> None:
        self.xy, self.z, self.line = xy, z, line
        self.range = np.maximum(ranges, MIN_RANGE_M)
        step = np.hypot(*np.diff(xy, axis=0).T)
        self.distance = np.r_[0.0, np.cumsum(step)] if distance is None else distance
        self.usual = float(np.median(step[step > 0])) if (step > 0).any() else 1.0
        self.depth = float(np.median(self.range))
        self.granted = np.maximum(np.maximum(JUMP * self.range, STEP), STEPS * _scatter(self.range))
        self.slope = _steepness(step, self.range)
        self.reach = np.maximum(self.range / 2, GAPS * self.usual)
        self.of = self._find()
        self.count = int(self.of.max()) + 1
        order = np.argsort(self.of, kind="stable")
        ends = np.cumsum(np.bincount(self.of, minlength=self.count))
        self.rows = np.split(order, ends[:-1])
        place = np.cumsum(np.r_[True, step != 0])
        pairs = np.unique(np.stack([self.of, place]), axis=1)
        self.places = np.bincount(pairs[0], minlength=self.count)
        self.dry = np.array([np.median(self.range[rows]) <= MIN_RANGE_M for rows in self.rows])
        self._cut()
        self.min_share = self._min_share(order)
        self.cliffs = self._count_cliffs()

    def _find(self) -> np.ndarray:
        found = np.empty(len(self.z), dtype=np.int64)
        ends: list[tuple[float, float, float, int]] = []
        count, before = 0, None
        columns = *self.xy.T, self.range, self.granted, self.reach, self.line
        rows = zip(*(column.tolist() for column in columns), strict=True)
        for row, (x, y, r, granted, far, line) in enumerate(rows):
            if line != before:
                ends, before = [], line
            best, least = -1, 1.0
            for i, (end_x, end_y, other, _) in enumerate(ends):
                way = math.hypot(x - end_x, y - end_y)
                jump = abs(r - other) / (granted + self.slope * way)
                if way <= far and jump <= least:
                    best, least = i, jump
            if best >= 0:
                number = ends.pop(best)[3]
            else:
                number, count = count, count + 1
                if len(ends) == MAX_OPEN:
                    ends.pop(0)
            ends.append((x, y, r, number))
            found[row] = number
        return found

    def _cut(self) -> None:
        """Find the segments: first and last sounding, stretch; and the segments of each stretch."""
        self.first = np.flatnonzero(
            np.r_[True, (np.diff(self.of) != 0) | (np.diff(self.line) != 0)]
        )
        self.last = np.r_[self.first[1:] - 1, len(self.of) - 1]
        self.owner = self.of[self.first]
        order = np.argsort(self.owner, kind="stable")
        ends = np.cumsum(np.bincount(self.owner, minlength=self.count))
        self.segments = np.split(order, ends[:-1])

    def _min_share(self, order: np.ndarray) -> np.ndarray:
        """Least log prior of each stretch as false echo [S]: low if as smooth as the bottom."""
        step = np.abs(np.diff(self.range[order])) / self.range[order][1:]
        owner = self.of[order][1:]
        same = (np.diff(self.of[order]) == 0) & (np.diff(self.xy[order], axis=0) != 0).any(axis=1)
        solid = same & (self.places >= LONG)[owner]
        usual = max(float(np.mean(step[solid])) if solid.any() else 0.0, 0.01)
        total = np.bincount(owner[same], step[same], minlength=self.count)
        mean = total / np.maximum(np.bincount(owner[same], minlength=self.count), 1)
        low, high = MIN_SHARE
        return np.clip(low + ROUGH * np.log(np.maximum(mean / usual, 1.0)), low, high)

    def _count_cliffs(self) -> float:
        """Rate of jumps between two long stretches."""
        long = self.places[self.owner] >= LONG
        a, b = self.last[:-1], self.first[1:]
        near = (self.line[a] == self.line[b]) & (
            self.distance[b] - self.distance[a] <= self.reach[b]
        )
        jumps = int((long[:-1] & long[1:] & near).sum())
        return float(np.clip((jumps + 0.5) / (int(self.places.sum()) + 1000.0), *CLIFFS))

    def enclosed(self) -> np.ndarray:
        """Whether each stretch lies within a longer one [S]."""
        covered, inside = np.zeros(len(self.z), dtype=bool), np.zeros(self.count, dtype=bool)
        for s in np.argsort(-self.places, kind="stable").tolist():
            rows = self.rows[s]
            inside[s] = covered[rows].mean() > 0.5
            if not inside[s]:
                covered[rows[0] : rows[-1] + 1] = True
        return inside

    def beside(self, s: int) -> set[int]:
        """The stretches with a segment near one of stretch s."""
        near: set[int] = set()
        for segment in self.segments[s].tolist():
            near.update(self.owner[max(0, segment - 6) : segment + 7].tolist())
        return near

    def _neighbour(self, segment: int, step: int, accepted: np.ndarray) -> int:
        """The next accepted sounding of the line before or after a segment; -1: none near."""
        row = self.first[segment] if step < 0 else self.last[segment]
        for at in range(segment + step, segment + step * (AWAY + 1), step):
            if not 0 <= at < len(self.first) or self.owner[at] == self.owner[segment]:
                return -1  # counts for the stretch in between
            other = int(self.last[at] if step < 0 else self.first[at])
            far = abs(self.distance[other] - self.distance[row]) > self.reach[row]
            if far or self.line[other] != self.line[row]:
                return -1
            if accepted[self.owner[at]]:
                return other
        return -1

    def likelihoods(self, s: int, accepted: np.ndarray) -> np.ndarray:
        """Likelihoods of a stretch from its own line, by the accepted stretches beside it.

        Args:
            s: the stretch.
            accepted: which stretches are accepted to be bottom [S], boolean.

        Returns:
            Log likelihoods [4] as bottom, other false echo, 2nd and 3rd multiple; 0 as bottom
            means that there is no jump.
        """
        jumps, deeper, fitted, fits = 0, 0.0, 0, np.zeros(len(MULTIPLES))
        ends = ((int(segment), step) for segment in self.segments[s][:PARTS] for step in (-1, 1))
        for segment, step in ends:
            other = self._neighbour(segment, step, accepted)
            if other < 0:
                continue
            row = self.first[segment] if step < 0 else self.last[segment]
            sloping = self.slope * math.hypot(*(self.xy[row] - self.xy[other]))
            difference = self.range[row] - self.range[other]
            if abs(difference) <= max(self.granted[row], self.granted[other]) + sloping:
                continue
            if self.places[self.of[other]] < min(self.places[s], LONG):
                continue  # the other one is the interruption
            jumps += 1
            deeper += difference
            if fitted < JUNCTIONS:
                fitted += 1
                deviation = (self.granted[other] + sloping) / FIT
                for i, m in enumerate(MULTIPLES):
                    error = (self.range[row] / m - self.range[other]) / deviation
                    most = math.log(self.depth / (math.sqrt(2 * math.pi) * deviation * m))
                    fits[i] += min(most, MAX_FIT) - 0.5 * error**2
        shallow = jumps > 0 and deeper < 0
        begins = max(1, -(-jumps // 2))
        false_echo = math.log(SHALLOWER if shallow else DEEPER) + (begins - 1) * math.log(
            REPEATED_ECHO_RATE
        )
        false_echo += max(
            (int(self.places[s]) - 1) * math.log(REPEATED_ECHO_RATE), self.min_share[s]
        )
        bottom = 0.0
        if jumps == 1:
            bottom = math.log(self.cliffs)
        elif jumps:
            bottom = math.log(self.cliffs * (1.0 if shallow else PIT)) * jumps / 2
        multiples = begins * math.log(MULTIPLE if fitted else UNSEEN) + fits
        return np.r_[bottom, false_echo, multiples]


def _steepness(way: np.ndarray, ranges: np.ndarray) -> float:
    """Slope that few steps exceed, without steps that may be echoes."""
    step = np.abs(np.diff(ranges))
    use = (way > 0) & (step <= ECHO * np.minimum(ranges[1:], ranges[:-1]))
    if not use.any():
        return SLOPE[1]
    return float(np.clip(TIMES * np.quantile(step[use] / way[use], STEEP), *SLOPE))


def _scatter(ranges: np.ndarray) -> np.ndarray:
    """Scatter of the steps around each sounding [N], without steps that may be echoes."""
    step = np.abs(np.diff(ranges))
    rows = np.flatnonzero(step <= ECHO * np.minimum(ranges[1:], ranges[:-1]))
    if not len(rows):
        return np.zeros(len(ranges))
    width = min(WINDOW, len(rows))
    near = np.lib.stride_tricks.sliding_window_view(step[rows], width)
    middle = np.searchsorted(rows, np.arange(len(ranges)))
    first = np.clip(middle - width // 2, 0, len(rows) - width)
    return np.median(near, axis=1)[first] / 0.6745
