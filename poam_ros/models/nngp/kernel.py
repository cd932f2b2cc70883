"""The kernel of Paciorek and Schervish (2006), rough and anisotropic, in torch.

k(x, x') = s s' |S|^{1/4} |S'|^{1/4} |(S + S')/2|^{-1/2} f(Q^{g/2}), f(P) = exp(-P) or, with a tail,
f(P) = (1 + tail P)^{-1/tail}: a mixture of such exponentials (the generalised Cauchy family of
Gneiting and Schlather 2004), smooth and of long range apart from each other;
Q = (x - x')^T ((S + S')/2)^{-1} (x - x'), S = l^2 expm[[u, w], [w, -u]]; s, l, u, w are fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.errors import CholeskyError
from ...core.samples import grown
from ..linalg import EXTRA_JITTER
from .fields import interpolate

#: Mean number of sites in a cell when the grid is refined.
CROWDED = 7
#: Edges of cells are rounded: a site this near to one may be on its other side.
SLACK = 1e-12
#: Unit of the sites' random numbers.
UNIT = 2.0**-32


@dataclass(frozen=True)
class TrainingData:
    """Data for predictions: places x [S, 2], targets y [S], and their noise in units of the learned
    one [S]. own [S]: further variance of noise; None if no site has any."""

    x: Tensor
    y: Tensor
    noise: Tensor
    own: Tensor | None = None


@dataclass(frozen=True)
class Kernel:
    """The kernel for many conditionals: fields at the nodes F [G * G, 4], exponent and noise
    variance (scalars), bounds of the lengthscale, precision of the local mean.

    ``tail``: how slowly covariances fall at large distances; 0: exponentially (see ``kernel.py``).
    """

    F: Tensor
    exponent: Tensor
    noise: Tensor
    lengths: tuple[float, float]
    mean_precision: float
    tail: float = 0.0


def check_factors(failed: int, size: int) -> None:
    """Raise a ``CholeskyError`` if conditionals of this size are indefinite even with jitter."""
    if failed:
        raise CholeskyError(
            f"{failed} conditionals of {size} neighbours are not positive definite, even with "
            f"{EXTRA_JITTER[-1]:.0e} of their mean diagonal added: is everything in them finite?"
        )


class Subset(NamedTuple):
    """A random part of the sites, by the fixed random number in [0, 1) of each.

    One ``part`` of 4^level equal parts of [0, 1), and in it ``size`` numbers from ``start`` on,
    cyclically; both in units of the part. A search in a small share costs as much as in a large
    one.
    """

    start: float
    size: float
    level: int = 0
    part: int = 0


EVERYTHING = Subset(0.0, 1.0)


def numbers(first: int, count: int) -> np.ndarray:
    """The fixed random numbers in [0, 1) of the sites from ``first`` on, times 2^32 (uint32): the
    upper half of splitmix64 of the site's number."""
    z = np.arange(first + 1, first + count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.uint32)


def cells_for(sites: int) -> int:
    """Cells along a side for this many sites: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, ...

    Factors below two, so that cells are never nearly empty; each size is half of a later one.
    """
    cells = 1
    while cells * cells * CROWDED < sites:
        if cells < 16:
            cells *= 2
        else:
            cells = cells * 4 // 3 if cells % 3 == 0 else cells * 3 // 2
    return cells


def rounded(x: Tensor) -> Tensor:
    """Places in the precision of searches: a tenth of a millimetre in a kilometre."""
    return x.float().double()


def along_rows(x: Tensor) -> Tensor:
    """An order [N] of points x [N, 2] in which successive points are near: along thin rows of [-1,
    1]^2.

    The memory of a point's neighbours is then still in the cache.
    """
    rows, columns = ((x[:, axis].clamp(-1.0, 1.0) + 1.0) * 32.0 for axis in (1, 0))
    return (rows.floor() * 66.0 + columns).argsort(stable=True)


