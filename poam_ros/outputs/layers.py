"""The layers of a map for people, the same in figures and on pages: titles, colours and their
limits; and its hillshade. NumPy only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.geometry import Grid
from ..planning.tvu import LEVEL_NAMES
from .chart import Chart

#: Maximum number of rows or columns on a page; of more, every Nth.
CELLS = 500
COLOURS = 256
#: Colours are interpolated between these. Heights: from deep water to sandy shallows.
RELIEF = ("#0a1f44", "#14507f", "#1f7f9d", "#4fb0a5", "#a5d3a0", "#e6e3a8", "#f7f3dc")
UNCERTAINTY = ("#f4f1ea", "#f3d9a4", "#eeb06a", "#dd7750", "#b03f54", "#6f2059", "#2e0f46")
SCALE = ("#f3f6f1", "#c4dfc6", "#84c0ad", "#4a97a0", "#2f6b8f", "#2a3f76", "#1f1a4d")
COUNT = ("#6da7d0", "#3f7fb5", "#235a93", "#0b2447")
GRADES = ("#c94f4f", "#eab35c", "#c9d46a", "#5fb36b", "#1d7a58")
#: Share of the uncertainties that the colours span: few large ones must not take up the scale.
SPANNED = 0.98
#: Slope that the typical slope is scaled to, so that a flat lake and a canyon both show relief.
SHOWN_SLOPE = math.tan(math.radians(35.0))
#: Opacity of the darkest and of the brightest shade, 0..1.
DARK, BRIGHT = 0.45, 0.3
#: Direction of the light, east, north, up: from the north-west at 45 degrees, as on printed maps.
LIGHT = (-0.5, 0.5, math.sqrt(0.5))
#: Hillshade of a flat bottom.
LEVEL = LIGHT[2]


@dataclass(frozen=True)
class Layer:
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

    @property
    def extend(self) -> str:
        """Which ends of its colour bar are pointed, as matplotlib calls it."""
        return "max" if np.nanmax(self.values, initial=self.high) > self.high else "neither"


#: Keys of the layers, in the order of their buttons.
KEYS = ("height", "uncertainty", "lengthscale", "tvu", "density")


def layer_of(chart: Chart, key: str) -> Layer:
    """A layer of a map; ``key``: one of ``KEYS``, which are attributes of a chart."""
    depth, values = chart.settings.depth, getattr(chart, key)
    title, anchors = {
        "height": (f"{chart.height_name.capitalize()} (m)", RELIEF[:: -1 if depth else 1]),
        "uncertainty": ("Uncertainty, 95 % (m)", UNCERTAINTY),
        "lengthscale": ("Lengthscale (m)", SCALE),
        "tvu": ("TVU within", GRADES),
        "density": ("Pings per cell", COUNT),
    }[key]
    if key == "tvu":
        return Layer(key, title, values, anchors, -0.5, len(anchors) - 0.5, LEVEL_NAMES)
    finite = values[np.isfinite(values)] if np.isfinite(values).any() else np.zeros(1)
    low = float(finite.min())
    high = float(np.quantile(finite, SPANNED) if key == "uncertainty" else finite.max())
    if key == "density":  # without a ping it is transparent; half a ping on either side of a count
        low, high = 0.5, high + 0.5
    high = high if high > low else low + 1.0
    return Layer(key, title, values, mixed(anchors), low, high, downward=depth and key == "height")


def layers(chart: Chart) -> list[Layer]:
    """The layers of a map that have any value, in the order of ``KEYS``."""
    offered = (layer_of(chart, key) for key in KEYS)
    return [layer for layer in offered if np.isfinite(layer.values).any()]


def mixed(anchors: Sequence[str]) -> tuple[str, ...]:
    """``COLOURS`` colours, evenly spaced from the first anchor to the last."""
    rgb = np.array([list(bytes.fromhex(text[1:])) for text in anchors], dtype=float)
    at = np.linspace(0, len(anchors) - 1, COLOURS)
    parts = [np.interp(at, np.arange(len(anchors)), part).round().astype(int) for part in rgb.T]
    return tuple(f"#{r:02x}{g:02x}{b:02x}" for r, g, b in zip(*parts, strict=True))


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
    """Hillshade of a map [rows, columns], 0..1, by Lambert's law: n . l for the unit normal n and
    the direction of the light l.

    Args:
        elevation: positive up, row 0 south [rows, columns], in m; NaN stays NaN.
        cell: width and height of a cell, in m.
        typical: slope that is shown as ``SHOWN_SLOPE``; None: the map's own.
    """
    typical = typical_slope(elevation, cell) if typical is None else typical
    scale = SHOWN_SLOPE / typical if typical > 0 else 0.0
    north, east = (scale * slope for slope in np.gradient(elevation, cell[1], cell[0]))
    # n = (-dz/dx, -dz/dy, 1) / |...|
    lit = LIGHT[2] - LIGHT[0] * east - LIGHT[1] * north
    return np.clip(lit / np.sqrt(1 + east**2 + north**2), 0.0, 1.0)


def shade(lit: np.ndarray) -> np.ndarray:
    """A hillshade as an overlay [rows, columns], RGBA in uint32: black where darker than level
    ground, white where brighter, transparent where level or NaN."""
    dark = DARK * np.clip((LEVEL - lit) / LEVEL, 0, 1)
    bright = BRIGHT * np.clip((lit - LEVEL) / (1 - LEVEL), 0, 1)
    pixels = np.zeros((*lit.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(bright > 0, 255, 0)[..., None]
    pixels[..., 3] = np.nan_to_num(255 * (dark + bright)).round()
    return pixels.view("<u4")[..., 0]
