"""This machine's rates of multiplications and exponentials, and the numbers that a model needs.

For ``nngp`` only the equations count, not the search for neighbours, which computes a few hundred
distances per query.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import process_time

import torch

from ...models import linalg as lapack
from ...models.registry import NeighbourOptions

SIZE = 500  # of the matrices that are multiplied
CACHED = 4096  # numbers that are exponentiated at a time: they stay in the first-level cache
ROUNDS = 9
EXPONENTIALS = 5  # per pair of points for ten lengthscales l, 2 l ... 10 l; the rest are powers


@dataclass(frozen=True)
class MachineRates:
    """Operations per second of CPU time on one thread: of a DGEMM, and exponentials."""

    flops: float
    exponentials: float


@dataclass(frozen=True)
class OperationCount:
    """Floating-point operations and exponentials that cannot be avoided."""

    flops: float
    exponentials: float

    def seconds(self, rates: MachineRates) -> float:
        """The time it takes at these rates."""
        return self.flops / rates.flops + self.exponentials / rates.exponentials

    def __add__(self, other: OperationCount) -> OperationCount:
        return OperationCount(self.flops + other.flops, self.exponentials + other.exponentials)


def measure_rates() -> MachineRates:
    """This machine's rates: the median over a few rounds, after a warm-up."""
    A, B, C = (torch.rand(SIZE, SIZE, dtype=torch.float64) for _ in range(3))
    x, out = -torch.rand(CACHED, dtype=torch.float64), torch.empty(CACHED, dtype=torch.float64)

    def multiply() -> None:
        lapack.call("dgemm", b"N", b"N", SIZE, SIZE, SIZE, 1.0, A, SIZE, B, SIZE, 0.0, C, SIZE)

    def exponentiate() -> None:
        for _ in range(SIZE):
            torch.exp(x, out=out)

    times = []
    for call in (multiply, exponentiate):
        call()
        rounds = []
        for _ in range(ROUNDS):
            start = process_time()
            call()
            rounds.append(process_time() - start)
        times.append(median(rounds))
    return MachineRates(2 * SIZE**3 / times[0], CACHED * SIZE / times[1])


def kernel_work(pairs: float, bases: int, backward: bool = False) -> OperationCount:
    """The Attentive Kernel between pairs of points, optionally with its gradient.

    Weighting takes four operations for each base kernel, its gradient eight.
    """
    return OperationCount(
        (12 if backward else 4) * bases * pairs, EXPONENTIALS * bases / 10 * pairs
    )


def update_work(
    M: int, batch: int, minibatch: int, steps: int, bases: int
) -> dict[str, OperationCount]:
    """Operations of the three parts of an update (M inducing inputs, ``batch`` new data).

    inducing: the candidates' kernel, a pivoted Cholesky. variational: chol(Kuu) (1/3 M^3),
    P (2), P^T (Kuf Kfu) P (3), whitening (1), chol(B) (1/3), the root of S (1/3). A step:
    chol(Kuu) and C = Kuu^-1 (1), C S C (2), then three products of [M, M] with [M, minibatch]
    matrices; the base kernels of Z are exponentiated once for all steps.
    """
    candidates = M + batch
    inducing = kernel_work(candidates**2 / 2, bases) + OperationCount(M**3 / 3, 0)
    variational = OperationCount(7 * M**3 + 2 * M**2 * batch, 0)
    once = OperationCount(0, kernel_work(M**2 / 2, bases).exponentials)
    pairs = M**2 / 2
    step = (
        OperationCount(3 * M**3 + 6 * M**2 * minibatch, 0)
        + OperationCount(kernel_work(pairs, bases, backward=True).flops, 0)
        + kernel_work(M * minibatch, bases, backward=True)
    )
    training = once + OperationCount(steps * step.flops, steps * step.exponentials)
    return {
        "inducing": inducing,
        "variational": variational,
        "training": training,
        "update": inducing + variational + training,
    }


def prediction_work(M: int, queries: int, bases: int) -> OperationCount:
    """Predictions at scattered points: a kernel block and a triangular product with it."""
    return kernel_work(M * queries, bases) + OperationCount(4 * M**3 + M**2 * queries, 0)


def map_work(M: int, columns: int, rows: int, bases: int) -> OperationCount:
    """Predictions on a grid, where the exponentials separate by axis."""
    cells = columns * rows
    return OperationCount(
        kernel_work(M * cells, bases).flops + M**2 * cells + 4 * M**3,
        kernel_work(M * (columns + rows), bases).exponentials,
    )


#: Operations for the covariance of two points: D and its determinant, Q, and the kernel of Q.
PAIR = 25
#: Operations for its gradient by the fields of both points and by the exponent.
PAIR_BACKWARD = 50
#: A power takes a logarithm and an exponential, the kernel another one; roots are not counted.
PAIR_EXPONENTIALS = 3
#: Operations for the fields at one point: four interpolations, the matrix S.
POINT, POINT_EXPONENTIALS = 4 * 9 + 15, 3
FIELDS = 4


def conditional_work(options: NeighbourOptions, backward: bool = False) -> OperationCount:
    """One query: the covariances of its neighbours and itself, a Cholesky factor (k^3 / 3), three
    right sides (2 k^2 each)."""
    k = options.neighbours
    pairs, points = k * (k + 1) / 2, k + 1
    flops = pairs * PAIR + points * POINT + k**3 / 3 + 6 * k**2
    if backward:
        flops += pairs * PAIR_BACKWARD + points * POINT
    return OperationCount(flops, pairs * PAIR_EXPONENTIALS + points * POINT_EXPONENTIALS)


def network_work(options: NeighbourOptions, backward: bool = False) -> OperationCount:
    """The network at the lattice nodes; the backward pass takes twice the products."""
    nodes, H = (options.lattice + 1) ** 2, options.hidden
    flops = 2.0 * nodes * (2 * H + H * H + FIELDS * H)
    return OperationCount(3 * flops if backward else flops, 2.0 * nodes * H)


def neighbour_update(options: NeighbourOptions, samples: int) -> OperationCount:
    """The training steps of an update with ``samples`` in the model."""
    early = samples < options.early_samples
    steps = options.early_steps if early else options.update_steps
    query, network = conditional_work(options, True), network_work(options, True)
    left_out = max(1, min(options.left_out, samples // 3))
    return OperationCount(
        steps * (left_out * query.flops + network.flops),
        steps * (left_out * query.exponentials + network.exponentials),
    )


def neighbour_prediction(options: NeighbourOptions, queries: int) -> OperationCount:
    """Predictions at ``queries`` points; the network is evaluated once after an update."""
    query = conditional_work(options)
    return OperationCount(queries * query.flops, queries * query.exponentials) + network_work(
        options
    )
