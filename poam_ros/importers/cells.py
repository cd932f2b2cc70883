"""A text table as it is written: its layout (encoding, comments, separator, decimal mark, header,
units), and what its cells hold: numbers, values with a unit, angles, times, nothing.

The meaning of columns is left to ``columns``.
"""

from __future__ import annotations

import csv
import re
from calendar import timegm
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.reading import LONGEST_LINE, lines

#: Separators by name, with weights; the first is preferred if two fit equally. No text has ; | and
#: tabs for anything else, while blanks (None: any run of them) stand between a date and its time.
SEPARATORS = {
    ";": ("semicolons", 2.0), "\t": ("tabs", 2.0), ",": ("commas", 1.0), "|": ("bars", 2.0),
    None: ("blanks", 0.99),
}  # fmt: skip
COMMENTS = ("#", "%", "//", "!")
#: Lines, and about so many characters, that the layout is detected from.
HEAD, HEAD_CHARACTERS = 200, 500_000
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
#: What a spreadsheet reads the separator from; it is detected anyway.
_EXCEL = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)
_MINUS = re.compile(r"(?<![^\s,;|\"])[\u2212\u2013](?=[\d.,])")
_UNIT = re.compile(r"[\[(]?\s*([a-zA-Z°/]{1,8})\.?\s*[\])]?")
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
        "fathom": "fathom fathoms fm fms ftm", "cm": "cm centimeters centimetres",
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
#: A date, of which 20250117 stands before a time only, and a time of day, with colons or packed.
_TIME = re.compile(
    r"(?:(?:(\d{1,4})([./-])(\d{1,2})\2(\d{1,4})(?!\d)|(\d{4})(\d\d)(\d\d)(?=[T, ]))[T, ]*)?"
    r"(?:(\d{1,2}):(\d\d)(?::(\d\d(?:[.,]\d+)?))?\s*([AP]M)?\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?|"
    r"([01]\d|2[0-3])([0-5]\d)([0-5]\d(?:\.\d+)?)Z?)?",
    re.IGNORECASE,
)
#: Seconds in a day; 1970 in days of a spreadsheet.
DAY_S, EPOCH_DAY = 86_400.0, 25_569.0
NAN = float("nan")
FLAGS = {"true": 1.0, "false": 0.0}
#: East (Ost) or west (ouest, oeste, ovest) before or after a number, or in a cell of its own.
O_SIDE = re.compile(r"O|Ost|Ouest|Oeste|Ovest|O\W*\d.*|.*\d\W*O", re.IGNORECASE)
SIGNS = {"N": 1.0, "E": 1.0, "S": -1.0, "W": -1.0}
#: Degrees times this are integers of receivers and autopilots.
INTEGER = 1e7


def cell_of(row: Sequence[str], at: int) -> str:
    """A cell, empty where a row omits its last ones."""
    return row[at] if at < len(row) else ""


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


def is_date(cell: str) -> bool:
    """Whether a cell is a date, with or without a time."""
    found = _TIME.match(cell.strip())
    return bool(found and found[2])


def is_clock(cell: str) -> bool:
    """Whether a cell is a time of day alone."""
    found = _TIME.fullmatch(cell.strip())
    return bool(found and found[8] and not (found[2] or found[5]))


