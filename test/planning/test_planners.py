"""The choice of waypoints."""

import logging
import math
import warnings

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.pilots import start_pose
from poam_ros.planning.planners import (
    PLANNERS,
    MaxEntropyOptions,
    NoOptions,
    Situation,
    max_entropy,
    random_waypoint,
)
from poam_ros.planning.routes import Routes

from .conftest import View

SQUARE = Extent(-30, 30, -30, 30)


def bumpy(points):
    return 0.3 + 50 * np.sin(points[:, 0] / 7) ** 2 * np.cos(points[:, 1] / 5) ** 2


def choose(view, position=(0.0, 0.0), seed=0, workspace=SQUARE, **options):
    """The one waypoint [2] of max-entropy."""
    situation = Situation(np.array(position, dtype=float), workspace)
    path = max_entropy(view, situation, MaxEntropyOptions(**options), np.random.default_rng(seed))
    assert path.shape == (1, 2)
    return path[0]


def best_of(points, variance, position, weight):
    """Index of the highest score, computed one candidate at a time."""
    # The entropy of a Gaussian is an affine function of log variance: scaled alike.
    entropies = [math.log(v) for v in variance]
    distances = [math.dist(point, position) for point in points]

    def scaled(values):
        low, high = min(values), max(values)
        return [(value - low) / (high - low) for value in values]

    pairs = zip(scaled(entropies), scaled(distances), strict=True)
    scores = [entropy - weight * distance for entropy, distance in pairs]
    return int(np.argmax(scores))


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 1.0, 5.0])
def test_max_entropy_takes_the_best_score(weight):
    for seed in range(10):
        view = View(bumpy)
        position = SQUARE.sample(1, np.random.default_rng(100 + seed))[0]
        waypoint = choose(view, position, seed, candidates=300, distance_weight=weight)
        best = best_of(view.points, view.variance, position, weight)
        np.testing.assert_array_equal(waypoint, view.points[best])


def test_max_entropy_defaults_are_the_published_ones():
    assert MaxEntropyOptions() == MaxEntropyOptions(candidates=2000, distance_weight=0.5)


def test_candidates_without_a_usable_variance_are_left_out(caplog):
    def mostly_bad(points):
        variance = bumpy(points)
        for k, value in enumerate([math.nan, math.inf, -math.inf, 0.0, 1.7e308]):
            variance[k::6] = value
        return variance

    view, position = View(mostly_bad), np.array([5.0, 5.0])
    with warnings.catch_warnings(), caplog.at_level(logging.WARNING, "poam_ros.planning.planners"):
        warnings.simplefilter("error")
        waypoint = choose(view, position, candidates=600)
    # The scales of entropy and distance come from the usable ones alone.
    points, variance = view.points[5::6], view.variance[5::6]
    np.testing.assert_array_equal(waypoint, points[best_of(points, variance, position, 0.5)])
    assert "500 of 600 candidates" in caplog.text


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_max_entropy_says_when_no_variance_is_usable(value):
    with pytest.raises(InputError, match="none of 50 candidates"):
        choose(View(lambda p: np.full(len(p), value)), candidates=50)


@pytest.mark.parametrize("name", PLANNERS)
def test_every_row_gives_a_path_inside_and_follows_its_generator(name, workspace):
    planner = PLANNERS[name]
    situation = Situation(np.array(start_pose(workspace)[:2]), workspace)

    def plan(seed):
        return planner.plan(View(bumpy), situation, planner.options(), np.random.default_rng(seed))

    for seed in range(5):
        path = plan(seed)
        assert path.ndim == 2 and path.shape[0] >= 1 and path.shape[1] == 2
        assert workspace.contains(path).all()
        np.testing.assert_array_equal(path, plan(seed))
    draws = name != "boustrophedon"
    assert np.array_equal(plan(0), plan(1)) != draws


# --- Where ways lead ---

WALL = np.array([(5, -40), (7, -40), (7, 40), (5, 40)], dtype=float)


def walled(*keep_outs):
    routes = Routes(NavigableArea(SQUARE, keep_outs=keep_outs))
    return Situation(np.array([-10.0, 0.0]), SQUARE, routes=routes)


def test_unreachable_candidates_are_left_out_before_scoring():
    view = View(lambda xy: np.where(xy[:, 0] > 5, 1e6, 1.0) + 1e-3 * xy[:, 1] ** 2)
    goal = max_entropy(view, walled(WALL), MaxEntropyOptions(), np.random.default_rng(0))[0]
    assert goal[0] <= 4
    # Where a way leads round, all of it is worth going to.
    block = np.array([(-5, -5), (0, -5), (0, 5), (-5, 5)], dtype=float)
    goal = max_entropy(view, walled(block), MaxEntropyOptions(), np.random.default_rng(0))[0]
    assert goal[0] > 5


def test_without_any_route_there_is_no_choice():
    cell = [
        np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        for x0, x1, y0, y1 in (
            (-8.9, -8, -2, 2), (-12, -11.1, -2, 2), (-12, -8, 1.1, 2), (-12, -8, -2, -1.1),
        )
    ]  # fmt: skip
    with pytest.raises(InputError, match="got none among 100"):
        max_entropy(
            View(bumpy), walled(*cell), MaxEntropyOptions(candidates=100), np.random.default_rng(0)
        )
    with pytest.raises(InputError, match="got none among 1000"):
        random_waypoint(View(bumpy), walled(*cell), NoOptions(), np.random.default_rng(0))
