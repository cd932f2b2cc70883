"""Joint draws at many places, in tiles: as good as those of all places together."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.mapping import drawing as module
from poam_ros.mapping.drawing import joint_draws
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.registry import ModelSettings

EXTENT = Extent(0, 100, 0, 100)
PLACES = Grid.cells(EXTENT, 4.0).points


@pytest.fixture(scope="module", params=["nngp", "poam"])
def mapper(request):
    """Lines 25 m apart over a bottom that is uncertain between them."""
    rng = np.random.default_rng(0)
    xy = np.array([(x, y) for y in np.arange(10, 100, 25.0) for x in np.arange(0, 100, 5.0)])
    z = -8 + np.sin(xy[:, 0] / 9) + np.cos(xy[:, 1] / 7) + 0.05 * rng.standard_normal(len(xy))
    mapper = BathymetricMapper(EXTENT, ModelSettings(method=request.param))
    mapper.update(xy, z)
    return mapper


@pytest.fixture
def small(monkeypatch):
    """Few places in the first round, and small tiles."""
    monkeypatch.setattr(module, "FIRST", 40)
    monkeypatch.setattr(module, "WIDE", 6)


def test_few_places_are_drawn_together(mapper):
    draws = joint_draws(mapper, PLACES, 5, 3)
    np.testing.assert_allclose(draws, mapper.deviations(PLACES, 5, 3), atol=1e-5)


def test_tiles_have_the_covariance_of_all_places_together(mapper, small):
    """At places, between neighbours on either side of tiles' borders, and of the mean of all."""
    draws = joint_draws(mapper, PLACES, 2000, 1).astype(float)
    together = mapper.deviations(PLACES, 2000, 2)
    scale = together.std(0)
    assert draws.std(0) == pytest.approx(scale, abs=0.1 * scale.max())
    assert draws.mean(1).std() == pytest.approx(together.mean(1).std(), rel=0.1)
    for step in (1, 25):  # to the next column, and the next row
        pair, whole = (
            (each[:, step:] * each[:, :-step]).mean(0) / scale.max() ** 2
            for each in (draws, together)
        )
        assert np.abs(pair - whole).mean() < 0.05 and np.abs(pair - whole).max() < 0.4
    assert (together[:, 1:] * together[:, :-1]).mean() > 0.5 * together.var()


def test_the_order_of_the_tiles_makes_no_difference(mapper, small, monkeypatch):
    rounds, forwards, expected = [], module._drawn, joint_draws(mapper, PLACES, 4, 1)

    def backwards(mapper, tiles, client):
        rounds.append(len(tiles))
        return reversed(list(forwards(mapper, tiles, client)))

    monkeypatch.setattr(module, "_drawn", backwards)
    assert np.array_equal(joint_draws(mapper, PLACES, 4, 1), expected)
    assert len(rounds) >= 2 and max(rounds) > 4


def test_places_at_one_point_and_on_a_line_come_to_an_end(mapper, small):
    for xy in (PLACES[:1].repeat(60, axis=0), PLACES[:, :1] * (1.0, 0.0) + (0.0, 50.0)):
        draws = joint_draws(mapper, xy + 1e-3 * np.arange(len(xy))[:, None], 3, 0)
        assert draws.shape == (3, len(xy)) and np.isfinite(draws).all()


@pytest.mark.parametrize("shape", ["square", "two lakes far apart", "river", "one point"])
def test_tiles_are_small_whatever_the_shape_of_the_area(shape):
    rows, columns = np.indices((100, 100)).reshape(2, -1)
    xy = np.column_stack((rows, columns)).astype(float)
    if shape == "two lakes far apart":
        xy[rows < 50] -= 1e5
    if shape == "river":
        xy = np.column_stack((100 * columns + rows, 100 * columns)).astype(float)
    if shape == "one point":
        xy[:] = 3.0
    drawn, tiles = [], [0]
    for number, (side, places) in enumerate(module._rounds(xy)):
        drawn.append(places)
        if number:
            tiles += map(len, module._squared(xy, places, module.WIDE * side))
    assert np.array_equal(np.sort(np.concatenate(drawn)), np.arange(len(xy)))
    assert min(map(len, drawn)) > 0 and max(tiles) <= module.WIDE**2
