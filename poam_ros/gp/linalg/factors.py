"""Factorisations, with the one jitter policy of the package.

Every prior covariance of inducing outputs carries the same small jitter on its diagonal
(``jitter``, 1e-6 by default), wherever it appears: M-step, variational update and prediction.
Only if that is not enough does ``cholesky`` add more, and it says how much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import torch
from torch import Tensor

from ...errors import CholeskyError
from ..kernels import native
from .blas import potrf, pstrf, sygst, trmm_unit_, trsm

#: Extra jitter tried in turn, relative to the mean of the diagonal.
EXTRA_JITTER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


class Factor(NamedTuple):
    """A lower Cholesky factor L [M, M] and the extra jitter that it took (absolute; usually 0)."""

    L: Tensor
    jitter: float


def cholesky(A: Tensor, name: str) -> Factor:
    """Lower Cholesky factor of A [M, M], with as little extra jitter as possible.

    Args:
        A: symmetric matrix, base jitter included.
        name: what A is, for the error message.

    Raises:
        CholeskyError: if A stays indefinite with the largest extra jitter, or is not finite.
    """
    scale = A.diagonal().mean().item()
    if not np.isfinite(scale):
        raise CholeskyError(f"{name} [{len(A)} x {len(A)}] holds values that are not finite")
    for relative in EXTRA_JITTER:
        jitter = relative * abs(scale)
        L = potrf(add_jitter(A, jitter) if jitter else A)
        if L is not None:
            return Factor(L, jitter)
    raise CholeskyError(
        f"{name} [{len(A)} x {len(A)}] is not positive definite, even with {jitter:.1e} added to "
        f"its diagonal (mean {scale:.3g}): raise the parameter `jitter` or `tolerance`"
    )


def reversed_cholesky(A: Tensor, factorise: Callable[[Tensor, str], Factor], name: str) -> Tensor:
    """Lower R [M, M] with A = R^T R: the Cholesky factor from the last row up."""
    return factorise(A.flip(0, 1), name).L.flip(0, 1).mT.contiguous()


def add_jitter(A: Tensor, jitter: float) -> Tensor:
    """A + jitter * I, as a new tensor [M, M]."""
    A = A.clone()
    A.diagonal().add_(jitter)
    return A


def solve_posdef(L: Tensor, B: Tensor) -> Tensor:
    """(L L^T)^-1 B [M, N] for a lower triangular L [M, M]."""
    return trsm(L, trsm(L, B), transposed=True)


def whitened(L: Tensor, A_lower: Tensor) -> Tensor:
    """L^-1 A L^-T [M, M], whole, for a symmetric A, both from their lower triangles."""
    return mirrored_(sygst(A_lower, L))


def mirrored(A_lower: Tensor) -> Tensor:
    """The symmetric matrix [M, M] with this lower triangle."""
    return mirrored_(A_lower.clone(memory_format=torch.contiguous_format))


def mirrored_(A: Tensor) -> Tensor:
    """A [M, M] with its lower triangle copied to the upper one, in place."""
    if native.mirror(A):
        return A
    upper = A.tril(-1).mT
    return A.tril_().add_(upper)


class Indefinite(NamedTuple):
    """A symmetric matrix A [M, M], definite or not, as A[order][:, order] = L D L^T.

    L [M, M] lower with ones on its diagonal; D has the diagonal d [M] and, where pivots were taken
    in pairs, e [M - 1] beside it.
    """

    L: Tensor
    d: Tensor
    e: Tensor
    order: Tensor

    def quadratic_(self, B: Tensor) -> Tensor:
        """diag(B^T A B) [N] for B[order] [M, N], which is overwritten.

        Half the operations of a product with A.
        """
        B = trmm_unit_(self.L, B)
        pairs = self.e.nonzero().squeeze(-1)
        beside = 2 * (self.e[pairs] @ (B[pairs] * B[pairs + 1]))
        return self.d @ B.square_() + beside

    def congruent_(self, B: Tensor) -> Tensor:
        """B^T A B [N, N] for B[order] [M, N], which is overwritten."""
        B = trmm_unit_(self.L, B)
        DB = self.d.unsqueeze(-1) * B
        DB[:-1] += self.e.unsqueeze(-1) * B[1:]
        DB[1:] += self.e.unsqueeze(-1) * B[:-1]
        product = B.mT @ DB
        return 0.5 * (product + product.mT)


def factorise_indefinite(A: Tensor) -> Indefinite:
    """The pivoted factor (Bunch and Kaufman, 1977) of a symmetric A [M, M]."""
    lu, D, order = scipy.linalg.ldl(A.detach().cpu().numpy())
    parts = (np.ascontiguousarray(lu[order]), D.diagonal().copy(), np.diagonal(D, -1).copy(), order)
    return Indefinite(*(torch.from_numpy(part).to(A.device) for part in parts))


def pivoted_cholesky(K: Tensor, rank: int, tolerance: float) -> Tensor:
    """Pivots of the pivoted Cholesky decomposition of K (Sec. IV-A; Harbrecht et al., 2012).

    Each pivot is the row with the largest remaining diagonal, so a point that repeats a chosen
    one is never chosen.

    Args:
        K: positive semi-definite matrix [N, N], without jitter.
        rank: how many pivots at most.
        tolerance: stop when the largest remaining diagonal is below this (absolute).

    Returns:
        At most ``rank`` distinct row indices [M], in the order of choice; at least one.
    """
    # LAPACK's blocked pstrf factorises to the end; its first pivots are those of a shorter run.
    return pstrf(K, tolerance)[:rank]
