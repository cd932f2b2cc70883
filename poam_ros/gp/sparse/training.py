"""The M-step: a few steps of Adam on mini-batches of all data, and what other methods do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ...errors import CholeskyError
from ..data import Dataset
from ..linalg.factors import add_jitter
from .bounds import OldData, PseudoData, marginal_likelihood_loss, online_elbo_loss
from .inducing import Inducing
from .model import Posterior, SparseGP
from .objectives import elbo_loss, whitened_elbo_loss
from .variational import Epoch, cross_covariance


def make_optimizer(
    model: SparseGP, learning_rate: float, network_learning_rate: float
) -> torch.optim.Adam:
    """Adam with the network slow and the rest (amplitude, noise) fast; its state lives on.

    A slow network lets the robot explore before it believes in a lengthscale map (Sec. IV-D).
    """
    network = [] if model.kernel.network is None else list(model.kernel.network.parameters())
    slow = {id(p) for p in network}
    rest = [p for p in model.parameters() if id(p) not in slow]
    groups = [{"params": network, "lr": network_learning_rate}] if network else []
    return torch.optim.Adam([*groups, {"params": rest, "lr": learning_rate}])


class Learned:
    """What the M-step learns by gradient beside the hyperparameters: Z, q(u), both or nothing.

    Z [M, D]; q(u) in whitened coordinates, m [M] and a lower triangular root [M, M]. Their Adam
    lives as long as the inducing inputs are kept: its moments belong to points, not to places in
    a matrix.
    """

    @torch.no_grad()
    def __init__(self, model: SparseGP, learns: frozenset[str], learning_rate: float) -> None:
        self.Z: Tensor | None = None
        self.m: Tensor | None = None
        self.root: Tensor | None = None
        if "Z" in learns:
            self.Z = model.Z.clone().requires_grad_()
        if "q" in learns:
            self.m, self.root = (leaf.requires_grad_() for leaf in model.whitened_posterior())
        self.optimizer = torch.optim.Adam(self.leaves, lr=learning_rate) if self.leaves else None

    @property
    def leaves(self) -> list[Tensor]:
        """What is learned."""
        return [leaf for leaf in (self.Z, self.m, self.root) if leaf is not None]

    @torch.no_grad()
    def hand_over(self, model: SparseGP) -> None:
        """Give the model what was learned."""
        if self.Z is not None:
            model.Z = self.Z.detach().clone()
        if self.m is not None and self.root is not None:
            model.q = Posterior.of_whitened(model.prior()[1].L, self.m, self.root.tril())
        model.hyperparameters_changed()


@dataclass
class MStep:
    """What an objective may look at. ``base``, ``pseudo``: what it computes once for all steps."""

    model: SparseGP
    old: Epoch | None
    inducing: Inducing
    new: Dataset
    data: Dataset
    learned: Learned
    minibatch: int
    generator: torch.Generator
    base: Tensor | None = None
    pseudo: PseudoData | None = None

    @property
    def Z(self) -> Tensor:
        """The inducing inputs, learned or not [M, D]."""
        return self.model.Z if self.learned.Z is None else self.learned.Z

    def draw(self) -> Dataset:
        """A mini-batch of all data, uniform, with replacement."""
        index = torch.randint(len(self.data), (self.minibatch,), generator=self.generator)
        return self.data[index.to(self.data.X.device)]

    def covariances(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Kuu with jitter [M, M], Kuf [M, N] and kff [N] for X [N, D]."""
        kernel, Z = self.model.kernel, self.Z
        if self.learned.Z is None and self.base is None:
            self.base = kernel.prepare(Z, Z)
        Kuu, Kuf = kernel.inducing_covariances(Z, X, self.base)
        return add_jitter(Kuu, self.model.jitter), Kuf, kernel.forward(X, X, diag=True)

    def parameters(self) -> list[Tensor]:
        """Everything that is learned."""
        return [*self.model.parameters(), *self.learned.leaves]


#: L-BFGS-B has converged when an iteration gains less than this, relatively.
CONVERGED = 1e-5

Objective = Callable[[MStep], Tensor]
Train = Callable[[MStep, Objective, torch.optim.Optimizer, int], list[float]]


def minibatch_elbo(step: MStep) -> Tensor:
    """The mini-batch ELBO (Eqs. 8 and 9), q(u) fixed."""
    model, batch = step.model, step.draw()
    assert model.q is not None
    Kuu, Kuf, kff = step.covariances(batch.X)
    return elbo_loss(Kuu, Kuf, kff, model.noise, batch.y, model.q, len(step.data), model.factorise)


def whitened_elbo(step: MStep) -> Tensor:
    """The mini-batch ELBO, q(u) learned."""
    model, batch, learned = step.model, step.draw(), step.learned
    assert learned.m is not None and learned.root is not None
    K = step.covariances(batch.X)
    return whitened_elbo_loss(
        *K, model.noise, batch.y, learned.m, learned.root, len(step.data), model.factorise
    )


def online_elbo(step: MStep) -> Tensor:
    """The online ELBO of the new data, with what the old posterior says of the old (App. A-B)."""
    model, new, old = step.model, step.new, None
    if step.old is not None:
        step.pseudo = step.pseudo or PseudoData.of(step.old, model.factorise)
        at_old = step.inducing.at(step.Z)
        Z_old = step.old.Z
        Koo = add_jitter(model.kernel.forward(Z_old, Z_old), model.jitter)
        old = OldData(cross_covariance(step.old, at_old, model.jitter).mT, Koo, step.pseudo)
    K = step.covariances(new.X)
    return online_elbo_loss(*K, model.noise, new.y, old, model.factorise)


def collapsed_elbo(step: MStep) -> Tensor:
    """The collapsed ELBO of all data (Eq. 5)."""
    model, data = step.model, step.data
    return online_elbo_loss(*step.covariances(data.X), model.noise, data.y, None, model.factorise)


def marginal_likelihood(step: MStep) -> Tensor:
    """The exact GP's, of all data (Eq. 3)."""
    model, data = step.model, step.data
    Kff = model.kernel.forward(data.X, data.X)
    return marginal_likelihood_loss(Kff, model.noise, data.y, model.factorise)


def adam(
    step: MStep, objective: Objective, optimizer: torch.optim.Optimizer, steps: int
) -> list[float]:
    """Some steps of Adam; returns the losses.

    Raises:
        CholeskyError: if a matrix is beyond repair.
    """
    optimizers = [o for o in (optimizer, step.learned.optimizer) if o is not None]
    losses = []
    for _ in range(steps):
        loss = objective(step)
        for each in optimizers:
            each.zero_grad(set_to_none=True)
        loss.backward()
        for each in optimizers:
            each.step()
        losses.append(loss.item())
    return losses


def lbfgs(
    step: MStep, objective: Objective, optimizer: torch.optim.Optimizer, steps: int
) -> list[float]:
    """L-BFGS-B until convergence; ``steps`` = 0 leaves everything as it is.

    Where a line search goes so far that a matrix breaks, the loss counts as infinite.

    Returns:
        The losses.

    Raises:
        CholeskyError: if a matrix is beyond repair at the start.
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
