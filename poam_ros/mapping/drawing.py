"""Predictions of a mapper on a large grid or at many places, in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise, product

import numpy as np

from ..core.geometry import Grid
from ..core.maps import ElevationMap, Predicted
from ..models.mapper import BathymetricMapper

#: Places predicted at a time; approximate number of cells along a side of a tile.
TILE, SIDE = 20_000, 128
#: Called with the number of soundings or cells processed so far.
OnProgress = Callable[[int], None]
Part = tuple[slice, slice]


def draw(
    mapper: BathymetricMapper,
    grid: Grid,
    on_progress: OnProgress = lambda done: None,
    wanted: np.ndarray | None = None,
) -> ElevationMap:
    """The map on a grid, predicted tile by tile, so that memory does not grow with it.

    Tiles are about square, so that the fewest lattice nodes lie on their borders: a node searches
    its neighbours again in each tile.

    ``wanted``: cells to predict [rows, columns], boolean; the others may be NaN.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """

    def tiles() -> Iterator[tuple[Part, ElevationMap]]:
        edges = (
            np.linspace(0, count, max(1, round(count / SIDE)) + 1).astype(int).tolist()
            for count in grid.shape
        )
        for (top, bottom), (left, right) in product(*map(pairwise, edges)):
            rows, columns = slice(top, bottom), slice(left, right)
            if wanted is not None:
                i, j = np.nonzero(wanted[rows, columns])
                if not len(i):
                    continue
                rows, columns = _around(rows, i), _around(columns, j)
            yield (rows, columns), mapper.map(Grid(grid.x[columns], grid.y[rows]))

    return assembled(tiles(), mapper, grid, on_progress)


def _around(piece: slice, cells: np.ndarray) -> slice:
    """The part of a piece around ``cells`` (numbered from its beginning), with two cells at least
    where there are two: a grid's step lies between two."""
    count = piece.stop - piece.start
    first = max(0, min(int(cells.min()), count - 2))
    end = max(int(cells.max()) + 1, min(first + 2, count))
    return slice(piece.start + first, piece.start + end)


def assembled(
    tiles: Iterable[tuple[Part, ElevationMap]],
    mapper: BathymetricMapper,
    grid: Grid,
    on_progress: OnProgress,
) -> ElevationMap:
    """The mapper's map on a grid, put together from maps of its parts in any order; NaN
    elsewhere."""
    whole = {name: np.full(grid.shape, np.nan) for name in ("mean", "variance")}
    done, cells = 0, grid.shape[0] * grid.shape[1]
    for part, tile in tiles:
        for name, values in {**tile.fields, "mean": tile.mean, "variance": tile.variance}.items():
            whole.setdefault(name, np.full(grid.shape, np.nan))[part] = values
        done += tile.mean.size
        on_progress(done)
    if done < cells:
        on_progress(cells)
    mean, variance = whole.pop("mean"), whole.pop("variance")
    return ElevationMap(grid, mean, variance, whole, mapper.support, mapper.samples)


def predict(mapper: BathymetricMapper, xy: np.ndarray) -> Predicted:
    """The mapper's prediction of soundings at xy [N, 2], a few thousand at a time."""
    parts = [mapper.predict(xy[begin : begin + TILE]) for begin in range(0, len(xy), TILE)]
    mean, variance = (np.concatenate([getattr(p, n) for p in parts]) for n in ("mean", "variance"))
    return Predicted(mean, variance)
