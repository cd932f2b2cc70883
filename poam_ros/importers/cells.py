"""What the cells of a table hold: numbers, values with a unit, angles, times, nothing. Decimal
commas are points by then (``tables``)."""

from __future__ import annotations

import math
import re
from calendar import timegm
from collections.abc import Iterable, Sequence

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError

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
    r"([NSEW]?) ?([+-]?\d+(?:\.\d*)?)(?![\d.]) ?[°d:]? ?(?:(\d+(?:\.\d*)?)(?![\d.]) ?['′m:]? ?)?"
    r"(?:(\d+(?:\.\d*)?) ?(?:[\"″]|s(?= ?[NSEW]))?)? ?([NSEW]?)",
    re.IGNORECASE,
)
#: An s of seconds, behind minutes with an m: else it is the side, as in 33 26 42 S.
_SECONDS = re.compile(r"(m ?\d+(?:\.\d*)?) ?s$", re.IGNORECASE)
#: A date, of which 20250117 stands before a time only, and a time of day, with colons or packed.
_TIME = re.compile(
    r"(?:(?:(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?!\d)|(\d{4})(\d\d)(\d\d)(?=[T, ]))[T, ]*)?"
    r"(?:(?=\d{1,2}:|\d{6}(?!\d))(\d{1,2})(:?)(\d\d?)(?:\9(\d\d?(?:[.,]\d+)?))?"
    r"\s*([AP]M)?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?)?",
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
        found = _ANGLE.fullmatch(_SECONDS.sub(r"\1", " ".join(cell.split())))
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
    return bool(found and found[2])


def is_clock(cell: str) -> bool:
    """Whether a cell is a time of day alone."""
    found = _TIME.fullmatch(cell.strip())
    return bool(found and ":" in cell and found[8] and not (found[2] or found[5]))


def is_value(cell: str) -> bool:
    """Whether a cell is a number, an angle or a time; not with a tab, which separates two."""
    if "\t" in cell or is_clock(cell) or is_date(cell):
        return "\t" not in cell
    return math.isfinite(angle(cell.replace(",", "."))) or value_with_unit(cell) is not None


class Times:
    """Parser of times, by the order of day and month that all texts of a table allow."""

    def __init__(self, sample: Iterable[str]) -> None:
        texts = [text.strip() for text in sample if not is_nothing(text)]
        self._first = texts[0] if texts else ""
        dates = [(int(d[1]), int(d[3])) for d in map(_TIME.match, texts) if d and d[2] == "/"]
        #: Whether both day/month and month/day fit.
        self.ambiguous = bool(dates) and max(map(max, dates)) <= 12
        self._day_first = any(first > 12 for first, _ in dates)
        #: Whether plain numbers are times of day, hhmmss: no counter skips 60 to 99 for so long.
        self.packed = len(texts) >= 20 and len({*texts}) > 1
        self.packed &= all(re.fullmatch(r"\d{6}(\.\d+)?Z?", text) for text in texts)
        self.packed = self.packed and bool(self.stamps(texts)[1].all())

    def decided(self, where: str) -> Times:
        """These, if they are of one order.

        Raises:
            InputError: they may be day/month or month/day; ``where`` begins the message.
        """
        if self.ambiguous:
            raise InputError(
                f"{where}: {self._first} may be day/month or month/day; write times as "
                "year-month-day"
            )
        return self

    def stamps(self, texts: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Times [N] in ns, 0 where a text is none; and whether it is one [N], boolean."""
        seconds = np.array([self.seconds(text) for text in texts], dtype=float)
        known = np.isfinite(seconds)
        return np.round(np.where(known, seconds, 0) * SECOND).astype(np.int64), known

    def seconds(self, cell: str) -> float:
        """Seconds since 1970 (UTC, unless the text says otherwise); of plain numbers, since their
        own begin; of a time without a date, since midnight; NaN if it is no time."""
        text = cell.strip()
        found = _TIME.fullmatch(text)
        if not found or not (found[2] or found[5] or ":" in text or self.packed):
            plain = number(text, "s")
            # Seconds; or Unix time in milli-, micro- or nanoseconds.
            return plain / next((10.0**p for p in (9, 6, 3) if abs(plain) > 10.0 ** (p + 8)), 1.0)
        hours, minutes = int(found[8] or 0), int(found[10] or 0)
        seconds = float((found[11] or "0").replace(",", "."))
        if found[12]:
            hours = hours % 12 + 12 * (found[12].upper() == "PM")
        if hours > 24 or minutes > 59 or seconds >= 61:
            return NAN
        day = east = 0.0
        if found[13] and found[13][0] in "+-":
            zone = found[13].replace(":", "")
            east = float(zone[0] + "1") * (3600 * int(zone[1:3]) + 60 * int(zone[3:]))
        if found[2] or found[5]:
            year, month, date = (int(found[i]) for i in ((1, 3, 4) if found[2] else (5, 6, 7)))
            if found[2] and len(found[1]) < 3:  # 1/17/2025, 17/1/2025, 17.1.2025, 17-1-2025
                first, second, year = year, month, date + 2000 * (len(found[4]) == 2)
                swapped = found[2] != "/" or self._day_first
                month, date = (second, first) if swapped else (first, second)
            if not (1 <= month <= 12 and 1 <= date <= 31 and 1800 <= year <= 2200):
                return NAN
            day = float(timegm((year, month, date, 0, 0, 0)))
        return day + 3600 * hours + 60 * minutes + seconds - east
