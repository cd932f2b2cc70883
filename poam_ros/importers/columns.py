"""The meaning of a table's columns, from their names, from options, or from their values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..core.errors import InputError, shown
from .cells import SPELLINGS, UNITS, value_with_unit

#: Ranks of what depths count from, the preferred first.
SURFACE, UNSAID, TRANSDUCER, KEEL = range(4)
#: Meanings of columns, and the words that name them: in lower case, without accents and units.
MEANINGS = {
    meaning: tuple(names.split())
    for meaning, names in {
        "x": "x easting east eastings xcoord utme rechtswert este",
        "y": "y northing north northings ycoord utmn hochwert norte",
        "latitude": "latitude lat breite breitengrad latitud latitudine breedtegraad breddegrad "
        "bredde leveysaste szerokosc",
        "longitude": "longitude lon lng long lange laenge langengrad longitud longitudine "
        "lengtegraad lengdegrad lengde pituusaste dlugosc",
        "z": "z elevation elev bedelevation",
        "depth": "depth dep sounding tiefe wassertiefe profundidad profondeur diepte djup dybde "
        "dpt dbs dbt dbk profundidade profondita dybd dyp syvyys glebokosc",
        "time": "time timestamp datetime zeit zeitstempel utc timeutc hora heure uhrzeit ora tijd "
        "tid aika czas",
        "date": "date day fecha datumzeit data datum dato paiva",
        "altitude": "altitude alt altimeter agl dvlalt",
        "confidence": "confidence quality valid",
    }.items()
}
#: Words that may stand beside those without changing what they mean.
OF_PLACES = {
    "gps", "gnss", "wgs84", "wgs", "utm", "position", "pos", "dd", "decimal", "coord", "coordinate",
    "e6", "e7", "1e6", "1e7", "navigation", "n", "s", "e", "w", "north", "south", "east", "west",
    "point", "geo", "geogr", "geographic", "geographische", "ostliche", "nordliche", "ostl",
    "nordl", "oestl", "noerdl",
}  # fmt: skip
OF_DEPTHS = {
    "water", "sonar", "sounder", "echo", "bottom", "bed", "lake", "river", "sea", "corrected",
    "total", "measured", "below", "surface", "transducer", "keel", "smoothed", "mean", "average",
    "environment",
}  # fmt: skip
WORDS = {
    "x": OF_PLACES, "y": OF_PLACES, "latitude": OF_PLACES, "longitude": OF_PLACES,
    "z": OF_DEPTHS, "depth": OF_DEPTHS,
    "time": {"gps", "utc", "unix", "date", "stamp", "epoch", "sounding", "local", "log", "system",
             "ping"},
    "date": {"gps", "utc", "local", "time", "ping"},
    "altitude": {"vehicle", "auv", "rov", "dvl", "above", "the", "ground", "bottom", "bed", "sea",
                 "seabed", "lake", "river", "floor"},
    "confidence": {"sonar", "depth", "ping", "echo", "percent"},
}  # fmt: skip
#: The same joined to a name of a place, as in gpslat, late7.
_BESIDE = re.compile(r"^(?:gps|utm|position|pos)|(?:e[67]|wgs84|dd|[nsew])$")
#: Words, or begins of them, of northings and latitudes, and of eastings and longitudes.
NORTHERN = re.compile(r"(?:n|b|y|hw|phi)$|north|nord|noerd|norr|hoch|lat|breit")
EASTERN = re.compile(r"(?:e|o|l|x|rw|lambda)$|east|ost|oest|oost|est|rechts|lon|lng|lang|laeng")
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
UNIT_NAMES = ("unit", "units", "depthunit", "depthunits", "uom")


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns: two for the place, one for the elevation or depth.

    Attributes:
        first, second: columns of x, y or latitude, longitude.
        height: column of elevations or depths.
        degrees: whether the place is latitude, longitude.
        down: whether ``height`` is a depth, positive down.
        time, date: columns of the times; empty if there are none.
        unit: of ``height``, a key of ``UNITS``; ``unit_said``: the file or an option says so.
        place_unit: of x and y, a key of ``UNITS``; empty: nothing says it, which means m.
        altitude: a column of altitudes beside ``height``, which may be a vehicle's; empty without.
        altitude_unit: of ``altitude``, a key of ``UNITS``.
        confidence: a column by which readings are left out; empty without one.
        given: meanings that options named.
        note: what was chosen, and why, as text.
    """

    first: str
    second: str
    height: str
    degrees: bool
    down: bool
    time: str = ""
    date: str = ""
    unit: str = "m"
    place_unit: str = ""
    unit_said: bool = field(default=False, kw_only=True)
    altitude: str = ""
    altitude_unit: str = "m"
    confidence: str = ""
    given: tuple[str, ...] = ()
    note: str = ""

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """The columns of numbers, with units: of the place, the height, altitude and confidence if
        there are any."""
        every = (self.first, ""), (self.second, ""), (self.height, self.unit)
        more = (self.altitude, self.altitude_unit), (self.confidence, "")
        return [each for each in (*every, *more) if each[0]]

    @property
    def meanings(self) -> dict[str, str]:
        """The columns of place and height by meaning."""
        place = dict(zip(PLACES[self.degrees], (self.first, self.second), strict=True))
        return {**place, HEIGHTS[self.down]: self.height}

    @property
    def description(self) -> str:
        """The columns with their meanings and unit, as text."""
        unit = self.place_unit
        if not unit:
            own = self.unit if self.unit_said else "ft"
            unit = f"m, as nothing says otherwise: --units {own},ft"
        place = f"x = {self.first}, y = {self.second} ({unit})"
        if self.degrees:
            place = f"latitude = {self.first}, longitude = {self.second}"
        height = f"{'depth' if self.down else 'elevation'} = {self.height}"
        if self.altitude:
            height = f"ground = {self.height} {'+' if self.down else '-'} {self.altitude}"
        when = f", time = {' '.join(filter(None, (self.date, self.time)))}" if self.time else ""
        return f"{place}, {height} ({self.unit}){when}{self.note}"


