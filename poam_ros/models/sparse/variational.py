"""An epoch of a sparse model, and functions that update q(u) in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..interface import Dataset
from ..linalg import Factor, add_jitter, reversed_cholesky, solve_posdef, symm, trsm, whitened
from .inducing import Inducing

if TYPE_CHECKING:
    from .model import SparseGP

#: Samples per block when terms are summed over all data.
CHUNK = 2048


@dataclass(frozen=True)
class Posterior:
    """q(u) = N(m, S) with S = R R^T, which is positive definite by construction.

    m [M], root R [M, M] (lower triangular), logdet = log |S|.
    """

    m: Tensor
    root: Tensor
    logdet: Tensor

    @classmethod
    def of_whitened(cls, L: Tensor, m: Tensor, root: Tensor) -> Posterior:
        """The posterior of u = L v with q(v) = N(m, R R^T); L and R [M, M] lower triangular."""
        logdet = 2 * (L.diagonal().log().sum() + root.diagonal().abs().log().sum())
        return cls(L @ m, L @ root, logdet)

    @property
    def S(self) -> Tensor:
        """The covariance S [M, M]."""
        return self.root @ self.root.mT


@dataclass(frozen=True)
class DataTerms:
    """The data-dependent terms of q(u), such as Kuf y [M] and Kuf Kfu [M, M] (POAM's)."""

    vector: Tensor
    matrix: Tensor

    @classmethod
    def of(cls, Kuf: Tensor, y: Tensor) -> DataTerms:
        """Kuf y and Kuf Kfu, without the noise; Kuf [M, N], y [N]."""
        return cls(Kuf @ y, Kuf @ Kuf.mT)

    def projected(self, P: Tensor) -> DataTerms:
        """P^T Kuf y and P^T Kuf Kfu P, P [M', M] (Eqs. 12 and 13)."""
        projected = P.mT @ symm(self.matrix, P)
        return DataTerms(P.mT @ self.vector, 0.5 * (projected + projected.mT))

    def __add__(self, new: DataTerms) -> DataTerms:
        return DataTerms(self.vector + new.vector, self.matrix + new.matrix)

    def __truediv__(self, noise: Tensor) -> DataTerms:
        return DataTerms(self.vector / noise, self.matrix / noise)


@dataclass(frozen=True)
class EpochState:
    """What the next epoch reads of this one, as it was before the M-step.

    Z [M, D]; Kuu [M, M] with jitter, and its factor L; the terms that the method accumulates;
    pseudo: L^T S^-1 m and L^T (S^-1 - Kuu^-1) L, which is q(u) without its prior, as pseudo data
    (SSGP). None if q(u) was learned.
    """

    Z: Tensor
    Kuu: Tensor
    factor: Factor
    terms: DataTerms | None = None
    pseudo: DataTerms | None = None


@dataclass(frozen=True)
class Epoch:
    """What E-step and M-step read: the model, what the previous epoch left, Z and the new data."""

    model: SparseGP
    old: EpochState | None
    inducing: Inducing
    new: Dataset

    def solved(self, terms: DataTerms, noise: Tensor | float) -> tuple[EpochState, Posterior]:
        """The optimal q(u) of these terms (Eqs. 6 and 7), and its pseudo data.

        m = Kuu A^-1 Kuf y / s2, S = Kuu A^-1 Kuu with A = Kuu + Kuf Kfu / s2. With Kuu = L L^T and
        B = I + L^-1 Kuf Kfu L^-T / s2, which is well conditioned, S = L B^-1 L^T and
        m = L B^-1 L^-1 Kuf y / s2.

        Hence S^-1 - Kuu^-1 = L^-T (B - I) L^-1 and S^-1 m = L^-T L^-1 Kuf y / s2: SSGP's difference
        of two inverses needs no subtraction, and B - I is positive semi-definite by construction.
        """
        Kuu, factor = self.prior()
        L = factor.L
        W = whitened(L, terms.matrix) / noise
        # B = R^T R: then S = L R^-1 (L R^-1)^T, and this root is lower triangular
        factorise = self.model.factorise
        R = reversed_cholesky(add_jitter(W, 1.0), factorise, "I + L^-1 Kuf Kfu L^-T / noise")
        root = trsm(R, L, right=True)
        w = trsm(L, terms.vector.unsqueeze(-1)) / noise
        m = root @ trsm(R, w, transposed=True)
        logdet = 2 * (L.diagonal().log().sum() - R.diagonal().log().sum())
        state = EpochState(self.inducing.Z, Kuu, factor, terms, DataTerms(w.squeeze(-1), W))
        return state, Posterior(m.squeeze(-1), root, logdet)

    @cached_property
    def pseudo(self) -> tuple[Tensor, Tensor]:
        """Of the old q(u') without its prior, as the online ELBO sees it, constants of an M-step:
        P = S'^-1 - K'^-1 [M', M'] and log|K'|/|S'| - m'^T S'^-1 m'."""
        assert self.old is not None and self.old.pseudo is not None
        L, w, W = self.old.factor.L, self.old.pseudo.vector, self.old.pseudo.matrix
        # log|I + W| - w^T (I + W)^-1 w
        LB = self.model.factorise(add_jitter(W, 1.0), "I + W of the old posterior").L
        z = trsm(LB, w.unsqueeze(-1))
        constant = 2 * LB.diagonal().log().sum() - z.square().sum()
        P = trsm(L, trsm(L, W, transposed=True).mT, transposed=True)
        return 0.5 * (P + P.mT), constant

    def prior(self) -> tuple[Tensor, Factor]:
        """Kuu [M, M] with jitter, and its factor."""
        Kuu = add_jitter(self.inducing.Kuu, self.model.jitter)
        return Kuu, self.model.factorise(Kuu, "Kuu")


def cross_covariance(old: EpochState, inducing: Inducing, jitter: float) -> Tensor:
    """K_u'u [M', M], with the jitter of Kuu where u is u'.

    Jitter is a small independent part of each inducing output. A kept output keeps it, even if
    training moves its input.
    """
    K_old_u = inducing.K_old_u(old.Z).clone()
    K_old_u[inducing.kept] += jitter
    return K_old_u


def _projection(old: EpochState, inducing: Inducing, jitter: float) -> Tensor:
    """P = K'uu^-1 K_u'u [M', M] (Eq. 11), K' under the old hyperparameters.

    Kept points carry the jitter; otherwise P would not be the identity for unchanged points. P is
    computed as E + K'^-1 (K_u'u - K' E), E the 0/1 matrix of the kept points, which is exact for
    points that are kept and have not moved.
    """
    places_old, places = inducing.kept
    change = cross_covariance(old, inducing, jitter)
    change[:, places] -= old.Kuu[:, places_old]
    P = solve_posdef(old.factor.L, change)
    P[places_old, places] += 1.0
    return P


def _accumulated(epoch: Epoch, new: DataTerms) -> DataTerms:
    """The new terms and the projected old ones."""
    old, inducing = epoch.old, epoch.inducing
    if old is None:
        return new
    assert old.terms is not None
    return old.terms.projected(_projection(old, inducing, epoch.model.jitter)) + new


def update_poam(epoch: Epoch) -> tuple[EpochState, Posterior]:
    """POAM (Sec. IV-C): project the old data terms, add the new ones, solve in closed form.

    The terms are independent of the learned noise.
    """
    terms = _accumulated(epoch, DataTerms.of(epoch.inducing.Kuf, epoch.new.y))
    return epoch.solved(terms, epoch.model.noise.detach())


def update_poam_first_twice(epoch: Epoch) -> tuple[EpochState, Posterior]:
    """POAM, but the first batch counts twice, as in the authors' code."""
    terms = _accumulated(epoch, DataTerms.of(epoch.inducing.Kuf, epoch.new.y))
    return epoch.solved(terms if epoch.old else terms + terms, epoch.model.noise.detach())


def update_ovc(epoch: Epoch) -> tuple[EpochState, Posterior]:
    """OVC (Maddox et al., 2021; App. A-C): as POAM, but terms keep the noise of their epoch."""
    new = DataTerms.of(epoch.inducing.Kuf, epoch.new.y) / epoch.model.noise.detach()
    return epoch.solved(_accumulated(epoch, new), 1.0)


def update_ssgp(epoch: Epoch) -> tuple[EpochState, Posterior]:
    """SSGP (Bui et al., 2017; App. A-B): the old posterior, as pseudo data, and the new data.

    C = Kuf Kfu / s2 + K_uu' (S'^-1 - K'^-1) K_u'u and c = Kuf y / s2 + K_uu' S'^-1 m'; the old
    terms come from ``EpochState.pseudo``.
    """
    old, inducing = epoch.old, epoch.inducing
    terms = DataTerms.of(inducing.Kuf, epoch.new.y) / epoch.model.noise.detach()
    if old is not None:
        assert old.pseudo is not None
        K_old_u = cross_covariance(old, inducing, epoch.model.jitter)
        whitened = torch.linalg.solve_triangular(old.factor.L, K_old_u, upper=False)
        terms = old.pseudo.projected(whitened) + terms
    return epoch.solved(terms, 1.0)


def update_full(epoch: Epoch) -> tuple[EpochState, Posterior]:
    """From all data so far (Eqs. 6 and 7), in O(N M^2)."""
    model, Z = epoch.model, epoch.inducing.Z
    parts = zip(model.data.X.split(CHUNK), model.data.y.split(CHUNK), strict=True)
    terms = (DataTerms.of(model.kernel.forward(Z, X), y) for X, y in parts)
    return epoch.solved(reduce(DataTerms.__add__, terms), model.noise.detach())


def keep_learned(epoch: Epoch) -> tuple[EpochState, Posterior]:
    """q(u) as the gradient left it; the prior at the beginning and for added inducing inputs.

    Mean and root are kept in whitened coordinates v = L^-1 u, by index. While Z only grows (SVGP)
    that is exactly q(u) = int p(u | u') q(u') du'. With a new choice of Z (POAM-VAR-OPT) only the
    gradient moves q(u) to the new points, as published: the paper says that q(u) is optimised
    instead of computed. docs/measurements/results.md compares it with conditioning on q(u').
    """
    model, (Kuu, factor) = epoch.model, epoch.prior()
    L = factor.L
    m, root = L.new_zeros(len(L)), torch.eye(len(L)).to(L)
    if model.q is not None:
        m_old, root_old = model.whitened_posterior()
        count = min(len(L), len(m_old))
        m[:count], root[:count, :count] = m_old[:count], root_old[:count, :count]
    return EpochState(epoch.inducing.Z, Kuu, factor), Posterior.of_whitened(L, m, root)
