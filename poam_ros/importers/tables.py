"""Soundings from a table of text, read in chunks."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import WGS84, LocalProjection, coordinate_system, transformed
from ..core.geometry import MAX_COORDINATE
from ..frontend.placing import MAX_ELEVATION
from ..frontend.refused_pings import RefusedPings
from .columns import UNITS, Columns, guess, question
from .dialect import Dialect, Times, angle, number, said, sniff
from .levels import WaterLevels
from .soundings import LINE, Soundings

#: Rows that are text at the same time.
CHUNK = 50_000
#: Rows that the meaning of columns is checked against where nobody names them.
SAMPLE = 1000
#: Values that instruments write where they have no reading, of either sign.
NO_READING = (
    0.0, 1.0, 9.0, 99.0, 999.0, 9999.0, 99.9, 999.9, 99.99, 999.99, 9999.9, 32767.0,
    65535.0, 6553.5,
)  # fmt: skip
#: A place this many times as far out as nine tenths of them, and this far (m), is wrong.
FAR_TIMES, FAR_M = 20.0, 50_000.0
#: The deepest value, repeated so often and so many times the next one, is the sonar's limit.
LIMIT_COUNT, LIMIT_RATIO = 5, 1.5
DEGREE_M = 111_320.0  # of latitude


@dataclass(frozen=True)
class TableFormat:
    """How a table is read.

    Attributes:
        columns: names of columns by what they mean (``MEANINGS``), where they are other ones.
        by: the column whose values are the soundings' groups, such as lines; where there is none
            of the name ``line`` they are found in the track.
        water_level: elevation of the water's surface, from which depths are counted, in m.
        levels: the same over time; goes before ``water_level``.
        sound_scale: true length of a metre under the water's surface that the table says.
        start, stop: as of ``Soundings.between``, in s.
        units: of depths and elevations, a key of ``UNITS``; empty: as the header says, else m.
        crs: of x and y, as pyproj takes it (EPSG:25833); empty: metres of no known place.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    by: str | None = None
    water_level: float = 0.0
    levels: WaterLevels | None = None
    sound_scale: float = 1.0
    start: float = 0.0
    stop: float = 0.0
    units: str = ""
    crs: str = ""


