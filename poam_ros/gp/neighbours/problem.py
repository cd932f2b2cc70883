"""What a conditional is asked of, in torch and in C alike."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ...errors import CholeskyError
from ..linalg.factors import EXTRA_JITTER


@dataclass(frozen=True)
class Sites:
    """Where there are data: x [S, 2], targets y [S], and their noise in units of the learned one
    [S] (1: as learned)."""

    x: Tensor
    y: Tensor
    noise: Tensor


@dataclass(frozen=True)
class Kernel:
    """The kernel for many conditionals: fields at the nodes F [G * G, 4], exponent and noise
    variance (scalars), bounds of the lengthscale, precision of the local mean."""

    F: Tensor
    exponent: Tensor
    noise: Tensor
    lengths: tuple[float, float]
    mean_precision: float


def check_factors(failed: int, size: int) -> None:
    """Raise a ``CholeskyError`` where conditionals of this size stayed indefinite."""
    if failed:
        raise CholeskyError(
            f"{failed} conditionals of {size} neighbours are not positive definite, even with "
            f"{EXTRA_JITTER[-1]:.0e} of their mean diagonal added: is everything in them finite?"
        )
