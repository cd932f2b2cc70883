"""The meaning of a table's columns, from their names, from options, or from their values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core.errors import InputError, shown
from .dialect import SPELT, UNITS, Dialect, angle, is_clock, is_date

#: Meanings of columns, and the names that they are found by if no option names them: in lower
#: case, without units, underscores and blanks.
MEANINGS = {
    "x": ("x", "easting", "east", "eastings", "xcoord", "utme", "utmeasting", "rechtswert",
          "este"),
    "y": ("y", "northing", "north", "northings", "ycoord", "utmn", "utmnorthing", "hochwert",
          "norte"),
    "latitude": ("latitude", "lat", "gpslat", "gpslatitude", "breite", "breitengrad", "latitud",
                 "latwgs84", "latdd", "positionlat"),
    "longitude": ("longitude", "lon", "lng", "long", "gpslon", "gpslong", "gpslongitude", "länge",
                  "laenge", "längengrad", "longitud", "lonwgs84", "londd", "positionlon"),
    "z": ("z", "elevation", "elev", "bottomelevation", "bedelevation"),
    "depth": ("depth", "waterdepth", "depthbelowsurface", "sounding", "tiefe", "wassertiefe",
              "profundidad", "profondeur", "diepte", "djup", "dybde", "dpt", "dbt", "sonardepth"),
    "time": ("time", "timestamp", "datetime", "zeit", "zeitstempel", "utc", "utctime", "gpstime",
             "timeutc", "hora", "heure", "uhrzeit"),
    "date": ("date", "day", "fecha", "datumzeit", "utcdate"),
}  # fmt: skip
#: Characters of a column's name that say what it is.
LONGEST_NAME = 200
PLACES, HEIGHTS = (("x", "y"), ("latitude", "longitude")), ("z", "depth")
#: A survey longer than this (m) and this many times longer than wide may have swapped columns.
LONG_M, NARROW = 50_000.0, 300.0
#: Different places that a survey of 20 soundings has at least.
FEWEST_PLACES = 5
#: Least value (s) of a column of Unix times: 1980.
UNIX_TIME = 3.2e8
#: So many times deeper than the next is no sounding; nothing below so many m counts.
PARTED, LEAST = 5.0, 0.1
#: Median slope above which depths may be in another unit.
STEEPEST = 1.0


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns: two for the place, one for the elevation or depth.

    Attributes:
        first, second: columns of x, y or latitude, longitude.
        height: column of elevations or depths.
        degrees: whether the place is latitude, longitude.
        down: whether ``height`` is a depth, positive down.
        time, date: columns of the times; empty if there are none.
        unit: of ``height``, a key of ``UNITS``.
        given: meanings that options named; these are not questioned.
    """

    first: str
    second: str
    height: str
    degrees: bool
    down: bool
    time: str = ""
    date: str = ""
    unit: str = "m"
    given: tuple[str, ...] = field(default=(), compare=False)

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
        for meaning, name in given.items():
            if meaning not in MEANINGS:
                raise InputError(
                    f"columns: expected meanings {', '.join(MEANINGS)}, got '{shown(meaning)}'"
                )
            if name not in header:
                raise InputError(f"{where}: expected a column '{name}', got {_named(header)}")
        plain = [plain_column_name(name) for name in header]
        found = {
            meaning: header[plain_index]
            for meaning, names in MEANINGS.items()
            if (plain_index := _index(plain, names)) is not None
        }
        known = {**found, **given}
        # A column named by an option decides between metres and degrees, elevation and depth.
        place = _first([p for p in PLACES if all(m in known for m in p)], given)
        height = _first([(m,) for m in HEIGHTS if m in known], given)
        if place is None or height is None:
            raise InputError(
                f"{where}: expected columns x,y,z or latitude,longitude,depth; got "
                f"{_named(header)}. Name them, as in --columns latitude={shown(header[0], 20)} "
                f"longitude={shown(header[min(1, len(header) - 1)], 20)} "
                f"depth={shown(header[-1], 20)}"
            )
        name = known[height[0]]
        index = list(header).index(name)
        beside, own = SPELT.get(units[index], "") if units else "", unit_of(name)
        if not unit and own and beside in UNITS and beside != own:
            raise InputError(
                f"{where}: column {shown(name)} has values in {beside}: give --units {own} or "
                f"--units {beside}"
            )
        own = unit or own or beside
        return cls(
            known[place[0]], known[place[1]], name, place == PLACES[1], height == ("depth",),
            known.get("time", ""), known.get("date", ""), own if own in UNITS else "m",
            tuple(given),
        )  # fmt: skip

    @property
    def names(self) -> tuple[str, str, str]:
        """The columns of the place and of elevation or depth."""
        return self.first, self.second, self.height

    @property
    def said(self) -> str:
        """The columns with their meanings and unit, as text."""
        place = "latitude {}, longitude {}" if self.degrees else "x {}, y {} (m)"
        height = "depth" if self.down else "elevation"
        when = f", time {' '.join(filter(None, (self.date, self.time)))}" if self.time else ""
        where = place.format(self.first, self.second)
        return f"{where}, {height} {self.height} ({self.unit}){when}"


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
        if np.abs(values[first]).max() > 90:
            found |= {"latitude": second, "longitude": first}
        elif np.abs(values[second]).max() > 90:
            found |= {"latitude": first, "longitude": second}
        elif near is not None:
            middle = np.median(values[first]), np.median(values[second])
            straight, swapped = (
                bool((np.abs(np.subtract(place, near)) < 1).all())
                for place in (middle, middle[::-1])
            )
            if straight != swapped:
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
            f"latitude={first} longitude={second} depth={fewer[0]}; if not: --columns "
            f"latitude={second} longitude={first} depth={fewer[0]}"
            + (f" (or depth={', '.join(fewer[1:])})" if fewer[1:] else "")
        )
    if not fine and len(values) == 3 and len(dialect.header) == 3:
        x, y, z = values
        return {**found, "x": x, "y": y, ("z" if (values[z] <= 0).mean() > 0.5 else "depth"): z}
    raise InputError(
        f"{where}: no header, and the values do not say which of the {len(dialect.header)} columns "
        "is what. Name them by their numbers, as in --columns latitude=1 longitude=2 depth=3"
    )


