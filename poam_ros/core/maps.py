"""The results of models: maps, predictions, reports. No torch, no ROS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .geometry import Grid

#: Whether training ends after this number of steps.
StopCondition = Callable[[int], bool]

#: Places [G, 2], and joint draws there less their mean [count, G], in m.
JointDraws = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Predicted:
    """Predictive mean [N] in m and variance [N] in m^2."""

    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class ElevationMap:
    """A map at one time, from a model, a file or a topic.

    Attributes:
        grid: the points of the map.
        mean: elevation [rows, columns], in m.
        variance: of the elevation, with noise [rows, columns], in m^2.
        fields: further quantities of the model by name [rows, columns]; ``lengthscale`` in m.
        support: inducing inputs for figures [M, 2], in m; M = 0 for a model without.
        samples: number of pings in the map; 0 if unknown.
        stamp_ns: time at which its last batch was complete; 0 if unknown.
        density: pings in each cell [rows, columns]; None if unknown.
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
        """The same map with the density of the pings at xy [N, 2], in m."""
        return replace(self, density=self.grid.counted(xy))

    def only(self, shown: np.ndarray) -> ElevationMap:
        """The same map, NaN where ``shown`` [rows, columns] is false."""
        mean, variance = (np.where(shown, layer, np.nan) for layer in (self.mean, self.variance))
        fields = {name: np.where(shown, layer, np.nan) for name, layer in self.fields.items()}
        return replace(self, mean=mean, variance=variance, fields=fields)

    def shows(self, xy: np.ndarray) -> np.ndarray:
        """Which of the places xy [N, 2] lie in a cell with an elevation; boolean [N]."""
        shown: np.ndarray = np.isfinite(self.mean[self.grid.located(xy)])
        return shown & self.grid.borders.contains(xy)

    def known(self, xy: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Which cells the soundings at xy [N, 2] with elevations z [N] say anything about.

        A cell farther than a lengthscale from every sounding is unknown. So is a cell whose
        variance exceeds that of sounded cells by more than the variance of z: the mean of z says as
        much about it as the map.

        Returns:
            Boolean [rows, columns].
        """
        from scipy.spatial import cKDTree

        if not len(z):
            return np.zeros(self.grid.shape, dtype=bool)
        distance, _ = cKDTree(xy).query(self.grid.points)
        far = distance.reshape(self.grid.shape) > self.lengthscale  # NaN: nothing is far
        sounded = self.variance[self.grid.counted(xy) > 0]
        least = float(np.nanmedian(sounded)) if np.isfinite(sounded).any() else 0.0
        return ~far & (self.variance - least <= z.var())

    @property
    def lengthscale(self) -> np.ndarray:
        """The lengthscale [rows, columns], in m; NaN for a model without."""
        return self.fields.get("lengthscale", np.full(self.grid.shape, np.nan))


@dataclass(frozen=True)
class UpdateReport:
    """Report of one update, or of training without new data.

    Attributes:
        seconds: wall time of its parts, by name, in s.
        steps: training steps taken.
        support: number of inducing inputs; 0 for a model without.
        noise_std: standard deviation of the learned noise, in the unit of the targets (m outside
            the model).
        jitter: largest jitter added beyond the setting, for standardised targets.
        loss: mean training loss; NaN without steps.
        samples: number of samples in the model.
        batch: new samples in this update.
        update_s: wall time of the whole update, in s.
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
