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
from .cells import SPELLINGS, UNITS, is_clock, is_date, is_nothing, numbers, value_with_unit

#: Ranks of what depths count from, the preferred first.
SURFACE, UNSAID, TRANSDUCER, KEEL = range(4)
#: Words by which depths count from there.
FROM = {"surface": SURFACE, "dbs": SURFACE, "transducer": TRANSDUCER, "dbt": TRANSDUCER,
        "dpt": TRANSDUCER, "keel": KEEL, "dbk": KEEL}  # fmt: skip
#: Words that may stand beside the name of a place, and beside that of a depth.
_PLACE = (
    "gps gnss wgs84 wgs utm position pos dd decimal coord coordinate e6 e7 1e6 1e7 navigation n s "
    "e w north south east west point geo geogr geographic geographische ostliche nordliche ostl "
    "nordl oestl noerdl"
)
_DEPTH = (
    "water sonar sounder echo bottom bed lake river sea corrected total measured below surface "
    "transducer keel smoothed mean average environment vehicle auv rov"
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
PLACES, HEIGHTS, WHEN = (("x", "y"), ("latitude", "longitude")), ("z", "depth"), ("date", "time")
#: Meanings that no other column has if one is given.
RIVALS = {"x": PLACES[1], "y": PLACES[1], "latitude": PLACES[0], "longitude": PLACES[0],
          "z": ("depth", "altitude"), "depth": ("z", "altitude")}  # fmt: skip
#: Names of altitudes that can only be above the ground, and of depths that can only be a vehicle's.
ABOVE_GROUND = re.compile(
    r"above(?:the)?(?:sea|lake|river)?(?:ground|bottom|bed|floor)|dvlalt|altitudedvl|altimeter|agl$"
)
VEHICLE_DEPTHS = ("vehicledepth", "depthvehicle", "auvdepth", "rovdepth", "subdepth")
#: Units of other quantities, and words in the names of columns of these.
NO_LENGTHS = {
    "c", "degc", "°c", "celsius", "f", "degf", "°f", "k", "%", "percent", "v", "volt", "volts",
    "mv", "a", "kn", "kt", "kts", "knots", "kmh", "km/h", "mph", "m/s", "ms", "s", "sec", "hz",
    "khz", "db", "bar", "mbar", "psi", "hpa", "ppt", "psu", "ntu", "deg", "rad", "°",
}  # fmt: skip
_OTHER = re.compile(
    r"\b(id|index|no|num|sats|cog|sog|roll|pitch|yaw|record|frame|milli\w*)\b|temp|speed|heading|"
    r"course|satell|[hpv]dop|accura|volt|batter|\btime|number|confiden|area|volume|pressure|salin"
)
#: Of a sentence of NMEA 0183, such as SDDBT.
_TALKER = re.compile(r"^[a-z]{2}(?=(?:dbs|dbt|dbk|dpt)$)")
#: Characters of a column's name that say what it is.
LONGEST_NAME = 200
#: Rows that are kept together; of these the first are a sample of a column: so many in all, and at
#: least so many that follow each other. What stands between the cells: no text has it.
CHUNK, SAMPLE, BLOCK, MARK = 2500, 6000, 50, "\0"
ROW_BYTES = 96  # of memory that the numbers of a row take
CLOCKS = 300  # cells that show times
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
        beside: its unit, as a row of units says it.

    Attributes:
        name, beside: see above.
        words: of its name.
        origin: what depths of its name count from: ``SURFACE``, ``UNSAID`` ...
        meanings: what its name can mean, of ``MEANINGS``.
        is_other: whether its name or unit says that these are no depths.
    """

    def __init__(self, name: str, parts: Sequence[str], beside: str = "") -> None:
        self.name, self.beside, self._parts = name, beside.strip("[]() .").lower(), parts
        self.meanings, (words, inside) = meanings_of(name), _split(name)
        self.words = words_of(name)
        self.origin = min((FROM[word] for word in self.words if word in FROM), default=UNSAID)
        units = inside or words[-1:] * (len(words) > 1)
        # Of more words the first one is the unit: m a.s.l. is no speed.
        if other := {self.beside, "/".join(units), *units[:1]} & NO_LENGTHS:
            self.meanings = [each for each in self.meanings if each not in HEIGHTS]
        self.is_other = bool(other or _OTHER.search(" ".join(self.words)))

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
        found = Counter(each[1] for each in map(value_with_unit, self.filled) if each)
        own = unit_of(self.name) or unit_of(f"({self.beside})")
        return next(iter(found.most_common(1)), [own])[0]

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
        cells = self.filled[:: 1 + len(self.filled) // CLOCKS]  # a text takes long to read
        if len({*cells}) > 1 and np.mean([*map(is_clock, cells)]) > MOST:
            return "time"
        if cells and np.mean([*map(is_date, cells)]) > MOST:
            return "date and time" if ":" in cells[0] else "date"
        values, most = numbers(cells), len(self.filled) > MOST * len(self.sample)
        # All alike are a serial number, and a few those of events.
        goes_on = most and len({*cells}) > 1 and (values > UNIX_TIME).mean() > MOST
        return "time" if goes_on and (np.diff(values) >= 0).mean() > MOST else ""

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
        while chunk := [[*row, *[""] * (width - len(row))] for row in islice(rows, CHUNK)]:
            memory.add(ROW_BYTES * len(chunk))
            for part, cells in zip(parts, zip(*chunk, strict=False), strict=False):
                text = MARK.join(cells)
                part.append(_DECIMAL.sub(".", text) if comma else text)
                memory.add(len(text))
        found = dict[str, Column]()
        for i, (name, part, unit) in enumerate(zip_longest(header, parts, units[:width])):
            own = f"{name} ({i + 1})" if name in found else name
            found[own] = Column(own, part, unit or "")
        return cls(found, description, [*header] != [str(i + 1) for i in range(width)])

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

    def times(self, given: Mapping[str, str]) -> dict[str, Column]:
        """The columns of dates and times by meaning, in the order of their texts: those that
        options name (``given``), or else by what their values and names say."""
        every = [*self.columns.values()]
        pool = [e for e in every if "time" in e.meanings or (e.clock and "date" in e.meanings)]
        # Of those without a meaning, as a longitude times 10,000,000 may count up, too.
        pool = pool or [each for each in every if each.clock and not each.meanings]
        pool.sort(key=lambda each: not each.clock)
        own = [self.columns[given[meaning]] for meaning in WHEN if meaning in given]
        if "time" in given:  # beside it there may be a date
            pool = [each for each in pool if (each.clock, own[-1].clock) == ("date", "time")]
        found = {each.clock or "time": each for each in reversed([*own, *pool])}
        if (both := found.get("date and time")) or len(found) == 1:
            return {"time": both or found.popitem()[1]}
        return {meaning: found[meaning] for meaning in WHEN if meaning in found}

    def meaning(self, given: Mapping[str, str], where: str) -> dict[str, list[Column]]:
        """The columns that can have each meaning of ``MEANINGS``, by their names; where an option
        names one (``given``), that alone.

        Raises:
            InputError: there is no such column; ``where`` begins the message.
        """
        for name in given.values():
            if name not in self.columns:
                raise InputError(
                    f"{where}: --columns: expected a column '{name}', got {self.header}"
                )
        free = [each for name, each in self.columns.items() if name not in given.values()]
        found = {meaning: [each for each in free if meaning in each.meanings]
                 for meaning in MEANINGS}  # fmt: skip
        found |= {meaning: [self.columns[name]] for meaning, name in given.items()}
        for meaning in given:
            for other in {*RIVALS.get(meaning, ())} - {*given}:
                found[other] = []
        return found


def meanings_of(name: str) -> list[str]:
    """What a column's name can mean, of ``MEANINGS``; of that of a field, as in GPS.lat, if nothing
    else: what the field's can."""
    words = words_of(name)
    plain = "".join(words)
    if ABOVE_GROUND.search(plain):
        return ["altitude"]
    if plain in VEHICLE_DEPTHS:  # sub depth; not sub-bottom depth
        return ["depth"]
    found = []
    for meaning, (names, beside) in MEANINGS.items():
        joined = {"".join([word for word in words if word not in beside]), plain}
        # One word may be of two, as waterdepth and late7 are.
        two = (w + n in joined or n + w in joined for n in names for w in beside if len(w + n) > 3)
        if joined & names or any(two):
            found.append(meaning)
    if not found and "." in name.strip("."):
        return meanings_of(name.rpartition(".")[2])
    return found


def _split(name: str) -> tuple[list[str], list[str]]:
    """The words of a column's name, in lower case, without accents, and those in brackets."""
    letters = unicodedata.normalize("NFKD", name[:LONGEST_NAME].replace("ł", "l"))
    letters = "".join(letter for letter in letters if not unicodedata.combining(letter))
    letters = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", letters).lower()
    bracket = re.search(r"[\[(](.*?)[\])]", letters)
    texts = re.sub(r"[\[(].*?[\])]", " ", letters), bracket[1] if bracket else ""
    words, inside = (re.split(r"[\s_.:,/°'#-]+", text) for text in texts)
    return [word for word in words if word], [word for word in inside if word]


def words_of(name: str) -> list[str]:
    """The words of a column's name, in lower case, without accents, brackets and units."""
    words = [word for word in _split(name)[0] if word != "in"]
    words[:1] = [_TALKER.sub("", word) for word in words[:1]]
    while len(words) > 1 and words[-1] in SPELLINGS:
        words.pop()
    return words


def plain_column_name(name: str) -> str:
    """A column's name without accents, units, underscores and blanks, in lower case."""
    return "".join(words_of(name))


def unit_of(name: str) -> str:
    """The unit in a column's name: ``Depth (m)``, ``depth_cm``, ``Depth_in_Feet``, ``depthFt``."""
    words, inside = _split(name)
    units = (SPELLINGS.get(word, "") for word in reversed(inside or words[1:]))
    return next((unit for unit in units if unit in UNITS), "")
