"""Where to go next, chosen from a map. Numpy only.

The planners know no model: they are handed a callable that predicts variances.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

import numpy as np

from ..errors import InputError
from ..geometry import Extent

log = logging.getLogger(__name__)

PredictVariance = Callable[[np.ndarray], np.ndarray]
"""Variance with noise, [N] in m^2, at the points [N, 2] in metres."""


def max_entropy(
    predict_variance: PredictVariance,
    workspace: Extent,
    position: np.ndarray,
    rng: np.random.Generator,
    candidates: int = 2000,
    distance_weight: float = 0.5,
) -> np.ndarray:
    """The random candidate of high predictive entropy that is near, [2] (Sec. V-A).

    Candidates are uniform in the workspace; the score is the entropy of the prediction with noise
    minus ``distance_weight`` times the distance from ``position`` [2], both scaled to [0, 1] over
    the candidates. Candidates whose variance is not a positive finite number are left out.

    Raises:
        InputError: if the position is not finite, the prediction's shape is wrong, or no candidate
            has a usable variance.
    """
    position = np.asarray(position, dtype=float)
    if position.shape != (2,) or not np.all(np.isfinite(position)):
        raise InputError(f"position: expected two finite numbers, got {position}")
    if not np.isfinite(distance_weight):
        raise InputError(f"distance_weight: expected a finite number, got {distance_weight}")
    if candidates < 1:
        raise InputError(f"candidates: expected at least 1, got {candidates}")
    points = workspace.sample(candidates, rng)
    variance = np.asarray(predict_variance(points), dtype=float)
    if variance.shape != (candidates,):
        raise InputError(f"variance: expected shape ({candidates},), got {variance.shape}")
    usable = np.isfinite(variance) & (variance > 0)
    if not usable.any():
        raise InputError(
            f"variance: none of {candidates} candidates has a positive finite variance"
        )
    if not usable.all():
        log.warning("%d of %d candidates have no usable variance", (~usable).sum(), candidates)
        points, variance = points[usable], variance[usable]
    # H = 1/2 log(2 pi e variance)
    entropy = 0.5 * np.log(2 * math.pi * math.e * variance)
    distance = np.linalg.norm(points - position, axis=1)
    score = _to_unit_range(entropy) - distance_weight * _to_unit_range(distance)
    return points[np.argmax(score)]


def discount_visited(
    variance: np.ndarray, points: np.ndarray, lengthscale: np.ndarray, visited: np.ndarray
) -> np.ndarray:
    """Predictive variances [N], as if pings taken at ``visited`` [K, 2] were in the map already.

    A map is always a little older than the vehicle's path; without this, the most uncertain place
    nearby is where the vehicle has just been. One noise-free observation at distance d leaves
    v (1 - exp(-d^2 / l^2)) of a Gaussian kernel's variance v; below the smallest variance of the
    map, which is the noise, nothing falls.

    Args:
        variance: of the map at the points, with noise [N], in m^2.
        points: [N, 2] in m.
        lengthscale: of the map at the points [N], in m.
        visited: where pings were taken that the map does not hold [K, 2], in m.
    """
    if not len(visited):
        return variance
    squared = np.full(len(points), np.inf)
    for place in visited:
        np.minimum(squared, ((points - place) ** 2).sum(1), out=squared)
    usable = variance[np.isfinite(variance) & (variance > 0)]
    if not len(usable):
        return variance
    floor = usable.min()
    return floor + (variance - floor) * -np.expm1(-squared / lengthscale**2)


def random_waypoint(
    predict_variance: PredictVariance,
    workspace: Extent,
    position: np.ndarray,
    rng: np.random.Generator,
    candidates: int = 2000,
    distance_weight: float = 0.5,
) -> np.ndarray:
    """A uniform random waypoint, [2]; looks at nothing else (the paper's random planner)."""
    return workspace.sample(1, rng)[0]


PLANNERS: dict[str, Callable[..., np.ndarray]] = {
    "max-entropy": max_entropy,
    "random": random_waypoint,
}


def _to_unit_range(values: np.ndarray) -> np.ndarray:
    """Values [N] scaled linearly to [0, 1]; zeros where they are all alike."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
