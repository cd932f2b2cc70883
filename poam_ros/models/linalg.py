"""Factorisations, with the one jitter policy of the package.

Every prior covariance of inducing outputs has the same small jitter on its diagonal (``jitter``,
1e-6 by default) in M-step, variational update and prediction. If that is not enough, ``cholesky``
adds more and reports how much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
import torch
from scipy.linalg import blas, lapack
from torch import Tensor

from ..core.errors import CholeskyError

# SciPy's routines take matrices by columns. A contiguous tensor is its transpose by columns, so a
# lower triangle is their upper one (their default), and products change sides.


def trsm(L: Tensor, B: Tensor, transposed: bool = False, right: bool = False) -> Tensor:
    """L^-1 B [M, N] for a lower triangular L [M, M]; ``transposed``: L^-T B; ``right``: B L^-1."""
    assert not (transposed and right)
    if not _supported(L, B):
        A = L.mT if transposed else L
        return torch.linalg.solve_triangular(A, B, upper=transposed, left=not right)
    how = {"side": 0 if right else 1, "trans_a": int(transposed)}
    return _tensor(blas.dtrsm(1.0, _matrix(L), _matrix(B), **how))


def trmm(B: Tensor, L: Tensor) -> Tensor:
    """B L [K, M] for a lower triangular L [M, M]."""
    if not _supported(B, L):
        return B @ L.tril()
    return _tensor(blas.dtrmm(1.0, _matrix(L), _matrix(B)))


def trmm_unit_(L: Tensor, B: Tensor) -> Tensor:
    """L^T B [M, N] for a lower triangular L [M, M] with unit diagonal; overwrites B."""
    if not (_supported(L, B) and B.is_contiguous()):
        return B.copy_(L.mT @ B)
    how = {"side": 1, "trans_a": 1, "diag": 1, "overwrite_b": 1}
    blas.dtrmm(1.0, _matrix(L), _matrix(B), **how)
    return B


def symm(A: Tensor, B: Tensor) -> Tensor:
    """A B [M, N] for a symmetric A [M, M]."""
    if not _supported(A, B):
        return (A.tril() + A.tril(-1).mT) @ B
    return _tensor(blas.dsymm(1.0, _matrix(A), _matrix(B), side=1))


def syrk(A: Tensor, alpha: float, C: Tensor) -> Tensor:
    """C + alpha A A^T [M, M]; overwrites C."""
    if not _supported(A):
        return C.add_(alpha * (A @ A.mT))
    blas.dsyrk(alpha, _matrix(A), 1.0, _matrix(C), trans=1, overwrite_c=1)
    return C


def syr2k(A: Tensor, B: Tensor, alpha: float, beta: float, C: Tensor) -> Tensor:
    """beta C + alpha (A B^T + B A^T) [M, M]; overwrites C."""
    if not _supported(A, B):
        product = alpha * (A @ B.mT)
        return C.mul_(beta).add_(product + product.mT)
    blas.dsyr2k(alpha, _matrix(A), _matrix(B), beta, _matrix(C), trans=1, overwrite_c=1)
    return C


def potrf(A: Tensor) -> Tensor | None:
    """Lower L [M, M] with A = L L^T; None if A is not positive definite."""
    if _supported(A):
        factor, failed = lapack.dpotrf(_matrix(A), clean=1)
        L = _tensor(factor)
    else:
        L, code = torch.linalg.cholesky_ex(A)
        failed = int(code.item())
    # Any non-finite entry of A reaches the diagonal.
    return L if not failed and bool(L.diagonal().isfinite().all()) else None


def potri(L: Tensor) -> Tensor:
    """(L L^T)^-1 [M, M] for a lower triangular L [M, M]."""
    if not _supported(L):
        return torch.cholesky_inverse(L)
    return _tensor(lapack.dpotri(_matrix(L))[0])


def _supported(*tensors: Tensor) -> bool:
    """Whether SciPy's routines accept these tensors."""
    return all(t.is_cpu and t.dtype == torch.float64 for t in tensors)


def _matrix(A: Tensor) -> np.ndarray:
    """The transpose of A, by columns and without a copy of a contiguous A."""
    return A.detach().contiguous().numpy().T


def _tensor(A: np.ndarray) -> Tensor:
    """The transpose of a matrix by columns, as a tensor."""
    return torch.from_numpy(A.T)


