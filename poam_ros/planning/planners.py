"""Where to go next: from a view of the map and the situation to a path. Numpy only.

A planner is a row of ``PLANNERS``, with options of its own. It knows no model and no clock, and
draws from the generator it is given.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..errors import InputError
from ..geometry import Extent, is_place
from ..maps import Predicted
from ..settings import check, setting
from .routes import Routes

log = logging.getLogger(__name__)

#: m^2; what is larger is no variance of an elevation.
LARGEST_VARIANCE = 1e300
#: Times that random places are drawn anew where none may be gone to.
DRAWS = 20


class MapView(Protocol):
    """What a planner sees of a map."""

    def predict(self, xy: np.ndarray) -> Predicted:
        """Mean and variance with noise, [N] each, at the points xy [N, 2] in metres."""


@dataclass(frozen=True)
class Situation:
    """Where the vehicle is, and what it has left.

    Attributes:
        position: [2], in m.
        workspace: where waypoints may lie.
        yaw: heading, counter-clockwise from x (east), in rad; NaN where it is not known.
        speed: the vehicle's top speed, in m/s.
        samples_left: until the mission is done; None where there is no limit.
        track: places visited, newest last [K, 2], in m.
        routes: the ways that may be gone within the workspace; None: all straight ones.

    Raises:
        InputError: if the position is not two finite numbers, or the track has another shape.
    """

    position: np.ndarray
    workspace: Extent
    yaw: float = math.nan
    speed: float = 1.0
    samples_left: int | None = None
    track: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    routes: Routes | None = None

    def __post_init__(self) -> None:
        if not is_place(self.position):
            raise InputError(f"position: expected two finite numbers, got {self.position}")
        if np.ndim(self.track) != 2 or np.shape(self.track)[1] != 2:
            raise InputError(f"track: expected places [K, 2], got {list(np.shape(self.track))}")

    def clear(self, position: np.ndarray, goals: np.ndarray) -> np.ndarray:
        """Which of the goals [N, 2] may be gone to straight from the position [2]; boolean [N].

        From where no leg may lead (in a keep-out, say), it is from the next place where one may.
        """
        if self.routes is None:
            return np.ones(len(goals), dtype=bool)
        areas = self.routes.areas
        return areas.clear(areas.nearest(position), goals)

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Random places of the workspace, ``count`` of them less those that no way leads to.

        Raises:
            InputError: there is a way to none of many.
        """
        points = self.workspace.sample(count, rng)
        if self.routes is None or self.routes.areas.everywhere:
            return points
        for _ in range(DRAWS):
            usable = self.routes.reachable(self.position, points)
            if usable.any():
                return points[usable]
            points = self.workspace.sample(max(count, 100), rng)
        raise InputError("areas: no place with a way to it was found in the workspace")


@dataclass(frozen=True)
class Planner:
    """One row of the table.

    Attributes:
        plan: the waypoints to go to, in order [K, 2] with K >= 1, from a view of the map, the
            situation, the row's options and a generator; raises ``InputError`` where the map
            allows no choice.
        options: frozen dataclass of the row's own settings.
    """

    plan: Callable[[MapView, Situation, Any, np.random.Generator], np.ndarray]
    options: type

    def path(
        self, view: MapView, situation: Situation, options: Any, rng: np.random.Generator
    ) -> np.ndarray:
        """What ``plan`` gives, [K, 2].

        Raises:
            InputError: the map allows no choice, or that is no path.
        """
        path = np.asarray(self.plan(view, situation, options, rng), dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not len(path) or not np.isfinite(path).all():
            raise InputError(f"planner: expected finite waypoints [K, 2], got {path.tolist()}")
        return path


@dataclass(frozen=True)
class MaxEntropyOptions:
    """Of ``max-entropy``, as published.

    Raises:
        InputError: a value is outside its range.
    """

    candidates: int = setting(
        2000,
        "Random candidates a waypoint is chosen from",
        minimum=1,
        maximum=1_000_000,
        mutable=True,
    )
    distance_weight: float = setting(
        0.5,
        "Weight of the normalised distance against the normalised entropy",
        minimum=0.0,
        maximum=100.0,
        mutable=True,
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class RandomOptions:
    """Of ``random``, which has none."""


def max_entropy(
    view: MapView, situation: Situation, options: MaxEntropyOptions, rng: np.random.Generator
) -> np.ndarray:
    """The random candidate of high predictive entropy that is near, [1, 2] (Sec. V-A).

    Candidates are uniform in the workspace, or where ways lead in it; the score is the entropy of
    the prediction with noise minus ``distance_weight`` times the distance from the vehicle, both
    scaled to [0, 1] over the candidates. Candidates whose variance is not a positive finite number
    are left out.

    Raises:
        InputError: if the prediction's shape is wrong, or no candidate has a usable variance.
    """
    points = situation.draw(options.candidates, rng)
    count = len(points)
    variance = np.asarray(view.predict(points).variance, dtype=float)
    if variance.shape != (count,):
        raise InputError(f"variance: expected shape ({count},), got {variance.shape}")
    # Positive tests: NaN fails them.
    usable = (variance > 0) & (variance < LARGEST_VARIANCE)
    if not usable.any():
        raise InputError(f"variance: none of {count} candidates has a positive finite variance")
    if not usable.all():
        log.warning("%d of %d candidates have no usable variance", (~usable).sum(), count)
        points, variance = points[usable], variance[usable]
    # H = 1/2 log(2 pi e variance)
    entropy = 0.5 * np.log(2 * math.pi * math.e * variance)
    distance = np.linalg.norm(points - situation.position, axis=1)
    score = _to_unit_range(entropy) - options.distance_weight * _to_unit_range(distance)
    return points[np.argmax(score)][None]


def random_waypoint(
    view: MapView, situation: Situation, options: RandomOptions, rng: np.random.Generator
) -> np.ndarray:
    """A uniform random waypoint, [1, 2]; looks at nothing else (the paper's random planner)."""
    return situation.draw(1, rng)[:1]


#: Every planner, by name: ``planner`` on a command line, in a parameter file, in a sweep.
PLANNERS: dict[str, Planner] = {
    "max-entropy": Planner(max_entropy, MaxEntropyOptions),
    "random": Planner(random_waypoint, RandomOptions),
}


def _to_unit_range(values: np.ndarray) -> np.ndarray:
    """Values [N] scaled linearly to [0, 1]; zeros where they are all alike."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
