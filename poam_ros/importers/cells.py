"""What the cells of a table hold: numbers, values with a unit, angles, times, nothing. Decimal
commas are points by then (``tables``)."""

from __future__ import annotations

import math
import re
from calendar import timegm
from collections.abc import Iterable, Sequence

import numpy as np

from ..core.clock import SECOND

#: Units of lengths: their size in m, and further spellings.
_LENGTHS = {
    "m": (1.0, "meter meters metre metres mtr"),
    "ft": (0.3048, "feet foot ftus usft fuss fuß pieds pies"),
    "fathom": (1.8288, "fathoms fm fms ftm"), "cm": (0.01, "centimeters centimetres"),
    "mm": (0.001, "millimeters millimetres"), "dm": (0.1, "decimeters decimetres"),
    "in": (0.0254, "inch inches"), "yd": (0.9144, "yds yard yards"), "km": (1000.0, ""),
}  # fmt: skip
UNITS = {unit: size for unit, (size, _) in _LENGTHS.items()}
#: Units by their spellings, those of angles too.
SPELLINGS = {
    word: unit for unit, (_, words) in _LENGTHS.items() for word in (unit, *words.split())
} | {
    "deg": "deg", "degrees": "deg", "dd": "deg", "°": "deg", "rad": "rad", "radians": "rad",
    "utc": "", "wgs84": "",
}  # fmt: skip
#: Values that instruments write where they have no reading, of either sign.
NO_READING = (
    0.0, 1.0, 9.0, 99.0, 999.0, 9999.0, 99.9, 999.9, 99.99, 999.99, 9999.9, 32767.0,
    65535.0, 6553.5,
)  # fmt: skip
#: A cell without a value: --.--, NA, null.
_NOTHING = re.compile(r"[-.\s]*|n/?a|-?nan|null|none|nil", re.IGNORECASE)
_WITH_UNIT = re.compile(r"([+-]?[.,]*\d[\d.,]*)\s*([a-zA-Z]+)\.?")
#: Of single blanks, and no number is cut in two: a long cell that is none takes no longer.
_ANGLE = re.compile(
    r"([NSEW]?) ?([+-]?\d+(?:\.\d*)?)(?![\d.]) ?[°d:]? ?(?:(\d+(?:\.\d*)?)(?![\d.]) ?['′:]? ?)?"
    r"(?:(\d+(?:\.\d*)?) ?[\"″]? ?)?([NSEW]?)",
    re.IGNORECASE,
)
#: A date, of which 20250117 stands before a time of day only; and a time of day.
_TIME = re.compile(
    r"(?:(\d{4}|\d\d?)([./-]|(?<=\d{4})(?=\d{4}[T ]\d\d?:))(\d\d?)\2(\d{4}|\d\d?)(?!\d)[T, ]*)?"
    r"(?:(\d\d?):(\d\d?)(?::(\d\d?(?:[.,]\d+)?))?\s*([AP]M)?\s*"
    r"(?:Z|UTC|GMT|([+-]\d\d):?(\d\d)?)?)?",
    re.IGNORECASE,
)
NAN = float("nan")
FLAGS = {"true": 1.0, "false": 0.0}


def is_nothing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return len(cell) < 20 and bool(_NOTHING.fullmatch(cell.strip()))


def value_with_unit(cell: str) -> tuple[str, str] | None:
    """The number and the unit, a key of ``UNITS``, in a cell such as 8.2 m; None without them."""
    found = _WITH_UNIT.fullmatch(cell.strip())
    unit = SPELLINGS.get(found[2].lower(), "") if found else ""
    return (found[1], unit) if found and unit in UNITS else None


def number(cell: str, unit: str = "") -> float:
    """The number in a cell, alone or with this unit beside it (empty: any); NaN without one."""
    try:
        return float(cell)
    except ValueError:
        found = value_with_unit(cell)
        if found and unit in ("", found[1]):
            return number(found[0])
        return FLAGS.get(cell.strip().lower(), NAN)


