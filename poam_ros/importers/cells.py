"""What the cells of a table hold: numbers, values with a unit, angles, times, nothing."""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown

#: Units of lengths, in m.
UNITS = {
    "m": 1.0, "ft": 0.3048, "fathom": 1.8288, "cm": 0.01, "mm": 0.001, "dm": 0.1, "in": 0.0254,
    "yd": 0.9144, "km": 1000.0,
}  # fmt: skip
#: Spellings of units.
SPELLINGS = {
    spelling: unit
    for unit, spellings in {
        "m": "m meter meters metre metres mtr", "ft": "ft feet foot ftus usft",
        "fathom": "fathom fathoms fm ftm", "cm": "cm centimeters centimetres",
        "mm": "mm millimeters millimetres", "dm": "dm decimeters decimetres",
        "in": "in inch inches", "yd": "yd yds yard yards", "km": "km",
        "deg": "deg degrees dd °", "rad": "rad radians", "": "utc wgs84",
    }.items()
    for spelling in spellings.split()
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
    r"([NSEWO]?) ?([+-]?\d+(?:\.\d*)?)(?![\d.]) ?[°d:]? ?(?:(\d+(?:\.\d*)?)(?![\d.]) ?['′m:]? ?)?"
    r"(?:(\d+(?:\.\d*)?) ?[\"″s]?)? ?([NSEWO]?)",
    re.IGNORECASE,
)
_DATE = re.compile(r"(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?!\d)|(\d{4})(\d\d)(\d\d)(?![\d.])")
_CLOCK = re.compile(
    r"(\d{1,2}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?\s*([AP]M)?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
#: hhmmss, as receivers write times of day.
_PACKED = re.compile(r"([01]\d|2[0-3])([0-5]\d)([0-5]\d(?:\.\d+)?)")
#: Seconds in a day; 1970 in days of a spreadsheet.
DAY_S, EPOCH_DAY = 86_400.0, 25_569.0
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


def number(cell: str, comma: bool = False, unit: str = "") -> float:
    """The number in a cell, alone or with this unit beside it (empty: any); NaN without one."""
    try:
        return float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        found = value_with_unit(cell)
        if found is None or unit not in ("", found[1]):
            return FLAGS.get(cell.strip().lower(), NAN)
        return number(found[0], comma)


def matched_angle(cell: str, comma: bool) -> re.Match[str] | None:
    """The parts of an angle in a cell, however they are spaced; None if it is none."""
    return _ANGLE.fullmatch(" ".join((cell.replace(",", ".") if comma else cell).split()))


def angle(cell: str, comma: bool = False) -> float:
    """Degrees from decimal degrees, or degrees, minutes and seconds, with or without N, S, E, W;
    NaN if a cell is no angle, or has an O, which is east in one language and west in others."""
    try:
        return float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        found = matched_angle(cell, comma)
    if found is None:
        return NAN
    before, degrees, minutes, seconds, after = found.groups()
    side = (before or after).upper()
    if (before and after) or side == "O" or float(minutes or 0) >= 60 or float(seconds or 0) >= 60:
        return NAN
    size = abs(float(degrees)) + float(minutes or 0) / 60 + float(seconds or 0) / 3600
    return -size if degrees.startswith("-") or side in ("S", "W") else size


class Times:
    """Parser of times, by the order of day and month that all texts of a table allow."""

    def __init__(self, sample: Iterable[str]) -> None:
        texts = [text.strip() for text in sample if not is_nothing(text)]
        self._first = texts[0] if texts else ""
        #: Whether plain numbers are a spreadsheet's: days since 1899-12-30.
        self.days = _are_days([number(text, "," in text) for text in texts])
        packed = [_PACKED.fullmatch(text) for text in texts]
        #: Whether plain numbers are times of day, hhmmss: no counter skips 60 to 99 for so long.
        self.packed = len(texts) >= 20 and all(packed) and len({p[3] for p in packed if p}) > 1
        first = [int(date[1]) for text in texts if (date := _DATE.match(text)) and date[2] == "/"]
        second = [int(date[3]) for text in texts if (date := _DATE.match(text)) and date[2] == "/"]
        years_first = any(value > 31 for value in first)
        day_first, month_first = (any(v > 12 for v in values) for values in (first, second))
        #: Whether both day/month and month/day fit.
        self.ambiguous = bool(first) and not (years_first or day_first or month_first)
        self._day_first = day_first

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
        if self.packed and (parts := _PACKED.fullmatch(text)):
            return 3600 * float(parts[1]) + 60 * float(parts[2]) + float(parts[3])
        date = _DATE.match(text)
        if date is None or (date[5] and not {" ", ":", "T"} & {*text}):
            try:
                plain = float(text.replace(",", ".") if self.days else text)
            except ValueError:
                return _clock(text)
            if self.days:
                return DAY_S * (plain - EPOCH_DAY)
            # Seconds; or Unix time in milli-, micro- or nanoseconds.
            return plain / next((10.0**p for p in (9, 6, 3) if abs(plain) > 10.0 ** (p + 8)), 1.0)
        rest = text[date.end() :].lstrip("T, ")
        if parts := _PACKED.fullmatch(rest.removesuffix("Z")):
            rest = ":".join(parts.groups())
        return self._day(date) + (_clock(rest) if rest else 0.0)

    def _day(self, date: re.Match[str]) -> float:
        """Seconds of a date since 1970; NaN if there is no such day."""
        if date[5]:
            year, month, day = int(date[5]), int(date[6]), int(date[7])
        else:
            first, mark, second, third = int(date[1]), date[2], int(date[3]), int(date[4])
            year, month, day = first, second, third
            if len(date[1]) < 3:  # 1/17/2025, 17/1/2025, 17.1.2025, 17-1-2025
                swapped = mark != "/" or self._day_first
                year, month, day = third, *((second, first) if swapped else (first, second))
                year += 2000 if len(date[4]) == 2 else 0
        if not (1 <= month <= 12 and 1 <= day <= 31 and 1800 <= year <= 2200):
            return NAN
        return float(timegm((year, month, day, 0, 0, 0)))


def _clock(text: str) -> float:
    """Seconds since midnight (UTC, if the text says its zone); NaN if a text is no time of day."""
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        return NAN
    hours, minutes = int(found[1]), int(found[2])
    seconds = float((found[3] or "0").replace(",", "."))
    if half := (found[4] or "").upper():
        hours = hours % 12 + 12 * (half == "PM")
    if hours > 24 or minutes > 59 or seconds >= 61:
        return NAN
    zone = found[5] or "Z"
    east = 0.0
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        east = float(zone[0] + "1") * (3600 * int(digits[:2]) + 60 * int(digits[2:]))
    return 3600 * hours + 60 * minutes + seconds - east


def _are_days(values: Sequence[float]) -> bool:
    """Whether times are days of a spreadsheet: of the years 1982 to 2064, and less than 90 s apart
    as days, where as seconds they would be a thousand or more in each second."""
    known = np.array([value for value in values if value == value])
    if len(known) < 3 or known.min() < 30_000 or known.max() > 60_000:
        return False
    steps = np.abs(np.diff(known))
    return bool(steps.any()) and float(np.median(steps[steps > 0])) < 90 / DAY_S


def is_date(cell: str) -> bool:
    """Whether a cell is a date, with or without a time."""
    date = _DATE.match(cell.strip())
    return date is not None and not date[5]


def is_clock(cell: str) -> bool:
    """Whether a cell is a time of day alone."""
    return bool(_CLOCK.fullmatch(cell.strip()))


#: East (Ost) or west (ouest, oeste, ovest) before or after a number, or in a cell of its own.
O_SIDE = re.compile(r"O|Ost|Ouest|Oeste|Ovest|O\W*\d.*|.*\d\W*O", re.IGNORECASE)
SIGNS = {"N": 1.0, "E": 1.0, "S": -1.0, "W": -1.0}
#: Words in a header or a unit by which latitudes are south, or longitudes west.
OPPOSITE = ({"s", "south"}, {"w", "west"})
INTEGER = 1e7


@dataclass(frozen=True)
class Angles:
    """How a table writes latitude and longitude.

    Attributes:
        scale: of the values, per degree.
        columns: by index, of N or S and of E or W; None without one.
        opposite: whether the header says that latitudes are south, and longitudes west.
    """

    scale: float = 1.0
    columns: tuple[int | None, int | None] = (None, None)
    opposite: tuple[bool, bool] = (False, False)

    @classmethod
    def of(
        cls, header: Sequence[str], at: Sequence[int], rows: Sequence[Sequence[str]], comma: bool,
        where: str, units: Sequence[str] = (),
    ) -> Angles:  # fmt: skip
        """Find out from the header and the first rows.

        Args:
            header: names of the columns.
            at: the columns of latitude and longitude.
            rows: the first rows.
            comma: whether numbers have a decimal comma.
            where: start of error messages.
            units: of each column, from a row of units; empty without one.

        Raises:
            InputError: the unit is another one, or an O may be east or west.
        """
        width = max((len(row) for row in rows), default=0)
        texts = [
            [row[i].strip() for row in rows if i < len(row) and not is_nothing(row[i])]
            for i in range(width)
        ]
        sides = [_sides_beside(texts, k, n) for k, n in zip(at, ("NS", "EWO"), strict=True)]
        longitude = [text for i in (at[1], sides[1]) if i is not None and i < width
                     for text in texts[i]]  # fmt: skip
        if any(map(O_SIDE.fullmatch, longitude)):
            raise InputError(
                f"{where}: column {shown(header[at[1]])}: O is east in German (Ost), and west in "
                "French, Spanish, Italian and Portuguese (ouest, oeste, ovest): write E or W"
            )
        names = [f"{header[k]} {units[k] if k < len(units) else ''}".lower() for k in at]
        written = [set(re.findall(r"[a-z]+", name)) for name in names]
        if any(words & {"rad", "radians"} for words in written):
            raise InputError(
                f"{where}: columns {shown(header[at[0]])}, {shown(header[at[1]])} are in radians; "
                "expected degrees"
            )
        south, west = (
            column is None and bool(words & opposite)
            for column, words, opposite in zip(sides, written, OPPOSITE, strict=True)
        )
        values = [[angle(text, comma) for text in texts[k]] if k < width else [] for k in at]
        columns = sides[0], sides[1]
        return cls(_scale(values, names, where), columns, (south, west))

    @property
    def description(self) -> str:
        """How the values are understood, as text; empty for plain degrees."""
        said = ["degrees times 10,000,000"] if self.scale != 1 else []
        said += [f"{sides} beside them" for sides, its in zip(("N, S", "E, W"), self.columns,
                 strict=True) if its is not None]  # fmt: skip
        said += [f"{word} by the header" for word, its in zip(("south", "west"), self.opposite,
                 strict=True) if its]  # fmt: skip
        return f", places: {', '.join(said)}" if said else ""

    def degrees(self, values: np.ndarray, rows: Sequence[Sequence[str]]) -> np.ndarray:
        """Latitude and longitude [N, 2] from the values of these rows; NaN without a side."""
        values = values / self.scale
        for axis, at in enumerate(self.columns):
            if at is not None:
                side = [row[at].strip()[:1].upper() if at < len(row) else "" for row in rows]
                sign = np.array([SIGNS.get(one, np.nan) for one in side])
                sign[values[:, axis] == 0] = 1.0  # of no position
                values[:, axis] = sign * np.abs(values[:, axis])
            elif self.opposite[axis]:
                values[:, axis] = -np.abs(values[:, axis])
        return values


def _sides_beside(texts: Sequence[Sequence[str]], of: int, names: str) -> int | None:
    """The column beside column ``of`` whose cells begin with one of these letters; None: none."""
    for i in (of + 1, of - 1):
        cells = texts[i] if 0 <= i < len(texts) else ()
        initials = {cell[:1].upper() for cell in cells}
        if cells and initials <= set(names) and max(map(len, cells)) <= 5:
            return i
    return None


def _scale(values: Sequence[Sequence[float]], names: Sequence[str], where: str) -> float:
    """The values per degree: 1, or 10,000,000 where all are integers beyond any angle.

    Raises:
        InputError: they may be degrees times another number.
    """
    known = [np.abs([v for v in each if v == v]) for each in values]
    most = [float(each.max(initial=0)) for each in known]
    whole = all(len(each) and (each % 1 == 0).all() for each in known)
    if not whole or most[0] > 90 * INTEGER or most[1] > 180 * INTEGER or min(most) < 1e4:
        return 1.0
    if most[0] > 90e6 or most[1] > 180e6 or any("e7" in name for name in names):
        return INTEGER
    raise InputError(
        f"{where}: latitudes and longitudes such as {most[0]:.0f}, {most[1]:.0f} may be degrees "
        "times 10,000,000 (write lat_e7, lon_e7 in the header) or times another number (write "
        "decimal degrees)"
    )
