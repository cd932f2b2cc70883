"""How far another survey may differ from a map, by the errors that the survey shows of itself."""

from dataclasses import replace

import numpy as np
import pytest
from surveyed_days import planted, survey

from poam_ros.mapping.calibration import calibrated, known_errors
from poam_ros.mapping.crossed import cross
from poam_ros.mapping.exclusions import days
from poam_ros.mapping.soundings import LINE, SoundingMapSettings
from poam_ros.mapping.survey_errors import Spread, SurveyErrors, of_few

SETTINGS = SoundingMapSettings()


def on_a_slope(spread, position=0.0, level=0.0):
    """Two soundings on a bottom that falls by 0.1 to the east and 0.05 to the north."""
    xy = np.array([[0.0, 0.0], [10.0, 0.0]])
    return SurveyErrors(spread, 4.0, xy, np.full(2, position), np.full(2, level))


def deviations(errors, variance=0.04, narrow=0.01):
    xy = errors.xy + 1.0

    def bottom(at):
        return -5.0 - 0.1 * at[:, 0] - 0.05 * at[:, 1]

    every = np.ones(len(xy))
    return errors.deviations(bottom, xy, bottom(xy), variance * every, narrow * every, 0.0)


def test_a_position_that_is_off_is_a_depth_by_the_slope():
    """Both surveys are off; what the map was widened by is not added again."""
    found = deviations(on_a_slope(Spread(position=9.0), position=7.0))
    assert found == pytest.approx(np.sqrt(0.01 + 16.0 * (0.1**2 + 0.05**2)) * np.ones(2))


def test_errors_of_another_survey_come_on_top_of_what_is_left_after_a_correction():
    corrected = replace(on_a_slope(Spread(position=9.0), position=7.0), corrected=True)
    found = deviations(corrected)
    assert found == pytest.approx(np.sqrt(0.04 + 16.0 * (0.1**2 + 0.05**2)) * np.ones(2))


def test_levels_and_scales_of_days_are_added():
    found = deviations(on_a_slope(Spread(line=0.01, level=0.04, scale=1e-4), level=0.02))
    deep = 5.0 + 0.1 * np.array([1.0, 11.0]) + 0.05
    assert found == pytest.approx(np.sqrt(0.01 + 0.07 + 1e-4 * (deep - 4.0) ** 2))


def test_errors_of_few_recordings_and_days_count_for_more():
    """Student's t for a normal interval: 3.18 of 1.96 with 3 degrees of freedom."""
    assert of_few(0) == pytest.approx((3.182 / 1.96) ** 2, rel=1e-3)
    assert of_few(10**6) == pytest.approx(1.0, abs=1e-4)
    spread = Spread(position=9.0, level=0.04)
    few = replace(on_a_slope(spread, position=7.0, level=0.02), wider=(2.0, 3.0))
    known = 0.01 + 2.0 * 16.0 * (0.1**2 + 0.05**2) + 3.0 * 0.06
    assert deviations(few) == pytest.approx(np.sqrt(known) * np.ones(2))
    whole = survey()
    errors = known_errors(whole, cross(whole, SETTINGS), SETTINGS)
    lines = len(whole.labels[LINE].names)
    assert errors.wider == (of_few(2 * (lines - 1)), of_few(2))


def test_another_survey_is_never_better_known_than_the_map():
    assert deviations(on_a_slope(Spread(position=1e-4))) == pytest.approx(0.2)


def test_where_the_map_ends_only_its_inside_counts():
    errors = on_a_slope(Spread(position=4.0))
    xy = errors.xy

    def bottom(at):
        return np.where(at[:, 0] < 0, np.nan, -5.0 - 0.1 * at[:, 0])

    found = errors.deviations(bottom, xy, bottom(xy), np.zeros(2), np.zeros(2), 0.0)
    assert found[1] == pytest.approx(0.2) and 0.1 < found[0] < 0.25


@pytest.mark.parametrize("off", [1.0, 4.0])
def test_errors_of_positions_are_found_at_crossings(off):
    whole = survey()
    part = whole.labels[LINE]
    moves = np.random.default_rng(3).normal(0, off, (len(part.names), 2))
    whole = replace(whole, xy=whole.xy + moves[part.code])
    errors = known_errors(whole, cross(whole, SETTINGS), SETTINGS)
    assert errors.spread.position**0.5 == pytest.approx(off, rel=0.5)
    assert "errors of positions" in errors.sentence
    assert (errors.position == 0).all()  # of the survey itself, they are in the map's variance


def test_levels_that_few_crossings_know_vary_by_more_than_their_estimates():
    """Estimates are nearer to 0 than the errors, as before any crossing these are 0.3 m: without
    that undone, the standard deviation would be 0.65 m."""
    found = []
    for seed in range(4):
        whole = planted(survey(), level=1.5)
        noise = np.random.default_rng(seed).normal(size=len(whole))
        crossed = cross(whole := replace(whole, z=whole.z + noise), SETTINGS)
        found.append(known_errors(whole, crossed, SETTINGS).spread.level ** 0.5)
    assert np.mean(found) == pytest.approx(1.5 / 3**0.5, rel=0.2)


def test_corrected_soundings_keep_what_is_uncertain_of_their_corrections():
    whole = survey()
    part = whole.labels[LINE]
    moves = np.random.default_rng(3).normal(0, 4.0, (len(part.names), 2))
    whole = planted(replace(whole, xy=whole.xy + moves[part.code]), level=0.4)
    corrected, found = calibrated(whole, SETTINGS)
    errors = known_errors(corrected, cross(corrected, SETTINGS), SETTINGS)
    assert errors.spread == found.spread and errors.spread.level > 0.01
    assert 0 < errors.position.max() < 0.5 * errors.spread.position
    of_day = [float(errors.level[days(whole).code == i].max()) for i in range(3)]
    frame = np.pi / 2 * errors.spread.level / 3  # of the median of three days
    assert min(of_day) == pytest.approx(frame) and frame < max(of_day) < frame + 0.01
    some = corrected[np.arange(0, len(corrected), 7)].errors
    assert np.array_equal(some.position, errors.position[::7])


def test_a_line_that_crosses_no_other_is_as_uncertain_as_any():
    whole = survey()
    own = whole.labels[LINE].code == 3
    apart = replace(whole, xy=whole.xy + np.outer(own, (5000.0, 0.0)))
    errors = calibrated(apart, SETTINGS)[0].errors
    assert (errors.position[own] == errors.spread.position).all()
    assert errors.position[~own].max() < errors.spread.position
    assert np.isfinite(errors.level).all()


def test_a_record_whose_lines_do_not_cross_shows_no_errors():
    whole = survey()[np.arange(300)]
    assert known_errors(whole, cross(whole, SETTINGS), SETTINGS) is None
