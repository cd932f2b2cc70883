"""One sweep of survey lines that are closer where the bottom is rougher."""

import math

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, squared_distance_to
from poam_ros.core.maps import Predicted
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.budget import BudgetOptions, _waste, budget, way_length
from poam_ros.planning.routes import Routes
from poam_ros.planning.situation import Situation

WORKSPACE = Extent(-20.0, 20.0, -30.0, 30.0)
CORNER = np.array([20.0, -30.0])
NOTHING = np.empty((0, 2))


class Bottom:
    """Variances that grow with the distance to the nearest ping, faster where it is rough."""

    def __init__(self, visited, rough=lambda xy: np.ones(len(xy))):
        self.visited, self.rough = visited, rough

    def predict(self, xy):
        distance = np.sqrt(squared_distance_to(xy, self.visited))
        variance = 1.0 + self.rough(xy) * np.minimum(distance, 30.0) ** 1.5
        return Predicted(np.zeros(len(xy)), variance)


#: An ``exploration_distance`` that begins lines at once.
AT_ONCE = 10.0


def plan(
    track=CORNER[None], left=1500.0, rough=None, unevenness=1.0, recent=None, explored=AT_ONCE,
    **situation,
):  # fmt: skip
    """The next waypoints after straight legs along ``track`` [K, 2]."""
    visited = driven(track)
    recent = visited[-800:] if recent is None else recent
    there = Situation(
        track[-1], WORKSPACE, distance_left=left, visited=visited, recent_track=recent, **situation
    )
    view = Bottom(visited, *([rough] if rough else []))
    return budget(view, there, BudgetOptions(unevenness, explored), np.random.default_rng(0))


def driven(track):
    """Places every 0.5 m along a polyline [K, 2]."""
    legs = np.linalg.norm(np.diff(track, axis=0), axis=1)
    along = np.concatenate(([0.0], np.cumsum(legs)))
    at = np.append(np.arange(0, along[-1], 0.5), along[-1])
    return np.column_stack([np.interp(at, along, column) for column in track.T])


def sweep(length, track=CORNER[None], **kwargs):
    """The whole track of a mission of ``length`` metres, and how long it is."""
    spent, plans = 0.0, 0
    while spent < length - 20 and plans < 60:
        path = plan(track, length - spent, **kwargs)
        spent += float(np.linalg.norm(np.diff(path, axis=0, prepend=track[-1:]), axis=1).sum())
        track, plans = np.concatenate((track, path)), plans + 1
    return track, spent


def crossings(track, y, x=(-20.0, 20.0)):
    """Where the track crosses a line along x, in ascending order."""
    a, b = track[:-1], track[1:]
    cut = (a[:, 1] - y) * (b[:, 1] - y) < 0
    share = (y - a[cut, 1]) / (b[cut, 1] - a[cut, 1])
    places = np.sort(a[cut, 0] + share * (b[cut, 0] - a[cut, 0]))
    return places[(places > x[0]) & (places < x[1])]


@pytest.mark.parametrize("length", [1000.0, 1234.0])
def test_one_sweep_of_even_lines_spends_the_budget(length):
    track, spent = sweep(length)
    assert 0.95 * length < spent <= length
    lines = crossings(track, 0.0)
    gaps = np.diff(lines)
    assert len(lines) == pytest.approx(length / 61.0, abs=1.5)
    assert gaps.min() > 0.7 * gaps.mean() and gaps.max() < 1.4 * gaps.mean()
    assert lines[0] + 20.0 < gaps.mean() and 20.0 - lines[-1] < gaps.mean()


def test_lines_are_closer_where_the_bottom_is_rougher():
    def rough(xy):
        return np.where((xy[:, 0] > 0) == (xy[:, 1] > 0), 10.0, 1.0)

    pilot = np.array([(20, -30), (-10, -30), (-10, 30), (10, 30), (10, -30), (0, 0)], dtype=float)
    track, spent = sweep(1100.0, pilot, rough=rough)
    track = track[len(pilot) :]
    assert 0.95 * 1100 < spent <= 1100.0
    for y, side in ((15.0, 1), (-15.0, -1)):  # the same lines, bent towards either side
        west, east = (len(crossings(track, y, x)) for x in ((-20, 0), (0, 20)))
        rougher, smoother = (east, west)[::side]
        # 10 ** (1 / 2.5) = 2.5 times as dense, less what averages of roughness blur.
        assert 1.5 * smoother < rougher < 3.0 * smoother
    even, _ = sweep(1000.0, pilot, rough=rough, unevenness=0.0)
    even = even[len(pilot) :]
    west, east = (len(crossings(even, 15.0, x)) for x in ((-20, 0), (0, 20)))
    assert abs(west - east) <= 2


