"""Ordinary kriging of each query from neighbours of its own, and the gradient of its log loss.

With K of the neighbours (noise included), c towards the query, c0 at it, and a local mean that is
N(0, 1/t): K~ = K + 1 1'/t and so on, b = K~^-1 c~, a = K~^-1 y; mean b'y, variance c~0 - c~'b.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..linalg import EXTRA_JITTER, cholesky
from ..native import neighbours as native
from .kernel import Kernel, TrainingData, at, between, check_factors

#: More neighbours than this together are not factorised.
MOST = 2048


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
    at_sites, at_x = (at(kernel, points) for points in (sites.x[near], x))
    # The unknown local mean adds a constant covariance.
    trend = 1.0 / kernel.mean_precision
    here = sites.x[near]
    K = between(kernel, here, at_sites, here, at_sites, same=True) + trend
    K.diagonal().add_(kernel.noise * sites.noise[near])
    if sites.own is not None:
        K.diagonal().add_(sites.own[near])
    cross = between(kernel, here, at_sites, x, at_x) + trend
    prior = between(kernel, x, at_x, x, at_x, same=True) + trend
    L = cholesky(K, "covariance of the neighbours").L
    half = torch.linalg.solve_triangular(L, cross, upper=False)
    return prior - half.mT @ half


#: Replaces a variance that cancels to zero or below.
LEAST_VARIANCE = 1e-9
#: Maximum number of standard deviations of a mean outside the range of its neighbours' targets.
REACH = 4.0
#: Number of queries at a time in torch.
CHUNK = 1024


class Conditionals(NamedTuple):
    """Mean and variance without noise of each query [N]."""

    mean: Tensor
    variance: Tensor


class Gradient(NamedTuple):
    """Mean log loss, its gradients by the fields at the nodes [G * G, 4], the exponent and the
    noise variance, and the largest extra jitter."""

    loss: float
    F: Tensor
    exponent: float
    noise: float
    jitter: float


def condition(
    kernel: Kernel, sites: TrainingData, x: Tensor, neighbours: Tensor, own: Tensor | None = None
) -> Conditionals:
    """Predict each query x [N, 2] from the sites in its row of neighbours [S, k], -1 for none.

    ``own``: the row of each query [N]; None: each has one of its own, in order. What queries share
    is computed only once.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    if native.usable(neighbours.shape[1]):
        return Conditionals(*native.condition(kernel, sites, x, neighbours, own))
    parts = []
    if own is not None:
        neighbours = neighbours[own]
    with torch.no_grad():
        for points, near in zip(x.split(CHUNK), neighbours.split(CHUNK), strict=True):
            system = _system(kernel, sites, points, near)
            parts.append(_limited(system, _solve(system, kernel.mean_precision)))
    if not parts:
        return Conditionals(x.new_empty(0), x.new_empty(0))
    mean, variance = zip(*parts, strict=True)
    return Conditionals(torch.cat(mean), torch.cat(variance))


def weights(
    kernel: Kernel, sites: TrainingData, x: Tensor, neighbours: Tensor
) -> tuple[Tensor, Tensor]:
    """Weights of the neighbours' targets in the mean of each query [N, k], and the variances
    without noise [N]; arguments as of ``condition``. Raises as that."""
    found = []
    for points, near in zip(x.split(CHUNK), neighbours.split(CHUNK), strict=True):
        solved = _solve(_system(kernel, sites, points, near), kernel.mean_precision)
        found.append((solved.b, solved.variance))
    b, variance = zip(*found, strict=True)
    return torch.cat(b), torch.cat(variance)


def gradient(kernel: Kernel, sites: TrainingData, left_out: Tensor, neighbours: Tensor) -> Gradient:
    """The gradient of the mean log loss of left-out sites [N], predicted from neighbours [N, k].

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    if native.usable(neighbours.shape[1]):
        return Gradient(*native.gradient(kernel, sites, left_out, neighbours))
    F, exponent, noise = leaves = [
        t.detach().requires_grad_() for t in (kernel.F, kernel.exponent, kernel.noise)
    ]
    learned = replace(kernel, F=F, exponent=exponent, noise=noise)
    with torch.enable_grad():
        system = _system(learned, sites, sites.x[left_out], neighbours)
        mean, variance, jitter = _with_gradient(system, kernel.mean_precision)
        variance = variance + noise * sites.noise[left_out]
        if sites.own is not None:
            variance = variance + sites.own[left_out]
        loss = log_loss(sites.y[left_out], mean, variance).mean()
        dF, dexponent, dnoise = torch.autograd.grad(loss, leaves)
    return Gradient(loss.item(), dF, dexponent.item(), dnoise.item(), jitter)


def log_loss(y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """-log N(y; mean, variance) [N], without the constant."""
    return 0.5 * (variance.log() + (y - mean).square() / variance)


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
    a: Tensor
    b: Tensor
    jitter: float


def _system(kernel: Kernel, sites: TrainingData, x: Tensor, neighbours: Tensor) -> _System:
    present = (neighbours >= 0).to(sites.y)
    near = neighbours.clamp_min(0)
    points = torch.cat([sites.x[near], x.unsqueeze(1)], dim=1)
    here = at(kernel, points)
    whole = between(kernel, points, here, points, here, same=True)
    k = near.shape[1]
    mask = present.unsqueeze(-1) * present.unsqueeze(-2)
    noise = kernel.noise * sites.noise[near] * present
    if sites.own is not None:
        noise = noise + sites.own[near] * present
    K = whole[:, :k, :k] * mask + torch.diag_embed(noise + (1 - present))
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


@torch.no_grad()
def _solve(system: _System, mean_precision: float) -> _Solved:
    """a = K~^-1 y and b = K~^-1 c~, by K^-1 and a rank of one."""
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
    check_factors(int(failed.sum()), L.shape[-1])
    return _Solved(mean, variance.clamp_min(LEAST_VARIANCE), a, b, jitter)


def _with_gradient(system: _System, mean_precision: float) -> tuple[Tensor, Tensor, float]:
    """Mean and variance, differentiable in the system without a gradient through the solve.

    b'y has the gradient of c'a - b'K a, and c~0 - c~'b that of c0 - 2 b'c + b'K b, a and b held.
    """
    mean, variance, a, b, jitter = _solve(system, mean_precision)
    Kb = torch.einsum("nij,nj->ni", system.K, b)
    steer_mean = (system.c * a).sum(-1) - (a * Kb).sum(-1)
    steer_variance = system.c0 - 2 * (b * system.c).sum(-1) + (b * Kb).sum(-1)
    steer_variance = steer_variance * (variance > LEAST_VARIANCE)
    return (
        mean + steer_mean - steer_mean.detach(),
        variance + steer_variance - steer_variance.detach(),
        jitter,
    )


def _factorise(K: Tensor) -> tuple[Tensor, Tensor, float]:
    """Lower factors [N, k, k] of K, each with as little extra jitter as it needs; which ones failed
    [N]; and the largest jitter."""
    L, failed = torch.linalg.cholesky_ex(K)
    jitter, scale = 0.0, K.diagonal(dim1=-2, dim2=-1).mean(-1)
    for relative in EXTRA_JITTER[1:]:
        bad = (failed > 0).nonzero().squeeze(-1)
        if not len(bad):
            break
        extra = relative * scale[bad].abs()
        jitter = max(jitter, extra.max().item())
        L[bad], failed[bad] = torch.linalg.cholesky_ex(K[bad] + torch.diag_embed(
            extra.unsqueeze(-1).expand(-1, K.shape[-1])
        ))  # fmt: skip
    return L, failed > 0, jitter
