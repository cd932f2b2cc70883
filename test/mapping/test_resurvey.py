"""What two surveys can be compared on: cells between soundings, over water."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.mapping.surveyed import between_soundings

GRID = Grid.cells(Extent(0, 100, 0, 100), 2.0)
X, Y = (axis.reshape(GRID.shape) for axis in GRID.points.T)
WATER = np.ones(GRID.shape, dtype=bool)


def lines(step=1.0, ys=(21, 41, 61, 81), first=11):
    """Survey lines along x, ``first`` m from both sides."""
    x = np.arange(first, 101 - first, step)
    return np.concatenate([np.column_stack((x, np.full(len(x), y))) for y in ys])


@pytest.mark.parametrize("step", [1.0, 6.0])
def test_cells_between_lines_are_compared_and_those_beyond_are_not(step):
    """Also if soundings are three cells apart."""
    between = between_soundings(GRID, WATER, lines(step))
    inside = (X > 14) & (X < 86) & (Y > 22) & (Y < 80)
    assert between[inside].all()
    beyond = (np.abs(Y - 51) > 30 + step) | (np.abs(X - 50) > 39 + step)
    assert not between[beyond].any()


@pytest.mark.parametrize("step", [0.6, 0.8, 1.3])
def test_soundings_a_little_farther_apart_than_cells_make_a_line_without_gaps(step):
    grid = Grid.cells(Extent(-2, 82, -2, 22), 0.5)
    track = np.array([(x, y) for y in range(0, 21, 5) for x in np.arange(0, 80, step)])
    between = between_soundings(grid, np.ones(grid.shape, dtype=bool), track)
    x, y = (axis.reshape(grid.shape) for axis in grid.points.T)
    assert between[(x > 2) & (x < 77) & (y > 0) & (y < 20)].all()
    assert not between[(y < -1) | (y > 21)].any()


def test_land_between_two_lines_separates_them():
    track = lines()
    wall = (np.abs(Y - 51) < 1) & (X > 30) & (X < 70)
    beside = (np.abs(Y - 51) < 6) & (X > 44) & (X < 56) & ~wall
    assert between_soundings(GRID, WATER, track)[beside].all()
    between = between_soundings(GRID, ~wall, track)
    assert not between[beside].any() and not between[wall].any()
    assert between[(np.abs(Y - 31) < 6) & (X > 14) & (X < 86)].all()


def test_soundings_far_away_on_the_other_side_do_not_count():
    """Nine tenths of the cells are within 8 m of a sounding; the line is more than 16 m away."""
    between = between_soundings(GRID, WATER, lines(ys=(*range(3, 72, 4), 97), first=1))
    assert between[(X > 20) & (X < 80) & (Y > 4) & (Y < 70)].all()
    assert not between[np.abs(Y - 77) < 3].any()


def test_without_soundings_on_the_grid_nothing_is_compared():
    assert not between_soundings(GRID, WATER, lines() + (0.0, 300.0)).any()
