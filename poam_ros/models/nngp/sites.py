"""The sites, formed from the pings in the order of arrival, and their index for searches of
neighbours, which land may hide.

Compiled, the index is a grid of buckets that takes sites one by one: the cost of a query depends on
the sites that it looks at, not on N; when the grid holds about twice as many sites as before, it is
refined and all sites are moved. In NumPy a query looks at all sites, and finds the same.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.geometry import Land
from ...core.samples import grown
from ..interface import Dataset
from ..native.loader import INTEGER, POINTER, REAL, declared, structure
from .options import NeighbourOptions

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
#: A ping this near to the previous one, in scaled units, counts as at the same place.
SAME_PLACE = 1e-9
#: Cells along a side of [-1, 1]^2: further pings in a cell add little information on the fields.
CELLS = 128
#: Blocks of them along a side; those with sites make up the surveyed area.
BLOCKS = 16
#: Variances of pings' own noise are alike within a factor of 2^(1/KINDS); those below
#: ``NEGLIGIBLE`` count as none.
KINDS, NEGLIGIBLE = 2, 1e-9
#: Columns of the sites, 64 bytes a row, as conditionals access sites at random: place (2), target,
#: noise in units of the learned one, own noise; sum of targets, number of pings, sum of own noises.
TARGET, NOISE, OWN, SUM, PINGS, SUM_OWN, COLUMNS = range(2, 9)

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


@dataclass(frozen=True)
class TrainingData:
    """Data for predictions: places x [S, 2], targets y [S], and their noise in units of the learned
    one [S]. own [S]: further variance of noise; None if no site has any."""

    x: Tensor
    y: Tensor
    noise: Tensor
    own: Tensor | None = None


class SiteStore:
    """The pings in the order of arrival, the sites formed from them, and the index of the sites.

    A site consists of n successive pings at one place with similar own noises r. Its target is
    their mean, with the variance (s2 + mean r) / n for any learned noise s2. The best mean would be
    weighted by 1 / (s2 + r) and change with s2, so pings with different noises form separate sites.
    For similar noises the plain mean is nearly the best (its variance is at most 3 % larger).

    Attributes:
        pings: all of them.
        occupied: number of the CELLS x CELLS cells over [-1, 1]^2 that have a site.
        land: sites on different sides of it are not neighbours, in scaled units; None: no land.
    """

    def __init__(self) -> None:
        self.land: Land | None = None
        self._forget()

    def _forget(self) -> None:
        self.pings = Dataset(torch.empty(0, 2).double(), torch.empty(0).double())
        self._index = Index()
        self._count = self.occupied = 0
        self._cells = torch.zeros(CELLS * CELLS, dtype=torch.bool)
        # The sites at the place of the last ping, by kind of noise.
        self._here: dict[int, int] = {}
        self._place: Tensor | None = None
        self._rows = torch.empty(0, COLUMNS, dtype=torch.float64)

    def __len__(self) -> int:
        return self._count

    @property
    def sites(self) -> TrainingData:
        """Views of the sites; no copy."""
        rows = self._rows[: len(self)]
        own = None if self.pings.noise is None else rows[:, OWN]
        return TrainingData(rows[:, :2], rows[:, TARGET], rows[:, NOISE], own)

    @property
    def spacing(self) -> float:
        """Mean spacing of the sites over the surveyed area, in scaled units."""
        parts = self._cells.view(BLOCKS, CELLS // BLOCKS, BLOCKS, CELLS // BLOCKS)
        occupied = int(parts.any(3).any(1).sum())
        return float(2.0 / BLOCKS * (occupied / max(1, len(self))) ** 0.5)

    def restore(self, pings: Dataset) -> None:
        """Replace everything by these pings."""
        self._forget()
        if len(pings):
            self.append(pings)

    def append(self, new: Dataset) -> None:
        """Add new pings, each to a site at its place, or to a new site."""
        self.pings = self.pings.more(new)
        if not len(new):
            return
        old = self._count
        own = torch.zeros_like(new.y) if new.noise is None else new.noise
        site, begins = self._joined(new.X, own)
        self._rows = grown(self._rows, old, self._count)
        self._rows[old : self._count] = 0.0
        self._rows[old : self._count, :2] = new.X[begins]
        # One by one, so that the sums do not depend on the batches.
        for column, values in ((SUM, new.y), (PINGS, torch.ones_like(own)), (SUM_OWN, own)):
            np.add.at(self._rows[:, column].numpy(), site, values.numpy())
        changed = torch.from_numpy(site)
        rows = self._rows[changed]
        pings = rows[:, PINGS]
        self._rows[changed, TARGET] = rows[:, SUM] / pings
        self._rows[changed, NOISE] = 1.0 / pings
        self._rows[changed, OWN] = rows[:, SUM_OWN] / pings.square()
        x = self._rows[old : self._count, :2]
        self._index.add(x)
        across, up = ((x + 1.0) * (CELLS / 2)).long().clamp(0, CELLS - 1).unbind(1)
        self._cells[up * CELLS + across] = True
        self.occupied = int(self._cells.sum())

    def spread(
        self, x: Tensor, options: NeighbourOptions, share: Subset = EVERYTHING,
        elsewhere: bool = False,
    ) -> Tensor:  # fmt: skip
        """The neighbours of places x [N, 2], by the options, as of ``spread_visible``."""
        near = options.neighbours, options.candidate_neighbours, options.neighbour_spacing
        places = self._rows[:, :2]
        return spread_visible(self._index, places, self.land, x, *near, share, elsewhere)

    def _joined(self, X: Tensor, own: Tensor) -> tuple[np.ndarray, Tensor]:
        """The site of each new ping [N], including new sites; and which pings begin one."""
        before = torch.cat([X[:1] + 1.0 if self._place is None else self._place, X[:-1]])
        moved = ((X - before).abs().amax(1) > SAME_PLACE).tolist()
        kinds = (KINDS * (own + NEGLIGIBLE).log2()).floor().long().tolist()
        sites, begins = np.empty(len(X), dtype=np.int64), np.zeros(len(X), dtype=bool)
        for ping, (moves, kind) in enumerate(zip(moved, kinds, strict=True)):
            if moves:
                self._here = {}
            if kind not in self._here:
                self._here[kind], begins[ping] = self._count, True
                self._count += 1
            sites[ping] = self._here[kind]
        self._place = X[-1:].clone()
        return sites, torch.from_numpy(begins)
