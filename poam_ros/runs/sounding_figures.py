"""Figures of a map of soundings, from the files in its folder alone. Needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..planning.tvu import CONFIDENCE_95
from .figures import blank_figure
from .folder import read_map, read_table
from .held_out import COLUMNS

#: Times as wide as it is high, from which a map's panels lie one over the other.
WIDE = 2.5
#: Width of a page, and height of what is over and under a panel, in inches.
PAGE, TITLES = 14.0, 0.5
#: Soundings that are drawn at most; of more, evenly many are left out.
DRAWN = 20_000


def draw_sounding_map(folder: Path) -> Path:
    """Draw mean and uncertainty with the soundings: maps.png.

    Raises:
        InputError: if a file of the run is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    drawn, samples = read_map(folder / "map.npz"), read_table(folder / "samples.csv", ("x", "y"))
    borders = drawn.grid.borders
    bounds = borders.bounds
    width, height = borders.size
    rows, columns = (2, 1) if width > WIDE * height else (1, 2)
    panel = PAGE / columns * height / width + TITLES  # as high as the map makes it
    figure = blank_figure((PAGE, float(np.clip(rows * panel, 3.5, 12.0))))
    axes = figure.subplots(rows, columns, sharex=True, sharey=True)
    panels = (
        (drawn.mean, "elevation, mean (m)", "viridis"),
        (CONFIDENCE_95 * np.sqrt(drawn.variance), "95 % uncertainty, with noise (m)", "magma"),
    )
    for axis, (values, title, colours) in zip(axes, panels, strict=True):
        image = axis.imshow(values, origin="lower", extent=bounds, cmap=colours)
        axis.set_title(title)
        axis.set_xlabel("x (m)")
        figure.colorbar(image, ax=axis, shrink=0.85)
    axes[0].set_ylabel("y (m)")
    some = slice(None, None, _stride(len(samples["x"])))
    axes[1].plot(samples["x"][some], samples["y"][some], ",", color="white")
    figure.savefig(folder / "maps.png", dpi=110)
    return folder / "maps.png"


def draw_validation(folder: Path) -> Path:
    """Draw predicted against sounded elevations, and where the errors are: validation.png.

    Raises:
        InputError: if held_out.csv is missing or broken.
        ImportError: if matplotlib is not installed.
    """
    held = read_table(folder / "held_out.csv", COLUMNS)
    some = slice(None, None, _stride(len(held["row"])))
    x, y, z, mean, std = (held[name][some] for name in ("x", "y", "z", "mean", "std"))
    error = mean - z
    outside = np.abs(error) > CONFIDENCE_95 * std
    figure = blank_figure((14, 6.5))
    against, where = figure.subplots(1, 2)
    _draw_against(against, z, mean, outside)
    reach = float(np.quantile(np.abs(error), 0.98)) or 1.0
    order = np.argsort(np.abs(error))  # the large ones on top
    points = where.scatter(
        x[order], y[order], c=error[order], s=4, cmap="RdBu_r", vmin=-reach, vmax=reach
    )
    where.set_aspect("equal")
    where.set_title("error: predicted - sounded (m)")
    where.set_xlabel("x (m)")
    where.set_ylabel("y (m)")
    figure.colorbar(points, ax=where, shrink=0.85, extend="both")
    figure.savefig(folder / "validation.png", dpi=110)
    return folder / "validation.png"


def _draw_against(axis: Any, z: np.ndarray, mean: np.ndarray, outside: np.ndarray) -> None:
    for chosen, colour, name in (
        (~outside, "tab:blue", "within the 95 % interval"),
        (outside, "tab:red", "outside of it"),
    ):
        label = f"{name}: {100 * chosen.mean():.1f} %"
        axis.plot(z[chosen], mean[chosen], ".", markersize=2, color=colour, label=label)
    ends = [min(z.min(), mean.min()), max(z.max(), mean.max())]
    axis.plot(ends, ends, color="black", linewidth=0.8)
    axis.set_title("held-out soundings")
    axis.set_xlabel("sounded elevation (m)")
    axis.set_ylabel("predicted elevation (m)")
    axis.legend(loc="upper left", markerscale=5)


def _stride(count: int) -> int:
    return max(1, -(-count // DRAWN))
