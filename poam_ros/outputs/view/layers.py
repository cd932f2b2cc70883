"""A map as pictures: values, colours and their ends, and the relief's shade. NumPy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.geometry import Grid
from ...planning.tvu import LEVEL_NAMES
from ..exports.chart import Chart

#: Largest number of rows or columns that a page shows; of more, every k-th.
CELLS = 500
COLOURS = 256
#: Colours are mixed between these. Heights: from deep water to a sandy shallow.
RELIEF = ("#0a1f44", "#14507f", "#1f7f9d", "#4fb0a5", "#a5d3a0", "#e6e3a8", "#f7f3dc")
DOUBT = ("#f4f1ea", "#f3d9a4", "#eeb06a", "#dd7750", "#b03f54", "#6f2059", "#2e0f46")
SCALE = ("#f3f6f1", "#c4dfc6", "#84c0ad", "#4a97a0", "#2f6b8f", "#2a3f76", "#1f1a4d")
COUNT = ("#dce9f2", "#8fb8d6", "#3f7fb5", "#173f77")
GRADES = ("#c94f4f", "#eab35c", "#c9d46a", "#5fb36b", "#1d7a58")
#: The typical slope is shown as this one: a flat lake and a canyon both have relief.
SHOWN_SLOPE = math.tan(math.radians(35.0))
#: Of the darkest and of the brightest shade, 0..1.
DARK, BRIGHT = 0.45, 0.3


@dataclass(frozen=True)
class PageLayer:
    """A picture of a map.

    Attributes:
        key: its name in the page's data.
        title: for people, with the unit.
        values: [rows, columns]; NaN where there is none.
        colours: as `#rrggbb`, of ``low`` to ``high``; of what is lower no picture is made.
        labels: of whole values from 0; empty where values are numbers.
    """

    key: str
    title: str
    values: np.ndarray
    colours: tuple[str, ...]
    low: float
    high: float
    labels: tuple[str, ...] = ()


def layers(chart: Chart) -> list[PageLayer]:
    """The pictures of a map that have any value, in the order in which they are offered."""
    relief = RELIEF[::-1] if chart.settings.depth else RELIEF
    found = [
        _scaled("height", f"{chart.height_name.capitalize()} (m)", chart.height, relief),
        _scaled("uncertainty", "Uncertainty, 95 % (m)", chart.uncertainty, DOUBT, 0.0),
        _scaled("lengthscale", "Lengthscale (m)", chart.lengthscale, SCALE),
        PageLayer(
            "tvu", "TVU within", chart.tvu, GRADES, -0.5, len(LEVEL_NAMES) - 0.5, LEVEL_NAMES
        ),
        _scaled("density", "Pings per cell", chart.density, COUNT, 0.5),
    ]
    return [layer for layer in found if np.isfinite(layer.values).any()]


def _scaled(
    key: str, title: str, values: np.ndarray, anchors: Sequence[str], low: float | None = None
) -> PageLayer:
    """A layer whose colours span its values, from ``low`` if that is given."""
    known = values[np.isfinite(values)]
    if not len(known):
        return PageLayer(key, title, values, (), 0.0, 1.0)
    low, high = float(known.min()) if low is None else low, float(known.max())
    return PageLayer(key, title, values, mixed(anchors), low, high if high > low else low + 1.0)


def mixed(anchors: Sequence[str], count: int = COLOURS) -> tuple[str, ...]:
    """So many colours from the first anchor to the last, evenly."""
    known = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in anchors])
    at = np.linspace(0, len(anchors) - 1, count)
    parts = [np.interp(at, np.arange(len(anchors)), known[:, i]).round() for i in range(3)]
    return tuple("#{:02x}{:02x}{:02x}".format(*map(int, rgb)) for rgb in zip(*parts, strict=True))


def stride(shape: tuple[int, int], cells: int = CELLS) -> int:
    """Every how many-th row and column of a map of this shape is shown."""
    # One more than two rows or columns, so that the shown cells have borders.
    return max(1, min(math.ceil(max(shape) / cells), (min(shape) - 1) // 2 or 1))


def thinned(grid: Grid, step: int) -> Grid:
    """Every ``step``-th row and column, as ``thin`` takes them of the values."""
    return Grid(grid.x[step // 2 :: step], grid.y[step // 2 :: step])


def thin(values: np.ndarray, step: int) -> np.ndarray:
    """Every ``step``-th row and column of values [rows, columns]."""
    return values[step // 2 :: step, step // 2 :: step]


def scaled_hillshade(elevation: np.ndarray, cell: tuple[float, float]) -> np.ndarray:
    """How bright the ground is under a light from the north-west [rows, columns], 0..1.

    Slopes are scaled so that their root mean square is ``SHOWN_SLOPE``.

    Args:
        elevation: positive up, row 0 south [rows, columns], in m; NaN stays NaN.
        cell: width and height of a cell, in m.
    """
    north, east = np.gradient(elevation, cell[1], cell[0])
    typical = math.sqrt(float(np.nanmean(north**2 + east**2)))
    scale = SHOWN_SLOPE / typical if typical > 0 else 0.0
    return hillshade(scale * east, scale * north)


def shade(lit: np.ndarray) -> np.ndarray:
    """A shade to lie over a picture [rows, columns]: RGBA in uint32, black where the ground is
    darker than a level one, white where it is brighter, clear where it is level or NaN."""
    dark = DARK * np.clip((LEVEL - lit) / LEVEL, 0, 1)
    bright = BRIGHT * np.clip((lit - LEVEL) / (1 - LEVEL), 0, 1)
    pixels = np.zeros((*lit.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(bright > 0, 255, 0)[..., None]
    pixels[..., 3] = np.nan_to_num(255 * (dark + bright)).round()
    return pixels.view("<u4")[..., 0]


#: Where the light comes from: over north-west, as on printed maps.
AZIMUTH, ALTITUDE = math.radians(315.0), math.radians(45.0)
EAST, NORTH, UP = (
    math.cos(ALTITUDE) * math.sin(AZIMUTH),
    math.cos(ALTITUDE) * math.cos(AZIMUTH),
    math.sin(ALTITUDE),
)
#: How bright level ground is.
LEVEL = UP


def hillshade(east: np.ndarray, north: np.ndarray) -> np.ndarray:
    """Of ground that rises so, in m a metre toward east and north, of any shape; 0..1, NaN stays.

    Lambert's law, n . l for the unit normal n and the direction of the light l.
    """
    # n = (-dz/dx, -dz/dy, 1) / |...|
    lit = UP - EAST * east - NORTH * north
    return np.clip(lit / np.sqrt(1 + east**2 + north**2), 0.0, 1.0)
