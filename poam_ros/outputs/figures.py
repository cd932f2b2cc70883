"""Figures of a run, from the files in its folder alone, and what all figures are drawn with. Needs
matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import quantity
from ..core.files import atomic_write
from ..core.geometry import Grid
from ..planning.tvu import CONFIDENCE_95
from .chart import scaled_hillshade, shade, typical_slope
from .folder import read_table
from .held_out import COLUMNS
from .run import Run
from .volume import read_water, unit_of

#: Metric columns of epochs.csv, their titles and units.
CURVES = {
    "smse": "SMSE", "msll": "MSLL", "rmse": "RMSE (m)",
    "mae": "MAE (m)", "nlpd": "NLPD", "update_s": "update (s)",
}  # fmt: skip
#: Width in inches and resolution of the figures of a report. A page of A4 shows them a third
#: larger, a phone two thirds as large: usual text can be read on both.
WIDTH, DPI = 5.2, 220
#: Resolution of the other ones.
USUAL_DPI = 110
#: Margin above and below a curve, as a share of its height.
_MARGIN = 0.08
#: Maximum number of soundings drawn; of more, every Nth.
DRAWN = 20_000


def blank_figure(size: tuple[float, float]) -> Any:
    """An empty figure with constrained layout; size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: a figure without global state can be drawn from any thread of a node.
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def png(figure: Any, dpi: int = DPI, **options: Any) -> bytes:
    """A figure as PNG."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi, **options)
    return content.getvalue()


def save_figure(figure: Any, path: Path, dpi: int = USUAL_DPI) -> Path:
    """Write a figure as PNG, complete or not at all; returns its path. Raises OSError."""
    with atomic_write(path) as file:
        file.write(png(figure, dpi))
    return path


def plain(text: str) -> str:
    """Text escaped for matplotlib, so that dollars do not start a formula."""
    return text.replace("$", r"\$")


def draw_layer(
    axis: Any,
    grid: Grid,
    values: np.ndarray,
    title: str | None = None,
    extend: str = "neither",
    shrink: float = 0.85,
    **style: Any,
) -> Any:
    """Draw values [rows, columns] of a map, NaN where there is none; returns the image.

    Args:
        axis: to draw into.
        grid: of the cells.
        values: of the cells.
        title: of the axis, which then has a colour bar; None: neither.
        extend: which ends of the colour bar are pointed.
        shrink: length of the bar, as a share of the axis.
        style: of ``imshow``.
    """
    image = axis.imshow(values, origin="lower", extent=grid.borders.bounds, **style)
    if title is not None:
        axis.set_title(title)
        axis.figure.colorbar(image, ax=axis, shrink=shrink, extend=extend)
    return image


def outline_cells(axis: Any, grid: Grid, chosen: np.ndarray) -> None:
    """Draw a line around the cells of a grid that are chosen [rows, columns], boolean."""
    x, y = (np.concatenate(([2 * v[0] - v[1]], v, [2 * v[-1] - v[-2]])) for v in (grid.x, grid.y))
    axis.contour(x, y, np.pad(chosen, 1).astype(float), [0.5], colors="#16283c", linewidths=0.9)


def draw_soundings(axis: Any, xy: np.ndarray, alpha: float = 1.0) -> None:
    """Draw places [N, 2] as dots in a light ring, seen on every colour; of many some, smaller.

    The axis keeps its limits: soundings beyond them are not drawn.
    """
    some = xy[:: _stride(len(xy))]
    size = float(np.clip(1.6 * np.sqrt(2000 / max(1, len(some))), 0.5, 1.6))  # points
    axis.autoscale(False)
    style = {"markeredgewidth": 0, "alpha": alpha, "zorder": 1.5}
    for width, colour in ((2.0 * size, "white"), (size, "#1c2733")):
        axis.plot(*some.T, "o", color=colour, markersize=width, **style)


def _stride(count: int) -> int:
    return max(1, -(-count // DRAWN))


def is_under_water(elevation: np.ndarray, level: float) -> bool:
    """Whether most elevations are at or below the water level: they are shown as depths."""
    return not np.nanmedian(elevation) > level


def draw_run(folder: Path) -> list[Path]:
    """Draw the maps and the metric curves of the run in ``folder``.

    Returns:
        The PNG files written: maps.png and metrics.png.

    Raises:
        InputError: if a file of the run is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    run = Run.open(folder)
    maps = save_figure(_draw_maps(run), folder / "maps.png")
    return [maps, save_figure(draw_curves(run.epochs), folder / "metrics.png")]


