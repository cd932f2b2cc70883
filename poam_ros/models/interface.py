"""Protocols of a map model in scaled units (X in [-1, 1], y standardised), and its states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Generator, Tensor

from ..core.land import Land
from ..core.maps import StopCondition, UpdateReport
from ..core.samples import Samples
from .data import Dataset, Prediction


@dataclass(frozen=True)
class ModelState:
    """The complete state of an online model: restored, it continues as if it had never stopped.

    ``tree``: nested mappings of tensors, numbers, texts and None, by name. Its tensors are never
    modified in place: the model replaces them, or modifies copies.
    """

    tree: Mapping[str, Any]


@dataclass(frozen=True)
class MapperState:
    """What ``BathymetricMapper.restore`` needs.

    ``offset``, ``deviation``: target scaling, in m; ``trust``: factor of the prior, and the number
    of pings that it is learned from next.
    """

    model: ModelState
    offset: float
    deviation: float
    samples: Samples
    trust: tuple[float, int] = (1.0, 0)


class OnlineModel(Protocol):
    """A model that learns batch by batch.

    After an exception from ``update`` or ``train`` the model is as before the call.
    """

    @property
    def data(self) -> Dataset:
        """All data so far."""

    @property
    def support(self) -> Tensor:
        """Inducing inputs or a similar choice of points, for figures [M, D]; M = 0 for none."""

    @property
    def extra_jitter(self) -> float:
        """Largest jitter added beyond the setting since the last update began."""

    def update(self, new: Dataset, enough: StopCondition | None = None) -> UpdateReport:
        """Learn from new data. The caller fills ``samples``, ``batch`` and ``update_s``.

        ``enough`` may only end the training early: the same number of steps from the same state
        gives the same update. A training without counted steps ignores it.

        Raises:
            ValueError: the data have noise of their own, which the model does not support.
            CholeskyError: a matrix is not positive definite.
        """

    def train(self, steps: int) -> UpdateReport:
        """Take further training steps without new data.

        Raises:
            ValueError: there are no data yet.
            CholeskyError: a matrix is not positive definite.
        """

    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D], each [N]; with or without the noise."""

    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows]."""

    def covariance(self, X: Tensor, noise: bool = True) -> Tensor | None:
        """The joint predictive covariance at X [N, D], [N, N]; None if not supported."""

    def fields(self, X: Tensor) -> Mapping[str, Tensor]:
        """Further quantities at X [N, D], by name, each [N]; ``lengthscale`` in scaled units."""

    def state(self) -> ModelState:
        """What ``restore`` needs. Cheap: nothing large is copied."""

    def restore(self, state: ModelState) -> None:
        """Restore the state of a model with the same settings, bit for bit."""


@runtime_checkable
class SupportsCalibration(Protocol):
    """A model that can calibrate its variances by leaving out segments of its data."""

    def calibrate(self, stretches: int) -> None:
        """Scale predictive variances until the next ``update`` or ``train``.

        The scale comes from predicting each of ``stretches`` segments of the data from the others.

        Raises:
            CholeskyError: a matrix is not positive definite.
        """


@runtime_checkable
class SupportsForgetting(Protocol):
    """A model that data can be taken out of, without training again."""

    def keep(self, rows: Tensor) -> None:
        """Forget all data but those of some rows, [N] boolean; hyperparameters stay."""


@runtime_checkable
class SupportsRetargeting(Protocol):
    """A model whose targets can be changed, without training anew."""

    def retarget(self, y: Tensor) -> None:
        """Give all data so far these targets [N]; hyperparameters stay."""


@runtime_checkable
class SupportsLand(Protocol):
    """A model that uses no data across land; other models ignore land."""

    def set_land(self, land: Land) -> None:
        """Ignore data across this land, in the model's coordinates, from now on."""


class Drawn(NamedTuple):
    """Places [G, D], and joint draws there less their mean [count, G]."""

    X: Tensor
    deviations: Tensor


@runtime_checkable
class SupportsSampling(Protocol):
    """A model that draws maps jointly at more places than a covariance can be factorised for."""

    def deviations(self, X: Tensor, count: int, generator: Generator, given: Drawn) -> Tensor:
        """Joint draws at X [N, D] less their mean, without noise [count, N], given others.

        Raises:
            CholeskyError: a matrix is not positive definite.
        """


def until(steps: int, enough: StopCondition | None) -> Iterator[int]:
    """Count training steps, ``steps`` or fewer if ``enough`` says so."""
    for taken in range(steps):
        if enough is not None and enough(taken):
            return
        yield taken
