"""Soundings on two sides of a spit are no neighbours."""

from functools import cache

import numpy as np
import pytest
import torch

from poam_ros.core.geometry import Extent, Grid, Land
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.nngp.sites import hidden_by
from poam_ros.models.registry import ModelSettings

EXTENT = Extent(0, 100, 0, 100)
OPTIONS = {
    "method": "nngp", "nngp.neighbours": 16, "nngp.candidate_neighbours": 200,
    "nngp.neighbour_spacing": 0.2, "nngp.first_steps": 30, "nngp.hidden": 8, "nngp.lattice": 8,
    "nngp.blending": 1.5,
}  # fmt: skip
#: On both shores of the spit, with water of their own basin beside them.
SHORES = np.array([[47.5, 20.0], [52.5, 20.0], [47.5, 60.0], [52.5, 60.0]])
DEPTHS = np.array([-5.0, -15.0, -5.0, -15.0])


def spit(xy):
    return (abs(xy[:, 0] - 50) < 2) & (xy[:, 1] < 85)


@cache
def shore():
    grid = Grid.cells(EXTENT, 0.5)
    return Land(grid, ~spit(grid.points).reshape(grid.shape))


def learned(land):
    """Two basins, 5 and 15 m deep, sounded up to 5 m from the spit between them."""
    rng = np.random.default_rng(0)
    xy = EXTENT.sample(700, rng)
    xy = xy[abs(xy[:, 0] - 50) > 5]
    z = np.where(xy[:, 0] < 50, -5.0, -15.0) + 0.05 * rng.standard_normal(len(xy))
    mapper = BathymetricMapper(EXTENT, ModelSettings.of(OPTIONS), land=land)
    mapper.update(xy, z)
    mapper.calibrate(8)
    return mapper


def test_compiled_and_plain_code_hide_the_same_sites():
    rng = np.random.default_rng(1)
    places, sites = (torch.from_numpy(EXTENT.grown(5).sample(n, rng)) for n in (300, 200))
    near = torch.from_numpy(rng.integers(-1, 200, (300, 16)))
    here = hidden_by(shore(), places, sites, near)
    between = shore().between(places[:, None].expand(-1, 16, -1).reshape(-1, 2).numpy(),
                              sites[near.clamp_min(0)].reshape(-1, 2).numpy())  # fmt: skip
    assert torch.equal(here, (near >= 0) & torch.from_numpy(between).reshape(300, 16))
    assert 0.2 < here.double().mean() < 0.8


@pytest.mark.parametrize("separated", [True, False])
def test_basins_do_not_mix_across_a_spit(backend, separated):
    mapper = learned(shore() if separated else None)
    errors = [mapper.predict(SHORES).mean - DEPTHS]
    grid = Grid.cells(Extent(0, 100, 10, 60), 1.0)
    drawn = mapper.map(grid)
    truth = np.where(grid.points[:, 0] < 50, -5.0, -15.0)
    wet = ~spit(grid.points)
    errors.append((drawn.mean.ravel() - truth)[wet])
    for error in errors:
        assert (np.abs(error).max() < 0.3) == separated


def test_draws_of_two_basins_are_independent():
    draws = learned(shore()).deviations(SHORES[:2], 400, 0)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 0.2


def test_draws_beside_land_are_as_wide_as_the_prediction():
    """A place across the spit, which is no neighbour of a draw, takes none of its variance."""
    rng = np.random.default_rng(0)
    xy = EXTENT.sample(300, rng)
    xy = xy[abs(xy[:, 0] - 50) > 20]
    z = -10 + 3 * np.sin(xy[:, 0] / 15) * np.cos(xy[:, 1] / 11) + rng.normal(0, 0.05, len(xy))
    beside = Grid.cells(Extent(41, 59, 10, 70), 2.0).points
    beside = beside[~spit(beside)]
    for land in (shore(), None):
        mapper = BathymetricMapper(EXTENT, ModelSettings.of(OPTIONS), land=land)
        mapper.update(xy, z)
        drawn = mapper.deviations(beside, 600, 1).var(0)
        ratio = np.sqrt(drawn.mean() / mapper.predict(beside).variance.mean())
        assert 0.95 < ratio < 1.05, (land, ratio)


def test_a_basin_without_soundings_is_the_prior(backend):
    water = shore().water.copy()
    water[:, 96:104] = False  # no way around
    mapper = BathymetricMapper(EXTENT, ModelSettings.of(OPTIONS), land=Land(shore().grid, water))
    xy = np.random.default_rng(0).uniform((0, 0), (45, 100), (300, 2))
    mapper.update(xy, -5 + np.sin(xy[:, 0] / 9))
    near, across = mapper.predict(np.array([[40.0, 50.0], [60.0, 50.0]])).variance
    assert across > 100 * near


def test_land_elsewhere_changes_nothing():
    water = np.ones(shore().water.shape, dtype=bool)
    water[0, 0] = False
    maps = [learned(land).predict(SHORES) for land in (None, Land(shore().grid, water))]
    assert np.array_equal(maps[0].mean, maps[1].mean)
