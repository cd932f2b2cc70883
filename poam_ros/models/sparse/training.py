"""An M-step: what each method minimises, and the optimisation by Adam or L-BFGS.

The losses: the mini-batch ELBO with q(u) fixed or learned; without q(u) the collapsed ELBO, the
online ELBO and the exact marginal likelihood. Each is per sample, and raises a ``CholeskyError`` if
a matrix is not positive definite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ...core.errors import CholeskyError
from ...core.maps import StopCondition
from ..interface import Dataset, until
from ..linalg import Factor, add_jitter, mirrored_, potri, symm, syr2k, syrk, trmm
from .variational import Epoch, Posterior, cross_covariance

#: L-BFGS-B has converged when an iteration improves the loss by less than this, relatively.
CONVERGED = 1e-5


def adam(epoch: Epoch, enough: StopCondition | None = None) -> list[float]:
    """Take steps of Adam, unless ``enough`` ends them early; returns the losses.

    Raises:
        CholeskyError: a matrix is not positive definite.
    """
    model, losses = epoch.model, []
    optimizers = [o for o in (model.optimizer, model.learned.optimizer) if o is not None]
    for _ in until(model.options.steps, enough):
        loss = model.method.objective(epoch)
        for each in optimizers:
            each.zero_grad(set_to_none=True)
        loss.backward()
        for each in optimizers:
            each.step()
        losses.append(loss.item())
    return losses


def lbfgs(epoch: Epoch, enough: StopCondition | None = None) -> list[float]:
    """Run L-BFGS-B to convergence, unless ``steps`` is 0; ``enough`` is ignored.

    Where a line search reaches a matrix that is not positive definite, the loss is infinite.

    Returns:
        The losses.

    Raises:
        CholeskyError: a matrix is not positive definite at the start.
    """
    model, losses = epoch.model, list[float]()
    if not model.options.steps:
        return losses
    parameters = [*model.parameters(), *model.learned.leaves.values()]

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        vector_to_parameters(torch.tensor(x), parameters)
        for parameter in parameters:
            parameter.grad = None
        try:
            loss = model.method.objective(epoch)
        except CholeskyError:
            if not losses:
                raise
            return np.inf, np.zeros_like(x)
        loss.backward()
        losses.append(loss.item())
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        return losses[-1], parameters_to_vector(gradients).numpy()

    start = parameters_to_vector(parameters).detach().numpy()
    result = minimize(evaluate, start, jac=True, method="L-BFGS-B", options={"ftol": CONVERGED})
    usable = bool(np.isfinite(result.fun) and np.isfinite(result.x).all())
    vector_to_parameters(torch.tensor(result.x if usable else start), parameters)
    return losses


def minibatch_elbo(epoch: Epoch) -> Tensor:
    """The mini-batch ELBO (Eqs. 8 and 9), q(u) fixed: mean loss + KL[q(u) || p(u)] / N."""
    model, batch = epoch.model, epoch.model.draw()
    K, N = model.covariances(batch.X), len(model.data)
    loss: Tensor = _Elbo.apply(*K, model.noise, batch.y, model.q, N, model.factorise)
    return loss


def whitened_elbo(epoch: Epoch) -> Tensor:
    """The mini-batch ELBO, q(u) learned in whitened coordinates: u = L v, q(v) = N(m, R R^T).

    With A = L^-1 Kuf: mu = A^T m, v = kff - |a_n|^2 + |R^T a_n|^2, KL = (|R|^2 + |m|^2 - M) / 2
    - log|R|.
    """
    model, batch = epoch.model, epoch.model.draw()
    Kuu, Kuf, kff = model.covariances(batch.X)
    m, R = model.learned.leaves["m"], model.learned.leaves["root"].tril()
    L = _differentiable_cholesky(epoch, Kuu, "Kuu of the M-step")
    A = torch.linalg.solve_triangular(L, Kuf, upper=False)
    v = kff - A.square().sum(0) + (R.mT @ A).square().sum(0)
    quadratic = ((batch.y - A.mT @ m).square() + v).mean()
    fit = 0.5 * (math.log(2 * math.pi) + model.noise.log() + quadratic / model.noise)
    log_R = R.diagonal().abs().log().sum()
    kl = 0.5 * (R.square().sum() + m.square().sum() - len(m)) - log_R
    return fit + kl / len(model.data)


def collapsed_elbo(epoch: Epoch) -> Tensor:
    """The collapsed ELBO of all data (Eq. 5)."""
    return _optimal_elbo(epoch, epoch.model.data, False)


def online_elbo(epoch: Epoch) -> Tensor:
    """The online ELBO of the new data, with the old posterior in place of old data (App. A-B)."""
    return _optimal_elbo(epoch, epoch.new, epoch.old is not None)


def _optimal_elbo(epoch: Epoch, data: Dataset, online: bool) -> Tensor:
    """The negative ELBO of data for the optimal q(u), ``online`` with the old posterior's data.

    These are pseudo data of precision P = S'^-1 - K'^-1 and P-weighted targets S'^-1 m'. With
    A = Kuu + Kuf Kfu / s2 + K_uu' P K_u'u and c = Kuf y / s2 + K_uu' S'^-1 m':
      2 ELBO = - N log(2 pi s2) - y^T y / s2 - log|A| + log|Kuu| + c^T A^-1 c
               - tr(Kff - Qff) / s2 - tr(P (K_u'u' - Q_u'u')) + log|K'|/|S'| - m'^T S'^-1 m'
    Constants are included: while Z and the hyperparameters stay the same, the ELBOs of the epochs
    sum to that of all data. All matrices stay positive definite, because P is never computed as a
    difference of inverses, and A = L (I + D) L^T is factorised whitened, Kuu = L L^T.
    """
    solve, model, old = partial(torch.linalg.solve_triangular, upper=False), epoch.model, epoch.old
    if online:
        assert old is not None and old.pseudo is not None
        L_old, terms, (P, constant) = old.factor.L, old.pseudo, epoch.pseudo
        Koo = add_jitter(model.kernel.forward(old.Z, old.Z), model.jitter)
        K_old_u = cross_covariance(old, epoch.inducing.at(model.current_Z), model.jitter)
    (Kuu, Kuf, kff), y, noise = model.covariances(data.X), data.y, model.noise
    L = _differentiable_cholesky(epoch, Kuu, "Kuu of the M-step")
    V = solve(L, Kuf)
    D, c = V @ V.mT / noise, V @ y / noise
    elbo = -len(y) * (math.log(2 * math.pi) + noise.log()) - (y.square().sum() + kff.sum()) / noise
    if online:
        H = solve(L_old, solve(L, K_old_u.mT).mT)
        D, c = D + H.mT @ terms.matrix @ H, c + H.mT @ terms.vector
        elbo = elbo - (P * Koo).sum() + constant
    trace = D.diagonal().sum()
    LD = _differentiable_cholesky(epoch, add_jitter(D, 1.0), "I + D of the M-step")
    z = solve(LD, c.unsqueeze(-1))
    logdet = 2 * LD.diagonal().log().sum()
    return -0.5 * (elbo - logdet + z.square().sum() + trace) / len(y)


def marginal_likelihood(epoch: Epoch) -> Tensor:
    """The negative log marginal likelihood of the exact GP, of all data (Eq. 3)."""
    model, data = epoch.model, epoch.model.data
    V = model.kernel.forward(data.X, data.X) + model.noise * torch.eye(len(data)).to(data.X)
    L = _differentiable_cholesky(epoch, V, "Kff + noise")
    z = torch.linalg.solve_triangular(L, data.y.unsqueeze(-1), upper=False)
    logdet = 2 * L.diagonal().log().sum()
    return 0.5 * ((z.square().sum() + logdet) / len(data) + math.log(2 * math.pi))


def _differentiable_cholesky(epoch: Epoch, A: Tensor, name: str) -> Tensor:
    """Lower Cholesky factor of A [M, M] with the jitter that it needs, for autograd."""
    extra = epoch.model.factorise(A.detach(), name).jitter
    L, failed = torch.linalg.cholesky_ex(add_jitter(A, extra))
    if failed.item():
        raise CholeskyError(f"{name} [{len(A)} x {len(A)}] is not positive definite")
    return L


class _Elbo(torch.autograd.Function):
    """The mini-batch ELBO and its gradient in closed form: no autograd through a Cholesky factor.

    Kuu [M, M] with jitter, Kuf [M, B], kff [B], y [B]; the posterior q is constant.

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
        factorise: Callable[[Tensor, str], Factor],
    ) -> Tensor:
        B, s2 = Kuf.shape[1], noise.item()
        L = factorise(Kuu, "Kuu of the M-step").L
        C = mirrored_(potri(L))
        A, c = symm(C, Kuf), C @ q.m
        CR = trmm(C, q.root)
        N = syrk(CR, -1.0, C)
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
        dKuu = syr2k(X, A, -1.0, 1 / num_data, N.addr_(c, c, alpha=-1)).tril_()
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
