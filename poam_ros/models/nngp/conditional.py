"""Ordinary kriging of each query from neighbours of its own, the gradient of its log loss, and
joint draws. In C if it was built; otherwise torch does the same, more slowly (see ``loader``).

With K of the neighbours (noise included), c towards the query, c0 at it, and a local mean that is
N(0, 1/t): K~ = K + 1 1'/t and so on, b = K~^-1 c~, a = K~^-1 y; mean b'y, variance c~0 - c~'b.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ...core.errors import CholeskyError
from ...core.geometry import Land
from ..interface import Drawn, Prediction
from ..linalg import EXTRA_JITTER, cholesky
from ..native.loader import INTEGER, POINTER, REAL, declared, structure
from .kernel import Kernel, at, covariance
from .sites import TrainingData, hidden_by, rows_apart

MAX_NEIGHBOURS = 32  # as in conditional.c
#: More neighbours than this together are not factorised.
MOST = 2048
#: Replaces a variance that cancels to zero or below.
LEAST_VARIANCE = 1e-9
#: Maximum number of standard deviations of a mean outside the range of its neighbours' targets.
REACH = 4.0
#: Number of queries at a time in torch.
CHUNK = 1024
#: Number of neighbours of a draw among the places drawn before.
BEFORE = 16

#: As in conditional.c.
_Problem = structure(
    (INTEGER, "queries sets neighbours side x_step y_step noise_step own_step"),
    (REAL, "exponent noise low high mean_precision tail shared_variance shared_sites"),
    (POINTER, "F x near site_x site_y site_noise site_own first"),
)
_at = ctypes.POINTER(_Problem)
_library = declared(
    "conditional",
    conditional_predict=(INTEGER, _at, *[POINTER] * 3, INTEGER, POINTER),
    conditional_gradient=(INTEGER, _at, *[POINTER] * 6, INTEGER, POINTER),
)
_JITTERS = np.array(EXTRA_JITTER)


class Gradient(NamedTuple):
    """Mean log loss, its gradients by the fields at the nodes [G * G, 4], the exponent and the
    noise variance, and the largest extra jitter."""

    loss: float
    F: Tensor
    exponent: float
    noise: float
    jitter: float


def compiled(neighbours: int) -> bool:
    """Whether conditionals of this many neighbours can be computed in C."""
    return _library is not None and 0 < neighbours <= MAX_NEIGHBOURS


def condition(
    kernel: Kernel, sites: TrainingData, x: Tensor, neighbours: Tensor, own: Tensor | None = None
) -> Prediction:
    """Predict each query x [N, 2] from the sites in its row of neighbours [S, k], -1 for none;
    variances are without noise.

    ``own``: the row of each query [N]; None: each has one of its own, in order. What queries share
    is computed only once.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    if compiled(neighbours.shape[1]):
        return _condition_in_c(kernel, sites, x, neighbours, own)
    parts = [(x.new_empty(0), x.new_empty(0))]
    if own is not None:
        neighbours = neighbours[own]
    with torch.no_grad():
        for points, near in zip(x.split(CHUNK), neighbours.split(CHUNK), strict=True):
            system = _system(kernel, sites, points, near)
            parts.append(_limited(system, _solve(system, kernel.mean_precision)))
    return Prediction(*map(torch.cat, zip(*parts, strict=True)))


