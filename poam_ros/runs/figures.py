"""Figures of a run, from the files in its folder alone. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..geometry import Grid
from .folder import read_map, read_table, read_truth

#: Metric columns of epochs.csv, their titles and units.
CURVES = {
    "smse": "SMSE", "msll": "MSLL", "rmse": "RMSE (m)",
    "mae": "MAE (m)", "nlpd": "NLPD", "update_s": "update (s)",
}  # fmt: skip
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
    drawings = {"maps.png": ((16, 9.5), _draw_maps), "metrics.png": ((13, 6.5), draw_curves)}
    for name, (size, draw) in drawings.items():
        figure = blank_figure(size)
        draw(figure, folder)
        figure.savefig(folder / name, dpi=110)
    return [folder / name for name in drawings]


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


def _draw_maps(figure: Any, folder: Path) -> None:
    drawn = read_map(folder / "map.npz")
    samples = read_table(folder / "samples.csv")
    truth, extent = read_truth(folder / "truth.npz")
    grid, outside = drawn.grid, extent.bounds
    inside = grid.borders.bounds
    true_on_grid = Grid.dividing(extent, truth.shape).interpolate(truth, grid.points)
    error = drawn.mean - true_on_grid.reshape(grid.shape)
    reach = float(np.abs(error).max()) or 1.0
    relief = {"vmin": float(truth.min()), "vmax": float(truth.max()), "cmap": "terrain"}
    errors = {"vmin": -reach, "vmax": reach, "cmap": "RdBu_r"}
    deviation, count = np.sqrt(drawn.variance), len(samples["x"])
    panels: tuple[tuple[np.ndarray, Any, str, dict[str, Any]], ...] = (
        (truth, outside, "elevation, truth (m)", relief),
        (drawn.mean, inside, "elevation, mean (m)", relief),
        (deviation, inside, "standard deviation, with noise (m)", {"cmap": "viridis"}),
        (error, inside, "error: mean - truth (m)", errors),
        (drawn.lengthscale, inside, "lengthscale (m) and inducing inputs", {"cmap": "magma"}),
        (truth, outside, f"path: {count} pings, colour = order", {"cmap": "gray"}),
    )
    axes = figure.subplots(2, 3, sharex=True, sharey=True)
    for axis, (values, bounds, title, style) in zip(axes.flat, panels, strict=True):
        image = axis.imshow(values, origin="lower", extent=bounds, **style)
        axis.set_title(title)
        figure.colorbar(image, ax=axis, shrink=0.85)
    axes[1, 1].plot(*drawn.support.T, ".", color="white", markersize=2)
    axes[1, 2].scatter(samples["x"], samples["y"], c=np.arange(count), s=3, cmap="plasma")
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
