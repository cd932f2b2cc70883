"""What a planner sees of a map: a published one, or the model itself. Numpy only."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..geometry import FARTHEST, squared_distance_to
from ..maps import ElevationMap, Predicted

#: m; the square of what is smaller may vanish.
NEAREST = 1e-12


class GridView:
    """A published map, interpolated, as if pings taken since then were in it already.

    Args:
        elevation_map: of any model.
        since: where pings were taken that the map does not hold [K, 2], in m.
        before: where those were taken that it holds [K, 2], in m.
    """

    def __init__(self, elevation_map: ElevationMap, since: np.ndarray, before: np.ndarray) -> None:
        self._grid, self._since, self._before = elevation_map.grid, since, before
        # NaN stays NaN whatever weight it gets; zero times infinity would be complained of.
        self._mean, self._variance, self._lengthscale = (
            np.where(np.isfinite(layer), layer, np.nan)
            for layer in (elevation_map.mean, elevation_map.variance, elevation_map.lengthscale)
        )

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and discounted variance with noise, [N] each, at the points xy [N, 2] in metres."""
        mean, variance, lengthscale = (
            self._grid.interpolate(layer, xy)
            for layer in (self._mean, self._variance, self._lengthscale)
        )
        discounted = discount_visited(variance, xy, lengthscale, self._since, self._before)
        return Predicted(mean, discounted)


class Model(Protocol):
    """What predicts with or without noise: a mapper."""

    def predict(self, xy: np.ndarray, noise: bool) -> Predicted:
        """Mean and variance, [N] each, at the points xy [N, 2] in metres."""


class ModelView:
    """The model as it is: the paper's policy, whose planner waits until the newest pings are in.

    Args:
        model: asked once, for exactly the points that the planner asks for.
        noise: whether its variance is that of a ping, or of the ground alone.
    """

    def __init__(self, model: Model, noise: bool = True) -> None:
        self._model, self._noise = model, noise

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance, [N] each, at the points xy [N, 2] in metres."""
        return self._model.predict(xy, self._noise)


def discount_visited(
    variance: np.ndarray,
    points: np.ndarray,
    lengthscale: np.ndarray,
    since: np.ndarray,
    before: np.ndarray,
) -> np.ndarray:
    """Predictive variances [N], as if pings taken at ``since`` [K, 2] were in the map already.

    A map is always a little older than the vehicle's path; without this, the most uncertain place
    nearby is where the vehicle has just been. Whatever the model, variance grows about linearly
    with the distance d to the nearest ping, up to about a lengthscale: where a new one is nearer
    than the nearest old one was, it falls to d_new / min(d_old, l) of what it was above the floor,
    which is the smallest of all, the noise. Values that are not positive finite numbers change
    nothing.

    Args:
        variance: of the map at the points, with noise [N], in m^2.
        points: [N, 2] in m.
        lengthscale: of the map at the points [N], in m; of no effect where it is unknown.
        since: where pings were taken that the map does not hold [K, 2], in m.
        before: where those were taken that it holds [K, 2], in m.
    """
    known = np.isfinite(variance) & (variance > 0)
    if not len(since) or not known.any():
        return variance
    reach = np.where((lengthscale > NEAREST) & (lengthscale < FARTHEST), lengthscale, np.inf)
    new = np.sqrt(squared_distance_to(points, since))
    closer = known & (new < reach)
    old = np.sqrt(squared_distance_to(points[closer], before))
    reach = np.minimum(old, reach[closer])
    nearer = np.isfinite(reach) & (new[closer] < reach)
    share = np.divide(new[closer], reach, where=nearer, out=np.ones(len(reach)))
    floor = variance[known].min()
    after = variance.copy()
    after[closer] = floor + (variance[closer] - floor) * share
    return after
