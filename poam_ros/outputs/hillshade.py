"""How bright the ground is under the light that maps have: from the north-west. NumPy alone."""

from __future__ import annotations

import math

import numpy as np

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
