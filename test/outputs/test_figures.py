"""A run's figures: every curve is complete, with a margin around it."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs import figures, plates
from poam_ros.outputs import folder as files
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.figures import CURVES, blank_figure, draw_curves, draw_relief, draw_soundings
from poam_ros.outputs.folder import EPOCH_COLUMNS, write_table
from poam_ros.outputs.held_out import COLUMNS
from poam_ros.outputs.run import Run

NAN, INF = float("nan"), float("inf")
ROOM = 0.05  # of an axis' height


def drawn(folder, values):
    """The axes by column, of a run whose every column but the first two holds ``values``."""
    samples = 500.0 + 40 * np.arange(len(values))
    rows = [
        (n, n / 3, *[value] * (len(EPOCH_COLUMNS) - 2))
        for n, value in zip(samples, values, strict=True)
    ]
    write_table(folder / "epochs.csv", EPOCH_COLUMNS, rows)
    return dict(zip(CURVES, draw_curves(Run.open(folder).epochs).axes, strict=True))


@pytest.mark.parametrize(
    "values",
    [
        (1.0, 0.4, 0.2, 0.1),  # falls, as it should
        (0.1, 0.2, 0.4, 1.0),
        (0.5, 0.506, 0.502, 0.501),  # next to level
        (0.5, 0.5, 0.5),
        (NAN, 0.5, 0.2),
        (INF, 0.5, 0.2),
        (0.3,),
        (1e-9, 2e-9),
        (4e6, 1e6),
        (NAN, NAN),
        (0.0, 0.0),
    ],
)
def test_no_curve_touches_its_frame(values, tmp_path):
    for column, axis in drawn(tmp_path, values).items():
        (line,) = axis.lines
        low, high = axis.get_ylim()  # asked for, it is fitted to the curve
        assert np.isfinite([low, high]).all() and low < high, column
        points = line.get_xydata()[np.isfinite(line.get_ydata())]
        if not len(points):
            continue
        axis.get_xlim()
        assert len(points) == np.isfinite(values).sum(), column
        # In parts of the axis: 0 is its left or lower side, 1 the right or upper one.
        at = axis.transAxes.inverted().transform(axis.transData.transform(points))
        assert at[:, 1].max() <= 1 - ROOM, column
        assert at[:, 1].min() >= (ROOM if column in ("msll", "nlpd") else 0.0), column
        assert at[:, 0].min() >= 0.02 and at[:, 0].max() <= 0.98, column


def test_absolute_metrics_start_at_zero_and_relative_ones_do_not(tmp_path):
    axes = drawn(tmp_path, (1.0, 0.9, 0.8))
    lows = {column: axis.get_ylim()[0] for column, axis in axes.items()}
    assert {column for column, low in lows.items() if low == 0} == {
        "smse", "rmse", "mae", "update_s",
    }  # fmt: skip
    assert 0.7 < lows["msll"] < 0.8 and 0.7 < lows["nlpd"] < 0.8


def hollow(lowest, highest):
    """Ground whose middle is its lowest place [40, 60], and its grid."""
    x, y = np.meshgrid(np.linspace(-1, 1, 60), np.linspace(-1, 1, 40))
    return lowest + (highest - lowest) * (x**2 + y**2) / 2, Grid.cells(Extent(-30, 30, -20, 20), 1)


@pytest.mark.parametrize(("low", "high", "lines"), [(-30, -3, 1), (0, 255, 0), (4, 4, 0)])
def test_relief_is_lit_from_the_north_west_and_has_depths_under_water(low, high, lines):
    ground, grid = hollow(low, high)
    figure = blank_figure((4, 3))
    axis = figure.subplots()
    draw_relief(axis, grid, ground, 0.5, "elevation (m)", vmin=low, vmax=high, cmap="gray")
    _, light = (image.get_array() for image in axis.images)
    # Row 0 is the south: its slope faces north. Places across the middle are equally high.
    if high > low:
        north_west, south_east = light[5, 50], light[-6, 9]
        assert north_west[0] == 255 and north_west[3] > 0  # white, and black
        assert south_east[0] == 0 and south_east[3] > 0
    assert len([c for c in axis.collections if len(c.get_paths()) > 2]) == lines


def test_a_run_of_a_model_without_a_lengthscale_has_no_colours_for_it(tmp_path, monkeypatch):
    ground, grid = hollow(-9, -5)
    files.write_truth(tmp_path / "truth.npz", ground, grid.borders)
    files.write_map(tmp_path / "map.npz", ElevationMap(grid, ground, np.full(grid.shape, 0.01)))
    files.write_samples(tmp_path / "samples.csv", np.ones((3, 2)), np.full(3, -8.0))
    drawn(tmp_path, (0.3, 0.2))
    shown = {}
    monkeypatch.setattr(figures, "save_figure", lambda figure, path: shown.update({path: figure}))
    figures.draw_run(tmp_path)
    axes = shown[tmp_path / "maps.png"].axes
    (panel,) = [axis for axis in axes if axis.texts]
    assert "no lengthscale" in panel.texts[0].get_text() and not panel.images
    assert "lengthscale (m)" not in {axis.get_title() for axis in axes}


@pytest.mark.parametrize("width, height", [(50, 50), (50, 46), (90, 20), (20, 60)])
def test_a_map_fills_its_axes_whatever_lies_beyond_it(tmp_path, width, height):
    grid = Grid.cells(Extent(0, width, 0, height), 1.0)
    slope = np.broadcast_to(grid.x / 10 - 9, grid.shape).copy()
    files.write_map(tmp_path / "map.npz", ElevationMap(grid, slope, np.full(grid.shape, 0.01)))
    places = np.array([[1.0, 1.0], [width + 8.0, 5.0], [9.0, height + 3.0]])
    files.write_samples(tmp_path / "samples.csv", places, np.full(3, -8.0))
    figure = plates.draw_chart(read_chart(tmp_path, ExportSettings(depth=True)))
    figure.canvas.draw()
    panels = [axis for axis in figure.axes if axis.images]
    assert len(panels) == 4
    for axis in panels:
        assert (*axis.get_xlim(), *axis.get_ylim()) == (0, width, 0, height)
        title = axis.title.get_window_extent()
        assert title.y0 > axis.bbox.y0 and title.y1 <= figure.bbox.y1 + 0.5
        assert axis.bbox.width / axis.bbox.height == pytest.approx(width / height, rel=0.02)


@pytest.mark.parametrize(("level", "name", "first"), [(2.0, "depth", 9.0), (-9.0, "elevation", -7)])
def test_validation_shows_depths_of_what_is_under_water(tmp_path, monkeypatch, level, name, first):
    z = np.linspace(-7, -3, 9)
    ones = np.ones(9)
    rows = np.column_stack((np.arange(9), ones, ones * 2, z, z + 0.5, *(ones,) * 5))
    files.write_table(tmp_path / "held_out.csv", COLUMNS, rows[:, : len(COLUMNS)].tolist())
    files.write_config(tmp_path / "config.yaml", {"water": {"level": level}})
    monkeypatch.setattr(figures, "save_figure", lambda figure, path, dpi: figure)
    against, where, bar = figures.draw_validation(Run.open(tmp_path)).axes
    assert against.get_xlabel() == f"measured {name} (m)" and name in bar.get_xlabel()
    assert against.lines[0].get_xdata()[0] == first
    error = where.collections[0].get_array()
    assert np.allclose(error, -0.5 if name == "depth" else 0.5)


@pytest.mark.parametrize("ground", ["#faf3e0", "#0a1f44", "#1f7ea1"])
@pytest.mark.parametrize("count", [10, 2000, 30_000])
def test_soundings_are_seen_on_light_and_dark(ground, count):
    figure = blank_figure((5, 5))
    axis = figure.subplots()
    axis.set_facecolor(ground)
    axis.set(xlim=(0, 1), ylim=(0, 1))

    def grey():
        figure.canvas.draw()
        return np.asarray(figure.canvas.buffer_rgba())[..., :3].mean(axis=-1)

    before = grey()
    places = np.column_stack((np.linspace(0.1, 0.9, count), np.full(count, 0.5)))
    draw_soundings(axis, places)
    assert (np.abs(grey() - before) > 60).sum() >= 3 * min(count, 100)
