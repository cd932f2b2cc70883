"""What each accepted ping is, judged again with every batch that comes near it.

The pings nearest to a batch are cut into lines and compared as a record is (``hypotheses``). What
they are found to be is the verdict on all of them, new or old. So a verdict needs no rules of its
own, and a line that is false may be found when others cross it, or when it goes on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import quantity
from ..core.samples import Samples, SampleStore
from .evidence import PASS_RATIO
from .hypotheses import OTHER_ECHO, judged
from .lines import STRIDE, find_lines

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


class PingBlocks:
    """All accepted pings, in order of acceptance. Metres.

    Attributes:
        data: the pings.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all pings."""
        self._store = SampleStore(Samples.empty())
        self._boxes: list[tuple[float, ...]] = []  # of each block: xmin, ymin, xmax, ymax
        self._middles: list[int] = []  # median stamp of each

    def __len__(self) -> int:
        """Number of blocks; the last may be short."""
        return len(self._boxes)

    @property
    def data(self) -> Samples:
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
        """The ``COMPARED`` pings' blocks that are nearest to the box of some pings, in order: with
        these pings' own.

        Args:
            begin: the first of the pings.
            end: after the last of them.
            first: block before which none is taken.
            last: block from which on none is taken; None: all.
        """
        xy, boxes = self.data.xy[begin:end], np.array(self._boxes[first:last])
        gap = np.maximum(boxes[:, :2] - xy.max(0), xy.min(0) - boxes[:, 2:])
        away = np.hypot(*np.maximum(gap, 0.0).T)
        away[max(0, begin // BLOCK - first) : (end - 1) // BLOCK + 1 - first] = -1.0  # themselves
        return np.sort(np.argsort(away, kind="stable")[: COMPARED // BLOCK]) + first

    def track(self, blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The pings of some blocks with known ranges in order of measurement [n], the piece of the
        track that each is on [n], and the distance travelled [n], large between pieces."""
        data = self._store.data
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
        rows, piece, distance = blocks.track(blocks.nearest(begin, end))
        xy, line, count = data.xy[rows], np.empty(len(rows), dtype=np.int64), 0
        stride = STRIDE * float(np.ptp(xy, axis=0).max())
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(piece)) + 1):
            line[part] = count + find_lines(xy[part], stride)
            count = int(line[part[-1]]) + 1
        multiple, _ = judged(xy, data.z[rows], line, data.range[rows], distance, True)
        return rows, multiple


@dataclass(frozen=True)
class LineVerdict:
    """Pings of one line with the same verdict.

    Attributes:
        pings: the pings.
        multiple: 2 or 3 if they are double or triple echoes, 0 if something else; 1: bottom.
    """

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
    """Pings with verdicts as lines, in order of acceptance.

    Args:
        pings: in order of acceptance.
        multiple: what they are, as in ``LineVerdict`` [n].
        stride: distance over which courses are taken, in m.

    Returns:
        Those of ``LEAST`` pings or more.
    """
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
