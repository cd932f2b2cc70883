"""The index of sites for searches of neighbours: a grid of buckets that takes sites one by one.

The cost of a query depends on the sites that it looks at, not on N: when the grid holds about twice
as many sites as before, it is refined and all sites are moved.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..native import neighbours as native
from .kernel import EVERYTHING, SLACK, UNIT, DataIndex, Subset, cells_for, rounded

#: Shares come in parts of 1, 1/4, ... down to 1/4^(LEVELS - 1).
LEVELS = 4
#: Cells along a side of a block whose queries are searched together.
BLOCK = 4


class NumpyIndex(DataIndex):
    """The index in NumPy. The compiled index finds the same sites.

    Attributes:
        looked_at: number of sites that queries have looked at so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = 0
        self._cells = 1
        self._buckets = _empty(1)

    def add(self, x: Tensor) -> None:
        """Add the sites x [n, 2], numbered from the last one on."""
        first = self._append(x)
        cells = cells_for(self._count)
        if cells != self._cells:
            self._cells, first = cells, 0
            self._buckets = _empty(cells)
        placed = self._x[first : self._count].astype(float)
        number = self._numbers[first : self._count] * UNIT
        for level, buckets in enumerate(self._buckets):
            columns, rows = self._cell(placed, level).T
            side, part = _cells_at(cells, level), (number * 4**level).astype(np.int64)
            for site, bucket in enumerate(((part * side + rows) * side + columns).tolist(), first):
                buckets[bucket].append(site)

    def spread(
        self, x: Tensor, k: int, pool: int, apart: float = 0.0, share: Subset = EVERYTHING,
        elsewhere: bool = False,
    ) -> Tensor:  # fmt: skip
        """For each x [N, 2], k of its ``pool`` nearest sites [N, k]; -1 if there are fewer.

        With ``apart`` > 0, first sites that lie apart: from the nearest on, each that is farther
        from all chosen ones than ``apart`` times its distance from x. Then others, in rounds over
        the octants around x: the nearest of each, the second nearest of each, and so on; of the
        last round the nearest ones. Only sites of the share count; with ``elsewhere`` none at x
        itself.
        """
        points, least = rounded(x).numpy(), 0.0 if elsewhere else -1.0
        found = np.full((len(x), k), -1, dtype=np.int64)
        # Where queries are dense, those of several cells share a call, which costs more than the
        # sites.
        dense = len(x) > _cells_at(self._cells, share.level) ** 2 / 4
        blocks = self._cell(points, share.level) // (BLOCK if dense else 1)
        for block in np.unique(blocks, axis=0):
            own = np.flatnonzero((blocks == block).all(1))
            near, squared = self._nearest(points[own], least, pool, share)
            found[own] = _deal(self._x[near], points[own], near, squared, k, apart)
        return torch.from_numpy(found)

    def _cell(self, x: np.ndarray, level: int) -> np.ndarray:
        cells = _cells_at(self._cells, level)
        return np.clip((x + 1.0) * (0.5 * cells), 0, cells - 1).astype(np.int64)

    def _nearest(
        self, points: np.ndarray, least: float, pool: int, share: Subset
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nearest sites of queries in adjacent cells, by distance and number, and their squared
        distances (infinite if there are fewer sites), both [n, pool]."""
        reach, cells, own = 1, _cells_at(self._cells, share.level), self._cell(points, share.level)
        while True:
            low, high = np.maximum(own.min(0) - reach, 0), np.minimum(own.max(0) + reach, cells - 1)
            sites, everything = self._among(low, high, share), reach >= cells
            if not everything and len(sites) <= pool:
                reach *= 2
                continue
            squared = _squared_distances(points[:, None], self._x[sites])
            squared[squared <= least] = np.inf
            order = _first(squared, pool)
            squared = np.take_along_axis(squared, order, 1)
            # Sites beyond the border of the grid lie in its border cells, so none is missed.
            edges = np.where(
                [low > 0, high < cells - 1], [low, high + 1], [[-np.inf] * 2, [np.inf] * 2]
            )
            sure = np.abs(edges[:, None] * (2.0 / cells) - 1.0 - points).min((0, 2)) - SLACK
            if everything or (squared[:, -1] <= sure * np.abs(sure)).all():
                break
            reach *= 2
        return _padded(sites[order], pool, 0), _padded(squared, pool, np.inf)

    def _among(self, low: np.ndarray, high: np.ndarray, share: Subset) -> np.ndarray:
        """The sites of the share in a rectangle of cells, in order."""
        side = _cells_at(self._cells, share.level)
        buckets, scale = self._buckets[share.level], 4**share.level
        found = [
            site
            for row in range(low[1], high[1] + 1)
            for column in range(low[0], high[0] + 1)
            for site in buckets[(share.part * side + row) * side + column]
        ]
        self.looked_at += len(found)
        sites = np.sort(np.array(found, dtype=np.int64))
        above = self._numbers[sites] * (scale * UNIT) - share.part - share.start
        return sites[np.where(above < 0, above + 1, above) < share.size]


def _cells_at(cells: int, level: int) -> int:
    """Cells along a side for the parts of a level: as many sites in each as in the grid of all."""
    return max(1, cells >> level)


def _empty(cells: int) -> list[list[list[int]]]:
    return [[[] for _ in range(4**level * _cells_at(cells, level) ** 2)] for level in range(LEVELS)]


def _padded(rows: np.ndarray, length: int, value: float) -> np.ndarray:
    """Rows [n, m], filled up with ``value`` to [n, length]."""
    missing = length - rows.shape[1]
    return rows if missing <= 0 else np.pad(rows, ((0, 0), (0, missing)), constant_values=value)


def _squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of places [..., 2], by coordinate: a sum over an axis of two is slow."""
    dx, dy = a[..., 0] - b[..., 0], a[..., 1] - b[..., 1]
    return dx * dx + dy * dy


def _first(values: np.ndarray, count: int) -> np.ndarray:
    """Columns of the smallest of the values [n, m] in each row, by value and column [n, min(count,
    m)]."""
    if values.shape[1] <= count:
        return np.argsort(values, axis=1, kind="stable")
    columns = np.sort(np.argpartition(values, count - 1, axis=1)[:, :count], axis=1)
    chosen = np.take_along_axis(values, columns, 1)
    order = np.take_along_axis(columns, np.argsort(chosen, axis=1, kind="stable"), 1)
    # The partition may have taken any of the values that tie for the last place.
    ties = (values <= chosen.max(1, keepdims=True)).sum(1) > count
    order[ties] = np.argsort(values[ties], axis=1, kind="stable")[:, :count]
    return order


def _deal(
    x: np.ndarray, points: np.ndarray, near: np.ndarray, squared: np.ndarray, k: int, apart: float
) -> np.ndarray:
    """k of the sites ``near`` [n, pool] at x [n, pool, 2] of each query [n, 2]; see ``spread``."""
    there = np.isfinite(squared)
    chosen = _apart(x.astype(float), there, squared, k, apart)
    dx, dy = np.moveaxis(x - points[:, None], -1, 0)
    octant = 4 * (dx < 0) + 2 * (dy < 0) + (np.abs(dy) > np.abs(dx))
    in_octant = (octant[..., None] == np.arange(8)) & (there & ~chosen)[..., None]
    turn = np.take_along_axis(in_octant.cumsum(1), octant[..., None], 2)[..., 0]
    pool = near.shape[1]
    rank = np.where(chosen, 0, turn) * pool + np.arange(pool)
    place = np.where(there, rank, np.iinfo(np.int64).max)
    first = np.argsort(place, axis=1, kind="stable")[:, :k]
    dealt = np.where(np.take_along_axis(there, first, 1), np.take_along_axis(near, first, 1), -1)
    return _padded(dealt, k, -1)


def _apart(
    x: np.ndarray, there: np.ndarray, squared: np.ndarray, k: int, apart: float
) -> np.ndarray:
    """Which of the sites at x [n, pool, 2], sorted by distance, are the up to k that lie apart."""
    chosen = np.zeros_like(there)
    if not apart:
        return chosen
    free = there.copy()
    for i in range(there.shape[1]):
        rows = np.flatnonzero(free[:, i] & (chosen.sum(1) < k))
        chosen[rows, i] = True
        near = _squared_distances(x[rows], x[rows, i : i + 1]) <= apart * apart * squared[rows]
        free[rows] &= ~near
    return chosen


def make_index() -> NumpyIndex | native.NativeIndex:
    """An empty index, compiled if possible."""
    return native.NativeIndex() if native.available() else NumpyIndex()
