"""The linear mixed model of differences at crossings: effects of a survey with given prior
variances, constants of lines, and errors of the positions of lines and recordings.

Robust weights (Huber 1981, section 7.8); mixed-model equations (Henderson 1975); variances by
restricted likelihood (Patterson and Thompson 1971).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import coo_array, csr_array, hstack

#: Robust fit: scatters beyond which a difference counts less, and rounds.
HUBER, STEPS = 1.5, 12
#: Variances tried, relative to that of a depth at a crossing: of positions there (m^2), of
#: constants of lines, and of the positions of whole lines and recordings (m^2).
TRIED = tuple(0.0 if k < 0 else 1e-3 * 4.0**k for k in range(-1, 14))
#: Twice the log likelihood ratio of a variance that is not 0: 5 %, at the limit of what is possible
#: (Self and Liang 1987).
LIKELIHOOD_RATIO = 2.71


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
