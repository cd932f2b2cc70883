"""The meaning of a table's columns, from their names, from options, or from their values."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote

import numpy as np

from ..core.errors import InputError, shown
from .cells import SPELLINGS, UNITS, angle, is_clock, is_date
from .dialect import Dialect

#: Meanings of columns, and the names that they are found by if no option names them: in lower
#: case, without accents, units, underscores and blanks.
MEANINGS = {
    "x": ("x", "easting", "east", "eastings", "xcoord", "utme", "utmeasting", "rechtswert",
          "este"),
    "y": ("y", "northing", "north", "northings", "ycoord", "utmn", "utmnorthing", "hochwert",
          "norte"),
    "latitude": ("latitude", "lat", "gpslat", "gpslatitude", "breite", "breitengrad", "latitud",
                 "latwgs84", "latdd", "positionlat", "latitudine", "breedtegraad", "breddegrad",
                 "bredde", "leveysaste", "szerokosc"),
    "longitude": ("longitude", "lon", "lng", "long", "gpslon", "gpslong", "gpslongitude", "lange",
                  "laenge", "langengrad", "longitud", "lonwgs84", "londd", "positionlon",
                  "positionlong", "gpslng", "longitudine", "lengtegraad", "lengdegrad", "lengde",
                  "pituusaste", "dlugosc"),
    "z": ("z", "elevation", "elev", "bottomelevation", "bedelevation"),
    "depth": ("depth", "waterdepth", "depthbelowsurface", "sounding", "tiefe", "wassertiefe",
              "profundidad", "profondeur", "diepte", "djup", "dybde", "dpt", "dbs", "dbt",
              "sonardepth", "profundidade", "profondita", "dybd", "dyp", "syvyys", "glebokosc",
              "correcteddepth", "bottomdepth"),
    "time": ("time", "timestamp", "datetime", "zeit", "zeitstempel", "utc", "utctime", "gpstime",
             "timeutc", "hora", "heure", "uhrzeit", "ora", "tijd", "tid", "aika", "czas"),
    "date": ("date", "day", "fecha", "datumzeit", "utcdate", "data", "datum", "dato", "paiva"),
    "altitude": ("altitude", "alt", "vehiclealtitude", "auvaltitude", "rovaltitude"),
}  # fmt: skip
#: Characters of a column's name that say what it is.
LONGEST_NAME = 200
#: Names of latitude and longitude with a side, or a power of ten, that is not part of them.
_SIDED = re.compile(
    r"^(?:north|south)?(lat|latitude)(?:e[67]|[ns]|north|south)?$"
    r"|^(?:east|west)?(lon|lng|long|longitude)(?:e[67]|[ew]|east|west)?$"
)
#: Names of altitudes that can only be above the ground, and of depths that can only be a vehicle's.
ABOVE_GROUND = re.compile(
    r"above(?:the)?(?:sea|lake|river)?(?:ground|bottom|bed|floor)|dvlalt|altitudedvl|altimeter|agl$"
)
VEHICLE_DEPTHS = ("vehicledepth", "depthvehicle", "auvdepth", "rovdepth", "subdepth")
PLACES, HEIGHTS = (("x", "y"), ("latitude", "longitude")), ("z", "depth")
#: Names of a column that has the unit of depths.
UNIT_NAMES = ("unit", "units", "depthunit", "depthunits", "uom")
#: Least value (s) of a column of Unix times: 1980.
UNIX_TIME = 3.2e8


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns: two for the place, one for the elevation or depth.

    Attributes:
        first, second: columns of x, y or latitude, longitude.
        height: column of elevations or depths.
        degrees: whether the place is latitude, longitude.
        down: whether ``height`` is a depth, positive down.
        place_unit: of x and y, a key of ``UNITS``.
        time, date: columns of the times; empty if there are none.
        unit: of ``height``, a key of ``UNITS``.
        given: meanings that options named; these are not questioned.
        depth_beside: a column of depths beside ``height``, a column of elevations; empty without.
        altitude: a column of altitudes beside ``height``, which may be a vehicle's; empty without.
        altitude_unit: of ``altitude``, a key of ``UNITS``; empty: as of ``height``.
    """

    first: str
    second: str
    height: str
    degrees: bool
    down: bool
    time: str = ""
    date: str = ""
    unit: str = "m"
    place_unit: str = "m"
    given: tuple[str, ...] = field(default=(), compare=False)
    depth_beside: str = field(default="", compare=False)
    altitude: str = field(default="", compare=False)
    altitude_unit: str = field(default="", compare=False)

    @classmethod
    def of(
        cls,
        header: Sequence[str],
        given: Mapping[str, str],
        where: str,
        units: Sequence[str] = (),
        unit: str = "",
    ) -> Columns:
        """Find the columns in a header.

        Args:
            header: the names of the columns.
            given: names by meaning; they take precedence over what is found.
            where: start of error messages.
            units: of each column, from a row of units; empty without one.
            unit: of elevation or depth; it takes precedence over the header. Empty: as the header.

        Raises:
            InputError: a column is missing, or a meaning is unknown.
        """
        _check_given(given, header, where)
        plain = [plain_column_name(name) for name in header]
        found = {
            meaning: header[plain_index]
            for meaning, names in MEANINGS.items()
            if (plain_index := _index(plain, names)) is not None
        }
        sure = [name for name, each in zip(header, plain, strict=True) if ABOVE_GROUND.search(each)]
        decided = "z" in given or "depth" in given
        likely = "" if decided else sure[0] if sure else found.get("altitude", "")
        altitude = given.get("altitude", likely)
        vehicle = _index(plain, VEHICLE_DEPTHS)
        if altitude and vehicle is not None:
            found["depth"] = header[vehicle]
        known = {**found, **given}
        # A column named by an option decides between metres and degrees, elevation and depth.
        place = _first([p for p in PLACES if all(m in known for m in p)], given)
        height = _first([(m,) for m in HEIGHTS if m in known], given)
        if place is None or height is None:
            names = header[0], header[min(1, len(header) - 1)], header[-1]
            example = dict(zip(("latitude", "longitude", "depth"), names, strict=True))
            raise InputError(
                f"{where}: expected columns x,y,z or latitude,longitude,depth; got "
                f"{_named(header)}. Name them, as in --columns {as_option(**example)}"
            )
        name = known[height[0]]
        beside, own = (_unit_beside(name, header, units), unit_of(name))
        if not unit and own and beside and beside != own:
            raise InputError(
                f"{where}: column {shown(name)} has values in {beside}: give --units {own} or "
                f"--units {beside}"
            )
        degrees = place == PLACES[1]
        of_place = "m" if degrees else _place_unit(known["x"], known["y"], header, units, where)
        above = unit_of(altitude) or (altitude and _unit_beside(altitude, header, units))
        return cls(
            known[place[0]], known[place[1]], name, degrees, height == ("depth",),
            known.get("time", ""), known.get("date", ""), unit or own or beside or "m",
            of_place, tuple(given),
            known.get("depth", "") if height == ("z",) and not decided else "",
            altitude, above,
        )  # fmt: skip

    @property
    def names(self) -> tuple[str, str, str]:
        """The columns of the place and of elevation or depth."""
        return self.first, self.second, self.height

    @property
    def place_option(self) -> str:
        """The words of --columns that confirm the columns of places."""
        places = self.first, self.second
        return as_option(**dict(zip(PLACES[self.degrees], places, strict=True)))

    @property
    def height_option(self) -> str:
        """The word of --columns that confirms the column of depths or elevations."""
        return as_option(**{HEIGHTS[self.down]: self.height})

    @property
    def description(self) -> str:
        """The columns with their meanings and unit, as text."""
        place = "latitude = {}, longitude = {}"
        if not self.degrees:
            place = f"x = {{}}, y = {{}} ({self.place_unit})"
        height = "depth" if self.down else "elevation"
        when = f", time = {' '.join(filter(None, (self.date, self.time)))}" if self.time else ""
        where = place.format(self.first, self.second)
        column = self.height
        if self.altitude:
            height = "ground"
            column += f" {'+' if self.down else '-'} {self.altitude}"
        return f"{where}, {height} = {column} ({self.unit}){when}"


