"""The planners: from a view of the map and the vehicle's situation to waypoints. Numpy only.

A planner is a row of ``PLANNERS`` with options of its own. It depends on no model and no clock, and
draws random numbers only from the generator passed to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.settings import Setting, Settings, Table, rows, setting
from .boustrophedon import BoustrophedonOptions, boustrophedon
from .path_entropy import PathEntropyOptions, path_entropy
from .situation import MapView, Situation, entropy, usable

log = logging.getLogger(__name__)

#: Random waypoints drawn before giving up.
MAX_DRAWS = 1000


@dataclass(frozen=True)
class PlannerEntry:
    """One row of the table.

    Attributes:
        plan: the waypoints to go to, in order [K, 2] with K >= 1, from a view of the map, the
            situation, the row's options and a generator; raises ``InputError`` where the map
            allows no choice.
        options: frozen dataclass of the row's own settings, with a prefix.
    """

    plan: Callable[[MapView, Situation, Any, np.random.Generator], np.ndarray]
    options: type[Any]

    def path(
        self, view: MapView, situation: Situation, options: Any, rng: np.random.Generator
    ) -> np.ndarray:
        """The checked result of ``plan``, [K, 2].

        Raises:
            InputError: the map allows no choice, or the result is not a path.
        """
        path = np.asarray(self.plan(view, situation, options, rng), dtype=float)
        if path.ndim != 2 or path.shape[1] != 2 or not len(path) or not np.isfinite(path).all():
            raise InputError(f"planner: expected finite waypoints [K, 2], got {path.tolist()}")
        return path


@dataclass(frozen=True)
class MaxEntropyOptions(Settings):
    """Options of ``max-entropy``, as published. ``candidates``: number of random waypoints."""

    prefix = "max_entropy"

    distance_weight: float = setting(
        0.5, "Weight of the normalised distance against the normalised entropy", minimum=0.0,
        maximum=100.0, mutable=True,
    )  # fmt: skip
    candidates: int = 2000


@dataclass(frozen=True)
class NoOptions:
    """Options of a planner that has none."""


def max_entropy(
    view: MapView, situation: Situation, options: MaxEntropyOptions, rng: np.random.Generator
) -> np.ndarray:
    """The random candidate with the best score of entropy and distance, [1, 2] (Sec. V-A).

    Candidates are uniform in the workspace; the score is the entropy of the prediction with noise
    minus ``distance_weight`` times the distance from the vehicle, both scaled to [0, 1] over the
    candidates. Candidates whose variance is not a positive finite number are excluded.

    Raises:
        InputError: the prediction's shape is wrong, or no candidate has a usable variance and a
            route.
    """
    count = options.candidates
    points = situation.workspace.sample(count, rng)
    variance = np.asarray(view.predict(points).variance, dtype=float)
    good = usable(variance, count)
    if not good.all():
        log.warning("%d of %d candidates have no usable variance", (~good).sum(), count)
    good &= situation.routes.reachable(situation.position, points)
    if not good.any():
        raise InputError(f"max-entropy: expected a reachable candidate, got none among {count}")
    points, variance = points[good], variance[good]
    distance = np.linalg.norm(points - situation.position, axis=1)
    score = _to_unit_range(entropy(variance)) - options.distance_weight * _to_unit_range(distance)
    return points[np.argmax(score)][None]


def random_waypoint(
    view: MapView, situation: Situation, options: NoOptions, rng: np.random.Generator
) -> np.ndarray:
    """A uniform random waypoint with a route, [1, 2].

    Raises:
        InputError: none of ``MAX_DRAWS`` waypoints has a route.
    """
    for _ in range(MAX_DRAWS):
        waypoint = situation.workspace.sample(1, rng)
        if situation.routes.reachable(situation.position, waypoint).all():
            return waypoint
    raise InputError(f"random: expected a reachable waypoint, got none among {MAX_DRAWS}")


#: Every planner, by name: ``planner`` on a command line, in a parameter file, in a sweep. A bare
#: function of another package is a planner without options.
PLANNERS: Table[PlannerEntry] = Table(
    "poam_ros.planners",
    PlannerEntry,
    {
        "max-entropy": PlannerEntry(max_entropy, MaxEntropyOptions),
        "random": PlannerEntry(random_waypoint, NoOptions),
        "path-entropy": PlannerEntry(path_entropy, PathEntropyOptions),
        "boustrophedon": PlannerEntry(boustrophedon, BoustrophedonOptions),
    },
    made=lambda plan: PlannerEntry(plan, NoOptions),
)


def planner_rows() -> tuple[Setting, ...]:
    """The options of every built-in planner."""
    return rows(*(planner.options for planner in PLANNERS.values()))


def _to_unit_range(values: np.ndarray) -> np.ndarray:
    """Values [N] scaled linearly to [0, 1]; zeros if all are equal."""
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)
