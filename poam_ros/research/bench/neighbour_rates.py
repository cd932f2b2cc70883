"""How much of a machine's rates the nearest-neighbour model needs.

Counted is what its equations ask for, not the search for neighbours, which computes next to
nothing: distances of some hundred sites a query.
"""

from __future__ import annotations

from ...models.nngp.options import NeighbourOptions
from .rates import Work

#: Of the covariance of two points: D and its determinant, Q, and what is made of them.
PAIR = 25
#: Of its gradient by the fields of both and by the exponent.
PAIR_BACKWARD = 50
#: A power takes a logarithm and an exponential, what is made of it another; roots are not counted.
PAIR_EXPONENTIALS = 3
#: Of the fields at one point: four interpolations, the matrix S.
POINT, POINT_EXPONENTIALS = 4 * 9 + 15, 3
FIELDS = 4


def conditional_work(options: NeighbourOptions, backward: bool = False) -> Work:
    """One query: the covariances of its neighbours and itself, a Cholesky factor (k^3 / 3), three
    right sides (2 k^2 each)."""
    k = options.neighbours
    pairs, points = k * (k + 1) / 2, k + 1
    flops = pairs * PAIR + points * POINT + k**3 / 3 + 6 * k**2
    if backward:
        flops += pairs * PAIR_BACKWARD + points * POINT
    return Work(flops, pairs * PAIR_EXPONENTIALS + points * POINT_EXPONENTIALS)


def network_work(options: NeighbourOptions, backward: bool = False) -> Work:
    """The network at the nodes of the lattice: products twice as dear again backwards."""
    nodes, H = (options.lattice + 1) ** 2, options.hidden
    flops = 2.0 * nodes * (2 * H + H * H + FIELDS * H)
    return Work(3 * flops if backward else flops, 2.0 * nodes * H)


def update_work(options: NeighbourOptions, samples: int) -> Work:
    """The steps of an update when there are so many samples."""
    early = samples < options.early_samples
    steps = options.early_steps if early else options.update_steps
    query, network = conditional_work(options, True), network_work(options, True)
    left_out = max(1, min(options.left_out, samples // 3))
    return Work(
        steps * (left_out * query.flops + network.flops),
        steps * (left_out * query.exponentials + network.exponentials),
    )


def prediction_work(options: NeighbourOptions, queries: int) -> Work:
    """So many points; the network's share is shared by all predictions after an update."""
    query = conditional_work(options)
    return Work(queries * query.flops, queries * query.exponentials) + network_work(options)
