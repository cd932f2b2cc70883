"""Where a vehicle was: the positions of a log, the places of depths between them, and the ground
below a vehicle that measures its own depth and its altitude.

Instruments write depths faster than positions, and before the first fix. Whatever the log, its
depths are placed here: between the positions before and after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core.geodesy import rough_metres
from ..frontend.pings import EQUAL, OFFSET, compare
from .columns import ABOVE_GROUND, VEHICLE_DEPTHS, plain_column_name, words_of
from .faults import POSITION_JUMP, impossible_positions, no_readings, placed_by
from .look import untold
from .options import Answer, Unclear

#: Depths between positions farther apart than this are refused, in s.
GAP = 10.0
DAY = 86_400.0
#: Positions of a log without times are at most so many times their usual number of rows apart.
GAP_ROWS = 5.0
#: A receiver leaps faster than this (m/s), and than so many times the usual speed.
LEAP, LEAPS = 10.0, 5.0
#: Farther than this (m) from a place, x = 0 and y = 0 are no position of the same survey.
FAR_M = 50_000.0
#: More than any easting or northing on the Earth, in m.
EARTH_M = 1e8
#: Words of depths and elevations that are the water's or the ground's, whatever stands beside.
OF_WATER = {
    "water", "sounding", "bottom", "sonar", "corrected", "surface", "wassertiefe", "dpt", "dbs",
    "dbt", "bed", "elevation", "elev", "waterdepth", "bottomdepth", "sonardepth",
}  # fmt: skip
NO_FIX = "the positions are 0, 0 throughout: the receiver had no fix"
BEFORE, AFTER, BETWEEN = "before_first_fix", "after_last_fix", "position_gap"


def no_position(place: np.ndarray, degrees: bool = True) -> np.ndarray:
    """Which of these places [N, 2] are none, boolean [N]: unknown, or exactly 0, 0, which receivers
    write without a fix; in metres where all others lie far from there."""
    unknown, null = ~np.isfinite(place).all(1), (place == 0).all(1)
    if degrees or not null.any():
        return unknown | null
    others = place[~unknown & ~null & (np.abs(place) < EARTH_M).all(1)]
    far = len(others) > 0 and np.hypot(*np.median(others, axis=0)) > FAR_M
    return unknown | (null & far)


def over_midnight(seconds: np.ndarray) -> np.ndarray:
    """Times of day [N], in s, in the order of a log: a day later after each midnight; NaN stays."""
    known = np.flatnonzero(np.isfinite(seconds))
    days = np.cumsum(np.round(-np.diff(seconds[known], prepend=seconds[known[:1]]) / DAY))
    found = seconds.copy()
    found[known] += DAY * days
    return found


def frozen_positions(seconds: np.ndarray, xy: np.ndarray, gap: float) -> np.ndarray:
    """Which positions [K] a receiver repeats that knows none, boolean [K]: for longer than ``gap``
    (s), after which it leaps, faster than the vehicle is. At rest a vehicle does not leap."""
    steps, apart = np.hypot(*np.diff(xy, axis=0).T), np.diff(seconds)
    begins = np.flatnonzero(np.append(True, steps > 0)[: len(xy)])
    frozen = np.zeros(len(xy), dtype=bool)
    speed = np.divide(steps, apart, out=np.zeros(len(steps)), where=apart > 0)
    limit = max(LEAP, LEAPS * float(np.median(speed[speed > 0]))) if speed.any() else np.inf
    for begin, end in pairwise(begins.tolist()):
        if seconds[end - 1] - seconds[begin] > gap and speed[end - 1] > limit:
            frozen[begin + 1 : end] = True
    return frozen


@dataclass(frozen=True)
class Track:
    """Positions of a log, in order.

    Attributes:
        at: what they are interpolated by, ascending [K]: times (s), numbers of sentences or rows.
        seconds: their times [K]; all NaN: unknown.
        place: latitude and longitude in degrees, or x and y in m [K, 2].
        degrees: which of the two.
        false: those that the vehicle cannot have reached [K], boolean.
        gap: the longest time between two that a depth is placed by, in s; without times, in ``at``.
    """

    at: np.ndarray
    seconds: np.ndarray
    place: np.ndarray
    degrees: bool
    false: np.ndarray
    gap: float

    @classmethod
    def of(
        cls, where: str, seconds: np.ndarray, place: np.ndarray, degrees: bool = True,
        at: np.ndarray | None = None, gap: float = GAP,
    ) -> Track:  # fmt: skip
        """The track of all positions of a log [K], in any order; those that are none are left out.

        Args:
            where: start of warnings.
            seconds: their times; NaN: unknown.
            place: latitude and longitude in degrees, or x and y in m [K, 2].
            degrees: which of the two.
            at: numbers of sentences or rows, if positions are interpolated by these, not by time.
            gap: see there. Without times it is ``GAP_ROWS`` times the usual distance of ``at``.
        """
        at = seconds if at is None else at
        known = np.flatnonzero(np.isfinite(at) & ~no_position(place, degrees))
        at, first = np.unique(at[known], return_index=True)
        seconds, place = seconds[known[first]], place[known[first]].astype(float)
        if degrees and len(at):
            place[:, 1] = np.unwrap(place[:, 1], period=360.0)
        if not np.isfinite(seconds).any():
            gap = GAP_ROWS * float(np.median(np.diff(at))) if len(at) > 1 else 0.0
        xy = rough_metres(place) if degrees else place
        moves = ~frozen_positions(seconds, xy, gap)
        at, seconds, place, xy = at[moves], seconds[moves], place[moves], xy[moves]
        return cls(at, seconds, place, degrees, impossible_positions(where, seconds, xy), gap)

    def __len__(self) -> int:
        return len(self.at)

    def places(self, at: np.ndarray) -> np.ndarray:
        """Places [N, 2] at ``at`` [N]; NaN before the first position and after the last one."""
        if not len(self):
            return np.full((len(at), 2), np.nan)
        found = np.column_stack([
            np.interp(at, self.at, each, left=np.nan, right=np.nan) for each in self.place.T
        ])  # fmt: skip
        if self.degrees:
            found[:, 1] = (found[:, 1] + 180.0) % 360.0 - 180.0
        return found

    def refused(self, at: np.ndarray) -> dict[str, np.ndarray]:
        """Which depths, at ``at`` [N], cannot be placed: boolean [N] by reason."""
        if not len(self):
            return {BEFORE: np.ones(len(at), dtype=bool)}
        first, after = (np.searchsorted(self.at, at, side=side) for side in ("left", "right"))
        between = (first == after) & (at > self.at[0]) & (at < self.at[-1])
        axis = self.seconds if np.isfinite(self.seconds).any() else self.at
        apart = np.zeros(len(at))
        apart[between] = np.diff(axis)[first[between] - 1]
        return {
            BEFORE: at < self.at[0], AFTER: at > self.at[-1],
            BETWEEN: ~((apart >= 0) & (apart <= self.gap)),
            POSITION_JUMP: placed_by(self.false, self.at, at),
        }  # fmt: skip


def without_altitude(place: np.ndarray, above: np.ndarray, degrees: bool) -> np.ndarray:
    """Which rows have no altitude above the ground [N], boolean; the first two as of
    ``RawSoundings`` and ``is_above_ground``."""
    lost, known = ~(above > 0), np.flatnonzero(above > 0)
    wrong = no_readings(place[known], above[known], degrees) if len(known) else {}
    for reason in {"no_reading", "sonar_limit"} & set(wrong):
        lost[known] |= wrong[reason]
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
    answers = [
        Answer("if the ground lies at the two together", {"columns": {**own, "altitude": beside}}),
        Answer(f"if {name} is that of the ground", {"columns": own}),
    ]
    if untold(place, height) <= untold(place, height - above if up else height + above):
        answers.reverse()
    raise Unclear(
        f"{where}: column {beside} beside column {name} may be a vehicle's height above the "
        "ground, or an antenna's above the sea", answers,
    )  # fmt: skip
