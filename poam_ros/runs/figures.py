"""Figures of a run, from the files in its folder alone. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..geometry import Grid
from .folder import read_map, read_table, read_truth

#: Metric columns of epochs.csv, their titles and units.
CURVES = (
    ("smse", "SMSE"),
    ("msll", "MSLL"),
    ("rmse", "RMSE (m)"),
    ("mae", "MAE (m)"),
    ("nlpd", "NLPD"),
    ("update_s", "update (s)"),
)
#: Room beside a curve, as a part of its height.
_ROOM = 0.08


def draw_run(folder: Path) -> list[Path]:
    """Draw the maps and the metric curves of the run in ``folder``.

    Returns:
        The PNG files written: maps.png and metrics.png.

    Raises:
        InputError: if a file of the run is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    written = []
    for name, size, draw in (
        ("maps.png", (16, 9.5), _draw_maps),
        ("metrics.png", (13, 6.5), draw_curves),
    ):
        figure = blank_figure(size)
        draw(figure, folder)
        figure.savefig(folder / name, dpi=110)
        written.append(folder / name)
    return written


def blank_figure(size: tuple[float, float]) -> Any:
    """An empty figure of a size in inches, its layout done when it is drawn."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # No pyplot: a figure without global state can be drawn from any thread of a node.
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(text: str) -> str:
    """Text that matplotlib draws as it is, without formulas between dollars."""
    return text.replace("$", r"\$")


def cell_bounds(grid: Grid) -> tuple[float, float, float, float]:
    """(xmin, xmax, ymin, ymax) of the cells around the points of a grid."""
    half = (grid.x[1] - grid.x[0]) / 2
    return grid.x[0] - half, grid.x[-1] + half, grid.y[0] - half, grid.y[-1] + half


def _draw_maps(figure: Any, folder: Path) -> None:
    snapshot = read_map(folder / "map.npz")
    samples = read_table(folder / "samples.csv")
    truth, extent = read_truth(folder / "truth.npz")
    grid = snapshot.grid
    inside = cell_bounds(grid)
    rows = np.linspace(extent.ymin, extent.ymax, 2 * len(truth) + 1)[1::2]
    columns = np.linspace(extent.xmin, extent.xmax, 2 * truth.shape[1] + 1)[1::2]
    true_on_grid = Grid(columns, rows).interpolate(truth, grid.points).reshape(grid.shape)
    error = snapshot.mean - true_on_grid
    reach = float(np.abs(error).max()) or 1.0
    low, high = float(truth.min()), float(truth.max())

    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    elevation = {"vmin": low, "vmax": high, "cmap": "terrain"}
    _panel(figure, axes[0, 0], truth, extent.bounds, "elevation, truth (m)", **elevation)
    _panel(figure, axes[0, 1], snapshot.mean, inside, "elevation, mean (m)", **elevation)
    deviation = np.sqrt(snapshot.variance)
    _panel(
        figure, axes[0, 2], deviation, inside, "standard deviation, with noise (m)", cmap="viridis"
    )
    _panel(
        figure,
        axes[1, 0],
        error,
        inside,
        "error: mean - truth (m)",
        cmap="RdBu_r",
        vmin=-reach,
        vmax=reach,
    )
    _panel(
        figure,
        axes[1, 1],
        snapshot.lengthscale,
        inside,
        "lengthscale (m) and inducing inputs",
        cmap="magma",
    )
    axes[1, 1].plot(*snapshot.support.T, ".", color="white", markersize=2)
    _panel(
        figure,
        axes[1, 2],
        truth,
        extent.bounds,
        f"path: {len(samples['x'])} pings, colour = order",
        cmap="gray",
    )
    axes[1, 2].scatter(
        samples["x"], samples["y"], c=np.arange(len(samples["x"])), s=3, cmap="plasma"
    )
    for axis in axes[1]:
        axis.set_xlabel("x (m)")
    for axis in axes[:, 0]:
        axis.set_ylabel("y (m)")


def _panel(
    figure: Any, axis: Any, values: np.ndarray, bounds: Any, title: str, **style: Any
) -> None:
    image = axis.imshow(values, origin="lower", extent=bounds, **style)
    axis.set_title(title)
    figure.colorbar(image, ax=axis, shrink=0.85)


def draw_curves(figure: Any, folder: Path) -> None:
    """Draw the columns of the run's epochs.csv over samples, each in an axis of its own.

    Raises:
        InputError: if epochs.csv is missing or broken.
    """
    epochs = read_table(folder / "epochs.csv")
    axes = figure.subplots(2, 3, sharex=True)
    for axis, (column, title) in zip(axes.ravel(), CURVES, strict=True):
        values = np.where(np.isfinite(epochs[column]), epochs[column], np.nan)
        axis.margins(y=_ROOM)
        axis.plot(epochs["samples"], values, marker=".", markersize=3)
        axis.set_title(title)
        axis.grid(alpha=0.3)
        if column not in ("msll", "nlpd"):
            # From zero; and room of the axis' height, however little the curve itself varies.
            highest = np.max(values, initial=0.0, where=np.isfinite(values))
            axis.set_ylim(0, (1 + _ROOM) * highest if highest > 0 else 1)
    for axis in axes[1]:
        axis.set_xlabel("samples")
