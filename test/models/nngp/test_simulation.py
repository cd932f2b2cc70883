"""Joint draws: their covariance is the model's own, whatever the order and the neighbours."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import built, scattered

from poam_ros.core.geometry import Extent
from poam_ros.models.interface import Dataset, Drawn
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.nngp import conditional
from poam_ros.models.nngp.calibration import VarianceCalibration
from poam_ros.models.registry import ModelSettings, NeighbourOptions

OPTIONS = NeighbourOptions(
    first_steps=15, hidden=8, lattice=8, neighbours=32, candidate_neighbours=40
)


def learned(count=32):
    model = built(OPTIONS)
    X = scattered(count, 1).X
    model.update(Dataset(X, torch.sin(3 * X[:, 0]) + 0.5 * torch.cos(5 * X[:, 1])))
    return model


def none_before(count):
    return Drawn(torch.empty(0, 2, dtype=torch.float64), torch.empty(count, 0))


@pytest.mark.parametrize(("first", "shared"), [(1, False), (6, False), (6, True)])
def test_draws_have_the_joint_covariance(first, shared):
    """With all data and all places before as neighbours nothing is approximated; in two
    parts, the second given the first."""
    model, x = learned(), scattered(conditional.BEFORE, 3).X
    if shared:
        model._kernel = replace(model._averaged(), shared_variance=0.2, shared_sites=9.0)
    exact = model.covariance(x, noise=False)
    generator, given = torch.Generator().manual_seed(0), none_before(40_000)
    draws = model.deviations(x[:first], 40_000, generator, given)
    given = Drawn(x[:first], draws)
    draws = torch.cat([draws, model.deviations(x[first:], 40_000, generator, given)], dim=1)
    scale = exact.diagonal().sqrt()
    assert draws.mean(0).abs().max() < 0.03 * scale.max()
    error = (torch.cov(draws.T) - exact) / (scale[:, None] * scale)
    assert error.abs().max() < 0.04
    correlation = exact / (scale[:, None] * scale)
    assert (correlation - torch.eye(len(x))).abs().max() > 0.3  # they are not independent


def test_draws_are_widened_by_the_factor_of_sums_alone():
    model, x = learned(200), scattered(60, 3).X
    before = model.deviations(x, 400, torch.Generator().manual_seed(0), none_before(400))
    model._widening = VarianceCalibration(0.5, 9.0, 4.0)
    after = model.deviations(x, 400, torch.Generator().manual_seed(0), none_before(400))
    assert torch.allclose(after, 2 * before, atol=1e-9)


def test_the_order_goes_from_far_to_near():
    places = np.random.default_rng(0).uniform(size=(300, 2))
    order = conditional.farthest_first(places)
    assert sorted(order) == list(range(300))
    apart = [
        np.sqrt(np.square(places[order[:i]] - places[order[i]]).sum(1).min()) for i in range(1, 300)
    ]
    assert (np.diff(apart[1:]) <= 1e-12).all()


def test_neighbours_among_earlier_places_are_the_nearest():
    x = np.random.default_rng(1).uniform(size=(200, 2))
    found = conditional._nearest_before(x, 5)
    for i in (0, 1, 4, 5, 50, 199):
        distance = np.square(x[:i] - x[i]).sum(1)
        assert set(found[i][found[i] >= 0]) == set(np.argsort(distance)[:5]), i
    assert np.array_equal(np.sort(conditional._nearest_before(x, 5, 50)), np.sort(found[50:]))


@pytest.mark.parametrize("method", ["nngp", "poam"])
def test_every_mapper_draws(method):
    xy = np.random.default_rng(0).uniform(0, 50, size=(80, 2))
    mapper = BathymetricMapper(Extent(0, 50, 0, 50), ModelSettings(method=method))
    mapper.update(xy, -5 + np.sin(xy[:, 0] / 10))
    places = np.random.default_rng(1).uniform(0, 50, size=(40, 2))
    draws = mapper.deviations(places, 500, seed=3)
    assert draws.shape == (500, 40)
    std = np.sqrt(mapper.predict(places, noise=False).variance)
    assert np.abs(draws.mean(0)).max() < 0.3 * std.max()
    assert np.abs(draws.std(0) / std - 1).max() < 0.35
    assert np.array_equal(draws, mapper.deviations(places, 500, seed=3))
    near = places + 0.01  # as good as the same places
    again = mapper.deviations(near, 500, 4, (places, draws))
    assert np.abs(again - draws).max() < 0.2 * std.max()
