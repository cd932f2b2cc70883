"""Objectives and optimisation of an M-step: Adam on mini-batches, or L-BFGS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ...core.errors import CholeskyError
from ...core.maps import StopCondition
from ..interface import until
from ..linalg import add_jitter
from .bounds import PreviousPosterior, marginal_likelihood_loss, online_elbo_loss
from .mstep import MStep
from .objectives import elbo_loss, whitened_elbo_loss
from .variational import cross_covariance

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