#: Extra jitter tried in turn, relative to the mean of the diagonal.
EXTRA_JITTER = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


class Factor(NamedTuple):
    """A lower Cholesky factor L [M, M] and the extra jitter it needed (absolute; usually 0)."""

    L: Tensor
    jitter: float


def cholesky(A: Tensor, name: str) -> Factor:
    """Lower Cholesky factor of A [M, M], with the least of ``EXTRA_JITTER`` that suffices.

    Args:
        A: symmetric matrix, base jitter included.
        name: name of A in the error message.

    Raises:
        CholeskyError: A is not finite, or not positive definite with the largest extra jitter.
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
        f"its diagonal (mean {scale:.3g}): lower sparse.num_inducing"
    )


def reversed_cholesky(A: Tensor, factorise: Callable[[Tensor, str], Factor], name: str) -> Tensor:
    """Lower R [M, M] with A = R^T R."""
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
    """L^-1 A L^-T [M, M], both triangles, from the lower triangles of L and a symmetric A."""
    if _supported(L, A_lower):
        return mirrored_(_tensor(lapack.dsygst(_matrix(A_lower), _matrix(L))[0]))
    half = trsm(L, A_lower.tril() + A_lower.tril(-1).mT)
    return mirrored_(trsm(L, half.mT))


def mirrored_(A: Tensor) -> Tensor:
    """A [M, M] with its lower triangle copied to the upper one, in place."""
    upper = A.tril(-1).mT
    return A.tril_().add_(upper)


class IndefiniteFactor(NamedTuple):
    """The factors of a symmetric A [M, M], definite or not: A[order][:, order] = L D L^T.

    L [M, M] is lower triangular with unit diagonal; D has the diagonal d [M] and the subdiagonal
    e [M - 1], which is nonzero at 2 x 2 pivots.
    """

    L: Tensor
    d: Tensor
    e: Tensor
    order: Tensor

    def quadratic_(self, B: Tensor) -> Tensor:
        """diag(B^T A B) [N] for B[order] [M, N], which is overwritten; half the cost of A B."""
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


def factorise_indefinite(A: Tensor) -> IndefiniteFactor:
    """The pivoted factors (Bunch and Kaufman, 1977) of a symmetric A [M, M]."""
    lu, D, order = scipy.linalg.ldl(A.detach().cpu().numpy())
    parts = (np.ascontiguousarray(lu[order]), D.diagonal().copy(), np.diagonal(D, -1).copy(), order)
    return IndefiniteFactor(*(torch.from_numpy(part).to(A.device) for part in parts))


def pivoted_cholesky(K: Tensor, rank: int, tolerance: float) -> Tensor:
    """Pivots of the pivoted Cholesky decomposition of K (Sec. IV-A; Harbrecht et al., 2012).

    Each pivot is the row with the largest remaining diagonal, so no point is chosen twice.

    Args:
        K: positive semi-definite matrix [N, N], without jitter.
        rank: maximum number of pivots.
        tolerance: stop when the largest remaining diagonal is below this (absolute).

    Returns:
        At most ``rank`` distinct row indices [M], in the order of choice; at least one.
    """
    # On the CPU: torch has no such routine. It factorises to the end; its first pivots do not
    # depend on that.
    _, pivots, found, _ = lapack.dpstrf(K.detach().cpu().numpy(), tol=tolerance)
    chosen = torch.from_numpy(pivots[: max(1, min(found, rank))].astype(np.int64) - 1)
    return chosen.to(K.device)


def conditional_draws(covariance: Tensor, known: Tensor, generator: torch.Generator) -> Tensor:
    """Joint draws of all but the first G of N variables with mean 0 [count, N - G].

    Args:
        covariance: of all variables [N, N].
        known: the first variables in these draws [count, G].
        generator: of the draws.

    Raises:
        CholeskyError: the covariance is beyond repair.
    """
    count, G = known.shape
    L, _ = cholesky(covariance, "covariance of the places")
    white = torch.randn(len(L) - G, count, generator=generator, dtype=torch.float64).to(L)
    first = torch.linalg.solve_triangular(L[:G, :G], known.mT, upper=False)
    return (L[G:] @ torch.cat([first, white])).mT
