"""Curved paths along the middle of gaps between tracks."""

import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid, squared_distance_to
from poam_ros.core.maps import ElevationMap, Predicted
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.gap_search import GapSearchOptions, _Gains, _search, gap_search, simplified
from poam_ros.planning.routes import Routes
from poam_ros.planning.situation import GridView, Situation

SQUARE = Extent(-30.0, 30.0, -30.0, 30.0)
RADIUS = 0.67


class Bottom:
    """Variances that grow with the distance to the nearest ping, faster where it is rough."""

    def __init__(self, visited, rough=lambda xy: np.ones(len(xy))):
        self.visited, self.rough = visited, rough

    def predict(self, xy):
        distance = np.sqrt(squared_distance_to(xy, self.visited))
        variance = 1.0 + self.rough(xy) * np.minimum(distance, 10.0) ** 1.5
        return Predicted(np.zeros(len(xy)), variance)


def driven(track, step=0.5):
    """Places every ``step`` m along a polyline [K, 2]."""
    along = np.concatenate(([0.0], np.cumsum(np.linalg.norm(np.diff(track, axis=0), axis=1))))
    at = np.append(np.arange(0, along[-1], step), along[-1])
    return np.column_stack([np.interp(at, along, column) for column in np.transpose(track)])


def lines(*ys, ends=(-30.0, 30.0)):
    return np.vstack([driven([(ends[0], y), (ends[1], y)]) for y in ys])


def plan(visited, position, yaw=0.0, rough=None, workspace=SQUARE, options=None, **situation):
    situation.setdefault("turning_radius", RADIUS)
    there = Situation(np.array(position, dtype=float), workspace, yaw, visited=visited, **situation)
    view = Bottom(visited, *([rough] if rough else []))
    return gap_search(view, there, options or GapSearchOptions(), np.random.default_rng(0))


def test_the_path_follows_the_middle_of_the_widest_gap():
    # Lines 4 m apart, but one gap of 10 m; the vehicle is at its end, beside the middle.
    visited = lines(-28, -24, -20, -16, -12, -8, -4, 6, 10, 14, 18, 22, 26)
    path = plan(visited, (-27.0, 3.0))
    assert len(path) <= 8
    assert path[-1, 0] > -18
    assert np.abs(driven(path)[4:, 1] - 1.0).max() < 1.0


def test_a_rough_gap_comes_before_a_smooth_one():
    visited = np.vstack((lines(*np.arange(-30, 31, 6)), driven([(0.0, -30), (0, 30)])))
    for side in (-1.0, 1.0):
        path = plan(
            visited, (0.0, -30.0), yaw=math.pi / 2,
            rough=lambda xy, side=side: np.where(side * xy[:, 0] > 0, 20.0, 1.0),
        )  # fmt: skip
        assert side * path[-1, 0] > 3


def test_what_is_left_bounds_the_path():
    assert np.linalg.norm(plan(lines(0), (0.0, 10.0), distance_left=3.0)[-1] - (0, 10)) < 4.5
    assert len(plan(lines(0), (0.0, 10.0), distance_left=0.0))


@pytest.mark.parametrize("radius", [0.0, 0.67, 5.0])
def test_no_arc_is_sharper_than_the_vehicle_turns(radius):
    visited = lines(-20, 0, 20)
    there = Situation(np.array((3.0, 7.0)), SQUARE, 1.0, turning_radius=radius, visited=visited)
    arc = max(2.0, 1.5 * radius)
    found = _search(_Gains(Bottom(visited), there, 60.0), there, arc, 12, 50)
    assert len(found) >= 50
    for path in found[:10]:
        steps = np.diff(path, axis=0)
        headings = np.concatenate(([1.0], np.arctan2(steps[:, 1], steps[:, 0])))
        turns = np.abs((np.diff(headings) + math.pi) % (2 * math.pi) - math.pi)
        # Chords of half an arc turn by half as much as the arc at its ends.
        assert (turns[1:] <= arc / 2 / max(radius, 1.6) + 1e-6).all()
        assert np.linalg.norm(path[0] - (3, 7)) == 0


def test_a_wide_gap_far_away_is_found_across_narrow_ones():
    # Lines 5 m apart in the south, where the vehicle is; none in the north.
    visited = lines(*np.arange(-30, 1, 5.0))
    there = Situation(np.array((0.0, -27.0)), SQUARE, 0.0, turning_radius=RADIUS, visited=visited)
    gains = _Gains(Bottom(visited), there, 60.0)
    found = _search(gains, there, 2.0, 24, 30)
    assert found[0][-1, 1] > 5

    def value(path):
        return gains.at(path[1:], np.full(len(path) - 1, np.inf))[0].sum()

    assert value(found[0]) > 1.5 * value(found[-1])  # the best comes first


