"""How long a survey takes until its map meets a target."""

import math
from dataclasses import replace

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.boustrophedon import DRAWS, Bottom, forecast, path_cost
from poam_ros.planning.planners import Situation
from poam_ros.planning.routes import Routes
from poam_ros.planning.tvu import CONFIDENCE_95, allowed

WORKSPACE = Extent(0.0, 60.0, 0.0, 40.0)
CORNER = np.zeros(2)
NO_PILOT = np.empty((0, 2))
LINES = np.arange(4.5, 40, 8)  # through the centres of cells


def drawn_map(slope, exponent, noise, depth=10.0):
    """A map whose variance is noise^2 + slope d^exponent about pings on lines 8 m apart."""
    grid = Grid.cells(WORKSPACE, 1.0)
    x = np.arange(0.5, 60.0, 0.5)
    pings = np.concatenate([np.column_stack((x, np.full_like(x, y))) for y in LINES])
    distance = np.abs(grid.points[:, 1, None] - LINES).min(1)
    factor = np.where(grid.points[:, 0] < 30, *slope)
    variance = noise**2 + factor * distance**exponent
    shape = grid.shape
    return ElevationMap(grid, np.full(shape, 2.0 - depth), variance.reshape(shape)), pings


def survey(bottom, share=0.95, order="1b", seed=0, pilot=NO_PILOT):
    there = Situation(CORNER, WORKSPACE, turning_radius=0.5)
    return forecast(bottom, there, order, share, pilot, np.random.default_rng(seed))


def known(slope, depth=10.0, noise=0.1):
    """A bottom of which nothing is uncertain."""
    return Bottom(np.atleast_1d(slope), np.atleast_1d(depth), 1.5, noise, deviation=0.0)


@pytest.mark.parametrize("exponent", [0.8, 1.4])
def test_the_growth_of_variance_comes_from_an_earlier_map(exponent):
    drawn, pings = drawn_map((0.01, 0.09), exponent, 0.1)
    bottom = Bottom.of_map(drawn, pings, level=2.0)
    assert bottom.exponent == pytest.approx(exponent, abs=0.02)
    smooth, rough = np.quantile(bottom.slope, (0.1, 0.9))
    assert smooth == pytest.approx(0.01, rel=0.05) and rough == pytest.approx(0.09, rel=0.05)
    np.testing.assert_allclose(bottom.depth, 10.0)
    assert bottom.noise == pytest.approx(0.1)
    assert bottom.reach == 4.0  # of lines 8 m apart


def test_a_map_without_cells_away_from_pings_is_refused():
    drawn, _ = drawn_map((0.01, 0.01), 1.0, 0.1)
    with pytest.raises(InputError, match="expected 12 cells away from pings, got 0"):
        Bottom.of_map(drawn, drawn.grid.points, level=2.0)


def test_the_survey_has_the_widest_lines_that_meet_the_target():
    """On a known bottom, by hand: 95 % of distances to a line are within the TVU."""
    bottom = known(0.02)
    limit = (allowed("1b", 10.0) / CONFIDENCE_95) ** 2 - 0.1**2
    farthest = (limit / 0.02) ** (1 / 1.5)
    widest = 2 * farthest / 0.95
    found = survey(bottom)
    # Distances are looked at in steps of a 24th of half a spacing.
    assert 40.0 / found.lines <= widest * 1.05 and 40.0 / (found.lines - 1) > widest * 0.95
    # What remains is how far surveys of a known bottom differ: 8 %.
    assert found.low == pytest.approx(found.length / math.exp(1.645 * 0.08))
    assert found.high == pytest.approx(found.length * math.exp(1.645 * 0.08))
    whole = path_cost(found.path, CORNER, 0.5)
    assert 0.95 * whole <= found.length <= whole


def test_the_area_around_the_pilot_survey_is_not_driven_again():
    bottom, pilot = known(0.02), np.array([[0.0, 20.0], [60.0, 20.0]])
    alone, after = survey(bottom), survey(bottom, pilot=pilot)
    limit = (allowed("1b", 10.0) / CONFIDENCE_95) ** 2 - 0.1**2
    covered = 2 * (limit / 0.02) ** (1 / 1.5) / 40.0  # on both sides of the pilot survey's line
    met = bottom.share_between(alone.spacing, "1b")
    part = (0.95 - covered) / (met - covered)
    assert after.lines == alone.lines
    whole = path_cost(alone.path, CORNER, 0.5)
    assert after.length == pytest.approx(60.0 + whole * part, rel=0.02)


def test_lines_are_not_farther_apart_than_in_the_earlier_map():
    """As the variance at larger distances is not known; the interval holds that it may be small."""
    smooth = replace(known(1e-4), reach=4.0)
    assert survey(known(1e-4)).lines == 1
    found = survey(smooth, pilot=np.array([[0.0, 20.0], [60.0, 20.0]]))
    assert 0.95 * found.spacing / 2 == pytest.approx(4.0, rel=0.1)
    assert found.low == 60.0 and found.high > 5 * 60.0


def test_a_less_certain_bottom_takes_more_lines_and_a_wider_interval():
    sure, unsure = (Bottom.stated(*step, 10.0, 0.1) for step in ((0.15, 0.15), (0.1, 0.225)))
    few, many = survey(sure), survey(unsure)
    assert few.lines < many.lines
    assert few.high - few.low < many.high - many.low
    assert many.low <= many.length <= many.high


def test_a_survey_meets_its_target_in_nine_of_ten_bottoms():
    bottom = Bottom.stated(0.1, 0.225, 10.0, 0.1)
    found, rng = survey(bottom), np.random.default_rng(7)
    met = [bottom.drawn(rng).share_between(found.spacing, "1b") >= 0.95 for _ in range(5 * DRAWS)]
    assert np.mean(met) == pytest.approx(0.9, abs=0.05)


def test_dry_parts_do_not_count():
    wet, both = known(0.02), known((0.02, 9.0), (10.0, -1.0))
    assert both.share_between(3.0, "1b") == wet.share_between(3.0, "1b") > 0
    assert known(0.02, -1.0).share_between(3.0, "1b") == 0.0


def test_a_target_below_the_noise_is_refused():
    loud = Bottom.stated(0.1, 0.2, 10.0, noise=1.0)
    with pytest.raises(InputError, match=r"needs more than 500 lines, as a ping .* of 1 m"):
        survey(loud)


def test_a_strip_between_the_places_that_are_looked_at_has_a_forecast():
    workspace = Extent(0.0, 1000.0, 0.0, 1000.0)
    strip = np.array([(15, 0), (1000, 985), (997, 988), (12, 3)], dtype=float)
    routes = Routes(NavigableArea(workspace, strip))
    pilot = np.array([[13.5, 1.5], [900.0, 886.5]])
    there = Situation(pilot[0], workspace, turning_radius=0.5, routes=routes)
    found = forecast(known(0.001), there, "1b", 0.95, pilot, np.random.default_rng(0))
    assert 0 < found.low <= found.length <= found.high < math.inf
