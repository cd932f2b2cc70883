"""Factorisations, with the one jitter policy of the package.

Every prior covariance of inducing outputs carries the same small jitter on its diagonal
(``jitter``, 1e-6 by default), wherever it appears: M-step, variational update and prediction.
Only if that is not enough does ``cholesky`` add more, and it says how much.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import CholeskyError
from . import lapack

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


# Symmetric products. Of a symmetric result only the lower triangle is meant: BLAS saves the other
# half, and SciPy's runs faster than torch's on many processors. On other devices torch does all.


def inverse_lower(L: Tensor) -> Tensor:
    """Lower triangle of (L L^T)^-1 [M, M]."""
    if not lapack.serves(L):
        return torch.cholesky_inverse(L)
    inverse, M = L.clone(memory_format=torch.contiguous_format), len(L)
    lapack.call("dpotri", b"U", M, inverse, M, lapack.Info())
    return inverse


def symmetric_product(A_lower: Tensor, B: Tensor) -> Tensor:
    """A B [M, N] for a symmetric A [M, M] that is given by its lower triangle."""
    if not lapack.serves(A_lower, B):
        return mirrored(A_lower) @ B
    A_lower, B = A_lower.contiguous(), B.contiguous()
    product, (M, N) = torch.empty_like(B), B.shape
    lapack.call("dsymm", b"R", b"U", N, M, 1.0, A_lower, M, B, N, 0.0, product, N)
    return product


def square_lower(A: Tensor) -> Tensor:
    """Lower triangle of A A^T [M, M]."""
    if not lapack.serves(A):
        return A @ A.mT
    A, (M, K) = A.contiguous(), A.shape
    square = A.new_empty(M, M)
    lapack.call("dsyrk", b"U", b"T", M, K, 1.0, A, K, 0.0, square, M)
    return square


def double_lower(A: Tensor, B: Tensor) -> Tensor:
    """Lower triangle of A B^T + B A^T [M, M]."""
    if not lapack.serves(A, B):
        product = A @ B.mT
        return product + product.mT
    A, B, (M, K) = A.contiguous(), B.contiguous(), A.shape
    double = A.new_empty(M, M)
    lapack.call("dsyr2k", b"U", b"T", M, K, 1.0, A, K, B, K, 0.0, double, M)
    return double


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
    N, K_cpu = len(K), K.detach().cpu().clone(memory_format=torch.contiguous_format)
    pivots, found = torch.empty(N, dtype=torch.int32), lapack.Info()
    work = K_cpu.new_empty(2 * N)
    lapack.call("dpstrf", b"U", N, K_cpu, N, pivots, found, tolerance, work, lapack.Info())
    chosen = pivots[: max(1, min(found.value, rank))].to(torch.int64) - 1
    return chosen.to(K.device)
