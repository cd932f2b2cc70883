r"""The Attentive Kernel (Chen et al., 2022) over rough bases, in torch.

k(x, x') = s s' \bar w^T \bar w' \sum_m \bar w_m \bar w'_m exp(-(r / l_m)^g): the equation of
``models/kernels.py``, but for the exponent g in (0, 2), which is learned, and lengthscales
l_m that are spaced evenly in their logarithm. Fields are log s and the logits of the weights w;
\bar w = w / |w|.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

#: Beside r^2: there is a gradient at zero.
NEAR = 1e-10
#: Deviation of log l that the first weights have about the initial lengthscale.
SPREAD = 0.7


class Local(NamedTuple):
    """The kernel at points [...]: log s, and the weights of unit norm [..., M]."""

    log_s: Tensor
    weights: Tensor


def bases(shortest: float, longest: float, count: int) -> Tensor:
    """The lengthscales of the base kernels [M]."""
    return torch.logspace(math.log10(shortest), math.log10(longest), count, dtype=torch.float64)


def first_logits(lengths: Tensor, lengthscale: float) -> Tensor:
    """Logits [M] of weights about one lengthscale."""
    return -0.5 * ((lengths.log() - math.log(lengthscale)) / SPREAD).square()


def local(f: Tensor) -> Local:
    """From fields f [..., 1 + M]."""
    return Local(f[..., 0], torch.nn.functional.normalize(f[..., 1:].softmax(-1), dim=-1))


def lengthscale(f: Tensor, lengths: Tensor) -> Tensor:
    r"""The weighted mean of the lengthscales, \sum_m \bar w_m^2 l_m [...]."""
    return local(f).weights.square() @ lengths


def covariance(
    x1: Tensor, p1: Local, x2: Tensor, p2: Local, exponent: Tensor, lengths: Tensor, same: bool
) -> Tensor:
    """Covariances [..., N1, N2] of x1 [..., N1, 2] and x2 [..., N2, 2].

    ``same``: the two are the same points, and the diagonal is s^2 to the last bit.
    """
    squared = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).square().sum(-1) + NEAR
    powers = squared ** (exponent / 2)
    K = torch.zeros_like(powers)
    for rate, w1, w2 in zip(
        lengths ** (-exponent), p1.weights.unbind(-1), p2.weights.unbind(-1), strict=True
    ):
        K = K + w1.unsqueeze(-1) * w2.unsqueeze(-2) * (powers * -rate).exp()
    K = K * (p1.weights @ p2.weights.mT)
    K = K * (p1.log_s.unsqueeze(-1) + p2.log_s.unsqueeze(-2)).exp()
    if not same:
        return K
    own = torch.eye(K.shape[-1], dtype=torch.bool, device=K.device)
    return torch.where(own, (2 * p1.log_s).exp().unsqueeze(-1), K)
