"""Functions that choose the inducing inputs Z."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .kernels import AttentiveKernel
from .linalg import pivoted_cholesky


@dataclass(frozen=True)
class Candidates:
    """The points among which inducing inputs are chosen, [Z'; X], and their covariance.

    X [C, D] holds the M' old inducing inputs first; K [C, C] is bare, without jitter, under the
    present hyperparameters. Kuu, Ku'u and Kuf are submatrices of K.
    """

    X: Tensor
    K: Tensor
    old: int

    @classmethod
    def of(cls, kernel: AttentiveKernel, Z_old: Tensor, X: Tensor) -> Candidates:
        """The old inducing inputs Z' [M', D] and the new data X [N, D]."""
        points = torch.cat([Z_old, X])
        return cls(points, kernel.forward(points, points), len(Z_old))


def select_by_pivoted_cholesky(
    candidates: Candidates, amplitude: float, num_inducing: int, tolerance: float
) -> Tensor:
    """Recursive PCD on [Z'; X] (Sec. IV-B): constant time, whatever the number of data so far.

    Stops early when the largest remaining diagonal falls below ``tolerance`` times the
    amplitude: then fewer than M points already explain the prior at all candidates.

    Returns:
        Indices into the candidates [M].
    """
    return pivoted_cholesky(candidates.K, num_inducing, tolerance * amplitude)
