"""The losses of an M-step: the mini-batch ELBO with q(u) fixed or learned; without q(u) the
collapsed ELBO, the online ELBO and the exact marginal likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...core.errors import CholeskyError
from ..linalg import Factor, add_jitter, cholesky, mirrored_, potri, symm, syr2k, syrk, trmm, trsm
from .model import Posterior
from .variational import EpochState

Factorise = Callable[[Tensor, str], Factor]


def elbo_loss(
    Kuu: Tensor,
    Kuf: Tensor,
    kff: Tensor,
    noise: Tensor,
    y: Tensor,
    q: Posterior,
    num_data: int,
    factorise: Factorise = cholesky,
) -> Tensor:
    """The negative mini-batch ELBO per sample (Eqs. 8 and 9): mean loss + KL[q(u) || p(u)] / N.

    Differentiable in Kuu, Kuf (and through them in Z), kff, noise and y; m and S are constants.

    Args:
        Kuu: prior covariance of the inducing outputs, jitter included [M, M].
        Kuf: covariance with the mini-batch [M, B].
        kff: prior variances of the mini-batch [B].
        noise: noise variance, a scalar.
        y: targets of the mini-batch [B].
        q: posterior of the inducing outputs.
        num_data: N, number of all data so far.
        factorise: the Cholesky decomposition, which may record its extra jitter.

    Raises:
        CholeskyError: Kuu is not positive definite.
    """
    return _Elbo.apply(Kuu, Kuf, kff, noise, y, q, num_data, factorise)


def whitened_elbo_loss(
    Kuu: Tensor,
    Kuf: Tensor,
    kff: Tensor,
    noise: Tensor,
    y: Tensor,
    m: Tensor,
    root: Tensor,
    num_data: int,
    factorise: Factorise = cholesky,
) -> Tensor:
    """As ``elbo_loss``, with q(u) learned in whitened coordinates: u = L v, q(v) = N(m, R R^T).

    With A = L^-1 Kuf: mu = A^T m, v = kff - |a_n|^2 + |R^T a_n|^2, KL = (|R|^2 + |m|^2 - M) / 2
    - log|R|. Differentiable in everything but y. Arguments as of ``elbo_loss``, but m [M] and
    root [M, M] are those of v; only the lower triangle of root is read.

    Raises:
        CholeskyError: Kuu is not positive definite.
    """
    L, R = differentiable_cholesky(Kuu, factorise, "Kuu of the M-step"), root.tril()
    A = torch.linalg.solve_triangular(L, Kuf, upper=False)
    v = kff - A.square().sum(0) + (R.mT @ A).square().sum(0)
    quadratic = ((y - A.mT @ m).square() + v).mean()
    fit = 0.5 * (math.log(2 * math.pi) + noise.log() + quadratic / noise)
    log_R = R.diagonal().abs().log().sum()
    kl = 0.5 * (R.square().sum() + m.square().sum() - len(m)) - log_R
    return fit + kl / num_data


def differentiable_cholesky(A: Tensor, factorise: Factorise, name: str) -> Tensor:
    """Lower Cholesky factor of A [M, M] with the extra jitter of ``factorise``, for autograd.

    Raises:
        CholeskyError: A is not positive definite.
    """
    extra = factorise(A.detach(), name).jitter
    L, failed = torch.linalg.cholesky_ex(add_jitter(A, extra))
    if failed.item():
        raise CholeskyError(f"{name} [{len(A)} x {len(A)}] is not positive definite")
    return L


class _Elbo(torch.autograd.Function):
    """The loss and its gradient in closed form: no autograd through a Cholesky factor.

    With C = Kuu^-1, c = C m, A = C Kuf, N = C - C S C and mu, v the marginals:
      loss  = log(2 pi s2) / 2 + mean((y - mu)^2 + v) / (2 s2)
              + (tr(C S) + m^T c - M + log|Kuu| - log|S|) / (2 N)
      dKuf  = X - h A,  dKuu = (N - c c^T) / (2 N) - sym(X A^T),  X = c g^T + h (A - 2 N Kuf)
    """

    @staticmethod
    def forward(
        ctx: Any,
        Kuu: Tensor,
        Kuf: Tensor,
        kff: Tensor,
        noise: Tensor,
        y: Tensor,
        q: Posterior,
        num_data: int,
        factorise: Factorise,
    ) -> Tensor:
        B, s2 = Kuf.shape[1], noise.item()
        L = factorise(Kuu, "Kuu of the M-step").L
        C = mirrored_(potri(L))
        A, c = symm(C, Kuf), C @ q.m
        CR = trmm(C, q.root)
        N = syrk(CR, -1.0, onto=C)
        NKuf = symm(N, Kuf)
        mu, v = Kuf.mT @ c, kff - (NKuf * Kuf).sum(0)
        error = y - mu
        quadratic = (error.square() + v).mean().item()
        fit = 0.5 * (math.log(2 * math.pi * s2) + quadratic / s2)
        trace = torch.dot(CR.flatten(), q.root.flatten()) + q.m @ c
        kl = 0.5 * (trace - len(c) + 2 * L.diagonal().log().sum() - q.logdet)

        g, h = -error / (s2 * B), 0.5 / (s2 * B)
        # mu and v depend on Kuf directly, and on Kuu through C: dKuu -= sym(X A^T)
        X = NKuf.mul_(-2 * h).add_(A, alpha=h).addr_(c, g)
        # Kuu is symmetric: entries below its diagonal also carry the gradient of those above.
        dKuu = syr2k(X, A, -1.0, 1 / num_data, onto=N.addr_(c, c, alpha=-1)).tril_()
        dKuu.diagonal().mul_(0.5)
        dKuf = X.add_(A, alpha=-h)
        dnoise = noise.new_tensor(0.5 / s2 - 0.5 * quadratic / s2**2)
        ctx.save_for_backward(dKuu, dKuf, kff.new_full((B,), h), dnoise, -g)
        return fit + kl / num_data

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, G: Tensor) -> tuple[Tensor | None, ...]:
        dKuu, dKuf, dkff, dnoise, dy = ctx.saved_tensors
        dy = G * dy if ctx.needs_input_grad[4] else None
        return G * dKuu, G * dKuf, G * dkff, G * dnoise, dy, *[None] * 3


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
