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
        place_unit: of x and y, a key of ``UNITS``; empty: nothing says it, which means m.
        time, date: columns of the times; empty if there are none.
        unit: of ``height``, a key of ``UNITS``; ``unit_said``: the file or an option says so.
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
    unit_said: bool = field(default=False, compare=False, kw_only=True)
    altitude: str = field(default="", compare=False)
    altitude_unit: str = field(default="m", compare=False)
    confidence: str = field(default="", compare=False)
    given: tuple[str, ...] = field(default=(), compare=False)
    note: str = field(default="", compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of numbers: of the place, the height, altitude and confidence if there are
        any."""
        every = self.first, self.second, self.height, self.altitude, self.confidence
        return tuple(filter(None, every))

    @property
    def units(self) -> tuple[str, ...]:
        """Of the columns after those of the place."""
        altitude = (self.altitude_unit,) * bool(self.altitude)
        return (self.unit, *altitude, *[""] * bool(self.confidence))

    @property
    def meanings(self) -> dict[str, str]:
        """The columns of place and height by meaning."""
        place = dict(zip(PLACES[self.degrees], (self.first, self.second), strict=True))
        return {**place, HEIGHTS[self.down]: self.height}

    @property
    def description(self) -> str:
        """The columns with their meanings and unit, as text."""
        place = "latitude = {}, longitude = {}"
        if not self.degrees:
            place = f"x = {{}}, y = {{}} ({self.place_unit or 'm'})"
        height = "depth" if self.down else "elevation"
        when = f", time = {' '.join(filter(None, (self.date, self.time)))}" if self.time else ""
        where = place.format(self.first, self.second)
        column = self.height
        if self.altitude:
            height = "ground"
            column += f" {'+' if self.down else '-'} {self.altitude}"
        return f"{where}, {height} = {column} ({self.unit}){when}{self.note}"


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
    found: Mapping[str, tuple[str, ...]]
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
        found: dict[str, list[str]] = {meaning: [] for meaning in MEANINGS}
        for name in header:
            for meaning in _meanings(name):
                found[meaning].append(name)
        for name in given.values():
            found = {m: [n for n in names if n != name] for m, names in found.items()}
        found |= {meaning: [name] for meaning, name in given.items()}
        for pair in (PLACES, (("z",), ("depth",))):  # an option of one kind decides against others
            if said := [kind for kind in pair if any(m in given for m in kind)]:
                for meaning in {m for kind in pair if kind != said[0] for m in kind}:
                    found[meaning] = []
        beside = [SPELLINGS.get(unit, "") for unit in units] or [""] * len(header)
        own = {
            name: unit_of(name) or (unit if unit in UNITS else "")
            for name, unit in zip(header, beside, strict=False)
        }
        return cls(tuple(header), {m: tuple(n) for m, n in found.items()}, own, given)

    @property
    def plain(self) -> bool:
        """Whether the table has no header: columns are called 1, 2, 3 ..."""
        return all(name == str(i + 1) for i, name in enumerate(self.header))

    @property
    def places(self) -> list[tuple[str, str, bool]]:
        """Pairs of columns that may be the place, and whether they are degrees."""
        return [
            (self.found[a][0], self.found[b][0], a == "latitude")
            for a, b in PLACES
            if self.found[a] and self.found[b]
        ]

    @property
    def heights(self) -> list[tuple[str, bool]]:
        """Columns that may be the elevation or depth, and whether they are depths; those that count
        from the surface first."""
        return [(name, False) for name in self.found["z"]] + [
            (name, True) for name in sorted(self.found["depth"], key=counts_from)
        ]

    def columns(
        self, place: tuple[str, str, bool], height: tuple[str, bool], where: str
    ) -> Columns:
        """The columns with this place and height; ``where`` begins messages.

        Raises:
            InputError: x and y are in different units.
        """
        first, second, degrees = place
        of_place = {self.units.get(name) or "" for name in (first, second)}
        if not degrees and len(of_place) > 1:
            raise InputError(
                f"{where}: columns {shown(first)} and {shown(second)} are in different units "
                f"({' and '.join(sorted(unit or 'none' for unit in of_place))}): write both in one"
            )
        once = {m: (self.found[m] or ("",))[0] for m in ("time", "date", "altitude", "confidence")}
        altitude = "" if set(self.given) & set(HEIGHTS) and "altitude" not in self.given else (
            once["altitude"]
        )  # fmt: skip
        unit = self.units.get(height[0]) or "m"
        return Columns(
            first, second, height[0], degrees, height[1], once["time"], once["date"], unit,
            "" if degrees else of_place.pop(), altitude, self.units.get(altitude) or unit,
            once["confidence"], tuple(self.given),
        )  # fmt: skip


def _meanings(name: str) -> list[str]:
    """What a column's name can mean, of ``MEANINGS``."""
    words, plain = words_of(name), plain_column_name(name)
    found = []
    for meaning, names in MEANINGS.items():
        rest = [word for word in words if word not in WORDS[meaning]] or words
        joined = {"".join(rest), "".join(words), plain}
        if meaning in ("x", "y", "latitude", "longitude"):
            joined |= {_BESIDE.sub("", text) for text in joined if len(text) > 3}
        elif meaning in ("depth", "z", "time", "altitude"):
            joined |= {n for n in names for j in joined if _compound(j, n, WORDS[meaning])}
        if joined & set(names):
            found.append(meaning)
    if ABOVE_GROUND.search(plain):
        found = ["altitude"]
    if plain in VEHICLE_DEPTHS:
        found = ["depth"]
    if "altitude" in found and {"gps", "gnss"} & set(words):
        found.remove("altitude")  # an antenna's
    if "time" in found and "date" in found:
        found.remove("date")
    return found


def northern(name: str) -> int:
    """1 for a column that is called as those of northings or latitudes are, -1 for eastings and
    longitudes, 0 for others."""
    words = words_of(name)
    return any(map(NORTHERN.match, words)) - any(map(EASTERN.match, words))


def _compound(text: str, name: str, words: set[str]) -> bool:
    """Whether a text is ``name`` and one of these words joined, as in waterdepth, gpstime."""
    return any(text in (word + name, name + word) for word in words)


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
    cut = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name[:LONGEST_NAME])
    lower = cut.lower()
    bracket = re.search(r"[\[(]([^\])]*)[\])]", lower)
    parts = re.split(r"[\s_.:/-]+", bracket.group(1) if bracket else lower)[0 if bracket else 1 :]
    return next((SPELLINGS[part] for part in reversed(parts) if SPELLINGS.get(part) in UNITS), "")


def unit_in_column(
    header: Sequence[str], rows: Sequence[Sequence[str]], height: str, where: str
) -> str:
    """The unit of depths where a column of its own names it in every row, or each value has it
    beside it; empty without one.

    Raises:
        InputError: there are several, or another one than the header of ``height`` says.
    """
    plain = [plain_column_name(name) for name in header]
    at = next((plain.index(name) for name in UNIT_NAMES if name in plain), None)
    found = {SPELLINGS.get(row[at].strip().lower(), "") for row in rows if at is not None
             and at < len(row)}  # fmt: skip
    its = list(header).index(height)
    texts = [row[its] for row in rows if its < len(row) and row[its].strip()]
    beside = [value_with_unit(text) for text in texts]
    if texts and all(beside):
        at, found = its, {each[1] for each in beside if each}
    if not found or not found <= set(UNITS):
        return ""
    own = unit_of(height)
    if len(found | ({own} if own else set())) > 1:
        raise InputError(
            f"{where}: column {shown(header[at or 0])} has {' and '.join(sorted(found))} for depths"
            + (f" in {own} by their header" if own else "")
            + "; write all of them in one unit"
        )
    return found.pop()
