"""The base of a map model in scaled units (X in [-1, 1], y standardised), its data, predictions and
states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor, nn

from ..core.errors import InputError
from ..core.geometry import Land
from ..core.maps import StopCondition, UpdateReport
from ..core.samples import Samples
from ..core.settings import flat, nested
from .linalg import conditional_draws

#: Upper bound of a target's own noise variance, in units of the targets' variance.
WEIGHTLESS = 1e12


@dataclass(frozen=True)
class Dataset:
    """Inputs X [N, D] and targets y [N].

    noise [N]: variance of each target's own noise, which adds to the learned noise; 0 where it is
    unknown, None if it is unknown for all targets.

    Raises:
        ValueError: the shapes do not match.
    """

    X: Tensor
    y: Tensor
    noise: Tensor | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2 or self.y.shape != self.X.shape[:1]:
            raise ValueError(
                f"Dataset: expected X [N, D] and y [N], got {list(self.X.shape)} "
                f"and {list(self.y.shape)}"
            )
        if self.noise is not None and self.noise.shape != self.y.shape:
            raise ValueError(
                f"Dataset: expected noise [N] like y {list(self.y.shape)}, "
                f"got {list(self.noise.shape)}"
            )

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: Tensor | slice) -> Dataset:
        noise = None if self.noise is None else self.noise[index]
        return Dataset(self.X[index], self.y[index], noise)

    def more(self, new: Dataset) -> Dataset:
        """These data and new ones; both stay as they are."""
        noise = None
        if self.noise is not None or new.noise is not None:
            known = (torch.zeros_like(d.y) if d.noise is None else d.noise for d in (self, new))
            noise = torch.cat([*known])
        return Dataset(torch.cat([self.X, new.X]), torch.cat([self.y, new.y]), noise)


@dataclass(frozen=True)
class Prediction:
    """Means [N] and variances [N] of the predictive marginals."""

    mean: Tensor
    variance: Tensor


def grid_points(x: Tensor, y: Tensor) -> Tensor:
    """The points of a grid [rows * columns, 2], row by row, of x [columns] and y [rows]."""
    yy, xx = torch.meshgrid(y, x, indexing="ij")
    return torch.stack((xx.flatten(), yy.flatten()), dim=-1)


@dataclass(frozen=True)
class ModelState:
    """The complete state of an online model: restored, it continues as if it had never stopped.

    ``tree``: nested mappings of tensors, numbers, texts and None, by names without dots (where a
    name has some, as in a ``state_dict``, a restored tree is nested deeper). Its tensors are never
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


class Drawn(NamedTuple):
    """Places [G, D], and joint draws there less their mean [count, G]."""

    X: Tensor
    deviations: Tensor


