"""What a search and a conditional are asked of, in torch and in C alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from torch import Tensor

from ...errors import CholeskyError
from ..linalg.factors import EXTRA_JITTER

#: Mean number of sites in a cell when the grid is refined.
CROWDED = 7
#: The edges of cells are rounded: what lies so near to one may be on its other side.
SLACK = 1e-12
#: Of the sites' random numbers.
UNIT = 2.0**-32


@dataclass(frozen=True)
class Sites:
    """Where there are data: x [S, 2], targets y [S], and their noise in units of the learned one
    [S] (1: as learned). own [S]: variance of noise beside that; None where no site has any."""

    x: Tensor
    y: Tensor
    noise: Tensor
    own: Tensor | None = None


@dataclass(frozen=True)
class Kernel:
    """The kernel for many conditionals: fields at the nodes F [G * G, 4], exponent and noise
    variance (scalars), bounds of the lengthscale, precision of the local mean.

    ``tail``: how slowly covariances fall far off, 0 for as an exponential (see ``kernel.py``).
    With ``bases`` [M] it is the Attentive Kernel over rough bases of these lengthscales, without a
    tail, and the fields are log s and M logits [G * G, 1 + M].
    """

    F: Tensor
    exponent: Tensor
    noise: Tensor
    lengths: tuple[float, float]
    mean_precision: float
    bases: Tensor | None = None
    tail: float = 0.0


def check_factors(failed: int, size: int) -> None:
    """Raise a ``CholeskyError`` where conditionals of this size stayed indefinite."""
    if failed:
        raise CholeskyError(
            f"{failed} conditionals of {size} neighbours are not positive definite, even with "
            f"{EXTRA_JITTER[-1]:.0e} of their mean diagonal added: is everything in them finite?"
        )


class Share(NamedTuple):
    """A random part of the sites, by the fixed random number in [0, 1) of each.

    ``part`` of the 4^level equal parts of [0, 1), and of this the ``size`` above ``start``, going
    round; both in units of the part. The index finds a small share at the cost of a large one.
    """

    start: float
    size: float
    level: int = 0
    part: int = 0


EVERYTHING = Share(0.0, 1.0)


def numbers(first: int, count: int) -> np.ndarray:
    """The fixed random number in [0, 1) of each site from ``first`` on, times 2^32 (uint32): the
    upper half of splitmix64 of its own."""
    z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


def cells_for(sites: int) -> int:
    """Cells a side for so many sites: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, ...

    Steps of less than two, so that a cell is never nearly empty; and still halves of each other.
    """
    cells = 1
    while cells * cells * CROWDED < sites:
        if cells < 16:
            cells *= 2
        else:
            cells = cells * 4 // 3 if cells % 3 == 0 else cells * 3 // 2
    return cells


def rounded(x: Tensor) -> Tensor:
    """Places as a search goes by them, to a tenth of a millimetre in a kilometre."""
    return x.float().double()


def along_rows(x: Tensor) -> Tensor:
    """An order [N] of points x [N, 2] in which the next is near: along thin rows of [-1, 1]^2.

    What a point's neighbours lie in is still in the cache then.
    """
    rows, columns = ((x[:, axis].clamp(-1.0, 1.0) + 1.0) * 32.0 for axis in (1, 0))
    return (rows.floor() * 66.0 + columns).argsort(stable=True)


class Places:
    """The places of the sites and their fixed numbers, in arrays that double when they are full.

    A search goes by places in float32 (see ``rounded``): half the memory that it runs through. What
    is made of what it finds goes by the places proper.
    """

    def __init__(self) -> None:
        self._count = 0
        self._x, self._numbers = np.empty((0, 2), np.float32), np.empty(0, np.uint32)

    def __len__(self) -> int:
        return self._count

    def _append(self, x: Tensor) -> int:
        """Take the sites x [n, 2]; returns the number of the first."""
        first, self._count = self._count, self._count + len(x)
        if self._count > len(self._x):
            room = max(self._count, 2 * len(self._x)) - first
            self._x, self._numbers = (
                np.concatenate([kept[:first], np.empty((room, *kept.shape[1:]), kept.dtype)])
                for kept in (self._x, self._numbers)
            )
        self._x[first : self._count] = x.numpy()
        self._numbers[first : self._count] = numbers(first, len(x))
        return first
