"""The input of a planner: a view of the map and the vehicle's situation. Numpy only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..core.errors import InputError
from ..core.geometry import MAX_COORDINATE, Extent, squared_distance_to
from ..core.maps import ElevationMap, Predicted
from .areas import NavigableArea
from .routes import Routes

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: The square of a smaller lengthscale may underflow, in m; larger variances are not usable, in m^2.
MIN_DISTANCE, MAX_VARIANCE = 1e-12, 1e300


class GridView:
    """A published map, interpolated, with variances as if newer pings were already in it.

    Args:
        elevation_map: of any model.
        since: places of pings that are not in the map yet [K, 2], in m.
        before: places of pings in the map [K, 2], in m.
    """

    def __init__(self, elevation_map: ElevationMap, since: np.ndarray, before: np.ndarray) -> None:
        self._grid, self._since, self._before = elevation_map.grid, since, before
        # NaN propagates silently through interpolation; zero times infinity raises a warning.
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


class ModelView:
    """Predictions of the model itself: in the paper the planner waits for the newest pings.

    Args:
        model: predicts exactly the points that the planner asks for.
        noise: whether the variance is that of a ping, or of the bottom.
    """

    def __init__(self, model: BathymetricMapper, noise: bool = True) -> None:
        self._model, self._noise = model, noise

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance, [N] each, at the points xy [N, 2] in metres."""
        return self._model.predict(xy, self._noise)


def discount_visited(
    variance: np.ndarray, points: np.ndarray, lengthscale: np.ndarray, since: np.ndarray,
    before: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Predictive variances [N] as if pings at ``since`` [K, 2] were already in the map.

    A map is always a little older than the vehicle's track. Without a discount, the most uncertain
    place nearby would be where the vehicle has just been. In any model, variance grows about
    linearly with the distance d to the nearest ping, up to about a lengthscale l. So where a new
    ping is nearer than any old one, the variance above the noise floor (the smallest variance) is
    scaled by d_new / min(d_old, l). Variances that are not positive finite numbers stay unchanged.

    Args:
        variance: of the map at the points, with noise [N], in m^2.
        points: [N, 2] in m.
        lengthscale: of the map at the points [N], in m; ignored where it is unknown.
        since: places of pings that are not in the map yet [K, 2], in m.
        before: places of pings in the map [K, 2], in m.
    """
    known = np.isfinite(variance) & (variance > 0)
    if not len(since) or not known.any():
        return variance
    good = (lengthscale > MIN_DISTANCE) & (lengthscale < MAX_COORDINATE)
    reach = np.where(good, lengthscale, np.inf)
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


class MapView(Protocol):
    """What a planner sees of a map."""

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance with noise, [N] each, at the points xy [N, 2] in metres."""


def no_extra(path: np.ndarray) -> float:
    """``Situation.extra`` without a way home."""
    return 0.0


@dataclass(frozen=True)
class Situation:
    """Where the vehicle is, and how much of its budget is left.

    Attributes:
        position: [2], in m.
        workspace: where waypoints may lie.
        yaw: heading, counter-clockwise from x (east), in rad; NaN if unknown.
        turning_radius: the vehicle's smallest turning radius, in m; 0 if it turns on the spot.
        distance_left: distance that can still be travelled, in m; infinite without a limit.
        extra: how much of that a path [K, 2] from the vehicle takes besides its length, in m: for
            the current along it, and for the way home from its end.
        visited: positions of the whole mission, thinned out [K, 2], in m.
        routes: allowed routes within the workspace; by default all straight legs are allowed.
    """

    position: np.ndarray
    workspace: Extent
    yaw: float = math.nan
    turning_radius: float = 0.0
    distance_left: float = math.inf
    extra: Callable[[np.ndarray], float] = no_extra
    visited: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    routes: Routes = None  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        if self.routes is None:
            object.__setattr__(self, "routes", Routes(NavigableArea(self.workspace)))


def usable(variance: np.ndarray, count: int) -> np.ndarray:
    """Which of ``count`` variances are positive finite numbers; boolean [count].

    Raises:
        InputError: the shape is wrong, or no variance is usable.
    """
    if variance.shape != (count,):
        raise InputError(f"variance: expected shape ({count},), got {variance.shape}")
    # NaN fails both comparisons.
    good = (variance > 0) & (variance < MAX_VARIANCE)
    if not good.any():
        raise InputError(f"variance: none of {count} candidates has a positive finite variance")
    return good


def entropy(variance: np.ndarray) -> np.ndarray:
    """H = 1/2 log(2 pi e variance), in nats (Sec. V-A)."""
    return 0.5 * np.log(2 * math.pi * math.e * variance)