class DataIndex:
    """The places and fixed numbers of the sites, in arrays that double when they are full.

    Searches use places in float32 (see ``rounded``), which halves the memory they read.
    Computations with the found sites use the exact places.
    """

    def __init__(self) -> None:
        self._count = 0
        self._x, self._numbers = np.empty((0, 2), np.float32), np.empty(0, np.uint32)

    def __len__(self) -> int:
        return self._count

    def _append(self, x: Tensor) -> int:
        """Add the sites x [n, 2]; returns the number of the first."""
        first, self._count = self._count, self._count + len(x)
        self._x, self._numbers = (
            grown(kept, first, self._count) for kept in (self._x, self._numbers)
        )
        self._x[first : self._count] = x.numpy()
        self._numbers[first : self._count] = numbers(first, len(x))
        return first


#: Added to |u, w|^2 under the root, and to Q, so that both have a gradient at zero.
ISOTROPIC, NEAR = 1e-8, 1e-10


class LocalKernel(NamedTuple):
    """The kernel at points [...]: log s, l and S = [[A, C], [C, B]]."""

    log_s: Tensor
    length: Tensor
    A: Tensor
    B: Tensor
    C: Tensor


def local(f: Tensor, lengths: tuple[float, float]) -> LocalKernel:
    """The kernel from fields f [..., 4]; log l is limited to the logarithms of ``lengths``."""
    log_s, log_l, u, w = f.unbind(-1)
    low, high = torch.tensor(lengths, dtype=torch.float64).log().tolist()
    length = log_l.clamp(low, high).exp()
    squared = length.square()
    r = (u * u + w * w + ISOTROPIC).sqrt()
    ch, sh = r.cosh(), r.sinh() / r
    return LocalKernel(
        log_s, length, squared * (ch + sh * u), squared * (ch - sh * u), squared * sh * w
    )


def covariance(
    x1: Tensor, p1: LocalKernel, x2: Tensor, p2: LocalKernel, exponent: Tensor, tail: float = 0.0,
    same: bool = False,
) -> Tensor:  # fmt: skip
    """Covariances [..., N1, N2] of x1 [..., N1, 2] and x2 [..., N2, 2].

    ``same``: the two are the same points, and the diagonal is s^2 to the last bit.
    """

    def both(name: str) -> tuple[Tensor, Tensor]:
        return getattr(p1, name).unsqueeze(-1), getattr(p2, name).unsqueeze(-2)

    A, B, C = (0.5 * (one + two) for one, two in map(both, "ABC"))
    determinant = A * B - C * C
    dx, dy = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).unbind(-1)
    Q = (dx * dx * B - 2 * dx * dy * C + dy * dy * A) / determinant
    log_s1, log_s2 = both("log_s")
    l1, l2 = both("length")
    K = (log_s1 + log_s2).exp() * l1 * l2 / determinant.sqrt()
    power = (Q + NEAR) ** (exponent / 2)
    K = K * ((-power).exp() if not tail else (1 + tail * power) ** (-1 / tail))
    if not same:
        return K
    own = torch.eye(K.shape[-1], dtype=torch.bool, device=K.device)
    return torch.where(own, (2 * p1.log_s).exp().unsqueeze(-1), K)


def at(kernel: Kernel, x: Tensor) -> LocalKernel:
    """The kernel at points x [..., 2]."""
    return local(interpolate(kernel.F, x), kernel.lengths)


def between(
    kernel: Kernel, x1: Tensor, p1: LocalKernel, x2: Tensor, p2: LocalKernel, same: bool = False
) -> Tensor:
    """Covariances; see ``covariance``."""
    return covariance(x1, p1, x2, p2, kernel.exponent, kernel.tail, same)


def described(kernel: Kernel, x: Tensor) -> Mapping[str, Tensor]:
    """Descriptive values of the kernel at x [N, 2], [N] each: ``lengthscale``, ``amplitude`` (prior
    standard deviation), ``anisotropy`` (ratio of the axes)."""
    f = interpolate(kernel.F, x)
    # The eigenvalues of S are l^2 exp(+-r): its axes are l exp(+-r / 2).
    return {
        "lengthscale": local(f, kernel.lengths).length,
        "amplitude": f[:, 0].exp(),
        "anisotropy": f[:, 2:].norm(dim=-1).exp(),
    }
