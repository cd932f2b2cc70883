"""Figures of a run, from the files in its folder alone. Needs matplotlib."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import quantity
from ..core.files import atomic_write
from ..core.geometry import Extent, Grid
from ..planning.tvu import CONFIDENCE_95
from .folder import read_table, read_truth
from .held_out import COLUMNS
from .run import Run
from .volume import read_water, unit_of

#: Metric columns of epochs.csv, their titles and units.
CURVES = {
    "smse": "SMSE", "msll": "MSLL", "rmse": "RMSE (m)",
    "mae": "MAE (m)", "nlpd": "NLPD", "update_s": "update (s)",
}  # fmt: skip
#: Left, right, lower and upper edge of an image, in m.
Bounds = tuple[float, float, float, float]
#: Width in inches and resolution of the figures of a report. A page of A4 shows them a third
#: larger, a phone two thirds as large: usual text can be read on both.
WIDTH, DPI = 5.2, 220
#: Margin above and below a curve, as a share of its height.
_MARGIN = 0.08


def draw_run(folder: Path) -> list[Path]:
    """Draw the maps and the metric curves of the run in ``folder``.

    Returns:
        The PNG files written: maps.png and metrics.png.

    Raises:
        InputError: if a file of the run is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    drawings = {"maps.png": ((16, 9.5), _draw_maps), "metrics.png": ((13, 6.5), draw_curves)}
    for name, (size, draw) in drawings.items():
        figure = blank_figure(size)
        draw(figure, folder)
        save_figure(figure, folder / name)
    return [folder / name for name in drawings]


