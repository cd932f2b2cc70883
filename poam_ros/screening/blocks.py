"""Accepted pings in blocks of successive ones, of which the nearest to others are found."""

from __future__ import annotations

import numpy as np

from ..core.samples import Samples, SampleStore
from .evidence import PASS_RATIO

BLOCK = 64  # successive pings that are compared together or not at all


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

    def away(self, xy: np.ndarray) -> np.ndarray:
        """Distance of each block from the box of some places [N, 2]."""
        boxes = np.array(self._boxes)
        gap = np.maximum(boxes[:, :2] - xy.max(0), xy.min(0) - boxes[:, 2:])
        return np.hypot(*np.maximum(gap, 0.0).T)

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
