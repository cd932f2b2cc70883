"""Errors of level in joint draws of a map: of the water level, the draught or the sound speed.

All soundings of a day share such an error. Lines that do not cross cannot show it, however wrong it
is, and what crossings show is only the difference between days. So a person has to say how large
it may be. Days whose differences are known share one error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.spatial import cKDTree

from ..outputs.volume import Draws
from .soundings import Labels

#: Of days, by name: error of level relative to one of them, and standard deviation of what is left
#: of it after a correction, in m.
Levels = Mapping[str, Sequence[float]]


def with_level_errors(
    sample: Draws,
    xy: np.ndarray,
    day: Labels,
    deviation: float,
    seed: int,
    levels: Levels | None = None,
) -> Draws:
    """Draws in which the elevations of each day are off by N(0, deviation^2).

    A map is off at a place as the soundings nearest to it are.

    Args:
        sample: makes draws without such errors.
        xy: places of the soundings [N, 2], in m.
        day: of each [N]; or other parts of the survey with a level of their own.
        deviation: in m.
        seed: of the errors.
        levels: of the days whose levels are known from crossings. These share the error c of the
            day that they are relative to. With c + off_k ~ N(0, deviation^2) for each of K days,
            c ~ N(-mean(off_k), deviation^2 / K); as maps are not corrected by this mean, it is
            taken as a further deviation.
    """
    if not (deviation or levels):
        return sample
    nearest = cKDTree(xy)

    def drawn(places: np.ndarray, count: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        off = deviation * rng.standard_normal((count, len(day.names)))
        known = [i for i, name in enumerate(day.names) if levels and name in levels]
        if levels and known:
            relative, left = np.array([levels[day.names[i]] for i in known]).T
            shared = np.hypot(relative.mean(), deviation / len(known) ** 0.5) if deviation else 0.0
            off[:, known] = shared * rng.standard_normal((count, 1))
            off[:, known] += left * rng.standard_normal((count, len(known)))
        found, at = sample(places, count), day.code[nearest.query(places)[1]]
        for draw, errors in zip(found, off, strict=True):  # in place: they may be large
            draw += errors[at]
        return found

    return drawn