def read_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names by meaning from words such as ``x=EASTING`` or ``x=E,y=N,z=H``.

    Raises:
        InputError: a word is not such a pair.
    """
    pairs = [part.partition("=") for word in words for part in word.split(",") if part]
    for meaning, equals, name in pairs:
        if not (meaning and equals and name):
            raise InputError(
                "columns: expected MEANING=NAME, as in latitude=LAT longitude=LON depth=D, "
                f"got '{shown(meaning + equals + name)}'"
            )
    return {meaning: name for meaning, _, name in pairs}


def question(
    columns: Columns,
    place: np.ndarray,
    height: np.ndarray,
    decimals: Sequence[int],
) -> str:
    """How values contradict the names of the columns, with the option that decides; empty if they
    do not.

    Args:
        columns: as understood.
        place: values of the table [N, 2].
        height: values of the table [N], finite.
        decimals: usual number of digits after the decimal mark in the three columns.
    """
    spelt = set(columns.given)
    first, second, name = columns.names
    if len(height) < 20:
        return ""
    spread = np.ptp(place, axis=0)
    if not columns.degrees and not spelt & {"x", "y"} and min(decimals[:2]) >= 4:
        around = np.abs(place).max(0)
        if (around <= 180).all() and around.min() <= 90 and spread.max() < 3:
            return (
                f"columns {first}, {second} look like degrees, not metres. If so: --columns "
                f"longitude={first} latitude={second} (or the other way round); if they are "
                f"metres: --columns x={first} y={second}"
            )
    if columns.degrees and not spelt & {"latitude", "longitude"}:
        north = np.sort(place[:, 0])
        gap = int(np.diff(north).argmax())
        if north[gap + 1] - north[gap] > max(1.0, 10 * (spread[0] - north[gap + 1] + north[gap])):
            return (
                f"column {first} has two groups of places, up to {north[gap]:g} and from "
                f"{north[gap + 1]:g} on: part of the rows may have {first} and {second} swapped. "
                f"Correct these; if all are right: --columns latitude={first} longitude={second}"
            )
        for values, column in zip(place.T, (first, second), strict=True):
            size = np.abs(values)
            mirrored = size.min() > 5 * np.ptp(size) or ((values > 1).any() and (values < -1).any())
            if mirrored and values.min() < 0 < values.max() and size.max() < 179:
                return (
                    f"column {column} has both signs ({values.min():g} to {values.max():g}): "
                    "places on two sides of the Earth. Remove the rows that are wrong; if all are "
                    f"right: --columns latitude={first} longitude={second}"
                )
    parted = _parted(np.abs(height) * UNITS[columns.unit])
    if parted and not spelt & {"z", "depth"}:
        return (
            f"column {name} has two groups of values, up to {parted[0]:g} m and from "
            f"{parted[1]:g} m on: part of the rows may be in another unit. Correct these; if all "
            f"are right: --columns {'depth' if columns.down else 'z'}={name}"
        )
    up = float((height > 0).mean())
    if not columns.down and "z" not in spelt and up > 0.95:
        return (
            f"column {name} is positive throughout ({height.min():g} to {height.max():g}). If it "
            f"is a depth: --columns depth={name}; if it is ground above the datum: --columns "
            f"z={name} and --water-level, the elevation of the water (in feet: also --units ft)"
        )
    if columns.down and "depth" not in spelt and (height < 0).mean() > 0.95:
        return (
            f"column {name} is negative throughout ({height.min():g} to {height.max():g}). If it "
            f"is an elevation: --columns z={name}; if it is a depth with a minus: --columns "
            f"depth={name}"
        )
    if (count := len(np.unique(place, axis=0))) < FEWEST_PLACES and not spelt & set(
        sum(PLACES, ())
    ):
        return (
            f"columns {first}, {second} have {count} different places for {len(height)} soundings: "
            f"they may be rounded. If they are right: --columns "
            f"{'latitude' if columns.degrees else 'x'}={first} "
            f"{'longitude' if columns.degrees else 'y'}={second}"
        )
    deepest = float(np.median(np.abs(height)) * UNITS[columns.unit])
    if deepest > 12_000:
        return (
            f"column {name} has depths of {deepest:g} m, deeper than any sea. Give its unit: "
            "--units cm, or another of m, ft, fathom, mm"
        )
    return _shape(columns, place, height)


def _parted(size: np.ndarray) -> tuple[float, float] | None:
    """The ends of a gap between small and large depths [N], in m, that no bottom has; None where
    there is none."""
    ordered = np.sort(size)
    few = max(1, len(ordered) // 20)
    ratio = ordered[few:-few] / np.maximum(ordered[few - 1 : -few - 1], LEAST)
    gap = int(ratio.argmax()) + few
    if ratio.max() < PARTED:
        return None
    return float(ordered[gap - 1]), float(ordered[gap])


def _shape(columns: Columns, place: np.ndarray, height: np.ndarray) -> str:
    """A question if the survey's shape suggests swapped columns or depths in another unit; else
    empty. Arguments as in ``question``."""
    first, second, name = columns.names
    xy = place * (111_320.0 if columns.degrees else 1.0)
    if columns.degrees:
        xy[:, 1] *= np.cos(np.radians(np.median(place[:, 0])))
    sides = np.ptp(xy, axis=0)
    size = np.abs(height) * UNITS[columns.unit]
    swapped = sides.max() > LONG_M and sides.max() > NARROW * sides.min()
    if not set(columns.given) & set(sum(PLACES, ())) and swapped and np.ptp(size) < size.max() / 20:
        return (
            f"the soundings lie on {sides[0] / 1000:.3g} x {sides[1] / 1000:.3g} km, all of nearly "
            f"the same height ({height.min():g} to {height.max():g}): columns {first}, {second}, "
            f"{name} may be swapped. Name them, as in --columns "
            f"{'latitude' if columns.degrees else 'x'}={first} "
            f"{'longitude' if columns.degrees else 'y'}={second} depth={name}"
        )
    if columns.unit != "m" or set(columns.given) & {"z", "depth"} or sides.max() == 0:
        return ""
    # Compared at a distance along the track, so that noise and repeated positions do not count.
    steps = np.hypot(*np.diff(xy, axis=0).T)
    lag = int(np.clip(np.ceil(sides.max() / 50 / max(np.median(steps), 1e-9)), 1, len(xy) // 2))
    apart = np.hypot(*(xy[lag:] - xy[:-lag]).T)
    slope = float(np.median(np.abs(size[lag:] - size[:-lag]) / np.maximum(apart, 1e-9)))
    deep = float(np.median(size))
    if columns.down and (slope > STEEPEST or deep > sides.max()):
        return (
            f"column {name} has depths of {deep:g} m (median) on {sides[0]:.0f} x {sides[1]:.0f} "
            f"m, with slopes of {100 * slope:.0f} %. If they are in another unit: --units cm, or "
            f"another of {', '.join(UNITS)}; if they are in m: --columns depth={name}"
        )
    return ""


def _index(plain: Sequence[str], names: Sequence[str]) -> int | None:
    """Index of the first of these names that is there."""
    return next((plain.index(name) for name in names if name in plain), None)


def plain_column_name(name: str) -> str:
    """A column's name without units, underscores and blanks, in lower case."""
    name = re.sub(r"[\[(].*?[\])]", "", name[:LONGEST_NAME].lower())
    parts = [part for part in re.split(r"[\s_.:/-]+", name) if part and part != "in"]
    while len(parts) > 1 and (parts[-1] in SPELT or parts[-1] in ("e6", "e7", "1e6", "1e7")):
        parts.pop()
    return re.sub(r"^(lat|lon|latitude|longitude)e[67]$", r"\1", "".join(parts))


def unit_of(name: str) -> str:
    """The unit in a column's name: ``Depth (m)``, ``depth_cm``, ``Depth_in_Feet``."""
    lower = name[:LONGEST_NAME].lower()
    bracket = re.search(r"[\[(]([^\])]*)[\])]", lower)
    parts = [bracket.group(1).strip()] if bracket else re.split(r"[\s_.:/-]+", lower)[1:]
    return next((SPELT[part] for part in reversed(parts) if SPELT.get(part) in UNITS), "")


def _first(candidates: list[tuple[str, ...]], given: Mapping[str, str]) -> tuple[str, ...] | None:
    said = [c for c in candidates if any(meaning in given for meaning in c)]
    return next(iter(said or candidates), None)


def _named(header: Sequence[str]) -> str:
    return shown(",".join(header), 120)
