"""An alarm for positions that are shifted from some moment on, by where the track crosses itself.

The origin of odometry can drift, or jump in a gap where no check of steps sees it. Then lines
after that moment disagree with the lines before it wherever the bottom slopes. The crossings of
every block of pings with earlier ones are compared: if those across some moment disagree, and
others do not, that is said. Metres everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .crossings import Crossings, cross_lines
from .hypotheses import block_length
from .judge import BLOCK, PingBlocks

NEWEST = 512  # crossings in which a shift is looked for
#: Standard deviations of an elevation (m) and of a range (relative): differences at crossings that
#: they and those of positions explain are none.
ELEVATION_STD, RANGE_STD, SIGMAS = 0.02, 0.005, 2.0
#: Alarm if the sum over crossings of a sixth of the squared difference (in standard deviations, at
#: most 3), less ``AGREES`` each, comes to this. At least ``LEAST`` crossings must be across the
#: moment, of which at most ``WITHOUT`` agree as they are or with a constant difference, and others.
ALARM, AGREES, LEAST, WITHOUT = 5.0, 0.5, 6, 0.6


@dataclass(frozen=True)
class Shift:
    """Positions since some ping seem to be shifted from those before it.

    Attributes:
        first, last: numbers of the first such ping, and of the last one that was compared.
        since, before: median absolute difference at the crossings across that moment, and at all
            others, in m.
        crossings: number of those across it.
    """

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
        """Compare the blocks that have been completed; returns a shift that is new. After a restart
        the first call finds crossings and shifts again.

        Args:
            withdrawn: numbers of the pings that are withdrawn.
        """
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
        xy, bottom = data.xy[rows], np.ones(len(rows), dtype=np.int64)
        size = block_length(xy, data.range[rows])
        met = cross_lines(xy, data.z[rows], piece, bottom, distance, size)
        met = replace(met, row=rows[met.row], other=rows[met.other])
        late, early = np.maximum(met.row, met.other), np.minimum(met.row, met.other)
        difference = np.where(met.row > met.other, 1, -1) * met.difference
        met = replace(met, row=late, other=early, difference=difference)
        new = (late >= last - 3 * BLOCK // 2) & (late < last - BLOCK // 2)
        self.crossings = self.crossings.more(met[new])

    def ranges(self, crossings: Crossings) -> np.ndarray:
        """Ranges of the pings beside crossings [C, 2], in m."""
        return self._blocks.data.range[np.column_stack((crossings.row, crossings.other))]

    def _look(self, withdrawn: np.ndarray) -> Shift | None:
        """The moment since which the newest crossings say that positions are shifted."""
        found = self.crossings[-NEWEST:]
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
            if (~across[best]).sum() >= LEAST:
                scale = max(1.0, 1.5 * float(np.median(amount[~across[best]])))
        own, others = across[best], ~across[best]
        level = np.median(found.difference[own])
        for difference in (found.difference, found.difference - level):
            agree = np.abs(difference)[own] <= SIGMAS * std[own]
            few = min(own.sum(), others.sum()) < LEAST
            if score[best] < ALARM or few or agree.mean() > WITHOUT:
                return None
        since_m, before_m = (
            float(np.median(np.abs(found.difference[part]))) for part in (own, others)
        )
        first, last = numbers[[since[best, 0], self._done * BLOCK - 1]].tolist()
        return Shift(first, last, since_m, before_m, int(own.sum()))
