"""How a table writes latitude and longitude: degrees, degrees and minutes, integers, N and S."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..core.errors import InputError, shown
from .cells import angle

#: East (Ost) or west (ouest, oeste, ovest) before or after a number, or in a cell of its own.
O_SIDE = re.compile(r"O|Ost|Ouest|Oeste|Ovest|O\W*\d.*|.*\d\W*O", re.IGNORECASE)
SIGNS = {"N": 1.0, "E": 1.0, "S": -1.0, "W": -1.0}
#: Words in a header or a unit by which latitudes are south, or longitudes west.
OPPOSITE = ({"s", "south"}, {"w", "west"})


@dataclass(frozen=True)
class Angles:
    """How a table writes latitude and longitude.

    Attributes:
        form: a key of ``FORMS``.
        columns: by index, of N or S and of E or W; None without one.
        opposite: whether the header says that latitudes are south, and longitudes west.
    """

    form: str = ""
    columns: tuple[int | None, int | None] = (None, None)
    opposite: tuple[bool, bool] = (False, False)

    #: What a value counts, as text.
    FORMS: ClassVar = {
        "": "degrees",
        "radians": "radians",
        "minutes": "degrees and minutes, as 5223.4567",
        "1e6": "millionths of a degree",
        "1e7": "degrees times 10,000,000",
    }

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
            InputError: two forms are possible, or an O may be east or west.
        """
        rows = [row for row in rows if len(row) >= len(header)]
        texts = [[row[i].strip() for row in rows] for i in range(len(header))]
        north, east = (_sides_beside(texts, k, n) for k, n in zip(at, ("NS", "EWO"), strict=True))
        longitude = [text for i in (at[1], east) if i is not None for text in texts[i]]
        if any(map(O_SIDE.fullmatch, longitude)):
            raise InputError(
                f"{where}: column {shown(header[at[1]])}: O is east in German (Ost), and west in "
                "French, Spanish, Italian and Portuguese (ouest, oeste, ovest): write E or W"
            )
        written = [
            set(re.findall(r"[a-z]+", f"{header[k]} {units[k] if units else ''}".lower()))
            for k in at
        ]
        columns = north, east
        south, west = (
            column is None and bool(words & opposite)
            for column, words, opposite in zip(columns, written, OPPOSITE, strict=True)
        )
        sides = columns, (south, west)
        if all(words & {"rad", "radians"} for words in written):
            return cls("radians", *sides)
        size = np.abs([[angle(text, comma) for text in texts[k]] for k in at])
        return cls(_form(size, [header[k] for k in at], where), *sides)

    @property
    def description(self) -> str:
        """How the values are understood, as text; empty for plain degrees."""
        kinds = [
            kind
            for kind, its in zip(("N, S", "E, W"), self.columns, strict=True)
            if its is not None
        ]
        sides = f", with {', '.join(kinds)} beside them" if kinds else ""
        words = [word for word, its in zip(("south", "west"), self.opposite, strict=True) if its]
        if words:
            sides += f", {' and '.join(words)} by the header"
        return f", places in {self.FORMS[self.form]}{sides}" if self.form or sides else ""

    def degrees(self, values: np.ndarray, rows: Sequence[Sequence[str]]) -> np.ndarray:
        """Latitude and longitude [N, 2] from the values of these rows; NaN without a side."""
        if self.form == "minutes":
            size = np.abs(values)
            values = np.copysign(size // 100 + size % 100 / 60, values)
        elif self.form == "radians":
            values = np.degrees(values)
        elif self.form:
            values = values / float(self.form)
        for axis, at in enumerate(self.columns):
            if at is not None:
                side = [row[at].strip()[:1].upper() if row else "" for row in rows]
                sign = np.array([SIGNS.get(one, np.nan) for one in side])
                values[:, axis] = sign * np.abs(values[:, axis])
            elif self.opposite[axis]:
                values[:, axis] = -np.abs(values[:, axis])
        return values


def _sides_beside(texts: Sequence[Sequence[str]], of: int, names: str) -> int | None:
    """The column beside column ``of`` whose cells begin with one of these letters; None: none."""
    for i in (of + 1, of - 1):
        cells = texts[i] if 0 <= i < len(texts) else ()
        initials = {cell[:1].upper() for cell in cells}
        if any(cells) and initials <= set(names) and max(map(len, cells)) <= 5:
            return i
    return None


def _form(size: np.ndarray, names: Sequence[str], where: str) -> str:
    """The form of absolute latitudes and longitudes [2, N], of the columns of these names.

    Raises:
        InputError: two forms are possible.
    """
    size = size[:, np.isfinite(size).all(0) & (size > 0).all(0)]
    if not size.size or (size.max(1) <= (90, 360)).all():
        return ""
    limits, largest = np.array([90.0, 180.0]), size.max(1)
    if (largest <= 100 * limits + 60).all() and (size % 100 < 60).all():
        return "minutes"
    if (size != np.round(size)).any() or largest.max() <= 1e7:
        return ""
    named = re.search(r"e-?([67])\b", names[0].lower())
    fits = [n for n in "67" if (largest <= float(f"1e{n}") * limits).all()]
    fits = [n for n in fits if not named or n == named[1]]
    if len(fits) > 1:
        raise InputError(
            f"{where}: columns {shown(names[0])}, {shown(names[1])} may be "
            "degrees times 1e6 or 1e7: write lat_e6,lon_e6 or lat_e7,lon_e7 in the header"
        )
    return f"1e{fits[0]}" if fits else ""