@dataclass(frozen=True)
class Names:
    """The columns of a table by what their names can mean.

    Attributes:
        header: names of the columns.
        found: the columns of each meaning of ``MEANINGS``; where an option names one, that alone.
        units: of each column's lengths, by name; empty where nothing says it.
        given: names by meaning, as options say.
    """

    header: tuple[str, ...]
    found: Mapping[str, Sequence[str]]
    units: Mapping[str, str]
    given: Mapping[str, str]

    @classmethod
    def of(
        cls, header: Sequence[str], given: Mapping[str, str], where: str, units: Sequence[str] = ()
    ) -> Names:
        """Find the meanings of a header.

        Args:
            header: the names of the columns.
            given: names by meaning; they take precedence over what is found.
            where: start of error messages.
            units: of each column, from a row of units; empty without one.

        Raises:
            InputError: an option names no column, or no meaning.
        """
        for meaning, name in given.items():
            if meaning not in MEANINGS:
                raise InputError(
                    f"--columns: expected meanings {', '.join(MEANINGS)}, got '{shown(meaning)}'"
                )
            if name not in header:
                raise InputError(f"{where}: --columns: expected a column '{name}', got "
                                 f"{shown(','.join(header), 120)}")  # fmt: skip
        free = {name: _meanings(name) for name in header if name not in given.values()}
        found = {meaning: [name for name, its in free.items() if meaning in its]
                 for meaning in MEANINGS}  # fmt: skip
        found |= {meaning: [name] for meaning, name in given.items()}
        for kinds in (PLACES, (("z",), ("depth",))):  # a kind that is given goes before the others
            said = [kind for kind in kinds if {*kind} & {*given}]
            for meaning in {m for kind in kinds for m in kind if said and kind != said[0]}:
                found[meaning] = []
        beside = dict(zip(header, (SPELLINGS.get(unit, "") for unit in units), strict=False))
        own = {name: unit_of(name) or beside.get(name, "") for name in header}
        own = {name: unit if unit in UNITS else "" for name, unit in own.items()}
        return cls(tuple(header), found, own, given)

    @property
    def plain(self) -> bool:
        """Whether the table has no header: columns are called 1, 2, 3 ..."""
        return all(name == str(i + 1) for i, name in enumerate(self.header))

    @property
    def places(self) -> list[tuple[str, str, bool]]:
        """Pairs of columns that may be the place, and whether they are degrees."""
        pairs = [(self.found[a][:1], self.found[b][:1], a == "latitude") for a, b in PLACES]
        return [(a[0], b[0], degrees) for a, b, degrees in pairs if a and b]

    @property
    def heights(self) -> list[tuple[str, bool]]:
        """Columns that may be the elevation or depth, and whether they are depths; those that count
        from the surface first."""
        return [(name, False) for name in self.found["z"]] + [
            (name, True) for name in sorted(self.found["depth"], key=counts_from)
        ]


def _meanings(name: str) -> list[str]:
    """What a column's name can mean, of ``MEANINGS``; of that of a field, as in GPS.lat, if nothing
    else: what the field's can."""
    words, plain = words_of(name), plain_column_name(name)
    if ABOVE_GROUND.search(plain):
        return ["altitude"]
    if plain in VEHICLE_DEPTHS:
        return ["depth"]
    found = []
    for meaning, names in MEANINGS.items():
        beside = WORDS[meaning]
        joined = {"".join([word for word in words if word not in beside] or words), plain}
        if beside is OF_PLACES:
            joined |= {_BESIDE.sub("", text) for text in joined if len(text) > 3}
        elif meaning not in ("date", "confidence"):  # as in waterdepth, gpstime
            joined |= {n for n in names for w in beside if {w + n, n + w} & joined}
        if joined & {*names}:
            found.append(meaning)
    if {"gps", "gnss"} & {*words} and "altitude" in found:
        found.remove("altitude")  # an antenna's
    if not found and "." in name.strip("."):
        return _meanings(name.rpartition(".")[2])
    return [meaning for meaning in found if meaning != "date" or "time" not in found]


def northern(name: str) -> int:
    """1 for a column that is called as those of northings or latitudes are, -1 for eastings and
    longitudes, 0 for others."""
    words = words_of(name)
    return any(map(NORTHERN.match, words)) - any(map(EASTERN.match, words))


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


def unit_in_column(
    header: Sequence[str], rows: Sequence[Sequence[str]], height: str, where: str
) -> str:
    """The unit of depths where a column of its own names it in every row, or each value has it
    beside it; empty without one.

    Raises:
        InputError: there are several, or another one than the header of ``height`` says.
    """
    name, its = height, list(header).index(height)
    beside = [value_with_unit(row[its]) for row in rows if its < len(row) and row[its].strip()]
    found = {each[1] if each else "" for each in beside}
    if "" in found or not found:
        plain = {plain_column_name(each): each for each in reversed(header)}
        name = next((plain[each] for each in UNIT_NAMES if each in plain), "")
        if not name:
            return ""
        at = list(header).index(name)
        found = {SPELLINGS.get(row[at].strip().lower(), "") for row in rows if at < len(row)}
    if not found or not found <= {*UNITS}:
        return ""
    own = unit_of(height)
    if len(found | {own or next(iter(found))}) > 1:
        raise InputError(
            f"{where}: column {shown(name)} has {' and '.join(sorted(found))} for depths"
            + (f" in {own} by their header" if own else "")
            + "; write all of them in one unit"
        )
    return found.pop()
