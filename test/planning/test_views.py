"""What a planner sees of a published map and of a model."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.models.mapper import BathymetricMapper, ModelSettings
from poam_ros.planning.planners import (
    GridView,
    MaxEntropyOptions,
    Situation,
    discount_visited,
    max_entropy,
)
from poam_ros.simulation.terrain import load_terrain

NOWHERE = np.empty((0, 2))
GRID = Grid.nodes(Extent(0, 20, 0, 20), 21, 21)


def a_map(variance, lengthscale=3.0, mean=0.0):
    """A map of 21 x 21 points, a metre apart; a lengthscale of None is not in it at all."""
    layers = [np.broadcast_to(np.asarray(v, dtype=float), GRID.shape) for v in (mean, variance)]
    fields = {} if lengthscale is None else {"lengthscale": np.full(GRID.shape, lengthscale)}
    return ElevationMap(GRID, *layers, fields)


def test_a_grid_view_interpolates():
    east = GRID.points[:, 0].reshape(GRID.shape)
    seen = GridView(a_map(1 + east, mean=-2 * east), NOWHERE, NOWHERE).predict(
        np.array([[2.5, 7.3]])
    )
    np.testing.assert_allclose(seen.variance, [3.5])
    np.testing.assert_allclose(seen.mean, [-5.0])


@pytest.mark.parametrize("lengthscale", [None, math.nan, math.inf, 0.0, -1.0])
def test_without_a_lengthscale_the_nearest_old_ping_limits_the_reach_of_a_new_one(lengthscale):
    variance = np.full(GRID.shape, 4.0)
    variance[0, 0] = 1.0
    new, points = np.array([[10.0, 10.0]]), np.array([[0.0, 0.0], [10.0, 10.0], [13.0, 10.0]])
    view = GridView(a_map(variance, lengthscale), new, np.array([[19.0, 10.0]]))
    np.testing.assert_allclose(view.predict(points).variance, [1, 1, 1 + 3 * 3 / 6])
    # With no old ping either, nothing is known of it.
    view = GridView(a_map(variance, lengthscale), new, NOWHERE)
    np.testing.assert_array_equal(view.predict(points).variance, [1, 4, 4])


@pytest.mark.parametrize("hole", [math.nan, math.inf, -math.inf])
def test_holes_in_a_map_neither_warn_nor_are_chosen(hole):
    """Interpolation next to infinity, and its discount, once multiplied zero by infinity."""
    variance = 1 + 0.01 * GRID.points[:, 0].reshape(GRID.shape)
    variance[:, 12:] = hole
    variance[3, 3] = hole
    lengthscale = np.full(GRID.shape, 3.0)
    lengthscale[5:8, 5:8] = hole
    published = ElevationMap(GRID, variance, variance, {"lengthscale": lengthscale})
    view = GridView(published, np.array([[4.0, 4.0], [15.0, 3.0]]), np.array([[6.0, 6.0]]))
    situation = Situation(np.array([5.0, 5.0]), Extent(0, 20, 0, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at_nodes = view.predict(GRID.points).variance
        rng = np.random.default_rng(0)
        [waypoint] = max_entropy(view, situation, MaxEntropyOptions(), rng)
    np.testing.assert_array_equal(np.isfinite(at_nodes)[variance.ravel() == hole], False)
    assert waypoint[0] <= 11


# --- Places visited since the map ---


def test_variance_grows_with_the_distance_to_the_nearest_ping():
    points = np.array([[0.0, 0.0], [2.0, 0.0], [3.0, 0.0], [50.0, 0.0]])
    variance = np.array([9.0, 9.0, 9.0, 5.0])
    old, new = np.array([[6.0, 0.0]]), np.array([[0.0, 0.0], [-9.0, 0.0]])
    after = discount_visited(variance, points, np.full(4, 100.0), new, old)
    # 6, 4, 3 and 44 m from the old ping; 0, 2, 3 and 50 m from the new ones.
    np.testing.assert_allclose(after, [5, 5 + 4 * 2 / 4, 9, 5])
    short = discount_visited(variance, points, np.full(4, 2.5), new, old)
    np.testing.assert_allclose(short, [5, 5 + 4 * 2 / 2.5, 9, 5])


@pytest.mark.parametrize("method", ["nngp", pytest.param("poam", marks=pytest.mark.slow)])
def test_the_discount_predicts_the_models_next_variance(method):
    """Much better than a map taken as it is, for a track through a gap between lanes."""
    workspace = Extent(-30, 30, -30, 30)
    rng = np.random.default_rng(0)
    lanes = [np.column_stack((np.linspace(-30, 30, 150), np.full(150, y))) for y in (-30, -10, 10)]
    old, new = np.concatenate(lanes), lanes[0][::3] + (0, 30)

    terrain = load_terrain("jacksboro")

    def elevation(xy):
        return terrain.elevation_at(xy) + rng.normal(0, 1, len(xy))

    given = {
        "nngp": {"nngp.first_steps": 100, "nngp.early_steps": 0},
        "poam": {"sparse.num_inducing": 150, "sparse.steps": 310},
    }
    mapper = BathymetricMapper(workspace, ModelSettings.of({"method": method, **given[method]}), 0)
    mapper.update(old, elevation(old))
    published = mapper.map(Grid.cells(workspace, 1.0))
    points = published.grid.points
    stale, seen = published.variance.ravel(), GridView(published, new, old).predict(points).variance
    learned = replace(mapper.settings.options, **{"nngp": {}, "poam": {"steps": 0}}[method])
    again = BathymetricMapper(workspace, replace(mapper.settings, options=learned), 0)
    again.restore(mapper.state())
    again.update(new, elevation(new))
    after = again.predict(points).variance
    changed = np.abs(np.log(after / stale)) > 0.1
    assert changed.mean() > 0.1

    def error(variance):
        return np.abs(np.log(variance / after))[changed].mean()

    assert error(seen) < 0.6 * error(stale)


def test_unusable_variances_do_not_become_the_floor():
    variance = np.array([4.0, np.nan, -np.inf, -2.0, 1.0])
    points = np.zeros((5, 2))
    after = discount_visited(variance, points, np.ones(5), np.zeros((1, 2)), NOWHERE)
    np.testing.assert_array_equal(after, [1.0, np.nan, -np.inf, -2.0, 1.0])
    broken = np.full(3, np.nan)
    after = discount_visited(broken, points[:3], np.ones(3), np.zeros((1, 2)), NOWHERE)
    assert np.isnan(after).all()


def test_a_stale_map_does_not_keep_the_vehicle_where_it_has_just_been():
    stale = a_map(4.0 + 1e-3 * GRID.points[:, 0].reshape(GRID.shape))
    track = np.column_stack((np.linspace(0, 10, 40), np.full(40, 10.0)))
    situation, rng = Situation(track[-1], Extent(0, 20, 0, 20)), np.random.default_rng(0)
    heavy, published = MaxEntropyOptions(distance_weight=5.0), MaxEntropyOptions()
    [stays] = max_entropy(GridView(stale, NOWHERE, NOWHERE), situation, heavy, rng)
    [leaves] = max_entropy(GridView(stale, track, NOWHERE), situation, published, rng)
    assert np.linalg.norm(stays - track[-1]) < 1
    assert np.linalg.norm(leaves - track, axis=1).min() > 3
