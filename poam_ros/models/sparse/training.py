"""An M-step: its state, what each method minimises, and the optimisation by Adam or L-BFGS.

The losses: the mini-batch ELBO with q(u) fixed or learned; without q(u) the collapsed ELBO, the
online ELBO and the exact marginal likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.autograd.function import once_differentiable

from ...core.errors import CholeskyError
from ...core.maps import StopCondition
from ..interface import Dataset, until
from ..linalg import Factor, add_jitter, cholesky, mirrored_, potri, symm, syr2k, syrk, trmm, trsm
from .methods import SparseOptions
from .model import Posterior, SparseGP
from .variational import EpochInput, EpochState, cross_covariance, parameters_of, put_parameters

Factorise = Callable[[Tensor, str], Factor]


def make_optimizer(model: SparseGP, options: SparseOptions) -> torch.optim.Adam:
    """Adam with a low rate for the network and a higher one for amplitude and noise.

    A slow network lets the vehicle explore before it trusts a lengthscale map (Sec. IV-D). The
    state of the optimiser lasts over all updates.
    """
    network = [] if model.kernel.network is None else list(model.kernel.network.parameters())
    slow = {id(p) for p in network}
    rest = [p for p in model.parameters() if id(p) not in slow]
    groups = [{"params": network, "lr": options.network_learning_rate}] if network else []
    return torch.optim.Adam([*groups, {"params": rest, "lr": options.learning_rate}])


class VariationalParameters:
    """What the M-step learns by gradient besides the hyperparameters: Z, q(u), both or nothing.

    Z [M, D]; q(u) in whitened coordinates, m [M] and a lower triangular root [M, M]. They have an
    Adam optimiser of their own, which lasts until other inducing inputs are chosen, because its
    moments belong to them.
    """

    def __init__(
        self, Z: Tensor | None, m: Tensor | None, root: Tensor | None, learning_rate: float
    ) -> None:
        self.Z, self.m, self.root = Z, m, root
        for leaf in self.leaves:
            leaf.requires_grad_()
        self.optimizer = torch.optim.Adam(self.leaves, lr=learning_rate) if self.leaves else None

    @classmethod
    @torch.no_grad()
    def of(
        cls, model: SparseGP, learns: frozenset[str], learning_rate: float
    ) -> VariationalParameters:
        """Variables that start at the model's Z and q(u)."""
        m, root = model.whitened_posterior() if "q" in learns else (None, None)
        return cls(model.Z.clone() if "Z" in learns else None, m, root, learning_rate)

    @property
    def leaves(self) -> list[Tensor]:
        """The learned tensors."""
        return [leaf for leaf in (self.Z, self.m, self.root) if leaf is not None]

    @torch.no_grad()
    def hand_over(self, model: SparseGP) -> None:
        """Write the learned values into the model."""
        if self.Z is not None:
            model.move(self.Z.detach().clone())
        if self.m is not None and self.root is not None:
            L = model.prior()[1].L
            model.condition(model.Z, Posterior.of_whitened(L, self.m, self.root.tril()))
        model.hyperparameters_changed()

    def state(self) -> dict[str, Any]:
        """What ``restored`` needs; copies, because training modifies the leaves."""
        leaves = {"Z": self.Z, "m": self.m, "root": self.root}
        copies = {n: None if t is None else t.detach().clone() for n, t in leaves.items()}
        return {**copies, "optimizer": self.optimizer and parameters_of(self.optimizer)}

    @classmethod
    def restored(
        cls, tree: Mapping[str, Any] | None, learning_rate: float, device: torch.device
    ) -> VariationalParameters | None:
        """The object that ``state`` was taken of."""
        if tree is None:
            return None
        Z, m, root = (
            None if tree[name] is None else tree[name].to(device, copy=True)
            for name in ("Z", "m", "root")
        )
        learned = cls(Z, m, root, learning_rate)
        if learned.optimizer is not None:
            put_parameters(learned.optimizer, tree.get("optimizer", {}))
        return learned