def gradient(kernel: Kernel, sites: TrainingData, left_out: Tensor, neighbours: Tensor) -> Gradient:
    """The gradient of the mean log loss of left-out sites [N], predicted from neighbours [N, k].

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    if compiled(neighbours.shape[1]):
        return _gradient_in_c(kernel, sites, left_out, neighbours)
    F, exponent, noise = leaves = [
        t.detach().requires_grad_() for t in (kernel.F, kernel.exponent, kernel.noise)
    ]
    learned = replace(kernel, F=F, exponent=exponent, noise=noise)
    with torch.enable_grad():
        system = _system(learned, sites, sites.x[left_out], neighbours)
        solved = _solve(system, kernel.mean_precision)
        variance = solved.variance + noise * sites.noise[left_out]
        if sites.own is not None:
            variance = variance + sites.own[left_out]
        loss = log_loss(sites.y[left_out], solved.mean, variance).mean()
        dF, dexponent, dnoise = torch.autograd.grad(loss, leaves)
    return Gradient(loss.item(), dF, dexponent.item(), dnoise.item(), solved.jitter)


def log_loss(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """-log N(y; mean, variance) [N], without the constant."""
    return 0.5 * (variance.log() + (y - mean).square() / variance)


def joint_covariance(
    kernel: Kernel, sites: TrainingData, x: Tensor, neighbours: Tensor
) -> Tensor | None:
    """The joint covariance, without noise, of x [N, 2] given the union of the neighbours [N, k],
    [N, N]; None if these are more than ``MOST``.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    near = neighbours[neighbours >= 0].unique()
    if len(near) > MOST:
        return None
    at_sites, at_x = at(kernel, sites.x[near]), at(kernel, x)
    # The unknown local mean adds a constant covariance.
    trend = 1.0 / kernel.mean_precision
    K = covariance(kernel, at_sites, at_sites) + trend
    K.diagonal().add_(kernel.noise * sites.noise[near])
    K += kernel.shared(near)
    if sites.own is not None:
        K.diagonal().add_(sites.own[near])
    cross = covariance(kernel, at_sites, at_x) + trend
    L = cholesky(K, "covariance of the neighbours").L
    half = torch.linalg.solve_triangular(L, cross, upper=False)
    return covariance(kernel, at_x, at_x) + trend - half.mT @ half


def _check_factors(failed: int, size: int) -> None:
    if failed:
        raise CholeskyError(
            f"{failed} conditionals of {size} neighbours are not positive definite, even with "
            f"{EXTRA_JITTER[-1]:.0e} of their mean diagonal added: is everything in them finite?"
        )


# In C


def _problem(
    kernel: Kernel, sites: TrainingData, x: Tensor, near: Tensor, first: Tensor | None = None
) -> tuple[ctypes.Structure, list[Tensor | None]]:
    """The C structure of a problem, and the arrays that it points into.

    ``first``: the queries from first[i] to first[i + 1] share near[i] [sets + 1]; None: each has a
    row of its own.
    """
    F, x, near = (t.detach().contiguous() for t in (kernel.F, x, near))
    places, own = rows_apart(sites.x), sites.own
    arrays = [F, x, near, places, sites.y, sites.noise, own, first]
    problem = _Problem(
        len(x), *near.shape, round(len(kernel.F) ** 0.5),
        places.stride(0), sites.y.stride(0), sites.noise.stride(0),
        0 if own is None else own.stride(0),
        float(kernel.exponent), float(kernel.noise), *kernel.lengths, kernel.mean_precision,
        kernel.tail, float(kernel.shared_variance), float(kernel.shared_sites),
        *(None if array is None else array.data_ptr() for array in arrays),
    )  # fmt: skip
    return problem, arrays


def _condition_in_c(
    kernel: Kernel, sites: TrainingData, x: Tensor, near: Tensor, own: Tensor | None
) -> Prediction:
    order, first = None, None
    if own is not None:  # in order, and no set without a query
        order = own.argsort(stable=True)
        used, count = own[order].unique_consecutive(return_counts=True)
        x, near = x[order], near[used]
        first = torch.cat([count.new_zeros(1), count.cumsum(0)])
    problem, _arrays = _problem(kernel, sites, x, near, first)
    mean, variance, jitter = (x.new_zeros(n) for n in (len(x), len(x), 1))
    failed = _library.conditional_predict(
        problem, mean.data_ptr(), variance.data_ptr(), _JITTERS.ctypes.data, len(_JITTERS),
        jitter.data_ptr(),
    )  # fmt: skip
    _check_factors(failed, near.shape[1])
    if order is not None:
        mean, variance = (
            torch.empty_like(values).index_copy_(0, order, values) for values in (mean, variance)
        )
    return Prediction(mean, variance)


