"""Noise of each ping's own, beside the learned one, in the sparse models.

With D = diag(s2 + r) / s2 the likelihood is N(y; f, s2 D), and of every term that a sum over pings
makes nothing changes but that each ping is shrunk by the root of its weight w = s2 / (s2 + r):

    Kuf D^-1 y = (Kuf D^-1/2) (D^-1/2 y),    Kuf D^-1 Kfu = (Kuf D^-1/2) (Kuf D^-1/2)^T,
    E_q[-log N(y; f, s2 + r)] = that of (sqrt(w) y, sqrt(w) Kuf, w kff) under s2, minus log(w) / 2.

A ping without noise of its own has w = 1, one with far more than is learned has no weight.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from ..data import Dataset

#: Cached terms are summed again when the learned noise variance, by which their pings were
#: weighed, has changed by this factor, while there are at most so many pings.
STALE, SUMMED_AGAIN = 1.5, 20_000


class Shrunk(NamedTuple):
    """Targets [N], covariances [M, N] and variances [N] of pings, each shrunk by its weight, and
    what this adds to the mean loss."""

    y: Tensor
    Kuf: Tensor
    kff: Tensor
    loss: Tensor


def shrunk(batch: Dataset, Kuf: Tensor, kff: Tensor, noise: Tensor) -> Shrunk:
    """The batch as one of the learned noise (a scalar). Differentiable in all but its targets."""
    assert batch.noise is not None
    w = noise / (noise + batch.noise)
    root = w.sqrt()
    return Shrunk(batch.y * root, Kuf * root, kff * w, -0.5 * w.log().mean())


def weighed(batch: Dataset, Kuf: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Kuf D^-1/2 [M, N] and D^-1/2 y [N]; Kuf and y themselves where no ping has noise."""
    if batch.noise is None:
        return Kuf, batch.y
    root = (noise / (noise + batch.noise)).sqrt()
    return Kuf * root, batch.y * root


def stale(noise: Tensor, weighed_at: Tensor | None, data: Dataset) -> bool:
    """Whether terms weighed at a noise variance are to be summed again, from all data."""
    if weighed_at is None or len(data) > SUMMED_AGAIN:
        return False
    return bool((noise / weighed_at).log().abs().exp() > STALE)
