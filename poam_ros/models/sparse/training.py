"""An M-step: its state, what each method minimises, and the optimisation by Adam or L-BFGS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ...core.errors import CholeskyError
from ...core.maps import StopCondition
from ..interface import Dataset, until
from ..linalg import add_jitter
from .methods import SparseOptions
from .model import Posterior, SparseGP
from .objectives import (
    PreviousPosterior,
    PseudoData,
    elbo_loss,
    marginal_likelihood_loss,
    online_elbo_loss,
    whitened_elbo_loss,
)
from .variational import EpochInput, EpochState, cross_covariance, parameters_of, put_parameters


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
            put_parameters(learned.optimizer, tree["optimizer"])
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
