"""What mapping needs of a map model. All in scaled units: X in [-1, 1], y standardised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from torch import Generator, Tensor

from ..core.maps import Enough, UpdateReport
from .data import Dataset, Prediction


@dataclass(frozen=True)
class ModelState:
    """Everything an online model would need to go on as if it had never stopped.

    ``tree``: nested mappings of tensors, numbers, texts and None, by name. Tensors in it are never
    written into: the model replaces them, or copies what it writes into.
    """

    tree: Mapping[str, Any]


class OnlineModel(Protocol):
    """A model that takes data batch by batch.

    After an exception from ``update`` or ``train`` it stands as before the call.
    """

    @property
    def data(self) -> Dataset:
        """All data so far."""

    @property
    def support(self) -> Tensor:
        """Points that the model leans on, to be drawn [M, D]; M = 0 for a model without."""

    @property
    def extra_jitter(self) -> float:
        """Largest jitter beyond the set one since the last update began."""

    def update(self, new: Dataset, enough: Enough | None = None) -> UpdateReport:
        """Learn from new data (``samples``, ``batch`` and ``update_s`` are left to the caller).

        ``enough`` may end the training early, and nothing else: the same number of steps from the
        same state is the same update. A training that does not count steps is not ended.

        Raises:
            ValueError: the data have noise of their own, and the model's row says it takes none.
            CholeskyError: a matrix is beyond repair.
        """

    def train(self, steps: int) -> UpdateReport:
        """Some more training steps on the data there are, without new ones.

        Raises:
            ValueError: there are no data yet.
            CholeskyError: a matrix is beyond repair.
        """

    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D], each [N]; with or without the noise."""

    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows]."""

    def covariance(self, X: Tensor, noise: bool = True) -> Tensor | None:
        """The joint predictive covariance at X [N, D], [N, N]; None where it has none to give."""

    def fields(self, X: Tensor) -> Mapping[str, Tensor]:
        """What else it knows of X [N, D], each [N]; ``lengthscale`` in the inputs' unit."""

    def state(self) -> ModelState:
        """What ``restore`` needs. Cheap: nothing large is copied."""

    def restore(self, state: ModelState) -> None:
        """Go on from a state of a model that was built alike, bit for bit."""


@runtime_checkable
class Calibrated(Protocol):
    """A model that can say how far off it is where whole stretches of its data are missing."""

    def calibrate(self, stretches: int) -> None:
        """Widen predictive variances, until the next ``update`` or ``train``, by what predictions
        of so many stretches of the data from the others ask for.

        Raises:
            CholeskyError: a matrix is beyond repair.
        """


@runtime_checkable
class Sampling(Protocol):
    """A model that draws maps jointly at more places than a covariance can be factorised for."""

    def sample(self, X: Tensor, count: int, generator: Generator) -> Tensor:
        """Joint draws at X [N, D], without noise [count, N].

        Raises:
            CholeskyError: a matrix is beyond repair.
        """


def until(steps: int, enough: Enough | None) -> Iterator[int]:
    """Counts training steps: so many, or until there are enough of them."""
    for taken in range(steps):
        if enough is not None and enough(taken):
            return
        yield taken
