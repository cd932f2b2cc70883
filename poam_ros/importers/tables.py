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
from .cells import DAY_S, UNITS, Angles, Times, angle, is_clock, is_date, is_nothing, number
from .columns import KEEL, Columns, Names, counts_from, unit_in_column
from .dialect import Dialect, sniff
from .faults import far_away, impossible, spread, uncertain
from .look import FEWEST, one_group, swapped
from .options import Answer, ReadOptions, Unclear
from .questions import Sample, check_unit, chosen, is_time
from .raw import RawSoundings
from .track import NO_FIX, Track, no_position, over_midnight, with_altitudes

#: Rows and cells held as text at a time.
CHUNK, CELLS = 50_000, 1_000_000
ROW_BYTES = 96  # of memory that a row of numbers takes
#: Rows from which the meaning of columns is understood, and of those the rows that follow each
#: other in the rest of a file.
SAMPLE, BLOCK = 2000, 50
#: Without times, depths are placed by the numbers of their rows if a larger share has no position.
UNTIMED = 0.2
#: Northings and eastings are more than degrees times 100, as packed minutes are (m).
PACKED = 9060.0, 18_060.0
#: Time (s) between tracks that follow each other in a file.
NEW_TRACK = 1e4
TIME = "{:.0f}-{:02.0f}-{:02.0f} {:02.0f}:{:02.0f}:{:06.3f}"
#: Least and largest year, month, day, hour, minute and second.
CALENDAR = np.array([[1970, 2100], [1, 12], [1, 31], [0, 23], [0, 59], [0, 60.999]])

Cells = Callable[[], Iterator[list[str]]]


@dataclass
class _Rows:
    """Rows read so far. ``labels``: the columns whose texts are kept, by name; ``places`` and
    ``times``: those of numbers and of times; ``scale``: of x and y, to the metres (or the feet) of
    their coordinate system."""

    columns: Columns
    comma: bool
    labels: dict[str, int]
    places: tuple[int, ...]
    times: tuple[int, ...]
    clock: Times
    angles: Angles
    memory: MemoryMeter
    scale: float = 1.0
    first: str = ""  # row, as text
    values: dict[str, dict[str, int]] = field(default_factory=dict)
    parts: list[tuple[np.ndarray, ...]] = field(default_factory=list)

    def add(self, chunk: list[list[str]]) -> None:
        """Parse rows. What is no number, or no time, is NaN, or 0; a missing cell is empty."""
        self.memory.add(ROW_BYTES * len(chunk))
        values = self._numbers([[_cell(row, i) for i in self.places] for row in chunk])
        if self.columns.degrees:
            values[:, :2] = self.angles.degrees(values[:, :2], chunk)
        else:
            values[:, :2] *= self.scale
        labels = [self._coded(chunk, name, at) for name, at in self.labels.items()]
        stamps, timed = np.zeros(len(chunk), dtype=np.int64), np.zeros(len(chunk), dtype=bool)
        if self.times:
            stamps, timed = self.clock.stamps(_joined(chunk, self.times))
        self.parts.append((values[:, :2], values[:, 2:], stamps, timed, *labels))

    def _coded(self, rows: list[list[str]], name: str, at: int) -> np.ndarray:
        """The index of each row's text in column ``at`` among its distinct texts, which grow."""
        codes = self.values.setdefault(name, {})
        before = len(codes)
        index = [codes.setdefault(_cell(row, at).strip(), len(codes)) for row in rows]
        self.memory.add(sum(map(sys.getsizeof, islice(codes, before, None))))
        return np.array(index, dtype=np.int64)

    def _numbers(self, cells: Sequence[Sequence[str]]) -> np.ndarray:
        """Values of cells [N, places]; NaN if a cell is no number, or no angle in a column of
        angles."""
        if not self.comma:
            try:
                return np.array(cells, dtype=float).reshape(len(cells), len(self.places))
            except ValueError:
                pass
        of_place = angle if self.columns.degrees else number
        units = self.columns.units
        rows = [
            [of_place(a, self.comma), of_place(b, self.comma),
             *(number(h, self.comma, unit) for h, unit in zip(heights, units, strict=True))]
            for a, b, *heights in cells
        ]  # fmt: skip
        return np.array(rows).reshape(len(cells), len(self.places))

    def joined(self) -> tuple[np.ndarray, ...]:
        """Place, heights, stamp, whether there is one, and labels of all rows so far."""
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


