"""Joint draws at many places, in tiles: as good as those of all places together; and the errors of
level in them."""

import numpy as np
import pytest
from soundings import write_survey

from poam_ros.core.geometry import Extent, Grid
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping import drawing as module
from poam_ros.mapping.drawing import joint_draws, with_level_errors
from poam_ros.mapping.sounding_map import map_soundings
from poam_ros.mapping.soundings import Labels, SoundingMapSettings
from poam_ros.models.mapper import BathymetricMapper
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.volume import read_water

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
    rounds, forwards, expected = [], module.by_workers, joint_draws(mapper, PLACES, 4, 1)

    def backwards(client, threads, task, mapper, tiles, what):
        rounds.append(len(tiles))
        return reversed(list(forwards(client, threads, task, mapper, tiles, what)))

    monkeypatch.setattr(module, "by_workers", backwards)
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


TRACK = np.column_stack((np.arange(0.0, 100.0), np.zeros(100)))
HALVES = Labels((np.arange(100) >= 50).astype(np.int64), ("first", "second"))


def flat(places, draws):
    return np.full((draws, len(places)), -5.0)


def test_places_are_off_as_the_day_nearest_to_them():
    draws = with_level_errors(flat, TRACK, HALVES, 0.2, seed=1)
    found = draws(np.array([[10.0, 30.0], [20.0, -5.0], [80.0, 5.0]]), 4000)
    assert np.array_equal(found[:, 0], found[:, 1])
    assert found.std(0) == pytest.approx(np.full(3, 0.2), rel=0.05)
    assert abs(np.corrcoef(found[:, 0], found[:, 2])[0, 1]) < 0.05
    assert found.mean(0) == pytest.approx(np.full(3, -5.0), abs=0.02)


def test_days_whose_levels_are_known_share_one_error():
    """Two days of N(0, 0.2^2) that differ by 0.2 m: the error of the first is -0.1 +/- 0.14 m."""
    levels = {"first": (0.0, 0.0), "second": (0.2, 0.05)}
    ends = np.array([[10.0, 0.0], [90.0, 0.0]])
    found = with_level_errors(flat, TRACK, HALVES, 0.2, 1, levels)(ends, 4000)
    shared = np.hypot(0.1, 0.2 / np.sqrt(2))
    assert found.std(0) == pytest.approx([shared, np.hypot(shared, 0.05)], rel=0.05)
    assert np.diff(found).std() == pytest.approx(0.05, rel=0.05)
    unstated = with_level_errors(flat, TRACK, HALVES, 0.0, 1, levels)(ends, 4000)
    assert unstated.std(0) == pytest.approx([0.0, 0.05], rel=0.05)
    one = with_level_errors(flat, TRACK, HALVES, 0.2, 1, {"first": (0.0, 0.0)})(ends, 4000)
    assert one.std(0) == pytest.approx([0.2, 0.2], rel=0.05)


def test_the_volume_of_a_map_is_as_uncertain_as_its_level(tmp_path):
    soundings = read_soundings(write_survey(tmp_path / "log.csv"), ReadOptions(by="line"))
    extent = Extent(-3, 62, -3, 43)
    model = ModelSettings.of({"method": "nngp", "nngp.first_steps": 20, "nngp.early_steps": 2})

    def widths(level_error):
        settings = SoundingMapSettings(model=model, level_error=level_error)
        folder = tmp_path / str(level_error)
        grid = Grid.cells(extent, 2.0)
        map_soundings(soundings, grid, extent, settings).write(folder, tmp_path / "log.csv")
        water = read_water(folder).at(0.0)
        return np.ptp(water["volume"]), water["area"][0]

    (narrow, _), (wide, area) = widths(0.0), widths(0.5)
    assert wide == pytest.approx(np.hypot(narrow, 2 * 1.96 * 0.5 * area), rel=0.15)
