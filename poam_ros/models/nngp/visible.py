"""Neighbours that are not hidden by land."""

from __future__ import annotations

import torch
from torch import Tensor

from ...core.geometry import Land
from ..native import neighbours as native
from .index import NumpyIndex
from .kernel import EVERYTHING, Subset

#: If land hides most neighbours, this many times as many are considered.
MORE = 4


def spread_visible(
    index: NumpyIndex | native.NativeIndex, sites: Tensor, land: Land | None, x: Tensor, k: int,
    pool: int, apart: float = 0.0, share: Subset = EVERYTHING, elsewhere: bool = False,
) -> Tensor:  # fmt: skip
    """As ``NumpyIndex.spread``, but only of sites [S, 2] that land does not hide from x.

    If more than half are hidden, they are replaced by others of ``MORE`` k sites; if all of these
    are hidden, by others of ``pool``; if all of those are hidden, there are no neighbours.
    """
    if land is None:
        return index.spread(x, k, pool, apart, share, elsewhere)
    found, rows = torch.full((len(x), k), -1), torch.arange(len(x))
    for wanted in (k, MORE * k, pool):
        near = index.spread(x[rows], min(wanted, pool), pool, apart, share, elsewhere)
        hidden = hidden_by(land, x[rows], sites, near)
        seen = (near >= 0) & ~hidden
        first = (~seen).byte().argsort(dim=1, stable=True)[:, :k]
        found[rows, : first.shape[1]] = torch.where(seen, near, -1).gather(1, first)
        fewer = (2 * seen.sum(1) < k) if wanted == k else ~seen.any(1)
        rows = rows[hidden.any(1) & fewer]
        if not len(rows):
            break
    return found


def hidden_by(land: Land | None, x: Tensor, sites: Tensor, near: Tensor) -> Tensor:
    """Which of the sites [S, 2] in ``near`` [N, K] (-1 for none) land hides from x [N, 2]; boolean
    [N, K]."""
    if land is not None and native.available():
        return native.hidden(land, x, sites, near)
    hidden = torch.zeros_like(near, dtype=torch.bool)
    if land is not None:
        i, j = (near >= 0).nonzero(as_tuple=True)
        between = land.between(x[i].numpy(), sites[near[i, j]].numpy())
        hidden[i, j] = torch.from_numpy(between)
    return hidden
