"""The columns of a table: their cells, and what their names and values can mean."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest

import numpy as np

from ..core.errors import InputError, shown
from ..core.reading import MemoryMeter
from .cells import (
    SPELLINGS,
    UNITS,
    is_clock,
    is_date,
    is_nothing,
    numbers,
    value_with_unit,
)

#: Ranks of what depths count from, the preferred first.
SURFACE, UNSAID, TRANSDUCER, KEEL = range(4)
#: Words that may stand beside the name of a place, and beside that of a depth.
_PLACE = (
    "gps gnss wgs84 wgs utm position pos dd decimal coord coordinate e6 e7 1e6 1e7 navigation n s "
    "e w north south east west point geo geogr geographic geographische ostliche nordliche ostl "
    "nordl oestl noerdl"
)
_DEPTH = (
    "water sonar sounder echo bottom bed lake river sea corrected total measured below surface "
    "transducer keel smoothed mean average environment"
)
#: Meanings of columns: the words that name them, in lower case, without accents and units; and
#: those that may stand beside without changing what they mean.
MEANINGS = {
    meaning: ({*names.split()}, {*beside.split()})
    for meaning, names, beside in (
        ("x", "x e rw easting east eastings ost xcoord utme rechtswert este", _PLACE),
        ("y", "y n hw northing north northings nord ycoord utmn hochwert norte", _PLACE),
        ("latitude", "latitude lat breite breitengrad latitud latitudine breedtegraad breddegrad "
         "bredde leveysaste szerokosc", _PLACE),
        ("longitude", "longitude lon lng long lange laenge langengrad longitud longitudine "
         "lengtegraad lengdegrad lengde pituusaste dlugosc", _PLACE),
        ("z", "z elevation elev bedelevation", _DEPTH),
        ("depth", "depth dep sounding tiefe wassertiefe profundidad profondeur diepte djup dybde "
         "dpt dbs dbt dbk profundidade profondita dybd dyp syvyys glebokosc", _DEPTH),
        ("time", "time timestamp datetime zeit zeitstempel utc timeutc hora heure uhrzeit ora tijd "
         "tid aika czas", "gps utc unix date stamp epoch sounding local log system ping"),
        ("date", "date day fecha datumzeit data datum dato paiva", "gps utc local time ping"),
        ("altitude", "altitude alt altimeter agl dvlalt", "vehicle auv rov dvl above the ground "
         "bottom bed sea seabed lake river floor"),
        ("confidence", "confidence quality valid", "sonar depth ping echo percent"),
    )
}  # fmt: skip
#: Of a sentence of NMEA 0183, such as SDDBT.
_TALKER = re.compile(r"^[a-z]{2}(?=(?:dbs|dbt|dbk|dpt)$)")
#: Characters of a column's name that say what it is.
LONGEST_NAME = 200
#: Names of altitudes that can only be above the ground, and of depths that can only be a vehicle's.
ABOVE_GROUND = re.compile(
    r"above(?:the)?(?:sea|lake|river)?(?:ground|bottom|bed|floor)|dvlalt|altitudedvl|altimeter|agl$"
)
VEHICLE_DEPTHS = ("vehicledepth", "depthvehicle", "auvdepth", "rovdepth", "subdepth")
#: Words by which depths count from there.
FROM = {"surface": SURFACE, "dbs": SURFACE, "transducer": TRANSDUCER, "dbt": TRANSDUCER,
        "dpt": TRANSDUCER, "keel": KEEL, "dbk": KEEL}  # fmt: skip
PLACES, HEIGHTS = (("x", "y"), ("latitude", "longitude")), ("z", "depth")
#: Names of a column that has the unit of depths.
UNIT_NAMES = {"unit", "units", "depthunit", "depthunits", "uom"}
#: Rows that are kept together; of these the first are a sample of a column: so many in all, and at
#: least so many that follow each other. What stands between the cells: no text has it.
CHUNK, SAMPLE, BLOCK, MARK = 2500, 6000, 50, "\0"
ROW_BYTES = 96  # of memory that the numbers of a row take
#: Least value (s) of a column of Unix times: 2001. Latitudes times 10,000,000 are less.
UNIX_TIME = 1e9
#: A share of the cells or steps that says what a column is.
MOST = 0.9
_DECIMAL = re.compile(r",(?=\d)")


class Column:
    """A column of a table.

    Args:
        name: of the column.
        parts: cells of ``CHUNK`` rows each, joined, as a list of texts takes many times the memory.
        unit: as a row of units says it.

    Attributes:
        name: see above.
        beside: the text of ``unit``.
        meanings: what its name can mean, of ``MEANINGS``.
    """

    def __init__(self, name: str, parts: Sequence[str], unit: str = "") -> None:
        self.name, self.beside, self._parts = name, unit, parts
        self.meanings = meanings_of(name)

    def __iter__(self) -> Iterator[str]:
        for part in self._parts:
            yield from part.split(MARK)

    def numbers(self, unit: str | None = "") -> np.ndarray:
        """The numbers of all rows [N], as of ``cells.numbers``."""
        every = (numbers(part.split(MARK), unit) for part in self._parts)
        return np.concatenate([np.zeros(0), *every])

    @cached_property
    def sample(self) -> list[str]:
        """Cells of some rows from the whole of the table: the same rows of each column."""
        count = max(BLOCK, SAMPLE // max(len(self._parts), 1))
        return [cell.strip() for part in self._parts for cell in part.split(MARK, count)[:count]]

    @cached_property
    def filled(self) -> list[str]:
        """Those of the sample that have a value."""
        return [cell for cell in self.sample if not is_nothing(cell)]

    @cached_property
    def unit(self) -> str:
        """Of its lengths, a key of ``UNITS``: as it stands beside most values, or as its name or
        the row of units says it; empty: nothing does."""
        found = [value_with_unit(cell) for cell in self.filled]
        beside = Counter(each[1] for each in found if each).most_common(1)
        own = SPELLINGS.get(self.beside, "")
        return beside[0][0] if beside else unit_of(self.name) or own * (own in UNITS)

    @cached_property
    def values(self) -> np.ndarray:
        """The numbers or angles of the sample; NaN where a cell is none."""
        return numbers(self.sample, None)

    @cached_property
    def known(self) -> np.ndarray:
        """The numbers of the sample, without those that are exactly 0."""
        return self.values[np.isfinite(self.values) & (self.values != 0)]

    @cached_property
    def clock(self) -> str:
        """The meaning of a column of times, by its values: ``time``, ``date``, or both; empty: it
        is none."""
        cells, finite = self.filled, self.values[np.isfinite(self.values)]
        if len({*cells}) > 1 and sum(map(is_clock, cells)) > MOST * len(cells):
            return "time"
        if cells and sum(map(is_date, cells)) > MOST * len(cells):
            return "date and time" if ":" in cells[0] else "date"
        goes_on = len(finite) > max(1, MOST * len(self.values))
        goes_on = goes_on and (np.diff(finite) >= 0).mean() > MOST
        return "time" if goes_on and finite.min() > UNIX_TIME else ""

    @cached_property
    def is_number(self) -> bool:
        """Whether these are numbers that vary, and neither are times nor count rows."""
        steps = np.diff(self.values[np.isfinite(self.values)])
        if len(self.known) < max(2, 0.02 * len(self.values)) or not np.ptp(self.known):
            return False
        counts = len(steps) > 3 and steps.min() >= 1 and steps[0] % 1 == 0
        return not (self.clock or (counts and (steps == steps[0]).mean() > MOST))


@dataclass(frozen=True)
class Table:
    """A table as it is written.

    Attributes:
        columns: by name, in order. One that is called as another has its number in brackets.
        description: of the layout, as text.
        named: whether there is a header; else they are called 1, 2, 3 ...
    """

    columns: Mapping[str, Column]
    description: str
    named: bool = True

    @classmethod
    def of(
        cls, header: Sequence[str], rows: Iterable[Sequence[str]], description: str,
        where: str = "", units: Sequence[str] = (), comma: bool = False,
    ) -> Table:  # fmt: skip
        """A table of rows, of which a missing cell is empty.

        Args:
            header: names of the columns; 1, 2, 3 ... if it has none.
            rows: as texts.
            description: of the layout.
            where: start of error messages.
            units: of each column, from a row of units; empty without one.
            comma: whether numbers have a decimal comma.

        Raises:
            InputError: it takes too much memory.
        """
        rows, memory = iter(rows), MemoryMeter(f"{where}: its content")
        parts, width = [list[str]() for _ in header], len(header)
        while chunk := [row[:width] for row in islice(rows, CHUNK)]:
            memory.add(ROW_BYTES * len(chunk))
            columns = [*zip_longest(*chunk, fillvalue="")]
            columns += [("",) * len(chunk)] * (width - len(columns))
            for part, cells in zip(parts, columns, strict=True):
                text = MARK.join(cells)
                part.append(_DECIMAL.sub(".", text) if comma else text)
                memory.add(len(text))
        found = dict[str, Column]()
        for i, (name, part, unit) in enumerate(zip_longest(header, parts, units[:width])):
            own = f"{name} ({i + 1})" if name in found else name
            found[own] = Column(own, part, unit or "")
        plain = [str(i + 1) for i in range(width)]
        return cls(found, description, not header or [*header] != plain)

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, str]], description: str, where: str) -> Table:
        """A table of rows of texts by the names of their columns; else as ``of``."""
        header = dict.fromkeys(name for row in rows for name in row)
        cells = ([row.get(name, "") for name in header] for row in rows)
        return cls.of(tuple(header), cells, description, where)

    @property
    def header(self) -> str:
        """The names, as text."""
        return shown(",".join(self.columns), 120)

    @cached_property
    def times(self) -> dict[str, Column]:
        """Columns of dates and times by meaning, as their values say."""
        found = dict[str, Column]()
        for each in self.columns.values():
            found.setdefault(each.clock, each)
        both, date, time = (found.get(each) for each in ("date and time", "date", "time"))
        if both or not (date and time):
            only = both or time or date
            return {"time": only} if only else {}
        return {"date": date, "time": time}

    def meaning(self, given: Mapping[str, str], where: str) -> dict[str, list[Column]]:
        """The columns that can have each meaning of ``MEANINGS``, by their names; where an option
        names one, that alone.

        Args:
            given: names by meaning, as options say.
            where: start of error messages.

        Raises:
            InputError: an option names no column, or no meaning.
        """
        for meaning, name in given.items():
            if meaning not in MEANINGS:
                raise InputError(
                    f"--columns: expected meanings {', '.join(MEANINGS)}, got '{shown(meaning)}'"
                )
            if name not in self.columns:
                raise InputError(
                    f"{where}: --columns: expected a column '{name}', got {self.header}"
                )
        free = [each for name, each in self.columns.items() if name not in given.values()]
        found = {meaning: [each for each in free if meaning in each.meanings]
                 for meaning in MEANINGS}  # fmt: skip
        found |= {meaning: [self.columns[name]] for meaning, name in given.items()}
        for kinds in (PLACES, (("z",), ("depth",))):  # a kind that is given goes before the others
            said = [kind for kind in kinds if {*kind} & {*given}]
            for meaning in {m for kind in kinds for m in kind if said and kind != said[0]}:
                found[meaning] = []
        return found


def meanings_of(name: str) -> list[str]:
    """What a column's name can mean, of ``MEANINGS``; of that of a field, as in GPS.lat, if nothing
    else: what the field's can."""
    words, plain = words_of(name), plain_column_name(name)
    if ABOVE_GROUND.search(plain):
        return ["altitude"]
    if plain in VEHICLE_DEPTHS:
        return ["depth"]
    found = []
    for meaning, (names, beside) in MEANINGS.items():
        joined = {"".join([word for word in words if word not in beside] or words), plain}
        # One word may be of two, as waterdepth and late7 are.
        joined |= {n for n in names for w in beside if len(w + n) > 3 and {w + n, n + w} & joined}
        if joined & names:
            found.append(meaning)
    if {"gps", "gnss"} & {*words} and "altitude" in found:
        found.remove("altitude")  # an antenna's
    if not found and "." in name.strip("."):
        return meanings_of(name.rpartition(".")[2])
    return [meaning for meaning in found if meaning != "date" or "time" not in found]


