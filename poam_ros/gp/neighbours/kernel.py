r"""The kernel of Paciorek and Schervish (2006), rough and anisotropic, in torch.

k(x, x') = s s' |S|^{1/4} |S'|^{1/4} |(S + S')/2|^{-1/2} f(Q^{g/2}), f(P) = exp(-P) or, with a tail,
f(P) = (1 + tail P)^{-1/tail}: a mixture of such exponentials (the generalised Cauchy family of
Gneiting and Schlather 2004), smooth and of long range apart from each other;
Q = (x - x')^T ((S + S')/2)^{-1} (x - x'), S = l^2 expm[[u, w], [w, -u]]; s, l, u, w are fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import attentive
from .fields import interpolate
from .problem import Kernel

#: Under the root of |u, w|^2, and beside Q: both have a gradient at zero.
ISOTROPIC, NEAR = 1e-8, 1e-10


class Local(NamedTuple):
    """The kernel at points [...]: log s, l and S = [[A, C], [C, B]]."""

    log_s: Tensor
    length: Tensor
    A: Tensor
    B: Tensor
    C: Tensor


def local(f: Tensor, lengths: tuple[float, float]) -> Local:
    """From fields f [..., 4]; log l is held between the logarithms of ``lengths``."""
    log_s, log_l, u, w = f.unbind(-1)
    low, high = torch.tensor(lengths, dtype=torch.float64).log().tolist()
    length = log_l.clamp(low, high).exp()
    squared = length.square()
    r = (u * u + w * w + ISOTROPIC).sqrt()
    ch, sh = r.cosh(), r.sinh() / r
    return Local(log_s, length, squared * (ch + sh * u), squared * (ch - sh * u), squared * sh * w)


def covariance(
    x1: Tensor, p1: Local, x2: Tensor, p2: Local, exponent: Tensor, tail: float = 0.0,
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


def at(kernel: Kernel, x: Tensor) -> Any:
    """What either kernel is at points x [..., 2]."""
    f = interpolate(kernel.F, x)
    return local(f, kernel.lengths) if kernel.bases is None else attentive.local(f)


def between(kernel: Kernel, x1: Tensor, p1: Any, x2: Tensor, p2: Any, same: bool = False) -> Tensor:
    """Covariances of either kernel, as ``covariance`` has them."""
    if kernel.bases is None:
        return covariance(x1, p1, x2, p2, kernel.exponent, kernel.tail, same)
    return attentive.covariance(x1, p1, x2, p2, kernel.exponent, kernel.bases, same)


def described(kernel: Kernel, x: Tensor) -> Mapping[str, Tensor]:
    """The kernel in words of people at x [N, 2], each [N]: ``lengthscale``, ``amplitude`` (prior
    standard deviation), and of the anisotropic one ``anisotropy`` (ratio of the axes)."""
    f = interpolate(kernel.F, x)
    amplitude = f[:, 0].exp()
    if kernel.bases is not None:
        return {"lengthscale": attentive.lengthscale(f, kernel.bases), "amplitude": amplitude}
    # The eigenvalues of S are l^2 exp(+-r): its axes are l exp(+-r / 2).
    return {
        "lengthscale": local(f, kernel.lengths).length,
        "amplitude": amplitude,
        "anisotropy": f[:, 2:].norm(dim=-1).exp(),
    }