def _draw_maps(run: Run) -> Any:
    figure, drawn, samples = blank_figure((16, 9.5)), run.drawn, run.samples
    grid, (whole, truth) = drawn.grid, run.truth
    error = drawn.mean - whole.interpolate(truth, grid.points).reshape(grid.shape)
    # A few large errors must not take up the whole colour scale.
    reach = float(np.percentile(np.abs(error), 99)) or 1.0
    if run.simulated:
        figure.suptitle("SIMULATED", fontweight="bold")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    (true_axis, mean_axis, deviation_axis), (error_axis, length_axis, path_axis) = axes
    slope, colours = typical_slope(truth, whole.cell_size), elevation_colours(truth)
    draw_relief(true_axis, whole, truth, slope, "elevation, truth (m)", **colours)
    draw_relief(mean_axis, grid, drawn.mean, slope, "elevation, mean (m)", **colours)
    std = np.sqrt(drawn.variance)
    draw_layer(deviation_axis, grid, std, "standard deviation, with noise (m)", cmap="viridis")
    draw_layer(error_axis, grid, error, "error: mean - truth (m)", "both", vmin=-reach, vmax=reach,
        cmap="RdBu_r")  # fmt: skip
    if np.isfinite(drawn.lengthscale).any():
        on = f" and {len(drawn.support)} inducing inputs" if len(drawn.support) else ""
        draw_layer(length_axis, grid, drawn.lengthscale, f"lengthscale (m){on}", cmap="magma")
    else:
        middle = {"ha": "center", "va": "center", "transform": length_axis.transAxes}
        length_axis.text(
            0.5, 0.5, "This model has no lengthscale.", fontsize=9, color="0.4", **middle
        )
        length_axis.set_aspect("equal")
    length_axis.plot(*drawn.support.T, ".", color="white", markersize=2)
    count = len(samples["x"])
    draw_relief(path_axis, whole, truth, slope, None, **{**colours, "cmap": "gray"})
    path_axis.set_title(f"path: {quantity(count, 'ping')}, colour = order")
    dots = path_axis.scatter(samples["x"], samples["y"], c=np.arange(count), s=3, cmap="plasma")
    figure.colorbar(dots, ax=path_axis, shrink=0.85)
    xmin, xmax, ymin, ymax = grid.borders.bounds  # the terrain may go on beyond
    true_axis.set(xlim=(xmin, xmax), ylim=(ymin, ymax))
    for axis in axes[1]:
        axis.set_xlabel("x (m)")
    for axis in axes[:, 0]:
        axis.set_ylabel("y (m)")
    return figure


def elevation_colours(truth: np.ndarray) -> dict[str, Any]:
    """How matplotlib colours elevations like these: those of a bottom under water in blue."""
    low, high = float(truth.min()), float(truth.max())
    return {"vmin": low, "vmax": high, "cmap": "YlGnBu_r" if high <= 0 else "terrain"}


def draw_relief(
    axis: Any, grid: Grid, heights: np.ndarray, slope: float, title: str | None, **style: Any
) -> None:
    """Draw elevations [rows, columns] in m with a hillshade; below water with depth contours.

    ``slope``: typical slope that the light is for, the same in all panels; ``style``: of the
    colours, ``vmin``, ``vmax`` and ``cmap``.
    """
    draw_layer(axis, grid, heights, title, **style)
    lit = shade(scaled_hillshade(heights, grid.cell_size, slope))
    draw_layer(axis, grid, lit.view(np.uint8).reshape(*lit.shape, 4))
    if style["vmax"] <= 0 and title is not None:
        levels = np.arange(5 * np.ceil(style["vmin"] / 5), style["vmax"], 5)
        lines = {"colors": "black", "linewidths": 0.5, "linestyles": "solid", "alpha": 0.5}
        axis.contour(grid.x, grid.y, heights, levels=levels, **lines)


