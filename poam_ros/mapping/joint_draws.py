"""Joint draws of a map at many places, in tiles that need not wait for each other; and the errors
of level in them: of the water level, the draught or the sound speed.

All soundings of a day share such an error. Lines that do not cross cannot show it, however wrong it
is, and what crossings show is only the difference between days. So a person has to say how large
it may be. Days whose differences are known share one error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from scipy.spatial import cKDTree

from ..core.maps import JointDraws
from ..models.mapper import BathymetricMapper
from ..outputs.volume import Draws
from .soundings import Labels

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
#: Of days, by name: error of level relative to one of them, and standard deviation of what is left
#: of it after a correction, in m.
Levels = Mapping[str, Sequence[float]]


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
