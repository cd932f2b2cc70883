"""What each accepted ping is, judged again with every batch that comes near it; and an alarm for
positions that are shifted from some moment on.

The pings nearest to a batch are cut into lines and compared as a record is (``hypotheses``); those
of a sonar that repeats its last range are found as in a log. What they are found to be is the
verdict on all of them, new or old, so a false line may be found when others cross it, or later.

The origin of odometry can drift, or jump in a gap where no check of steps sees it. Then lines
after that moment disagree with the lines before it wherever the bottom slopes. The crossings of
every block of pings with earlier ones are compared: if those across some moment disagree, and
others do not, that is said. Metres everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.errors import quantity
from ..core.samples import Samples, SampleStore
from ..frontend.pings import held_readings
from .crossings import Crossings, cross_lines
from .hypotheses import OTHER_ECHO, judged
from .lines import PASS_RATIO, STRIDE, find_lines

BLOCK = 64  # successive pings that are compared together or not at all
#: Pings that are compared at once: about 0.03 s.
COMPARED = 1024
CHUNK = 512  # of a batch that are judged at once
#: A ping whose verdict has turned n times turns again after ``BLOCK`` times this to the power
#: n - 1 further pings. Without it a run whose odds are about even may turn with every batch.
PATIENCE = 4
ECHOES = {2: "double echoes", 3: "triple echoes", OTHER_ECHO: "false echoes"}
LEAST = 10  # fewer pings of a line are only counted
NEWEST = 8  # withdrawn lines that are reported
MET = 512  # crossings in which a shift is looked for
#: Standard deviations of an elevation (m) and of a range (relative): differences at crossings that
#: they and those of positions explain are none.
ELEVATION_STD, RANGE_STD, SIGMAS = 0.02, 0.005, 2.0
#: Alarm if the sum over crossings of a sixth of the squared difference (in standard deviations, at
#: most 3), less ``AGREES`` each, comes to this. At least ``ACROSS`` crossings must be across the
#: moment, of which at most ``WITHOUT`` agree as they are or with a constant difference, and others.
ALARM, AGREES, ACROSS, WITHOUT = 5.0, 0.5, 6, 0.6


class PingBlocks:
    """All accepted pings, in order of acceptance."""

    def __init__(self) -> None:
        self._store = SampleStore(Samples.empty())
        self._boxes: list[tuple[float, ...]] = []  # of each block: xmin, ymin, xmax, ymax
        self._middles: list[int] = []  # median stamp of each

    @property
    def data(self) -> Samples:
        """The pings."""
        return self._store.data

    def add(self, pings: Samples) -> None:
        """Add accepted pings."""
        first = len(self._store) // BLOCK
        self._store.append(pings)
        del self._boxes[first:], self._middles[first:]
        data = self._store.data
        for begin in range(first * BLOCK, len(data), BLOCK):
            part = data[begin : begin + BLOCK]
            self._boxes.append((*part.xy.min(0).tolist(), *part.xy.max(0).tolist()))
            self._middles.append(int(np.sort(part.stamp_ns)[len(part) // 2]))

    def nearest(self, begin: int, end: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """The ``COMPARED`` pings' blocks that are nearest to the box of the pings from ``begin`` to
        before ``end``, in order: their own, and others from the block ``first`` to before
        ``last``."""
        xy, boxes = self.data.xy[begin:end], np.array(self._boxes[first:last])
        gap = np.maximum(boxes[:, :2] - xy.max(0), xy.min(0) - boxes[:, 2:])
        away = np.hypot(*np.maximum(gap, 0.0).T)
        away[max(0, begin // BLOCK - first) : (end - 1) // BLOCK + 1 - first] = -1.0  # themselves
        return np.sort(np.argsort(away, kind="stable")[: COMPARED // BLOCK]) + first

    def track(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pings of some blocks with known ranges in order of measurement [n], the piece of the
        track that each is on [n], and the distance travelled [n], large between pieces."""
        data = self.data
        rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        rows = rows[rows < len(data)]
        rows = rows[np.isfinite(data.range[rows])]
        rows = rows[np.lexsort((rows, data.stamp_ns[rows]))]
        absent = np.setdiff1d(np.arange(len(self._boxes)), blocks)
        middles = np.sort(np.array(self._middles, dtype=np.int64)[absent])
        piece = np.searchsorted(middles, data.stamp_ns[rows])
        steps = np.hypot(*np.diff(data.xy[rows], axis=0).T)
        apart = PASS_RATIO * 2 * float(np.hypot(*np.ptp(data.xy[rows], axis=0)))
        return rows, piece, np.r_[0.0, np.cumsum(steps + apart * (np.diff(piece) > 0))]