def draw_curves(epochs: Mapping[str, np.ndarray]) -> Any:
    """The columns of epochs.csv over samples, each in an axis of its own."""
    figure = blank_figure((13, 6.5))
    axes = figure.subplots(2, 3, sharex=True)
    for axis, (column, title) in zip(axes.flat, CURVES.items(), strict=True):
        values = np.where(np.isfinite(epochs[column]), epochs[column], np.nan)
        axis.margins(y=_MARGIN)
        axis.plot(epochs["samples"], values, marker=".", markersize=3)
        axis.set_title(title)
        axis.grid(alpha=0.3)
        if column not in ("msll", "nlpd"):
            # Start at zero, so that small variations do not fill the axis.
            highest = np.max(values, initial=0.0, where=np.isfinite(values))
            axis.set_ylim(0, (1 + _MARGIN) * highest if highest > 0 else 1)
    for axis in axes[1]:
        axis.set_xlabel("samples")
    return figure


def draw_hypsometry(folder: Path) -> Path:
    """Draw area and volume of the water below every level: hypsometry.png.

    Raises:
        InputError: if volume.csv is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    water = read_water(folder)
    figure = blank_figure((WIDTH, 3.2))
    axes = figure.subplots(1, 2, sharey=True)
    for axis, name in zip(axes, ("area", "volume"), strict=True):
        unit, scale = unit_of(name, float(getattr(water, name).max()))
        mean, low, high = getattr(water, name) / scale
        axis.fill_betweenx(water.level, low, high, alpha=0.3, label="95 % interval")
        axis.plot(mean, water.level)
        axis.set_xlabel(f"{name} ({unit})")
        axis.set_xlim(left=0)
        axis.grid(alpha=0.3)
        axis.locator_params(axis="x", nbins=3)
        axis.xaxis.set_major_formatter("{x:,g}")
    axes[0].set_ylabel("level (m)")
    axes[0].legend(loc="lower right", fontsize="small")
    return save_figure(figure, folder / "hypsometry.png", DPI)


def draw_validation(run: Run) -> Path:
    """Draw predicted against measured depths (or elevations), and the errors on a map:
    validation.png; of the soundings that the map accepts, unless it accepts none.

    Raises:
        InputError: if held_out.csv is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    held = read_table(run.folder / "held_out.csv", COLUMNS)
    if (taken := held["accepted"] == 1).any():  # of the others the map says nothing
        held = {name: values[taken] for name, values in held.items()}
    some = slice(None, None, _stride(len(held["row"])))
    x, y, z, mean, std = (held[name][some] for name in ("x", "y", "z", "mean", "std"))
    level, name, colours = run.water_level, "elevation", "RdBu_r"
    if is_under_water(z, level):
        name, z, mean, colours = "depth", level - z, level - mean, "RdBu"
    error = mean - z
    outside = np.abs(error) > CONFIDENCE_95 * std
    figure = blank_figure((WIDTH, 3.4))
    against, where = figure.subplots(1, 2)
    for side, chosen, colour in (("inside", ~outside, "tab:blue"), ("outside", outside, "tab:red")):
        label = f"{side}: {100 * chosen.mean():.1f} %"
        against.plot(z[chosen], mean[chosen], ".", markersize=1.5, color=colour, label=label)
    ends = [min(z.min(), mean.min()), max(z.max(), mean.max())]
    against.plot(ends, ends, color="black", linewidth=0.8)
    against.set_xlabel(f"measured {name} (m)")
    against.set_ylabel(f"predicted {name} (m)")
    against.legend(
        loc="upper left", markerscale=5, fontsize="small", title="95 % interval",
        title_fontsize="small",
    )  # fmt: skip
    reach = float(np.quantile(np.abs(error), 0.98)) or 1.0
    order = np.argsort(np.abs(error))  # the large ones on top
    points = where.scatter(  # red: predicted too high, whichever way is up
        x[order], y[order], c=error[order], s=1.5, vmin=-reach, vmax=reach, cmap=colours
    )
    where.set_aspect("equal")
    where.set_xlabel("x (m)")
    where.set_ylabel("y (m)")
    bar = figure.colorbar(points, ax=where, location="top", shrink=0.9, extend="both")
    bar.set_label(f"error of the {name} (m)", fontsize="medium")
    for axis in (against, where, bar.ax):
        axis.tick_params(labelsize="small")
    return save_figure(figure, run.folder / "validation.png", DPI)
