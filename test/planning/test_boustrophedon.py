"""Evenly spaced survey lines that spend what is left."""

import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.boustrophedon import BoustrophedonOptions, boustrophedon, path_cost
from poam_ros.planning.planners import Situation
from poam_ros.planning.routes import Routes

WORKSPACE = Extent(-30.0, 30.0, -20.0, 20.0)
CORNER = np.array([30.0, -20.0])


def plan(position=CORNER, spacing=0.0, workspace=WORKSPACE, **situation):
    there = Situation(np.asarray(position, dtype=float), workspace, **situation)
    path = boustrophedon(None, there, BoustrophedonOptions(spacing), np.random.default_rng(0))
    return path, there


@pytest.mark.parametrize("radius", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("left", [150.0, 400.0, 1234.0, 5000.0])
def test_the_lines_spend_the_distance_left_and_no_more(left, radius):
    path, there = plan(distance_left=left, turning_radius=radius)
    cost = path_cost(path, there.position, radius)
    one_more, _ = plan(spacing=40.0 / (len(path) / 2 + 1))
    assert cost <= left < path_cost(one_more, there.position, radius)


def test_the_lines_leave_the_length_of_the_way_home():
    def homeward(path):
        return 2.0 * math.dist(path[-1], CORNER)

    path, there = plan(distance_left=700.0, extra=homeward)
    cost = path_cost(path, there.position, 0.0)
    one_more, _ = plan(spacing=40.0 / (len(path) / 2 + 1))
    more = path_cost(one_more, there.position, 0.0) + homeward(one_more)
    assert cost + homeward(path) <= 700.0 < more


def test_lines_are_even_and_parallel_to_the_longer_side():
    path, _ = plan(spacing=4.0)
    assert path.shape == (20, 2)
    assert set(np.abs(path[:, 0])) == {30.0}
    np.testing.assert_allclose(np.diff(path[::2, 1]), 4.0)
    np.testing.assert_allclose(path[0], [30.0, -18.0])  # half a spacing from the border
    tall, _ = plan(workspace=Extent(-20.0, 20.0, -30.0, 30.0), spacing=4.0)
    assert set(np.abs(tall[:, 1])) == {30.0}


@pytest.mark.parametrize("corner", [(-30, -20), (-30, 20), (30, -20), (30, 20)])
def test_the_nearest_corner_comes_first(corner):
    path, _ = plan(corner, spacing=4.0)
    np.testing.assert_allclose(path[0], np.sign(corner) * [30.0, 18.0])
    np.testing.assert_allclose(path[-1][1], -np.sign(corner[1]) * 18.0)


def test_if_two_lines_do_not_fit_one_goes_across():
    path, _ = plan(distance_left=60.0)
    np.testing.assert_allclose(path, [[0.0, -20.0], [0.0, 20.0]])
    path, _ = plan(spacing=100.0)  # as `poam plan` counts one line
    np.testing.assert_allclose(np.sort(path, axis=0), [[-30.0, 0.0], [30.0, 0.0]])


@pytest.mark.parametrize("spacing", [0.4, 1.0, 2.5])
def test_a_turn_costs_what_a_dubins_vehicle_drives(spacing):
    path = np.array([[0, 0], [10, 0], [10, spacing], [0, spacing]], dtype=float)
    turn = path_cost(path, path[0], 1.0) - 20.0
    bend = math.acos((2 + spacing) / 4) if spacing < 2 else 0.0
    assert turn == pytest.approx(math.pi + 4 * bend + max(spacing - 2, 0))
    assert path_cost(path, path[0], 0.0) == pytest.approx(20 + spacing)


def test_a_keep_out_interrupts_the_lines():
    block = np.array([(-5, -10), (5, -10), (5, 10), (-5, 10)], dtype=float)
    area = NavigableArea(WORKSPACE, keep_outs=(block,))
    path, _ = plan(spacing=4.0, routes=Routes(area))
    assert area.allowed(path).all()
    assert area.leg_allowed(path[::2], path[1::2]).all()
    rows = {y: (np.abs(path[:, 1] - y) < 1e-9).sum() for y in np.unique(path[:, 1])}
    assert rows[2.0] == 4 and rows[-18.0] == 2


def test_an_area_without_any_line_is_reported():
    area = NavigableArea(
        WORKSPACE, keep_outs=(np.array([(-40, -30), (40, -30), (40, 18), (-40, 18)]),)
    )
    with pytest.raises(InputError, match="no survey line lies in the navigable area"):
        plan(spacing=4.0, routes=Routes(area))
