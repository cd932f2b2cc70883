"""Functions that choose the inducing inputs Z for the new data X [N, D] of a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..kernels import ElevationKernel
from ..linalg import pivoted_cholesky

if TYPE_CHECKING:
    from .model import SparseGP

#: Up to this many candidates their whole covariance is stored (32 MB); of more, single rows.
MAX_STORED = 2000
#: Share of the inducing inputs that resampling moves to new data, as in the published code.
RESAMPLED = 0.01


@dataclass(frozen=True)
class Inducing:
    """Inducing inputs among the candidates [Z'; X], and their covariances without jitter.

    candidates [C, D] start with the M' ``old`` inducing inputs Z'. K [C, C] is their covariance
    under the present hyperparameters, with Kuu, Ku'u and Kuf as parts; None for more than
    ``MAX_STORED`` candidates, as after a long pilot survey. index [M]: which candidates. moved
    [M, D]: where training has moved them since, or None.
    """

    kernel: ElevationKernel
    candidates: Tensor
    old: int
    K: Tensor | None
    index: Tensor
    moved: Tensor | None = None

    @classmethod
    def all_of(cls, kernel: ElevationKernel, Z_old: Tensor, X: Tensor) -> Inducing:
        """All candidates: the old inducing inputs Z' [M', D] and the data X [N, D]."""
        points = torch.cat([Z_old, X])
        K = kernel.forward(points, points) if len(points) <= MAX_STORED else None
        return cls(kernel, points, len(Z_old), K, torch.arange(len(points), device=X.device))

    def chosen(self, index: Tensor) -> Inducing:
        """The candidates ``index`` [M]."""
        return replace(self, index=index)

    def at(self, Z: Tensor) -> Inducing:
        """The same points after training: at Z [M, D], under other hyperparameters."""
        return replace(self, K=None, moved=Z)

    def covariance(self, rows: Tensor, columns: Tensor | slice) -> Tensor:
        """The covariance of candidates ``rows`` [R] with candidates ``columns`` [S], [R, S]."""
        if self.K is not None:
            return self.K[rows][:, columns]
        return self.kernel.forward(self.candidates[rows], self.candidates[columns])

    @property
    def Z(self) -> Tensor:
        """The inducing inputs [M, D]."""
        return self.candidates[self.index] if self.moved is None else self.moved

    @property
    def Kuu(self) -> Tensor:
        """Their covariance [M, M]."""
        if self.moved is not None:
            return self.kernel.forward(self.moved, self.moved)
        return self.covariance(self.index, self.index)

    @property
    def Kuf(self) -> Tensor:
        """Their covariance with the data X [M, N]."""
        new = slice(self.old, None)
        if self.moved is not None:
            return self.kernel.forward(self.moved, self.candidates[new])
        return self.covariance(self.index, new)

    def K_old_u(self, Z_old: Tensor) -> Tensor:
        """The covariance of the old inducing inputs Z' [M', D] with these, [M', M].

        Training may have moved Z' away from the first candidates.
        """
        old = slice(self.old)
        if self.moved is None and torch.equal(Z_old, self.candidates[old]):
            return self.covariance(self.index, old).mT
        return self.kernel.forward(Z_old, self.Z)

    @property
    def kept(self) -> tuple[Tensor, Tensor]:
        """The old inducing inputs that are kept: their indices in Z' and in Z."""
        places = (self.index < self.old).nonzero().squeeze(-1)
        return self.index[places], places

    @property
    def unchanged(self) -> bool:
        """Whether these are all the old inducing inputs, in the same order."""
        return torch.equal(self.index, torch.arange(self.old, device=self.index.device))


def pivoted_from_old_and_new(model: SparseGP, X: Tensor) -> Inducing:
    """Recursive pivoted Cholesky decomposition (PCD) of [Z'; X] (Sec. IV-B), in constant time."""
    return _pivoted(model, _old_and_new(model, X))


def pivoted_and_padded(model: SparseGP, X: Tensor) -> Inducing:
    """As ``pivoted_from_old_and_new``, then filled up to M with the first other candidates.

    As in the authors' code; the paper does not mention it.
    """
    chosen = pivoted_from_old_and_new(model, X)
    unselected = torch.ones(len(chosen.candidates), dtype=torch.bool, device=X.device)
    unselected[chosen.index] = False
    missing = max(model.options.num_inducing - len(chosen.index), 0)
    return chosen.chosen(torch.cat([chosen.index, unselected.nonzero().squeeze(-1)[:missing]]))


def pivoted_from_all(model: SparseGP, X: Tensor) -> Inducing:
    """PCD on all data (Sec. IV-A)."""
    return _pivoted(model, all_training_inputs(model, X))


def all_training_inputs(model: SparseGP, X: Tensor) -> Inducing:
    """Z = all data: the sparse posterior is then the exact one. M is ignored."""
    return Inducing.all_of(model.kernel, X[:0], model.data.X)


def random_from_old_and_new(model: SparseGP, X: Tensor) -> Inducing:
    """Uniformly from [Z'; X], without replacement (POAM-Z-RAND)."""
    every = _old_and_new(model, X)
    return every.chosen(_random(model, len(every.candidates), model.options.num_inducing))


def keep_old_inputs(model: SparseGP, X: Tensor) -> Inducing:
    """The old ones, filled up to M with random new data."""
    missing = max(model.options.num_inducing - len(model.Z), 0)
    new = len(model.Z) + _random(model, len(X), missing)
    every = _old_and_new(model, X)
    return every.chosen(torch.cat([every.index[: every.old], new]))


def move_random_inputs(model: SparseGP, X: Tensor) -> Inducing:
    """As ``keep_old_inputs``, but random ones move to random new data (Bui et al., 2017)."""
    chosen, old = keep_old_inputs(model, X), len(model.Z)
    if old == model.options.num_inducing:
        moving = min(max(1, round(RESAMPLED * old)), len(X))
        places = _random(model, old, moving)
        chosen.index[places] = old + _random(model, len(X), moving)
    return chosen


def _old_and_new(model: SparseGP, X: Tensor) -> Inducing:
    """[Z'; X]."""
    return Inducing.all_of(model.kernel, model.Z, X)


def _random(model: SparseGP, among: int, count: int) -> Tensor:
    """``count`` different random indices below ``among``, ascending."""
    drawn = torch.randperm(among, generator=model.generators["inducing"])[:count]
    return drawn.sort().values.to(model.Z.device)


def _pivoted(model: SparseGP, every: Inducing) -> Inducing:
    """PCD of all candidates; fewer than M points if they explain the prior everywhere.

    That is, up to the tolerance times the amplitude.
    """
    rank = model.options.num_inducing
    tolerance = model.options.tolerance * model.kernel.amplitude.item()
    if every.K is not None:
        return every.chosen(pivoted_cholesky(every.K, rank, tolerance))
    # The same pivots from single rows of K: O(C M) memory, O(C M^2) time.
    X, rank = every.candidates, min(rank, len(every.candidates))
    remaining = every.kernel.forward(X, X, diag=True).clone()
    factor = X.new_empty(rank, len(X))
    pivots: list[int] = []
    for r in range(rank):
        pivot = int(remaining.argmax())
        if pivots and remaining[pivot] <= tolerance:
            break
        row = every.covariance(every.index[[pivot]], slice(None))[0]
        factor[r] = (row - factor[:r, pivot] @ factor[:r]) / remaining[pivot].sqrt()
        remaining -= factor[r].square()
        pivots.append(pivot)
        remaining[pivots] = 0.0  # without rounding errors
    return every.chosen(torch.tensor(pivots, device=X.device))
