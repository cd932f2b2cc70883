"""The layers of a map as images: values, colours and their range, hillshade. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.geometry import Grid
from ...planning.tvu import LEVEL_NAMES
from ..exports.chart import Chart

#: Maximum number of rows or columns on a page; of more, every Nth.
CELLS = 500
COLOURS = 256
#: Of a cell without a value, on a page: Bokeh calls NaN "NaN", whatever a tooltip's formatter says.
NOTHING = -(2.0**100)
#: Colours are interpolated between these. Heights: from deep water to sandy shallows.
RELIEF = ("#0a1f44", "#14507f", "#1f7f9d", "#4fb0a5", "#a5d3a0", "#e6e3a8", "#f7f3dc")
UNCERTAINTY = ("#f4f1ea", "#f3d9a4", "#eeb06a", "#dd7750", "#b03f54", "#6f2059", "#2e0f46")
SCALE = ("#f3f6f1", "#c4dfc6", "#84c0ad", "#4a97a0", "#2f6b8f", "#2a3f76", "#1f1a4d")
COUNT = ("#dce9f2", "#8fb8d6", "#3f7fb5", "#173f77")
GRADES = ("#c94f4f", "#eab35c", "#c9d46a", "#5fb36b", "#1d7a58")
#: Slope that the typical slope is scaled to, so that a flat lake and a canyon both show relief.
SHOWN_SLOPE = math.tan(math.radians(35.0))
#: Opacity of the darkest and of the brightest shade, 0..1.
DARK, BRIGHT = 0.45, 0.3


@dataclass(frozen=True)
class PageLayer:
    """An image of a map.

    Attributes:
        key: its name in the page's data.
        title: for people, with the unit.
        values: [rows, columns]; NaN where there is none.
        colours: as `#rrggbb`, from ``low`` to ``high``; lower values are transparent.
        labels: of the integers from 0; empty if values are numbers.
        downward: whether its colour bar has the largest value at the bottom.
    """

    key: str
    title: str
    values: np.ndarray
    colours: tuple[str, ...]
    low: float
    high: float
    labels: tuple[str, ...] = ()
    downward: bool = False


def layers(chart: Chart) -> list[PageLayer]:
    """The layers of a map that have any value, in the order of their buttons."""
    depth = chart.settings.depth
    height = f"{chart.height_name.capitalize()} (m)"
    relief = _scaled("height", height, chart.height, RELIEF[::-1] if depth else RELIEF)
    offered = [
        replace(relief, downward=depth),
        _scaled("uncertainty", "Uncertainty, 95 % (m)", chart.uncertainty, UNCERTAINTY, 0.0),
        _scaled("lengthscale", "Lengthscale (m)", chart.lengthscale, SCALE),
        PageLayer(
            "tvu", "TVU within", chart.tvu, GRADES, -0.5, len(LEVEL_NAMES) - 0.5, LEVEL_NAMES
        ),
        _scaled("density", "Pings per cell", chart.density, COUNT, 0.5),
    ]
    return [layer for layer in offered if np.isfinite(layer.values).any()]


def _scaled(
    key: str, title: str, values: np.ndarray, anchors: Sequence[str], low: float | None = None
) -> PageLayer:
    """A layer whose colours span its values, from ``low`` if given."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return PageLayer(key, title, values, (), 0.0, 1.0)
    low, high = float(finite.min()) if low is None else low, float(finite.max())
    return PageLayer(key, title, values, mixed(anchors), low, high if high > low else low + 1.0)


def mixed(anchors: Sequence[str], count: int = COLOURS) -> tuple[str, ...]:
    """``count`` colours, evenly spaced from the first anchor to the last."""
    colours = np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in anchors])
    at = np.linspace(0, len(anchors) - 1, count)
    parts = [np.interp(at, np.arange(len(anchors)), colours[:, i]).round() for i in range(3)]
    return tuple("#{:02x}{:02x}{:02x}".format(*map(int, rgb)) for rgb in zip(*parts, strict=True))


def stride(shape: tuple[int, int]) -> int:
    """The N of "every Nth row and column is shown", for a map of this shape."""
    # At least three rows and columns, so that the shown cells have borders.
    return max(1, min(math.ceil(max(shape) / CELLS), (min(shape) - 1) // 2 or 1))


def thinned(chart: Chart) -> Chart:
    """Every ``stride``-th row and column of a map: what a page shows of it."""
    step = stride(chart.grid.shape)
    some = slice(step // 2, None, step)
    names = ("elevation", "deviation", "density", "lengthscale")
    shown = {name: getattr(chart, name)[some, some] for name in names}
    return replace(chart, grid=Grid(chart.grid.x[some], chart.grid.y[some]), **shown)


def typical_slope(elevation: np.ndarray, cell: tuple[float, float]) -> float:
    """Root mean square slope of elevations [rows, columns] in m, in m/m; ``cell``: width and
    height of a cell, in m."""
    north, east = np.gradient(elevation, cell[1], cell[0])
    return math.sqrt(float(np.nanmean(north**2 + east**2)))


def scaled_hillshade(
    elevation: np.ndarray, cell: tuple[float, float], typical: float | None = None
) -> np.ndarray:
    """Hillshade of a map under a light from the north-west [rows, columns], 0..1.

    Args:
        elevation: positive up, row 0 south [rows, columns], in m; NaN stays NaN.
        cell: width and height of a cell, in m.
        typical: slope that is shown as ``SHOWN_SLOPE``; None: the map's own.
    """
    north, east = np.gradient(elevation, cell[1], cell[0])
    typical = typical_slope(elevation, cell) if typical is None else typical
    scale = SHOWN_SLOPE / typical if typical > 0 else 0.0
    return hillshade(scale * east, scale * north)


def shade(lit: np.ndarray) -> np.ndarray:
    """A hillshade as an overlay [rows, columns], RGBA in uint32: black where darker than level
    ground, white where brighter, transparent where level or NaN."""
    dark = DARK * np.clip((LEVEL - lit) / LEVEL, 0, 1)
    bright = BRIGHT * np.clip((lit - LEVEL) / (1 - LEVEL), 0, 1)
    pixels = np.zeros((*lit.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(bright > 0, 255, 0)[..., None]
    pixels[..., 3] = np.nan_to_num(255 * (dark + bright)).round()
    return pixels.view("<u4")[..., 0]


#: Direction of the light: from the north-west, as on printed maps.
AZIMUTH, ALTITUDE = math.radians(315.0), math.radians(45.0)
EAST, NORTH, UP = (
    math.cos(ALTITUDE) * math.sin(AZIMUTH),
    math.cos(ALTITUDE) * math.cos(AZIMUTH),
    math.sin(ALTITUDE),
)
#: Hillshade of a flat bottom.
LEVEL = UP


def hillshade(east: np.ndarray, north: np.ndarray) -> np.ndarray:
    """Hillshade 0..1 of slopes toward east and north, in m/m, of any shape; NaN stays.

    Lambert's law, n . l for the unit normal n and the direction of the light l.
    """
    # n = (-dz/dx, -dz/dy, 1) / |...|
    lit = UP - EAST * east - NORTH * north
    return np.clip(lit / np.sqrt(1 + east**2 + north**2), 0.0, 1.0)
