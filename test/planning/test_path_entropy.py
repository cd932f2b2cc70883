"""The planner path-entropy: the geometry of its candidate paths, and which of them it chooses."""

import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.planners import CandidatePaths, PathEntropyOptions, Situation, path_entropy
from poam_ros.planning.routes import Routes
from poam_ros.simulation.vehicle import Pose, dubins_paths

from .conftest import View

SQUARE = Extent(-30, 30, -30, 30)
RADIUS = 0.67


def flat(xy):
    return np.ones(len(xy))


def plan(variance_of, seed=0, workspace=SQUARE, position=(0.0, 0.0), situation=None, **options):
    situation = situation or {}
    situation = Situation(np.array(position, dtype=float), workspace, **situation)
    rng = np.random.default_rng(seed)
    path = path_entropy(View(variance_of), situation, PathEntropyOptions(**options), rng)
    assert path.shape == (1, 2)
    assert workspace.contains(path).all()
    return path[0]


@pytest.mark.parametrize("yaw", [0.0, 1.0, math.pi, -2.5])
def test_candidate_paths_are_the_shortest_of_a_dubins_car(yaw):
    goals = SQUARE.sample(200, np.random.default_rng(3))
    goals = goals[np.linalg.norm(goals - (3, -2), axis=1) > 4 * RADIUS]
    paths = CandidatePaths(np.array([3.0, -2.0]), yaw, RADIUS, goals)
    for i, goal in enumerate(goals):
        dubins = dubins_paths(Pose(3, -2, yaw), tuple(goal.tolist()), 1.0, 1 / RADIUS, 1.0)
        shortest = min(dubins, key=lambda path: path.duration)
        assert paths.length[i] == pytest.approx(shortest.duration, rel=1e-9)
        travelled = np.linspace(0, shortest.duration * (1 - 1e-9), 9)
        there = paths.at(np.tile(travelled, (len(goals), 1)))[i]
        expected = [(pose.x, pose.y) for pose in map(shortest.pose, travelled.tolist())]
        np.testing.assert_allclose(there, expected, atol=1e-6)


@pytest.mark.parametrize(("yaw", "radius"), [(math.nan, RADIUS), (0.3, 0.0)])
def test_candidate_paths_are_straight_without_turns(yaw, radius):
    goals = np.array([[3.0, 4.0], [-6.0, 8.0]])
    paths = CandidatePaths(np.zeros(2), yaw, radius, goals)
    np.testing.assert_allclose(paths.length, [5, 10])
    halfway = paths.at(paths.length[:, None] / 2)[:, 0]
    np.testing.assert_allclose(halfway, goals / 2, atol=1e-12)


def test_a_path_through_high_variance_is_chosen_not_one_that_ends_at_it():
    """A band of high variance along the x axis, and a small place with a higher one."""

    def band_and_spot(xy):
        peak = np.linalg.norm(xy - (0, 25), axis=1) < 2
        return np.where(np.abs(xy[:, 1]) < 2, 10.0, np.where(peak, 30.0, 0.1))

    for seed in range(5):
        goal = plan(band_and_spot, seed, exploration=0.0)
        assert abs(goal[1]) < 3 and abs(goal[0]) > 5


def test_lengths_follow_the_workspace():
    """Ten times as large a workspace: the same choice, ten times as far."""

    def bumpy(xy):
        return 1 + np.sin(xy[:, 0] / 7) ** 2 * np.cos(xy[:, 1] / 5) ** 2

    seen = {"yaw": 0.4, "visited": np.array([[5.0, 5.0], [-20.0, 3.0]])}
    small = plan(bumpy, situation={**seen, "turning_radius": 0.5})
    seen["visited"] = 10 * seen["visited"]
    wide = Extent(-300, 300, -300, 300)
    large = plan(
        lambda xy: bumpy(xy / 10), workspace=wide, situation={**seen, "turning_radius": 5.0}
    )
    np.testing.assert_allclose(large, 10 * small, atol=1e-6)


def test_places_far_from_all_pings_are_explored():
    east = np.stack(np.meshgrid(np.arange(1, 30, 2.0), np.arange(-29, 30, 2.0)), -1).reshape(-1, 2)

    def higher_in_the_east(xy):
        return np.where(xy[:, 0] > 0, 1.5, 1.0)

    for seed in range(5):
        given = {"situation": {"visited": east}, "position": (0, 0)}
        assert plan(higher_in_the_east, seed, exploration=0.0, **given)[0] > 0
        assert plan(higher_in_the_east, seed, exploration=2.0, **given)[0] < 0


def test_places_beyond_the_budget_have_no_value():
    """Far in the north it is very uncertain; in the near south a little."""

    def south_or_north(xy):
        return np.where(xy[:, 1] > 15, 1e4, np.where(xy[:, 1] < -1, 2.0, 1.0))

    for seed in range(5):
        assert plan(south_or_north, seed, exploration=0.0)[1] > 0
        short = {"distance_left": 10.0}
        assert plan(south_or_north, seed, exploration=0.0, situation=short)[1] < 0


def test_the_budget_covers_a_turn_back():
    """Behind and ahead are alike, and the vehicle turns widely: on it goes."""
    for seed in range(10):
        given = {"yaw": 0.0, "turning_radius": 5.0}

        def known_here(xy):
            return np.where(np.linalg.norm(xy, axis=1) < 12, 0.1, 1.0)

        goal = plan(known_here, seed, exploration=0.0, situation=given)
        assert goal[0] > 0


def around(*keep_outs):
    """A situation with these keep-outs."""
    return {"routes": Routes(NavigableArea(SQUARE, keep_outs=[np.array(k) for k in keep_outs]))}


def wall(xmin, xmax, ymin, ymax):
    return [(xmin, ymin), (xmax, ymin), (xmax, ymax), (xmin, ymax)]


def test_only_allowed_paths_are_driven():
    east = around(wall(2.0, 40.0, -40.0, 40.0))
    for seed in range(5):
        assert plan(flat, seed, situation=east)[0] < 1
    # Walls on all sides, with room for the vehicle and for nothing else.
    cell = wall(1.1, 2, -2, 2), wall(-2, -1.1, -2, 2), wall(-2, 2, 1.1, 2), wall(-2, 2, -2, -1.1)
    with pytest.raises(InputError, match="no candidate path of 400 is allowed"):
        plan(flat, situation=around(*cell))


def test_without_a_visible_goal_routes_make_detours():
    # A cell of 2 m with a door to the south, opposite a screen.
    inner = wall(1.3, 2, -2, 2), wall(-2, -1.3, -2, 2), wall(-2, 2, 1.3, 2)
    screen = wall(-6, 6, -6, -4.1)
    given = around(*inner, screen)
    assert not given["routes"].areas.leg_allowed(np.zeros(2), np.array([(0.0, -20.0)]))[0]
    for seed in range(3):
        assert plan(flat, seed, situation=given, candidates=20).shape == (2,)


def test_a_workspace_smaller_than_a_turn_still_has_a_path():
    tiny = Extent(0, 1, 0, 1)
    for seed in range(5):
        goal = plan(flat, seed, tiny, (0.5, 0.5), {"yaw": 1.0, "turning_radius": 2.0})
        assert np.isfinite(goal).all()
