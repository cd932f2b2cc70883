"""Soundings from text tables, read in chunks."""

from __future__ import annotations

import csv
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.errors import InputError, shown
from ..core.reading import MemoryMeter
from ..mapping.soundings import LINE, Labels
from .altitudes import with_altitudes
from .angles import Angles
from .cells import UNITS, Times, angle, number
from .columns import Columns, as_option, guess, unit_in_column, unit_of
from .dialect import Dialect, layout_text, sniff, wide_text
from .no_readings import impossible
from .questions import check_heights, check_unit, question
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
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    memory: MemoryMeter = field(default_factory=MemoryMeter)
    timed: bool = True  # whether rows without a time are refused
    first: str = ""  # row, as text
    scale: float = 1.0  # of x and y, to the metres (or the feet) of their coordinate system

    def add(self, chunk: list[list[str]]) -> None:
        """Parse rows. What is no number, or no time, is NaN, or 0."""
        sides = [at for at in self.angles.columns if at is not None]
        width = 1 + max(*self.places, *sides, *self.times, self.by or 0, *self.labels.values())
        self.memory.add(ROW_BYTES * len(chunk))
        short = [len(row) < width for row in chunk]
        cells = [[] if s else row for row, s in zip(chunk, short, strict=True)]
        nothing = [""] * len(self.places)
        numbers = [[row[i] for i in self.places] if row else nothing for row in cells]
        values = self._numbers(numbers)
        if self.columns.degrees:
            values[:, :2] = self.angles.degrees(values[:, :2], cells)
        else:
            values[:, :2] *= self.scale
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
            stamps, timed = self.clock.stamps(texts)
            timed |= not self.timed
        self.parts.append((values[:, :2], values[:, 2:], groups, stamps, timed, *labels))

    def _coded(self, cells: list[list[str]], at: int, codes: dict[str, int]) -> np.ndarray:
        """The index of each row's text in column ``at``; ``codes``, of texts, grow."""
        before = len(codes)
        names = (row[at].strip() if row else "" for row in cells)
        index = [codes.setdefault(name, len(codes)) for name in names]
        self.memory.add(sum(map(sys.getsizeof, islice(codes, before, None))))
        return np.array(index, dtype=np.int64)

    def _numbers(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        """Values of cells [N, 3 or 4]; NaN if a cell is no number, or no angle in a column of
        angles."""
        comma = self.dialect.comma
        if not comma:
            try:
                return np.array(cells, dtype=float).reshape(len(cells), len(self.places))
            except ValueError:
                pass
        of_place = angle if self.columns.degrees else number
        rows = [
            [of_place(a, comma), of_place(b, comma), *(number(h, comma) for h in heights)]
            for a, b, *heights in cells
        ]
        return np.array(rows).reshape(len(cells), len(self.places))

    def joined(self) -> tuple[np.ndarray, ...]:
        """Place, heights, group, stamp, whether there is one, and labels of all rows so far."""
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
    place, heights, group, stamp_ns, timed, *codes = rows.joined()
    height = heights[:, 0]
    wrong = impossible(place, height, columns.degrees, columns.unit) | {"no_time": ~timed}
    elsewhere = wrong["impossible_place"]
    place[elsewhere] = height[elsewhere] = np.nan
    good = ~np.any(list(wrong.values()), axis=0)
    if columns.altitude and good.any():
        columns, height[good], lost = with_altitudes(
            columns, place[good], height[good], heights[good, 1], str(path), options.sound_scale
        )
        for reason, these in lost.items():
            wrong[reason] = np.zeros(len(good), dtype=bool)
            wrong[reason][good] = these
    labels = {
        name: Labels(code, tuple(rows.values[name]))
        for name, code in zip(rows.labels, codes, strict=True)
    }
    decimals = [rows.dialect.decimals[i] for i in rows.places]
    found = RawSoundings(
        place, height, columns.degrees, columns.down, columns.unit,
        stamp_ns=stamp_ns if rows.times else None, group=group if rows.codes else None,
        names=tuple(rows.codes), labels=labels,
        understood=columns.description + rows.angles.description, layout=layout_text(rows.dialect),
        question=partial(question, columns, decimals=decimals, crs=options.crs),
        source={"columns": asdict(columns)},
    ).without(wrong)  # fmt: skip
    if not good.any():
        raise InputError(_nothing(path, rows, found.refused))
    return found


def _nothing(path: Path, rows: _Rows, refused: Counter[str]) -> str:
    """The message for a table without soundings."""
    columns, hint = rows.columns, ""
    if refused["not_a_number"]:
        hint = f". Its first row: {shown(rows.first, 120)}"
    if columns.degrees and refused["impossible_place"]:
        hint = (
            f". If {columns.first}, {columns.second} are northings and eastings: --columns "
            f"{as_option(x=columns.second, y=columns.first)} --crs EPSG:CODE"
        )
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
    return f"{path}: expected soundings, got none ({reasons}){hint}"


def _read(path: Path, options: ReadOptions) -> _Rows:
    dialect, sample = sniff(path)
    header, by = list(dialect.header), options.by
    columns, in_feet = _find_columns(path, options, dialect, sample)
    if by is not None and by not in header:
        if by != LINE:
            raise InputError(
                f"{path}: expected a column '{by}' (--by), got {','.join(header)[:120]}"
            )
        by = None
    if options.levels is not None and not columns.time:
        raise InputError(
            f"{path}: --water-level: expected a column of times, got {','.join(header)[:120]}; "
            "name it, as in --columns time=NAME"
        )
    columns, times, clock = _find_times(columns, header, sample, options)
    places = tuple(map(header.index, filter(None, (*columns.names, columns.altitude))))
    angles = Angles()
    if columns.degrees:
        angles = Angles.of(header, places[:2], sample, dialect.comma, str(path), dialect.units)
    rows = _Rows(
        columns,
        dialect,
        None if by is None else header.index(by),
        {name: header.index(name) for name in options.labels | {LINE} if name in header},
        places,
        times,
        clock,
        angles,
        memory=MemoryMeter(f"{path}: its content"),
        timed=options.timed,
        first=" | ".join(sample[0]) if sample else "",
        scale=1.0 if in_feet else UNITS[columns.place_unit],
    )
    if times:
        clock.decided(f"{path}: column {columns.time}")
    for chunk in _chunks(_whole(dialect, path)):
        rows.add(chunk)
    if not rows.parts:
        rows.add([])
    return rows


def _find_columns(
    path: Path, options: ReadOptions, dialect: Dialect, sample: list[list[str]]
) -> tuple[Columns, bool]:
    """The columns by header, options and values; and whether x and y count feet, as their
    coordinate system does."""
    header, units, given = list(dialect.header), options.units, dict(options.columns)
    if not dialect.named:
        asked = not set(given) & {"x", "y", "latitude", "longitude", "z", "depth"}
        given = {**guess(dialect, sample[:SAMPLE], str(path), options.near, asked), **given}
    if units and units not in UNITS:
        raise InputError(f"--units: expected one of {', '.join(UNITS)}, got '{units}'")
    columns = Columns.of(header, given, str(path), dialect.units, units)
    if not units and (written := unit_in_column(header, sample, columns.height, str(path))):
        columns, units = replace(columns, unit=written), written
    if not dialect.named:  # a guess is questioned like a header
        columns = replace(columns, given=tuple(options.columns))
    if columns.depth_beside:
        at = [header.index(name) for name in (columns.height, columns.depth_beside)]
        pairs = [
            [number(row[i], dialect.comma) for i in at] for row in sample if len(row) > max(at)
        ]
        check_heights(columns, np.array(pairs).reshape(-1, 2), str(path))
    beside = dialect.units[header.index(columns.height)] if dialect.units else ""
    said_unit = units or unit_of(columns.height) or beside
    return columns, check_unit(str(path), options.crs, columns.height, said_unit)


def _find_times(
    columns: Columns, header: Sequence[str], rows: Sequence[Sequence[str]], options: ReadOptions
) -> tuple[Columns, tuple[int, ...], Times]:
    """The columns, which are of date and time, and how times are read. Times that are unclear are
    ignored where none are needed."""
    at, texts = _times(columns, header, rows)
    clock = Times(texts)
    if columns.date and "date" not in options.columns and not clock.stamps(texts)[1].any():
        columns = replace(columns, date="")  # `day` beside times that have a date
        at, texts = _times(columns, header, rows)
        clock = Times(texts)
    if not options.timed and (clock.ambiguous or not clock.stamps(texts)[1].any()):
        columns, at = replace(columns, time="", date=""), ()
    return columns, at, clock


def _whole(dialect: Dialect, path: Path) -> Iterator[list[str]]:
    """The rows. If the file ends within a line, the last cell of its last row is empty where it has
    fewer decimals than usual: 11 may be left of 112.25."""
    with path.open("rb") as file:
        file.seek(-min(2, path.stat().st_size), os.SEEK_END)
        ended = bool({*b"\r\n"} & {*file.read()})
    last: list[str] | None = None
    for row in dialect.rows(path):
        if last is not None:
            yield last
        last = row
    if not last:
        return
    if not ended and len(last) <= len(dialect.decimals):
        digits = last[-1].strip().partition("," if dialect.comma else ".")[2]
        if len(digits) < dialect.decimals[len(last) - 1]:
            last[-1] = ""
    yield last


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
    return b"\0" not in head or head[:2] in (b"\xff\xfe", b"\xfe\xff") or bool(wide_text(head))