class Judge:
    """Verdicts about accepted pings, by the pings and batches so far and the verdicts before; the
    work of a batch is bounded.

    Args:
        blocks: all accepted pings so far; the batch is the last of them.

    Attributes:
        multiple: what each ping is, in order of acceptance [N]: 1 bottom, 2 or 3 a double or triple
            echo, 0 something else.
    """

    def __init__(self, blocks: PingBlocks) -> None:
        self._blocks = blocks
        self.multiple = np.empty(0, dtype=np.int64)
        self._turns = np.empty(0, dtype=np.int64)  # of each verdict since the ping's first batch
        self._turned = np.empty(0, dtype=np.int64)  # pings in batches when it turned the last time

    def judge(self, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """The pings, old or new, whose verdicts change with a batch, which is so many last pings:
        their rows, in order, and what they are [n]. Nothing is remembered."""
        self._extend()
        total, multiple = len(self._blocks.data), self.multiple.copy()
        begin = total - batch
        wait = BLOCK * PATIENCE ** np.maximum(self._turns - 1, 0)
        settled = (self._turns > 0) & (begin - self._turned < wait)
        for first in range(begin, total, CHUNK):
            chunk = slice(first, min(first + CHUNK, total))
            if not np.isfinite(self._blocks.data.range[chunk]).any():
                continue
            rows, found = self._compared(chunk.start, chunk.stop)
            free = ~settled[rows]
            multiple[rows[free]] = found[free]
        changed = np.flatnonzero(multiple != self.multiple)
        return changed, multiple[changed]

    def follow(self, rows: np.ndarray, multiple: np.ndarray, begin: int) -> None:
        """Remember verdicts: those of ``judge``, or of a journal, at a batch that is preceded by
        ``begin`` pings in others."""
        self._extend()
        self.multiple[rows] = multiple
        old = rows[rows < begin]
        self._turns[old] += 1
        self._turned[old] = begin

    def _extend(self) -> None:
        """Pings without a verdict are of the bottom."""
        more = len(self._blocks.data) - len(self.multiple)
        self.multiple = np.r_[self.multiple, np.ones(more, dtype=np.int64)]
        nothing = np.zeros(more, dtype=np.int64)
        self._turns, self._turned = np.r_[self._turns, nothing], np.r_[self._turned, nothing]

    def _compared(self, begin: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the pings nearest to some of a batch, and what they are [n]."""
        blocks, data, near = self._blocks, self._blocks.data, self._blocks.nearest(begin, end)
        rows, piece, distance = blocks.track(near)
        xy, line, count = data.xy[rows], np.empty(len(rows), dtype=np.int64), 0
        stride = STRIDE * float(np.ptp(xy, axis=0).max())
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(piece)) + 1):
            line[part] = count + find_lines(xy[part], stride)
            count = int(line[part[-1]]) + 1
        multiple, _ = judged(xy, data.z[rows], line, data.range[rows], distance, True)
        # With the blocks before and after each, where a repeated range begins or ends.
        whole = (near[:, None] + (-1, 0, 1)).clip(0, (len(data) - 1) // BLOCK)
        more, piece, _ = blocks.track(np.unique(whole))
        held, _ = held_readings(data.xy[more], data.z[more], data.range[more], piece)
        multiple[np.isin(rows, more[held])] = OTHER_ECHO
        return rows, multiple


class LineVerdict(NamedTuple):
    """Pings of one line with the same verdict: 2 or 3 if they are double or triple echoes, 0 if
    something else; 1: bottom."""

    pings: Samples
    multiple: int

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        ends = (f"({x:.0f}, {y:.0f})" for x, y in self.pings.xy[[0, -1]].tolist())
        text, count = f"line from {' to '.join(ends)}", quantity(len(self.pings), "ping")
        if self.multiple == 1:
            return f"{text}: bottom after all, {count} reinstated"
        return f"{text}: {ECHOES[self.multiple]}, {count} withdrawn"


def line_verdicts(pings: Samples, multiple: np.ndarray, stride: float) -> list[LineVerdict]:
    """Lines of ``LEAST`` pings or more, of pings in order of acceptance that are ``multiple`` [n];
    ``stride``: distance over which courses are taken, in m."""
    cuts = (np.diff(pings.number) > LEAST) | (np.diff(multiple) != 0)
    pieces = np.split(np.arange(len(pings)), np.flatnonzero(cuts) + 1)
    return [
        LineVerdict(pings[part], int(multiple[part[0]]))
        for piece in pieces
        if len(piece) >= LEAST
        for turn in [find_lines(pings.xy[piece], stride)]
        for part in np.split(piece, np.flatnonzero(np.diff(turn)) + 1)
        if len(part) >= LEAST
    ]


class Shift(NamedTuple):
    """Positions since some ping seem to be shifted from those before it: numbers of the first such
    ping and of the last one that was compared; median absolute difference at the crossings across
    that moment, and at all others, in m; and the number of those across it."""

    first: int
    last: int
    since: float
    before: float
    crossings: int

    @property
    def sentence(self) -> str:
        """The alarm in words."""
        return (
            f"positions may have shifted: since ping {self.first}, {self.crossings} crossings with "
            f"earlier lines differ by {self.since:.1f} m, before by {self.before:.1f} m"
        )


class ShiftWatch:
    """Looks for a shift of positions, block by block of accepted pings.

    Its findings depend on the pings, and on those that are withdrawn, and not on batches. The work
    of a block is bounded.

    Args:
        blocks: all accepted pings so far.
        position_std: standard deviation of their positions, in m; 0: no shift is looked for.

    Attributes:
        found: the last shift; None: none so far.
        crossings: all so far, of later pings (``row``) with earlier ones (``other``).
    """

    def __init__(self, blocks: PingBlocks, position_std: float) -> None:
        self._blocks, self._position_std = blocks, position_std
        self.found: Shift | None = None
        self.crossings = Crossings.none()
        self._done = 0  # blocks
        self._begin = 0  # ping from which on positions have one origin

    def decide(self, withdrawn: np.ndarray) -> Shift | None:
        """Compare the blocks that have been completed, without the pings whose numbers are
        ``withdrawn``; returns a shift that is new. After a restart the first call finds crossings
        and shifts again."""
        new = None
        while (self._done + 1) * BLOCK <= len(self._blocks.data):
            self._cross_block()
            if self._position_std and (shift := self._look(withdrawn)) is not None:
                self.found = new = shift
                self._begin = self._done * BLOCK  # later pings are compared with those from now on
        return new

    def _cross_block(self) -> None:
        """Find the crossings of the newest pings, up to the middle of the next block, with earlier
        ones."""
        block, self._done = self._done, self._done + 1
        blocks, data, last = self._blocks, self._blocks.data, (block + 1) * BLOCK
        begin = max(block - 1, self._begin // BLOCK)
        near = blocks.nearest(begin * BLOCK, last, self._begin // BLOCK, block + 1)
        rows, piece, distance = blocks.track(near)
        if not len(rows):
            return
        xy, z, bottom = data.xy[rows], data.z[rows], np.ones(len(rows), dtype=np.int64)
        met, _ = cross_lines(xy, z, piece, bottom, distance, data.range[rows])
        one, two = rows[met.row], rows[met.other]
        late, early = np.maximum(one, two), np.minimum(one, two)
        difference = np.where(one > two, 1, -1) * met.difference
        met = replace(met, row=late, other=early, difference=difference)
        new = (late >= last - 3 * BLOCK // 2) & (late < last - BLOCK // 2)
        self.crossings = self.crossings.more(met[new])

    def ranges(self, crossings: Crossings) -> np.ndarray:
        """Ranges of the pings beside crossings [C, 2], in m."""
        return self._blocks.data.range[np.column_stack((crossings.row, crossings.other))]

    def _look(self, withdrawn: np.ndarray) -> Shift | None:
        """The moment since which the newest crossings say that positions are shifted."""
        found = self.crossings[-MET:]
        numbers = self._blocks.data.number
        out = np.isin(numbers[found.row], withdrawn) | np.isin(numbers[found.other], withdrawn)
        found = found[~out & (found.other >= self._begin)]
        if not len(found):
            return None
        variance = self._position_std**2 * (found.slope**2).sum(1)
        variance += (RANGE_STD * self.ranges(found)[:, 0]) ** 2 + ELEVATION_STD**2
        std = np.sqrt(2 * variance)
        since = np.unique(found.row)[:, None]
        across = (found.other < since) & (found.row >= since)
        amount, scale = np.abs(found.difference) / std, 1.0
        for _ in range(2):  # what lines of one origin disagree in is no shift
            score = (across * (np.minimum(amount / scale, 3.0) ** 2 / 6 - AGREES)).sum(1)
            best = int(score.argmax())
            if (~across[best]).sum() >= ACROSS:
                scale = max(1.0, 1.5 * float(np.median(amount[~across[best]])))
        own, others = across[best], ~across[best]
        level = np.median(found.difference[own])
        for difference in (found.difference, found.difference - level):
            agree = np.abs(difference)[own] <= SIGMAS * std[own]
            few = min(own.sum(), others.sum()) < ACROSS
            if score[best] < ALARM or few or agree.mean() > WITHOUT:
                return None
        sizes = np.abs(found.difference)
        since_m, before_m = (float(np.median(sizes[part])) for part in (own, others))
        first, last = numbers[[since[best, 0], self._done * BLOCK - 1]].tolist()
        return Shift(first, last, since_m, before_m, int(own.sum()))
