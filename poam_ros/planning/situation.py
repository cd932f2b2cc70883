"""What a planner is given: a view of the map, and the vehicle's situation. Numpy only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..core.errors import InputError
from ..core.geometry import FARTHEST, Extent, is_place, squared_distance_to
from ..core.maps import ElevationMap, Predicted
from .routes import Routes

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


#: m^2; what is larger is no variance of an elevation.
LARGEST_VARIANCE = 1e300


class MapView(Protocol):
    """What a planner sees of a map."""

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance with noise, [N] each, at the points xy [N, 2] in metres."""


def _nowhere() -> np.ndarray:
    return np.empty((0, 2))


@dataclass(frozen=True)
class Situation:
    """Where the vehicle is, and what it has left.

    Attributes:
        position: [2], in m.
        workspace: where waypoints may lie.
        yaw: heading, counter-clockwise from x (east), in rad; NaN where it is not known.
        speed: the vehicle's top speed, in m/s.
        turning_radius: the smallest circle that it drives, in m; 0 where it turns on the spot.
        samples_left: until the mission is done; None where there is no limit.
        way_left: what can still be driven until then, in m; infinite where that is not known.
        track: newest places visited, newest last [K, 2], in m.
        visited: places visited in all the mission, thinned out [K, 2], in m.
        routes: the ways that may be gone within the workspace; None: all straight ones.

    Raises:
        InputError: if the position is not two finite numbers, or the track has another shape.
    """

    position: np.ndarray
    workspace: Extent
    yaw: float = math.nan
    speed: float = 1.0
    turning_radius: float = 0.0
    samples_left: int | None = None
    way_left: float = math.inf
    track: np.ndarray = field(default_factory=_nowhere)
    visited: np.ndarray = field(default_factory=_nowhere)
    routes: Routes | None = None

    def __post_init__(self) -> None:
        if not is_place(self.position):
            raise InputError(f"position: expected two finite numbers, got {self.position}")
        for name in ("track", "visited"):
            shape = np.shape(getattr(self, name))
            if len(shape) != 2 or shape[1] != 2:
                raise InputError(f"{name}: expected places [K, 2], got {list(shape)}")

    def clear(self, start: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Which straight legs from start [2] (or [N, 2]) to the goals [N, 2] may be driven [N].

        From one place where no leg may lead (a keep-out), it is from the next where one may.
        """
        if self.routes is None:
            return np.ones(len(goals), dtype=bool)
        areas = self.routes.areas
        return areas.clear(areas.nearest(start) if np.ndim(start) == 1 else start, goals)

    def reachable(self, goals: np.ndarray) -> np.ndarray:
        """Which of the goals [N, 2] a way leads to, straight or not [N]."""
        if self.routes is None:
            return np.ones(len(goals), dtype=bool)
        return self.routes.reachable(self.position, goals)


def usable(variance: np.ndarray, count: int) -> np.ndarray:
    """Which variances are positive finite numbers [count], for ``count`` points asked.

    Raises:
        InputError: if the prediction's shape is wrong, or no variance is usable.
    """
    if variance.shape != (count,):
        raise InputError(f"variance: expected shape ({count},), got {variance.shape}")
    # Positive tests: NaN fails them.
    good = (variance > 0) & (variance < LARGEST_VARIANCE)
    if not good.any():
        raise InputError(f"variance: none of {count} candidates has a positive finite variance")
    return good


def entropy(variance: np.ndarray) -> np.ndarray:
    """H = 1/2 log(2 pi e variance), in nats (Sec. V-A)."""
    return 0.5 * np.log(2 * math.pi * math.e * variance)
