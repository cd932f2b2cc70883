"""The crossings of survey lines; the false echoes of a record of such lines; and the linear mixed
model of the differences at crossings: effects of a survey with given prior variances, constants of
lines, and errors of the positions of lines and recordings.

Lines are polylines through the medians of blocks of soundings. A sounder that hears an echo twice
records a line as smooth as the bottom, at twice its depth: along the line nothing shows it, but the
other lines do (``hypotheses``). The model has robust weights (Huber 1981, section 7.8), mixed-model
equations (Henderson 1975) and variances by restricted likelihood (Patterson and Thompson 1971).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import coo_array, csr_array, hstack
from scipy.spatial import cKDTree

from .hypotheses import OTHER_ECHO, Suspicious, block_length, judged
from .lines import PASS_RATIO, medians

NEAR_LEGS = 32  # nearest legs of each leg that are searched for crossings
#: Robust fit: scatters beyond which a difference counts less, and rounds.
HUBER, STEPS = 1.5, 12
#: Variances tried, relative to that of a depth at a crossing: of positions there (m^2), of
#: constants of lines, and of the positions of whole lines and recordings (m^2).
TRIED = tuple(0.0 if k < 0 else 1e-3 * 4.0**k for k in range(-1, 14))
#: Twice the log likelihood ratio of a variance that is not 0: 5 %, at the limit of what is possible
#: (Self and Liang 1987).
LIKELIHOOD_RATIO = 2.71


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


class Moves(NamedTuple):
    """By how much the positions of parts of a survey are to be moved in x and y [P, 2], in m;
    with the covariances [P, 2, 2]."""

    value: np.ndarray
    covariance: np.ndarray


class Estimates(NamedTuple):
    """Of effects [P], with their posterior covariance; of lines [L], with their standard deviation
    [L] and number of crossings [L]; for each division of a survey, the moves of its parts; whether
    positions are off at all (likelihood ratio, 5 %); the variances of a line's constant (m^2) and,
    along each axis, of the position of a part of each division (m^2)."""

    value: np.ndarray
    covariance: np.ndarray
    constants: np.ndarray
    std: np.ndarray
    counts: np.ndarray
    moves: tuple[Moves, ...]
    positions_off: bool
    line_variance: float
    position_variances: tuple[float, ...]


def solve(
    difference: np.ndarray, design: np.ndarray, prior: np.ndarray, lines: np.ndarray, count: int,
    parts: Sequence[tuple[np.ndarray, int]], gradient: np.ndarray, weight: np.ndarray,
    ratios: list[float] | None,
) -> tuple[Estimates, list[float]]:  # fmt: skip
    """Fit differences [C] by effects, constants of lines, and errors of positions.

    Args:
        difference: [C], in m.
        design: the change of each difference by each effect [C, P].
        prior: variances of the effects before any crossing is seen [P].
        lines: the two lines of each crossing [C, 2].
        count: number of lines.
        parts: the same two for each division of the survey whose parts have positions that are off.
        gradient: of the bottom [C, 2], by which positions that are off make differences.
        weight: for how many independent crossings each stands [C].
        ratios: the variances, as of ``TRIED``; None: they are estimated.

    Returns:
        The estimates, and the variances.
    """
    effects = design.shape[1]
    lines_of, seen = _seen(lines, np.ones((len(difference), 1)))
    moved = [_seen(part, gradient) for part, _ in parts]
    columns = [csr_array(design), lines_of, *(each for each, _ in moved)]
    whole, sizes = hstack(columns, format="csr"), [column.shape[1] for column in columns]
    steep = (gradient**2).sum(1)
    robust, known = np.ones(len(difference)), ratios is not None
    ratios = ratios or [0.01, 0.1] + [0.01] * len(parts)
    scale = max(1.4826 * float(np.median(np.abs(difference))), 1e-6) ** 2

    def fitted(ratios: list[float]) -> _Fitted:
        variance = robust * (1 + ratios[0] * steep)
        own = np.r_[prior / scale, np.repeat(ratios[1:], sizes[1:])]
        return _fitted(difference, whole, variance, weight, np.maximum(own, 1e-9), effects)

    for step in range(STEPS):
        tune = step in (2, 6) and not known  # with outliers known
        for which in 2 * list(range(len(ratios))) if tune else ():
            tries = [[*ratios[:which], new, *ratios[which + 1 :]] for new in TRIED]
            ratios = min(tries, key=lambda each: fitted(each).loss)
        found = fitted(ratios)
        rest = np.abs(difference - whole @ found.value) / np.sqrt(1 + ratios[0] * steep)
        usual = max(1.4826 * float(np.median(rest)), 1e-6)
        robust, scale = np.maximum(1.0, rest / (HUBER * usual)), found.scale
    first, inverse = np.cumsum(sizes), found.inverse
    constants, std = np.zeros(count), np.full(count, np.inf)
    constants[seen] = found.value[effects : first[1]]
    std[seen] = np.sqrt(found.scale * np.diag(inverse)[effects : first[1]])
    counts = np.bincount(lines.ravel(), minlength=count)
    moves = []
    for k, ((_, present), (_, number)) in enumerate(zip(moved, parts, strict=True)):
        value, spread = np.zeros((number, 2)), np.full((number, 2, 2), np.inf)
        both = first[k + 1] + np.arange(len(present))[:, None] + len(present) * np.arange(2)
        value[present] = found.value[both]
        spread[present] = found.scale * inverse[both[:, :, None], both[:, None]]
        moves.append(Moves(value, spread))
    without = fitted([*ratios[:2], *[0.0] * len(parts)])
    # By leaving out each crossing in turn (MacKinnon and White 1985, their third estimator): wider
    # than the model's where its variances are wrong.
    influence = (whole @ inverse) / (robust * (1 + ratios[0] * steep) / weight)[:, None]
    leverage = whole.multiply(influence) @ np.ones(whole.shape[1])
    left = (difference - whole @ found.value) / np.maximum(1 - leverage, 0.05)
    jackknife = np.sqrt(((influence[:, :effects] * left[:, None]) ** 2).sum(0))
    covariance = found.scale * inverse[:effects, :effects]
    wider = np.maximum(1.0, jackknife / np.sqrt(np.diag(covariance)))
    line_variance, *position_variances = (found.scale * ratio for ratio in ratios[1:])
    estimates = Estimates(
        found.value[:effects], covariance * np.outer(wider, wider), constants, std, counts,
        tuple(moves), without.loss - found.loss > LIKELIHOOD_RATIO, line_variance,
        tuple(position_variances),
    )  # fmt: skip
    return estimates, ratios


def _seen(parts: np.ndarray, values: np.ndarray) -> tuple[coo_array, np.ndarray]:
    """Values [C, K] at the first part of each crossing ([C, 2] indices), and their negatives at the
    second: K columns for each part that crosses another, one value's after the other; and these
    parts."""
    row = np.flatnonzero(parts[:, 0] != parts[:, 1])
    seen, column = np.unique(parts[row].T, return_inverse=True)
    place, shape = (np.r_[row, row], column.reshape(-1)), (len(parts), len(seen))
    columns = [coo_array((np.r_[value, -value], place), shape) for value in values[row].T]
    return hstack(columns), seen


@dataclass(frozen=True)
class _Fitted:
    """Minus twice the restricted log likelihood, up to a constant; all estimates; the factors of
    the normal equations, and the variance of a difference of weight 1."""

    loss: float
    value: np.ndarray
    factors: tuple[np.ndarray, np.ndarray]
    scale: float

    @cached_property
    def inverse(self) -> np.ndarray:
        """The covariance of the estimates, divided by ``scale``."""
        found: np.ndarray = lu_solve(self.factors, np.eye(len(self.value)))
        return found


def _fitted(
    difference: np.ndarray, whole: csr_array, variance: np.ndarray, weight: np.ndarray,
    prior: np.ndarray, effects: int,
) -> _Fitted:  # fmt: skip
    """Mixed-model equations (Henderson 1975), by variances relative to one scale, which is
    estimated. ``prior``: of all columns of ``whole`` [C, K]; each of the first ``effects`` takes a
    degree of freedom. ``weight`` [C] is of each difference's log likelihood."""
    weighted = whole.multiply((weight / variance)[:, None]).tocsr()
    normal = (whole.T @ weighted).toarray()
    normal[np.diag_indices(len(normal))] += 1 / prior
    factors = lu_factor(normal, overwrite_a=True)
    found = lu_solve(factors, weighted.T @ difference)
    rest = difference - whole @ found
    square = (weight * rest**2 / variance).sum() + (found**2 / prior).sum()
    free = max(float(weight.sum()) - effects, 1.0)
    scale = max(float(square / free), 1e-12)  # m^2: 0 over a flat bottom that is made up
    loss = free * np.log(scale) + (weight * np.log(variance)).sum() + np.log(prior).sum()
    determinant = np.log(np.abs(np.diag(factors[0]))).sum()
    return _Fitted(float(loss + determinant), found, factors, scale)
