"""The mini-batch ELBO, with q(u) fixed or learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...core.errors import CholeskyError
from ..linalg import Factor, add_jitter, cholesky, mirrored_, potri, symm, syr2k, syrk, trmm
from .model import Posterior

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
