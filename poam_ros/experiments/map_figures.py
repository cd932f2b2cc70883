"""Maps and lengthscales of a sweep: the truth and every method side by side. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..geometry import Grid
from ..runs.figures import blank_figure, plain
from ..runs.folder import read_raster, read_table
from .comparison import Comparison, FinishedRun, method_label

#: Panels next to each other in a figure of maps, and the width of a figure, in inches.
_ACROSS = 6
_WIDTH = 11.0

#: Draws a run on an axis; given the image style of elevations.
Panel = Callable[[Any, FinishedRun, dict[str, Any]], None]


def draw_maps(comparison: Comparison) -> Any:
    """The truth, and each method's predicted mean with its sampling path. Returns the figure."""

    def panel(axis: Any, run: FinishedRun, elevation: dict[str, Any]) -> None:
        grid, values = read_raster(run.folder / "map.csv", ("mean",))
        _image(axis, grid, values["mean"], **elevation)
        samples = read_table(run.folder / "samples.csv", ("x", "y"))
        axis.plot(samples["x"], samples["y"], color="black", linewidth=0.45, alpha=0.8)

    figure, _ = _draw_panels(comparison, panel)
    return figure


def draw_lengthscales(comparison: Comparison) -> Any:
    """The truth, and each method's lengthscales with its inducing inputs. Returns the figure.

    All lengthscales have one colour scale, which leaves out the outermost hundredths.
    """
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    maps = {
        run.folder: read_raster(run.folder / "map.csv", ("lengthscale",))
        for environment in comparison.environments
        for run in comparison.shown(environment).values()
    }
    values = np.concatenate([layers["lengthscale"].ravel() for _, layers in maps.values()])
    values = values[np.isfinite(values)]
    low, high = np.quantile(values, (0.01, 0.99)) if len(values) else (0.0, 1.0)
    scale = ScalarMappable(Normalize(low, high if high > low else low + 1.0), "magma")

    def panel(axis: Any, run: FinishedRun, elevation: dict[str, Any]) -> None:
        grid, layers = maps[run.folder]
        _image(axis, grid, layers["lengthscale"], norm=scale.norm, cmap=scale.cmap)
        inducing = read_table(run.folder / "inducing.csv", ("x", "y"))
        # White dots with a dark rim are seen on every colour.
        axis.scatter(
            inducing["x"], inducing["y"], s=2.2, color="white", edgecolors="black", linewidths=0.25
        )

    figure, axes = _draw_panels(comparison, panel, below=0.8)
    figure.colorbar(
        scale, ax=axes, location="bottom", shrink=0.5, aspect=40, extend="both",
        label="lengthscale (m)",
    )  # fmt: skip
    return figure


def _image(axis: Any, grid: Grid, values: np.ndarray, **style: Any) -> Any:
    return axis.imshow(values, origin="lower", extent=grid.borders.bounds, **style)


def _draw_panels(comparison: Comparison, panel: Panel, below: float = 0.0) -> tuple[Any, Any]:
    """A block of panels for each environment: the truth, then ``panel`` for each method.

    Leaves ``below`` inches free. Returns the figure and its axes.
    """
    shown = {name: comparison.shown(name) for name in comparison.environments}
    most = 1 + max(len(runs) for runs in shown.values())
    rows, columns = -(-most // _ACROSS), min(most, _ACROSS)
    side = min(3.2, (_WIDTH - 1.6) / columns)
    first = next(iter(shown[comparison.environments[0]].values()))
    width, height = read_raster(first.folder / "truth.csv", ())[0].borders.size
    total = rows * len(shown)
    high = 0.8 + below + total * (side * height / width + 0.3)
    figure = blank_figure((1.6 + side * columns, high))
    # Panels of a fixed aspect, without the gaps that would leave.
    figure.set_layout_engine("compressed")
    axes = figure.subplots(total, columns, squeeze=False)
    for block, (environment, runs) in enumerate(shown.items()):
        part = axes[block * rows : (block + 1) * rows]
        truth = _draw_block(part, environment, runs, panel)
        figure.colorbar(truth, ax=part, label="elevation (m)", aspect=20 * rows, pad=0.01)
    for axis in axes[-1]:
        axis.set_xlabel("x (m)")
    return figure, axes


def _draw_block(axes: Any, environment: str, runs: dict[str, FinishedRun], panel: Panel) -> Any:
    """Draw an environment's panels; returns the image of the truth, for its colour bar."""
    first = next(iter(runs.values()))
    grid, values = read_raster(first.folder / "truth.csv", ("elevation",))
    truth = values["elevation"]
    elevation = {"vmin": float(truth.min()), "vmax": float(truth.max()), "cmap": "terrain"}
    flat = axes.ravel()
    image = _image(flat[0], grid, truth, **elevation)
    flat[0].set_title("truth", fontsize=10)
    for axis, (method, run) in zip(flat[1:], runs.items(), strict=False):
        panel(axis, run, elevation)
        label = method_label(method)
        # A long name must not run into the next panel's.
        axis.set_title(label, fontsize=min(10, 160 / len(label)))
    for axis in flat[1 + len(runs) :]:
        axis.set_axis_off()
    bounds = grid.borders.bounds
    for (row, column), axis in np.ndenumerate(axes):
        axis.set(xlim=bounds[:2], ylim=bounds[2:])
        axis.locator_params(nbins=4)
        axis.tick_params(labelsize=8, labelleft=column == 0, labelbottom=row == len(axes) - 1)
    for axis in axes[:, 0]:
        axis.set_ylabel("y (m)")
    axes[0, 0].set_ylabel(f"{plain(environment)}\ny (m)")
    return image
