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
from . import blas as lapack

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
        L = _lower_factor(add_jitter(A, jitter) if jitter else A)
        if L is not None:
            return Factor(L, jitter)
    raise CholeskyError(
        f"{name} [{len(A)} x {len(A)}] is not positive definite, even with {jitter:.1e} added to "
        f"its diagonal (mean {scale:.3g}): raise the parameter `jitter` or `tolerance`"
    )


def _lower_factor(A: Tensor) -> Tensor | None:
    """The lower Cholesky factor of A [M, M]; None where A is not positive definite."""
    if lapack.serves(A):
        L, info = A.clone(memory_format=torch.contiguous_format), lapack.Info()
        lapack.call("dpotrf", b"U", len(L), L, len(L), info)
        found = info.value
        L.tril_()
    else:
        L, code = torch.linalg.cholesky_ex(A)
        found = code.item()
    # What is not finite in A reaches the diagonal.
    return L if found == 0 and bool(L.diagonal().isfinite().all()) else None


def reversed_cholesky(A: Tensor, factorise: Callable[[Tensor, str], Factor], name: str) -> Tensor:
    """Lower R [M, M] with A = R^T R: the Cholesky factor from the last row up."""
    return factorise(A.flip(0, 1), name).L.flip(0, 1).mT.contiguous()


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


def lower_product(B: Tensor, L: Tensor) -> Tensor:
    """B L [K, M] for a lower triangular L [M, M]."""
    if not lapack.serves(B, L):
        return B @ L.tril()
    product, L, (K, M) = _copy(B), L.contiguous(), B.shape
    lapack.call("dtrmm", b"L", b"U", b"N", b"N", M, K, 1.0, L, M, product, M)
    return product


def unit_lower_transposed_product_(L: Tensor, B: Tensor) -> Tensor:
    """L^T B [M, N] in the place of B, for a lower triangular L [M, M] with ones on its diagonal."""
    if not (lapack.serves(L, B) and L.is_contiguous() and B.is_contiguous()):
        return B.copy_(L.mT @ B)
    M, N = B.shape
    lapack.call("dtrmm", b"R", b"U", b"T", b"U", N, M, 1.0, L, M, B, N)
    return B


def solve_lower(L: Tensor, B: Tensor, transposed: bool = False) -> Tensor:
    """L^-1 B [M, N], or L^-T B, for a lower triangular L [M, M]."""
    if not lapack.serves(L, B):
        return torch.linalg.solve_triangular(L.mT if transposed else L, B, upper=transposed)
    solution, L, (M, N) = _copy(B), L.contiguous(), B.shape
    trans = b"T" if transposed else b"N"
    lapack.call("dtrsm", b"R", b"U", trans, b"N", N, M, 1.0, L, M, solution, N)
    return solution


def divide_lower(B: Tensor, L: Tensor) -> Tensor:
    """B L^-1 [K, M] for a lower triangular L [M, M]."""
    if not lapack.serves(B, L):
        return torch.linalg.solve_triangular(L, B, upper=False, left=False)
    quotient, L, (K, M) = _copy(B), L.contiguous(), B.shape
    lapack.call("dtrsm", b"L", b"U", b"N", b"N", M, K, 1.0, L, M, quotient, M)
    return quotient


def solve_posdef(L: Tensor, B: Tensor) -> Tensor:
    """(L L^T)^-1 B [M, N] for a lower triangular L [M, M]."""
    return solve_lower(L, solve_lower(L, B), transposed=True)


def whitened(L: Tensor, A_lower: Tensor) -> Tensor:
    """L^-1 A L^-T [M, M] for a symmetric A, both from their lower triangles."""
    if not lapack.serves(L, A_lower):
        half = torch.linalg.solve_triangular(L, mirrored(A_lower), upper=False)
        return mirrored(torch.linalg.solve_triangular(L, half.mT, upper=False))
    result, L, M = _copy(A_lower), L.contiguous(), len(L)
    lapack.call("dsygst", 1, b"U", M, result, M, L, M, lapack.Info())
    return mirrored_(result)


def square_lower(A: Tensor, scale: float = 1.0, onto: Tensor | None = None) -> Tensor:
    """Lower triangle of scale A A^T [M, M]; added to ``onto``, in its place, where there is one."""
    if not lapack.serves(A):
        square = scale * (A @ A.mT)
        return square if onto is None else onto.add_(square)
    A, (M, K) = A.contiguous(), A.shape
    square = A.new_empty(M, M) if onto is None else onto
    beta = 0.0 if onto is None else 1.0
    lapack.call("dsyrk", b"U", b"T", M, K, scale, A, K, beta, square, M)
    return square


def double_lower(
    A: Tensor, B: Tensor, scale: float = 1.0, onto: Tensor | None = None, keep: float = 1.0
) -> Tensor:
    """Lower triangle of scale (A B^T + B A^T) [M, M].

    Added to ``keep`` times ``onto``, in its place, where there is one.
    """
    if not lapack.serves(A, B):
        product = scale * (A @ B.mT)
        double = product + product.mT
        return double if onto is None else onto.mul_(keep).add_(double)
    A, B, (M, K) = A.contiguous(), B.contiguous(), A.shape
    double = A.new_empty(M, M) if onto is None else onto
    beta = 0.0 if onto is None else keep
    lapack.call("dsyr2k", b"U", b"T", M, K, scale, A, K, B, K, beta, double, M)
    return double


def mirrored(A_lower: Tensor) -> Tensor:
    """The symmetric matrix [M, M] with this lower triangle."""
    return mirrored_(_copy(A_lower))


def mirrored_(A: Tensor) -> Tensor:
    """A [M, M] with its lower triangle copied to the upper one, in place."""
    if native.mirror(A):
        return A
    upper = A.tril(-1).mT
    return A.tril_().add_(upper)


def _copy(A: Tensor) -> Tensor:
    return A.clone(memory_format=torch.contiguous_format)


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
        B = unit_lower_transposed_product_(self.L, B)
        pairs = self.e.nonzero().squeeze(-1)
        beside = 2 * (self.e[pairs] @ (B[pairs] * B[pairs + 1]))
        return self.d @ B.square_() + beside

    def congruent_(self, B: Tensor) -> Tensor:
        """B^T A B [N, N] for B[order] [M, N], which is overwritten."""
        B = unit_lower_transposed_product_(self.L, B)
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
    # LAPACK's blocked dpstrf factorises to the end; its first pivots are those of a shorter run.
    N, K_cpu = len(K), K.detach().cpu().clone(memory_format=torch.contiguous_format)
    pivots, found = torch.empty(N, dtype=torch.int32), lapack.Info()
    work = K_cpu.new_empty(2 * N)
    lapack.call("dpstrf", b"U", N, K_cpu, N, pivots, found, tolerance, work, lapack.Info())
    chosen = pivots[: max(1, min(found.value, rank))].to(torch.int64) - 1
    return chosen.to(K.device)
