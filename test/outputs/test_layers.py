"""A map as pictures: what is offered, what is thinned, and how the relief is lit."""

from dataclasses import replace

import numpy as np
import pytest
from view_folders import SIGMA, write_run

from poam_ros.core.geometry import Extent, Grid
from poam_ros.outputs import chart as layers
from poam_ros.outputs import html
from poam_ros.outputs.chart import LEVEL, ExportSettings, read_chart
from poam_ros.planning.tvu import CONFIDENCE_95


@pytest.fixture
def chart(tmp_path):
    return lambda **settings: read_chart(write_run(tmp_path), ExportSettings(**settings))


def test_every_layer_with_its_values(chart):
    found = {layer.key: layer for layer in layers.layers(chart())}
    assert list(found) == ["height", "uncertainty", "lengthscale", "tvu", "density"]
    assert found["height"].low == -60.0 and found["height"].high == pytest.approx(-0.1)
    np.testing.assert_allclose(found["uncertainty"].values, CONFIDENCE_95 * SIGMA)
    # 0.49 m at 95 %: special at 60 m (0.51 m), 1b at 30 m (0.34 m is too strict).
    grades = found["tvu"]
    assert grades.labels[int(grades.values[0, 0])] == "Special"
    assert grades.labels[int(grades.values[10, 0])] == "1a, 1b"
    density = found["density"]
    assert density.low == 0.5 and density.values.sum() == 40
    assert density.high == density.values.max() + 0.5


def test_dry_land_has_no_tvu_and_is_labelled(chart):
    dry = chart(water_level=-100.0)
    assert "tvu" not in [layer.key for layer in layers.layers(dry)]
    assert html.numbers(dry)["TVU"] == "no cell is below a water level of -100 m"


def test_depths_are_named_and_coloured_as_depths(chart):
    deep, shallow = layers.layers(chart(depth=True))[0], layers.layers(chart())[0]
    assert deep.title == "Depth (m)" and shallow.title == "Elevation (m)"
    assert deep.high == 60.0 and deep.colours == shallow.colours[::-1]
    assert deep.downward and not shallow.downward


def test_a_hillshade_is_bright_where_the_ground_faces_north_west():
    grid = Grid.cells(Extent(-10, 10, -10, 10), 0.5)
    hill = np.exp(-(np.hypot(*grid.points.T) ** 2) / 20).reshape(grid.shape)
    lit = layers.scaled_hillshade(hill, (0.5, 0.5))
    rows, columns = grid.shape
    north_west, south_east = lit[rows * 2 // 3, columns // 3], lit[rows // 3, columns * 2 // 3]
    assert south_east < LEVEL < north_west
    # Whatever the units: a lake and a canyon are lit alike.
    np.testing.assert_allclose(layers.scaled_hillshade(1000 * hill, (0.5, 0.5)), lit)
    np.testing.assert_allclose(layers.scaled_hillshade(np.ones((3, 4)), (1.0, 1.0)), LEVEL)


def test_the_shade_is_clear_where_the_ground_is_level_or_unknown():
    pixels = layers.shade(np.array([[LEVEL, np.nan], [0.0, 1.0]])).view("u1").reshape(2, 2, 4)
    assert pixels[0, :, 3].tolist() == [0, 0]
    dark, bright = pixels[1]
    assert dark.tolist() == [0, 0, 0, round(255 * layers.DARK)]
    assert bright.tolist() == [255, 255, 255, round(255 * layers.BRIGHT)]


@pytest.mark.parametrize(("shape", "step"), [((120, 120), 1), ((2000, 1500), 4), ((3, 4000), 1)])
def test_large_maps_are_thinned_and_the_cells_keep_their_places(shape, step, tmp_path):
    assert layers.stride(shape) == step
    grid = Grid.dividing(Extent(0, shape[1], 0, shape[0]), shape)
    chart = read_chart(write_run(tmp_path), ExportSettings())
    values = dict.fromkeys(
        ("elevation", "deviation", "density", "lengthscale"), np.broadcast_to(grid.x, shape)
    )
    few = layers.thinned(replace(chart, grid=grid, **values))
    for name in values:
        np.testing.assert_array_equal(
            getattr(few, name), np.broadcast_to(few.grid.x, few.grid.shape)
        )
    inside, outside = few.grid.borders, grid.borders
    assert max(abs(np.subtract(inside.bounds, outside.bounds))) <= step
