"""What each accepted ping is, judged again with every batch that comes near it.

The pings nearest to a batch are cut into lines and compared as a record is (``crossings``). What
they are found to be is the verdict on all of them, new or old. So a verdict needs no rules of its
own, and a line that is false may be found when others cross it, or when it goes on.
"""

from __future__ import annotations

import numpy as np

from .blocks import BLOCK, PingBlocks
from .hypotheses import judged
from .lines import STRIDE, find_lines

#: Pings that are compared at once: about 0.03 s.
COMPARED = 1024
CHUNK = 512  # of a batch that are judged at once
#: A ping whose verdict has turned n times turns again after ``BLOCK`` times this to the power
#: n - 1 further pings. Without it a run whose odds are about even may turn with every batch.
PATIENCE = 4


class Judge:
    """Verdicts about accepted pings, batch by batch.

    They depend on the pings so far, on the batches, and on the verdicts before; the work of a batch
    is bounded.

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
        """The pings, old or new, whose verdicts change with a batch; nothing is remembered.

        Args:
            batch: number of the last pings.

        Returns:
            Their rows, in order, and what they are [n].
        """
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
        """Remember verdicts: those of ``judge``, or of a journal.

        Args:
            rows: of the pings [n].
            multiple: what they are [n].
            begin: number of pings in the batches before.
        """
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
        blocks, data = self._blocks, self._blocks.data
        away = blocks.away(data.xy[begin:end])
        away[begin // BLOCK : (end - 1) // BLOCK + 1] = -1.0  # themselves
        nearest = np.argsort(away, kind="stable")[: COMPARED // BLOCK]
        rows, piece, distance = blocks.track(np.sort(nearest))
        xy, line, count = data.xy[rows], np.empty(len(rows), dtype=np.int64), 0
        stride = STRIDE * float(np.ptp(xy, axis=0).max())
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(piece)) + 1):
            line[part] = count + find_lines(xy[part], stride)
            count = int(line[part[-1]]) + 1
        multiple, _ = judged(xy, data.z[rows], line, data.range[rows], distance, True)
        return rows, multiple
