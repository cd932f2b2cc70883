"""The water level over time, from a gauge's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.reading import TEXT_FACTOR, refuse_larger
from ..frontend.settings import MAX_LEVEL
from .dialect import Times, is_clock, is_date, number, sniff

DAY = 86_400 * SECOND


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
        """Read a table of two or more columns: time (or date and time), then the level in m.

        Raises:
            InputError: the file cannot be read, or is not such a table.
        """
        try:
            refuse_larger(f"{path}: its content", path.stat().st_size, TEXT_FACTOR)
            dialect, head = sniff(path)
            rows = list(dialect.rows(path))
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: cannot be read ({reason})") from None
        first = head[0]
        when = [i for i, cell in enumerate(first) if is_date(cell) or is_clock(cell)]
        others = [i for i in range(len(first)) if i not in when and i >= len(when)]
        if not when:  # plain numbers: s, or the Unix time
            when, others = [0], list(range(1, len(first)))
        if not others:
            raise InputError(f"{path}: expected rows of time and level (m), got {first[:4]}")
        texts = [" ".join(row[i] for i in when if i < len(row)) for row in rows]
        times = Times(texts)
        if times.ambiguous:
            raise InputError(
                f"{path}: {texts[0]} may be day/month or month/day; write it as year-month-day"
            )
        seconds = np.array([times.seconds(text) for text in texts])
        last = others[0]
        cells = (row[last] if last < len(row) else "" for row in rows)
        level = np.array([number(cell, dialect.comma) for cell in cells])
        kept = np.isfinite(seconds) & np.isfinite(level) & (np.abs(level) <= MAX_LEVEL)
        if not kept.any():
            raise InputError(f"{path}: expected rows of time and level (m), got {first[:4]}")
        order = np.argsort(seconds[kept], kind="stable")
        stamp = np.round(seconds[kept][order] * SECOND).astype(np.int64)
        clock = all(is_clock(text) for text in texts)
        daily = not clock and all(is_date(text) and ":" not in text for text in texts)
        return cls(path, stamp, level[kept][order], daily, clock)

    def at(self, stamp_ns: np.ndarray) -> np.ndarray:
        """The level at times [N], linear between readings, in m; NaN before the first reading and
        after the last (daily readings: before the first day and after the last)."""
        known = self.stamp_ns
        if self.clock:
            stamp_ns = stamp_ns % DAY
        if not self.daily:
            found = np.interp(stamp_ns, known, self.level)
            return np.where((stamp_ns < known[0]) | (stamp_ns > known[-1]), np.nan, found)
        found = np.interp(stamp_ns, known + DAY // 2, self.level)  # at noon
        return np.where((stamp_ns < known[0]) | (stamp_ns >= known[-1] + DAY), np.nan, found)

    @property
    def said(self) -> str:
        """Number of readings, file and range of levels, as text."""
        low, high = self.level.min(), self.level.max()
        return f"{len(self.level)} readings in {self.path.name}, {low:g} to {high:g} m"
