"""A mapper's map on a large grid, and its predictions and joint draws at many places: in parts, by
workers if there are any; and errors of level in draws (of the water level, the draught or the sound
speed), which lines that do not cross cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from ..core.geometry import Grid
from ..core.maps import ElevationMap, Predicted
from ..core.workers import by_workers
from ..models.mapper import BathymetricMapper
from ..outputs.volume import Draws
from .soundings import Labels

#: Places predicted at a time; approximate number of cells along a side of a tile.
TILE, SIDE = 20_000, 128
#: Approximate number of places that are drawn first, all together.
FIRST = 2500
#: Side of the tiles of later rounds, and how far around a tile earlier places count; both in the
#: distance between the places of that round.
WIDE, AROUND = 32, 4
#: Side of the smallest squares, as a share of that of the first.
LEAST = 1e-6
#: Called with the number of soundings or cells processed so far.
OnProgress = Callable[[int], None]
#: Of days, by name: error of level relative to one of them, and standard deviation of what is left
#: of it after a correction, in m.
Levels = Mapping[str, Sequence[float]]


def draw(
    mapper: BathymetricMapper,
    grid: Grid,
    on_progress: OnProgress = lambda done: None,
    wanted: np.ndarray | None = None,
    client: Any = None,
) -> ElevationMap:
    """The map on a grid, predicted tile by tile, so that memory does not grow with it.

    Args:
        mapper: has a map.
        grid: of the map.
        on_progress: called with the number of cells predicted so far.
        wanted: cells to predict [rows, columns], boolean; the others may be NaN.
        client: of dask, whose workers predict the tiles; None: this process.

    Raises:
        CholeskyError: a matrix is beyond repair.
        PoamError: a worker is lost.
    """
    parts = list(_tiles(grid, wanted))
    tiles = [(Grid(grid.x[columns], grid.y[rows]),) for rows, columns in parts]
    whole = {name: np.full(grid.shape, np.nan) for name in ("mean", "variance")}
    done, cells, threads = 0, grid.shape[0] * grid.shape[1], mapper.settings.threads
    task, what = BathymetricMapper.map, "tile of the map"
    for number, tile in by_workers(client, threads, task, mapper, tiles, what):
        for name, values in {**tile.fields, "mean": tile.mean, "variance": tile.variance}.items():
            whole.setdefault(name, np.full(grid.shape, np.nan))[parts[number]] = values
        done += tile.mean.size
        on_progress(done)
    if done < cells:
        on_progress(cells)
    mean, variance = whole.pop("mean"), whole.pop("variance")
    return ElevationMap(grid, mean, variance, whole, mapper.support, mapper.samples)


def _tiles(grid: Grid, wanted: np.ndarray | None) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of each tile with wanted cells. Tiles are about square, so that the fewest
    lattice nodes lie on their borders: a node searches its neighbours again in each tile."""
    edges = (
        np.linspace(0, count, max(1, round(count / SIDE)) + 1).astype(int).tolist()
        for count in grid.shape
    )
    for (top, bottom), (left, right) in product(*map(pairwise, edges)):
        rows, columns = slice(top, bottom), slice(left, right)
        if wanted is None or wanted[rows, columns].any():
            yield rows, columns


def predict(mapper: BathymetricMapper, xy: np.ndarray) -> Predicted:
    """The mapper's prediction of soundings at xy [N, 2], a few thousand at a time."""
    parts = [mapper.predict(xy[begin : begin + TILE]) for begin in range(0, len(xy), TILE)]
    mean, variance = (np.concatenate([getattr(p, n) for p in parts]) for n in ("mean", "variance"))
    return Predicted(mean, variance)


