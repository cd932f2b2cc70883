"""Soundings from a CSV file, read in chunks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.errors import InputError, shown
from ..core.geometry import FARTHEST
from ..frontend.placing import MAX_ELEVATION
from ..frontend.refused import RefusedPings
from .projection import LocalProjection
from .soundings import LINE, Soundings

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


#: Rows that are text at the same time.
CHUNK = 50_000
SEPARATORS = ",;\t"


@dataclass(frozen=True)
class Table:
    """How a table is read.

    Attributes:
        columns: names of columns by what they mean (``MEANINGS``), where they are other ones.
        by: the column whose values are the soundings' groups, such as lines; where there is none
            of the name ``line`` they are found in the track.
        water_level: elevation of the water's surface, from which depths are counted, in m.
        sound_scale: true length of a metre under the water's surface that the table says.
        start, stop: as of ``Soundings.between``, in s.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    water_level: float = 0.0
    sound_scale: float = 1.0
    start: float = 0.0
    stop: float = 0.0


@dataclass
class _Rows:
    """What was read so far."""

    columns: Columns
    by: int | None
    places: tuple[int, ...]
    time: int | None
    codes: dict[str, int] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    refused_pings: RefusedPings = field(default_factory=RefusedPings.none)
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    rows: int = 0

    def add(self, chunk: list[list[str]]) -> None:
        """Numbers of the rows that have them."""
        width = 1 + max(*self.places, self.by or 0, self.time or 0)
        short = [len(row) < width for row in chunk]
        cells = [[] if s else row for row, s in zip(chunk, short, strict=True)]
        values = _numbers([[row[i] for i in self.places] if row else ("", "", "") for row in cells])
        groups = np.zeros(len(chunk), dtype=np.int64)
        if self.by is not None:
            codes = self.codes
            names = (row[self.by].strip() if row else "" for row in cells)
            groups[:] = [codes.setdefault(name, len(codes)) for name in names]
        stamps, timed = np.zeros(len(chunk), dtype=np.int64), np.ones(len(chunk), dtype=bool)
        if self.time is not None:
            seconds = np.array([_seconds(row[self.time]) if row else np.nan for row in cells])
            timed = np.isfinite(seconds)
            stamps[timed] = np.round(1e9 * seconds[timed])
        kept = self._judge(values, timed, stamps)
        row = self.rows + np.flatnonzero(kept)
        self.parts.append((row, values[kept, :2], values[kept, 2], groups[kept], stamps[kept]))
        self.rows += len(chunk)

    def _judge(self, values: np.ndarray, timed: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Which rows [N, 3] are soundings, with a time [N]; the others are counted, and the newest
        remembered as they stand in the table."""
        place, height = values[:, :2], values[:, 2]
        numbers = np.isfinite(values).all(1)
        limits = (90.0, 360.0) if self.columns.degrees else (FARTHEST, FARTHEST)
        somewhere = (np.abs(place) <= limits).all(1)
        sane = np.abs(height) <= MAX_ELEVATION
        found = np.where(somewhere[:, None], values, np.nan)
        for reason, wrong in (
            ("not_a_number", ~numbers),
            ("impossible_place", numbers & ~somewhere),
            ("wild_elevation", numbers & somewhere & ~sane),
            ("no_time", numbers & somewhere & sane & ~timed),
        ):
            self.refused[reason] += int(wrong.sum())
            self.refused_pings = self.refused_pings.more(reason, stamps[wrong], found[wrong])
        return numbers & somewhere & sane & timed

    def placed(self, projection: LocalProjection | None, table: Table) -> RefusedPings:
        """The refused rows as pings; x, y and elevation in m."""
        xyz = self.refused_pings.xyz.copy()
        if projection is not None:
            xyz[:, :2] = projection.metres(*xyz[:, :2].T)
        xyz[:, 2] = _elevation(xyz[:, 2], self.columns, table)
        return replace(self.refused_pings, xyz=xyz)


def read_soundings(path: Path, table: Table = Table()) -> Soundings:
    """Read a CSV file (separated by commas, semicolons or tabs) with a header.

    Raises:
        InputError: the file cannot be read, lacks a column, or has no soundings.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            rows = _read(file, path, table)
    except (OSError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None
    refused, columns = +rows.refused, rows.columns
    if not any(len(part[0]) for part in rows.parts):
        reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
        raise InputError(f"{path}: expected soundings, got none ({reasons})")
    row, place, height, group, stamp_ns = (
        np.concatenate(parts) for parts in zip(*rows.parts, strict=True)
    )
    rows.parts.clear()
    projection, source = None, {"columns": asdict(columns)}
    if columns.degrees:
        projection = LocalProjection.about(*place.T)
        place = projection.metres(*place.T)
        source |= projection.georeference
    z = _elevation(height, columns, table)
    names = tuple(sorted(rows.codes))
    if names:
        rank = {name: i for i, name in enumerate(names)}
        group = np.array([rank[name] for name in rows.codes])[group]
    else:
        group = row
    stamps = stamp_ns if columns.time else None
    found = Soundings(
        row, place, z, group, names, refused, rows.placed(projection, table), source, projection,
        stamps,
    )  # fmt: skip
    found = found.between(table.start, table.stop)
    return found.by_lines() if table.by == LINE and not names else found


def _elevation(height: np.ndarray, columns: Columns, table: Table) -> np.ndarray:
    """Of what a table says, elevations or depths [N], in m."""
    if not columns.down and table.sound_scale == 1:
        return height  # to the last bit
    under = height if columns.down else table.water_level - height
    return table.water_level - table.sound_scale * under


def _read(file: io.TextIOBase, path: Path, table: Table) -> _Rows:
    first = file.readline()
    separator = max(SEPARATORS, key=first.count)
    header = [name.strip() for name in next(csv.reader([first], delimiter=separator), [])]
    columns, by = Columns.of(header, table.columns, str(path)), table.by
    if by is not None and by not in header:
        if by != LINE:
            raise InputError(
                f"{path}: expected a column '{by}' (--by), got {','.join(header)[:120]}"
            )
        by = None
    if not (table.start or table.stop or "time" in table.columns):
        columns = replace(columns, time="")  # nobody asks for it
    rows = _Rows(
        columns,
        None if by is None else header.index(by),
        tuple(header.index(name) for name in columns.names),
        header.index(columns.time) if columns.time else None,
    )
    for chunk in _chunks(csv.reader(file, delimiter=separator)):
        rows.add(chunk)
    return rows


def _chunks(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    filled = (row for row in rows if row)  # a blank line is no row
    while chunk := list(islice(filled, CHUNK)):
        yield chunk


def _numbers(cells: Sequence[Sequence[str]]) -> np.ndarray:
    """[N, 3]; NaN where a cell is no number."""
    try:
        return np.array(cells, dtype=float).reshape(len(cells), 3)
    except ValueError:
        return np.array([[_number(cell) for cell in row] for row in cells]).reshape(len(cells), 3)


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _seconds(cell: str) -> float:
    """Since 1970, or whatever the numbers count from; NaN where it is no time."""
    try:
        number = float(cell)
        # Seconds, or of the Unix time milli-, micro- or nanoseconds.
        return number / next((10.0**p for p in (9, 6, 3) if abs(number) > 10.0 ** (p + 8)), 1.0)
    except ValueError:
        pass
    try:
        when = datetime.fromisoformat(cell.strip().replace("Z", "+00:00"))
    except ValueError:
        return np.nan
    return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