def as_option(**names: str) -> str:
    """The words of --columns for columns of these names by meaning, as a shell takes them."""
    return " ".join(quote(f"{meaning}={name}") for meaning, name in names.items())


def _check_given(given: Mapping[str, str], header: Sequence[str], where: str) -> None:
    for meaning, name in given.items():
        if meaning not in MEANINGS:
            raise InputError(
                f"columns: expected meanings {', '.join(MEANINGS)}, got '{shown(meaning)}'"
            )
        if name not in header:
            raise InputError(f"{where}: expected a column '{name}', got {_named(header)}")


def _place_unit(x: str, y: str, header: Sequence[str], units: Sequence[str], where: str) -> str:
    """The unit of the columns of x and y, which must be the same."""
    found = {unit_of(name) or _unit_beside(name, header, units) or "m" for name in (x, y)}
    if len(found) > 1:
        raise InputError(
            f"{where}: columns {shown(x)} and {shown(y)} are in different "
            f"units ({' and '.join(sorted(found))}): write both in one"
        )
    return found.pop()


def guess(
    dialect: Dialect,
    rows: Sequence[Sequence[str]],
    where: str,
    near: tuple[float, float] | None = None,
    places: bool = True,
) -> dict[str, str]:
    """Meanings of the columns of a table without a header, from the values of its first rows.

    Args:
        dialect: of the table.
        rows: its first rows.
        where: start of error messages.
        near: latitude and longitude of the other files of the survey; None: unknown.
        places: find places and depths, too, not times alone.

    Raises:
        InputError: the values allow more than one meaning; the message gives the options to decide.
    """
    found, values = _times_and_numbers(dialect, rows)
    if not places:
        return found
    digits = dict(zip(dialect.header, dialect.decimals, strict=True))
    fine = [
        name
        for name, v in values.items()
        if digits[name] >= 4 and np.abs(v).max() <= 180 and np.ptp(v) < 5
    ]
    others = [name for name in values if name not in fine]
    if len(fine) == 2:
        first, second = fine
        straight = _is_latitude_first(values[first], values[second], near)
        if straight is not None:
            latitude, longitude = (first, second) if straight else (second, first)
            found |= {"latitude": latitude, "longitude": longitude}
        below = {n: (values[n] > 0).mean() for n in others if digits[n] > 0}
        heights = [n for n, share in below.items() if not 0.1 <= share <= 0.9]
        if "latitude" in found and len(heights) == 1:
            return {**found, ("depth" if below[heights[0]] > 0.9 else "z"): heights[0]}
        fewer = heights or others or fine
        raise InputError(
            f"{where}: no header, and the values do not say which column is what. Columns {first} "
            f"and {second} look like a place in degrees. If the first is the latitude: --columns "
            f"{as_option(latitude=first, longitude=second, depth=fewer[0])}; if not: --columns "
            f"{as_option(latitude=second, longitude=first, depth=fewer[0])}"
            + (f" (or depth={', '.join(fewer[1:])})" if fewer[1:] else "")
        )
    if not fine and len(values) == 3 and len(dialect.header) == 3:
        x, y, z = values
        return {**found, "x": x, "y": y, ("z" if (values[z] <= 0).mean() > 0.5 else "depth"): z}
    raise InputError(
        f"{where}: no header, and the values do not say which of the {len(dialect.header)} columns "
        "is what. Name them by their numbers, as in --columns latitude=1 longitude=2 depth=3"
    )


