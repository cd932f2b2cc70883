"""Factorisations, with the one jitter policy of the package.

Every prior covariance of inducing outputs carries the same small jitter on its diagonal
(``jitter``, 1e-6 by default), wherever it appears: M-step, variational update and prediction.
Only if that is not enough does ``cholesky`` add more, and it says how much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.linalg.blas import dsymm, dsyr2k, dsyrk
from scipy.linalg.lapack import dpotri, dpstrf
from torch import Tensor

from ..errors import CholeskyError

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
        L, info = torch.linalg.cholesky_ex(add_jitter(A, jitter) if jitter else A)
        if info.item() == 0 and bool(L.isfinite().all()):
            return Factor(L, jitter)
    raise CholeskyError(
        f"{name} [{len(A)} x {len(A)}] is not positive definite, even with {jitter:.1e} added to "
        f"its diagonal (mean {scale:.3g}): raise the parameter `jitter` or `tolerance`"
    )


def add_jitter(A: Tensor, jitter: float) -> Tensor:
    """A + jitter * I, as a new tensor [M, M]."""
    A = A.clone()
    A.diagonal().add_(jitter)
    return A


def _on_cpu(*tensors: Tensor) -> bool:
    return all(t.is_cpu and t.dtype == torch.float64 for t in tensors)


def _f(A: Tensor) -> np.ndarray:
    """A^T as LAPACK sees the memory of A: no copy if A is contiguous."""
    return A.detach().numpy().T


def _c(A: np.ndarray) -> Tensor:
    """The transpose of LAPACK's result, as torch sees its memory."""
    return torch.from_numpy(A.T)


# Symmetric products. Of a symmetric result only the lower triangle is meant: BLAS saves the other
# half, and SciPy's runs faster than torch's on many processors. Elsewhere torch does it whole.


def inverse_lower(L: Tensor) -> Tensor:
    """Lower triangle of (L L^T)^-1 [M, M]."""
    return _c(dpotri(_f(L), lower=0)[0]) if _on_cpu(L) else torch.cholesky_inverse(L)


def symmetric_product(A_lower: Tensor, B: Tensor) -> Tensor:
    """A B [M, N] for a symmetric A [M, M] that is given by its lower triangle."""
    if _on_cpu(A_lower, B):
        return _c(dsymm(1.0, _f(A_lower), _f(B), side=1, lower=0))
    return mirrored(A_lower) @ B


def square_lower(A: Tensor) -> Tensor:
    """Lower triangle of A A^T [M, M]."""
    return _c(dsyrk(1.0, _f(A), trans=1, lower=0)) if _on_cpu(A) else A @ A.mT


def double_lower(A: Tensor, B: Tensor) -> Tensor:
    """Lower triangle of A B^T + B A^T [M, M]."""
    if _on_cpu(A, B):
        return _c(dsyr2k(1.0, _f(A), _f(B), trans=1, lower=0))
    product = A @ B.mT
    return product + product.mT


def mirrored(A_lower: Tensor) -> Tensor:
    """The symmetric matrix [M, M] with this lower triangle."""
    return A_lower.tril() + A_lower.tril(-1).mT


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
    # LAPACK's blocked dpstrf factorises to the end; its first pivots are those of a shorter run.
    _, pivots, found, _ = dpstrf(K.detach().cpu().numpy(), tol=tolerance, lower=True)
    chosen = pivots[: max(1, min(int(found), rank))].astype(np.int64) - 1
    return torch.from_numpy(chosen).to(K.device)
