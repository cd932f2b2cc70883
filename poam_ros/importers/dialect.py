"""The layout of a text table: encoding, comments, separator, marks in numbers, header, units.

The meaning of columns is left to ``columns``.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from ..core.errors import InputError, shown
from ..core.reading import LONGEST_LINE, lines
from .cells import SPELLINGS, angle, is_clock, is_date, matched_angle, value_with_unit

#: Separators; the first is preferred if two fit equally. None: any run of blanks.
SEPARATORS = (";", "\t", ",", "|", None)
COMMENTS = ("#", "%", "//", "!")
#: Lines, and about so many characters, that the layout is detected from.
HEAD, HEAD_CHARACTERS = 200, 500_000
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
#: Digits in groups of three, as in 1,234.5 and 5 969 106.
_GROUPS = re.compile(r"[+-]?\d{1,3}([,.' ’\u00a0\u2009\u202f])\d{3}(\1\d{3})*((?!\1)[.,]\d+)?")
#: What a spreadsheet reads the separator from; it is detected anyway.
_EXCEL = re.compile(r'"?sep=.?"?\s*', re.IGNORECASE)
_MINUS = re.compile(r"(?<![^\s,;|\"])[\u2212\u2013](?=[\d.,])")


@dataclass(frozen=True)
class Dialect:
    """The layout of a table.

    Attributes:
        encoding: of its text.
        separator: between cells; None: blanks.
        comma: whether numbers have a decimal comma.
        skipped: lines, without comments and blank ones, before the first row of data.
        header: names of the columns; 1, 2, 3 ... if the table has none.
        named: whether the table has a header.
        units: of each column, from a row of units below the header or beside the values; empty
            without any.
        decimals: usual number of digits after the decimal mark in each column.
        grouping: marks between thousands.
        beside: columns by index whose values have their unit beside them, with that unit.
    """

    encoding: str
    separator: str | None
    comma: bool
    skipped: int
    header: tuple[str, ...]
    named: bool
    units: tuple[str, ...] = ()
    decimals: tuple[int, ...] = ()
    grouping: str = ""
    beside: Mapping[int, str] = field(default_factory=dict)

    def rows(self, path: Path) -> Iterator[list[str]]:
        """The rows of data, as text; numbers without marks of thousands and units.

        Raises:
            InputError: a line is too long for a table.
        """
        with path.open(newline="", encoding=self.encoding, errors="replace") as file:
            rows = _split(islice(_useful(file, path), self.skipped, None), self.separator)
            yield from map(self._plain, rows) if self.grouping or self.beside else rows

    def _plain(self, row: list[str]) -> list[str]:
        for i, unit in self.beside.items():
            if i < len(row) and (found := value_with_unit(row[i])) and found[1] == unit:
                row[i] = found[0]
        return [_ungrouped(cell, self.grouping) for cell in row]


def sniff(path: Path) -> tuple[Dialect, list[list[str]]]:
    """Detect the layout of a table; returns it with the first rows of data.

    Raises:
        InputError: this is not a table.
        OSError: the file cannot be read.
    """
    encoding = _encoding(path)
    lines, comments = _head(path, encoding)
    # Blanks come last: they also stand between a value and its unit, or a date and its time.
    separator = max(
        SEPARATORS, key=lambda s: (0.99 if s is None else 1.0) * _fit(list(_split(lines, s)))
    )
    rows = list(_split(lines, separator))
    width = Counter(map(len, rows)).most_common(1)[0][0]
    numeric = [_numeric(row) for row in rows]
    # Rows of data have about as many numbers as most rows; before them come header and text.
    usual = max(Counter(n for n, row in zip(numeric, rows, strict=True) if len(row) == width))
    first = next((i for i, n in enumerate(numeric) if n >= max(1, usual - 1)), len(rows))
    above = [row for row in rows[:first] if abs(len(row) - width) <= 1]
    units: tuple[str, ...] = ()
    if len(above) > 1 and _are_units(above[-1]):
        units = tuple(_unit(cell) for cell in above.pop())
    header = above[-1] if above else _commented(comments, separator, width)
    named = bool(header)
    names = tuple(name.strip().strip('"') for name in header) or tuple(
        str(i + 1) for i in range(width)
    )
    data = rows[first:]
    beside = _units_beside(path, names[:width], data)
    if beside:
        units = tuple(beside.get(i, units[i] if i < len(units) else "") for i in range(width))
    layout = Dialect(encoding, separator, False, first, names, named, units, beside=beside)
    data = [layout._plain(row) for row in data]
    comma, grouping = _marks(path, names, data)
    data = [[_ungrouped(cell, grouping) for cell in row] for row in data]
    decimals = _decimals(len(names), data, "," if comma else ".")
    return replace(layout, comma=comma, decimals=decimals, grouping=grouping), data


def _head(path: Path, encoding: str) -> tuple[list[str], list[str]]:
    """The first lines, and the comments among them.

    Raises:
        InputError: there are no lines.
    """
    comments, found, characters = list[str](), list[str](), 0
    with path.open(newline="", encoding=encoding, errors="replace") as file:
        for line in islice(_useful(file, path, comments), HEAD):
            found.append(line)
            characters += len(line)
            if characters > HEAD_CHARACTERS:
                break
    if not found:
        raise InputError(f"{path}: expected a table of soundings, got no rows")
    return found, comments


def _units_beside(path: Path, names: Sequence[str], rows: list[list[str]]) -> dict[int, str]:
    """The units of columns, by index, whose values all have their unit beside them.

    Raises:
        InputError: the values of a column are in different units.
    """
    beside = {}
    for i, name in enumerate(names):
        column = [row[i] for row in rows if i < len(row) and row[i].strip()]
        found = {unit[1] for cell in column if (unit := value_with_unit(cell))}
        if found and all(map(value_with_unit, column)):
            if len(found) > 1:
                raise InputError(
                    f"{path}: column {shown(name)} has values in {' and '.join(sorted(found))};"
                    " write all of them in one unit"
                )
            [beside[i]] = found
    return beside


def _decimals(width: int, rows: list[list[str]], mark: str) -> tuple[int, ...]:
    """The usual number of decimals in each column."""
    decimals = []
    for i in range(width):
        digits = Counter(len(row[i].strip().partition(mark)[2]) for row in rows if i < len(row))
        decimals.append(digits.most_common(1)[0][0] if digits else 0)
    return tuple(decimals)


def _marks(path: Path, names: Sequence[str], rows: list[list[str]]) -> tuple[bool, str]:
    """Whether numbers have a decimal comma, and the marks between their thousands.

    Raises:
        InputError: one mark may be either.
    """
    cells = [cell.strip() for row in rows for cell in row]
    grouping = ""
    for cell in cells:
        found = _GROUPS.fullmatch(cell)
        if found is None or found[1] in grouping:
            continue
        one_mark = found[1] in ",." and sum(map(cell.count, ",.")) == 1  # 1,234 may be a decimal
        if not one_mark and not (found[1] == " " and np.isfinite(angle(cell, True))):
            grouping += found[1]
    plain = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    comma = sum("," in cell for cell in plain) > sum("." in cell for cell in plain)
    comma = "," not in grouping and (comma or "." in grouping)
    if "," not in grouping:
        for i, name in enumerate(names):
            column = [row[i].strip() for row in rows if i < len(row)]
            marked = [cell for cell in column if "," in cell and _NUMBER.fullmatch(cell)]
            rest = [cell for cell in column if cell.isdigit()]
            thousands = all(_GROUPS.fullmatch(cell) and cell[0] != "0" for cell in marked)
            if marked and thousands and 3 in map(len, rest):  # as 987 beside 1,002
                if not comma:
                    return comma, grouping + ","
                raise InputError(
                    f"{path}: column {shown(name)}: {marked[0]} beside {rest[0]} may be "
                    f"{marked[0].replace(',', '')} or {marked[0].replace(',', '.')}. Write numbers "
                    "without marks of thousands"
                )
    return comma, grouping


def _ungrouped(cell: str, marks: str) -> str:
    """A number without its marks of thousands, if they are among these."""
    found = _GROUPS.fullmatch(cell.strip()) if marks else None
    return cell.replace(found[1], "") if found and found[1] in marks else cell


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(LONGEST_LINE)
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if wide := wide_text(head):
        return wide
    try:
        head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.end < len(head) - 3:  # not only cut within a character
            return "cp1252"
    return "utf-8-sig"


def wide_text(head: bytes) -> str:
    """UTF-16 that begins without its mark, as every other byte of most of its first letters is 0;
    empty if this is none."""
    low, high = head[:200:2], head[1:200:2]
    for zeros, letters, name in ((high, low, "utf-16-le"), (low, high, "utf-16-be")):
        text = sum(letter >= ord("\t") for letter in letters)
        if min(zeros.count(0), text) > 0.7 * len(letters):
            return name
    return ""


def _useful(file: TextIO, path: Path, comments: list[str] | None = None) -> Iterator[str]:
    """Lines other than blank lines and comments."""
    for count, line in enumerate(lines(file, f"{path}: "), 1):
        if "\0" in line:
            raise InputError(f"{path}: line {count}: expected text, got binary data")
        if line.lstrip().startswith(COMMENTS):
            if comments is not None:
                comments.append(line.strip().lstrip("#%/! "))
        elif count == 1 and _EXCEL.fullmatch(line):
            continue
        elif line.strip(" \t\r\n,;|"):
            yield line if line.isascii() else _MINUS.sub("-", line)


def _split(lines: Iterable[str], separator: str | None) -> Iterator[list[str]]:
    if separator is None:
        blanks = partial(csv.reader, delimiter=" ", skipinitialspace=True)
        return (next(blanks([line.strip()])) if '"' in line else line.split() for line in lines)
    return iter(csv.reader(lines, delimiter=separator, skipinitialspace=True))


def _numeric(row: Sequence[str]) -> int:
    """Number of cells that are numbers, angles or times; none with a tab, which separates two."""
    return sum(
        bool(_NUMBER.fullmatch(cell.strip())) or bool(_GROUPS.fullmatch(cell.strip()))
        or is_clock(cell) or is_date(cell) or value_with_unit(cell) is not None
        or matched_angle(cell, True) is not None
        for cell in row
        if "\t" not in cell
    )  # fmt: skip


def _fit(rows: list[list[str]]) -> float:
    """How well a separator fits: the share of rows of the usual width, times their mean number of
    numeric cells (with a small weight for any cell, as a header alone has no numbers)."""
    width, count = Counter(map(len, rows)).most_common(1)[0]
    usual = [_numeric(row) for row in rows if len(row) == width]
    return (count / len(rows)) * (sum(usual) / len(usual) + 0.01 * width) if width > 1 else 0.0


def _unit(cell: str) -> str:
    """A unit as written in a row of units; empty if it is none."""
    found = re.fullmatch(r"[\[(]?\s*([a-zA-Z°/]{1,8})\.?\s*[\])]?", cell.strip())
    return found.group(1).lower() if found else ""


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


def layout_text(dialect: Dialect) -> str:
    """The layout, as text."""
    names = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars", None: "blanks"}
    comma = ", decimal commas" if dialect.comma else ""
    header = "" if dialect.named else ", no header"
    columns = shown(",".join(dialect.header), 200)
    return f"separated by {names[dialect.separator]}{comma}{header}: {columns}"