def of_rows(
    path: Path, options: ReadOptions, header: Sequence[str], rows: Sequence[list[str]], kind: str,
    crs: str = "", refused: Counter[str] | None = None,
) -> RawSoundings:  # fmt: skip
    """Soundings from a table that another kind of file was made. ``kind``: of file, in words; the
    other arguments as of ``soundings_of``."""
    dialect = Dialect("", None, False, 0, tuple(header), True, kind=kind)
    return soundings_of(path, options, dialect, lambda: iter(rows), crs, refused)


def soundings_of(
    path: Path, options: ReadOptions, dialect: Dialect, cells: Cells, crs: str = "",
    refused: Counter[str] | None = None,
) -> RawSoundings:  # fmt: skip
    """Soundings from the rows of a table.

    Args:
        path: start of error messages.
        options: how it is read.
        dialect: of the table, with its header.
        cells: gives its rows from the first, as texts.
        crs: of x and y, as the file says it; empty: unknown.
        refused: what is left out already, by reason.

    Raises:
        Unclear: names or values leave open what columns mean.
        InputError: there is no such column, or no sounding.
    """
    dialect, cells = _with_times(dialect, cells)
    rows = _read(path, options, dialect, cells, options.crs or crs)
    columns = rows.columns
    place, heights, stamp_ns, timed, *codes = rows.joined()
    if timed.any() and stamp_ns.max() <= DAY_S * SECOND:  # a clock without dates
        stamp_ns[timed] = np.round(SECOND * over_midnight(stamp_ns[timed] / SECOND))
    height, row, wrong = heights[:, 0], np.arange(len(place)), dict[str, np.ndarray]()
    unplaced = no_position(place, columns.degrees)
    if unplaced.all() and (place == 0).any():
        raise InputError(f"{path}: {NO_FIX}")
    lost = unplaced & np.isfinite(height)
    fixed = bool(
        not unplaced.all()
        and (lost.any() if timed.any() else lost.sum() > max(UNTIMED * len(lost), FEWEST))
    )
    if fixed:
        unplaced |= far_away(place, ~unplaced, columns.degrees, options.near)
        if columns.degrees and not options.trusted:
            one_group(str(path), place[~unplaced])
        place, outside = _placed(path, place, unplaced, stamp_ns, timed, columns)
        # Rows of a position alone are no soundings.
        row = np.flatnonzero(np.isfinite(height))
        place, heights, height, stamp_ns, timed = (
            each[row] for each in (place, heights, height, stamp_ns, timed)
        )
        wrong = {name: every[row] for name, every in outside.items()}
        codes = [code[row] for code in codes]
    wrong["no_time"] = ~timed & (options.timed and bool(rows.times))
    wrong |= impossible(place, height, columns.degrees, columns.unit)
    elsewhere = wrong["impossible_place"]
    lost_places = np.abs(place[elsewhere])
    place[elsewhere] = height[elsewhere] = np.nan
    if columns.confidence:
        wrong["low_confidence"], note = uncertain(heights[:, -1], options.min_confidence)
        columns = replace(columns, note=columns.note + note.format(columns.confidence))
    good = ~np.any(list(wrong.values()), axis=0)
    if columns.altitude and good.any():
        columns, height[good], lost = with_altitudes(
            columns, place[good], height[good], heights[good, 1], str(path), options.sound_scale
        )
        wrong["no_reading"] = np.zeros(len(good), dtype=bool)
        wrong["no_reading"][good] = lost
    if columns.down and good.any() and (height[good] < 0).mean() > 0.95:
        height = -height
        columns = replace(columns, note=f"{columns.note}, with a minus sign")
    if columns.down:
        height = height + _keel(path, columns, options) / UNITS[columns.unit]
    labels = {
        name: Labels(code, tuple(rows.values[name]))
        for name, code in zip(rows.labels, codes, strict=True)
    }
    found = RawSoundings(
        place, height, columns.degrees, columns.down, columns.unit, crs,
        columns.place_unit or "m" * bool(crs), stamp_ns if timed.any() else None, row, labels,
        columns=columns.meanings, fixed=fixed, unit_said=columns.unit_said,
        understood=columns.description + rows.angles.description, refused=refused or Counter(),
        layout=dialect.description, source={"columns": asdict(columns)},
    ).without(wrong)  # fmt: skip
    if not good.any():
        raise _nothing(path, rows, found.lost, lost_places)
    return found


