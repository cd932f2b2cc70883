"""Colours of what is drawn for viewers, which have none of their own for it. Numpy only."""

from __future__ import annotations

import numpy as np

from ..runs.light import brightness

#: Colours from low to high, red, green and blue of 255 each; between them it is linear.
RAMPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "depth": (
        (14, 22, 84), (24, 74, 150), (32, 130, 182), (80, 184, 190), (166, 220, 176),
        (234, 238, 182), (255, 250, 224),
    ),
    "land": (
        (38, 92, 86), (92, 140, 84), (176, 184, 110), (206, 168, 116), (158, 116, 92),
        (250, 248, 246),
    ),
    "doubt": ((52, 16, 84), (54, 78, 140), (34, 142, 138), (112, 200, 92), (250, 230, 46)),
    "length": ((12, 8, 34), (88, 24, 112), (186, 52, 104), (244, 134, 84), (252, 240, 196)),
}  # fmt: skip
#: Of the levels of ``planning.tvu``: within none, 2, 1b, special, exclusive.
LEVELS = ((166, 36, 44), (236, 142, 62), (248, 224, 116), (122, 192, 122), (40, 120, 178))
#: Steps that a ramp is drawn in, and steps of light: few enough that each colour is made once.
STEPS, LIGHTS = 100, 24
SHADE = 0.45  # the least light, as a part of the most


def ramp(name: str) -> np.ndarray:
    """The colours of a ramp [STEPS + 1, 3], 0..1."""
    stops = np.array(RAMPS[name]) / 255
    at = np.linspace(0, len(stops) - 1, STEPS + 1)
    return np.column_stack([np.interp(at, np.arange(len(stops)), band) for band in stops.T])


def levels() -> np.ndarray:
    """The colours of the levels [5, 3], 0..1."""
    return np.array(LEVELS) / 255


def steps(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """Which colour of a ramp each of the values has, as integers; 0 where there is no value."""
    share = (np.nan_to_num(values, nan=low) - low) / ((high - low) or 1.0)
    return np.rint(STEPS * np.clip(share, 0, 1)).astype(int)


def lights(heights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How much light falls on heights [rows, columns] at x, y, as integers 0..LIGHTS."""
    with np.errstate(invalid="ignore"):  # beside what is infinite
        rise_y, rise_x = np.gradient(heights, y, x)
    return np.rint(LIGHTS * np.nan_to_num(brightness(rise_x, rise_y))).astype(int)


def lit(colour: np.ndarray, light: int) -> np.ndarray:
    """A colour [3] in this much light."""
    return colour * (SHADE + (1 - SHADE) * light / LIGHTS)
