"""Soundings from text tables, read in chunks, and from points in GIS files."""

from __future__ import annotations

import csv
import re
import sqlite3
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, requires_extra
from ..core.files import UNREADABLE
from ..core.geodesy import is_in_feet
from ..core.geometry import MAX_COORDINATE
from ..core.reading import MemoryMeter, refuse_large_dataset
from ..frontend.placing import MAX_ELEVATION
from ..frontend.refused_pings import RefusedPings
from ..mapping.soundings import LINE, Labels
from .angles import Angles
from .columns import MEANINGS, Columns, guess, unit_of
from .dialect import UNITS, Dialect, Times, angle, number, said, sniff
from .questions import check_heights, question
from .raw import RawSoundings, ReadOptions

#: Rows and cells held as text at a time.
CHUNK, CELLS = 50_000, 1_000_000
ROW_BYTES = 96  # of memory that a row of numbers takes
#: Rows from which the meaning of columns without a header is guessed.
SAMPLE = 1000


@dataclass
class _Rows:
    """Rows read so far."""

    columns: Columns
    dialect: Dialect
    by: int | None
    labels: dict[str, int]
    places: tuple[int, ...]
    times: tuple[int, ...]
    clock: Times
    angles: Angles
    codes: dict[str, int] = field(default_factory=dict)
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    refused_pings: RefusedPings = field(default_factory=RefusedPings.none)
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    rows: int = 0
    memory: MemoryMeter = field(default_factory=MemoryMeter)

    def add(self, chunk: list[list[str]]) -> None:
        """Parse rows; keep those that are soundings."""
        places = self.places + (self.angles.sides or ())
        width = 1 + max(*places, *self.times, self.by or 0, *self.labels.values())
        self.memory.add(ROW_BYTES * len(chunk))
        short = [len(row) < width for row in chunk]
        cells = [[] if s else row for row, s in zip(chunk, short, strict=True)]
        numbers = [[row[i] for i in self.places] if row else [""] * 3 for row in cells]
        values = self._numbers(numbers)
        if self.columns.degrees:
            values[:, :2] = self.angles.degrees(values[:, :2], cells)
        groups = np.zeros(len(chunk), dtype=np.int64)
        if self.by is not None:
            groups = self._coded(cells, self.by, self.codes)
        labels = [
            self._coded(cells, at, self.values.setdefault(name, {}))
            for name, at in self.labels.items()
        ]
        stamps, timed = np.zeros(len(chunk), dtype=np.int64), np.ones(len(chunk), dtype=bool)
        if self.times:
            texts = (" ".join(row[i] for i in self.times) if row else "" for row in cells)
            seconds = np.array([self.clock.seconds(text) for text in texts])
            timed = np.isfinite(seconds)
            stamps[timed] = np.round(1e9 * seconds[timed])
        kept = self._judge(values, timed, stamps)
        row = self.rows + np.flatnonzero(kept)
        columns = (values[:, :2], values[:, 2], groups, stamps, *labels)
        self.parts.append((row, *(column[kept] for column in columns)))
        self.rows += len(chunk)

    def _coded(self, cells: list[list[str]], at: int, codes: dict[str, int]) -> np.ndarray:
        """The index of each row's text in column ``at``; ``codes``, of texts, grow."""
        before = len(codes)
        names = (row[at].strip() if row else "" for row in cells)
        index = [codes.setdefault(name, len(codes)) for name in names]
        self.memory.add(sum(map(sys.getsizeof, islice(codes, before, None))))
        return np.array(index, dtype=np.int64)

    def refuse(self, reason: str, wrong: np.ndarray, stamps: np.ndarray, found: np.ndarray) -> None:
        """Count rows [N] as refused, and keep the newest of them as in the table [N, 3]."""
        if wrong.any():
            self.refused[reason] += int(wrong.sum())
            self.refused_pings = self.refused_pings.more(reason, stamps[wrong], found[wrong])

    def _judge(self, values: np.ndarray, timed: np.ndarray, stamps: np.ndarray) -> np.ndarray:
        """Which rows [N, 3] are soundings that have a time; boolean [N]."""
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
        """Values of cells [N, 3]; NaN if a cell is no number, or no angle in a column of angles."""
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
        """Row, place, height, group, stamp and labels of all soundings so far."""
        parts = tuple(np.concatenate(parts) for parts in zip(*self.parts, strict=True))
        self.parts.clear()
        return parts


