"""Neighbours and their conditionals in C if it was built; otherwise NumPy and torch do the same,
more slowly (see ``loader``).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ..linalg import EXTRA_JITTER
from ..nngp.kernel import EVERYTHING, DataIndex, cells_for, check_factors, rounded
from .loader import INTEGER, POINTER, REAL, declared, structure

if TYPE_CHECKING:
    from ...core.geometry import Land
    from ..nngp.kernel import Kernel, Subset, TrainingData

MAX_NEIGHBOURS = 32  # as in conditional.c
BUCKET, BUCKET_BYTES, LEVELS = 7, 128, 4  # as in search.c


#: As in search.c and conditional.c.
_Grid = structure((INTEGER, "cells used looked_at"), (POINTER, "buckets"))
_Raster = structure(
    (INTEGER, "rows columns"), (REAL, "side"), (POINTER, "x y to_land nearest_row nearest_column")
)
_Problem = structure(
    (INTEGER, "queries sets neighbours side x_step y_step noise_step"),
    (REAL, "exponent noise low high mean_precision tail"),
    (POINTER, "F x near site_x site_y site_noise site_own first"),
)
_grid, _problem_at = ctypes.POINTER(_Grid), ctypes.POINTER(_Problem)
_search = declared(
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
_conditional = declared(
    "conditional",
    conditional_predict=(INTEGER, _problem_at, *[POINTER] * 3, INTEGER, POINTER),
    conditional_gradient=(INTEGER, _problem_at, *[POINTER] * 6, INTEGER, POINTER),
)


def available() -> bool:
    """Whether the compiled libraries are available."""
    return _search is not None and _conditional is not None


def usable(neighbours: int) -> bool:
    """Whether conditionals of this many neighbours can be computed here."""
    return _conditional is not None and 0 < neighbours <= MAX_NEIGHBOURS


class NativeIndex(DataIndex):
    """The compiled index. See ``NumpyIndex``."""

    def __init__(self) -> None:
        super().__init__()
        self._grid = _Grid()
        self._lay_out(1)

    @property
    def looked_at(self) -> int:
        """Number of sites that queries have looked at so far."""
        return int(self._grid.looked_at)

    def add(self, x: Tensor) -> None:
        """Add the sites x [n, 2], numbered from the last one on."""
        first = self._append(x)
        cells = cells_for(self._count)
        if cells != self._grid.cells:
            first = 0
            self._lay_out(cells)
        self._make_room(self._count - first)
        _search.search_add(
            self._grid, self._x.ctypes.data, self._numbers.ctypes.data, first, self._count
        )

    def spread(
        self, x: Tensor, k: int, pool: int, apart: float = 0.0, share: Subset = EVERYTHING,
        elsewhere: bool = False,
    ) -> Tensor:  # fmt: skip
        """See ``NumpyIndex.spread``."""
        x = rounded(x).contiguous()
        found = torch.empty(len(x), k, dtype=torch.int64)
        _search.search_spread(
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


def _zeros(buckets: int) -> np.ndarray:
    """This many empty buckets, aligned to cache lines."""
    room = np.zeros((buckets + 1) * BUCKET_BYTES, dtype=np.uint8)
    start = -room.ctypes.data % BUCKET_BYTES
    return room[start : start + buckets * BUCKET_BYTES].reshape(-1, BUCKET_BYTES)


def hidden(land: Land, x: Tensor, sites: Tensor, near: Tensor) -> Tensor:
    """Which of the sites [S, 2] in ``near`` [N, K] (-1 for none) land hides from x [N, 2]; boolean
    [N, K]."""
    x, near = (t.detach().contiguous() for t in (x, near))
    sites = _rows_apart(sites)
    rows, columns = land.water.shape
    arrays = land.grid.x, land.grid.y, land.to_land, *land.nearest_water
    raster = _Raster(rows, columns, land.side, *(array.ctypes.data for array in arrays))
    found = torch.empty(near.shape, dtype=torch.bool)
    _search.search_hidden(
        raster,
        x.data_ptr(),
        sites.data_ptr(),
        sites.stride(0),
        near.data_ptr(),
        *near.shape,
        found.data_ptr(),
    )
    return found


def _rows_apart(x: Tensor) -> Tensor:
    """Places [S, 2] with adjacent coordinates in memory; not copied if they are already, as there
    may be a million sites."""
    x = x.detach()
    return x if x.stride(1) == 1 else x.contiguous()


def _problem(
    kernel: Kernel, sites: TrainingData, x: Tensor, near: Tensor, first: Tensor | None = None
) -> tuple[ctypes.Structure, list[Tensor | None]]:
    """The C structure of a problem, and the arrays that it points into.

    ``first``: the queries from first[i] to first[i + 1] share near[i] [sets + 1]; None: each has a
    row of its own.
    """
    F, x, near = (t.detach().contiguous() for t in (kernel.F, x, near))
    own = None if sites.own is None else sites.own.detach().contiguous()
    places = _rows_apart(sites.x)
    arrays = [F, x, near, places, sites.y, sites.noise, own, first]
    problem = _Problem(
        len(x), *near.shape, round(len(kernel.F) ** 0.5),
        places.stride(0), sites.y.stride(0), sites.noise.stride(0),
        float(kernel.exponent), float(kernel.noise), *kernel.lengths, kernel.mean_precision,
        kernel.tail,
        *(None if array is None else array.data_ptr() for array in arrays),
    )  # fmt: skip
    return problem, arrays


_JITTERS = np.array(EXTRA_JITTER)


def condition(
    kernel: Kernel, sites: TrainingData, x: Tensor, near: Tensor, own: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The fields of ``Conditionals``; arguments as of ``nngp.conditional.condition``."""
    order, first = None, None
    if own is not None:  # in order, and no set without a query
        order = own.argsort(stable=True)
        used, count = own[order].unique_consecutive(return_counts=True)
        x, near = x[order], near[used]
        first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    problem, arrays = _problem(kernel, sites, x, near, first)
    mean, variance, jitter = (x.new_zeros(n) for n in (len(x), len(x), 1))
    failed = _conditional.conditional_predict(
        problem, mean.data_ptr(), variance.data_ptr(),
        _JITTERS.ctypes.data, len(_JITTERS), jitter.data_ptr(),
    )  # fmt: skip
    del arrays
    check_factors(failed, near.shape[1])
    if order is not None:
        mean, variance = (
            torch.empty_like(values).index_copy_(0, order, values) for values in (mean, variance)
        )
    return mean, variance


def gradient(
    kernel: Kernel, sites: TrainingData, left_out: Tensor, near: Tensor
) -> tuple[float, Tensor, float, float, float]:
    """The fields of ``Gradient``."""
    problem, arrays = _problem(kernel, sites, sites.x[left_out], near)
    y, noise = sites.y[left_out], sites.noise[left_out]
    own = None if sites.own is None else sites.own[left_out]
    dF, others, jitter = torch.zeros_like(kernel.F), y.new_zeros(3), y.new_zeros(1)
    failed = _conditional.conditional_gradient(
        problem, y.data_ptr(), noise.data_ptr(), None if own is None else own.data_ptr(),
        dF.data_ptr(), others.data_ptr(),
        _JITTERS.ctypes.data, len(_JITTERS), jitter.data_ptr(),
    )  # fmt: skip
    del arrays
    check_factors(failed, near.shape[1])
    loss, dexponent, dnoise = others.tolist()
    return loss, dF, dexponent, dnoise, jitter.item()