def _times_and_numbers(
    dialect: Dialect, rows: Sequence[Sequence[str]]
) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """The columns of times by their meaning, and the values of columns of other numbers."""
    found, values = dict[str, str](), dict[str, np.ndarray]()
    for i, name in enumerate(dialect.header):
        cells = [row[i] for row in rows if i < len(row)]
        if all(map(is_clock, cells)):
            found.setdefault("time", name)
        elif all(map(is_date, cells)):
            found.setdefault("date", name)
        else:
            numbers = np.array([angle(cell, dialect.comma) for cell in cells])
            if np.isfinite(numbers).mean() > 0.9 and np.ptp(numbers[np.isfinite(numbers)]) > 0:
                known = numbers[np.isfinite(numbers)]
                if known.min() > UNIX_TIME and (np.diff(known) >= 0).all():
                    found.setdefault("time", name)
                else:
                    values[name] = known
    if "date" in found and "time" not in found:
        found["time"] = found.pop("date")
    return found, values


def _is_latitude_first(
    first: np.ndarray, second: np.ndarray, near: tuple[float, float] | None
) -> bool | None:
    """Whether degrees in two columns are latitude, longitude; None if they may be either."""
    if np.abs(first).max() > 90:
        return False
    if np.abs(second).max() > 90:
        return True
    if near is None:
        return None
    middle = np.median(first), np.median(second)
    straight, swapped = (
        bool((np.abs(np.subtract(place, near)) < 1).all()) for place in (middle, middle[::-1])
    )
    return straight if straight != swapped else None