def _with_times(dialect: Dialect, cells: Cells) -> tuple[Dialect, Cells]:
    """A table whose times are written as year, month, day, hour, minute and second in columns of
    their own, with the time in the first of these; any other as it is."""
    width = len(dialect.header)
    rows = [row[:width] for row in islice(cells(), BLOCK) if len(row) >= width]
    head = np.array([[number(cell, dialect.comma) for cell in row] for row in rows])
    if head.ndim != 2 or len(head) < FEWEST:
        return dialect, cells
    whole = (head >= CALENDAR[:, :1, None]) & (head <= CALENDAR[:, 1:, None])
    whole[:5] &= head == np.floor(head)
    fits: np.ndarray = np.all(whole, axis=1)  # [6, columns]
    ends = range(head.shape[1] - len(CALENDAR) + 1)
    at = next((i for i in ends if all(fits[k, i + k] for k in range(len(CALENDAR)))), None)
    if at is None:
        return dialect, cells
    own = slice(at, at + len(CALENDAR))

    def joined() -> Iterator[list[str]]:
        for row in cells():
            parts = [number(cell, dialect.comma) for cell in row[own]]
            time = "" if np.isnan(parts).any() else TIME.format(*parts)
            yield [*row[:at], time, *[""] * (len(parts) - 1), *row[own.stop :]]

    header = list(dialect.header)
    if dialect.named:
        header[at] = "time"
    return replace(dialect, header=tuple(header)), joined


def _keel(path: Path, columns: Columns, options: ReadOptions) -> float:
    """The depth of the keel if depths count from it, in m.

    Raises:
        InputError: --keel or --draught is given, and does not apply.
    """
    below_keel = counts_from(columns.height) == KEEL
    for option, value, right in (
        ("keel", options.keel, below_keel), ("draught", options.draught, not below_keel),
    ):  # fmt: skip
        if value and not right:
            raise InputError(f"{path}: --{option}: does not apply to depths of {columns.height}")
    return options.keel


