"""Joint draws of the map: conditional simulation, place after place.

Places are ordered so that each is far from those before it, and drawn in turn from their neighbours
among the data and among the places before (Vecchia 1988; the order: Guinness 2018,
doi:10.1080/00401706.2018.1437476). Weights do not depend on the values drawn, so all draws share
them.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.spatial import cKDTree
from torch import Tensor

from ..interface import Drawn
from .conditional import weights
from .kernel import Kernel, TrainingData
from .sites import SiteStore
from .visible import hidden_by

#: Number of neighbours among the places drawn before.
BEFORE = 16


def simulate(
    kernel: Kernel, store: SiteStore, x: Tensor, near: Tensor, noise: Tensor,
    given: Drawn | None = None,
) -> Tensor:  # fmt: skip
    """Joint draws less their mean, without noise [count, N].

    Args:
        kernel: that predictions use.
        store: the data.
        x: places [N, 2].
        near: neighbours of each place among the data [N, k], -1 for none.
        noise: standard normal draws [N, count].
        given: places drawn before all these, with their draws less their mean.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    order = torch.from_numpy(farthest_first(x.numpy()))
    x, near = x[order], near[order]
    x_given, known = given or (x[:0], noise[:0].mT)
    places, begin = torch.cat([x_given, x]), len(x_given)
    before = torch.from_numpy(_nearest_before(places.numpy(), min(BEFORE, len(places)), begin))
    data = store.sites
    first, nothing = len(data.x), places.new_zeros(len(places))
    own = None if data.own is None else torch.cat([data.own, nothing])
    together = TrainingData(
        torch.cat([data.x, places]), torch.cat([data.y, nothing]),
        torch.cat([data.noise, nothing]), own,
    )  # fmt: skip
    # First: a place across land that the weights knew, but no draw, would take variance away.
    before[hidden_by(store.land, x, places, before)] = -1
    both = torch.cat([near, torch.where(before < 0, before, before + first)], dim=1)
    b, variance = weights(kernel, together, x, both)
    rows, deviation = b[:, near.shape[1] :].numpy(), variance.sqrt().numpy()
    drawn = np.concatenate([known.mT.numpy(), np.empty(tuple(noise.shape))])
    place, fresh = before.numpy(), noise.numpy()
    for i in range(len(x)):
        there = place[i] >= 0
        drawn[begin + i] = rows[i, there] @ drawn[place[i, there]] + deviation[i] * fresh[i]
    found = torch.empty(noise.shape[1], len(x), dtype=torch.float64)
    found[:, order] = torch.from_numpy(drawn[begin:].T)
    return found


def farthest_first(x: np.ndarray) -> np.ndarray:
    """An order [N] of places [N, 2]: it starts nearest to their middle; each next place is the
    farthest from all before it."""
    squared = np.square(x - x.mean(0)).sum(1)
    order = np.empty(len(x), dtype=np.int64)
    order[0] = squared.argmin()
    least = np.full(len(x), np.inf)
    for number in range(1, len(x)):
        np.minimum(least, np.square(x - x[order[number - 1]]).sum(1), out=least)
        order[number] = least.argmax()
    return order


def _nearest_before(x: np.ndarray, k: int, begin: int = 0) -> np.ndarray:
    """For each place from ``begin``, the k nearest of those before it [N - begin, k], -1 for
    none."""
    found = np.full((len(x), k), -1, dtype=np.int64)
    first, begin = begin, max(begin, 1)
    while begin < len(x):  # those before ``begin`` serve all up to ``end``, and the few between
        end = min(len(x), max(begin + 1, 2 * begin))
        tree = cKDTree(x[:end])
        reach = min(end, 4 * k + 1)
        _, near = tree.query(x[begin:end], reach)
        near = near.reshape(end - begin, reach)
        for row, i in enumerate(range(begin, end)):
            earlier = near[row][near[row] < i][:k]
            found[i, : len(earlier)] = earlier
        begin = end
    return found[first:]
