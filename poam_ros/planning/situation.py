"""What a planner is given: a view of the map, and the vehicle's situation. Numpy only."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ..errors import InputError
from ..geometry import Extent, is_place
from ..maps import Predicted
from .routes import Routes

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
