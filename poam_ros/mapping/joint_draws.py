"""Joint draws of a map at many places, in tiles that need not wait for each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from ..core.maps import JointDraws
from ..models.mapper import BathymetricMapper

#: Approximate number of places that are drawn first, all together.
FIRST = 2500
#: Side of the tiles of later rounds, and how far around a tile earlier places count; both in the
#: distance between the places of that round.
WIDE, AROUND = 32, 4
#: Side of the smallest squares, as a share of that of the first.
LEAST = 1e-6
#: Arguments of ``BathymetricMapper.deviations``, and what calls it for each of a round, in order.
Tile = tuple[np.ndarray, int, int, JointDraws]
DrawTiles = Callable[[BathymetricMapper, list[Tile]], Iterable[np.ndarray]]


def here(mapper: BathymetricMapper, tiles: list[Tile]) -> Iterator[np.ndarray]:
    """The draws of each tile, one after the other in this process."""
    return (mapper.deviations(*tile) for tile in tiles)


def joint_draws(
    mapper: BathymetricMapper,
    xy: np.ndarray,
    count: int,
    seed: int,
    draw_tiles: DrawTiles = here,
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
        draw_tiles: draws the tiles of a round.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    drawn = np.empty((count, len(xy)), dtype=np.float32)
    known = np.zeros(len(xy), dtype=bool)
    for number, (side, rows) in enumerate(_rounds(xy)):
        if number == 0:
            drawn[:, rows] = mapper.deviations(xy[rows], count, seed)
        else:
            parts, tiles = _tiles(xy, rows, WIDE * side), []
            for k, part in enumerate(parts):
                low, high = xy[part].min(0) - AROUND * side, xy[part].max(0) + AROUND * side
                near = np.flatnonzero(known & ((xy >= low) & (xy <= high)).all(1))
                own = int(np.random.SeedSequence([seed, number, k]).generate_state(1)[0])
                tiles.append((xy[part], count, own, (xy[near], drawn[:, near])))
            for part, found in zip(parts, draw_tiles(mapper, tiles), strict=True):
                drawn[:, part] = found
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


def _tiles(xy: np.ndarray, rows: np.ndarray, side: float) -> list[np.ndarray]:
    """Some of the places (indices), by squares of this side."""
    number = np.unique(_squares(xy[rows], side), axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(number, kind="stable")
    return np.split(rows[order], np.cumsum(np.bincount(number))[:-1])


def _squares(xy: np.ndarray, side: float) -> np.ndarray:
    return np.floor(xy / side).astype(np.int64)
