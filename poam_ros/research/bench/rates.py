"""How fast this machine multiplies and exponentiates, and how much of that a model needs."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from time import process_time

import torch

from ...models import linalg as lapack

SIZE = 500  # of the matrices that are multiplied
CACHED = 4096  # numbers that are exponentiated at a time: they stay in the first-level cache
ROUNDS = 9
EXPONENTIALS = 5  # per pair of points for ten lengthscales l, 2 l ... 10 l; the rest are powers


@dataclass(frozen=True)
class Rates:
    """Operations per second of CPU time on one thread: of a DGEMM, and exponentials."""

    flops: float
    exponentials: float


@dataclass(frozen=True)
class Work:
    """Floating-point operations and exponentials that cannot be left out."""

    flops: float
    exponentials: float

    def seconds(self, rates: Rates) -> float:
        """The time it takes at these rates."""
        return self.flops / rates.flops + self.exponentials / rates.exponentials

    def __add__(self, other: Work) -> Work:
        return Work(self.flops + other.flops, self.exponentials + other.exponentials)


def measure_rates() -> Rates:
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
    return Rates(2 * SIZE**3 / times[0], CACHED * SIZE / times[1])


def kernel_work(pairs: float, bases: int, backward: bool = False) -> Work:
    """The Attentive Kernel between so many pairs of points; with its gradient too.

    Weighting takes four operations for each base kernel, its gradient eight.
    """
    return Work((12 if backward else 4) * bases * pairs, EXPONENTIALS * bases / 10 * pairs)


def update_work(M: int, batch: int, minibatch: int, steps: int, bases: int) -> dict[str, Work]:
    """What the three parts of an update take (M inducing points, ``batch`` new data).

    inducing: the candidates' kernel, a pivoted Cholesky. variational: chol(Kuu) (1/3 M^3),
    P (2), P^T (Kuf Kfu) P (3), whitening (1), chol(B) (1/3), the root of S (1/3). A step:
    chol(Kuu) and C = Kuu^-1 (1), C S C (2), then three products of [M, M] with [M, minibatch]
    matrices; the base kernels of Z are exponentiated once for all steps.
    """
    candidates = M + batch
    inducing = kernel_work(candidates**2 / 2, bases) + Work(M**3 / 3, 0)
    variational = Work(7 * M**3 + 2 * M**2 * batch, 0)
    once = Work(0, kernel_work(M**2 / 2, bases).exponentials)
    pairs = M**2 / 2
    step = (
        Work(3 * M**3 + 6 * M**2 * minibatch, 0)
        + Work(kernel_work(pairs, bases, backward=True).flops, 0)
        + kernel_work(M * minibatch, bases, backward=True)
    )
    training = once + Work(steps * step.flops, steps * step.exponentials)
    return {
        "inducing": inducing,
        "variational": variational,
        "training": training,
        "update": inducing + variational + training,
    }


def prediction_work(M: int, queries: int, bases: int) -> Work:
    """Predictions at scattered points: a kernel block and a triangular product with it."""
    return kernel_work(M * queries, bases) + Work(4 * M**3 + M**2 * queries, 0)


def map_work(M: int, columns: int, rows: int, bases: int) -> Work:
    """Predictions on a grid, where the exponentials separate by axis."""
    cells = columns * rows
    return Work(
        kernel_work(M * cells, bases).flops + M**2 * cells + 4 * M**3,
        kernel_work(M * (columns + rows), bases).exponentials,
    )