def words_of(name: str) -> list[str]:
    """The words of a column's name, in lower case, without accents, brackets and units."""
    letters = unicodedata.normalize("NFKD", name[:LONGEST_NAME].replace("ł", "l"))
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    letters = re.sub(r"[\[(].*?[\])]", " ", letters)
    letters = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", letters).lower()
    words = [word for word in re.split(r"[\s_.:,/°'#-]+", letters) if word and word != "in"]
    words[:1] = [_TALKER.sub("", word) for word in words[:1]]
    while len(words) > 1 and words[-1] in SPELLINGS:
        words.pop()
    return words


def plain_column_name(name: str) -> str:
    """A column's name without accents, units, underscores and blanks, in lower case."""
    return "".join(words_of(name))


def counts_from(name: str) -> int:
    """What a depth's name counts from: ``SURFACE``, ``UNSAID`` ..."""
    return min((FROM[word] for word in words_of(name) if word in FROM), default=UNSAID)


def unit_of(name: str) -> str:
    """The unit in a column's name: ``Depth (m)``, ``depth_cm``, ``Depth_in_Feet``, ``depthFt``."""
    lower = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:LONGEST_NAME]).lower()
    bracket = re.search(r"[\[(]([^\])]*)[\])]", lower)
    parts = re.split(r"[\s_.:/-]+", bracket[1] if bracket else lower)[0 if bracket else 1 :]
    return next((SPELLINGS[part] for part in reversed(parts) if SPELLINGS.get(part) in UNITS), "")


def unit_beside(table: Table, height: Column, where: str) -> str:
    """The unit of depths as a column of its own names it; empty without one.

    Raises:
        InputError: it names several, or another one than the column of ``height`` does.
    """
    for name, column in table.columns.items():
        if plain_column_name(name) in UNIT_NAMES:
            found = {SPELLINGS.get(cell.lower(), "") for cell in column.filled}
            if len(found | {height.unit or min(found, default="")}) > 1:
                raise InputError(f"{where}: column {shown(name)} has {' and '.join(sorted(found))} "
                                 "for depths; write all of them in one unit")  # fmt: skip
            return "".join(found & {*UNITS})
    return ""
