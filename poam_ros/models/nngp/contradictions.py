"""Soundings that contradict those around them have noise of their own.

A false position puts a sounding where it does not belong. Beside true ones, under a smooth kernel
and little noise, its weight extrapolates, and training shortens the lengthscale to explain it. So
each site is predicted from its neighbours without itself. Where it is farther off than chance and
its surroundings explain, it gets noise of its own, in training and in every prediction.

The usual error is a median over the sites around it. By the learned noise alone, less noise would
mean more contradictions, and more contradictions less noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .conditional import condition
from .options import POOL

if TYPE_CHECKING:
    from .kernel import Kernel
    from .sites import SiteStore

#: The median of |t| of a standard normal t.
MEDIAN = 0.6745
#: Rounds over the same sites: a site's own noise changes its neighbours' residuals.
ROUNDS = 8
#: Number of other sites that an update checks again, in turn, as the kernel changes.
AGAIN = 128
#: Maximum number of sites checked at a time.
MOST = 4096


def find_contradictions(
    kernel: Kernel, store: SiteStore, sites: Tensor, neighbours: int, max_residual: float
) -> None:
    """Check sites [n], by number, and set their own noise in the store.

    A site contradicts its neighbours if its residual is more than ``max_residual`` standard
    deviations, and more than that many times the usual one around it.
    """
    for part in sites.split(MOST):
        _find(kernel, store, part, neighbours, max_residual)


def affected(store: SiteStore, new: Tensor, neighbours: int) -> Tensor:
    """The sites that an update checks: new ones [n], their neighbours, those beside pings that were
    taken out, and the next in turn."""
    again = store.next_checked(AGAIN)  # their turn passes in any case
    if len(new) == len(store):
        return new
    about, store.lost = torch.cat([store.sites.x[new], store.lost]), store.lost[:0]
    near = store.spread(about, neighbours, POOL * neighbours)
    return torch.cat([new, near[near >= 0], again]).unique()


def _find(
    kernel: Kernel, store: SiteStore, checked: Tensor, neighbours: int, max_residual: float
) -> None:
    x = store.sites.x[checked].contiguous()
    alone = torch.zeros(len(x), dtype=torch.float64)  # without the site itself
    near = store.spread(x, neighbours, POOL * neighbours, beyond=alone)
    there, around = near >= 0, near.clamp_min(0)
    for _ in range(ROUNDS):
        sites = store.sites
        found = condition(kernel, sites, x, near)
        error = sites.y[checked] - found.mean
        variance = found.variance + kernel.noise * sites.noise[checked] + store.measured(checked)
        t = error.abs() / variance.sqrt()
        store.residual[checked] = t
        # Contradicting and unchecked sites do not count for others.
        counts = there & (store.excess[around] == 0) & store.residual[around].isfinite()
        others = torch.where(counts, store.residual[around], torch.nan)
        usual = others.nanmedian(1).values.nan_to_num(0.0) / MEDIAN
        limit = max_residual * usual.clamp_min(1.0)
        before = store.excess[checked]
        # Of sites that contradict each other, the farthest off goes first: the others may be right.
        first = (before > 0) | (t >= others.nan_to_num(0.0).amax(1))
        # 0 at the limit; far beyond it the square of the residual.
        excess = error.square() * (1 - (limit / t).square())
        excess = torch.where(first & (t > limit), excess, 0.0)
        store.set_excess(checked, excess)
        if torch.equal(excess > 0, before > 0):
            return