def read_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names by meaning from words such as ``x=EASTING`` or ``x=E,y=N,z=H``.

    Raises:
        InputError: a word is not such a pair.
    """
    parts = [part for word in words for part in re.split(r",(?=\w+=|$)", word) if part]
    pairs = [part.partition("=") for part in parts]
    for meaning, equals, name in pairs:
        if not (meaning and equals and name):
            raise InputError(
                "columns: expected MEANING=NAME, as in latitude=LAT longitude=LON depth=D, "
                f"got '{shown(meaning + equals + name)}'"
            )
    return {meaning: name for meaning, _, name in pairs}


def _index(plain: Sequence[str], names: Sequence[str]) -> int | None:
    """Index of the first of these names that is there."""
    return next((plain.index(name) for name in names if name in plain), None)


def plain_column_name(name: str) -> str:
    """A column's name without accents, units, sides (N, S, E, W), underscores and blanks, in lower
    case."""
    letters = unicodedata.normalize("NFKD", name[:LONGEST_NAME].lower().replace("ł", "l"))
    name = "".join(letter for letter in letters if not unicodedata.combining(letter))
    name = re.sub(r"[\[(].*?[\])]", "", name)
    parts = [part for part in re.split(r"[\s_.:/-]+", name) if part and part != "in"]
    while len(parts) > 1 and (parts[-1] in SPELLINGS or parts[-1] in ("e6", "e7", "1e6", "1e7")):
        parts.pop()
    return _SIDED.sub(r"\1\2", "".join(parts))


def unit_of(name: str) -> str:
    """The unit in a column's name: ``Depth (m)``, ``depth_cm``, ``Depth_in_Feet``."""
    lower = name[:LONGEST_NAME].lower()
    bracket = re.search(r"[\[(]([^\])]*)[\])]", lower)
    parts = bracket.group(1).split() if bracket else re.split(r"[\s_.:/-]+", lower)[1:]
    return next((SPELLINGS[part] for part in reversed(parts) if SPELLINGS.get(part) in UNITS), "")


def unit_in_column(
    header: Sequence[str], rows: Sequence[Sequence[str]], height: str, where: str
) -> str:
    """The unit of depths where a column of its own names it in every row; empty without one.

    Raises:
        InputError: it names several, or another one than the header of ``height``.
    """
    at = _index([plain_column_name(name) for name in header], UNIT_NAMES)
    cells = {row[at].strip().lower() for row in rows if at is not None and at < len(row)}
    found = {SPELLINGS.get(cell, "") for cell in cells}
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


def _unit_beside(name: str, header: Sequence[str], units: Sequence[str]) -> str:
    """The unit of a column's lengths in a row of units; empty without one."""
    unit = SPELLINGS.get(units[list(header).index(name)], "") if units else ""
    return unit if unit in UNITS else ""


def _first(candidates: list[tuple[str, ...]], given: Mapping[str, str]) -> tuple[str, ...] | None:
    named = [c for c in candidates if any(meaning in given for meaning in c)]
    return next(iter(named or candidates), None)


def _named(header: Sequence[str]) -> str:
    return shown(",".join(header), 120)
