"""The joint prediction of a few points from the neighbours of them all."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..linalg.factors import cholesky
from .kernel import at, between
from .problem import Kernel, Sites

#: More neighbours than this together are not factorised.
MOST = 2048


class Joint(NamedTuple):
    """Covariance without noise [N, N], and the extra jitter that it took."""

    covariance: Tensor
    jitter: float


def joint_covariance(kernel: Kernel, sites: Sites, x: Tensor, neighbours: Tensor) -> Joint | None:
    """Of x [N, 2] given the union of the neighbours [N, k]; None where these are more than MOST.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    near = neighbours[neighbours >= 0].unique()
    if len(near) > MOST:
        return None
    at_sites, at_x = (at(kernel, points) for points in (sites.x[near], x))
    # The unknown local mean is one more covariance, the same everywhere.
    trend = 1.0 / kernel.mean_precision
    here = sites.x[near]
    K = between(kernel, here, at_sites, here, at_sites, same=True) + trend
    K.diagonal().add_(kernel.noise * sites.noise[near])
    if sites.own is not None:
        K.diagonal().add_(sites.own[near])
    cross = between(kernel, here, at_sites, x, at_x) + trend
    prior = between(kernel, x, at_x, x, at_x, same=True) + trend
    L, jitter = cholesky(K, "covariance of the neighbours")
    half = torch.linalg.solve_triangular(L, cross, upper=False)
    return Joint(prior - half.mT @ half, jitter)
