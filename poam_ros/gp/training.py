"""The M-step: a few steps of Adam on mini-batches of all data."""

from __future__ import annotations

import torch

from .data import Dataset
from .linalg import add_jitter
from .model import SparseGP
from .objectives import elbo_loss


def make_optimizer(
    model: SparseGP, learning_rate: float, network_learning_rate: float
) -> torch.optim.Adam:
    """Adam with the network slow and the rest (amplitude, noise) fast; its state lives on.

    A slow network lets the robot explore before it believes in a lengthscale map (Sec. IV-D).
    """
    network = list(model.kernel.network.parameters())
    slow = {id(p) for p in network}
    rest = [p for p in model.parameters() if id(p) not in slow]
    return torch.optim.Adam(
        [{"params": network, "lr": network_learning_rate}, {"params": rest, "lr": learning_rate}]
    )


def train(
    model: SparseGP,
    data: Dataset,
    optimizer: torch.optim.Optimizer,
    steps: int,
    minibatch: int,
    generator: torch.Generator,
) -> float:
    """Maximise the mini-batch ELBO in the hyperparameters; Z, m and S stay as they are.

    Mini-batches of ``minibatch`` data are drawn uniformly, with replacement, by ``generator``.

    Returns:
        The mean loss over the steps (NaN when there are none).

    Raises:
        CholeskyError: if Kuu is beyond repair.
    """
    assert model.q is not None
    base = model.kernel.prepare(model.Z, model.Z)
    losses = []
    for _ in range(steps):
        index = torch.randint(len(data), (minibatch,), generator=generator)
        batch = data[index.to(data.X.device)]
        Kuu = add_jitter(model.kernel.forward(model.Z, model.Z, base=base), model.jitter)
        Kuf = model.kernel.forward(model.Z, batch.X)
        kff = model.kernel.forward(batch.X, batch.X, diag=True)
        loss = elbo_loss(Kuu, Kuf, kff, model.noise, batch.y, model.q, len(data), model.factorise)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    model.hyperparameters_changed()
    return sum(losses) / len(losses) if losses else float("nan")