class OnlineModel(ABC):
    """A model that learns batch by batch. What is not abstract has a default.

    After an exception from ``update``, ``keep`` or ``retarget`` it may be in any state: the caller
    restores it.

    Attributes:
        forgets: whether data can be taken out without training again, by ``keep``.
        retargets: whether targets can be changed without training anew, by ``retarget``.
    """

    forgets = retargets = False

    @property
    @abstractmethod
    def data(self) -> Dataset:
        """All data so far."""

    @property
    def support(self) -> Tensor:
        """Inducing inputs or a similar choice of points, for figures [M, D]; M = 0 for none."""
        return self.data.X[:0]

    @property
    def extra_jitter(self) -> float:
        """Largest jitter added beyond the setting since the last update began."""
        return 0.0

    @abstractmethod
    def update(self, new: Dataset, enough: StopCondition | None = None) -> UpdateReport:
        """Learn from new data. The caller fills ``samples``, ``batch`` and ``update_s``.

        ``enough`` may only end the training early: the same number of steps from the same state
        gives the same update. A training without counted steps ignores it.

        Raises:
            ValueError: the data have noise of their own, which the model does not support.
            CholeskyError: a matrix is not positive definite.
        """

    @abstractmethod
    def predict(self, X: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals at X [N, D], each [N]; with or without the noise."""

    def predict_grid(self, x: Tensor, y: Tensor, noise: bool = True) -> Prediction:
        """Predictive marginals [rows, columns] on a grid of x [columns] and y [rows]."""
        found, shape = self.predict(grid_points(x, y), noise), (len(y), len(x))
        return Prediction(found.mean.reshape(shape), found.variance.reshape(shape))

    def covariance(self, X: Tensor, noise: bool = True) -> Tensor | None:
        """The joint predictive covariance at X [N, D], [N, N]; None if not supported."""
        return None

    def deviations(self, X: Tensor, count: int, generator: Generator, given: Drawn) -> Tensor:
        """Joint draws at X [N, D] less their mean, without noise [count, N], given others.

        Raises:
            InputError: the model has no joint covariance of so many places.
            CholeskyError: a matrix is not positive definite.
        """
        covariance = self.covariance(torch.cat([given.X, X]), noise=False)
        if covariance is None:
            raise InputError(f"deviations: this model cannot draw {len(X)} places jointly")
        return conditional_draws(covariance, given.deviations, generator)

    def fields(self, X: Tensor) -> Mapping[str, Tensor]:
        """Further quantities at X [N, D], by name, each [N]; ``lengthscale`` in scaled units."""
        return {}

    def calibrate(self, stretches: int) -> None:  # noqa: B027 (by default nothing)
        """Scale predictive variances, and maybe predict with another kernel, until the next
        ``update``.

        The scale comes from predicting each of ``stretches`` segments of the data from the others.

        Raises:
            CholeskyError: a matrix is not positive definite.
        """

    @property
    def widening(self) -> tuple[float, float]:
        """The factor f and the added variance a: ``calibrate`` made f (v + a) of variances v with
        noise."""
        return 1.0, 0.0

    @property
    def stationary(self) -> str:
        """The stationary kernel that ``calibrate`` took in place of the learned one, in words;
        empty: none."""
        return ""

    def keep(self, rows: Tensor) -> None:
        """Forget all data but those of some rows, [N] boolean; hyperparameters stay."""
        raise NotImplementedError

    def retarget(self, y: Tensor) -> None:
        """Give all data so far these targets [N]; hyperparameters stay."""
        raise NotImplementedError

    def set_land(self, land: Land) -> None:  # noqa: B027 (by default nothing)
        """Ignore data across this land, in the model's coordinates, from now on, if possible."""

    @abstractmethod
    def state(self) -> ModelState:
        """What ``restore`` needs. Cheap: nothing large is copied."""

    @abstractmethod
    def restore(self, state: ModelState) -> None:
        """Restore the state of a model with the same settings, bit for bit."""


def until(steps: int, enough: StopCondition | None) -> Iterator[int]:
    """Count training steps, ``steps`` or fewer if ``enough`` says so."""
    for taken in range(steps):
        if enough is not None and enough(taken):
            return
        yield taken


def pack(state: ModelState) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors of a state and the rest, both by flat name, without empty mappings. Nothing is
    copied: write the result before the model changes."""
    leaves = flat(state.tree)
    arrays = {n: v.detach().cpu().numpy() for n, v in leaves.items() if isinstance(v, Tensor)}
    return arrays, {n: v for n, v in leaves.items() if n not in arrays}


def unpack(arrays: Mapping[str, np.ndarray], values: Mapping[str, Any]) -> ModelState:
    """The state that was packed; its tensors are copies on the CPU."""
    tensors = {name: torch.tensor(array) for name, array in arrays.items()}
    return ModelState(nested({**values, **tensors}))


def tanh_network(
    inputs: int, outputs: int, generator: torch.Generator | None, width: int = 10
) -> nn.Sequential:
    """Two hidden tanh layers, ten units wide as in the paper.

    ``generator``: draws the initial weights; None: torch's default generator.
    """
    first, second = _linear(inputs, width, generator), _linear(width, width, generator)
    return nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), _linear(width, outputs, generator))


def _linear(inputs: int, outputs: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer with torch's usual initial values, drawn from the generator."""
    # Not `skip_init`: a meta device imports SymPy, which takes half a second.
    with torch.random.fork_rng(devices=[]):
        layer = nn.Linear(inputs, outputs, dtype=torch.float64)
    for values in layer.parameters():
        nn.init.uniform_(values, -(inputs**-0.5), inputs**-0.5, generator=generator)
    return layer