@pytest.mark.parametrize("corner", [(-20, -30), (-20, 30), (20, -30), (20, 30)])
def test_the_nearest_corner_comes_first(corner):
    path = plan(np.array([corner], dtype=float))
    assert (np.sign(path[0]) == np.sign(corner)).all()
    assert abs(path[0, 0]) > 18 and abs(path[0, 1]) > 28


def test_path_entropy_explores_until_hardly_any_place_is_far_from_all_tracks():
    """A sixth of the root of 40 m x 60 m is 8.2 m."""
    wide, close = (
        np.array([(x, y) for x in columns for y in (-30.0, 30.0)])
        for columns in ((20, -20), (20, 10, 0, -10, -20))
    )
    explored = BudgetOptions().exploration_distance
    assert plan(wide, explored=explored).shape == (1, 2)
    assert len(plan(wide)) > 2
    assert len(plan(close, explored=explored)) > 2
    # 2 % of the places are far: in one corner, which is left to the lines.
    assert len(plan(np.vstack((close[:-2], [(-15, 0)])), explored=explored)) > 2
    # Lines 10 m apart would be all: path-entropy makes the better map with so little.
    assert plan(wide, left=240.0, explored=explored).shape == (1, 2)
    assert plan(wide, left=240.0).shape == (1, 2)


def test_places_that_no_route_reaches_are_not_explored():
    wall = np.array([(-1, -31), (1, -31), (1, 31), (-1, 31)], dtype=float)
    routes = Routes(NavigableArea(WORKSPACE, keep_outs=(wall,)))
    track = np.array([(18, -28), (18, 28), (10, 28), (10, -28), (4, -28), (4, 28)], dtype=float)
    explored = BudgetOptions().exploration_distance
    assert plan(track, explored=explored).shape == (1, 2)
    assert len(plan(track, explored=explored, routes=routes)) > 2


def test_the_rougher_side_comes_first():
    pilot = np.array([(20, -30), (-10, -30), (-10, 30), (10, 30), (10, -30)], dtype=float)
    for factor, west in ((1.2, False), (4.0, True)):
        path = plan(pilot, rough=lambda xy, f=factor: np.where(xy[:, 0] < 0, f, 1.0))
        assert (path[0, 0] < 0) == west
        assert path[0, 1] < -25  # the end of the line that is nearest


def test_the_plan_of_two_lines_fits_into_the_distance_left():
    for left in (70.0, 130.0, 190.0):
        path = plan(left=left, turning_radius=0.7)
        there = Situation(CORNER, WORKSPACE, turning_radius=0.7)
        assert way_length([path], there) <= left
    there = Situation(CORNER, WORKSPACE, extra=lambda path: math.dist(path[-1], CORNER))
    assert way_length([np.array([CORNER, CORNER + 5.0])], there) == pytest.approx(10 * 2**0.5)
    assert len(plan(left=75.0, extra=there.extra)) == 1  # no line, and back


def test_no_sweep_begins_whose_lines_would_be_farther_apart_than_a_twentieth_of_the_side():
    apart = math.sqrt(40 * 60) / 20
    assert len(plan(left=40 * 60 / (0.9 * apart))) > 2
    assert plan(left=40 * 60 / (1.1 * apart)).shape == (1, 2)


def test_a_remainder_too_short_for_a_line_is_spent_by_path_entropy():
    assert plan(left=15.0).shape == (1, 2)
    assert np.linalg.norm(plan(left=0.0) - CORNER) < 20.0


def test_path_entropy_explores_if_only_one_corner_is_rough():
    def corner(xy):
        return np.where((xy[:, 0] > 5) & (xy[:, 1] > 15), 300.0, 1.0)

    def strip(xy):  # along the lines: they can be close there and nowhere else
        return np.where(xy[:, 0] > 5, 300.0, 1.0)

    pilot = np.array([(20, -30), (-10, -30), (-10, 30), (10, 30), (10, -30), (0, 0)], dtype=float)
    leg = plan(pilot, rough=corner)
    assert leg.shape == (1, 2) and np.linalg.norm(leg[0] - pilot[-1]) <= 0.21 * 60
    assert len(plan(pilot, rough=strip)) > 2
    assert len(plan(pilot, rough=corner, unevenness=0.0)) > 2


