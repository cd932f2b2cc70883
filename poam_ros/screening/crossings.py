"""The crossings of survey lines; and the false echoes of a record of such lines.

Lines are polylines through the medians of blocks of soundings. A sounder that hears an echo twice
records a line as smooth as the bottom, at twice its depth: along the line nothing shows it, but the
other lines do (``hypotheses``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .hypotheses import OTHER_ECHO, Suspicious, block_length, judged
from .lines import PASS_RATIO, medians

NEAR_LEGS = 32  # nearest legs of each leg that are searched for crossings


@dataclass(frozen=True)
class Crossings:
    """Crossings of lines, each once.

    Attributes:
        row, other: index of a sounding beside the crossing, on each of the two lines [C].
        xy: place of the crossing [C, 2], in m.
        difference: elevation on the line of ``row`` minus that on the other [C], in m.
        z: elevation on the line of ``row`` [C], in m.
        slope: of both lines there, along them [C, 2].
    """

    row: np.ndarray
    other: np.ndarray
    xy: np.ndarray
    difference: np.ndarray
    z: np.ndarray
    slope: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: slice | np.ndarray) -> Crossings:
        return Crossings(*(values[index] for values in vars(self).values()))

    def more(self, others: Crossings) -> Crossings:
        """These and others."""
        both = zip(vars(self).values(), vars(others).values(), strict=True)
        return Crossings(*(np.concatenate(pair) for pair in both))

    @classmethod
    def none(cls) -> Crossings:
        """No crossings."""
        index, number, pair = np.empty(0, dtype=np.int64), np.empty(0), np.empty((0, 2))
        return cls(index, index, pair, number, number, pair)


@dataclass(frozen=True)
class Compared(Crossings):
    """The crossings of a record's lines, and what the comparison shows of its soundings.

    Attributes:
        multiple: 2 or 3 if a sounding is a double or triple echo, 0 if it is another false echo,
            else 1 [N].
        suspicious: runs that would be false echoes if another pass contradicted them, and stay.
        block: length along a line, in m, of the blocks of soundings that are compared.
    """

    multiple: np.ndarray
    suspicious: tuple[Suspicious, ...]
    block: float


def find_crossings(
    xy: np.ndarray, z: np.ndarray, line: np.ndarray, ranges: np.ndarray, screened: bool = True
) -> Compared:
    """Find the crossings of a record's lines, and its false echoes. Deterministic.

    Args:
        xy: places [N, 2], in the order of the record, in m.
        z: elevations [N], in m.
        line: index of each sounding's line [N].
        ranges: from the surface, or the sounder, to the bottom [N], in m.
        screened: whether to look for false echoes.
    """
    line = np.cumsum(np.r_[0, np.diff(line) != 0])[: len(z)]  # later it is another pass
    distance = np.r_[0.0, np.cumsum(np.hypot(*np.diff(xy, axis=0).T))][: len(z)]
    bottom = np.ones(len(z), dtype=np.int64), ()
    multiple, suspicious = judged(xy, z, line, ranges, distance) if screened else bottom
    crossings, block = cross_lines(xy, z, line, multiple, distance, ranges)
    return Compared(**vars(crossings), multiple=multiple, suspicious=suspicious, block=block)


def cross_lines(
    xy: np.ndarray,
    z: np.ndarray,
    line: np.ndarray,
    multiple: np.ndarray,
    distance: np.ndarray,
    ranges: np.ndarray,
) -> tuple[Crossings, float]:
    """All crossings, also of a line with itself, each once; and the blocks' length, in m.

    Lines are polylines through the medians of blocks of soundings that are all bottom, or the same
    ``multiple`` [N]; elevations are interpolated along them. ``distance``: along the record up to
    each [N], in m; the others are as of ``find_crossings``.
    """
    block = block_length(xy, ranges)
    kept = np.flatnonzero(multiple != OTHER_ECHO)
    if not len(kept):
        return Crossings.none(), block
    kept = kept[np.lexsort((kept, multiple[kept], line[kept]))]
    part = np.cumsum(np.r_[True, (np.diff(line[kept]) != 0) | (np.diff(multiple[kept]) != 0)])
    along = np.floor(distance[kept] / block).astype(np.int64)
    node = np.cumsum(np.r_[True, (np.diff(part) != 0) | (np.diff(along) != 0)]) - 1
    n, first = np.bincount(node), np.flatnonzero(np.r_[True, np.diff(node) != 0])
    *places, passed = (np.bincount(node, of[kept]) / n for of in (*xy.T, distance))
    where, level, row = np.column_stack(places), medians(z[kept], node, len(n)), kept[first]
    length = np.hypot(*np.diff(where, axis=0).T)
    legs = np.flatnonzero((np.diff(part[first]) == 0) & (length > 0) & (length <= 3 * block))
    if len(legs) < 2:
        return Crossings.none(), block
    k = min(NEAR_LEGS, len(legs))
    middle, far = (where[legs] + where[legs + 1]) / 2, float(length[legs].max())
    j = cKDTree(middle).query(middle, k=k, distance_upper_bound=far)[1].reshape(-1)
    i, near = np.repeat(np.arange(len(legs)), k), j < len(legs)
    i, j = i[near], j[near]
    pairs = np.unique(np.stack([np.minimum(i, j), np.maximum(i, j)])[:, i != j], axis=1)
    a, b = legs[pairs]
    p, q = where[a + 1] - where[a], where[b + 1] - where[b]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = cross_product(where[b] - where[a], q) / cross_product(p, q)
        u = cross_product(where[b] - where[a], p) / cross_product(p, q)
    passes = np.abs(passed[a] - passed[b]) > PASS_RATIO * block
    hit = (t >= 0) & (t < 1) & (u >= 0) & (u < 1) & passes
    a, b, t, u = a[hit], b[hit], t[hit], u[hit]
    rise = np.stack([level[a + 1] - level[a], level[b + 1] - level[b]], axis=1)
    own, other = level[a] + t * rise[:, 0], level[b] + u * rise[:, 1]
    slope, at = rise / np.stack([length[a], length[b]], axis=1), where[a] + t[:, None] * p[hit]
    return Crossings(row[a], row[b], at, own - other, own, slope), block


def crossing_weights(where: np.ndarray, lines: np.ndarray, reach: float) -> np.ndarray:
    """How many independent crossings each crossing stands for [C], as some share soundings.

    Where n lines meet in one place, n soundings make n (n - 1) / 2 crossings: each counts 2 / n.
    So does each of n - 1 crossings that one line has in one place.

    Args:
        where: places of the crossings [C, 2], in m.
        lines: the two lines of each [C, 2].
        reach: crossings of a line that are as near, in m, share its soundings.
    """
    a, b = cKDTree(where).query_pairs(reach, output_type="ndarray").T
    i, j = np.r_[a, b], np.r_[b, a]
    shared = (lines[i][:, :, None] == lines[j][:, None]).any(2)  # [pairs, 2]
    others = [np.bincount(i, side, minlength=len(where)) for side in shared.T]
    return 2 / (2 + np.maximum(*others))


def cross_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of vectors in the plane, [N, 2] each: [N]."""
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
