"""The index of sites for searches of neighbours, and which of them land hides.

Compiled, it is a grid of buckets that takes sites one by one: the cost of a query depends on the
sites that it looks at, not on N; when the grid holds about twice as many sites as before, it is
refined and all sites are moved. In NumPy a query looks at all sites, and finds the same.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.geometry import Land
from ...core.samples import grown
from ..native.loader import INTEGER, POINTER, REAL, declared, structure

#: Unit of the sites' random numbers.
UNIT = 2.0**-32
#: Shares come in parts of 1, 1/4, ... down to 1/4^(LEVELS - 1); as in search.c.
LEVELS = 4
#: Of the compiled grid: mean number of sites in a cell when it is refined; as in search.c.
CROWDED, BUCKET, BUCKET_BYTES = 7, 7, 128
#: Number of distances in memory at a time.
DISTANCES = 4_000_000
#: If land hides most neighbours, this many times as many are considered.
MORE = 4

#: As in search.c.
_Grid = structure((INTEGER, "cells used looked_at"), (POINTER, "buckets"))
_Raster = structure(
    (INTEGER, "rows columns"), (REAL, "side"), (POINTER, "x y to_land nearest_row nearest_column")
)
_grid = ctypes.POINTER(_Grid)
_library = declared(
    "search",
    search_add=(None, _grid, POINTER, POINTER, INTEGER, INTEGER),
    search_spread=(
        None, _grid, POINTER, *[INTEGER] * 4, REAL, REAL, INTEGER, INTEGER, REAL, POINTER,
    ),
    search_hidden=(
        None, ctypes.POINTER(_Raster), POINTER, POINTER, INTEGER, POINTER, INTEGER, INTEGER,
        POINTER,
    ),
)  # fmt: skip


class Subset(NamedTuple):
    """A random part of the sites, by the fixed random number in [0, 1) of each.

    One ``part`` of 4^level equal parts of [0, 1), and in it ``size`` numbers from ``start`` on,
    cyclically; both in units of the part. A search in a small share costs as much as in a large
    one.
    """

    start: float
    size: float
    level: int = 0
    part: int = 0


EVERYTHING = Subset(0.0, 1.0)


def numbers(first: int, count: int) -> np.ndarray:
    """The fixed random numbers in [0, 1) of the sites from ``first`` on, times 2^32 (uint32): the
    upper half of splitmix64 of the site's number."""
    z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


