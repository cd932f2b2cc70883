"""Functions that update q(u)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .inducing import Candidates
from .linalg import Factor, add_jitter, symmetric_product
from .model import Posterior, SparseGP


@dataclass(frozen=True)
class DataTerms:
    """The data-dependent terms of q(u), without the noise: Kuf y [M] and Kuf Kfu [M, M]."""

    Kuf_y: Tensor
    Kuf_Kfu: Tensor

    def projected(self, P: Tensor) -> DataTerms:
        """P^T Kuf y and P^T Kuf Kfu P, P [M', M] (Eqs. 12 and 13)."""
        projected = P.mT @ symmetric_product(self.Kuf_Kfu, P)
        return DataTerms(P.mT @ self.Kuf_y, 0.5 * (projected + projected.mT))

    def __add__(self, new: DataTerms) -> DataTerms:
        return DataTerms(self.Kuf_y + new.Kuf_y, self.Kuf_Kfu + new.Kuf_Kfu)


@dataclass(frozen=True)
class Epoch:
    """What the next epoch must know of this one, as it was before the M-step moved on.

    Z [M, D]; Kuu [M, M] with jitter, and its factor; the accumulated data terms.
    """

    Z: Tensor
    Kuu: Tensor
    factor: Factor
    terms: DataTerms


def closed_form(Kuu: Factor, terms: DataTerms, noise: Tensor, model: SparseGP) -> Posterior:
    """The optimal q(u) (Eqs. 6 and 7).

    m = Kuu A^-1 Kuf y / s2, S = Kuu A^-1 Kuu with A = Kuu + Kuf Kfu / s2. With Kuu = L L^T and
    B = I + L^-1 Kuf Kfu L^-T / s2, which is well conditioned, S = L B^-1 L^T and
    m = L B^-1 L^-1 Kuf y / s2.
    """
    L = Kuu.L
    half = torch.linalg.solve_triangular(L, terms.Kuf_Kfu, upper=False)
    whitened = torch.linalg.solve_triangular(L, half.mT, upper=False)
    B = add_jitter(0.5 * (whitened + whitened.mT) / noise, 1.0)
    LB = model.factorise(B, "I + L^-1 Kuf Kfu L^-T / noise").L
    # S = R R^T with R = L LB^-T
    root = torch.linalg.solve_triangular(LB, L.mT, upper=False).mT
    a = torch.linalg.solve_triangular(L, terms.Kuf_y.unsqueeze(-1), upper=False) / noise
    m = root @ torch.linalg.solve_triangular(LB, a, upper=False)
    logdet = 2 * (L.diagonal().log().sum() - LB.diagonal().log().sum())
    return Posterior(m.squeeze(-1), root, logdet)


def projection(old: Epoch, Z: Tensor, Ku_old_u: Tensor, jitter: float) -> Tensor:
    """P = K'uu^-1 K_u'u [M', M] (Eq. 11), K' under the old hyperparameters.

    Ku_old_u [M', M] is bare; where u' and u are the same point it gets the jitter of Kuu, or P
    would not be the identity for what has not changed. Written as E + K'^-1 (K_u'u - K' E), E the
    0/1 matrix of the kept points, this costs no accuracy either: what is kept is kept exactly.
    """
    same = (old.Z.unsqueeze(1) == Z.unsqueeze(0)).all(-1).to(Z.dtype)
    # K' E: the columns of the kept points, zero for the new ones
    kept = old.Kuu[:, same.argmax(0)] * same.amax(0)
    change = Ku_old_u + jitter * same - kept
    return torch.cholesky_solve(change, old.factor.L).add_(same)


def update_poam(
    model: SparseGP, old: Epoch | None, candidates: Candidates, chosen: Tensor, y: Tensor
) -> tuple[Epoch, Posterior]:
    """POAM's update of q(u) (Sec. IV-C): project the old data terms, add the new, close the form.

    Args:
        model: the present kernel and noise.
        old: the previous epoch; None at the first, whose data count once like any other.
        candidates: [Z'; X] with X [N, D] the new data.
        chosen: indices of the new inducing inputs among the candidates [M].
        y: new targets [N].
    """
    Z = candidates.X[chosen]
    Kuu = add_jitter(candidates.covariance(chosen, chosen), model.jitter)
    Kuf = candidates.covariance(chosen, slice(candidates.old, None))
    terms = DataTerms(Kuf @ y, Kuf @ Kuf.mT)
    if old is not None:
        Ku_old_u = candidates.covariance(chosen, slice(candidates.old)).mT
        P = projection(old, Z, Ku_old_u, model.jitter)
        terms = old.terms.projected(P) + terms
    factor = model.factorise(Kuu, "Kuu")
    q = closed_form(factor, terms, model.noise.detach(), model)
    return Epoch(Z, Kuu, factor, terms), q