def test_a_sweep_continues_where_a_new_one_would_not_begin():
    def quarter(xy):
        return np.where((xy[:, 0] > 5) & (xy[:, 1] > 10), 100.0, 1.0)

    pilot = np.array([(20, -30), (-10, -30), (-10, 30), (10, 30), (10, -30)], dtype=float)
    assert plan(np.concatenate((pilot, [(0, 0)])), rough=quarter).shape == (1, 2)
    legs = [(-15, 0), (15, 0), (-15, -20), (19, -28), (19, 28)]
    one = np.concatenate((pilot, np.array(legs, dtype=float)))
    assert plan(one, rough=quarter).shape == (1, 2)  # it may be a leg of the exploration
    assert len(plan(np.concatenate((one, [(17, 28), (17, -28)])), rough=quarter)) > 2


def test_a_sweep_over_long_lines_goes_on_beside_the_last():
    there = Extent(0.0, 400.0, 0.0, 500.0)
    legs = [[(x, 5), (x, 495)][:: 1 - 2 * (i % 2)] for i, x in enumerate((395, 380, 365))]
    visited = driven(np.concatenate(legs).astype(float))
    situation = Situation(
        visited[-1], there, distance_left=13_000.0, visited=visited, recent_track=visited[-1200:]
    )
    path = budget(Bottom(visited), situation, BudgetOptions(1.0, AT_ONCE), np.random.default_rng(0))
    assert 310 < path[0, 0] < 360 and len(path) > 2


def test_a_leg_of_the_exploration_begins_no_sweep():
    def quarter(xy):
        return np.where((xy[:, 0] > 5) & (xy[:, 1] > 10), 100.0, 1.0)

    legs = [[(x, -28), (x, 28)][:: 1 - 2 * (i % 2)] for i, x in enumerate((19, 11, 3, -5))]
    explored = np.concatenate(legs).astype(float)  # 8 m apart; 700 m allow 3 m in what is left
    assert plan(explored, left=700.0, rough=quarter).shape == (1, 2)


@pytest.mark.parametrize("concentration", [1.0, 0.5])
def test_the_waste_of_lines_is_the_error_they_would_have(concentration):
    """Against the errors a s^g themselves, summed over rows, for a polygon that is a staircase."""
    rows, columns = np.mgrid[0:24, 0:160]
    inside = columns < 60 + 4 * rows
    density = np.where((rows > 15) & (columns < 50), 1.0, concentration)
    lines = density / density.mean(1, keepdims=True)
    length, best = lines[inside].sum(), density * inside
    best = best / best.sum() * length  # the same length of lines at the best density

    def error(achieved):
        return (density[inside] ** 2.5 * achieved[inside] ** -1.5).sum()

    assert _waste(density, inside) == pytest.approx(error(lines) / error(best), rel=1e-9)
    assert _waste(density, inside) >= 1.0
    assert _waste(density, np.zeros_like(inside)) == 1.0


def test_in_a_polygon_with_a_hole_lines_stay_where_the_vehicle_may_be():
    polygon = np.array([(-20, -30), (20, -30), (20, 0), (0, 30), (-20, 30)], dtype=float)
    hole = np.array([(-10, -10), (5, -10), (5, 8), (-10, 8)], dtype=float)
    area = NavigableArea(WORKSPACE, polygon=polygon, keep_outs=(hole,))
    routes = Routes(area)
    track, spent = CORNER[None], 0.0
    while spent < 950.0:
        path = plan(track, 1000.0 - spent, routes=routes)
        assert area.allowed(path).all()
        legs = [routes.route(a, b) for a, b in zip([track[-1], *path], path, strict=False)]
        way = np.concatenate([track[-1:], *legs])
        spent += float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())
        track = np.concatenate((track, way[1:]))
    assert spent < 1050.0  # ways around the hole are not in the plan
    grid = np.stack(np.meshgrid(np.arange(-19, 20, 1.0), np.arange(-29, 30, 1.0)), -1)
    places = grid.reshape(-1, 2)
    places = places[area.allowed(places)]
    assert np.sqrt(squared_distance_to(places, driven(track))).max() < 4.0


def test_after_an_interruption_the_rest_is_surveyed():
    half, _ = sweep(1000.0, rough=None)
    half = half[half[:, 0] > 0]
    path = plan(half, left=1000.0, recent=NOTHING)
    assert path[:, 0].max() < 3.0
    np.testing.assert_array_equal(path, plan(half, left=1000.0, recent=NOTHING))


def test_without_a_budget_there_are_thirty_lines():
    track = CORNER[None]
    for _ in range(4):
        track = np.concatenate((track, plan(track, left=np.inf)))
    gaps = np.diff(crossings(track, 0.0))
    assert len(gaps) == 7
    np.testing.assert_allclose(gaps, 40 / 30, rtol=0.3)