def _gradient_in_c(kernel: Kernel, sites: TrainingData, left_out: Tensor, near: Tensor) -> Gradient:
    problem, _arrays = _problem(kernel, sites, sites.x[left_out], near)
    y, noise = sites.y[left_out], sites.noise[left_out]
    own = None if sites.own is None else sites.own[left_out]
    dF, others, jitter = torch.zeros_like(kernel.F), y.new_zeros(3), y.new_zeros(1)
    failed = _library.conditional_gradient(
        problem, y.data_ptr(), noise.data_ptr(), None if own is None else own.data_ptr(),
        dF.data_ptr(), others.data_ptr(), _JITTERS.ctypes.data, len(_JITTERS), jitter.data_ptr(),
    )  # fmt: skip
    _check_factors(failed, near.shape[1])
    loss, dexponent, dnoise = others.tolist()
    return Gradient(loss, dF, dexponent, dnoise, jitter.item())


# In torch


class _System(NamedTuple):
    """K [N, k, k] with noise, c [N, k], c0 [N], targets y [N, k], and 1 where there is a neighbour
    [N, k]. Where there is none, K has a row of the unit matrix, and the rest zeros."""

    K: Tensor
    c: Tensor
    c0: Tensor
    y: Tensor
    present: Tensor


class _Solved(NamedTuple):
    mean: Tensor
    variance: Tensor
    b: Tensor
    jitter: float


def _system(kernel: Kernel, sites: TrainingData, x: Tensor, neighbours: Tensor) -> _System:
    present = (neighbours >= 0).to(sites.y)
    near = neighbours.clamp_min(0)
    here = at(kernel, torch.cat([sites.x[near], x.unsqueeze(1)], dim=1))
    whole = covariance(kernel, here, here)
    k = near.shape[1]
    mask = present.unsqueeze(-1) * present.unsqueeze(-2)
    noise = kernel.noise * sites.noise[near] * present
    if sites.own is not None:
        noise = noise + sites.own[near] * present
    soundings = (sites.noise[near] > 0) * present  # places of draws have no noise
    mutual = kernel.shared(near) * soundings.unsqueeze(-1) * soundings.unsqueeze(-2)
    K = whole[:, :k, :k] * mask + mutual + torch.diag_embed(noise + (1 - present))
    y = sites.y[near] * present
    return _System(K, whole[:, :k, k] * present, whole[:, k, k], y, present)


def _limited(system: _System, solved: _Solved) -> tuple[Tensor, Tensor]:
    """Means limited to ``REACH`` standard deviations outside the range of their neighbours'
    targets; and variances, to which the square of the shift is added."""
    mean, variance = solved.mean, solved.variance
    margin, there = REACH * variance.sqrt(), system.present > 0
    low = torch.where(there, system.y, torch.inf).amin(-1) - margin
    high = torch.where(there, system.y, -torch.inf).amax(-1) + margin
    outside = ((mean < low) | (mean > high)) & (low < high)
    limited = torch.where(outside, mean.maximum(low).minimum(high), mean)
    wider = torch.where(outside, variance + (mean - limited).square(), variance)
    return limited, wider


def _solve(system: _System, mean_precision: float) -> _Solved:
    """With b = K~^-1 c~, by K^-1 and a rank of one."""
    L, failed, jitter = _factorise(system.K)
    right = torch.stack([system.y, system.c, system.present], dim=-1)
    a, b, o = torch.cholesky_solve(right, L).unbind(-1)
    precision = (o * system.present).sum(-1) + mean_precision
    mean = (a * system.present).sum(-1) / precision
    a = a - mean.unsqueeze(-1) * o
    rest = 1 - (b * system.present).sum(-1)
    variance = system.c0 - (system.c * b).sum(-1) + rest.square() / precision
    mean = (system.c * a).sum(-1) + mean
    b = b + (rest / precision).unsqueeze(-1) * o
    failed |= ~(mean.isfinite() & variance.isfinite())
    _check_factors(int(failed.sum()), L.shape[-1])
    return _Solved(mean, variance.clamp_min(LEAST_VARIANCE), b, jitter)


def _factorise(K: Tensor) -> tuple[Tensor, Tensor, float]:
    """Lower factors [N, k, k] of K, each with as little extra jitter as it needs; which ones failed
    [N]; and the largest jitter."""
    with torch.no_grad():
        failed = torch.linalg.cholesky_ex(K).info > 0
        extra, scale = K.new_zeros(K.shape[:2]), K.diagonal(dim1=-2, dim2=-1).mean(-1).abs()
        for relative in EXTRA_JITTER[1:]:
            bad = failed.nonzero().squeeze(-1)
            extra[bad] = relative * scale[bad].unsqueeze(-1)
            failed[bad] = torch.linalg.cholesky_ex(K[bad] + torch.diag_embed(extra[bad])).info > 0
    L = torch.linalg.cholesky_ex(K + torch.diag_embed(extra)).L
    return L, failed, max(extra[:, 0].tolist(), default=0.0)