def _placed(
    path: Path, place: np.ndarray, unplaced: np.ndarray, stamp_ns: np.ndarray, timed: np.ndarray,
    columns: Columns,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:  # fmt: skip
    """Places of all rows [N, 2], those without a position between the positions around them; and
    which of these are refused, by reason. Rows without a time get one: in ``stamp_ns``, ``timed``.
    """
    at, seconds = np.arange(len(place), dtype=float), np.full(len(place), np.nan)
    if timed.any():
        times = spread(stamp_ns[timed] / SECOND)
        # Where times go back, as where a second day follows, the track begins anew.
        back = np.minimum(np.diff(times, prepend=times[0]), 0)
        going = times + np.cumsum(np.where(back < -1, NEW_TRACK, 0) - back)
        ends = times[0] - 1, going[-1] + 1
        found = np.interp(at, at[timed], times)
        at = seconds = np.interp(at, at[timed], going, left=ends[0], right=ends[1])
        stamp_ns[~timed] = np.round(SECOND * found[~timed])
        timed[:] = True
    known = ~unplaced
    track = Track.of(str(path), seconds[known], place[known], columns.degrees, at[known])
    return np.where(unplaced[:, None], track.places(at), place), track.refused(at)


def _nothing(path: Path, rows: _Rows, refused: Counter[str], places: np.ndarray) -> InputError:
    """The error for a table without soundings; ``places``: sizes of those that are impossible."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
    text = f"{path}: expected soundings, got none ({reasons}). Its first row: {rows.first}"
    if not rows.columns.degrees or not refused["impossible_place"]:
        return InputError(text)
    answers = []
    if (places > PACKED).any(axis=1).all() and (places > 1000).all():
        turned = {"columns": {"x": rows.columns.second, "y": rows.columns.first}}
        when = "if they are northings and eastings (--crs EPSG:N says of which system)"
        answers = [Answer(when, turned)]
    elif (places <= (180, 90)).all():
        answers = swapped(rows.columns.meanings)
    return Unclear(
        f"{text}. Expected latitudes and longitudes in degrees, or in degrees, minutes and seconds "
        "with blanks or signs between them", answers,
    )  # fmt: skip


def _read(path: Path, options: ReadOptions, dialect: Dialect, cells: Cells, crs: str) -> _Rows:
    """Understand the first rows, and read all. Arguments as of ``soundings_of``."""
    head = list(islice(cells(), SAMPLE))
    header = list(dialect.header)
    columns, in_feet = _find_columns(path, options, dialect, head, crs, cells)
    if options.by not in (None, LINE, *header):
        raise InputError(
            f"{path}: expected a column '{options.by}' (--by), got {','.join(header)[:120]}"
        )
    if options.levels is not None and not columns.time:
        raise InputError(
            f"{path}: --water-level: expected a column of times, got {','.join(header)[:120]}; "
            "name it, as in --columns time=NAME"
        )
    columns, times, clock = _find_times(columns, header, head, options)
    if times:
        clock.decided(f"{path}: column {columns.time}")
    places = tuple(map(header.index, columns.names))
    angles = Angles()
    if columns.degrees:
        angles = Angles.of(header, places[:2], head, dialect.comma, str(path), dialect.units)
    kept = [name for name in header if name in options.labels | {LINE, options.by}]
    rows = _Rows(
        columns, dialect.comma, {name: header.index(name) for name in kept}, places, times, clock,
        angles, MemoryMeter(f"{path}: its content"),
        1.0 if in_feet else UNITS[columns.place_unit or "m"],
        shown(" | ".join(head[0]) if head else "none", 120),
    )  # fmt: skip
    for chunk in _chunks(cells()):
        rows.add(chunk)
    if not rows.parts:
        rows.add([])
    return rows


def sampled(dialect: Dialect, rows: Sequence[Sequence[str]]) -> Sample:
    """The values of rows, by column."""
    times, values, decimals = dict[str, str](), dict[str, np.ndarray](), dict[str, int]()
    mark = "." if dialect.comma else ","
    for i, name in enumerate(dialect.header):
        texts = [_cell(row, i).strip() for row in rows]
        known = [text for text in texts if not is_nothing(text)]
        most = 0.9 * len(known)
        after = (text.replace(",", mark).partition(".")[2] for text in texts)
        decimals[name] = max(map(len, after), default=0)
        varies = len({*known}) > 1
        if known and varies and sum(map(is_clock, known)) > most:
            times.setdefault("time", name)
        elif known and sum(map(is_date, known)) > most:
            times.setdefault("date and time" if ":" in known[0] else "date", name)
        else:
            values[name] = np.array([_value(text, dialect.comma) for text in texts])
            if values[name].size and is_time(values[name]):
                times.setdefault("time", name)
    if "date and time" in times:
        times = {"time": times["date and time"]}
    elif "date" in times and "time" not in times:
        times["time"] = times.pop("date")
    return Sample(values, decimals, times)


def _value(cell: str, comma: bool) -> float:
    """The number or the angle in a cell; NaN without one."""
    if is_nothing(cell):
        return np.nan
    found = angle(cell, comma)
    return number(cell, comma) if found != found else found


def _find_columns(
    path: Path, options: ReadOptions, dialect: Dialect, head: list[list[str]], crs: str,
    cells: Cells,
) -> tuple[Columns, bool]:  # fmt: skip
    """The columns by header, options and values; and whether x and y count feet, as their
    coordinate system does."""
    header, given = list(dialect.header), dict(options.columns)
    names = Names.of(header, given, str(path), dialect.units)
    if len(names.places) != 1 or len(names.heights) != 1:  # the values of the whole file decide
        head = head + _thinned(cells())
    sample = sampled(dialect, head)
    if not dialect.named:  # times need not be named
        given = {**{m: n for m, n in sample.times.items() if n not in given.values()}, **given}
        names = Names.of(header, given, str(path), dialect.units)
    columns = chosen(names, sample, str(path))
    written = unit_in_column(header, head, columns.height, str(path))
    said = options.units or written or names.units.get(columns.height, "")
    columns = replace(columns, unit=said or "m", unit_said=bool(said), given=tuple(options.columns))
    return columns, check_unit(str(path), "" if columns.degrees else crs, columns.height, said)


def _find_times(
    columns: Columns, header: Sequence[str], rows: Sequence[Sequence[str]], options: ReadOptions
) -> tuple[Columns, tuple[int, ...], Times]:
    """The columns, which are of date and time, and how times are read. Times that are unclear are
    ignored where none are needed."""
    if columns.date and not columns.time:
        columns = replace(columns, time=columns.date, date="")
    while True:
        at = tuple(header.index(name) for name in (columns.date, columns.time) if name)
        texts = list(_joined(rows, at)) if at else []
        clock = Times(texts)
        if clock.stamps(texts)[1].any() or not columns.date or "date" in options.columns:
            break
        columns = replace(columns, date="")  # `day` beside times that have a date
    if not options.timed and (clock.ambiguous or not clock.stamps(texts)[1].any()):
        columns, at = replace(columns, time="", date=""), ()
    return columns, at, clock


def _joined(rows: Sequence[Sequence[str]], at: Sequence[int]) -> Iterator[str]:
    """The texts of columns of date and time."""
    return (" ".join(_cell(row, i) for i in at) for row in rows)


def _thinned(rows: Iterator[list[str]]) -> list[list[str]]:
    """Blocks of rows from the whole of a table, up to some thousand rows."""
    kept, step = dict[int, list[list[str]]](), 1
    for at, row in enumerate(rows):
        block = at // BLOCK
        if block % step == 0:
            kept.setdefault(block, []).append(row)
        if len(kept) * BLOCK > 3 * SAMPLE:
            step *= 3
            kept = {block: those for block, those in kept.items() if block % step == 0}
    return [row for those in kept.values() for row in those]


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