@dataclass
class MStep:
    """What an objective reads. ``pseudo``: computed once for all steps."""

    model: SparseGP
    inputs: EpochInput
    learned: VariationalParameters
    minibatch: int
    generator: torch.Generator
    pseudo: PseudoData | None = None

    @property
    def Z(self) -> Tensor:
        """The inducing inputs, whether learned or fixed [M, D]."""
        return self.model.Z if self.learned.Z is None else self.learned.Z

    def pseudo_data(self, before: EpochState) -> PseudoData:
        """The old posterior as pseudo data, computed once for all steps."""
        self.pseudo = self.pseudo or PseudoData.of(before, self.model.factorise)
        return self.pseudo

    def draw(self) -> Dataset:
        """A mini-batch drawn uniformly from all data, with replacement."""
        data = self.inputs.data
        index = torch.randint(len(data), (self.minibatch,), generator=self.generator)
        return data[index.to(data.X.device)]

    def covariances(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Kuu with jitter [M, M], Kuf [M, N] and kff [N] for X [N, D]."""
        kernel, Z = self.model.kernel, self.Z
        Kuu, Kuf = kernel.inducing_covariances(Z, X)
        return add_jitter(Kuu, self.model.jitter), Kuf, kernel.forward(X, X, diag=True)

    def parameters(self) -> list[Tensor]:
        """Everything that the M-step learns."""
        return [*self.model.parameters(), *self.learned.leaves]


#: L-BFGS-B has converged when an iteration improves the loss by less than this, relatively.
CONVERGED = 1e-5

Objective = Callable[[MStep], Tensor]
Train = Callable[
    [MStep, Objective, torch.optim.Optimizer, int, "StopCondition | None"], list[float]
]


def minibatch_elbo(step: MStep) -> Tensor:
    """The mini-batch ELBO (Eqs. 8 and 9), q(u) fixed."""
    model, batch = step.model, step.draw()
    assert model.q is not None
    Kuu, Kuf, kff = step.covariances(batch.X)
    return elbo_loss(
        Kuu, Kuf, kff, model.noise, batch.y, model.q, len(step.inputs.data), model.factorise
    )


def whitened_elbo(step: MStep) -> Tensor:
    """The mini-batch ELBO, q(u) learned."""
    model, batch, learned = step.model, step.draw(), step.learned
    assert learned.m is not None and learned.root is not None
    K = step.covariances(batch.X)
    return whitened_elbo_loss(
        *K, model.noise, batch.y, learned.m, learned.root, len(step.inputs.data), model.factorise
    )


def online_elbo(step: MStep) -> Tensor:
    """The online ELBO of the new data, with the old posterior in place of old data (App. A-B)."""
    model, new, before, old = step.model, step.inputs.new, step.inputs.old, None
    if before is not None:
        at_old = step.inputs.inducing.at(step.Z)
        Koo = add_jitter(model.kernel.forward(before.Z, before.Z), model.jitter)
        Kuo = cross_covariance(before, at_old, model.jitter).mT
        old = PreviousPosterior(Kuo, Koo, step.pseudo_data(before))
    K = step.covariances(new.X)
    return online_elbo_loss(*K, model.noise, new.y, old, model.factorise)


def collapsed_elbo(step: MStep) -> Tensor:
    """The collapsed ELBO of all data (Eq. 5)."""
    model, data = step.model, step.inputs.data
    return online_elbo_loss(*step.covariances(data.X), model.noise, data.y, None, model.factorise)


def marginal_likelihood(step: MStep) -> Tensor:
    """The marginal likelihood of the exact GP, of all data (Eq. 3)."""
    model, data = step.model, step.inputs.data
    Kff = model.kernel.forward(data.X, data.X)
    return marginal_likelihood_loss(Kff, model.noise, data.y, model.factorise)


def adam(
    step: MStep,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    steps: int,
    enough: StopCondition | None = None,
) -> list[float]:
    """Take steps of Adam, unless ``enough`` ends them early; returns the losses.

    Raises:
        CholeskyError: a matrix is not positive definite.
    """
    optimizers = [o for o in (optimizer, step.learned.optimizer) if o is not None]
    losses = []
    for _ in until(steps, enough):
        loss = objective(step)
        for each in optimizers:
            each.zero_grad(set_to_none=True)
        loss.backward()
        for each in optimizers:
            each.step()
        losses.append(loss.item())
    return losses


def lbfgs(
    step: MStep,
    objective: Objective,
    optimizer: torch.optim.Optimizer,
    steps: int,
    enough: StopCondition | None = None,
) -> list[float]:
    """Run L-BFGS-B to convergence, unless ``steps`` is 0; ``enough`` is ignored.

    Where a line search reaches a matrix that is not positive definite, the loss is infinite.

    Returns:
        The losses.

    Raises:
        CholeskyError: a matrix is not positive definite at the start.
    """
    if not steps:
        return []
    parameters = step.parameters()
    losses: list[float] = []

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        _assign(parameters, x)
        for parameter in parameters:
            parameter.grad = None
        try:
            loss = objective(step)
        except CholeskyError:
            if not losses:
                raise
            return np.inf, np.zeros_like(x)
        loss.backward()
        losses.append(loss.item())
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        return losses[-1], _flat(gradients)

    start = _flat(parameters)
    result = minimize(evaluate, start, jac=True, method="L-BFGS-B", options={"ftol": CONVERGED})
    usable = bool(np.isfinite(result.fun) and np.isfinite(result.x).all())
    _assign(parameters, result.x if usable else start)
    return losses


def _flat(tensors: list[Tensor]) -> np.ndarray:
    return torch.cat([t.detach().reshape(-1) for t in tensors]).cpu().numpy().copy()


@torch.no_grad()
def _assign(parameters: list[Tensor], x: np.ndarray) -> None:
    values = torch.as_tensor(x)
    for parameter, value in zip(
        parameters, values.split([p.numel() for p in parameters]), strict=True
    ):
        parameter.copy_(value.reshape(parameter.shape))


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
        P = trsm(L, trsm(L, W, transposed=True).mT, transposed=True)
        return cls(L, w, W, 0.5 * (P + P.mT), constant)


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
