"""Errors of level that all soundings of a day share, in joint draws."""

import numpy as np
import pytest
from soundings import write_survey

from poam_ros.core.geometry import Extent, Grid
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.drawing import with_level_errors
from poam_ros.mapping.sounding_map import map_soundings
from poam_ros.mapping.soundings import Labels, SoundingMapSettings
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.volume import read_water

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
