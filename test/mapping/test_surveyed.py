"""Where a map without an outline ends; and what two surveys can be compared on: cells between
soundings, over water."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.mapping import outline as module
from poam_ros.mapping.outline import between_soundings, surveyed

GRID = Grid.cells(Extent(0, 200, 0, 100), 1.0)
X, Y = np.meshgrid(GRID.x, GRID.y)


def lines(first=20.0, last=120.0, apart=10.0):
    """Places on north-south lines from y = 20 to 60 m."""
    columns = np.arange(first, last + 1, apart)
    return np.array([(x, y) for x in columns for y in np.arange(20.0, 60.5, 0.5)])


def drawn(elevation):
    return ElevationMap(GRID, elevation, np.full(GRID.shape, 0.01))


def cells(elevation, xy, surface=0.0):
    z = np.linspace(-12.0, -2.0, len(xy))
    return surveyed(drawn(elevation), xy, z, surface)


def test_a_map_extends_beyond_the_lines_by_their_spacing():
    shown, counted = cells(np.full(GRID.shape, -5.0), lines())
    assert shown[(X > 20) & (X < 120) & (Y > 21) & (Y < 59)].all()
    east, north = np.clip((20 - X, X - 120), 0, None), np.clip((20 - Y, Y - 60), 0, None)
    beyond = np.hypot(east.max(0), north.max(0))
    assert not shown[beyond > 6].any() and shown[beyond < 3].all()
    np.testing.assert_array_equal(shown, counted)


def test_cells_behind_land_are_not_shown():
    elevation = np.where((Y > 62) & (Y < 64), 1.0, -5.0)  # a spit, and water behind it
    shown, counted = cells(elevation, lines())
    assert not shown[Y > 62].any() and not counted[Y > 64].any()
    assert counted[(Y > 62) & (Y < 64) & (X > 22) & (X < 118)].all()  # land, for the draws


def test_two_surveyed_basins_are_both_shown():
    elevation = np.where((X > 84) & (X < 86), 1.0, -5.0)
    shown, _ = cells(elevation, np.concatenate((lines(last=80), lines(first=90))))
    assert shown[(X < 80) & (X > 20) & (Y > 21) & (Y < 59)].all()
    assert shown[(X < 120) & (X > 90) & (Y > 21) & (Y < 59)].all()
    assert not shown[(X > 84) & (X < 86)].any()


def test_land_with_soundings_is_shown():
    elevation = np.where(X > 100, 1.0, -5.0)
    xy = lines()
    shown, _ = surveyed(drawn(elevation), xy, np.where(xy[:, 0] > 100, 1.0, -5.0), 0.0)
    assert shown[(X > 101) & (X < 119) & (Y > 21) & (Y < 59)].all()


def test_a_single_line_is_not_limited():
    shown, _ = cells(np.full(GRID.shape, -5.0), lines(last=20))
    assert shown.all()


def test_large_maps_are_searched_in_steps(monkeypatch):
    elevation = np.where((Y > 70) & (Y < 72), 1.0, -5.0)
    whole, _ = cells(elevation, lines())
    monkeypatch.setattr(module, "CELLS", GRID.shape[0] * GRID.shape[1] // 4)
    rough, _ = cells(elevation, lines())
    assert np.mean(whole != rough) < 0.03


@pytest.mark.parametrize("count", [0, 1])
def test_without_soundings_nothing_is_shown(count):
    shown, _ = cells(np.full(GRID.shape, -5.0), lines()[:count])
    assert shown.any() == bool(count)


SQUARE = Grid.cells(Extent(0, 100, 0, 100), 2.0)
EAST, NORTH = (axis.reshape(SQUARE.shape) for axis in SQUARE.points.T)
WATER = np.ones(SQUARE.shape, dtype=bool)


def tracks(step=1.0, ys=(21, 41, 61, 81), first=11):
    """Survey lines along x, ``first`` m from both sides."""
    x = np.arange(first, 101 - first, step)
    return np.concatenate([np.column_stack((x, np.full(len(x), y))) for y in ys])


@pytest.mark.parametrize("step", [1.0, 6.0])
def test_cells_between_lines_are_compared_and_those_beyond_are_not(step):
    """Also if soundings are three cells apart."""
    between = between_soundings(SQUARE, WATER, tracks(step))
    inside = (EAST > 14) & (EAST < 86) & (NORTH > 22) & (NORTH < 80)
    assert between[inside].all()
    beyond = (np.abs(NORTH - 51) > 30 + step) | (np.abs(EAST - 50) > 39 + step)
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
    track = tracks()
    wall = (np.abs(NORTH - 51) < 1) & (EAST > 30) & (EAST < 70)
    beside = (np.abs(NORTH - 51) < 6) & (EAST > 44) & (EAST < 56) & ~wall
    assert between_soundings(SQUARE, WATER, track)[beside].all()
    between = between_soundings(SQUARE, ~wall, track)
    assert not between[beside].any() and not between[wall].any()
    assert between[(np.abs(NORTH - 31) < 6) & (EAST > 14) & (EAST < 86)].all()


def test_soundings_far_away_on_the_other_side_do_not_count():
    """Nine tenths of the cells are within 8 m of a sounding; the line is more than 16 m away."""
    between = between_soundings(SQUARE, WATER, tracks(ys=(*range(3, 72, 4), 97), first=1))
    assert between[(EAST > 20) & (EAST < 80) & (NORTH > 4) & (NORTH < 70)].all()
    assert not between[np.abs(NORTH - 77) < 3].any()


def test_without_soundings_on_the_grid_nothing_is_compared():
    assert not between_soundings(SQUARE, WATER, tracks() + (0.0, 300.0)).any()
