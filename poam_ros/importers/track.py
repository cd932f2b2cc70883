"""Where a vehicle was: the positions of a log, the places of depths between them, and the ground
below a vehicle that measures its own depth and its altitude.

Instruments write depths faster than positions, and before the first fix. Whatever the log, its
depths are placed here: between the positions before and after.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core.geodesy import rough_metres
from ..frontend.pings import EQUAL, OFFSET, compare
from .columns import ABOVE_GROUND, VEHICLE_DEPTHS, plain_column_name, words_of
from .faults import FAR_M, GAP, impossible_positions, no_position, no_readings
from .look import untold
from .options import Unclear

DAY = 86_400.0
#: Positions of a log without times are at most so many times their usual number of rows apart.
GAP_ROWS = 5.0
#: Words of depths and elevations that are the water's or the ground's, whatever stands beside.
OF_WATER = {
    "water", "sounding", "bottom", "sonar", "corrected", "surface", "wassertiefe", "dpt", "dbs",
    "dbt", "bed", "elevation", "elev", "waterdepth", "bottomdepth", "sonardepth",
}  # fmt: skip
NO_FIX = "the positions are 0, 0 throughout: the receiver had no fix"
BEFORE, AFTER, BETWEEN = "before_first_fix", "after_last_fix", "position_gap"


def over_midnight(seconds: np.ndarray) -> np.ndarray:
    """Times of day [N], in s, in the order of a log: a day later after each midnight; NaN stays."""
    known = np.flatnonzero(np.isfinite(seconds))
    days = np.cumsum(np.round(-np.diff(seconds[known], prepend=seconds[known[:1]]) / DAY))
    found = seconds.copy()
    found[known] += DAY * days
    return found


class Track:
    """Positions of a log in order, between which its depths are placed; those that are none, or
    impossible, are left out.

    Args:
        where: start of warnings.
        seconds: times of all positions [K], in any order, in s; NaN: unknown.
        place: latitude and longitude in degrees, or x and y in m [K, 2].
        degrees: which of the two.
        at: numbers of rows, if positions are interpolated by these, not by time.
    """

    def __init__(
        self, where: str, seconds: np.ndarray, place: np.ndarray, degrees: bool = True,
        at: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        at = seconds if at is None else at
        known = np.flatnonzero(np.isfinite(at) & ~no_position(place, degrees))
        known = known[np.unique(at[known], return_index=True)[1]]
        xy = rough_metres(place[known]) if degrees else place[known]
        true = ~impossible_positions(where, seconds[known], xy)
        xy, known = xy[true], known[true]
        self._at, seconds, self._place = at[known], seconds[known], place[known].astype(float)
        if degrees and len(self):
            self._place[:, 1] = np.unwrap(self._place[:, 1], period=360.0)
        self._degrees, self._apart, self._gap = degrees, np.diff(seconds), GAP
        if not np.isfinite(seconds).any():
            self._apart = np.diff(self._at)
            self._gap = GAP_ROWS * float(np.median(self._apart)) if len(self) > 1 else 0.0
        # Of places so far apart, as with a lost sign, one is wrong, and nothing lies between.
        self._apart[np.hypot(*np.diff(xy, axis=0).T) > FAR_M] = np.inf

    def __len__(self) -> int:
        return len(self._at)

    def places(self, at: np.ndarray) -> np.ndarray:
        """Places [N, 2] at ``at`` [N]; NaN before the first position and after the last one."""
        found = np.full((len(at), 2), np.nan)
        for column, each in zip(found.T, self._place.T, strict=True):
            column[:] = np.interp(at, self._at, each, np.nan, np.nan) if len(self) else np.nan
        if self._degrees:
            found[:, 1] = (found[:, 1] + 180.0) % 360.0 - 180.0
        return found

    def refused(self, at: np.ndarray) -> dict[str, np.ndarray]:
        """Which depths, at ``at`` [N], cannot be placed: boolean [N] by reason."""
        if not len(self):
            return {BEFORE: np.ones(len(at), dtype=bool)}
        apart = np.concatenate(([0.0], self._apart, [0.0]))[np.searchsorted(self._at, at)]
        gap = ~np.isin(at, self._at) & ~((apart >= 0) & (apart <= self._gap))
        return {BEFORE: at < self._at[0], AFTER: at > self._at[-1], BETWEEN: gap}


def without_altitude(above: np.ndarray) -> np.ndarray:
    """Which rows have no altitude above the ground [N], boolean; see ``is_above_ground``."""
    known = np.flatnonzero(above > 0)
    lost = ~(above > 0)
    lost[known] = np.any(list(no_readings(above[known]).values()), axis=0)
    return lost


def is_above_ground(
    where: str, names: Mapping[str, str], given: Mapping[str, str], place: np.ndarray,
    height: np.ndarray, above: np.ndarray,
) -> bool:  # fmt: skip
    """Whether the altitudes in a table are a vehicle's above the ground.

    Args:
        where: start of the question.
        names: of columns by meaning, with that of altitudes.
        given: those that options named.
        place: of the table [N, 2].
        height: of the table [N].
        above: altitudes, in the unit of ``height`` [N]; NaN where unknown.

    Raises:
        Unclear: they may be above the ground, or above the sea. First comes the ground that the
            place tells better.
    """
    name, beside = names.get("depth", names.get("z", "")), names["altitude"]
    if "altitude" in given:
        return True
    if OF_WATER & {*words_of(name)} or not (above > 0).any():
        return False
    vehicle = plain_column_name(name) in VEHICLE_DEPTHS
    same = compare(np.abs(height), above).kind in (EQUAL, OFFSET)  # both of the ground
    if (vehicle or ABOVE_GROUND.search(plain_column_name(beside))) and not same:
        return True
    up = (height < 0).mean() > 0.5
    own = {"z" if up else "depth": name}
    answers = {
        "if the ground lies at the two together": {"columns": {**own, "altitude": beside}},
        f"if {name} is that of the ground": {"columns": own},
    }
    if untold(place, height) <= untold(place, height - above if up else height + above):
        answers = dict(reversed(answers.items()))
    raise Unclear(
        f"{where}: column {beside} beside column {name} may be a vehicle's height above the "
        "ground, or an antenna's above the sea", answers,
    )  # fmt: skip
