"""Values that are not readings: impossible ones, and those that instruments write without a
reading."""

from __future__ import annotations

import numpy as np

from ..core.geodesy import DEGREE_M, rough_metres
from ..core.geometry import MAX_COORDINATE
from ..frontend.placing import MAX_ELEVATION
from .cells import NO_READING, UNITS

#: A place is wrong if it is this many times as far out as 90 % of all, and at least this far (m).
FAR_TIMES, FAR_M = 20.0, 50_000.0
#: Fewer places do not show which is far away.
FEWEST = 20
#: A percentage of confidence below this is no reading, as on a vehicle.
UNSURE = 50.0
#: The deepest value is the sonar's limit if it is repeated this often, and this many times the next
#: one.
LIMIT_COUNT, LIMIT_RATIO = 5, 1.5


def impossible(
    place: np.ndarray, height: np.ndarray, degrees: bool, unit: str
) -> dict[str, np.ndarray]:
    """Which values cannot be soundings, whatever the others are: boolean [N] by reason. The
    arguments are attributes of ``RawSoundings``."""
    limits = (90.0, 360.0) if degrees else (MAX_COORDINATE, MAX_COORDINATE)
    return {
        "not_a_number": ~(np.isfinite(place).all(1) & np.isfinite(height)),
        "impossible_place": ~(np.abs(place) <= limits).all(1),
        "wild_elevation": ~(np.abs(height) * UNITS[unit] <= MAX_ELEVATION),
    }


def no_readings(
    place: np.ndarray, height: np.ndarray, degrees: bool, near: tuple[float, float] | None = None
) -> dict[str, np.ndarray]:
    """Which values instruments write without a reading, and which places cannot belong to this
    survey: boolean [N] by reason. The first arguments are attributes of ``RawSoundings``; ``near``:
    latitude and longitude that the survey is near to."""
    wrong: dict[str, np.ndarray] = {}
    kept = np.ones(len(height), dtype=bool)

    def refuse(reason: str, these: np.ndarray) -> None:
        nonlocal kept
        wrong[reason] = these & kept
        kept = kept & ~these

    size = np.abs(height)
    bulk = np.quantile(size, 0.99)
    sentinel = np.isin(size, NO_READING)
    signs = np.sign(height[height != 0])
    one_way = len(signs) > 0 and abs(float(signs.mean())) > 0.8
    other_side = np.sign(height) != np.sign(np.median(height))
    # A value like the others is a reading: 9 m in a lake of 12 m, 0 on a shore above the datum.
    if one_way:
        others = size[~sentinel] if (~sentinel).any() else np.array([bulk])
        least, typical = np.quantile(others, (0.01, 0.99))
        apart = (size > 2 * typical) | ((size >= 99) & (2 * size < least))  # 9999 mm among 30,000
        refuse("no_reading", (sentinel & (other_side | apart)) | (height == 0))
    if kept.any():
        deepest = size[kept].max()
        below = size[kept & (size < deepest)]
        repeated = int((size[kept] == deepest).sum())
        if repeated >= LIMIT_COUNT and len(below) and deepest > LIMIT_RATIO * below.max():
            refuse("sonar_limit", size == deepest)
    nowhere = (place == 0).all(1)
    if degrees or np.abs(np.median(place, axis=0)).max() > 1e4:
        elsewhere = np.hypot(*np.median(place, axis=0)) * (DEGREE_M if degrees else 1) > FAR_M
        refuse("null_position", nowhere & elsewhere)
    refuse("far_away", far_away(place, kept, degrees, near))
    return wrong


def far_away(
    place: np.ndarray, kept: np.ndarray, degrees: bool, near: tuple[float, float] | None
) -> np.ndarray:
    """Which places [N, 2] are many times farther away than most of ``kept`` [N], boolean [N]: from
    their middle, or from ``near`` (latitude, longitude)."""
    if kept.sum() < FEWEST:
        return np.zeros(len(place), dtype=bool)
    middle = np.median(place[kept], axis=0) if near is None or not degrees else near
    places = np.vstack((place, middle))
    xy = rough_metres(places) if degrees else places
    away = np.hypot(*(xy[:-1] - xy[-1]).T)
    reach = np.quantile(away[kept], 0.9 if near is None else 0.5)
    return away > max(FAR_TIMES * reach, FAR_M)


def uncertain(confidence: np.ndarray, least: float | None) -> tuple[np.ndarray, str]:
    """Which readings their instrument is not sure of [N], boolean; and which those are, as text.

    Args:
        confidence: as the instrument writes it: a percentage, or a flag [N]; NaN: unknown.
        least: that is accepted; None: ``UNSURE`` of a percentage, and any flag but 0.
    """
    known = confidence[np.isfinite(confidence)]
    if not len(known):
        return np.zeros(len(confidence), dtype=bool), ""
    if least is None and known.max() > 10 and known.max() <= 100 and known.min() >= 0:
        least = UNSURE
    if least is not None:
        return confidence < least, f", {{}} of at least {least:g}"
    if (known == 0).mean() > 0.5:  # 0 is what most have, and says that all is well
        return np.zeros(len(confidence), dtype=bool), ""
    return confidence == 0, ", {} other than 0"