class NumpyIndex:
    """The places and fixed numbers of the sites, in arrays that double when they are full.

    Searches use places in float32, a tenth of a millimetre in a kilometre, which halves the memory
    they read. Computations with the found sites use the exact places.
    """

    def __init__(self) -> None:
        self._count = 0
        self._x, self._numbers = np.empty((0, 2), np.float32), np.empty(0, np.uint32)

    def add(self, x: Tensor) -> None:
        """Add the sites x [n, 2], numbered from the last one on."""
        first, self._count = self._count, self._count + len(x)
        self._x, self._numbers = (
            grown(kept, first, self._count) for kept in (self._x, self._numbers)
        )
        self._x[first : self._count] = x.numpy()
        self._numbers[first : self._count] = numbers(first, len(x))

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
        place = self._numbers[: self._count] * (4**share.level * UNIT) - share.part
        sites = np.flatnonzero(np.floor(place) == 0)
        above = place[sites] - share.start
        sites = sites[np.where(above < 0, above + 1, above) < share.size]
        points, places = x.float().double().numpy(), self._x[sites].astype(float)
        found = np.full((len(x), k), -1, dtype=np.int64)
        step = max(1, DISTANCES // max(1, len(sites)))
        for part in (slice(first, first + step) for first in range(0, len(x), step)):
            squared = _squared_distances(points[part, None], places)
            squared[squared <= (0.0 if elsewhere else -1.0)] = np.inf
            order = _first(squared, pool)
            squared = np.take_along_axis(squared, order, 1)
            chosen = _deal(places[order], points[part], sites[order], squared, k, apart)
            found[part, : chosen.shape[1]] = chosen
        return torch.from_numpy(found)


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
    """Up to k of the sites ``near`` [n, pool] at x [n, pool, 2] of each query [n, 2], -1 for none;
    see ``spread``."""
    there = np.isfinite(squared)
    chosen = _apart(x, there, squared, k, apart)
    dx, dy = np.moveaxis(x - points[:, None], -1, 0)
    octant = 4 * (dx < 0) + 2 * (dy < 0) + (np.abs(dy) > np.abs(dx))
    in_octant = (octant[..., None] == np.arange(8)) & (there & ~chosen)[..., None]
    turn = np.take_along_axis(in_octant.cumsum(1), octant[..., None], 2)[..., 0]
    pool = near.shape[1]
    rank = np.where(chosen, 0, turn) * pool + np.arange(pool)
    place = np.where(there, rank, np.iinfo(np.int64).max)
    first = np.argsort(place, axis=1, kind="stable")[:, :k]
    return np.where(np.take_along_axis(there, first, 1), np.take_along_axis(near, first, 1), -1)


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


class NativeIndex(NumpyIndex):
    """The compiled index."""

    def __init__(self) -> None:
        super().__init__()
        self._grid = _Grid()
        self._lay_out(1)

    @property
    def looked_at(self) -> int:
        """Number of sites that queries have looked at so far."""
        return int(self._grid.looked_at)

    def add(self, x: Tensor) -> None:
        """See ``NumpyIndex.add``."""
        first = self._count
        super().add(x)
        cells = cells_for(self._count)
        if cells != self._grid.cells:
            first = 0
            self._lay_out(cells)
        self._make_room(self._count - first)
        _library.search_add(
            self._grid, self._x.ctypes.data, self._numbers.ctypes.data, first, self._count
        )

    def spread(
        self, x: Tensor, k: int, pool: int, apart: float = 0.0, share: Subset = EVERYTHING,
        elsewhere: bool = False,
    ) -> Tensor:  # fmt: skip
        """See ``NumpyIndex.spread``."""
        x = x.float().double().contiguous()
        found = torch.empty(len(x), k, dtype=torch.int64)
        _library.search_spread(
            self._grid, x.data_ptr(), elsewhere, len(x), k, pool, *share, apart, found.data_ptr()
        )
        return found

    def _lay_out(self, cells: int) -> None:
        """Make an empty grid."""
        self._firsts = sum(4**level * max(1, cells >> level) ** 2 for level in range(LEVELS))
        self._grid = _Grid(cells, self._firsts, self._grid.looked_at)
        self._buckets = _zeros(self._firsts)
        self._grid.buckets = self._buckets.ctypes.data

    def _make_room(self, sites: int) -> None:
        """Reserve as many buckets as this many sites may open."""
        used, there = int(self._grid.used), len(self._buckets)
        # A cell opens another bucket when all it has are full
        most = self._firsts + LEVELS * (self._count // BUCKET)
        needed = min(used + LEVELS * sites, most)
        if needed > there:
            room = _zeros(max(needed, there + there // 2))
            room[:used] = self._buckets[:used]
            self._buckets = room
            self._grid.buckets = self._buckets.ctypes.data


def cells_for(sites: int) -> int:
    """Cells along a side for this many sites: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, ...

    Factors below two, so that cells are never nearly empty; each size is half of a later one.
    """
    cells = 1
    while cells * cells * CROWDED < sites:
        if cells < 16:
            cells *= 2
        else:
            cells = cells * 4 // 3 if cells % 3 == 0 else cells * 3 // 2
    return cells


def _zeros(buckets: int) -> np.ndarray:
    """This many empty buckets, aligned to cache lines."""
    room = np.zeros((buckets + 1) * BUCKET_BYTES, dtype=np.uint8)
    start = -room.ctypes.data % BUCKET_BYTES
    return room[start : start + buckets * BUCKET_BYTES].reshape(-1, BUCKET_BYTES)


#: The index, compiled if possible.
Index = NativeIndex if _library is not None else NumpyIndex


def spread_visible(
    index: NumpyIndex, sites: Tensor, land: Land | None, x: Tensor, k: int, pool: int,
    apart: float = 0.0, share: Subset = EVERYTHING, elsewhere: bool = False,
) -> Tensor:  # fmt: skip
    """As ``NumpyIndex.spread``, but only of sites [S, 2] that land does not hide from x.

    If more than half are hidden, they are replaced by others of ``MORE`` k sites; if all of these
    are hidden, by others of ``pool``; if all of those are hidden, there are no neighbours.
    """
    if land is None:
        return index.spread(x, k, pool, apart, share, elsewhere)
    found, rows = torch.full((len(x), k), -1), torch.arange(len(x))
    for wanted in (k, MORE * k, pool):
        near = index.spread(x[rows], min(wanted, pool), pool, apart, share, elsewhere)
        hidden = hidden_by(land, x[rows], sites, near)
        seen = (near >= 0) & ~hidden
        first = (~seen).byte().argsort(dim=1, stable=True)[:, :k]
        found[rows, : first.shape[1]] = torch.where(seen, near, -1).gather(1, first)
        fewer = (2 * seen.sum(1) < k) if wanted == k else ~seen.any(1)
        rows = rows[hidden.any(1) & fewer]
        if not len(rows):
            break
    return found


def hidden_by(land: Land | None, x: Tensor, sites: Tensor, near: Tensor) -> Tensor:
    """Which of the sites [S, 2] in ``near`` [N, K] (-1 for none) land hides from x [N, 2]; boolean
    [N, K]."""
    hidden = torch.zeros_like(near, dtype=torch.bool)
    if land is not None and _library is not None:
        x, near = (t.detach().contiguous() for t in (x, near))
        sites = rows_apart(sites)
        arrays = land.grid.x, land.grid.y, land.to_land, *land.nearest_water
        raster = _Raster(*land.water.shape, land.side, *(array.ctypes.data for array in arrays))
        _library.search_hidden(
            raster, x.data_ptr(), sites.data_ptr(), sites.stride(0), near.data_ptr(), *near.shape,
            hidden.data_ptr(),
        )  # fmt: skip
    elif land is not None:
        i, j = (near >= 0).nonzero(as_tuple=True)
        between = land.between(x[i].numpy(), sites[near[i, j]].numpy())
        hidden[i, j] = torch.from_numpy(between)
    return hidden


def rows_apart(x: Tensor) -> Tensor:
    """Places [S, 2] with adjacent coordinates in memory; not copied if they are already, as there
    may be a million sites."""
    x = x.detach()
    return x if x.stride(1) == 1 else x.contiguous()
