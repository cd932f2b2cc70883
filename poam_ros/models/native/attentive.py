"""The Attentive Kernel in C if it was built; otherwise torch does the same, more slowly (see
``loader``).
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .loader import INTEGER, POINTER, REAL, declared, structure

MAX_BASES, MAX_DIM, MAX_TILE = 32, 8, 64  # as in attentive.c

#: As in attentive.c.
_PLAN = (INTEGER, "bases"), (POINTER, "rates order source power")
_Problem = structure(*_PLAN, (INTEGER, "n1 n2 dim"), (POINTER, "X1 X2 W1 W2"), (REAL, "amplitude"))
_GridProblem = structure(
    *_PLAN, (INTEGER, "n1 columns rows"), (POINTER, "X1 x y W1 W2"), (REAL, "amplitude")
)
_at = ctypes.POINTER(_Problem)
_library = declared(
    "attentive",
    attentive_forward=(None, _at, ctypes.c_int, POINTER),
    attentive_backward=(REAL, _at, ctypes.c_int, *[POINTER] * 5),
    attentive_grid=(None, ctypes.POINTER(_GridProblem), POINTER),
    attentive_mirror=(None, INTEGER, POINTER),
)

#: Whether C or torch computes the kernel, for logs and benchmarks.
BACKEND = "native" if _library else "torch"


def usable(X1: Tensor, X2: Tensor, bases: int) -> bool:
    """Whether ``covariance`` can take these inputs."""
    return (
        _library is not None
        and bases <= MAX_BASES
        and all(
            X.ndim == 2 and X.shape[1] <= MAX_DIM and X.dtype == torch.float64 and X.is_cpu
            for X in (X1, X2)
        )
    )


def usable_on_grid(X: Tensor, x: Tensor, y: Tensor, bases: int) -> bool:
    """Whether ``grid_covariance`` can take these inputs."""
    return usable(X, X, bases) and X.shape[1] == 2 and max(len(x), len(y)) <= MAX_TILE


def mirror(A: Tensor) -> bool:
    """Copy the lower triangle of A [M, M] to its upper, in place; whether that was possible."""
    if _library is None or not (A.dtype == torch.float64 and A.is_cpu and A.is_contiguous()):
        return False
    _library.attentive_mirror(len(A), A.data_ptr())
    return True


def covariance(
    X1: Tensor, X2: Tensor, W1: Tensor, W2: Tensor, lengthscales: Tensor, amplitude: Tensor
) -> Tensor:
    """The Attentive Kernel's covariances [N1, N2], differentiable in all but the lengthscales.

    X1 [N1, D] and X2 [N2, D]; weights W1 [N1, P] and W2 [N2, P]. Symmetric if X2 is X1.
    """
    lengths = tuple(lengthscales.tolist())
    return _Covariance.apply(X1, X2, W1, W2, lengths, amplitude, X2 is X1)


def grid_covariance(
    X: Tensor, x: Tensor, y: Tensor, W1: Tensor, W2: Tensor, lengthscales: Tensor, amplitude: float
) -> Tensor:
    """Covariances [N, rows, columns] of X [N, 2] with the points of a grid, not differentiable.

    x [columns] and y [rows], at most ``MAX_TILE`` each; weights W1 [N, P] and
    W2 [rows, columns, P].
    """
    assert _library is not None
    plan = _plan(tuple(lengthscales.tolist()))
    padded = W2.new_zeros(len(y), len(lengthscales), MAX_TILE)
    padded[..., : len(x)] = W2[..., plan["order"]].mT
    arrays = _contiguous(X1=X, x=x, y=y, W1=W1, W2=padded) | plan
    sizes = {"n1": len(X), "columns": len(x), "rows": len(y), "bases": len(lengthscales)}
    problem = _GridProblem(**sizes, **_pointers(arrays), amplitude=amplitude)
    K = X.new_empty(len(X), len(y), len(x))
    _library.attentive_grid(ctypes.byref(problem), K.data_ptr())
    return K


@lru_cache(maxsize=8)
def _plan(lengthscales: tuple[float, ...]) -> dict[str, Tensor]:
    """An order of the base kernels in which many are powers of an earlier one.

    A lengthscale that is 1/2 (1/3) of another belongs to the 4th (9th) power of its base kernel:
    l, 2 l ... 10 l take 5 exponentials instead of 10.
    """
    order = sorted(range(len(lengthscales)), key=lambda m: -lengthscales[m])
    source, power = [], []
    for place, m in enumerate(order):
        found = (-1, 4)
        for divisor in (2, 3):
            for earlier in range(place):
                ratio = lengthscales[order[earlier]] / lengthscales[m]
                if found[0] < 0 and abs(ratio - divisor) < 1e-13 * divisor:
                    found = (earlier, divisor**2)
        source.append(found[0])
        power.append(found[1])
    rates = -0.5 / torch.tensor(lengthscales, dtype=torch.float64)[order].square()
    integers = {"order": order, "source": source, "power": power}
    return {name: torch.tensor(values) for name, values in integers.items()} | {"rates": rates}


def _contiguous(**arrays: Tensor) -> dict[str, Tensor]:
    return {name: array.contiguous() for name, array in arrays.items()}


def _pointers(arrays: dict[str, Tensor]) -> dict[str, int]:
    return {name: array.data_ptr() for name, array in arrays.items()}


class _Covariance(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        X1: Tensor,
        X2: Tensor,
        W1: Tensor,
        W2: Tensor,
        lengthscales: tuple[float, ...],
        amplitude: Tensor,
        symmetric: bool,
    ) -> Tensor:
        assert _library is not None
        arrays = _contiguous(X1=X1, X2=X2, W1=W1, W2=W2) | _plan(lengthscales)
        sizes = {"n1": len(X1), "n2": len(X2), "dim": X1.shape[1], "bases": len(lengthscales)}
        problem = _Problem(**sizes, **_pointers(arrays), amplitude=amplitude.item())
        K = X1.new_empty(len(X1), len(X2))
        _library.attentive_forward(ctypes.byref(problem), symmetric, K.data_ptr())
        # The problem points into the arrays, which must live as long.
        ctx.problem, ctx.arrays = problem, arrays
        ctx.symmetric, ctx.amplitude = symmetric, amplitude
        return K

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        assert _library is not None
        G = G.contiguous()

        def zeros(name: str, needed: bool = True) -> Tensor | None:
            return torch.zeros_like(ctx.arrays[name]) if needed else None

        inputs = any(ctx.needs_input_grad[:2])
        dW1, dX1 = zeros("W1"), zeros("X1", inputs)
        # If both sides are one tensor, their gradients are added.
        dW2, dX2 = (dW1, dX1) if ctx.symmetric else (zeros("W2"), zeros("X2", inputs))
        damplitude = _library.attentive_backward(
            ctypes.byref(ctx.problem),
            ctx.symmetric,
            G.data_ptr(),
            *(None if part is None else part.data_ptr() for part in (dW1, dW2, dX1, dX2)),
        )
        if ctx.symmetric:
            dW2 = dX2 = None
        return dX1, dX2, dW1, dW2, None, ctx.amplitude.new_tensor(damplitude), None
