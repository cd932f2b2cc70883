"""Algorithm 1's model update, one decision epoch at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from ...core.maps import StopCondition, UpdateReport
from ...core.settings import flat
from ..interface import Dataset, DataStore, ModelState, OnlineModel, Prediction
from ..kernels import KERNELS
from . import inducing, training, variational
from .inducing import SelectionInput
from .methods import Method, SparseOptions
from .model import Posterior, SparseGP
from .training import MStep, VariationalParameters, make_optimizer
from .variational import EpochInput, EpochState, packed, parameters_of, put_parameters, unpacked


def resolved(method: Method) -> Method:
    """A row of ``METHODS`` with its functions in place of their names."""
    modules = {"select": inducing, "update": variational, "objective": training, "train": training}
    return replace(method, **{n: getattr(of, getattr(method, n)) for n, of in modules.items()})


def build(
    method: Method, options: SparseOptions, seed: int, device: torch.device | str
) -> OnlineSparseGP:
    """A model by a row of ``METHODS``. The seed spawns three independent generators."""
    network, minibatches, drawn = (
        torch.Generator().manual_seed(int(state))
        for state in np.random.SeedSequence(seed).generate_state(3)
    )
    kernel = KERNELS[options.kernel](options, network)
    model = SparseGP(kernel, options.noise_variance, options.jitter).to(device)
    return OnlineSparseGP(model, resolved(method), options, minibatches, drawn)


class OnlineSparseGP(OnlineModel):
    """A sparse GP that learns batch by batch.

    Args:
        model: kernel, noise and jitter at their initial values; owned by this object.
        method: how Z, q(u) and the hyperparameters are updated; ``resolved``.
        options: number of inducing inputs, training steps, learning rates.
        minibatches: draws the mini-batches.
        drawn: draws random inducing inputs, if the method has any.
    """

    def __init__(
        self,
        model: SparseGP,
        method: Method,
        options: SparseOptions,
        minibatches: torch.Generator,
        drawn: torch.Generator,
    ) -> None:
        self.model, self.method, self.options = model, method, options
        self._generators = {"minibatches": minibatches, "inducing": drawn}
        self._optimizer = make_optimizer(model, options)
        self._store = DataStore(Dataset(model.noise.new_empty(0, 2), model.noise.new_empty(0)))
        self._learned: VariationalParameters | None = None
        self.epoch: EpochState | None = None

    @property
    def data(self) -> Dataset:
        """All data so far; a view."""
        return self._store.data

    @property
    def support(self) -> Tensor:
        """The inducing inputs Z [M, D]."""
        return self.model.Z

    @property
    def extra_jitter(self) -> float:
        """Largest jitter added beyond the setting since the last update began."""
        return self.model.extra_jitter

    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D], with or without the noise."""
        return self.model.predict(X, noise)

    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows]."""
        return self.model.predict_grid(x, y, noise)

    def covariance(self, X: Tensor, noise: bool = True) -> Tensor:
        """The joint predictive covariance at X [N, D], [N, N]."""
        return self.model.covariance(X, noise)

    @torch.no_grad()
    def fields(self, X: Tensor) -> Mapping[str, Tensor]:
        """The kernel's lengthscale at X [N, D], [N]."""
        return {"lengthscale": self.model.kernel.lengthscale_at(X)}

    def update(self, new: Dataset, enough: StopCondition | None = None) -> UpdateReport:
        """One epoch: choose Z, update q(u), then take training steps; ``enough`` may end them.

        Raises:
            ValueError: the data have noise of their own, which sparse models do not support.
            CholeskyError: a matrix is not positive definite.
        """
        if new.noise is not None:
            raise ValueError(
                "OnlineSparseGP.update: expected a Dataset without noise of its own, which "
                "sparse models do not support"
            )
        start, self.model.extra_jitter = perf_counter(), 0.0
        self._store.append(new)
        with torch.no_grad():
            chosen = self.method.select(self._selection_input(new))
        inputs = EpochInput(self.epoch, chosen, new, self.data)
        if not chosen.unchanged:
            self._learned = None
        selected = perf_counter()
        if self.method.train_first:
            self.model.move(chosen.Z)
            losses = self._m_step(inputs, enough)
            trained = perf_counter()
            # Update q(u) for the learned hyperparameters and Z.
            self._condition(replace(inputs, inducing=chosen.at(self.model.Z)))
            parts = (selected - start, perf_counter() - trained, trained - selected)
        else:
            self._condition(inputs)
            updated = perf_counter()
            losses = self._m_step(inputs, enough)
            parts = (selected - start, updated - selected, perf_counter() - updated)
        return self._report(
            dict(zip(("inducing", "variational", "training"), parts, strict=True)), losses
        )

    def _selection_input(self, new: Dataset) -> SelectionInput:
        Z_old = new.X[:0] if self.epoch is None else self.model.Z
        num_inducing, tolerance = self.options.num_inducing, self.options.tolerance
        kernel, generator = self.model.kernel, self._generators["inducing"]
        return SelectionInput(kernel, Z_old, new.X, self.data.X, num_inducing, tolerance, generator)

    def _condition(self, given: EpochInput) -> None:
        with torch.no_grad():
            self.epoch, q = self.method.update(self.model, given)
        self.model.condition(self.epoch.Z, q)

    def _m_step(self, inputs: EpochInput, enough: StopCondition | None) -> list[float]:
        """Take the steps of an M-step; returns the losses."""
        if self._learned is None:
            self._learned = VariationalParameters.of(
                self.model, self.method.learns, self.options.learning_rate
            )
        minibatch, generator = self.options.minibatch, self._generators["minibatches"]
        step = MStep(self.model, inputs, self._learned, minibatch, generator)
        losses = self.method.train(
            step, self.method.objective, self._optimizer, self.options.steps, enough
        )
        self._learned.hand_over(self.model)
        return losses

    def _report(self, seconds: Mapping[str, float], losses: list[float]) -> UpdateReport:
        return UpdateReport(
            seconds,
            steps=len(losses),
            support=len(self.model.Z),
            noise_std=self.model.noise.sqrt().item(),
            jitter=self.extra_jitter,
            loss=sum(losses) / len(losses) if losses else float("nan"),
        )

    def state(self) -> ModelState:
        """What ``restore`` needs. Learned values are few and copied; the rest is never modified in
        place."""
        model, learned = self.model, self._learned
        tree = {
            "parameters": {name: t.clone() for name, t in model.state_dict().items()},
            "optimizer": parameters_of(self._optimizer),
            "generators": {name: g.get_state() for name, g in self._generators.items()},
            "extra_jitter": model.extra_jitter,
            "Z": model.Z,
            "q": packed(model.q),
            "epoch": packed(self.epoch),
            "learned": None if learned is None else learned.state(),
            "data": packed(self.data),
        }
        return ModelState(tree)

    def restore(self, state: ModelState) -> None:
        """Restore the state of a model with the same method and options, bit for bit."""
        tree, model, device = state.tree, self.model, self.model.noise.device
        model.load_state_dict(flat(tree["parameters"]))
        put_parameters(self._optimizer, tree.get("optimizer", {}))
        for name, generator in self._generators.items():
            generator.set_state(tree["generators"][name])
        model.condition(tree["Z"].to(device), unpacked(Posterior, tree["q"], device))
        model.extra_jitter = tree["extra_jitter"]
        self.epoch = unpacked(EpochState, tree["epoch"], device)
        self._store = DataStore(unpacked(Dataset, tree["data"], device))
        self._learned = VariationalParameters.restored(
            tree["learned"], self.options.learning_rate, device
        )
