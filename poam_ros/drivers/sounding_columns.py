"""Which columns of a table of soundings mean what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError, shown

#: What a column may mean, and the names it is found by (any case) where nobody says.
MEANINGS = {
    "x": ("x", "easting"),
    "y": ("y", "northing"),
    "latitude": ("latitude", "lat"),
    "longitude": ("longitude", "lon", "lng", "long"),
    "z": ("z", "elevation"),
    "depth": ("depth",),
    "time": ("time", "timestamp", "datetime", "date_time"),
}
PLACES, HEIGHTS = (("x", "y"), ("latitude", "longitude")), ("z", "depth")


@dataclass(frozen=True)
class Columns:
    """The names of a table's columns: two of a place, by what they mean, and one of a height.

    ``degrees``: the place is latitude, longitude. ``down``: the height is a depth, positive down.
    ``time``: of the column of times; empty where there is none.
    """

    first: str
    second: str
    height: str
    degrees: bool
    down: bool
    time: str = ""

    @classmethod
    def of(cls, header: Sequence[str], given: Mapping[str, str], where: str) -> Columns:
        """From a header; ``given``: names by meaning, which go before what would be found.

        Raises:
            InputError: a column is missing, or a meaning unknown; ``where`` begins the message.
        """
        for meaning, name in given.items():
            if meaning not in MEANINGS:
                raise InputError(
                    f"columns: expected meanings {', '.join(MEANINGS)}, got '{shown(meaning)}'"
                )
            if name not in header:
                raise InputError(f"{where}: expected a column '{name}', got {_named(header)}")
        found = {meaning: _find(header, names) for meaning, names in MEANINGS.items()}
        # One that is said decides between metres and degrees, elevation and depth.
        known = {**{k: v for k, v in found.items() if v is not None}, **given}
        place = _first([p for p in PLACES if all(m in known for m in p)], given)
        height = _first([(m,) for m in HEIGHTS if m in known], given)
        if place is None or height is None:
            raise InputError(
                f"{where}: expected columns x,y,z or latitude,longitude,depth, or their names by "
                f"--columns; got {_named(header)}"
            )
        first, second = (known[meaning] for meaning in place)
        degrees, down = place == PLACES[1], height == ("depth",)
        return cls(first, second, known[height[0]], degrees, down, known.get("time", ""))

    @property
    def names(self) -> tuple[str, str, str]:
        """Those of place and height."""
        return self.first, self.second, self.height


def read_mapping(words: Sequence[str]) -> dict[str, str]:
    """Names by meaning from words such as ``x=EASTING`` or ``x=E,y=N,z=H``.

    Raises:
        InputError: a word is no such pair.
    """
    pairs = [part.partition("=") for word in words for part in word.split(",") if part]
    for meaning, equals, name in pairs:
        if not (meaning and equals and name):
            raise InputError(
                "columns: expected MEANING=NAME, as in latitude=LAT longitude=LON depth=D, "
                f"got '{shown(meaning + equals + name)}'"
            )
    return {meaning: name for meaning, _, name in pairs}


def _find(header: Sequence[str], names: Sequence[str]) -> str | None:
    lower = {column.lower(): column for column in reversed(header)}
    return next((lower[name] for name in names if name in lower), None)


def _first(candidates: list[tuple[str, ...]], given: Mapping[str, str]) -> tuple[str, ...] | None:
    said = [c for c in candidates if any(meaning in given for meaning in c)]
    return next(iter(said or candidates), None)


def _named(header: Sequence[str]) -> str:
    return shown(",".join(header), 120)
