"""What passes between the model and everyone else: maps, predictions, reports. No torch, no ROS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .geometry import Grid

#: Whether the training of an update shall end, by the steps that it has taken so far.
Enough = Callable[[int], bool]


@dataclass(frozen=True)
class Predicted:
    """Predictive mean [N] in m and variance [N] in m^2."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class ElevationMap:
    """A map at one moment, whether a model drew it, a file held it or a topic brought it.

    Attributes:
        grid: the points of the map.
        mean: elevation [rows, columns], in m.
        variance: of the elevation, with noise [rows, columns], in m^2.
        fields: what else the model knows of every point, by name [rows, columns]; ``lengthscale``
            is in m.
        support: places that the model leans on [M, 2], in m, to be drawn: inducing inputs, or none.
        samples: how many pings it was made from; 0 where that is not known.
        stamp_ns: when the batch closed that it was made from; 0 where that is not known.
        density: pings in each cell [rows, columns]; None where that is not known.
    """

    grid: Grid
    mean: np.ndarray
    variance: np.ndarray
    fields: Mapping[str, np.ndarray] = field(default_factory=dict)
    support: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    samples: int = 0
    stamp_ns: int = 0
    density: np.ndarray | None = None

    def with_pings(self, xy: np.ndarray) -> ElevationMap:
        """The same map, which knows that it was made from pings at xy [N, 2] in m."""
        return replace(self, density=self.grid.counted(xy))

    def only(self, shown: np.ndarray) -> ElevationMap:
        """The same map, NaN where ``shown`` [rows, columns] is false."""
        mean, variance, *others = (
            np.where(shown, values, np.nan)
            for values in (self.mean, self.variance, *self.fields.values())
        )
        fields = dict(zip(self.fields, others, strict=True))
        return replace(self, mean=mean, variance=variance, fields=fields)

    @property
    def lengthscale(self) -> np.ndarray:
        """The lengthscale [rows, columns], in m; NaN where the model has none."""
        nothing = np.full(self.grid.shape, np.nan)
        return self.fields.get("lengthscale", nothing)


@dataclass(frozen=True)
class UpdateReport:
    """What one update, or one training without new data, did.

    Attributes:
        seconds: wall time of its parts, by name, in s.
        steps: training steps taken.
        support: how many support points there are; 0 for a model without.
        noise_std: deviation of the learned noise, in the targets' unit (m outside the model).
        jitter: largest jitter a factorisation took beyond the set one, of standardised targets.
        loss: mean training loss; NaN without steps.
        samples: data in the model by now.
        batch: new data in this update.
        update_s: wall time of it all, in s.
    """

    seconds: Mapping[str, float]
    steps: int = 0
    support: int = 0
    noise_std: float = float("nan")
    jitter: float = 0.0
    loss: float = float("nan")
    samples: int = 0
    batch: int = 0
    update_s: float = float("nan")