@dataclass
class _Rows:
    """What was read so far."""

    columns: Columns
    dialect: Dialect
    by: int | None
    places: tuple[int, ...]
    times: tuple[int, ...]
    clock: Times
    codes: dict[str, int] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    refused_pings: RefusedPings = field(default_factory=RefusedPings.none)
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    rows: int = 0

    def add(self, chunk: list[list[str]]) -> None:
        """Numbers of the rows that have them."""
        width = 1 + max(*self.places, *self.times, self.by or 0)
        short = [len(row) < width for row in chunk]
        cells = [[] if s else row for row, s in zip(chunk, short, strict=True)]
        numbers = [[row[i] for i in self.places] if row else [""] * 3 for row in cells]
        values = self._numbers(numbers)
        groups = np.zeros(len(chunk), dtype=np.int64)
        if self.by is not None:
            codes = self.codes
            names = (row[self.by].strip() if row else "" for row in cells)
            groups[:] = [codes.setdefault(name, len(codes)) for name in names]
        stamps, timed = np.zeros(len(chunk), dtype=np.int64), np.ones(len(chunk), dtype=bool)
        if self.times:
            texts = (" ".join(row[i] for i in self.times) if row else "" for row in cells)
            seconds = np.array([self.clock.seconds(text) for text in texts])
            timed = np.isfinite(seconds)
            stamps[timed] = np.round(1e9 * seconds[timed])
        kept = self._judge(values, timed, stamps)
        row = self.rows + np.flatnonzero(kept)
        self.parts.append((row, values[kept, :2], values[kept, 2], groups[kept], stamps[kept]))
        self.rows += len(chunk)

    def refuse(self, reason: str, wrong: np.ndarray, stamps: np.ndarray, found: np.ndarray) -> None:
        """Count rows [N] as refused, and remember the newest as they stand in the table [N, 3]."""
        if wrong.any():
            self.refused[reason] += int(wrong.sum())
            self.refused_pings = self.refused_pings.more(reason, stamps[wrong], found[wrong])

    def _judge(self, values: np.ndarray, timed: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Which rows [N, 3] are soundings, with a time [N]."""
        place, height = values[:, :2], values[:, 2]
        numbers = np.isfinite(values).all(1)
        limits = (90.0, 360.0) if self.columns.degrees else (MAX_COORDINATE, MAX_COORDINATE)
        somewhere = (np.abs(place) <= limits).all(1)
        sane = np.abs(height) * UNITS[self.columns.unit] <= MAX_ELEVATION
        found = np.where(somewhere[:, None], values, np.nan)
        for reason, wrong in (
            ("not_a_number", ~numbers),
            ("impossible_place", numbers & ~somewhere),
            ("wild_elevation", numbers & somewhere & ~sane),
            ("no_time", numbers & somewhere & sane & ~timed),
        ):
            self.refuse(reason, wrong, stamps, found)
        return numbers & somewhere & sane & timed

    def _numbers(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        """[N, 3]; NaN where a cell is no number, or no angle where it should be one."""
        comma = self.dialect.comma
        if not comma:
            try:
                return np.array(cells, dtype=float).reshape(len(cells), 3)
            except ValueError:
                pass
        of_place = angle if self.columns.degrees else number
        rows = [[of_place(a, comma), of_place(b, comma), number(h, comma)] for a, b, h in cells]
        return np.array(rows).reshape(len(cells), 3)

    def joined(self) -> tuple[np.ndarray, ...]:
        """Row, place, height, group and stamp of all rows that are soundings so far."""
        parts = tuple(np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        self.parts.clear()
        return parts

    def placed(self, projection: LocalProjection | None, table: TableFormat) -> RefusedPings:
        """The refused rows as pings; x, y and elevation in m."""
        xyz = self.refused_pings.xyz.copy()
        if projection is not None:
            xyz[:, :2] = projection.metres(*_degrees(xyz[:, :2], table).T)
        xyz[:, 2] = _elevation(xyz[:, 2], table.water_level, self.columns, table)
        return replace(self.refused_pings, xyz=xyz)


def read_soundings(path: Path, table: TableFormat = TableFormat()) -> Soundings:
    """Read a table of text in whatever layout (``dialect``), with a header or without.

    Raises:
        InputError: the file cannot be read, lacks a column, has no soundings, or its values
            contradict its columns; the message then spells the option that answers it.
    """
    try:
        rows = _read(path, table)
    except (OSError, csv.Error, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None
    columns = rows.columns
    if not any(len(part[0]) for part in rows.parts):
        refused = +rows.refused
        reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
        hint = ""
        if columns.degrees and refused["impossible_place"]:
            hint = (
                f". If {columns.first}, {columns.second} are northings and eastings: --columns "
                f"x={columns.second} y={columns.first} --crs EPSG:CODE"
            )
        raise InputError(f"{path}: expected soundings, got none ({reasons}){hint}")
    row, place, height, group, stamp_ns = rows.joined()
    decimals = [rows.dialect.decimals[i] for i in rows.places]
    kept = _readings(rows, place, height, stamp_ns)
    row, place, height, group, stamp_ns = (
        part[kept] for part in (row, place, height, group, stamp_ns)
    )
    if not len(row):
        raise InputError(f"{path}: expected soundings, got none ({dict(+rows.refused)})")
    if asked := question(columns, place, height, decimals):
        raise InputError(f"{path}: {asked}")
    level: np.ndarray | float = table.water_level
    if table.levels is not None:
        if not columns.down:
            raise InputError(
                f"{path}: --water-level: expected depths to be counted from a level over time, got "
                f"elevations ({columns.height})"
            )
        level = table.levels.at(stamp_ns)
        known = np.isfinite(level)
        rows.refuse("no_water_level", ~known, stamp_ns, np.column_stack((place, height)))
        row, place, height, group, stamp_ns, level = (
            part[known] for part in (row, place, height, group, stamp_ns, level)
        )
        if not len(row):
            raise InputError(
                f"{path}: expected soundings at the times of --water-level, got none "
                f"({table.levels.said})"
            )
    projection: LocalProjection | None = None
    source = {"columns": asdict(columns), "said": columns.said, "layout": said(rows.dialect)}
    if columns.degrees or table.crs:
        degrees = _degrees(place, table)
        projection = LocalProjection.about(*degrees.T)
        place = projection.metres(*degrees.T)
        source |= projection.georeference
    z = _elevation(height, level, columns, table)
    names = tuple(sorted(rows.codes))
    if names:
        rank = {name: i for i, name in enumerate(names)}
        group = np.array([rank[name] for name in rows.codes])[group]
    else:
        group = row
    stamps = stamp_ns if rows.times else None
    found = Soundings(
        row, place, z, group, names, +rows.refused, rows.placed(projection, table), source,
        projection, stamps, depth=None if table.levels is None else level - z,
    )  # fmt: skip
    found = found.between(table.start, table.stop)
    return found.by_lines() if table.by == LINE and not names else found


def _readings(rows: _Rows, place: np.ndarray, height: np.ndarray, stamps: np.ndarray) -> np.ndarray:
    """Which rows [N] are readings: what instruments write where they have none is refused by name,
    and so are places that cannot be of this survey."""
    kept, found = np.ones(len(height), dtype=bool), np.column_stack((place, height))

    def refuse(reason: str, wrong: np.ndarray) -> None:
        rows.refuse(reason, wrong & kept, stamps, found)
        kept[wrong] = False

    size = np.abs(height)
    bulk = np.quantile(size, 0.99)
    sentinel = np.isin(size, NO_READING)
    one_way = max((height > 0).mean(), (height < 0).mean()) > 0.9
    other_side = np.sign(height) != np.sign(np.median(height))
    # Ordinary among the others is a reading: 9 m in a lake of 12 m, 0 on a shore above the datum.
    if one_way:
        typical = np.quantile(size[~sentinel], 0.99) if (~sentinel).any() else bulk
        refuse("no_reading", (sentinel & (other_side | (size > 2 * typical))) | (height == 0))
    if kept.any():
        deepest = size[kept].max()
        below = size[kept & (size < deepest)]
        repeated = int((size[kept] == deepest).sum())
        if repeated >= LIMIT_COUNT and len(below) and deepest > LIMIT_RATIO * below.max():
            refuse("sonar_limit", size == deepest)
    scale = np.ones(2)
    if rows.columns.degrees:
        scale = DEGREE_M * np.array([1.0, np.cos(np.radians(np.median(place[:, 0])))])
    nowhere = (place == 0).all(1)
    if rows.columns.degrees or np.abs(np.median(place, axis=0)).max() > 1e4:
        elsewhere = np.hypot(*(np.median(place, axis=0) * scale)) > FAR_M
        refuse("null_position", nowhere & elsewhere)
    if kept.sum() >= 20:
        middle = np.median(place[kept], axis=0)
        off = place - middle
        if rows.columns.degrees:
            off[:, 1] = (off[:, 1] + 180) % 360 - 180
        away = np.hypot(*(off * scale).T)
        reach = np.quantile(away[kept], 0.9)
        refuse("far_away", away > max(FAR_TIMES * reach, FAR_M))
    return kept


def _degrees(place: np.ndarray, table: TableFormat) -> np.ndarray:
    """Latitude and longitude [N, 2] of places as the table has them."""
    if not table.crs:
        return place
    found = transformed(coordinate_system("--crs", table.crs), WGS84, place)[:, ::-1]
    known = np.isfinite(place).all(1)
    if not (np.isfinite(found[known]).all() and (np.abs(found[known]) <= (90, 360)).all()):
        raise InputError(
            f"--crs: {table.crs} has no places such as {place[known][0].tolist()}; "
            "expected easting and northing in it"
        )
    return found


def _elevation(
    height: np.ndarray, level: np.ndarray | float, columns: Columns, table: TableFormat
) -> np.ndarray:
    """Of what a table says, elevations or depths [N], in m."""
    unit = UNITS[columns.unit]
    metres = height if unit == 1 else unit * height
    if not columns.down and table.sound_scale == 1:
        return metres  # to the last bit
    under = metres if columns.down else level - metres
    return level - table.sound_scale * under


def _read(path: Path, table: TableFormat) -> _Rows:
    dialect, sample = sniff(path)
    header, by = list(dialect.header), table.by
    given = dict(table.columns)
    if not dialect.named and not set(given) & {"x", "y", "latitude", "longitude", "z", "depth"}:
        given = {**guess(dialect, sample[:SAMPLE], str(path)), **given}
    units = table.units
    if units and units not in UNITS:
        raise InputError(f"--units: expected one of {', '.join(UNITS)}, got '{units}'")
    columns = Columns.of(header, given, str(path), dialect.units, units)
    if not dialect.named:  # what was guessed is questioned like what a header says
        columns = replace(columns, given=tuple(table.columns))
    if by is not None and by not in header:
        if by != LINE:
            raise InputError(
                f"{path}: expected a column '{by}' (--by), got {','.join(header)[:120]}"
            )
        by = None
    wanted = table.start or table.stop or "time" in table.columns or table.levels is not None
    if not wanted:
        columns = replace(columns, time="", date="")  # nobody asks for it
    if table.levels is not None and not columns.time:
        raise InputError(
            f"{path}: --water-level: expected a column of times, got {','.join(header)[:120]}; "
            "name it, as in --columns time=NAME"
        )
    times = tuple(header.index(name) for name in (columns.date, columns.time) if name)
    texts = [" ".join(row[i] for i in times) for row in sample if len(row) > max(times, default=0)]
    rows = _Rows(
        columns,
        dialect,
        None if by is None else header.index(by),
        tuple(header.index(name) for name in columns.names),
        times,
        Times(texts) if times else Times([]),
    )
    if times and rows.clock.ambiguous:
        raise InputError(
            f"{path}: column {columns.time}: {texts[0]} may be day/month or month/day; write times "
            "as year-month-day"
        )
    for chunk in _chunks(dialect.rows(path)):
        rows.add(chunk)
    return rows


def _chunks(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    filled = (row for row in rows if row)  # a blank line is no row
    while chunk := list(islice(filled, CHUNK)):
        yield chunk
