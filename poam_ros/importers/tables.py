"""Soundings from text tables, read in chunks."""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.reading import MemoryMeter
from ..mapping.soundings import LINE, Labels
from .altitudes import with_altitudes
from .angles import Angles
from .cells import DAY_S, UNITS, Times, angle, is_clock, is_date, is_nothing, number
from .columns import KEEL, Columns, Names, counts_from, unit_in_column
from .dialect import Dialect, sniff
from .look import FEWEST
from .no_readings import impossible, uncertain
from .options import ReadOptions
from .questions import Answer, Sample, Unclear, check_unit, chosen, guessed, is_time
from .raw import RawSoundings
from .track import Track, no_position, over_midnight, spread

#: Rows and cells held as text at a time.
CHUNK, CELLS = 50_000, 1_000_000
ROW_BYTES = 96  # of memory that a row of numbers takes
#: Rows from which the meaning of columns is understood.
SAMPLE = 2000
#: Without times, depths are placed by the numbers of their rows if a larger share has no position.
UNTIMED = 0.2
#: Eastings and northings of most systems are more than this (m).
EASTING = 1000.0
#: Time (s) between tracks that follow each other in a file.
NEW_TRACK = 1e4


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
    first: str = ""  # row, as text
    scale: float = 1.0  # of x and y, to the metres (or the feet) of their coordinate system

    def add(self, chunk: list[list[str]]) -> None:
        """Parse rows. What is no number, or no time, is NaN, or 0; a missing cell is empty."""
        self.memory.add(ROW_BYTES * len(chunk))
        numbers = [[_cell(row, i) for i in self.places] for row in chunk]
        values = self._numbers(numbers)
        if self.columns.degrees:
            values[:, :2] = self.angles.degrees(values[:, :2], chunk)
        else:
            values[:, :2] *= self.scale
        groups = np.zeros(len(chunk), dtype=np.int64)
        if self.by is not None:
            groups = self._coded(chunk, self.by, self.codes)
        labels = [
            self._coded(chunk, at, self.values.setdefault(name, {}))
            for name, at in self.labels.items()
        ]
        stamps, timed = np.zeros(len(chunk), dtype=np.int64), np.ones(len(chunk), dtype=bool)
        if self.times:
            texts = (" ".join(_cell(row, i) for i in self.times) for row in chunk)
            stamps, timed = self.clock.stamps(texts)
        self.parts.append((values[:, :2], values[:, 2:], groups, stamps, timed, *labels))

    def _coded(self, rows: list[list[str]], at: int, codes: dict[str, int]) -> np.ndarray:
        """The index of each row's text in column ``at``; ``codes``, of texts, grow."""
        before = len(codes)
        index = [codes.setdefault(_cell(row, at).strip(), len(codes)) for row in rows]
        self.memory.add(sum(map(sys.getsizeof, islice(codes, before, None))))
        return np.array(index, dtype=np.int64)

    def _numbers(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        """Values of cells [N, places]; NaN if a cell is no number, or no angle in a column of
        angles."""
        comma = self.dialect.comma
        if not comma:
            try:
                return np.array(cells, dtype=float).reshape(len(cells), len(self.places))
            except ValueError:
                pass
        of_place = angle if self.columns.degrees else number
        units = self.columns.units
        rows = [
            [of_place(a, comma), of_place(b, comma),
             *(number(h, comma, unit) for h, unit in zip(heights, units, strict=True))]
            for a, b, *heights in cells
        ]  # fmt: skip
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
            its columns is unclear.
    """
    try:
        dialect, _ = sniff(path)
        return soundings_of(path, options, dialect, lambda: dialect.rows(path))
    except (OSError, csv.Error, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None


def soundings_of(
    path: Path, options: ReadOptions, dialect: Dialect, cells: Callable[[], Iterator[list[str]]],
    crs: str = "",
) -> RawSoundings:  # fmt: skip
    """Soundings from the rows of a table.

    Args:
        path: start of error messages.
        options: how it is read.
        dialect: of the table, with its header.
        cells: gives its rows from the first, as texts.
        crs: of x and y, as the file says it; empty: unknown.

    Raises:
        Unclear: names or values leave open what columns mean.
        InputError: there is no such column, or no sounding.
    """
    rows = _read(path, options, dialect, cells, options.crs or crs)
    columns = rows.columns
    place, heights, group, stamp_ns, timed, *codes = rows.joined()
    timed &= bool(rows.times)
    if timed.any() and stamp_ns.max() <= DAY_S * SECOND:  # a clock without dates
        stamp_ns[timed] = np.round(SECOND * over_midnight(stamp_ns[timed] / SECOND))
    height, wrong = heights[:, 0], {"no_time": ~timed & (options.timed and bool(rows.times))}
    unplaced = no_position(place, columns.degrees)
    lost = unplaced & np.isfinite(height)
    fixed = bool(
        not unplaced.all()
        and (lost.any() if timed.any() else lost.sum() > max(UNTIMED * len(lost), FEWEST))
    )
    if fixed:
        place, refused = _placed(path, place, unplaced, stamp_ns, timed, columns)
        wrong |= {reason: these & np.isfinite(height) for reason, these in refused.items()}
    wrong |= impossible(place, height, columns.degrees, columns.unit)
    elsewhere = wrong["impossible_place"]
    flat = bool(elsewhere.any() and (np.abs(place[elsewhere]) > EASTING).all())
    place[elsewhere] = height[elsewhere] = np.nan
    if columns.confidence:
        sure = heights[:, -1]
        wrong["low_confidence"], note = uncertain(sure, options.min_confidence)
        columns = replace(columns, note=columns.note + note.format(columns.confidence))
    good = ~np.any(list(wrong.values()), axis=0)
    if columns.altitude and good.any():
        columns, height[good], lost = with_altitudes(
            columns, place[good], height[good], heights[good, 1], str(path), options.sound_scale
        )
        for reason, these in lost.items():
            wrong[reason] = np.zeros(len(good), dtype=bool)
            wrong[reason][good] = these
    if columns.down and good.any() and (height[good] < 0).mean() > 0.95:
        height = -height
        columns = replace(columns, note=f"{columns.note}, with a minus sign")
    if columns.down and counts_from(columns.height) == KEEL:
        height = height + options.keel / UNITS[columns.unit]
    labels = {
        name: Labels(code, tuple(rows.values[name]))
        for name, code in zip(rows.labels, codes, strict=True)
    }
    found = RawSoundings(
        place, height, columns.degrees, columns.down, columns.unit,
        stamp_ns=stamp_ns if timed.any() else None, group=group if rows.codes else None,
        names=tuple(rows.codes), labels=labels, columns=columns.meanings,
        understood=columns.description + rows.angles.description, fixed=fixed,
        crs=crs, layout=dialect.description, source={"columns": asdict(columns)},
    ).without(wrong)  # fmt: skip
    if not good.any():
        raise _nothing(path, rows, found.refused, flat)
    return found


def _placed(
    path: Path, place: np.ndarray, unplaced: np.ndarray, stamp_ns: np.ndarray, timed: np.ndarray,
    columns: Columns,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:  # fmt: skip
    """Places of all rows [N, 2], those without a position between the positions around them; and
    which of these are refused, by reason."""
    at, seconds = np.arange(len(place), dtype=float), np.full(len(place), np.nan)
    if timed.any():
        # Where times go back, as where a second day follows, the track begins anew.
        at = spread(np.interp(at, at[timed], stamp_ns[timed] / SECOND))
        back = np.minimum(np.diff(at, prepend=at[0]), 0)
        at = seconds = at + np.cumsum(np.where(back < -1, NEW_TRACK, 0) - back)
    known = ~unplaced
    track = Track.of(str(path), seconds[known], place[known], columns.degrees, at[known])
    return np.where(unplaced[:, None], track.places(at), place), track.refused(at)


def _nothing(path: Path, rows: _Rows, refused: Counter[str], flat: bool) -> InputError:
    """The error for a table without soundings; ``flat``: its places may be in metres."""
    columns = rows.columns
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
    text = f"{path}: expected soundings, got none ({reasons})"
    if columns.degrees and refused["impossible_place"]:
        turned = {"x": columns.second, "y": columns.first}
        answer = Answer("if they are northings and eastings (--crs EPSG:N says of which system)",
                        {"columns": turned})  # fmt: skip
        return Unclear(
            f"{text}. Expected latitudes and longitudes in degrees, or in degrees, minutes and "
            "seconds with blanks or signs between them", [answer] * flat,
        )  # fmt: skip
    if refused["not_a_number"]:
        text += f". Its first row: {shown(rows.first, 120)}"
    return InputError(text)


def _read(
    path: Path, options: ReadOptions, dialect: Dialect, cells: Callable[[], Iterator[list[str]]],
    crs: str,
) -> _Rows:  # fmt: skip
    """Understand the first rows, and read all. Arguments as of ``soundings_of``."""
    head = list(islice(cells(), SAMPLE))
    header, by = list(dialect.header), options.by
    columns, in_feet = _find_columns(path, options, dialect, head, crs, cells)
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
    columns, times, clock = _find_times(columns, header, head, options)
    places = tuple(map(header.index, columns.names))
    angles = Angles()
    if columns.degrees:
        angles = Angles.of(header, places[:2], head, dialect.comma, str(path), dialect.units)
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
        first=" | ".join(head[0]) if head else "",
        scale=1.0 if in_feet else UNITS[columns.place_unit],
    )
    if times:
        clock.decided(f"{path}: column {columns.time}")
    for chunk in _chunks(cells()):
        rows.add(chunk)
    if not rows.parts:
        rows.add([])
    return rows


def sampled(
    dialect: Dialect, rows: Sequence[Sequence[str]], near: tuple[float, float] | None = None
) -> Sample:
    """The values of the first rows, by column."""
    times, values = dict[str, str](), dict[str, np.ndarray]()
    for i, name in enumerate(dialect.header):
        cells = [text for row in rows if not is_nothing(text := _cell(row, i))]
        most = 0.9 * len(cells)
        if cells and sum(map(is_clock, cells)) > most:
            times.setdefault("time", name)
        elif cells and sum(map(is_date, cells)) > most:
            times.setdefault("date", name)
        else:
            values[name] = np.array([_value(_cell(row, i), dialect.comma) for row in rows])
            if values[name].size and is_time(values[name]):
                times.setdefault("time", name)
    if "date" in times and "time" not in times:
        times["time"] = times.pop("date")
    mark = "," if dialect.comma else "."
    decimals = {
        name: max((len(_cell(row, i).strip().partition(mark)[2]) for row in rows), default=0)
        for i, name in enumerate(dialect.header)
    }
    return Sample(values, decimals, times, near)


def _value(cell: str, comma: bool) -> float:
    """The number or the angle in a cell; NaN without one."""
    if is_nothing(cell):
        return np.nan
    found = angle(cell, comma)
    return number(cell, comma) if found != found else found


def _find_columns(
    path: Path, options: ReadOptions, dialect: Dialect, head: list[list[str]], crs: str,
    cells: Callable[[], Iterator[list[str]]],
) -> tuple[Columns, bool]:  # fmt: skip
    """The columns by header, options and values; and whether x and y count feet, as their
    coordinate system does."""
    header, units, given = list(dialect.header), options.units, dict(options.columns)
    if units and units not in UNITS:
        raise InputError(f"--units: expected one of {', '.join(UNITS)}, got '{units}'")
    names = Names.of(header, given, str(path), dialect.units)
    if len(names.places) != 1 or len(names.heights) != 1:  # the values of the whole file decide
        head = head + _thinned(cells())
    sample = sampled(dialect, head, options.near)
    names = Names.of(header, given, str(path), dialect.units)
    if not dialect.named:
        found = sample.times if names.places or names.heights else guessed(sample)
        given = {**{m: n for m, n in found.items() if n not in given.values()}, **given}
        names = Names.of(header, given, str(path), dialect.units)
    columns = chosen(names, sample, str(path))
    written = unit_in_column(header, head, columns.height, str(path))
    said = units or written or names.units.get(columns.height, "")
    columns = replace(columns, unit=said or "m", given=tuple(options.columns))
    return columns, check_unit(str(path), "" if columns.degrees else crs, columns.height, said)


def _find_times(
    columns: Columns, header: Sequence[str], rows: Sequence[Sequence[str]], options: ReadOptions
) -> tuple[Columns, tuple[int, ...], Times]:
    """The columns, which are of date and time, and how times are read. Times that are unclear are
    ignored where none are needed."""
    if columns.date and not columns.time:
        columns = replace(columns, time=columns.date, date="")
    at, texts = _times(columns, header, rows)
    clock = Times(texts)
    if columns.date and "date" not in options.columns and not clock.stamps(texts)[1].any():
        columns = replace(columns, date="")  # `day` beside times that have a date
        at, texts = _times(columns, header, rows)
        clock = Times(texts)
    if not options.timed and (clock.ambiguous or not clock.stamps(texts)[1].any()):
        columns, at = replace(columns, time="", date=""), ()
    return columns, at, clock


def _times(
    columns: Columns, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[tuple[int, ...], list[str]]:
    """The columns of date and time, and the texts in them."""
    at = tuple(header.index(name) for name in (columns.date, columns.time) if name)
    return at, [" ".join(_cell(row, i) for i in at) for row in rows if at]


def _thinned(rows: Iterator[list[str]]) -> list[list[str]]:
    """Rows from the whole of a table, up to some thousand."""
    kept, step = list[list[str]](), 1
    for at, row in enumerate(rows):
        if at % step == 0:
            kept.append(row)
        if len(kept) > 3 * SAMPLE:
            kept, step = kept[::3], 3 * step
    return kept


def _cell(row: Sequence[str], at: int) -> str:
    """A cell, empty where a row omits its last ones."""
    return row[at] if at < len(row) else ""


def _chunks(rows: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    chunk: list[list[str]] = []
    cells = 0
    for row in rows:
        chunk.append(row)
        cells += len(row)
        if len(chunk) == CHUNK or cells >= CELLS:
            yield chunk
            chunk, cells = [], 0
    if chunk:
        yield chunk