class Times:
    """Parser of times, by the order of day and month that all texts of a table allow."""

    def __init__(self, sample: Iterable[str]) -> None:
        texts = [text.strip() for text in sample if not is_nothing(text)]
        self._first = texts[0] if texts else ""
        #: Whether plain numbers are a spreadsheet's days since 1899-12-30: of the years 1982 to
        #: 2064, and less than 90 s apart, where as seconds they would be a thousand in each.
        known = np.array([value for text in texts if (value := number(text, "," in text)) == value])
        steps = np.abs(np.diff(known))
        steps = steps[steps > 0]
        self.days = bool(
            len(known) > 2 and len(steps) and known.min() >= 30_000 and known.max() <= 60_000
            and np.median(steps) < 90 / DAY_S
        )  # fmt: skip
        found = [_TIME.fullmatch(text) for text in texts]
        #: Whether plain numbers are times of day, hhmmss: no counter skips 60 to 99 for so long.
        self.packed = len(texts) >= 20 and len({each and each[15] for each in found}) > 1 and all(
            each and each[13] and not each[5] and not each[2] for each in found
        )  # fmt: skip
        dates = [(int(d[1]), int(d[3])) for text in texts
                 if (d := _TIME.match(text)) and d[2] == "/"]  # fmt: skip
        #: Whether both day/month and month/day fit.
        self.ambiguous = bool(dates) and max(map(max, dates)) <= 12
        self._day_first = any(first > 12 for first, _ in dates)

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
        dated = found and (found[2] or found[5])
        if not found or not (dated or found[8] or (found[13] and self.packed)):
            try:
                plain = float(text.replace(",", ".") if self.days else text)
            except ValueError:
                return NAN
            if self.days:
                return DAY_S * (plain - EPOCH_DAY)
            # Seconds; or Unix time in milli-, micro- or nanoseconds.
            return plain / next((10.0**p for p in (9, 6, 3) if abs(plain) > 10.0 ** (p + 8)), 1.0)
        hours, minutes = int(found[8] or found[13] or 0), int(found[9] or found[14] or 0)
        seconds = float((found[10] or found[15] or "0").replace(",", "."))
        if found[11]:
            hours = hours % 12 + 12 * (found[11].upper() == "PM")
        if hours > 24 or minutes > 59 or seconds >= 61:
            return NAN
        day = east = 0.0
        if found[12] and found[12][0] in "+-":
            zone = found[12].replace(":", "")
            east = float(zone[0] + "1") * (3600 * int(zone[1:3]) + 60 * int(zone[3:]))
        if dated:
            year, month, date = (int(found[i]) for i in ((1, 3, 4) if found[2] else (5, 6, 7)))
            if found[2] and len(found[1]) < 3:  # 1/17/2025, 17/1/2025, 17.1.2025, 17-1-2025
                first, second, year = year, month, date + 2000 * (len(found[4]) == 2)
                swapped = found[2] != "/" or self._day_first
                month, date = (second, first) if swapped else (first, second)
            if not (1 <= month <= 12 and 1 <= date <= 31 and 1800 <= year <= 2200):
                return NAN
            day = float(timegm((year, month, date, 0, 0, 0)))
        return day + 3600 * hours + 60 * minutes + seconds - east


