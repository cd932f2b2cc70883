"""Predictions without seams: the neighbours of nodes on a lattice, blended between the nodes.

Predictions with neighbours of their own jump where one neighbour is replaced by another; in a
hillshade such jumps are rays and steps. Here every place is predicted from the neighbours of each
of the four nodes around it, and the four predictions are blended with weights that are smooth in
the place. A set of neighbours enters with weight 0, so that nothing jumps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...core.geometry import Land
from .conditional import Conditionals
from .sites import SiteStore

#: Blocks along a side of [-1, 1]^2; those with sites make up the surveyed area.
BLOCKS = 16
#: Width of the blending between two nodes, in mean spacings of the sites.
TRANSITION = 1.5


def site_spacing(store: SiteStore) -> float:
    """Mean spacing of the sites over the surveyed area, in scaled units."""
    column, row = ((store.sites.x + 1.0) * (BLOCKS / 2)).long().clamp(0, BLOCKS - 1).unbind(1)
    occupied = int((torch.bincount(row * BLOCKS + column, minlength=BLOCKS**2) > 0).sum())
    return float(2.0 / BLOCKS * (occupied / max(1, len(store))) ** 0.5)


def blended(
    predict: Callable[[Tensor, Tensor, Tensor], Conditionals], land: Land | None, x: Tensor,
    step: float, band: float, spread: Callable[[Tensor], Tensor],
) -> Conditionals:  # fmt: skip
    """Blended predictions at places.

    The variance is the weighted mean of the four, which is at least that of the blended mean.

    Args:
        predict: conditionals of places [N, 2] from rows of neighbours [S, k] and the row of each
            place [N].
        land: nodes across it are not used; None: no land.
        x: places [N, 2], scaled.
        step: between the nodes, in scaled units.
        band: share of the step, halfway between nodes, over which they are blended. Nearer to a
            node, only its own neighbours count, so that fewer predictions are needed.
        spread: the neighbours of places [K, 2]: [K, k], -1 for none.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    corner = (x / step).floor()
    share = ((x / step - corner - 0.5) / band + 0.5).clamp(0, 1)
    share = share * share * (3 - 2 * share)
    offsets = torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=torch.float64)
    nodes, own = _distinct((corner[None] + offsets[:, None]).reshape(-1, 2))
    near = spread(nodes * step)
    weight = torch.where(offsets[:, None] > 0, share, 1 - share).prod(2).reshape(-1)
    used = weight.nonzero().squeeze(1)
    weight, own, rows = weight[used], own[used], used % len(x)
    points = x[rows]
    if land is not None:  # a node across land or on it belongs to another water
        hides = land.hides(points.numpy(), (nodes[own] * step).numpy())
        hidden = torch.from_numpy(hides).nonzero().squeeze(1)
        own[hidden] = len(near) + torch.arange(len(hidden))
        near = torch.cat([near, spread(points[hidden])])
    found = predict(points, near, own)
    mean, variance = torch.zeros(2, len(x), dtype=torch.float64)
    mean.index_add_(0, rows, weight * found.mean)
    variance.index_add_(0, rows, weight * found.variance)
    return Conditionals(mean, variance)


def _distinct(nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct nodes of [M, 2] nodes of a lattice, sorted [K, 2], and the index of each [M].

    By one number for each: ``torch.unique`` takes many times as long for rows."""
    if not len(nodes):
        return nodes, torch.empty(0, dtype=torch.long)
    low = nodes.amin(0)
    place = (nodes - low).long()
    width = place[:, 1].max() + 1
    found, own = torch.unique(place[:, 0] * width + place[:, 1], return_inverse=True)
    distinct = torch.stack([found.div(width, rounding_mode="floor"), found % width], 1)
    return distinct + low, own
