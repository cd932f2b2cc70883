"""The ground below an underwater vehicle: its depth, and its altitude above the ground, added."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..frontend.agreement import EQUAL, OFFSET, compare
from .cells import UNITS
from .columns import ABOVE_GROUND, VEHICLE_DEPTHS, Columns, plain_column_name, words_of
from .faults import no_readings
from .options import Answer, Unclear

#: Words of depths and elevations that are the water's or the ground's, whatever stands beside.
OF_WATER = {
    "water", "sounding", "bottom", "sonar", "corrected", "surface", "wassertiefe", "dpt", "dbs",
    "dbt", "bed", "elevation", "elev", "waterdepth", "bottomdepth", "sonardepth",
}  # fmt: skip


def with_altitudes(
    columns: Columns, place: np.ndarray, height: np.ndarray, altitude: np.ndarray, where: str,
    sound_scale: float = 1.0,
) -> tuple[Columns, np.ndarray, np.ndarray]:  # fmt: skip
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
        ground where it is; and which rows have no altitude then [N], boolean.

    Raises:
        Unclear: the altitude may be above the ground, or above the sea.
        InputError: ``sound_scale`` is not 1, which applies to depths below the surface.
    """
    nothing = np.zeros(len(height), dtype=bool)
    if not _is_above_ground(columns, height, altitude, where):
        return replace(columns, altitude=""), height, nothing
    if sound_scale != 1:
        raise InputError(
            f"{where}: water.sound_speed: applies to depths below the surface only, got a "
            f"vehicle's depth and altitude ({columns.description})"
        )
    above = altitude * UNITS[columns.altitude_unit] / UNITS[columns.unit]
    lost, known = ~(above > 0), np.flatnonzero(above > 0)
    wrong = no_readings(place[known], above[known], columns.degrees) if len(known) else {}
    for reason in {"no_reading", "sonar_limit"} & set(wrong):
        lost[known] |= wrong[reason]
    ground = height + above if columns.down else height - above
    return columns, np.where(lost, height, ground), lost


def _is_above_ground(
    columns: Columns, height: np.ndarray, altitude: np.ndarray, where: str
) -> bool:
    """Whether altitudes are, by their names. Raises an ``Unclear`` where they may be."""
    name, beside = columns.height, columns.altitude
    if "altitude" in columns.given:
        return True
    if OF_WATER & {*words_of(name)} or not (altitude > 0).any():
        return False
    vehicle = plain_column_name(name) in VEHICLE_DEPTHS
    same = compare(np.abs(height), altitude).kind in (EQUAL, OFFSET)  # both of the ground
    if (vehicle or ABOVE_GROUND.search(plain_column_name(beside))) and not same:
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
