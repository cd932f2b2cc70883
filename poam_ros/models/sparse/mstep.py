"""The state of an M-step: optimisers, learned variables, and the inputs of an objective."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..data import Dataset
from ..linalg import add_jitter
from .bounds import PseudoData
from .methods import SparseOptions
from .model import Posterior, SparseGP
from .variational import EpochInput, EpochState, parameters_of, put_parameters


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
    """What an objective reads. ``base``, ``pseudo``: computed once for all steps."""

    model: SparseGP
    inputs: EpochInput
    learned: VariationalParameters
    minibatch: int
    generator: torch.Generator
    base: Tensor | None = None
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
        if self.learned.Z is None and self.base is None:
            self.base = kernel.prepare(Z, Z)
        Kuu, Kuf = kernel.inducing_covariances(Z, X, self.base)
        return add_jitter(Kuu, self.model.jitter), Kuf, kernel.forward(X, X, diag=True)

    def parameters(self) -> list[Tensor]:
        """Everything that the M-step learns."""
        return [*self.model.parameters(), *self.learned.leaves]
