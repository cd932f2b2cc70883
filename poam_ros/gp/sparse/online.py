"""Algorithm 1's model update, one decision epoch at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ...errors import CholeskyError
from ..data import Dataset, DataStore, Prediction
from .inducing import Choice, Inducing
from .methods import Method
from .model import SparseGP
from .training import Learned, MStep, make_optimizer
from .variational import Epoch, Evidence


@dataclass(frozen=True)
class UpdateTimes:
    """Wall time of the parts of one update, in seconds, and the mean loss of its M-step."""

    inducing_s: float
    variational_s: float
    training_s: float
    loss: float


class OnlineSparseGP:
    """A sparse GP that takes data batch by batch, in time that does not grow with them.

    Args:
        model: kernel, noise and jitter at their initial values; this object owns it.
        method: how Z and q(u) are updated.
        num_inducing: M, at most.
        tolerance: where the choice of Z stops, relative to the amplitude.
        steps, minibatch: of the M-step.
        learning_rate, network_learning_rate: Adam's, for the rest and for the network.
        generator: draws the mini-batches.
        inducing_generator: draws inducing inputs, where the method draws any.
    """

    def __init__(
        self,
        model: SparseGP,
        method: Method,
        *,
        num_inducing: int = 500,
        tolerance: float = 1e-5,
        steps: int = 10,
        minibatch: int = 256,
        learning_rate: float = 1e-2,
        network_learning_rate: float = 1e-3,
        generator: torch.Generator,
        inducing_generator: torch.Generator | None = None,
    ) -> None:
        self.model = model
        self.method = method
        self.num_inducing = num_inducing
        self.tolerance = tolerance
        self.steps = steps
        self.minibatch = minibatch
        self.generator = generator
        self.inducing_generator = inducing_generator or torch.Generator()
        self.learning_rate = learning_rate
        self.optimizer = make_optimizer(model, learning_rate, network_learning_rate)
        self.learned: Learned | None = None
        self.store: DataStore | None = None
        self.epoch: Epoch | None = None

    @property
    def num_data(self) -> int:
        """N, the number of data so far."""
        return 0 if self.store is None else len(self.store)

    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D], with or without the noise."""
        return self.model.predict(X, noise)

    def update(self, new: Dataset) -> UpdateTimes:
        """One epoch: choose Z, update q(u), then a few steps on the hyperparameters.

        Raises:
            CholeskyError: if a matrix is beyond repair. The model then stands as before the call.
        """
        before = self._snapshot()
        self.model.extra_jitter = 0.0
        try:
            return self._update(new)
        except CholeskyError:
            self._restore(before)
            raise

    def _update(self, new: Dataset) -> UpdateTimes:
        method, model, old, start = self.method, self.model, self.epoch, perf_counter()
        self._append(new)
        assert self.store is not None
        data = self.store.data
        with torch.no_grad():
            inducing = method.select(self._choice(new, data))
        selected = perf_counter()
        trained = 0.0
        loss = float("nan")
        if method.train_first:
            model.Z = inducing.Z
            loss = self._train(old, inducing, new, data)
            trained = perf_counter() - selected
            inducing = inducing.at(model.Z)
        with torch.no_grad():
            self.epoch, q = method.update(model, Evidence(old, inducing, new, data))
        model.condition(self.epoch.Z, q)
        updated = perf_counter()
        variational = updated - selected - trained
        if not method.train_first:
            loss = self._train(old, inducing, new, data)
            trained = perf_counter() - updated
        return UpdateTimes(selected - start, variational, trained, loss)

    def _append(self, new: Dataset) -> None:
        if self.store is None:
            self.store = DataStore(new)
        else:
            self.store.append(new)

    def _choice(self, new: Dataset, data: Dataset) -> Choice:
        Z_old = new.X[:0] if self.epoch is None else self.model.Z
        return Choice(
            self.model.kernel,
            Z_old,
            new.X,
            data.X,
            self.num_inducing,
            self.tolerance,
            self.inducing_generator,
        )

    def _train(self, old: Epoch | None, inducing: Inducing, new: Dataset, data: Dataset) -> float:
        """The M-step; returns the mean loss (NaN without steps)."""
        method, model = self.method, self.model
        if self.learned is None or not inducing.unchanged:
            self.learned = Learned(model, method.learns, self.learning_rate)
        step = MStep(model, old, inducing, new, data, self.learned, self.minibatch, self.generator)
        losses = method.train(step, method.objective, self.optimizer, self.steps)
        self.learned.hand_over(model)
        return sum(losses) / len(losses) if losses else float("nan")

    def _snapshot(self) -> tuple:
        # The parameters are few; Z, q(u) and the data terms are replaced, never written into.
        # What is learned beside the hyperparameters is written into, and copied.
        return (
            copy.deepcopy(self.model.state_dict()),
            copy.deepcopy(self.optimizer.state_dict()),
            (self.generator.get_state(), self.inducing_generator.get_state()),
            copy.deepcopy(self.learned),
            (self.model.Z, self.model.q, self.epoch, self.store, self.num_data),
        )

    def _restore(self, snapshot: tuple) -> None:
        parameters, optimizer, generators, learned, (Z, q, epoch, store, count) = snapshot
        self.model.load_state_dict(parameters)
        self.optimizer.load_state_dict(optimizer)
        self.generator.set_state(generators[0])
        self.inducing_generator.set_state(generators[1])
        self.learned = learned
        self.epoch, self.store = epoch, store
        if store is not None:
            store.truncate(count)
        self.model.Z, self.model.q = Z, q
        self.model.hyperparameters_changed()
