"""The water level over time, from a gauge's file."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, shown
from ..frontend.pings import MAX_LEVEL
from ..mapping.soundings import DATES
from .cells import NO_READING, UNITS, Times, is_clock
from .columns import plain_column_name, words_of
from .tables import table_of, with_times

log = logging.getLogger(__name__)

DAY = 86_400 * SECOND
#: The parameter of gage heights, in ft, in the header of a file of the USGS.
USGS = "00065"
#: Names of the column of levels, without units, underscores and blanks.
NAMES = {
    "level", "waterlevel", "stage", "gauge", "gage", "height", "elevation", "value", "pegel",
    "wasserstand", "nivel", "niveau", USGS,
}  # fmt: skip
#: Of the time zone of such files, and hours of the zones ahead of UTC.
ZONE_COLUMN = "tz_cd"
ZONES = {
    "UTC": 0, "GMT": 0, "AST": -4, "EDT": -4, "EST": -5, "CDT": -5, "CST": -6, "MDT": -6,
    "MST": -7, "PDT": -7, "PST": -8, "AKDT": -8, "AKST": -9, "HST": -10,
}  # fmt: skip
#: What instruments write without a reading is no level if it is so far from the median, in m.
FAR = 20.0
#: Readings farther apart than this say little about the level between them, in ns.
GAP = 2 * DAY


@dataclass(frozen=True)
class WaterLevels:
    """Readings of a gauge, in the order of their times.

    Attributes:
        path: of the file.
        stamp_ns: times [N], in ns since 1970, or since midnight if readings have no date.
        level: water level above the datum [N], in m.
        daily: whether readings have a date but no time: each is valid at noon of its day.
        clock: whether readings have a time of day but no date: they are valid on every day.
    """

    path: Path
    stamp_ns: np.ndarray
    level: np.ndarray
    daily: bool = False
    clock: bool = False

    @classmethod
    def read(cls, path: Path) -> WaterLevels:
        """Read a table of times (or dates and times) and levels, in m or in the unit that the
        header names. Of several columns the header must name one of ``NAMES``.

        Raises:
            InputError: the file cannot be read, or is not such a table.
        """
        table = with_times(table_of(path))
        every = [*table.columns.values()]
        when = [*table.times({}).values()] or every[:1]
        numbers = [e for e in every if e not in when and np.isfinite(e.values).mean() > 0.5]
        named = [e for e in numbers if {*words_of(e.name), plain_column_name(e.name)} & NAMES]
        zones = {"UTC": 0}
        if ZONE_COLUMN in table.columns:
            cells = {cell.strip() for cell in table.columns[ZONE_COLUMN]}
            zones = {zone: hours for zone, hours in ZONES.items() if zone in cells}
        expected = f"{path}: expected rows of time and level (m)"
        unknown = f"{expected}, got {shown(','.join(next(iter(e.sample), 'none') for e in every))}"
        if len(found := named or numbers) > 1:
            names = shown(", ".join(each.name for each in found))
            raise InputError(f"{expected}, got several columns: {names}; name one of them level")
        if len(zones) != 1:
            raise InputError(f"{expected} in one zone of {', '.join(ZONES)}, got {[*zones]}")
        if not found:
            raise InputError(unknown)
        texts = [*map(" ".join, zip(*when, strict=True))]
        if (times := Times(texts)).fault:
            raise InputError(f"{path}: {times.fault}")
        stamp_ns, timed = times.stamps(texts)
        unit = "ft" if USGS in words_of(found[0].name) else found[0].unit or "m"
        level = UNITS[unit] * found[0].numbers()
        kept = timed & np.isfinite(level) & (np.abs(level) <= MAX_LEVEL)
        if not kept.any():
            raise InputError(unknown)
        none = kept & np.isin(np.abs(level), NO_READING)
        none &= np.abs(level - np.median(level[kept])) > FAR
        if none.any():
            left = quantity(int(none.sum()), "reading")
            log.warning("%s: %s of %g m left out", path, left, level[none][0])
        order = np.argsort(stamp_ns, kind="stable")
        order = order[(kept & ~none)[order]]
        clock, daily = all(map(is_clock, texts)), [each.clock for each in when] == ["date"]
        stamp_ns -= min(zones.values()) * 3600 * SECOND
        return cls(path, stamp_ns[order], level[order], daily, clock)

    def at(self, stamp_ns: np.ndarray) -> np.ndarray:
        """The level at times [N], linear between readings, in m; NaN before the first reading and
        after the last (daily readings: before the first day and after the last)."""
        known = self.stamp_ns
        if self.clock:
            stamp_ns = stamp_ns % DAY
        after = np.clip(np.searchsorted(known, stamp_ns), 1, max(1, len(known) - 1))
        inside = (stamp_ns > known[0]) & (stamp_ns < known[-1])
        apart = np.diff(known, append=known[-1:])[after - 1][inside]
        if (apart > GAP).any():
            log.warning(
                "%s: the water level of %s is interpolated between readings up to %.0f days apart",
                self.path, quantity(int((apart > GAP).sum()), "sounding"), apart.max() / DAY,
            )  # fmt: skip
        last = known[-1] + (DAY - 1 if self.daily else 0)
        found = np.interp(stamp_ns, known + (DAY // 2 if self.daily else 0), self.level)
        return np.where((stamp_ns < known[0]) | (stamp_ns > last), np.nan, found)

    @property
    def description(self) -> str:
        """Number of readings, file, range of levels and of times, as text."""
        low, high = self.level.min(), self.level.max()
        dated = not self.clock and self.stamp_ns[0] >= DATES
        first, last = (self.stamp_ns[[0, -1]] // SECOND).astype("M8[s]")
        times = f", {first} to {last}" if dated else ""
        number = quantity(len(self.level), "reading")
        return f"{number} in {self.path.name}, {low:g} to {high:g} m{times}"
