"""The methods, each a row: how Z is chosen, how q(u) is updated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from . import inducing, variational
from .inducing import Candidates
from .model import Posterior, SparseGP
from .variational import Epoch


@dataclass(frozen=True)
class Method:
    """One row of the table.

    select: (candidates, amplitude, num_inducing, tolerance) -> indices of Z among the candidates.
    update: (model, old epoch, candidates, chosen, y) -> this epoch and q(u).
    All methods train the hyperparameters on the mini-batch ELBO.
    """

    select: Callable[[Candidates, float, int, float], Tensor]
    update: Callable[[SparseGP, Epoch | None, Candidates, Tensor, Tensor], tuple[Epoch, Posterior]]


METHODS: dict[str, Method] = {
    "poam": Method(inducing.select_by_pivoted_cholesky, variational.update_poam),
}
