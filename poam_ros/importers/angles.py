"""How a table writes latitude and longitude: degrees, integers, sides (N, S, E, W)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError, shown
from .cells import angle, is_nothing

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