def blank_figure(size: tuple[float, float]) -> Any:
    """An empty figure with constrained layout; size in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: a figure without global state can be drawn from any thread of a node.
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Any, path: Path, dpi: int = 110) -> Path:
    """Write a figure as PNG, complete or not at all; returns its path. Raises OSError."""
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=dpi)
    return path


def draw_layer(
    axis: Any,
    grid: Grid,
    values: np.ndarray,
    title: str | None = None,
    extend: str = "neither",
    shrink: float = 0.85,
    **style: Any,
) -> Any:
    """Draw a layer [rows, columns] of a map; returns the image.

    Args:
        axis: to draw into.
        grid: of the cells.
        values: of the cells; NaN where there is none.
        title: of the axis, which then has a colour bar, largest value at the bottom if it is a
            depth; None: neither.
        extend: which ends of the colour bar are pointed.
        shrink: length of the bar, as a share of the axis.
        style: of ``imshow``.
    """
    image = axis.imshow(values, origin="lower", extent=grid.borders.bounds, **style)
    if title is not None:
        axis.set_title(title)
        bar = axis.figure.colorbar(image, ax=axis, shrink=shrink, extend=extend)
        if title.startswith("depth"):
            bar.ax.invert_yaxis()
    return image


def no_lengthscale(axis: Any) -> None:
    """Say in an empty panel why it is empty."""
    middle = {"ha": "center", "va": "center", "transform": axis.transAxes}
    axis.text(0.5, 0.5, "This model has no lengthscale.", fontsize=9, color="0.4", **middle)
    axis.set_aspect("equal")


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


def plain(text: str) -> str:
    """Text escaped for matplotlib, so that dollars do not start a formula."""
    return text.replace("$", r"\$")


@dataclass(frozen=True)
class Relief:
    """Colours and hillshade of one terrain, the same in all panels; lit from the north-west.

    Attributes:
        low, high: range of the colours, in m.
        exaggeration: vertical exaggeration of the hillshade, so that steep and gentle terrain both
            show relief.
    """

    low: float
    high: float
    exaggeration: float

    @classmethod
    def of(cls, terrain: np.ndarray, extent: Extent) -> Relief:
        """For the elevations [rows, columns] of a terrain on an extent."""
        steepest = float(np.percentile(_steepness(terrain, extent.bounds), 95))
        return cls(float(terrain.min()), float(terrain.max()), 1.2 / steepest if steepest else 1.0)

    @property
    def under_water(self) -> bool:
        """Whether all of it lies below a water level of 0."""
        return self.high <= 0

    def draw(self, axis: Any, heights: np.ndarray, bounds: Bounds, title: str) -> None:
        """Draw elevations [rows, columns] in m; below water with depth contours."""
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import Normalize

        name = "YlGnBu_r" if self.under_water else "terrain"
        axis.imshow(self.shade(heights, bounds, name), origin="lower", extent=bounds)
        if self.under_water:
            levels = np.arange(5 * np.ceil(self.low / 5), self.high, 5)
            lines = {"levels": levels, "colors": "black", "linewidths": 0.5, "linestyles": "solid"}
            axis.contour(heights, extent=bounds, alpha=0.5, **lines)
        axis.set_title(title)
        colours = ScalarMappable(Normalize(self.low, self.high), name)
        axis.figure.colorbar(colours, ax=axis, shrink=0.85)

    def shade(self, heights: np.ndarray, bounds: Bounds, name: str) -> np.ndarray:
        """RGBA colours [rows, columns, 4] of elevations in m, from a named colour map."""
        from matplotlib import colormaps
        from matplotlib.colors import LightSource

        share = np.clip((heights - self.low) / ((self.high - self.low) or 1.0), 0, 1)
        colours = colormaps[name](share)
        # LightSource expects row 0 in the north; ours is south.
        step_x, step_y = _steps(heights, bounds)
        light = LightSource(azdeg=315, altdeg=45).hillshade(
            heights[::-1], vert_exag=self.exaggeration, dx=step_x, dy=step_y
        )[::-1]
        colours[..., :3] = LightSource().blend_soft_light(colours[..., :3], light[..., None])
        return colours


def _steps(values: np.ndarray, bounds: Bounds) -> tuple[float, float]:
    """Width and height of a cell of values [rows, columns], in m."""
    (rows, columns), (left, right, lower, upper) = values.shape, bounds
    return (right - left) / columns, (upper - lower) / rows


def _steepness(heights: np.ndarray, bounds: Bounds) -> np.ndarray:
    """Rise over run, [rows, columns]."""
    step_x, step_y = _steps(heights, bounds)
    return np.hypot(*np.gradient(heights, step_y, step_x))


def _draw_maps(figure: Any, folder: Path) -> None:
    run = Run.open(folder)
    drawn, samples = run.drawn, run.samples
    truth, extent = read_truth(folder / "truth.npz")
    grid, outside = drawn.grid, extent.bounds
    inside = grid.borders.bounds
    true_on_grid = Grid.dividing(extent, truth.shape).interpolate(truth, grid.points)
    error = drawn.mean - true_on_grid.reshape(grid.shape)
    # A few large errors must not take up the whole colour scale.
    reach = float(np.percentile(np.abs(error), 99)) or 1.0
    relief = Relief.of(truth, extent)
    errors = {"vmin": -reach, "vmax": reach, "cmap": "RdBu_r"}
    if run.simulated:
        figure.suptitle("SIMULATED", fontweight="bold")
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    (true_axis, mean_axis, deviation_axis), (error_axis, length_axis, path_axis) = axes
    relief.draw(true_axis, truth, outside, "elevation, truth (m)")
    relief.draw(mean_axis, drawn.mean, inside, "elevation, mean (m)")
    on = f" and {len(drawn.support)} inducing inputs" if len(drawn.support) else ""
    panels: tuple[tuple[Any, np.ndarray, str, str, dict[str, Any]], ...] = (
        (deviation_axis, np.sqrt(drawn.variance), "standard deviation, with noise (m)", "neither",
         {"cmap": "viridis"}),
        (error_axis, error, "error: mean - truth (m)", "both", errors),
        (length_axis, drawn.lengthscale, f"lengthscale (m){on}", "neither", {"cmap": "magma"}),
    )  # fmt: skip
    for axis, values, title, beyond, style in panels:
        if not np.isfinite(values).any():
            no_lengthscale(axis)
            continue
        draw_layer(axis, grid, values, title, beyond, **style)
    length_axis.plot(*drawn.support.T, ".", color="white", markersize=2)
    count = len(samples["x"])
    axis, order = path_axis, np.arange(count)
    axis.imshow(relief.shade(truth, outside, "gray"), origin="lower", extent=outside)
    axis.set_title(f"path: {quantity(count, 'ping')}, colour = order")
    dots = axis.scatter(samples["x"], samples["y"], c=order, s=3, cmap="plasma")
    figure.colorbar(dots, ax=axis, shrink=0.85)
    for axis in axes[1]:
        axis.set_xlabel("x (m)")
    for axis in axes[:, 0]:
        axis.set_ylabel("y (m)")


def draw_curves(figure: Any, folder: Path) -> None:
    """Draw the columns of the run's epochs.csv over samples, each in an axis of its own.

    Raises:
        InputError: if epochs.csv is missing or broken.
    """
    epochs = read_table(folder / "epochs.csv")
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


#: Maximum number of soundings drawn; of more, every Nth.
DRAWN = 20_000


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
    level = run.water_level
    name, sign = "elevation", 1.0
    if is_under_water(z, level):
        name, sign, z, mean = "depth", -1.0, level - z, level - mean
    error = mean - z
    outside = np.abs(error) > CONFIDENCE_95 * std
    figure = blank_figure((WIDTH, 3.4))
    against, where = figure.subplots(1, 2)
    _draw_against(against, z, mean, outside, name)
    reach = float(np.quantile(np.abs(error), 0.98)) or 1.0
    order = np.argsort(np.abs(error))  # the large ones on top
    points = where.scatter(
        x[order], y[order], c=error[order], s=1.5, vmin=-reach, vmax=reach,
        cmap="RdBu_r" if sign > 0 else "RdBu",  # red: predicted too high, whichever way is up
    )  # fmt: skip
    where.set_aspect("equal")
    where.set_xlabel("x (m)")
    where.set_ylabel("y (m)")
    bar = figure.colorbar(points, ax=where, location="top", shrink=0.9, extend="both")
    bar.set_label(f"error of the {name} (m)", fontsize="medium")
    for axis in (against, where, bar.ax):
        axis.tick_params(labelsize="small")
    return save_figure(figure, run.folder / "validation.png", DPI)


def is_under_water(elevation: np.ndarray, level: float) -> bool:
    """Whether most elevations are at or below the water level: they are shown as depths."""
    return not np.nanmedian(elevation) > level


def _draw_against(
    axis: Any, z: np.ndarray, mean: np.ndarray, outside: np.ndarray, name: str
) -> None:
    for chosen, colour, side in (
        (~outside, "tab:blue", "inside"),
        (outside, "tab:red", "outside"),
    ):
        label = f"{side}: {100 * chosen.mean():.1f} %"
        axis.plot(z[chosen], mean[chosen], ".", markersize=1.5, color=colour, label=label)
    ends = [min(z.min(), mean.min()), max(z.max(), mean.max())]
    axis.plot(ends, ends, color="black", linewidth=0.8)
    axis.set_xlabel(f"measured {name} (m)")
    axis.set_ylabel(f"predicted {name} (m)")
    axis.legend(
        loc="upper left", markerscale=5, fontsize="small", title="95 % interval",
        title_fontsize="small",
    )  # fmt: skip


def _stride(count: int) -> int:
    return max(1, -(-count // DRAWN))
