"""Rectangles, regular grids, and land between two places."""

import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import MAX_COORDINATE, Extent, Grid, Land, is_place

EXTENT = Extent(-10.0, 30.0, 5.0, 15.0)


@pytest.mark.parametrize(
    "bounds",
    [
        (1, 1, 0, 1), (2, 1, 0, 1), (0, 1, 3, -3), (math.nan, 1, 0, 1), (0, math.inf, 0, 1),
        (0, 1, -math.inf, 1),
    ],
)  # fmt: skip
def test_empty_and_infinite_extents_are_refused(bounds):
    with pytest.raises(InputError, match="xmin < xmax and ymin < ymax"):
        Extent(*bounds)


@pytest.mark.parametrize("bounds", [(), (0, 1), (0, 1, 2), (0, 1, 2, 3, 4)])
def test_an_extent_is_four_numbers(bounds):
    with pytest.raises(InputError, match="xmin xmax ymin ymax"):
        Extent.of(bounds)


def test_contains_its_borders_and_nothing_beyond_and_slack_moves_every_side():
    inside = [(-10, 5), (30, 5), (-10, 15), (30, 15), (10, 10)]
    outside = [(-10.01, 10), (30.01, 10), (10, 4.99), (10, 15.01), (math.nan, 10), (10, math.inf)]
    assert EXTENT.contains(np.array(inside)).all()
    assert not EXTENT.contains(np.array(outside)).any()
    just_outside = np.array([(-10.5, 10), (30.5, 10), (10, 4.5), (10, 15.5)])
    assert EXTENT.contains(just_outside, slack=0.5).all()
    assert not EXTENT.contains(just_outside, slack=0.49).any()
    just_inside = np.array([(-9.5, 10), (29.5, 10), (10, 5.5), (10, 14.5)])
    assert not EXTENT.contains(just_inside, slack=-0.51).any()


def test_clip_gives_the_nearest_point_inside():
    rng = np.random.default_rng(0)
    xy = EXTENT.grown(20).sample(300, rng)
    clipped = EXTENT.clip(xy)
    inside = EXTENT.contains(xy)
    assert 0 < inside.sum() < 300
    np.testing.assert_array_equal(clipped[inside], xy[inside])
    assert EXTENT.contains(clipped).all()
    # No other point inside is nearer.
    others = EXTENT.sample(500, rng)
    nearest_other = np.linalg.norm(xy[:, None] - others, axis=2).min(1)
    assert np.all(np.linalg.norm(xy - clipped, axis=1) <= nearest_other)


def test_sample_is_uniform_inside_and_follows_its_generator():
    xy = EXTENT.sample(4000, np.random.default_rng(3))
    assert xy.shape == (4000, 2)
    assert EXTENT.contains(xy).all()
    # As many in each of 4 x 2 equal parts, within five standard deviations.
    counts, _, _ = np.histogram2d(*xy.T, bins=(4, 2), range=[(-10, 30), (5, 15)])
    assert np.all(np.abs(counts - 500) < 5 * math.sqrt(500))
    np.testing.assert_array_equal(xy, EXTENT.sample(4000, np.random.default_rng(3)))
    assert not np.array_equal(xy, EXTENT.sample(4000, np.random.default_rng(4)))


@pytest.mark.parametrize("resolution", [0.1, 0.2, 0.3, 0.7, 2.0, 3.0, 7.0, 9.99, 40.0, 100.0])
def test_cells_cover_the_extent_exactly(resolution):
    grid = Grid.cells(EXTENT, resolution)
    for nodes, low, high in ((grid.x, -10, 30), (grid.y, 5, 15)):
        assert nodes[0] - resolution / 2 == pytest.approx(low)
        np.testing.assert_allclose(np.diff(nodes), resolution)
        assert nodes[-1] + resolution / 2 >= high - 1e-6
        assert nodes[-1] - resolution / 2 < high - 1e-6


def test_rounding_adds_no_cell():
    # 0.2 + 0.1 is a little more than three times 0.1.
    assert Grid.cells(Extent(-0.1, 0.2, 0.0, 0.3), 0.1).shape == (3, 3)
    for tenths in range(1, 100):
        grid = Grid.cells(Extent(-0.1, tenths / 10, -30, 30), 0.1)
        assert grid.shape == (600, tenths + 1)


@pytest.mark.parametrize("resolution", [0, -1.0, math.nan, -math.inf])
def test_refuses_a_cell_size_that_is_not_positive(resolution):
    with pytest.raises(InputError, match="positive cell size"):
        Grid.cells(EXTENT, resolution)


def test_nodes_reach_from_corner_to_corner():
    grid = Grid.nodes(EXTENT, columns=9, rows=3)
    assert grid.shape == (3, 9)
    np.testing.assert_allclose(grid.x, -10 + 5.0 * np.arange(9))
    np.testing.assert_allclose(grid.y, [5, 10, 15])
    corners = {(-10.0, 5.0), (30.0, 5.0), (-10.0, 15.0), (30.0, 15.0)}
    assert corners <= {tuple(point) for point in grid.points.tolist()}


def test_points_are_row_major_with_x_fastest():
    grid = Grid.nodes(Extent(0, 2, 10, 11), columns=3, rows=2)
    expected = [(0, 10), (1, 10), (2, 10), (0, 11), (1, 11), (2, 11)]
    np.testing.assert_array_equal(grid.points, expected)


def affine(xy):
    return 3.0 - 0.25 * xy[:, 0] + 1.75 * xy[:, 1]


