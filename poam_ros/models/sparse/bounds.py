"""Objectives without q(u): the collapsed ELBO, the online ELBO, the exact marginal likelihood."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..linalg import add_jitter, cholesky, mirrored, potri, symm, syr2k, syrk, trmm, trsm, whitened
from .objectives import Factorise
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
    difference of inverses. Arguments as of ``elbo_loss``, with all new data instead of a
    mini-batch; also differentiable in Kuo and Koo.

    Raises:
        CholeskyError: Kuu is not positive definite.
    """
    at_old = (None, None, None) if old is None else old
    return _Collapsed.apply(Kuu, Kuf, kff, noise, y, *at_old, factorise)


class _Collapsed(torch.autograd.Function):
    """The loss and its gradient in closed form.

    With b = A^-1 c, T = A - Kuu and Y = (Kuu^-1 - A^-1 - b b^T) / 2:
      dKuu = Y + Kuu^-1 / 2 - Kuu^-1 A Kuu^-1 / 2,  dKuf = (2 Y Kuf + b y^T) / s2,
      dK_uu' = 2 Y K_uu' P + b (S'^-1 m')^T,  dK_u'u' = -P / 2.
    """

    @staticmethod
    def forward(
        ctx: Any,
        Kuu: Tensor,
        Kuf: Tensor,
        kff: Tensor,
        noise: Tensor,
        y: Tensor,
        Kuo: Tensor | None,
        Koo: Tensor | None,
        old: PseudoData | None,
        factorise: Factorise,
    ) -> Tensor:
        N, s2 = len(y), noise.item()
        L = factorise(Kuu, "Kuu of the M-step").L
        Kuf_y = Kuf @ y
        T, c = syrk(Kuf, 1 / s2), Kuf_y / noise
        elbo = -N * (math.log(2 * math.pi) + noise.log()) - (y.square().sum() + kff.sum()) / noise
        if old is not None:
            assert Kuo is not None and Koo is not None
            H = trsm(old.L, Kuo.mT)
            WH = symm(old.W, H)
            T = syr2k(H.mT, WH.mT, 0.5, onto=T)
            c = c + H.mT @ old.w
            elbo = elbo - (old.P * Koo).sum() + old.constant
        D = whitened(L, T)
        trace = D.diagonal().sum()
        D = add_jitter(D, 1.0)  # L^-1 A L^-T
        LD = factorise(D, "I + L^-1 T L^-T").L
        LA = trmm(L, LD)
        z = trsm(LA, c.unsqueeze(-1))
        logdet = 2 * LD.diagonal().log().sum()
        elbo = 0.5 * (elbo - logdet + z.square().sum() + trace)

        b = trsm(LA, z, transposed=True).squeeze(-1)
        Ki = potri(L)
        Y = 0.5 * mirrored((Ki - potri(LA)).addr_(b, b, alpha=-1))
        KiAKi = syrk(trsm(L, LD, transposed=True))
        dKuu = Y + 0.5 * mirrored(Ki - KiAKi)
        YKuf = symm(Y, Kuf)
        dKuf = torch.addr(2 * YKuf, b, y) / noise
        fit = y.square().sum() + kff.sum() - 2 * (YKuf * Kuf).sum() - 2 * b @ Kuf_y
        dnoise = 0.5 * (fit / noise - N) / noise
        dKuo = dKoo = None
        if old is not None:
            right = torch.addr(2 * symm(Y, WH.mT), b, old.w)
            dKuo = trsm(old.L, right, right=True)
            dKoo = -0.5 * old.P
        ctx.save_for_backward(dKuu, dKuf, (-0.5 / noise).expand(N), dnoise, dKuo, dKoo)
        ctx.count = N
        return -elbo / N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        scale = -G / ctx.count
        gradients = (None if saved is None else scale * saved for saved in ctx.saved_tensors)
        dKuu, dKuf, dkff, dnoise, dKuo, dKoo = gradients
        return dKuu, dKuf, dkff, dnoise, None, dKuo, dKoo, None, None


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
    return _Exact.apply(Kff, noise, y, factorise)


class _Exact(torch.autograd.Function):
    """With V = Kff + s2 I and a = V^-1 y: dV = (V^-1 - a a^T) / 2."""

    @staticmethod
    def forward(ctx: Any, Kff: Tensor, noise: Tensor, y: Tensor, factorise: Factorise) -> Tensor:
        N = len(y)
        L = factorise(add_jitter(Kff, noise.item()), "Kff + noise").L
        V = mirrored(potri(L))
        a = V @ y
        loss = y @ a + 2 * L.diagonal().log().sum() + N * math.log(2 * math.pi)
        gradient = torch.addr(V, a, a, alpha=-1) / (2 * N)
        ctx.save_for_backward(gradient)
        return loss / (2 * N)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return G * gradient, G * gradient.diagonal().sum(), None, None