def test_a_line_beside_the_border_leaves_more_space_to_the_track_than_to_the_border():
    # Between the border and the first track are 4 m, between all others 2 m.
    path = np.vstack(((-28.0, -29.0), plan(lines(*np.arange(-26, 31, 2.0)), (-28.0, -29.0))))
    y = driven(path)[6:, 1]
    assert y.max() < -28.0 and y.min() > -29.9


def test_keep_outs_are_avoided():
    block = np.array([(-5, -30), (5, -30), (5, 20), (-5, 20)], dtype=float)
    area = NavigableArea(SQUARE, keep_outs=(block,), margin=1.0)
    position = np.array((-12.0, -10.0))
    for yaw in (0.0, 1.5, math.nan):
        path = plan(lines(25.0), position, yaw, routes=Routes(area))
        starts = np.vstack((position, path[:-1]))
        assert area.leg_allowed(starts, path).all()


def test_without_an_allowed_path_it_plans_as_path_entropy():
    cell = [
        np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], dtype=float)
        for x0, x1, y0, y1 in (
            (-8.9, -8, -2, 2), (-12, -11.1, -2, 2), (-12, -8, 1.1, 2), (-12, -8, -2, -1.1),
        )
    ]  # fmt: skip
    area = NavigableArea(SQUARE, keep_outs=tuple(cell))
    with pytest.raises(InputError, match="path-entropy: none of the 400"):
        plan(lines(25.0), (-10.0, 0.0), routes=Routes(area))


def test_far_from_all_tracks_the_bottom_is_no_smoother_than_on_average():
    # Rough in the south, smooth in the north; the north-east is unknown.
    visited = np.vstack(
        (lines(*np.arange(-28, 1, 4.0)), lines(*np.arange(4, 29, 4.0), ends=(-30, 0)))
    )
    there = Situation(np.array((-20.0, 0.0)), SQUARE, visited=visited)
    rough = _Gains(Bottom(visited, lambda xy: np.where(xy[:, 1] < 2, 50.0, 1.0)), there, 60.0).rough
    assert rough[100, 105] > 0.8 * rough.mean()  # at (22.5, 20)
    assert rough[100, 20] < 0.2 * rough.mean()


def test_a_track_outside_the_workspace_covers_no_border():
    there = Situation(np.zeros(2), SQUARE, visited=driven([(-30.0, -34.0), (30.0, -34.0)]))
    gains = _Gains(Bottom(there.visited), there, 60.0)
    assert gains.distance[2, 20] == pytest.approx(2.5)  # 1 m from the border
    assert gains.distance[20, 60] == pytest.approx(20.0)  # from the vehicle


def test_a_vehicle_outside_comes_back():
    path = plan(lines(0.0), (-31.5, 10.0), yaw=math.pi)
    assert SQUARE.contains(path).all()


def test_a_published_map_will_do():
    grid = Grid.cells(SQUARE, 1.0)
    visited = lines(-28, -24, -20, -16, -12, -8, -4, 6, 10, 14, 18, 22, 26)
    found = Bottom(visited).predict(grid.points)
    mean, variance = (values.reshape(grid.shape) for values in (found.mean, found.variance))
    view = GridView(ElevationMap(grid, mean, variance, {}), np.empty((0, 2)), visited)
    there = Situation(np.array((-27.0, 3.0)), SQUARE, 0.0, turning_radius=RADIUS, visited=visited)
    path = gap_search(view, there, GapSearchOptions(), np.random.default_rng(0))
    assert np.abs(driven(path)[4:, 1] - 1.0).max() < 1.0


def test_without_usable_variances_it_says_so():
    class Unknown:
        def predict(self, xy):
            return Predicted(np.zeros(len(xy)), np.full(len(xy), np.nan))

    there = Situation(np.zeros(2), SQUARE)
    with pytest.raises(InputError, match="none of"):
        gap_search(Unknown(), there, GapSearchOptions(), np.random.default_rng(0))


def test_simplified_lines_stay_within_the_tolerance():
    angle = np.linspace(0, 2 * math.pi, 101)
    circle = 10 * np.column_stack((np.cos(angle), np.sin(angle)))
    for tolerance in (0.1, 0.5, 2.0):
        line = simplified(circle, tolerance)
        np.testing.assert_array_equal(line[[0, -1]], circle[[0, -1]])
        away = np.sqrt(squared_distance_to(circle, driven(line, 0.01)))
        assert 0 < away.max() <= tolerance + 0.01
    assert len(simplified(circle, 0.1)) > len(simplified(circle, 2.0))
    straight = np.column_stack((np.arange(9.0), np.zeros(9)))
    np.testing.assert_array_equal(simplified(straight, 0.1), straight[[0, -1]])
    np.testing.assert_array_equal(simplified(straight[:2], 0.1), straight[:2])