@dataclass(frozen=True)
class Angles:
    """How a table writes latitude and longitude.

    Attributes:
        scale: of the values, per degree.
        sides: of latitude and of longitude: the index of the column that has it beside the value;
            or S or W, where the header says so; None: signs.
    """

    scale: float = 1.0
    sides: tuple[int | str | None, ...] = (None, None)

    @classmethod
    def of(
        cls, header: Sequence[str], at: Sequence[int], rows: Sequence[Sequence[str]], comma: bool,
        where: str, units: Sequence[str],
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
        sides, most, whole = list[int | str | None](), list[float](), True
        names = [f"{header[k]} {' '.join(units[k : k + 1])}".lower() for k in at]
        for k, name, letters, word in zip(at, names, ("NS", "EWO"), ("south", "west"), strict=True):
            texts = {i: [row[i].strip() for row in rows if i < len(row) and not is_nothing(row[i])]
                     for i in (k, k + 1, k - 1) if i >= 0}  # fmt: skip
            words = {*re.findall(r"[a-z]+", name)}
            if words & {"rad", "radians"}:
                raise InputError(f"{where}: column {shown(header[k])} is in radians; expected "
                                 "degrees")  # fmt: skip
            beside = [i for i, every in texts.items() if i != k and every
                      and {text[:1].upper() for text in every} <= {*letters}
                      and max(map(len, every)) <= 5]  # fmt: skip
            opposite = letters[1] if words & {letters[1].lower(), word} else None
            sides.append(beside[0] if beside else opposite)
            every = (text for i in (k, *beside[:1]) for text in texts[i])
            if "O" in letters and any(map(O_SIDE.fullmatch, every)):
                raise InputError(
                    f"{where}: column {shown(header[k])}: O is east in German (Ost), and west in "
                    "French, Spanish, Italian and Portuguese (ouest, oeste, ovest): write E or W"
                )
            values = np.abs([angle(text, comma) for text in texts[k]])
            values = values[np.isfinite(values)]
            most.append(float(values.max(initial=0)))
            whole &= len(values) > 0 and bool((values % 1 == 0).all())
        return cls(_scale(most, names, where) if whole else 1.0, tuple(sides))

    @property
    def description(self) -> str:
        """How the values are understood, as text; empty for plain degrees."""
        said = ["degrees times 10,000,000"] if self.scale != 1 else []
        for side, both, word in zip(self.sides, ("N, S", "E, W"), ("south", "west"), strict=True):
            if side is not None:
                said.append(f"{word} by the header" if side in SIGNS else f"{both} beside them")
        return f", places: {', '.join(said)}" if said else ""

    def degrees(self, values: np.ndarray, rows: Sequence[Sequence[str]]) -> np.ndarray:
        """Latitude and longitude [N, 2] from the values of these rows; NaN without a side."""
        values = values / self.scale
        for axis, side in enumerate(self.sides):
            if side is not None:
                letters = (side if isinstance(side, str) else cell_of(row, side) for row in rows)
                sign = [SIGNS.get(text.strip()[:1].upper(), NAN) for text in letters]
                size = np.abs(values[:, axis])
                values[:, axis] = np.where(size == 0, 0.0, sign * size)  # 0: no position
        return values


def _scale(most: Sequence[float], names: Sequence[str], where: str) -> float:
    """The values per degree, of integers with these largest ones: 1, or 10,000,000.

    Raises:
        InputError: they may be degrees times another number.
    """
    if most[0] > 90 * INTEGER or most[1] > 180 * INTEGER or min(most) < 1e4:
        return 1.0
    if most[0] > 90e6 or most[1] > 180e6 or any("e7" in name for name in names):
        return INTEGER
    raise InputError(
        f"{where}: latitudes and longitudes such as {most[0]:.0f}, {most[1]:.0f} may be degrees "
        "times 10,000,000 (write lat_e7, lon_e7 in the header) or times another number (write "
        "decimal degrees)"
    )


@dataclass(frozen=True)
class Dialect:
    """The layout of a table.

    Attributes:
        header: names of the columns; 1, 2, 3 ... if the table has none.
        rows: gives the rows of data from the first, as texts; raises ``InputError`` where a line is
            too long for a table.
        description: of the layout, as text.
        comma: whether numbers, or some of them, have a decimal comma.
        named: whether the table has a header.
        units: of each column, from a row of units below the header; empty without one.
    """

    header: tuple[str, ...]
    rows: Callable[[], Iterator[list[str]]]
    description: str
    comma: bool = False
    named: bool = True
    units: tuple[str, ...] = ()


def sniff(path: Path) -> tuple[Dialect, list[list[str]]]:
    """Detect the layout of a table; returns it with the first rows of data.

    Raises:
        InputError: this is not a table.
        OSError: the file cannot be read.
    """
    encoding, comments, head = _encoding(path), list[str](), list[str]()
    for line in islice(_useful(path, encoding, comments), HEAD):
        head.append(line)
        if sum(map(len, head)) > HEAD_CHARACTERS:
            break
    if not head:
        raise InputError(f"{path}: expected a table of soundings, got no rows")
    found = {each: list(_split(head, each)) for each in SEPARATORS}
    separator = max(SEPARATORS, key=lambda each: SEPARATORS[each][1] * _fit(found[each]))
    rows = found[separator]
    width = Counter(map(len, rows)).most_common(1)[0][0]
    first = _first_row(rows, width)
    above, units = rows[:first], tuple[str, ...]()
    if separator is None:  # a name may be followed by its unit; what has other cells is a remark
        joined = (re.sub(r"\s+(?=[\[(])", "", " ".join(row)) for row in above)
        above = [row for row in _split(joined, None) if len(row) == width]
    above = [row for row in above if len(row) >= max(2, width - 1)]
    if len(above) > 1 and _are_units(above[-1]):
        units = tuple(_unit(cell) for cell in above.pop())
    header = above[-1] if above else _commented(comments, separator, width)
    names = tuple(name.strip().strip('"') for name in header)
    names = names or tuple(str(i + 1) for i in range(width))
    plain = (cell.strip() for row in rows[first:] for cell in row)
    commas = (cell for cell in plain if "," in cell and _NUMBER.fullmatch(cell))
    # Between commas it is quoted, and may stand between thousands.
    comma = any(separator != "," or len(cell.partition(",")[2]) != 3 for cell in commas)
    description = (
        f"separated by {SEPARATORS[separator][0]}{', decimal commas' * comma}"
        f"{', no header' * (not header)}: {shown(','.join(names), 200)}"
    )

    def data() -> Iterator[list[str]]:
        below = islice(_useful(path, encoding), first, None)
        yield from filter(None, _split(below, separator))  # a blank line is no row

    return Dialect(names, data, description, comma, bool(header), units), rows[first:]


def _first_row(rows: Sequence[Sequence[str]], width: int) -> int:
    """The first row of data: where columns of numbers hold numbers, or nothing, as in rows before
    the first fix. Before it come header and text."""
    usual = [[_is_value(cell) for cell in row] for row in rows if len(row) == width]
    counts = [sum(column) for column in zip(*usual, strict=True)]
    numeric = [i for i, count in enumerate(counts) if count > 0.1 * len(usual)]
    for index, row in enumerate(rows):
        cells = [row[i] for i in numeric if i < len(row)]
        values = sum(map(_is_value, cells))
        if values and values + sum(map(is_nothing, cells)) >= len(cells) - (values > 2):
            return index
    return len(rows)


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(LONGEST_LINE)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    try:
        head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.end < len(head) - 3:  # not only cut within a character
            return "cp1252"
    return "utf-8-sig"


def _useful(path: Path, encoding: str, comments: list[str] | None = None) -> Iterator[str]:
    """Lines other than blank lines and comments, which are appended."""
    with path.open(newline="", encoding=encoding, errors="replace") as file:
        for count, line in enumerate(lines(file, f"{path}: "), 1):
            if "\0" in line:
                raise InputError(f"{path}: line {count}: expected text, got binary data")
            if line.lstrip().startswith(COMMENTS):
                if comments is not None:
                    comments.append(line.strip().lstrip("#%/! "))
            elif line.strip(" \t\r\n,;|") and not (count == 1 and _EXCEL.fullmatch(line)):
                yield line if line.isascii() else _MINUS.sub("-", line)


def _split(lines: Iterable[str], separator: str | None) -> Iterator[list[str]]:
    if separator is not None:
        return iter(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    return (
        next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
        if '"' in line else line.split() for line in lines
    )  # fmt: skip


def _is_value(cell: str) -> bool:
    """Whether a cell is a number, an angle or a time; not with a tab, which separates two."""
    return "\t" not in cell and (
        bool(_NUMBER.fullmatch(cell.strip())) or is_clock(cell) or is_date(cell)
        or value_with_unit(cell) is not None or matched_angle(cell, True) is not None
    )  # fmt: skip


def _fit(rows: list[list[str]]) -> float:
    """How well a separator fits: the share of rows of the usual width, times their mean number of
    values (with a small weight for any cell, as a header alone has none)."""
    width, count = Counter(map(len, rows)).most_common(1)[0]
    usual = [sum(map(_is_value, row)) for row in rows if len(row) == width]
    return (count / len(rows)) * (sum(usual) / len(usual) + 0.01 * width) if width > 1 else 0.0


def _unit(cell: str) -> str:
    """A unit as written in a row of units; empty if it is none."""
    found = _UNIT.fullmatch(cell.strip())
    return found[1].lower() if found else ""


def _are_units(row: Sequence[str]) -> bool:
    """Whether a row has nothing but units, and one that is known."""
    units = [_unit(cell) for cell in row if cell.strip("()[] -")]
    return all(units) and any(unit in SPELLINGS or "°" in unit for unit in units)


def _commented(comments: list[str], separator: str | None, width: int) -> list[str]:
    """A header in a comment, such as ``# lat lon depth``; empty without one."""
    for line in reversed(comments[-3:]):
        for each in (separator, None):
            [cells] = _split([line], each)
            words = [bool(re.search(r"[^\W\d_]", cell)) for cell in cells]
            if len(cells) == width and all(words[1:]):  # the first may be that of numbers, #
                return cells
    return []


def is_table(path: Path, head: bytes) -> bool:
    """Whether a file may be a table, which is text, and no ESRI grid."""
    text = b"\0" not in head or head[:2] in (b"\xff\xfe", b"\xfe\xff")
    return text and head[:5].lower() != b"ncols"
