"""Functions that choose the inducing inputs Z."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..kernels import ElevationKernel
from ..linalg import pivoted_cholesky

#: Up to this many candidates their whole covariance is stored (32 MB); of more, single rows.
MAX_STORED = 2000
#: Share of the inducing inputs that resampling moves to new data, as in the published code.
RESAMPLED = 0.01


@dataclass(frozen=True)
class Candidates:
    """The points [Z'; X] among which inducing inputs are chosen, and their covariance.

    X [C, D] starts with the M' old inducing inputs. K [C, C] is the covariance without jitter under
    the present hyperparameters, with Kuu, Ku'u and Kuf as parts; None for more than ``MAX_STORED``
    candidates, as after a long pilot survey.
    """

    kernel: ElevationKernel
    X: Tensor
    old: int
    K: Tensor | None

    @classmethod
    def of(cls, kernel: ElevationKernel, Z_old: Tensor, X: Tensor) -> Candidates:
        """The old inducing inputs Z' [M', D] and the new data X [N, D]."""
        points = torch.cat([Z_old, X])
        K = kernel.forward(points, points) if len(points) <= MAX_STORED else None
        return cls(kernel, points, len(Z_old), K)

    def covariance(self, rows: Tensor, columns: Tensor | slice) -> Tensor:
        """The covariance of candidates ``rows`` [R] with candidates ``columns`` [S], [R, S]."""
        if self.K is not None:
            return self.K[rows][:, columns]
        return self.kernel.forward(self.X[rows], self.X[columns])


@dataclass(frozen=True)
class Inducing:
    """Inducing inputs among the candidates, and their covariances without jitter.

    index [M]: which candidates. moved [M, D]: where training has moved them since, or None.
    """

    candidates: Candidates
    index: Tensor
    moved: Tensor | None = None

    @property
    def Z(self) -> Tensor:
        """The inducing inputs [M, D]."""
        return self.candidates.X[self.index] if self.moved is None else self.moved

    def at(self, Z: Tensor) -> Inducing:
        """The same points after training: at Z [M, D], under other hyperparameters."""
        return Inducing(replace(self.candidates, K=None), self.index, Z)

    @property
    def Kuu(self) -> Tensor:
        """Their covariance [M, M]."""
        if self.moved is not None:
            return self.candidates.kernel.forward(self.moved, self.moved)
        return self.candidates.covariance(self.index, self.index)

    @property
    def Kuf(self) -> Tensor:
        """Their covariance with the new data [M, N]."""
        new = slice(self.candidates.old, None)
        if self.moved is not None:
            return self.candidates.kernel.forward(self.moved, self.candidates.X[new])
        return self.candidates.covariance(self.index, new)

    def K_old_u(self, Z_old: Tensor) -> Tensor:
        """The covariance of the old inducing inputs Z' [M', D] with these, [M', M].

        Training may have moved Z' away from the first candidates.
        """
        old = slice(self.candidates.old)
        if self.moved is None and torch.equal(Z_old, self.candidates.X[old]):
            return self.candidates.covariance(self.index, old).mT
        return self.candidates.kernel.forward(Z_old, self.Z)

    @property
    def kept(self) -> tuple[Tensor, Tensor]:
        """The old inducing inputs that are kept: their indices in Z' and in Z."""
        places = (self.index < self.candidates.old).nonzero().squeeze(-1)
        return self.index[places], places

    @property
    def unchanged(self) -> bool:
        """Whether these are all the old inducing inputs, in the same order."""
        same = torch.arange(self.candidates.old, device=self.index.device)
        return torch.equal(self.index, same)


@dataclass(frozen=True)
class SelectionInput:
    """What the selection of inducing inputs reads.

    Z_old [M', D], new data X_new [N, D], all data X [..., D]; at most M = num_inducing are chosen.
    """

    kernel: ElevationKernel
    Z_old: Tensor
    X_new: Tensor
    X: Tensor
    num_inducing: int
    tolerance: float
    generator: torch.Generator

    def old_and_new(self) -> Candidates:
        """[Z'; X_new]."""
        return Candidates.of(self.kernel, self.Z_old, self.X_new)

    def all_data(self) -> Candidates:
        """All data."""
        return Candidates.of(self.kernel, self.Z_old[:0], self.X)

    def random(self, among: int, count: int) -> Tensor:
        """``count`` different random indices below ``among``, ascending."""
        drawn = torch.randperm(among, generator=self.generator)[:count]
        return drawn.sort().values.to(self.Z_old.device)


Select = Callable[[SelectionInput], Inducing]


def pivoted_from_old_and_new(given: SelectionInput) -> Inducing:
    """Recursive pivoted Cholesky decomposition (PCD) of [Z'; X] (Sec. IV-B), in constant time."""
    return _pivoted(given, given.old_and_new())


def pivoted_and_padded(given: SelectionInput) -> Inducing:
    """As ``pivoted_from_old_and_new``, then filled up to M with the first other candidates.

    As in the authors' code; the paper does not mention it.
    """
    chosen = pivoted_from_old_and_new(given)
    candidates, missing = chosen.candidates, given.num_inducing - len(chosen.index)
    unselected = torch.ones(len(candidates.X), dtype=torch.bool, device=candidates.X.device)
    unselected[chosen.index] = False
    padding = unselected.nonzero().squeeze(-1)[: max(missing, 0)]
    return Inducing(candidates, torch.cat([chosen.index, padding]))


def pivoted_from_all(given: SelectionInput) -> Inducing:
    """PCD on all data (Sec. IV-A)."""
    return _pivoted(given, given.all_data())


def all_training_inputs(given: SelectionInput) -> Inducing:
    """Z = X: the sparse posterior is then the exact one. M is ignored."""
    index = torch.arange(len(given.X), device=given.X.device)
    return Inducing(given.all_data(), index)


def random_from_old_and_new(given: SelectionInput) -> Inducing:
    """Uniformly from [Z'; X], without replacement (POAM-Z-RAND)."""
    candidates = given.old_and_new()
    return Inducing(candidates, given.random(len(candidates.X), given.num_inducing))


def keep_old_inputs(given: SelectionInput) -> Inducing:
    """The old ones, filled up to M with random new data."""
    candidates = given.old_and_new()
    return Inducing(candidates, _filled(given))


def move_random_inputs(given: SelectionInput) -> Inducing:
    """As ``keep_old_inputs``, but random ones move to random new data (Bui et al., 2017)."""
    index = _filled(given)
    if len(given.Z_old) == given.num_inducing:
        moving = min(max(1, round(RESAMPLED * len(index))), len(given.X_new))
        places = given.random(len(index), moving)
        index[places] = len(given.Z_old) + given.random(len(given.X_new), moving)
    return Inducing(given.old_and_new(), index)


def _filled(given: SelectionInput) -> Tensor:
    old = torch.arange(len(given.Z_old), device=given.Z_old.device)
    missing = given.num_inducing - len(old)
    return torch.cat([old, len(old) + given.random(len(given.X_new), max(missing, 0))])


def _pivoted(given: SelectionInput, candidates: Candidates) -> Inducing:
    """PCD of the candidates; fewer than M points if they explain the prior everywhere.

    That is, up to the tolerance times the amplitude.
    """
    tolerance = given.tolerance * given.kernel.amplitude.item()
    if candidates.K is not None:
        index = pivoted_cholesky(candidates.K, given.num_inducing, tolerance)
    else:
        index = _pivots_row_by_row(candidates, given.num_inducing, tolerance)
    return Inducing(candidates, index)


def _pivots_row_by_row(candidates: Candidates, rank: int, tolerance: float) -> Tensor:
    """The same pivots from single rows of K: O(C M) memory, O(C M^2) time."""
    X, rank = candidates.X, min(rank, len(candidates.X))
    remaining = candidates.kernel.forward(X, X, diag=True).clone()
    factor = X.new_empty(rank, len(X))
    pivots: list[int] = []
    for r in range(rank):
        pivot = int(remaining.argmax())
        if pivots and remaining[pivot] <= tolerance:
            break
        row = candidates.covariance(torch.tensor([pivot], device=X.device), slice(None))[0]
        factor[r] = (row - factor[:r, pivot] @ factor[:r]) / remaining[pivot].sqrt()
        remaining -= factor[r].square()
        pivots.append(pivot)
        remaining[pivots] = 0.0  # without rounding errors
    return torch.tensor(pivots, device=X.device)
