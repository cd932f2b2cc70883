"""Algorithm 1's model update, one decision epoch at a time."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ..errors import CholeskyError
from .data import Dataset, DataStore, Prediction
from .inducing import Candidates
from .methods import Method
from .model import SparseGP
from .training import make_optimizer, train
from .variational import Epoch


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
    ) -> None:
        self.model = model
        self.method = method
        self.num_inducing = num_inducing
        self.tolerance = tolerance
        self.steps = steps
        self.minibatch = minibatch
        self.generator = generator
        self.optimizer = make_optimizer(model, learning_rate, network_learning_rate)
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
        start = perf_counter()
        with torch.no_grad():
            Z_old = new.X[:0] if self.epoch is None else self.epoch.Z
            candidates = Candidates.of(self.model.kernel, Z_old, new.X)
            amplitude = self.model.kernel.amplitude.item()
            chosen = self.method.select(candidates, amplitude, self.num_inducing, self.tolerance)
            selected = perf_counter()
            epoch, q = self.method.update(self.model, self.epoch, candidates, chosen, new.y)
        self.epoch = epoch
        self.model.condition(epoch.Z, q)
        if self.store is None:
            self.store = DataStore(new)
        else:
            self.store.append(new)
        updated = perf_counter()
        loss = train(
            self.model, self.store.data, self.optimizer, self.steps, self.minibatch, self.generator
        )
        return UpdateTimes(selected - start, updated - selected, perf_counter() - updated, loss)

    def _snapshot(self) -> tuple:
        # The parameters are few; Z, q(u) and the data terms are replaced, never written into.
        return (
            copy.deepcopy(self.model.state_dict()),
            copy.deepcopy(self.optimizer.state_dict()),
            self.generator.get_state(),
            (self.model.Z, self.model.q, self.epoch, self.store, self.num_data),
        )

    def _restore(self, snapshot: tuple) -> None:
        parameters, optimizer, generator, (Z, q, epoch, store, count) = snapshot
        self.model.load_state_dict(parameters)
        self.optimizer.load_state_dict(optimizer)
        self.generator.set_state(generator)
        self.epoch, self.store = epoch, store
        if store is not None:
            store.truncate(count)
        self.model.Z, self.model.q = Z, q
        self.model.hyperparameters_changed()
