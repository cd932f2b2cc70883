"""Errors of level in joint draws of a map: of the water level, the draught or the sound speed.

All soundings of a day share such an error. Lines that do not cross cannot show it, however wrong it
is, and what crossings show is only the difference between days. So a person has to say how large
it may be.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from ..outputs.volume import Draws


def with_level_errors(
    sample: Draws, xy: np.ndarray, unit: np.ndarray, deviation: float, seed: int
) -> Draws:
    """Draws in which the elevations of each unit, such as a day, are off by N(0, deviation^2).

    A map is off at a place as the soundings nearest to it are.

    Args:
        sample: makes draws without such errors.
        xy: places of the soundings [N, 2], in m.
        unit: of each [N], numbers from 0.
        deviation: in m.
        seed: of the errors.
    """
    nearest = cKDTree(xy)

    def drawn(places: np.ndarray, count: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        off = deviation * rng.standard_normal((count, int(unit.max()) + 1))
        found: np.ndarray = sample(places, count) + off[:, unit[nearest.query(places)[1]]]
        return found

    return drawn