@pytest.fixture(params=["cells", "nodes"])
def grid(request):
    return Grid.cells(EXTENT, 2.5) if request.param == "cells" else Grid.nodes(EXTENT, 7, 6)


def test_interpolation_is_exact_on_bilinear_functions_and_flat_beyond_the_border(grid):
    inner = Extent(grid.x[0], grid.x[-1], grid.y[0], grid.y[-1])
    xy = inner.grown(50).sample(500, np.random.default_rng(3))
    for function in (affine, lambda xy: np.prod(xy, axis=1)):
        values = function(grid.points).reshape(grid.shape)
        expected = function(inner.clip(xy))
        np.testing.assert_allclose(grid.interpolate(values, xy), expected, atol=1e-10)


def test_interpolation_on_one_row_one_column_and_one_cell():
    xy = EXTENT.sample(50, np.random.default_rng(6))
    row = Grid.cells(EXTENT, 10.0)
    assert row.shape == (1, 4)
    found = row.interpolate(row.x[None, :], xy)
    np.testing.assert_allclose(found, np.clip(xy[:, 0], row.x[0], row.x[-1]))
    column = Grid(np.array([0.0]), np.array([5.0, 10.0, 15.0]))
    np.testing.assert_allclose(column.interpolate(column.y[:, None], xy), xy[:, 1])
    cell = Grid.cells(EXTENT, 100.0)
    assert cell.shape == (1, 1)
    np.testing.assert_array_equal(cell.interpolate(np.array([[7.0]]), xy), np.full(50, 7.0))


@pytest.mark.parametrize(
    ("xy", "expected"),
    [
        ((MAX_COORDINATE, -MAX_COORDINATE), True), ((1.01 * MAX_COORDINATE, 0.0), False),
        ((0.0, math.nan), False), ((-math.inf, 0.0), False), ((0.0, 0.0, 0.0), False), (1.0, False),
    ],
)  # fmt: skip
def test_a_place_is_two_finite_numbers_within_bounds(xy, expected):
    assert is_place(np.array(xy)) is expected


def test_counted_gives_the_points_in_each_cell():
    grid = Grid.cells(Extent(-1, 2, 0, 2), 1.0)
    places = np.array([[-1.0, 0.0], [0.5, 0.5], [0.6, 0.1], [2.0, 2.0], [2.1, 1.0], [0.5, -0.1]])
    np.testing.assert_array_equal(grid.counted(places), [[1, 2, 0], [0, 0, 1]])
    assert grid.counted(np.empty((0, 2))).sum() == 0
    assert grid.same(Grid.cells(Extent(-1, 2, 0, 2), 1.0))
    assert not grid.same(Grid.cells(Extent(-1, 2, 0, 2), 0.5))


@pytest.mark.filterwarnings("error")
def test_interpolation_of_places_that_are_not_finite_is_nan():
    grid = Grid.cells(Extent(0, 4, 0, 4), 1.0)
    values = np.zeros(grid.shape)
    values[1, 1:3] = np.inf, -np.inf
    found = grid.interpolate(values, np.array([[2.0, 1.5], [1.5, 1.5], [np.nan, 1.0], [3.5, 3.5]]))
    assert np.isnan(found[:3]).all() and found[3] == 0.0


GRID = Grid.cells(Extent(0, 100, 0, 60), 1.0)


def land(chosen):
    """Land where a function of x and y [N] says so; the rest is water."""
    return Land(GRID, ~chosen(*GRID.points.T).reshape(GRID.shape))


def spit(x, y):
    return (abs(x - 50) < 1) & (y < 40)


@pytest.mark.parametrize(
    ("a", "b", "between"),
    [
        ((40, 20), (60, 20), True),
        ((40, 50), (60, 50), False),
        ((2, 20), (98, 20), True),
        ((40, 30), (60, 55), False),  # past the end of the spit
        ((40, 10), (40, 50), False),
        ((49.9, 20), (40, 20), False),  # on land, near its left shore
        ((49.9, 20), (60, 20), True),
        ((-30, 20), (130, 20), True),  # beyond the raster
        ((40, 20), (40, 20), False),
    ],
)
def test_a_line_crosses_a_spit_or_not(a, b, between):
    places = np.array([a], dtype=float), np.array([b], dtype=float)
    shore = land(spit)
    assert shore.between(*places).tolist() == [between]
    moved = shore.moved(np.array([50.0, 30.0]), 50.0)
    assert moved.between(*(((p - (50, 30)) / 50) for p in places)).tolist() == [between]


def test_finely_sampled_lines_cross_the_same_land():
    shore = land(lambda x, y: np.hypot(x - 40, y - 30) < 12)
    ends = np.random.default_rng(0).uniform((0, 0), (100, 60), (4000, 2, 2))
    distance = np.hypot(*np.moveaxis(ends - (40, 30), -1, 0))
    a, b = ends[(distance > 14).all(1)].transpose(1, 0, 2)
    share = np.linspace(0, 1, 2001)[:, None, None]
    nearest = np.hypot(*np.moveaxis(a + share * (b - a) - (40, 30), -1, 0)).min(0)
    clear = abs(nearest - 12) > 1.5  # the raster is no circle
    assert np.array_equal(shore.between(a, b)[clear], nearest[clear] < 12)


def test_a_place_on_land_is_hidden_and_without_land_nothing():
    a, b = np.random.default_rng(0).uniform(0, 60, (2, 50, 2))
    assert not land(lambda x, y: x < -1).hides(a, b).any()
    places = np.array([[50.0, 20.0], [49.0, 50.0], [60.0, 20.0]])
    assert land(spit).hides(np.full((3, 2), 40.0), places).tolist() == [True, False, True]
