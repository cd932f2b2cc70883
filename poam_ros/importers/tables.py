"""Soundings from text tables, read in chunks: the layout, the meaning of columns, then all rows."""

from __future__ import annotations

import csv
import json
import re
import sys
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geodesy import is_in_feet
from ..core.reading import TEXT_FACTOR, MemoryMeter, refuse_larger
from ..mapping.soundings import LINE, Labels
from .cells import (
    DAY_S,
    UNITS,
    Angles,
    Dialect,
    Times,
    angle,
    cell_of,
    is_nothing,
    number,
    sniff,
)
from .columns import HEIGHTS, KEEL, Columns, Names, counts_from, unit_in_column, words_of
from .faults import far_away, impossible, spread, uncertain
from .look import FEWEST, one_group, swapped
from .options import Answer, ReadOptions, Unclear
from .questions import FINE, Sample, chosen
from .raw import RawSoundings
from .track import NO_FIX, Track, no_position, over_midnight, with_altitudes

#: A number with marks between its thousands.
THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(?:([ ,.'\u2019\u00a0])\d{3})(?:\1\d{3})*([.,]\d+)?\s*")
#: What stands about the numbers of a point of WKT, as a GIS writes it.
POINT = re.compile(r"(?:SRID=\d+;)?\s*POINT\s*Z?\s*\(|\)\s*$", re.IGNORECASE)
#: Bytes by which a file of JSON is known.
HEAD = 64
#: Rows held as text at a time.
CHUNK = 5000
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


class _Layout(NamedTuple):
    """How rows are read: the columns, those of date and time by their numbers, the scale of x and y
    to the metres (or the feet) of their system, and the columns whose texts are kept."""

    columns: Columns
    times: tuple[int, ...]
    clock: Times
    angles: Angles
    scale: float
    kept: list[str]


def read_table(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a text table of any layout (``cells``), with or without a header.

    Raises:
        InputError: the file cannot be read, lacks a column, has no soundings, or the meaning of
            its columns is unclear.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(HEAD).removeprefix(BOM_UTF8).split()
            is_json = b"".join(begin).startswith((b"{", b"[{"))
        if is_json:
            return _of_json(path, options)
        return _soundings(path, options, sniff(path)[0])
    except (OSError, csv.Error, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None


def _of_json(path: Path, options: ReadOptions) -> RawSoundings:
    """Soundings from JSON: an object in each line, or in one document the longest list of objects
    with all others under the same keys, as of several tracks. Keys are the columns, those of an
    object in it with a point between."""

    def plain(value: Any, name: str) -> dict[str, str]:
        if isinstance(value, dict):
            parts = (plain(each, f"{name}.{key}" if name else key) for key, each in value.items())
            return {key: text for part in parts for key, text in part.items()}
        return {name: "" if value is None else str(value)}

    def lists(value: Any, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
        """Lists of objects, with the keys that lead to them."""
        if isinstance(value, dict):
            for key, each in value.items():
                yield from lists(each, (*keys, key))
        elif isinstance(value, list) and value:
            if all(isinstance(each, dict) for each in value):
                yield keys, value
            for each in value:
                yield from lists(each, keys)

    refuse_larger(f"{path}: its content", path.stat().st_size, TEXT_FACTOR)
    text = path.read_text("utf-8-sig").rstrip()
    rows, lines, fault = list[dict[str, str]](), text.split("\n"), ""
    try:
        document = json.loads(text)
        every = [*lists(document, ())]
        keys, _ = max(every, key=lambda each: len(each[1]), default=((), []))
        found = [each for own, part in every if own == keys for each in part] or [document]
        rows, lines = [plain(each, "") for each in found], []
    except (ValueError, RecursionError) as error:
        fault = str(error)
    for at, line in enumerate(lines, 1):
        try:
            rows += [plain(json.loads(line), "")] if line.strip() else []
        except (ValueError, RecursionError) as error:
            if rows and at == len(lines):  # the log ends within it
                break
            if at == 1:
                raise InputError(
                    f"{path}: expected JSON, a whole document or an object in each line ({fault})"
                ) from None
            raise InputError(
                f"{path}: line {at}: expected a JSON object in each line ({error})"
            ) from None
    header = dict.fromkeys(key for row in rows for key in row)
    texts = [[row.get(key, "") for key in header] for row in rows]
    return of_rows(path, options, tuple(header), texts, "JSON")


def of_rows(
    path: Path, options: ReadOptions, header: Sequence[str], rows: Sequence[list[str]], kind: str,
    crs: str = "", refused: Counter[str] | None = None,
) -> RawSoundings:  # fmt: skip
    """Soundings from the rows of a table that another kind of file was made.

    Args:
        path: start of error messages.
        options: how it is read.
        header: names of the columns.
        rows: as texts.
        kind: of file, in words.
        crs: of x and y, as the file says it; empty: unknown.
        refused: what is left out already, by reason.

    Raises:
        Unclear: names or values leave open what columns mean.
        InputError: there is no such column, or no sounding.
    """
    dialect = Dialect(tuple(header), lambda: iter(rows), kind)
    return _soundings(path, options, dialect, crs, refused)


def _soundings(
    path: Path, options: ReadOptions, dialect: Dialect, crs: str = "",
    refused: Counter[str] | None = None,
) -> RawSoundings:  # fmt: skip
    """The arguments are those of ``of_rows``."""
    dialect = _with_places(_with_times(dialect))
    layout = _understood(path, options, dialect, options.crs or crs)
    columns = layout.columns
    place, heights, stamp_ns, timed, labels = _values(str(path), dialect, layout)
    if timed.any() and stamp_ns.max() <= DAY_S * SECOND:  # a clock without dates
        stamp_ns[timed] = np.round(SECOND * over_midnight(stamp_ns[timed] / SECOND))
    row, wrong = np.arange(len(place)), dict[str, np.ndarray]()
    unplaced, measured = no_position(place, columns.degrees), np.isfinite(heights[:, 0])
    if unplaced.all() and (place == 0).any():
        raise InputError(f"{path}: {NO_FIX}")
    lost = (unplaced & measured).sum()
    fixed = not unplaced.all() and lost > (0 if timed.any() else max(UNTIMED * len(place), FEWEST))
    if fixed:
        unplaced |= far_away(place, ~unplaced, columns.degrees, options.near)
        if columns.degrees and not options.trusted:
            one_group(str(path), place[~unplaced])
        place, wrong = _placed(path, place, unplaced, stamp_ns, timed, columns)
        # Rows of a position alone are no soundings.
        row, place, heights, stamp_ns, timed = (
            each[measured] for each in (row, place, heights, stamp_ns, timed)
        )
        wrong = {name: these[measured] for name, these in wrong.items()}
        labels = {name: Labels(code[measured], texts) for name, (code, texts) in labels.items()}
    height = heights[:, 0]
    wrong["no_time"] = ~timed & (options.timed and bool(columns.time))
    wrong |= impossible(place, height, columns.degrees, columns.unit)
    elsewhere = wrong["impossible_place"]
    far = np.abs(place[elsewhere])
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
    below_keel = counts_from(columns.height) == KEEL
    for option, value in (("draught", options.draught), ("keel", options.keel)):
        if columns.down and value and below_keel != (option == "keel"):
            raise InputError(f"{path}: --{option}: does not apply to depths of {columns.height}")
    if columns.down:
        height = height + options.keel / UNITS[columns.unit]
    found = RawSoundings(
        place, height, columns.degrees, columns.down, columns.unit, crs,
        columns.place_unit, stamp_ns if timed.any() else None, row, labels,
        columns=columns.meanings, fixed=fixed, unit_said=columns.unit_said,
        understood=columns.description + layout.angles.description, refused=refused or Counter(),
        layout=dialect.description, source={"columns": asdict(columns)},
    ).without(wrong)  # fmt: skip
    if not good.any():
        raise _nothing(path, dialect, columns, found.lost, far)
    return found


def _with_times(dialect: Dialect) -> Dialect:
    """A table whose times are written as year, month, day, hour, minute and second in columns of
    their own, with the time in the first of these; any other as it is."""
    width, count = len(dialect.header), len(CALENDAR)
    rows = [row[:width] for row in islice(dialect.rows(), BLOCK) if len(row) >= width]
    head = np.array([[number(cell, dialect.comma) for cell in row] for row in rows])
    if head.ndim != 2 or len(head) < FEWEST:
        return dialect
    whole = (head >= CALENDAR[:, :1, None]) & (head <= CALENDAR[:, 1:, None])
    whole[:5] &= head == np.floor(head)
    fits: np.ndarray = np.all(whole, axis=1)  # [6, columns]
    at = next((i for i in range(width - count + 1) if fits[:, i : i + count].diagonal().all()), -1)
    if at < 0:
        return dialect

    def joined() -> Iterator[list[str]]:
        for row in dialect.rows():
            parts = [number(cell, dialect.comma) for cell in row[at : at + count]]
            time = "" if np.isnan(parts).any() else TIME.format(*parts)
            yield [*row[:at], time, *[""] * (len(parts) - 1), *row[at + count :]]

    header = list(dialect.header)
    if dialect.named:
        header[at] = "time"
    return replace(dialect, header=tuple(header), rows=joined)


def _with_places(dialect: Dialect) -> Dialect:
    """A table whose places stand in one column, as 58.2, 11.4 or POINT (11.4 58.2), with columns of
    their numbers behind the others; any other as it is."""

    def parts(row: Sequence[str], at: int) -> list[str]:
        inside = POINT.sub("", cell_of(row, at)).strip()
        found = re.split(r"\s*[,;]\s*", inside)
        return found if len(found) > 1 else inside.split()

    def split(at: int) -> Iterator[list[str]]:
        for row in dialect.rows():
            yield [*(cell_of(row, i) for i in range(width)), *parts(row, at)]

    width = len(dialect.header)
    if not dialect.named or Names.of(dialect.header, {}, "").places:
        return dialect
    head = list(islice(dialect.rows(), SAMPLE))
    for at in range(width):
        known = [row for row in head if not is_nothing(cell_of(row, at))][:BLOCK]  # before a fix
        texts = [parts(row, at) for row in known]
        if len(known) < FEWEST or {*map(len, texts)} not in ({2}, {3}):
            continue
        point = POINT.search(cell_of(known[0], at))
        if not (point or all(len(text.partition(".")[2]) >= FINE for text in texts[0][:2])):
            continue
        values = np.array([[angle(text) for text in each] for each in texts])
        degrees = (np.abs(values[:, :2]) <= 180).all()
        if np.isfinite(values).all() and (point or degrees):
            names = ("longitude", "latitude", "z") if degrees else ("x", "y", "z")
            names = names if point else ("latitude", "longitude", "z")
            header = (*dialect.header, *names[: len(texts[0])])
            return replace(dialect, header=header, rows=partial(split, at))
    return dialect


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


def _nothing(
    path: Path, dialect: Dialect, columns: Columns, refused: Counter[str], places: np.ndarray
) -> InputError:
    """The error for a table without soundings; ``places``: sizes of those that are impossible."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items()) or "no rows"
    first = shown(" | ".join(next(dialect.rows(), ["none"])), 120)
    text = f"{path}: expected soundings, got none ({reasons}). Its first row: {first}"
    cells = (cell for cell in next(dialect.rows(), []) if np.isnan(number(cell, dialect.comma)))
    if any(map(THOUSANDS.fullmatch, cells)):
        text += ". Write numbers without marks between thousands, and with a decimal point"
    if not columns.degrees or not refused["impossible_place"]:
        return InputError(text)
    answers = []
    if (places > PACKED).any(axis=1).all() and (places > 1000).all():
        turned = {"columns": {"x": columns.second, "y": columns.first}}
        when = "if they are northings and eastings (--crs EPSG:N says of which system)"
        answers = [Answer(when, turned)]
    elif (places <= (180, 90)).all():
        answers = swapped(columns.meanings)
    return Unclear(
        f"{text}. Expected latitudes and longitudes in degrees, or in degrees, minutes and seconds "
        "with blanks or signs between them", answers,
    )  # fmt: skip


def _understood(path: Path, options: ReadOptions, dialect: Dialect, crs: str) -> _Layout:
    """What the columns mean. Arguments as of ``of_rows``."""
    header, where, given = list(dialect.header), str(path), dict(options.columns)
    head = list(islice(dialect.rows(), SAMPLE))
    names = Names.of(header, given, where, dialect.units)
    if len(names.places) != 1 or len(names.heights) != 1:  # the values of the whole file decide
        head += _thinned(islice(dialect.rows(), SAMPLE, None))
    sample = Sample.of(dialect, head)
    if not dialect.named:  # times need not be named
        given = {**{m: n for m, n in sample.times.items() if n not in given.values()}, **given}
        names = Names.of(header, given, where, dialect.units)
    (first, second, degrees), (height, down), note = chosen(names, sample, where)
    said, of_place = options.unit_of
    unit = unit_in_column(header, head, height, where) or names.units[height]
    unit = said or unit
    in_feet = bool(crs) and not degrees and is_in_feet("--crs", crs)
    if of_place and (degrees or (in_feet and of_place != "ft")):
        own = "latitude and longitude are in degrees" if degrees else f"{crs} is in feet"
        raise InputError(f"{where}: --units: {own}, got '{options.units}'")
    beside = names.units[first], names.units[second]
    if not degrees and beside[0] != beside[1]:
        raise InputError(
            f"{where}: columns {shown(first)} and {shown(second)} are in different units "
            f"({' and '.join(each or 'none' for each in beside)}): write both in one"
        )
    if not degrees:
        utm = any("utm" in words_of(name) for name in (first, second))
        of_place = of_place or beside[0] or ("ft" if in_feet else "m") * bool(crs or utm)
    once = {meaning: (*found, "")[0] for meaning, found in names.found.items()}
    if {*given} & {*HEIGHTS} and "altitude" not in given:
        once["altitude"] = ""
    columns = Columns(
        first, second, height, degrees, down, once["time"], once["date"], unit or "m", of_place,
        unit_said=bool(unit), altitude=once["altitude"], confidence=once["confidence"],
        altitude_unit=names.units.get(once["altitude"]) or names.units[height] or "m",
        given=tuple(options.columns), note=note,
    )  # fmt: skip
    if in_feet and not unit:
        raise Unclear(
            f"{where}: {crs} is in feet, and column {height} does not say its unit",
            [Answer("if it is in feet, too", {"units": "ft"}), Answer("if not", {"units": "m"})],
        )
    got = f"got {','.join(header)[:120]}"
    if options.by not in (None, LINE, *header):
        raise InputError(f"{where}: expected a column '{options.by}' (--by), {got}")
    if options.levels is not None and not columns.time:
        raise InputError(
            f"{where}: --water-level: expected a column of times, {got}; name it, as in --columns "
            "time=NAME"
        )
    columns, times, clock = _find_times(columns, header, head, options)
    if times:
        clock.decided(f"{where}: column {columns.time}")
    at, angles = [header.index(name) for name, _ in columns.numbers[:2]], Angles()
    if degrees:
        angles = Angles.of(header, at, head, dialect.comma, where, dialect.units)
    kept = [name for name in header if name in options.labels | {LINE, options.by}]
    scale = 1.0 if in_feet else UNITS[columns.place_unit or "m"]
    return _Layout(columns, times, clock, angles, scale, kept)


def _values(
    where: str, dialect: Dialect, layout: _Layout
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Labels]]:
    """Places [N, 2], the other numbers [N, ...], times in ns [N], whether they are known [N], and
    the texts of the columns that are kept. What is no number is NaN; a missing cell is empty."""
    columns, memory = layout.columns, MemoryMeter(f"{where}: its content")
    at = [dialect.header.index(name) for name, _ in columns.numbers]
    texts = {name: dict[str, int]() for name in layout.kept}
    parts, rows, more = list[tuple[np.ndarray, ...]](), dialect.rows(), True
    while more:
        chunk = list(islice(rows, CHUNK))
        more = len(chunk) == CHUNK
        memory.add(ROW_BYTES * len(chunk))
        values = _numbers([[cell_of(row, i) for i in at] for row in chunk], columns, dialect.comma)
        if columns.degrees:
            values[:, :2] = layout.angles.degrees(values[:, :2], chunk)
        else:
            values[:, :2] *= layout.scale
        stamps, timed = np.zeros(len(chunk), dtype=np.int64), np.zeros(len(chunk), dtype=bool)
        if layout.times:
            stamps, timed = layout.clock.stamps(_joined(chunk, layout.times))
        parts.append((values[:, :2], values[:, 2:], stamps, timed))
        for name, known in texts.items():  # the index of each text among the distinct ones
            i, before = dialect.header.index(name), len(known)
            cells = (cell_of(row, i).strip() for row in chunk)
            parts[-1] += (np.array([known.setdefault(c, len(known)) for c in cells], dtype=int),)
            memory.add(sum(map(sys.getsizeof, islice(known, before, None))))
    place, numbers, stamps, timed, *codes = map(np.concatenate, zip(*parts, strict=True))
    labels = {
        name: Labels(code, tuple(known))
        for code, (name, known) in zip(codes, texts.items(), strict=True)
    }
    return place, numbers, stamps, timed, labels


def _numbers(cells: Sequence[Sequence[str]], columns: Columns, comma: bool) -> np.ndarray:
    """Values of cells [N, columns]; NaN if a cell is no number, or no angle in a column of
    angles."""
    shape = len(cells), len(columns.numbers)
    if not comma:
        try:
            return np.array(cells, dtype=float).reshape(shape)
        except ValueError:
            pass
    place = angle if columns.degrees else number
    units = [unit for _, unit in columns.numbers[2:]]
    return np.array([
        [place(a, comma), place(b, comma),
         *(number(cell, comma, unit) for cell, unit in zip(rest, units, strict=True))]
        for a, b, *rest in cells
    ]).reshape(shape)  # fmt: skip


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
        known = bool(clock.stamps(texts)[1].any())
        if known or not columns.date or "date" in options.columns:
            break
        columns = replace(columns, date="")  # `day` beside times that have a date
    if not options.timed and (clock.ambiguous or not known):
        columns, at = replace(columns, time="", date=""), ()
    return columns, at, clock


def _joined(rows: Sequence[Sequence[str]], at: Sequence[int]) -> Iterator[str]:
    """The texts of columns of date and time."""
    return (" ".join(cell_of(row, i) for i in at) for row in rows)


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
