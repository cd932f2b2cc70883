"""The routines of BLAS and LAPACK that the models stand on, one function each, by their names.

On a processor, in double precision, each calls SciPy's, which runs faster than torch's on many
machines; torch does the same elsewhere. SciPy's own functions hold Python's lock while they work,
and a node's callbacks would have to wait. Their addresses are public (scipy.linalg.cython_blas, for
Cython and Numba); called through ctypes they let other threads go on.

Fortran sees a contiguous torch matrix transposed: the lower triangle here is the upper one (``U``)
there, and what stands left of a matrix here stands right of it there. Of a symmetric argument or
result only the lower triangle is meant, which saves half the operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import torch
from scipy.linalg import cython_blas, cython_lapack
from torch import Tensor

#: An integer result of a routine.
Info = ctypes.c_int


def trsm(L: Tensor, B: Tensor, transposed: bool = False, right: bool = False) -> Tensor:
    """L^-1 B [M, N] for a lower triangular L [M, M]; ``transposed``: L^-T B; ``right``: B L^-1."""
    assert not (transposed and right)
    if not _serves(L, B):
        A = L.mT if transposed else L
        return torch.linalg.solve_triangular(A, B, upper=transposed, left=not right)
    solution, L, (rows, columns) = _copy(B), L.contiguous(), B.shape
    how = (b"L" if right else b"R"), b"U", (b"T" if transposed else b"N"), b"N"
    call("dtrsm", *how, columns, rows, 1.0, L, len(L), solution, columns)
    return solution


def trmm(B: Tensor, L: Tensor) -> Tensor:
    """B L [K, M] for a lower triangular L [M, M]."""
    if not _serves(B, L):
        return B @ L.tril()
    product, L, (K, M) = _copy(B), L.contiguous(), B.shape
    call("dtrmm", b"L", b"U", b"N", b"N", M, K, 1.0, L, M, product, M)
    return product


def trmm_unit_(L: Tensor, B: Tensor) -> Tensor:
    """L^T B [M, N] in the place of B, for a lower triangular L [M, M] with ones on its diagonal."""
    if not (_serves(L, B) and L.is_contiguous() and B.is_contiguous()):
        return B.copy_(L.mT @ B)
    M, N = B.shape
    call("dtrmm", b"R", b"U", b"T", b"U", N, M, 1.0, L, M, B, N)
    return B


def symm(A: Tensor, B: Tensor) -> Tensor:
    """A B [M, N] for a symmetric A [M, M]."""
    if not _serves(A, B):
        return (A.tril() + A.tril(-1).mT) @ B
    A, B = A.contiguous(), B.contiguous()
    product, (M, N) = torch.empty_like(B), B.shape
    call("dsymm", b"R", b"U", N, M, 1.0, A, M, B, N, 0.0, product, N)
    return product


def syrk(A: Tensor, alpha: float = 1.0, onto: Tensor | None = None) -> Tensor:
    """alpha A A^T [M, M]; C + alpha A A^T in the place of C = ``onto``, where there is one."""
    if not _serves(A):
        square = alpha * (A @ A.mT)
        return square if onto is None else onto.add_(square)
    A, (M, K) = A.contiguous(), A.shape
    C = A.new_empty(M, M) if onto is None else onto
    call("dsyrk", b"U", b"T", M, K, alpha, A, K, 0.0 if onto is None else 1.0, C, M)
    return C


def syr2k(
    A: Tensor, B: Tensor, alpha: float = 1.0, beta: float = 1.0, onto: Tensor | None = None
) -> Tensor:
    """alpha (A B^T + B A^T) [M, M]; beta C + that in the place of C = ``onto``."""
    if not _serves(A, B):
        product = alpha * (A @ B.mT)
        double = product + product.mT
        return double if onto is None else onto.mul_(beta).add_(double)
    A, B, (M, K) = A.contiguous(), B.contiguous(), A.shape
    C = A.new_empty(M, M) if onto is None else onto
    call("dsyr2k", b"U", b"T", M, K, alpha, A, K, B, K, 0.0 if onto is None else beta, C, M)
    return C


def sygst(A: Tensor, L: Tensor) -> Tensor:
    """L^-1 A L^-T [M, M] for a symmetric A [M, M] and a lower triangular L [M, M]."""
    if not _serves(L, A):
        half = trsm(L, A.tril() + A.tril(-1).mT)
        return trsm(L, half.mT)
    result, L, M = _copy(A), L.contiguous(), len(L)
    call("dsygst", 1, b"U", M, result, M, L, M, Info())
    return result


def potrf(A: Tensor) -> Tensor | None:
    """Lower L [M, M] with A = L L^T; None where A is not positive definite."""
    if _serves(A):
        L, info = _copy(A), Info()
        call("dpotrf", b"U", len(L), L, len(L), info)
        found = info.value
        L.tril_()
    else:
        L, code = torch.linalg.cholesky_ex(A)
        found = int(code.item())
    # What is not finite in A reaches the diagonal.
    return L if found == 0 and bool(L.diagonal().isfinite().all()) else None


def potri(L: Tensor) -> Tensor:
    """(L L^T)^-1 [M, M] for a lower triangular L [M, M]."""
    if not _serves(L):
        return torch.cholesky_inverse(L)
    inverse, M = _copy(L), len(L)
    call("dpotri", b"U", M, inverse, M, Info())
    return inverse


def pstrf(A: Tensor, tolerance: float) -> Tensor:
    """Pivots of A [M, M], positive semi-definite, in their order, while what remains of a diagonal
    entry is above the tolerance [1 to M]. Torch has no such routine: it runs on the processor.
    """
    M, A_cpu = len(A), _copy(A.detach().cpu())
    pivots, rank = torch.empty(M, dtype=torch.int32), Info()
    work = A_cpu.new_empty(2 * M)
    call("dpstrf", b"U", M, A_cpu, M, pivots, rank, tolerance, work, Info())
    return (pivots[: max(1, rank.value)].to(torch.int64) - 1).to(A.device)


def call(name: str, *arguments: bytes | int | float | Tensor | ctypes.c_int) -> None:
    """Call a routine by its Fortran name. Tensors must be contiguous; results go into them."""
    _routine(name)(*map(_reference, arguments))


def _serves(*tensors: Tensor) -> bool:
    """Whether these tensors can be handed to ``call``."""
    return all(t.is_cpu and t.dtype == torch.float64 for t in tensors)


def _copy(A: Tensor) -> Tensor:
    return A.clone(memory_format=torch.contiguous_format)


def _reference(argument: bytes | int | float | Tensor | ctypes.c_int) -> object:
    if isinstance(argument, Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if isinstance(argument, bytes):
        return ctypes.c_char_p(argument)
    if isinstance(argument, float):
        return ctypes.byref(ctypes.c_double(argument))
    return ctypes.byref(argument if isinstance(argument, ctypes.c_int) else Info(argument))


@cache
def _routine(name: str) -> Callable[..., None]:
    tables = (cython_blas.__pyx_capi__, cython_lapack.__pyx_capi__)
    capsule = next(table[name] for table in tables if name in table)
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype = ctypes.c_char_p
    api.PyCapsule_GetName.argtypes = [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    address = api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule))
    return ctypes.CFUNCTYPE(None)(address)