def joint_draws(
    mapper: BathymetricMapper, xy: np.ndarray, count: int, seed: int, client: Any = None
) -> np.ndarray:
    """Joint draws of the bottom at xy [N, 2] less their mean, without noise [count, N], in m.

    Places far apart, all over the area, are drawn together. The others follow in rounds, each with
    places half as far apart as the one before. A round is drawn in tiles, each given the places of
    earlier rounds in and around it: so the tiles of a round do not depend on each other.

    Args:
        mapper: has a map.
        xy: the places.
        count: number of draws.
        seed: of the draws.
        client: of dask, whose workers draw the tiles; None: this process.

    Raises:
        CholeskyError: a matrix is beyond repair.
        PoamError: a worker is lost.
    """
    drawn = np.empty((count, len(xy)), dtype=np.float32)
    known = np.zeros(len(xy), dtype=bool)
    task, threads, what = BathymetricMapper.deviations, mapper.settings.threads, "joint draw"
    for number, (side, rows) in enumerate(_rounds(xy)):
        parts, tiles = _squared(xy, rows, WIDE * side) if number else [rows], []
        for k, part in enumerate(parts):
            low, high = xy[part].min(0) - AROUND * side, xy[part].max(0) + AROUND * side
            near = np.flatnonzero(known & ((xy >= low) & (xy <= high)).all(1))
            own = int(np.random.SeedSequence([seed, number, k]).generate_state(1)[0])
            given = xy[near], drawn[:, near]
            tiles.append((xy[part], count, own if number else seed, given))
        for k, found in by_workers(client, threads, task, mapper, tiles, what):
            drawn[:, parts[k]] = found
        known[rows] = True
    return drawn


def _rounds(xy: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """The places (indices) of each round, one in each square that has none yet, and the side of
    these squares; the last round has all that are left."""
    extent = np.ptp(xy, axis=0)
    side = float(np.sqrt(max(extent.prod() / FIRST, (extent.max() / FIRST) ** 2)))
    least, enough = side * LEAST, len(xy) / 4 if len(xy) > FIRST else 0
    known = np.zeros(len(xy), dtype=bool)
    while not known.all():
        if known.sum() < enough and side > least:
            order = np.argsort(~known, kind="stable")  # a known place stands for its square
            rows = order[np.unique(_squares(xy[order], side), axis=0, return_index=True)[1]]
            rows = rows[~known[rows]]
        else:
            rows = np.flatnonzero(~known)
        if len(rows):  # none: the places lie in groups that are far apart
            yield side, rows
        known[rows], side = True, side / 2


def _squared(xy: np.ndarray, rows: np.ndarray, side: float) -> list[np.ndarray]:
    """Some of the places (indices), by squares of this side."""
    number = np.unique(_squares(xy[rows], side), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(number, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(number))[:-1])


def _squares(xy: np.ndarray, side: float) -> np.ndarray:
    return np.floor(xy / side).astype(np.int64)


def with_level_errors(
    sample: Draws,
    xy: np.ndarray,
    day: Labels,
    deviation: float,
    seed: int,
    levels: Levels | None = None,
) -> Draws:
    """Draws in which the elevations of each day are off by N(0, deviation^2).

    A map is off at a place as the soundings nearest to it are.

    Args:
        sample: makes draws without such errors.
        xy: places of the soundings [N, 2], in m.
        day: of each [N]; or other parts of the survey with a level of their own.
        deviation: in m.
        seed: of the errors.
        levels: of the days whose levels are known from crossings. These share the error c of the
            day that they are relative to. With c + off_k ~ N(0, deviation^2) for each of K days,
            c ~ N(-mean(off_k), deviation^2 / K); as maps are not corrected by this mean, it is
            taken as a further deviation.
    """
    if not (deviation or levels):
        return sample
    nearest = cKDTree(xy)

    def drawn(places: np.ndarray, count: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        off = deviation * rng.standard_normal((count, len(day.names)))
        known = [i for i, name in enumerate(day.names) if levels and name in levels]
        if levels and known:
            relative, left = np.array([levels[day.names[i]] for i in known]).T
            shared = np.hypot(relative.mean(), deviation / len(known) ** 0.5) if deviation else 0.0
            off[:, known] = shared * rng.standard_normal((count, 1))
            off[:, known] += left * rng.standard_normal((count, len(known)))
        found, at = sample(places, count), day.code[nearest.query(places)[1]]
        for draw, errors in zip(found, off, strict=True):  # in place: they may be large
            draw += errors[at]
        return found

    return drawn
