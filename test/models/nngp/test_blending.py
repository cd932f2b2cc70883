"""Maps without steps: blended neighbours, no less accurate than each cell's own."""

import numpy as np
import pytest
import torch

from poam_ros.core.geometry import Extent, Grid
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.nngp import online
from poam_ros.models.nngp.conditional import condition
from poam_ros.models.registry import ModelSettings

EXTENT = Extent(0, 200, 0, 160)
GRID = Grid.cells(Extent(60, 140, 40, 120), 1.0)
OPTIONS = {
    "method": "nngp", "nngp.neighbours": 24, "nngp.candidate_neighbours": 200,
    "nngp.neighbour_spacing": 0.2, "nngp.first_steps": 40, "nngp.hidden": 8, "nngp.lattice": 8,
}  # fmt: skip


def bottom(xy):
    return -10 + 2 * np.sin(xy[:, 0] / 25) * np.cos(xy[:, 1] / 20)


@pytest.fixture(scope="module")
def mappers():
    """The same survey lines without and with blending."""
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(np.arange(4, 198, 4.0), np.arange(10, 160, 20.0))
    xy = np.column_stack((x.ravel(), y.ravel())) + rng.normal(0, 0.5, (x.size, 2))
    z = bottom(xy) + 0.1 * rng.standard_normal(len(xy))
    made = []
    for blending in (0.0, 1.5):
        mapper = BathymetricMapper(EXTENT, ModelSettings.of({**OPTIONS, "nngp.blending": blending}))
        mapper.update(xy, z)
        made.append(mapper)
    return made


def steps(mean):
    """What a smooth map has not: second differences from cell to cell, at the 99 % quantile."""
    return np.quantile(np.abs(np.diff(mean, 2, axis=0)), 0.99)


def test_a_blended_map_has_no_steps_and_no_larger_errors(mappers):
    plain, blended = (mapper.map(GRID) for mapper in mappers)
    assert steps(blended.mean) < 0.5 * steps(plain.mean)
    truth = bottom(GRID.points).reshape(GRID.shape)
    errors = [np.sqrt(np.square(drawn.mean - truth).mean()) for drawn in (plain, blended)]
    assert errors[1] < 1.03 * errors[0]
    np.testing.assert_allclose(blended.variance, plain.variance, rtol=0.5)
    within = np.abs(blended.mean - truth) < 1.96 * np.sqrt(blended.variance)
    assert within.mean() > 0.93


def test_places_that_share_a_node_share_its_neighbours(mappers, monkeypatch):
    """What costs most of a map, the covariances among neighbours, once a node and not per place."""
    seen = []

    def watched(kernel, sites, x, neighbours, own=None):
        seen.append((len(x), len(neighbours)))
        return condition(kernel, sites, x, neighbours, own)

    monkeypatch.setattr(online, "condition", watched)
    mappers[1].map(GRID)
    [(predictions, sets)] = seen
    assert 6400 < predictions <= 4 * 6400 and sets < predictions / 10


def test_bands_of_a_map_fit_together(mappers):
    whole = mappers[1].map(GRID)
    bands = [mappers[1].map(Grid(GRID.x, part)) for part in np.split(GRID.y, [33, 34])]
    for name in ("mean", "variance"):
        joined = np.concatenate([getattr(band, name) for band in bands])
        np.testing.assert_allclose(joined, getattr(whole, name), rtol=1e-9)


def test_a_coarse_grid_is_not_blended(mappers):
    coarse = Grid.cells(EXTENT, 40.0)
    plain, blended = (mapper.map(coarse).mean for mapper in mappers)
    np.testing.assert_array_equal(plain, blended)


def test_between_dense_tracks_no_step_halfway():
    """Two tracks with a ping every 0.4 m: the 96 nearest pings are all of the nearer one."""
    along = np.arange(20, 180, 0.4)
    xy = np.concatenate([np.column_stack((along, np.full_like(along, y))) for y in (40, 120)])
    z = bottom(xy)
    near = {"nngp.candidate_neighbours": 96, "nngp.neighbour_spacing": 0.0, "nngp.blending": 0.0}
    largest = []
    for options in ({}, near):
        mapper = BathymetricMapper(
            EXTENT, ModelSettings.of({"method": "nngp", "nngp.first_steps": 60, **options})
        )
        mapper.update(xy, z)
        largest.append(np.abs(np.diff(mapper.map(Grid.cells(EXTENT, 1.0)).mean, 2, axis=0)).max())
    assert largest[0] < 0.3 * largest[1]


@pytest.mark.parametrize("count", [2000, 1, 0])
def test_the_distinct_nodes_are_those_of_unique_rows(count):
    random = torch.Generator().manual_seed(0)
    nodes = torch.randint(-40, 90, (count, 2), generator=random).double()
    expected = torch.unique(nodes, dim=0, return_inverse=True)
    for found, right in zip(online.distinct(nodes), expected, strict=True):
        assert torch.equal(found, right)
