"""Functions that choose the inducing inputs Z."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .kernels import AttentiveKernel
from .linalg import pivoted_cholesky

#: Up to this many candidates their whole covariance is kept (32 MB); beyond, what is asked for.
KEPT_WHOLE = 2000


@dataclass(frozen=True)
class Candidates:
    """The points among which inducing inputs are chosen, [Z'; X], and their covariance.

    X [C, D] holds the M' old inducing inputs first. The covariance is bare, without jitter, under
    the present hyperparameters; Kuu, Ku'u and Kuf are parts of it. K [C, C] holds it where the
    candidates are not too many, else None: a long pilot survey may bring thousands.
    """

    kernel: AttentiveKernel
    X: Tensor
    old: int
    K: Tensor | None

    @classmethod
    def of(cls, kernel: AttentiveKernel, Z_old: Tensor, X: Tensor) -> Candidates:
        """The old inducing inputs Z' [M', D] and the new data X [N, D]."""
        points = torch.cat([Z_old, X])
        K = kernel.forward(points, points) if len(points) <= KEPT_WHOLE else None
        return cls(kernel, points, len(Z_old), K)

    def covariance(self, rows: Tensor, columns: Tensor | slice) -> Tensor:
        """The covariance of some candidates [R] with others [S], [R, S]."""
        if self.K is not None:
            return self.K[rows][:, columns]
        return self.kernel.forward(self.X[rows], self.X[columns])


def select_by_pivoted_cholesky(
    candidates: Candidates, amplitude: float, num_inducing: int, tolerance: float
) -> Tensor:
    """Recursive PCD on [Z'; X] (Sec. IV-B): constant time, whatever the number of data so far.

    Stops early when the largest remaining diagonal falls below ``tolerance`` times the
    amplitude: then fewer than M points already explain the prior at all candidates.

    Returns:
        Indices into the candidates [M].
    """
    if candidates.K is not None:
        return pivoted_cholesky(candidates.K, num_inducing, tolerance * amplitude)
    return _select_row_by_row(candidates, num_inducing, tolerance * amplitude)


def _select_row_by_row(candidates: Candidates, rank: int, tolerance: float) -> Tensor:
    """The same pivots from the chosen rows of K alone: O(C M) memory, O(C M^2) time."""
    X, rank = candidates.X, min(rank, len(candidates.X))
    remaining = candidates.kernel.forward(X, X, diag=True).clone()
    factor = X.new_empty(rank, len(X))
    pivots: list[int] = []
    for r in range(rank):
        pivot = int(remaining.argmax())
        if pivots and remaining[pivot] <= tolerance:
            break
        row = candidates.covariance(torch.tensor([pivot], device=X.device), slice(None))[0]
        factor[r] = (row - factor[:r, pivot] @ factor[:r]) / remaining[pivot].sqrt()
        remaining -= factor[r].square()
        pivots.append(pivot)
        remaining[pivots] = 0.0  # whatever rounding left
    return torch.tensor(pivots, device=X.device)
