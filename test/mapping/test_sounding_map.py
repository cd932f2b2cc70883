"""Placed soundings through the screen and the model, and what held-out ones say of the map."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import yaml
from soundings import ground, write_survey

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, map_grid
from poam_ros.core.workers import cluster
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping import drawing
from poam_ros.mapping.drawing import draw, joint_draws, predict
from poam_ros.mapping.sounding_map import (
    STATIONARY,
    cell_size,
    cross_validate,
    learn,
    map_soundings,
    validate_fold,
)
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.models.nngp.calibration import VarianceCalibration
from poam_ros.models.registry import ModelSettings, NeighbourOptions
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.outputs.held_out import score
from poam_ros.outputs.html_report import write_report
from poam_ros.outputs.run import Run
from poam_ros.screening import ScreeningSettings

WORKSPACE = Extent(-3, 62, -3, 43)
MODEL = NeighbourOptions(first_steps=60, blending=0.0, early_steps=4, hidden=8, lattice=8)


def quick(**given):
    given = {"model": ModelSettings("nngp", MODEL), "first_batch": 100, "batch_size": 50} | given
    return SoundingMapSettings(**given)


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    return read_soundings(
        write_survey(tmp_path_factory.mktemp("log") / "log.csv"), ReadOptions(by="line")
    )


@pytest.fixture(scope="module")
def mapper(survey):
    return learn(survey, WORKSPACE, quick())[0]


def test_batches_are_in_the_order_of_the_record():
    settings = SoundingMapSettings(first_batch=100, batch_size=30)
    assert settings.ends(170) == [100, 130, 160, 170]
    assert settings.ends(100) == [100] and settings.ends(7) == [7]
    # Left to themselves they grow with the record: a long one is cut into about a thousand.
    alone = SoundingMapSettings(first_batch=600)
    assert alone.ends(1000)[:2] == [600, 660]
    assert len(alone.ends(1_000_000)) == 251


def test_the_map_is_close_to_the_bottom(mapper, survey):
    assert mapper.samples == len(survey)
    np.testing.assert_array_equal(mapper.data.number, survey.row)
    grid = map_grid(WORKSPACE, 2.0)
    drawn = draw(mapper, grid)
    inside = Extent(2, 56, 2, 38).contains(grid.points).reshape(grid.shape)
    error = drawn.mean - ground(*grid.points.T).reshape(grid.shape)
    assert np.sqrt(np.mean(error[inside] ** 2)) < 0.3
    assert drawn.samples == len(survey) and drawn.variance.min() > 0


@pytest.mark.parametrize(("tile", "side"), [(1, 1), (50, 4), (170, 7)])
def test_tiles_do_not_change_the_map(mapper, monkeypatch, tile, side):
    grid = map_grid(WORKSPACE, 4.0)
    whole, asked = mapper.map(grid), []
    monkeypatch.setattr(drawing, "TILE", tile)
    monkeypatch.setattr(drawing, "SIDE", side)
    drawn = draw(mapper, grid, asked.append)
    np.testing.assert_allclose(drawn.mean, whole.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(drawn.variance, whole.variance, rtol=1e-9)
    np.testing.assert_allclose(drawn.lengthscale, whole.lengthscale)
    assert asked[-1] == grid.shape[0] * grid.shape[1] and len(asked) > 1
    found = predict(mapper, grid.points)
    np.testing.assert_allclose(found.mean, whole.mean.ravel(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("side", [3, 8, 100])
def test_only_tiles_with_wanted_cells_are_drawn(mapper, monkeypatch, side):
    grid = map_grid(WORKSPACE, 4.0)
    whole, wanted = mapper.map(grid), np.zeros(grid.shape, dtype=bool)
    wanted[1:4, 2] = wanted[-1, -1] = wanted[-2, 0] = True
    monkeypatch.setattr(drawing, "SIDE", side)
    drawn = draw(mapper, grid, wanted=wanted)
    np.testing.assert_allclose(drawn.mean[wanted], whole.mean[wanted], rtol=0, atol=1e-9)
    assert side > 3 or np.isnan(drawn.mean).mean() > 0.5


def test_false_echoes_are_refused_if_screening_is_on(tmp_path):
    survey = read_soundings(write_survey(tmp_path / "log.csv", echoes=8))
    screened, refused, _ = learn(survey, WORKSPACE, quick())
    assert len(refused) >= 7 and screened.samples == len(survey) - len(refused)
    assert (screened.z > -17).sum() >= screened.samples - 1
    believing = quick(screening=ScreeningSettings(enabled=False))
    every, refused, _ = learn(survey, WORKSPACE, believing)
    assert len(refused) == 0 and every.samples == len(survey)


def test_soundings_above_the_water_are_not_screened(survey, caplog):
    high = survey.samples(-11.0)
    with caplog.at_level(logging.WARNING):
        settings = quick(water_level=-11.0).screened(high)
    assert not settings.screening.enabled and "no screening" in caplog.text
    assert quick().screened(survey.samples(0.0)).screening.enabled


def test_soundings_that_make_no_map_are_reported(survey):
    flat = replace(survey, z=np.full(len(survey), -5.0))
    with pytest.raises(InputError, match="do not differ enough"):
        learn(flat, WORKSPACE, quick(screening=ScreeningSettings(enabled=False)))


def test_the_kernel_that_predicts_is_told(survey, tmp_path):
    made = map_soundings(survey, map_grid(WORKSPACE, 2.0), WORKSPACE, quick(stretches=0))
    assert STATIONARY.format("stationary") not in made.sentences()
    theta = made.mapper._model._learned.average
    made.mapper._model._widen(VarianceCalibration(stationary=theta))
    assert STATIONARY.format("stationary") in made.sentences()
    made.write(tmp_path, tmp_path / "log.csv")
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["kernel"] == "stationary"
    assert ">stationary<" in write_report(Run.open(tmp_path)).read_text()


def test_the_folder_has_all_files(survey, tmp_path):
    (tmp_path / "validation.json").write_text("of an earlier run")
    held = survey.group == 2
    grid, seen = map_grid(WORKSPACE, 4.0), []
    mapped = map_soundings(survey, grid, WORKSPACE, quick(), held, seen.append)
    assert (tmp_path / "validation.json").exists()  # nothing is written before all is computed
    mapped.write(tmp_path, tmp_path / "log.csv")
    assert mapped.samples == 200 and mapped.held_out.row.tolist() == np.flatnonzero(held).tolist()
    assert seen == sorted(seen) and seen[-1] == 200 + grid.shape[0] * grid.shape[1]
    assert not (tmp_path / "validation.json").exists()
    samples = read_table(tmp_path / "samples.csv", ("x", "y", "z"))
    np.testing.assert_array_equal(samples["z"], survey.z[~held])
    assert read_map(tmp_path / "map.npz").mean.shape == grid.shape
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    assert config["method"] == "nngp" and config["workspace"] == list(WORKSPACE.bounds)
    assert config["samples"] == {"mapped": 200, "false_echoes": 0}


def test_a_fold_does_not_learn_what_it_predicts(survey):
    """Held-out soundings that lie change nothing of the map that they are compared with."""
    held = survey.group == 3
    honest = validate_fold(survey, held, 0, WORKSPACE, quick())
    lying = replace(survey, z=np.where(held, survey.z - 50.0, survey.z))
    lied = validate_fold(lying, held, 0, WORKSPACE, quick())
    np.testing.assert_array_equal(honest.mean, lied.mean)
    np.testing.assert_allclose(lied.z, honest.z - 50.0)  # nor are they screened


def bay(survey):
    """The survey's soundings of a bay in the east, where no others are."""
    return survey.xy[:, 0] > 40


