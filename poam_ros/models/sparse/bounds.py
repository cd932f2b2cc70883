"""Objectives without q(u): the collapsed ELBO, the online ELBO, the exact marginal likelihood."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..linalg import add_jitter, cholesky, trsm
from .objectives import Factorise, differentiable_cholesky
from .variational import EpochState


class PseudoData(NamedTuple):
    """The old data as the online ELBO sees them, constants of an M-step.

    L [M', M'] of K'; w [M'] and W [M', M'] are as in ``EpochState.pseudo``;
    P = S'^-1 - K'^-1 [M', M']; constant = log|K'|/|S'| - m'^T S'^-1 m'.
    """

    L: Tensor
    w: Tensor
    W: Tensor
    P: Tensor
    constant: Tensor

    @classmethod
    def of(cls, epoch: EpochState, factorise: Factorise = cholesky) -> PseudoData:
        """The old q(u') without its prior."""
        assert epoch.pseudo is not None
        L, w, W = epoch.factor.L, epoch.pseudo.vector, epoch.pseudo.matrix
        # log|I + W| - w^T (I + W)^-1 w
        LB = factorise(add_jitter(W, 1.0), "I + W of the old posterior").L
        z = trsm(LB, w.unsqueeze(-1))
        constant = 2 * LB.diagonal().log().sum() - z.square().sum()
        return cls(L, w, W, _congruent(W, L), constant)


class PreviousPosterior(NamedTuple):
    """Pseudo data at the old inducing inputs, with covariances of the present hyperparameters.

    Kuo = K_uu' [M, M'], with jitter where u and u' are the same; Koo = K_u'u' [M', M'] with
    jitter.
    """

    Kuo: Tensor
    Koo: Tensor
    pseudo: PseudoData


def online_elbo_loss(
    Kuu: Tensor,
    Kuf: Tensor,
    kff: Tensor,
    noise: Tensor,
    y: Tensor,
    old: PreviousPosterior | None = None,
    factorise: Factorise = cholesky,
) -> Tensor:
    """The negative online ELBO per new sample (App. A-B); without old data the collapsed ELBO.

    With the old posterior's pseudo data, of precision P = S'^-1 - K'^-1 and P-weighted targets
    S'^-1 m', A = Kuu + Kuf Kfu / s2 + K_uu' P K_u'u and c = Kuf y / s2 + K_uu' S'^-1 m':
      2 ELBO = - N log(2 pi s2) - y^T y / s2 - log|A| + log|Kuu| + c^T A^-1 c
               - tr(Kff - Qff) / s2 - tr(P (K_u'u' - Q_u'u')) + log|K'|/|S'| - m'^T S'^-1 m'
    Constants are included: while Z and the hyperparameters stay the same, the ELBOs of the epochs
    sum to that of all data. All matrices stay positive definite, because P is never computed as a
    difference of inverses, and A = L (I + D) L^T is factorised whitened, Kuu = L L^T. Arguments as
    of ``elbo_loss``, with all new data instead of a mini-batch; differentiable in all but y.

    Raises:
        CholeskyError: Kuu is not positive definite.
    """
    solve, N = partial(torch.linalg.solve_triangular, upper=False), len(y)
    L = differentiable_cholesky(Kuu, factorise, "Kuu of the M-step")
    V = solve(L, Kuf)
    D, c = V @ V.mT / noise, V @ y / noise
    elbo = -N * (math.log(2 * math.pi) + noise.log()) - (y.square().sum() + kff.sum()) / noise
    if old is not None:
        H = solve(old.pseudo.L, solve(L, old.Kuo).mT)
        D, c = D + H.mT @ old.pseudo.W @ H, c + H.mT @ old.pseudo.w
        elbo = elbo - (old.pseudo.P * old.Koo).sum() + old.pseudo.constant
    trace = D.diagonal().sum()
    LD = differentiable_cholesky(add_jitter(D, 1.0), factorise, "I + D of the M-step")
    z = solve(LD, c.unsqueeze(-1))
    logdet = 2 * LD.diagonal().log().sum()
    return -0.5 * (elbo - logdet + z.square().sum() + trace) / N


def _congruent(W: Tensor, L: Tensor) -> Tensor:
    """L^-T W L^-1 [M, M] for a symmetric W."""
    half = trsm(L, W, transposed=True)
    whole = trsm(L, half.mT, transposed=True)
    return 0.5 * (whole + whole.mT)


def marginal_likelihood_loss(
    Kff: Tensor, noise: Tensor, y: Tensor, factorise: Factorise = cholesky
) -> Tensor:
    """The negative log marginal likelihood of the exact GP per sample (Eq. 3), Kff [N, N], y [N].

    Raises:
        CholeskyError: Kff + s2 I is not positive definite.
    """
    V = Kff + noise * torch.eye(len(y)).to(Kff)
    L = differentiable_cholesky(V, factorise, "Kff + noise")
    z = torch.linalg.solve_triangular(L, y.unsqueeze(-1), upper=False)
    logdet = 2 * L.diagonal().log().sum()
    return 0.5 * ((z.square().sum() + logdet) / len(y) + math.log(2 * math.pi))
