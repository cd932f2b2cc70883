"""Accepted pings in blocks of successive ones, of which the nearest to others are found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import quantity
from ..core.samples import Samples, SampleStore
from .evidence import PASS_RATIO, medians
from .paths import MULTIPLES

BLOCK = 64  # successive pings that are compared together or not at all
#: Ranges of this ratio to a multiple, at most, are one, and show no shift.
MULTIPLE_TOLERANCE = 0.1


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


@dataclass(frozen=True)
class LiveCrossings:
    """Crossings of the track with itself, in the order found.

    Attributes:
        late, early: first ping of the legs that cross [C], counted from 0 in the order of
            acceptance.
        difference: elevation on the later leg less that on the earlier [C], in m.
        std: standard deviation of differences that are none [C], in m.
        ranges: on both legs [C, 2], in m.
    """

    late: np.ndarray
    early: np.ndarray
    difference: np.ndarray
    std: np.ndarray
    ranges: np.ndarray

    def __len__(self) -> int:
        return len(self.late)

    def __getitem__(self, index: slice | np.ndarray) -> LiveCrossings:
        return LiveCrossings(*(values[index] for values in vars(self).values()))

    def more(self, others: LiveCrossings) -> LiveCrossings:
        """These and others."""
        both = zip(vars(self).values(), vars(others).values(), strict=True)
        return LiveCrossings(*(np.concatenate(pair) for pair in both))

    @classmethod
    def none(cls) -> LiveCrossings:
        """No crossings."""
        index, number = np.empty(0, dtype=np.int64), np.empty(0)
        return cls(index, index, number, number, np.empty((0, 2)))

    @property
    def worst(self) -> str:
        """The block of pings whose crossings differ the most, by their median, in words."""
        part = np.r_[self.late, self.early] // BLOCK
        middle = medians(np.r_[self.difference, -self.difference], part, int(part.max()) + 1)
        block = int(np.nanargmax(np.abs(middle)))
        count = quantity(int((part == block).sum()), "crossing")
        first = block * BLOCK
        return f"pings {first} to {first + BLOCK - 1}: {count}, median {middle[block]:+.2f} m"

    @property
    def multiple(self) -> np.ndarray:
        """Whether one leg is a multiple of the other, by their ranges [C]."""
        ratio = self.ranges.max(1) / np.maximum(self.ranges.min(1), 1e-6)
        times = np.array(MULTIPLES)
        return (np.abs(ratio[:, None] / times - 1) <= MULTIPLE_TOLERANCE).any(1)
