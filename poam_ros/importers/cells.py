"""What the cells of a table hold: numbers, values with a unit, angles, times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError

#: Units of lengths, in m.
UNITS = {
    "m": 1.0, "ft": 0.3048, "fathom": 1.8288, "cm": 0.01, "mm": 0.001, "dm": 0.1, "in": 0.0254,
    "yd": 0.9144, "km": 1000.0,
}  # fmt: skip
#: Spellings of units.
SPELLINGS = {
    "m": "m", "meter": "m", "meters": "m", "metre": "m", "metres": "m", "mtr": "m", "ft": "ft",
    "feet": "ft", "foot": "ft", "ftus": "ft", "usft": "ft", "fathom": "fathom",
    "fathoms": "fathom", "fm": "fathom", "ftm": "fathom", "cm": "cm", "centimeters": "cm",
    "centimetres": "cm", "mm": "mm", "millimeters": "mm", "millimetres": "mm", "dm": "dm",
    "decimeters": "dm", "decimetres": "dm", "in": "in", "inch": "in", "inches": "in", "yd": "yd",
    "yds": "yd", "yard": "yd", "yards": "yd", "km": "km", "deg": "deg", "degrees": "deg",
    "dd": "deg", "rad": "rad", "radians": "rad",
    "°": "deg", "utc": "", "wgs84": "",
}  # fmt: skip
#: Values that instruments write where they have no reading, of either sign.
NO_READING = (
    0.0, 1.0, 9.0, 99.0, 999.0, 9999.0, 99.9, 999.9, 99.99, 999.99, 9999.9, 32767.0,
    65535.0, 6553.5,
)  # fmt: skip
_WITH_UNIT = re.compile(r"([+-]?[.,]*\d[\d.,]*)\s*([a-zA-Z]+)\.?")
#: Of single blanks, and no number is cut in two: a long cell that is none takes no longer.
_ANGLE = re.compile(
    r"([NSEWO]?) ?([+-]?\d+(?:\.\d*)?)(?![\d.]) ?[°d:]? ?(?:(\d+(?:\.\d*)?)(?![\d.]) ?['′m:]? ?)?"
    r"(?:(\d+(?:\.\d*)?) ?[\"″s]?)? ?([NSEWO]?)",
    re.IGNORECASE,
)
#: Seconds in a day; 1970 in days of a spreadsheet.
DAY_S, EPOCH_DAY = 86_400.0, 25_569.0


def value_with_unit(cell: str) -> tuple[str, str] | None:
    """The number and the unit, a key of ``UNITS``, in a cell such as 8.2 m; None without them."""
    found = _WITH_UNIT.fullmatch(cell.strip())
    unit = SPELLINGS.get(found[2].lower(), "") if found else ""
    return (found[1], unit) if found and unit in UNITS else None


def number(cell: str, comma: bool = False) -> float:
    """The number in a cell; NaN if there is none."""
    try:
        return float(cell.replace(",", ".") if comma else cell)
    except ValueError:
        return float("nan")


def matched_angle(cell: str, comma: bool) -> re.Match[str] | None:
    """The parts of an angle in a cell, however they are spaced; None if it is none."""
    return _ANGLE.fullmatch(" ".join((cell.replace(",", ".") if comma else cell).split()))


def angle(cell: str, comma: bool = False) -> float:
    """Degrees from decimal degrees, or degrees, minutes and seconds, with or without N, S, E, W;
    NaN if a cell is no angle, or has an O, which is east in one language and west in others."""
    plain = number(cell, comma)
    if plain == plain:
        return plain
    found = matched_angle(cell, comma)
    if found is None:
        return float("nan")
    before, degrees, minutes, seconds, after = found.groups()
    side = (before or after).upper()
    if (before and after) or side == "O" or float(minutes or 0) >= 60 or float(seconds or 0) >= 60:
        return float("nan")
    size = abs(float(degrees)) + float(minutes or 0) / 60 + float(seconds or 0) / 3600
    return -size if degrees.startswith("-") or side in ("S", "W") else size


class Times:
    """Parser of times, by the first order of day and month that all texts of a table allow."""

    ORDERS = ("%m/%d/%Y", "%d/%m/%Y", "%d.%m.%Y", "%d-%m-%Y", "%Y/%m/%d", "%Y%m%d", "%m/%d/%y")
    CLOCKS = ("", " %H:%M:%S", " %H:%M:%S.%f", " %H:%M", " %I:%M:%S %p", " %I:%M %p")

    def __init__(self, sample: Iterable[str]) -> None:
        texts = [text for text in map(_tidy, sample) if text]
        self._first = texts[0] if texts else ""
        #: Whether plain numbers are a spreadsheet's: days since 1899-12-30.
        self.days = _are_days([number(text, "," in text) for text in texts])
        self.formats = [
            order + clock
            for order in self.ORDERS
            for clock in self.CLOCKS
            if any(_parsed(text, order + clock) is not None for text in texts)
        ]
        # 1/2/2025 alone does not say which is the month; 17/1 or 1/17 further on does.
        for order in self.ORDERS:
            ours = [f for f in self.formats if f.startswith(order)]
            if ours and not all(any(_parsed(t, f) is not None for f in ours) for t in texts):
                self.formats = [f for f in self.formats if f not in ours]

    @property
    def ambiguous(self) -> bool:
        """Whether both day/month and month/day fit."""
        return {f[:5] for f in self.formats} >= {"%m/%d", "%d/%m"}

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
        plain = number(cell, self.days)
        if plain == plain:
            if self.days:
                return DAY_S * (plain - EPOCH_DAY)
            # Seconds; or Unix time in milli-, micro- or nanoseconds.
            return plain / next((10.0**p for p in (9, 6, 3) if abs(plain) > 10.0 ** (p + 8)), 1.0)
        text = _tidy(cell)
        clock = re.fullmatch(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d+)?))?", text)
        if clock:
            hours, minutes, seconds = (float(part or 0) for part in clock.groups())
            return 3600 * hours + 60 * minutes + seconds
        try:
            return _stamp(datetime.fromisoformat(text.replace("Z", "+00:00")))
        except ValueError:
            pass
        for form in self.formats:
            if (when := _parsed(text, form)) is not None:
                return _stamp(when)
        return float("nan")


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
    return bool(re.match(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}", cell.strip()))


def is_clock(cell: str) -> bool:
    """Whether a cell is a time of day alone."""
    return bool(re.fullmatch(r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[AP]M)?", cell.strip(), re.I))


def _stamp(when: datetime) -> float:
    when = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
    return (when - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(seconds=1)


def _parsed(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form)
    except ValueError:
        return None


def _tidy(text: str) -> str:
    return " ".join(text.replace("T", " ").split()) if is_date(text) else text.strip()