def simulate(
    kernel: Kernel, data: TrainingData, land: Land | None, x: Tensor, near: Tensor, noise: Tensor,
    given: Drawn,
) -> Tensor:  # fmt: skip
    """Joint draws less their mean, without noise [count, N]: conditional simulation.

    Places are ordered so that each is far from those before it, and drawn in turn from their
    neighbours among the data and among the places before (Vecchia 1988; the order: Guinness 2018,
    doi:10.1080/00401706.2018.1437476). Weights do not depend on the values drawn, so all draws
    share them.

    Args:
        kernel: that predictions use.
        data: of the sites.
        land: hides places from each other; None: no land.
        x: places [N, 2].
        near: neighbours of each place among the data [N, k], -1 for none.
        noise: standard normal draws [N, count].
        given: places drawn before all these, with their draws less their mean.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    order = torch.from_numpy(farthest_first(x.numpy()))
    x, near = x[order], near[order]
    places, begin = torch.cat([given.X, x]), len(given.X)
    before = torch.from_numpy(_nearest_before(places.numpy(), min(BEFORE, len(places)), begin))
    first, nothing = len(data.x), places.new_zeros(len(places))
    own = None if data.own is None else torch.cat([data.own, nothing])
    together = TrainingData(
        torch.cat([data.x, places]), torch.cat([data.y, nothing]),
        torch.cat([data.noise, nothing]), own,
    )  # fmt: skip
    # First: a place across land that the weights knew, but no draw, would take variance away.
    before[hidden_by(land, x, places, before)] = -1
    both = torch.cat([near, torch.where(before < 0, before, before + first)], dim=1)
    b, variance = [], []
    for points, rows in zip(x.split(CHUNK), both.split(CHUNK), strict=True):
        solved = _solve(_system(kernel, together, points, rows), kernel.mean_precision)
        b.append(solved.b[:, near.shape[1] :])
        variance.append(solved.variance)
    weights, deviation = torch.cat(b).numpy(), torch.cat(variance).sqrt().numpy()
    drawn = np.concatenate([given.deviations.mT.numpy(), np.empty(tuple(noise.shape))])
    place, fresh = before.numpy(), noise.numpy()
    for i in range(len(x)):
        there = place[i] >= 0
        drawn[begin + i] = weights[i, there] @ drawn[place[i, there]] + deviation[i] * fresh[i]
    found = torch.empty(noise.shape[1], len(x), dtype=torch.float64)
    found[:, order] = torch.from_numpy(drawn[begin:].T)
    return found


def farthest_first(x: np.ndarray) -> np.ndarray:
    """An order [N] of places [N, 2]: it starts nearest to their middle; each next place is the
    farthest from all before it."""
    squared = np.square(x - x.mean(0)).sum(1)
    order = np.empty(len(x), dtype=np.int64)
    order[0] = squared.argmin()
    least = np.full(len(x), np.inf)
    for number in range(1, len(x)):
        np.minimum(least, np.square(x - x[order[number - 1]]).sum(1), out=least)
        order[number] = least.argmax()
    return order


def _nearest_before(x: np.ndarray, k: int, begin: int = 0) -> np.ndarray:
    """For each place from ``begin``, the k nearest of those before it [N - begin, k], -1 for
    none."""
    found = np.full((len(x), k), -1, dtype=np.int64)
    first, begin = begin, max(begin, 1)
    while begin < len(x):  # those before ``begin`` serve all up to ``end``, and the few between
        end = min(len(x), max(begin + 1, 2 * begin))
        tree = cKDTree(x[:end])
        reach = min(end, 4 * k + 1)
        _, near = tree.query(x[begin:end], reach)
        near = near.reshape(end - begin, reach)
        for row, i in enumerate(range(begin, end)):
            earlier = near[row][near[row] < i][:k]
            found[i, : len(earlier)] = earlier
        begin = end
    return found[first:]