def read_table(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a text table of any layout (``dialect``), with or without a header.

    Raises:
        InputError: the file cannot be read, lacks a column, has no soundings, or the meaning of
            its columns is unclear; the message then gives the option that decides.
    """
    try:
        rows = _read(path, options)
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
    row, place, height, group, stamp_ns, *codes = rows.joined()
    labels = {
        name: Labels(code, tuple(rows.values[name]))
        for name, code in zip(rows.labels, codes, strict=True)
    }
    decimals = [rows.dialect.decimals[i] for i in rows.places]
    return RawSoundings(
        place, height, columns.degrees, columns.down, columns.unit, "",
        stamp_ns if rows.times else None, row, group if rows.codes else None, tuple(rows.codes),
        labels, columns.said + rows.angles.said, said(rows.dialect), +rows.refused,
        rows.refused_pings, partial(question, columns, decimals=decimals),
        {"columns": asdict(columns)},
    )  # fmt: skip


def _read(path: Path, options: ReadOptions) -> _Rows:
    dialect, sample = sniff(path)
    header, by = list(dialect.header), options.by
    given = dict(options.columns)
    if not dialect.named:
        asked = not set(given) & {"x", "y", "latitude", "longitude", "z", "depth"}
        given = {**guess(dialect, sample[:SAMPLE], str(path), options.near, asked), **given}
    units = options.units
    if units and units not in UNITS:
        raise InputError(f"--units: expected one of {', '.join(UNITS)}, got '{units}'")
    columns = Columns.of(header, given, str(path), dialect.units, units)
    if not dialect.named:  # a guess is questioned like a header
        columns = replace(columns, given=tuple(options.columns))
    if columns.depth_beside:
        at = [header.index(name) for name in (columns.height, columns.depth_beside)]
        pairs = [
            [number(row[i], dialect.comma) for i in at] for row in sample if len(row) > max(at)
        ]
        check_heights(columns, np.array(pairs), str(path))
    beside = dialect.units[header.index(columns.height)] if dialect.units else ""
    said_unit = units or unit_of(columns.height) or beside
    if options.crs and not said_unit and is_in_feet("--crs", options.crs):
        raise InputError(
            f"{path}: {options.crs} is in feet, and column {columns.height} does not say its unit. "
            "If it is in feet, too: --units ft; if not: --units m"
        )
    if by is not None and by not in header:
        if by != LINE:
            raise InputError(
                f"{path}: expected a column '{by}' (--by), got {','.join(header)[:120]}"
            )
        by = None
    labels = {name: header.index(name) for name in options.labels | {LINE} if name in header}
    wanted = (
        options.start or options.stop or "time" in options.columns or options.levels is not None
        or options.times
    )  # fmt: skip
    if not wanted:
        columns = replace(columns, time="", date="")  # not needed
    if options.levels is not None and not columns.time:
        raise InputError(
            f"{path}: --water-level: expected a column of times, got {','.join(header)[:120]}; "
            "name it, as in --columns time=NAME"
        )
    times, texts = _times(columns, header, sample)
    clock = Times(texts)
    dated = np.isfinite([clock.seconds(text) for text in texts]).any()
    if columns.date and "date" not in options.columns and not dated:
        columns = replace(columns, date="")  # `day` beside times that have a date
        times, texts = _times(columns, header, sample)
        clock = Times(texts)
    places = tuple(header.index(name) for name in columns.names)
    angles = Angles()
    if columns.degrees:
        angles = Angles.of(header, places[:2], sample, dialect.comma, str(path))
    rows = _Rows(
        columns,
        dialect,
        None if by is None else header.index(by),
        labels,
        places,
        times,
        clock,
        angles,
        memory=MemoryMeter(f"{path}: its content"),
    )
    if times and rows.clock.ambiguous:
        raise InputError(
            f"{path}: column {columns.time}: {texts[0]} may be day/month or month/day; write times "
            "as year-month-day"
        )
    for chunk in _chunks(dialect.rows(path)):
        rows.add(chunk)
    return rows


def _times(
    columns: Columns, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[int, ...], list[str]]:
    """The columns of date and time, and the texts in them."""
    at = tuple(header.index(name) for name in (columns.date, columns.time) if name)
    return at, [" ".join(row[i] for i in at) for row in rows if at and len(row) > max(at)]


def _chunks(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    chunk: list[list[str]] = []
    cells = 0
    for row in filter(None, rows):  # a blank line is no row
        chunk.append(row)
        cells += len(row)
        if len(chunk) == CHUNK or cells >= CELLS:
            yield chunk
            chunk, cells = [], 0
    if chunk:
        yield chunk


def is_table(path: Path, head: bytes) -> bool:
    """Whether a file may be a table, which is text."""
    return b"\0" not in head or head[:2] in (b"\xff\xfe", b"\xfe\xff")


#: Endings of files of points. (A GeoPackage has its signature at byte 68.)
FEATURE_FILES = (".gpx", ".geojson", ".gpkg", ".shp", ".fgb", ".kml")
MULTIPOINT, POINT = 4, 1
#: Attributes that repeat what a point's geometry says.
MEANINGS_OF_PLACE = {name for m in ("x", "y", "latitude", "longitude") for name in MEANINGS[m]}


def is_features(path: Path, head: bytes) -> bool:
    """Whether a file is a GIS file."""
    begin = head[:2000].lstrip()
    return (
        path.suffix.lower() in FEATURE_FILES
        or head[68:72] == b"GPKG"
        or (begin.startswith(b"<?xml") and b"<gpx" in begin)
        or (begin.startswith(b"{") and b"Feature" in begin)
    )


def read_features(path: Path, options: ReadOptions) -> RawSoundings:
    """Read the points of the first layer that has depths: in an attribute, found like a table's
    column, or else as the points' third coordinate.

    Raises:
        InputError: the file cannot be read, has no such points, or pyogrio is not installed.
    """
    with requires_extra(f"{path}: points in this format", "pyogrio"):
        from pyogrio import list_layers, raw
        from pyogrio.errors import DataLayerError, DataSourceError, GeometryError
    if not path.exists():
        raise InputError(f"{path}: cannot be read (No such file or directory)")
    first: InputError | None = None
    said: list[str] = []
    try:
        refuse_large_dataset(path)
        layers = [str(name) for name in list_layers(path)[:, 0]]
        for layer in layers:
            meta, _, geometries, columns = raw.read(path, layer=layer)
            points = [_point(bytes(data)) if data else None for data in geometries]
            said.append(f"{layer}: {len(points)} features, {', '.join(meta['fields'])[:120]}")
            if any(point is not None for point in points):
                try:
                    return _features(path, options, meta, points, columns)
                except InputError as error:
                    first = first or error
    except (*UNREADABLE, DataSourceError, DataLayerError, GeometryError, sqlite3.Error) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: expected points with depths ({reason})") from None
    if first is not None:
        raise first
    raise InputError(f"{path}: expected points with depths, got none ({'; '.join(said)})")


def _point(data: bytes) -> tuple[float, float, float] | None:
    """x, y, z of a point in well-known binary, with z NaN if absent; None if it is no point."""
    order = "<" if data[0] else ">"
    (kind,) = struct.unpack_from(f"{order}I", data, 1)
    if kind % 1000 == MULTIPOINT and struct.unpack_from(f"{order}I", data, 5) == (1,):
        return _point(data[9:])
    if kind & 0x1FFFFFFF not in (POINT, 1000 + POINT, 2000 + POINT, 3000 + POINT):
        return None
    high = kind & 0x80000000 or kind & 0x1FFFFFFF in (1000 + POINT, 3000 + POINT)
    values = struct.unpack_from(f"{order}{3 if high else 2}d", data, 5)
    return values if len(values) == 3 else (*values, np.nan)


def _features(
    path: Path, options: ReadOptions, meta: Mapping[str, Any],
    points: list[tuple[float, float, float] | None], values: list[np.ndarray],
) -> RawSoundings:  # fmt: skip
    """The soundings of a layer: its description, points and attributes as pyogrio reads them."""
    with requires_extra(f"{path}: its coordinates", "pyproj"):
        from pyproj import CRS
    crs = CRS.from_user_input(meta["crs"]) if meta["crs"] else None
    degrees = crs is not None and crs.to_epsg() == 4326
    nowhere = (np.nan, np.nan, np.nan)
    xyz = np.array([nowhere if point is None else point for point in points])
    names = ("longitude", "latitude") if degrees else ("x", "y")
    fields = {str(name): each for name, each in zip(meta["fields"], values, strict=True)}
    own = {name: each for name, each in fields.items() if name.lower() not in MEANINGS_OF_PLACE}
    if np.isfinite(xyz[:, 2]).any() and xyz[:, 2].any() and "z" not in own:
        own["z"] = xyz[:, 2]
    columns = Columns.of([*names, *own], options.columns, str(path), (), options.units)
    columns = replace(columns, given=(*names, *options.columns))
    height = np.array([_value(cell) for cell in own[columns.height].tolist()])
    if columns.depth_beside:
        depth = [_value(cell) for cell in own[columns.depth_beside].tolist()]
        check_heights(columns, np.column_stack((height, depth)), str(path))
    stamps = None
    if columns.time and columns.time in own:
        texts = [str(cell) for cell in own[columns.time].tolist()]
        times = Times(texts[:SAMPLE])
        seconds = np.array([times.seconds(text) for text in texts])
        stamps = np.round(np.nan_to_num(seconds) * 1e9).astype(np.int64)
    found = RawSoundings(
        xyz[:, 1::-1] if degrees else xyz[:, :2], height, degrees, columns.down, columns.unit,
        "" if degrees or crs is None else str(meta["crs"]), stamps, said=columns.said,
        layout=f"points of {path.suffix[1:] or 'a GIS'}", source={"columns": asdict(columns)},
        question=partial(question, columns, decimals=(7, 7, 2)),
    )  # fmt: skip
    labels = {}
    for name in options.labels | {LINE}:
        if name in fields:
            values_of, code = np.unique([str(c) for c in fields[name]], return_inverse=True)
            labels[name] = Labels(code, tuple(map(str, values_of)))
    found = replace(found, labels=labels)
    wrong = {"no_point": np.array([point is None for point in points])}
    if stamps is not None and (
        options.start or options.stop or options.levels is not None or options.times
    ):
        wrong["no_time"] = ~np.isfinite(seconds)
    return found.without(wrong)


def _value(cell: Any) -> float:
    """A number, or the depth in the XML of a GPX extension."""
    if isinstance(cell, str):
        inside = re.search(r"depth>\s*([-+\d.eE]+)\s*<", cell, re.IGNORECASE)
        cell = inside.group(1) if inside else cell
        return number(cell, "," in cell)
    return np.nan if cell is None else float(cell)
