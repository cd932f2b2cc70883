"""The layout of a text table: encoding, comments, separator, decimal mark, header, units.

The meaning of columns is left to ``columns``.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..core.errors import InputError, shown
from ..core.reading import LONGEST_LINE, lines
from .cells import SPELLINGS, is_clock, is_date, is_nothing, matched_angle, value_with_unit

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