def angle(cell: str) -> float:
    """Degrees from decimal degrees, or degrees, minutes and seconds, with or without N, S, E, W;
    NaN if a cell is no angle. (An O is east in one language, and west in others.)"""
    try:
        return float(cell)
    except ValueError:
        found = _ANGLE.fullmatch(" ".join(cell.split()))
    if found is None:
        return NAN
    minutes, seconds = (float(found[i] or 0) for i in (3, 4))
    if (found[1] and found[5]) or max(minutes, seconds) >= 60:
        return NAN
    size = abs(float(found[2])) + minutes / 60 + seconds / 3600
    return -size if found[2][0] == "-" or (found[1] or found[5]) in (*"SsWw",) else size


def numbers(cells: Sequence[str], unit: str | None = "") -> np.ndarray:
    """The numbers in cells [N], with this unit or none beside them; None: angles or else numbers.
    NaN where there is none."""
    try:
        return np.array(cells, dtype=float)
    except ValueError:
        found = (NAN if unit is not None else angle(cell) for cell in cells)
        pairs = zip(cells, found, strict=True)
        return np.array([number(cell, unit or "") if a != a else a for cell, a in pairs], float)


def is_date(cell: str) -> bool:
    """Whether a cell is a date, with or without a time."""
    found = _TIME.match(cell.strip())
    return bool(found and found[1])


def is_clock(cell: str) -> bool:
    """Whether a cell is a time of day alone."""
    found = _TIME.fullmatch(cell.strip())
    return bool(found and found[5] and not found[1])


def is_value(cell: str) -> bool:
    """Whether a cell is a number, an angle or a time; not with a tab, which separates two."""
    if "\t" in cell or is_clock(cell) or is_date(cell):
        return "\t" not in cell
    return math.isfinite(angle(cell.replace(",", "."))) or value_with_unit(cell) is not None


class Times:
    """Parser of times, by the order of day and month that all texts of a table allow."""

    def __init__(self, sample: Iterable[str]) -> None:
        texts = [text.strip() for text in sample if not is_nothing(text)]
        dates = [(int(d[1]), int(d[3])) for d in map(_TIME.match, texts) if d and d[2] == "/"]
        #: Why days cannot be told, as text; empty: they can.
        self.fault = ""
        if dates and max(map(max, dates)) <= 12:
            self.fault = f"{texts[0]} may be day/month or month/day; write times as year-month-day"
        self._day_first = any(first > 12 for first, _ in dates)
        # Whether numbers are times of day, hhmmss: no counter skips 60 to 99 for so long.
        self._packed = len(texts) >= 20 and len({*texts}) > 1
        self._packed &= all(re.fullmatch(r"[012]\d([0-5]\d){2}(\.\d+)?Z?", text) for text in texts)

    def stamps(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Times [N] in ns, 0 where a text is none; and whether it is one [N], boolean."""
        seconds = np.array([self.seconds(text) for text in texts], dtype=float)
        known = np.abs(seconds) < 9e9  # as an int64 of ns
        return np.round(np.where(known, seconds, 0) * SECOND).astype(np.int64), known

    def seconds(self, cell: str) -> float:
        """Seconds since 1970 (UTC, unless the text says otherwise); of plain numbers, since their
        own begin; of a time without a date, since midnight; NaN if it is no time."""
        found = _TIME.fullmatch(cell.strip())
        if not (found and found[0]):
            plain = number(cell.strip(" Z") if self._packed else cell, "s")
            if self._packed:
                return plain - 40 * (plain // 100) - 2400 * (plain // 10_000)
            # Seconds; or Unix time in milli-, micro- or nanoseconds.
            return plain / next((10.0**p for p in (9, 6, 3) if abs(plain) > 10.0 ** (p + 8)), 1.0)
        first, mark, second, third, hours, minutes, seconds, half, east, more = found.groups("0")
        year, month, day = map(int, (first, second, third) if found[1] else (1970, 1, 1))
        if found[1] and len(first) < 3:  # 1/17/2025, 17/1/2025, 17.1.2025, 17-1-2025
            year, month, day = day + 2000 * (day < 100), year, month
            if mark != "/" or self._day_first:
                month, day = day, month
        hour = int(hours) % 12 + 12 * (half.upper() == "PM") if found[8] else int(hours)
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return NAN
        if hour > 24 or int(minutes) > 59 or (of_minute := float(seconds.replace(",", "."))) >= 61:
            return NAN
        ahead = 3600 * int(east) + 60 * int(east[0] + more)
        return timegm((year, month, day, hour, int(minutes), 0)) + of_minute - ahead
