"""The ground below an underwater vehicle: its depth, and its altitude above the ground, added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from .cells import UNITS
from .columns import ABOVE_GROUND, VEHICLE_DEPTHS, Columns, plain_column_name, words_of
from .no_readings import no_readings
from .questions import Answer, Unclear

#: Words of depths and elevations that are the water's or the ground's, whatever stands beside.
OF_WATER = {
    "water", "sounding", "bottom", "sonar", "corrected", "surface", "wassertiefe", "dpt", "dbs",
    "dbt", "bed", "elevation", "elev", "waterdepth", "bottomdepth", "sonardepth",
}  # fmt: skip
#: Correlation above which depth and altitude may be the same reading.
SAME = 0.8
#: At least so many different altitudes below zero are heights above the sea, not lost readings.
BELOW_ZERO = 3


def with_altitudes(
    columns: Columns,
    place: np.ndarray,
    height: np.ndarray,
    altitude: np.ndarray,
    where: str,
    sound_scale: float = 1.0,
) -> tuple[Columns, np.ndarray, dict[str, np.ndarray]]:
    """The ground, where a table has a vehicle's depth and altitude.

    Args:
        columns: as understood, with a column ``altitude``.
        place: of the table [N, 2].
        height: of the table [N].
        altitude: of the table, in its unit [N]; NaN where unknown.
        where: start of error messages.
        sound_scale: as of ``ReadOptions``.

    Returns:
        The columns, without ``altitude`` where it is not above the ground; the heights [N], of the
        ground where it is; and which rows have no reading, boolean [N] by reason.

    Raises:
        Unclear: the altitude may be above the ground, or above the sea.
        InputError: ``sound_scale`` is not 1, which applies to depths below the surface.
    """
    above = altitude * UNITS[columns.altitude_unit] / UNITS[columns.unit]
    lost = _without_reading(place, above, columns.degrees)
    if not _is_above_ground(columns, height, np.where(lost, np.nan, above), above, where):
        return replace(columns, altitude=""), height, {}
    if sound_scale != 1:
        raise InputError(
            f"{where}: water.sound_speed: applies to depths below the surface only, got a "
            f"vehicle's depth and altitude ({columns.description})"
        )
    ground = height + above if columns.down else height - above
    return columns, np.where(lost, height, ground), {"no_reading": lost}


def _without_reading(place: np.ndarray, altitude: np.ndarray, degrees: bool) -> np.ndarray:
    """Which rows [N] have no altitude: none, none above 0, or what instruments write then."""
    known = np.flatnonzero(altitude > 0)
    lost = np.ones(len(altitude), dtype=bool)
    lost[known] = False
    if len(known):
        wrong = no_readings(place[known], altitude[known], degrees)
        for reason in {"no_reading", "sonar_limit"} & set(wrong):
            lost[known] |= wrong[reason]
    return lost


def _is_above_ground(
    columns: Columns, height: np.ndarray, known: np.ndarray, every: np.ndarray, where: str
) -> bool:
    """Whether altitudes [N] are; ``known`` are readings, else NaN. Raises an ``Unclear`` where they
    may be."""
    if "altitude" in columns.given:
        return True
    name, beside = columns.height, columns.altitude
    if OF_WATER & {*words_of(name)} or not (every > 0).any():
        return False
    if len(np.unique(every[every < 0])) > BELOW_ZERO:
        return False
    kept = np.isfinite(height) & np.isfinite(known)
    depth, above = (height if columns.down else -height)[kept], known[kept]
    plain = plain_column_name(name)
    sure = bool(ABOVE_GROUND.search(plain_column_name(beside))) or plain in VEHICLE_DEPTHS
    positive = len(depth) > 0 and bool((depth >= 0).mean() > 0.5)
    if sure and positive and not _same(depth, above):
        return True
    own = {("z" if (height < 0).mean() > 0.5 else "depth"): name}
    raise Unclear(
        f"{where}: column {beside} beside column {name} may be a vehicle's height above the "
        "ground, or an antenna's above the sea",
        [
            Answer("if the ground lies at the two together",
                   {"columns": {**own, "altitude": beside}}),
            Answer(f"if {name} is that of the ground", {"columns": own}),
        ],
    )  # fmt: skip


def _same(depth: np.ndarray, above: np.ndarray) -> bool:
    """Whether altitude and depth rise and fall together, as if both were of the ground."""
    if len(depth) < 3 or not np.ptp(depth) or not np.ptp(above):
        return False
    return bool(np.corrcoef(depth, above)[0, 1] > SAME)
