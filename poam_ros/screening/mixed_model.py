"""Linear mixed models of the differences at crossings: effects of a survey, constants of lines.

Robust weights (Huber 1981, section 7.8); mixed-model equations (Henderson 1975); variances by
restricted likelihood (Patterson and Thompson 1971).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Robust fit: scatters beyond which a difference counts less, and rounds.
HUBER, STEPS = 1.5, 12
#: Variances tried, relative to that of a depth at a crossing: of positions there (m^2), of
#: constants of lines, and of the positions of whole lines (m^2).
TRIED = tuple(0.0 if k < 0 else 1e-3 * 4.0**k for k in range(-1, 14))


@dataclass(frozen=True)
class Estimates:
    """Of effects [P], with their covariance; of lines [L], with their standard deviation [L] and
    number of crossings [L]."""

    value: np.ndarray
    covariance: np.ndarray
    constants: np.ndarray
    std: np.ndarray
    counts: np.ndarray


def solve(
    difference: np.ndarray, design: np.ndarray, lines: np.ndarray, gradient: np.ndarray,
    weight: np.ndarray, count: int, ratios: list[float] | None,
) -> tuple[Estimates, list[float]]:  # fmt: skip
    """Fit differences [C] by effects (design [C, P]), and constants and shifts of lines ([C, 2]
    indices), by which the bottom's gradient [C, 2] makes errors. ``weight``: for how many
    independent crossings each stands [C]. ``ratios``: the variances, as of ``TRIED``; None: they
    are estimated. Returns them as well."""
    effects = design.shape[1]
    lines_of = _between(lines, np.ones(len(difference)), count)
    seen = np.flatnonzero(np.abs(lines_of).sum(0))
    shifts = [_between(lines, side, count)[:, seen] for side in gradient.T]
    whole = np.column_stack((design, lines_of[:, seen], *shifts))
    steep = (gradient**2).sum(1)
    robust, known = np.ones(len(difference)), ratios is not None
    ratios = ratios or [0.01, 0.1, 0.01]

    def fitted(ratios: list[float]) -> _Fitted:
        variance = robust * (1 + ratios[0] * steep)
        prior = np.repeat([1e9, ratios[1], ratios[2]], [effects, len(seen), 2 * len(seen)])
        return _fitted(difference, whole, variance, weight, np.maximum(prior, 1e-9), effects)

    for step in range(STEPS):
        tune = step in (2, 6) and not known  # with outliers known
        for which in (0, 1, 2, 0, 1, 2) if tune else ():
            tries = [[*ratios[:which], new, *ratios[which + 1 :]] for new in TRIED]
            ratios = min(tries, key=lambda each: fitted(each).loss)
        found = fitted(ratios)
        rest = np.abs(difference - whole @ found.value) / np.sqrt(1 + ratios[0] * steep)
        usual = max(1.4826 * float(np.median(rest)), 1e-6)
        robust = np.maximum(1.0, rest / (HUBER * usual))
    constants, std = np.zeros(count), np.full(count, np.inf)
    own = slice(effects, effects + len(seen))
    constants[seen] = found.value[own]
    std[seen] = np.sqrt(np.diag(found.covariance)[own])
    counts = np.bincount(lines.ravel(), minlength=count)
    wider = np.maximum(
        1.0,
        _jackknife(difference, whole, found, robust * (1 + ratios[0] * steep) / weight, effects)
        / np.sqrt(np.diag(found.covariance)[:effects]),
    )
    covariance = found.covariance[:effects, :effects] * np.outer(wider, wider)
    return Estimates(found.value[:effects], covariance, constants, std, counts), ratios


def _jackknife(
    difference: np.ndarray, whole: np.ndarray, found: _Fitted, variance: np.ndarray, effects: int
) -> np.ndarray:
    """Standard deviations of the effects, by leaving out each crossing in turn (MacKinnon and White
    1985, their third estimator): wider than the model's where its variances are wrong."""
    influence = (found.covariance / found.scale) @ (whole / variance[:, None]).T
    leverage = np.einsum("ck,kc->c", whole, influence)
    rest = (difference - whole @ found.value) / np.maximum(1 - leverage, 0.05)
    return np.sqrt(((influence[:effects] * rest) ** 2).sum(1))


def _between(lines: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Values [C] at the first line of each crossing, and their negatives at the second
    [C, count]."""
    found, row = np.zeros((len(lines), count)), np.arange(len(lines))
    np.add.at(found, (row, lines[:, 0]), values)
    np.add.at(found, (row, lines[:, 1]), -values)
    return found


@dataclass(frozen=True)
class _Fitted:
    """Minus twice the restricted log likelihood, up to a constant; all estimates, their covariance,
    and the variance of a difference of weight 1."""

    loss: float
    value: np.ndarray
    covariance: np.ndarray
    scale: float


def _fitted(
    difference: np.ndarray, whole: np.ndarray, variance: np.ndarray, weight: np.ndarray,
    prior: np.ndarray, effects: int,
) -> _Fitted:  # fmt: skip
    """Mixed-model equations (Henderson 1975), by variances relative to one scale, which is
    estimated. ``prior``: of all columns of ``whole`` [C, K]; the first ``effects`` are fixed.
    ``weight`` [C] is of each difference's log likelihood."""
    weighted = whole * (weight / variance)[:, None]
    normal = whole.T @ weighted
    normal[np.diag_indices(len(normal))] += 1 / prior
    inverse = np.linalg.inv(normal)
    found = inverse @ (weighted.T @ difference)
    rest = difference - whole @ found
    square = (weight * rest**2 / variance).sum() + (found[effects:] ** 2 / prior[effects:]).sum()
    free = max(float(weight.sum()) - effects, 1.0)
    scale = max(float(square / free), 1e-12)  # m^2: 0 over a flat bottom that is made up
    loss = free * np.log(scale) + (weight * np.log(variance)).sum() + np.log(prior[effects:]).sum()
    return _Fitted(float(loss + np.linalg.slogdet(normal)[1]), found, scale * inverse, scale)