def test_what_a_map_does_not_show_is_told_apart(survey):
    """By folds and with a share held out; all is shown if the map is extrapolated."""
    held, settings = bay(survey), quick()
    grid = map_grid(WORKSPACE, 1.0)
    for found in (
        validate_fold(survey, held, 0, WORKSPACE, settings),
        map_soundings(survey, grid, WORKSPACE, settings, held).held_out,
    ):
        near = found.xy[:, 0] < 42
        assert found.shown[near].mean() > 0.5 and not found.shown[found.xy[:, 0] > 52].any()
    whole = validate_fold(survey, held, 0, WORKSPACE, settings, extrapolate=True)
    assert whole.shown.all() and np.array_equal(whole.mean, found.mean)


def test_folds_hold_out_every_sounding_once(survey):
    seen = []
    held = cross_validate(survey, WORKSPACE, quick(), 3, on_progress=seen.append)
    assert held.row.tolist() == survey.row.tolist()
    assert all(len(set(held.fold[survey.group == g])) == 1 for g in range(6))
    scores = score(held)
    assert scores.rmse < 1.5 and scores.msll < 0
    assert seen == sorted(seen) and seen[-1] == 2 * len(survey)


@pytest.mark.slow
def test_parallel_folds_equal_serial_ones(survey, mapper, monkeypatch):
    """Folds, and the map and joint draws in tiles by a worker with a mapper of its own."""
    pytest.importorskip("distributed")
    few, settings = survey[np.flatnonzero(survey.group < 3)], quick(first_batch=60)
    grid, seen = map_grid(WORKSPACE, 1.0), []
    wanted = np.hypot(*(grid.points - (20, 30)).T).reshape(grid.shape) < 9
    with cluster(2, workers=1) as client:  # a second one would only cost its start
        beside = cross_validate(few, WORKSPACE, settings, 2, client)
        tiles = draw(mapper, grid, seen.append, client=client)
        within = draw(mapper, grid, wanted=wanted, client=client)
        monkeypatch.setattr(drawing, "FIRST", 30)
        monkeypatch.setattr(drawing, "WIDE", 4)
        draws = joint_draws(mapper, grid.points[::7], 20, 5, client)
    np.testing.assert_allclose(
        draws, joint_draws(mapper, grid.points[::7], 20, 5), rtol=0, atol=1e-4
    )
    turn = cross_validate(few, WORKSPACE, settings, 2)
    np.testing.assert_allclose(beside.mean, turn.mean, atol=1e-6)
    np.testing.assert_array_equal(beside.fold, turn.fold)
    whole = mapper.map(grid)
    np.testing.assert_allclose(tiles.mean, whole.mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(tiles.variance, whole.variance, rtol=1e-9)
    assert tiles.fields.keys() == whole.fields.keys() and tiles.samples == len(survey)
    np.testing.assert_allclose(tiles.lengthscale, whole.lengthscale)
    assert seen[-1] == grid.shape[0] * grid.shape[1]
    np.testing.assert_allclose(within.mean[wanted], whole.mean[wanted], rtol=0, atol=1e-9)


def test_a_record_that_is_not_a_track_is_not_screened(survey, caplog):
    shuffled = survey[np.random.default_rng(0).permutation(len(survey))]
    usual = SoundingMapSettings()
    with caplog.at_level(logging.WARNING):
        settings = usual.screened(shuffled.samples(0.0))
    assert not settings.screening.enabled and "are next to the previous one" in caplog.text
    assert settings == usual.screened(shuffled.samples(0.0), table=True)
    assert settings.model.options.neighbour_spacing == 0.2
    assert usual.screened(survey.samples(0.0)).model == usual.model
    assert usual.model.options.neighbour_spacing == 0.3


@pytest.mark.parametrize(
    ("side", "area", "cell"),
    [(256, np.inf, 1), (1300, np.inf, 5), (1500, np.inf, 10), (100, np.inf, 0.5),
     (990_000, np.inf, 5000), (2000, 500_000.0, 10), (2000, 2000 * 80.0, 5)],
)  # fmt: skip
def test_cell_sizes_are_round_and_smaller_for_a_river(side, area, cell):
    assert cell_size(Extent(0, side, 0, side / 5), area) == pytest.approx(cell)
