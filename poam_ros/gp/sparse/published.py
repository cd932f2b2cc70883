"""What the published code does otherwise than the paper, where it changes numbers."""

from __future__ import annotations

from dataclasses import replace

import torch

from .inducing import Choice, Inducing
from .methods import Method
from .model import Posterior, SparseGP
from .variational import Epoch, Evidence, closed_form, update_poam


def as_published(method: Method) -> Method:
    """The row as the published code has it: the first batch counts twice, and inducing inputs that
    pivoted Cholesky did not select fill Z up to M.

    Raises:
        ValueError: if the row's q(u) is not POAM's.
    """
    if method.update is not update_poam:
        raise ValueError("the published behaviour is an option of POAM's update of q(u) only")

    def select(choice: Choice) -> Inducing:
        chosen = method.select(choice)
        candidates, missing = chosen.candidates, choice.num_inducing - len(chosen.index)
        unselected = torch.ones(len(candidates.X), dtype=torch.bool, device=candidates.X.device)
        unselected[chosen.index] = False
        padding = unselected.nonzero().squeeze(-1)[: max(missing, 0)]
        return Inducing(candidates, torch.cat([chosen.index, padding]))

    def update(model: SparseGP, evidence: Evidence) -> tuple[Epoch, Posterior]:
        epoch, q = update_poam(model, evidence)
        if evidence.old is not None or epoch.terms is None:
            return epoch, q
        terms = epoch.terms + epoch.terms
        q, pseudo = closed_form(epoch.factor, terms, model.noise.detach(), model)
        return replace(epoch, terms=terms, pseudo=pseudo), q

    return replace(method, select=select, update=update)
