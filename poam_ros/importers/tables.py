"""Soundings from tables: the layout of a text or of JSON, the meaning of columns, then all rows."""

from __future__ import annotations

import csv
import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geodesy import is_in_feet
from ..core.reading import JSON_FACTOR, LONGEST_LINE, lines, refuse_larger
from ..mapping.soundings import LINE, Labels
from .cells import NAN, NUMBER, SPELLINGS, UNITS, Times, angle, is_nothing, is_value, numbers
from .columns import (
    BLOCK,
    HEIGHTS,
    KEEL,
    PLACES,
    Column,
    Table,
    counts_from,
    unit_beside,
    words_of,
)
from .faults import GAP, impossible, no_position, spread, uncertain
from .look import FEWEST, swapped
from .options import Answer, ReadOptions, Unclear
from .questions import FINE, chosen
from .raw import RawSoundings
from .track import DAY, NO_FIX, Track, is_above_ground, over_midnight, without_altitude

#: Separators by name, with weights; the first is preferred if two fit equally. No text has ; | and
#: tabs for anything else, while blanks (None: any run of them) also stand within times and angles.
SEPARATORS = {
    ";": ("semicolons", 9.0), "\t": ("tabs", 9.0), ",": ("commas", 1.0), "|": ("bars", 9.0),
    None: ("blanks", 0.99),
}  # fmt: skip
COMMENTS = ("#", "%", "//", "!")
#: Lines, and about so many characters, that the layout is detected from; bytes that show JSON.
HEAD, HEAD_CHARACTERS, HEAD_BYTES = 200, 500_000, 64
#: A letter of a word, not of a time or an angle: rows of numbers are commented out.
_WORD = re.compile(r"(?<!\d)[^\W\d_]")
_UNIT = re.compile(r"[\[(]?\s*([a-zA-Z°/]{1,8})\.?\s*[\])]?")
#: What stands about the numbers of a point of WKT, as a GIS writes it.
POINT = re.compile(r"(?:SRID=\d+;)?\s*POINT\s*Z?\s*\(|\)\s*$", re.IGNORECASE)
SIGNS = {"N": 1.0, "E": 1.0, "S": -1.0, "W": -1.0}
#: Of latitudes and of longitudes: letters of their sides, and the side that is negative.
SIDES = ("NS", "EWO"), ("south", "west")
#: Meanings of the columns of times, in the order of their texts.
WHEN: tuple[str, ...] = ("date", "time")
#: Times of six columns as one text; least and largest year, month, day, hour, minute and second.
TIME = "{:.0f}-{:02.0f}-{:02.0f} {:02.0f}:{:02.0f}:{:06.3f}"
CALENDAR = (1970, 1, 1, 0, 0, 0), (2100, 12, 31, 23, 59, 60.999)
#: Without times, depths are placed by the numbers of their rows if a larger share has no position.
UNTIMED = 0.2
#: Degrees times this are integers of receivers and autopilots.
INTEGER = 1e7


def is_table(path: Path, head: bytes) -> bool:
    """Whether a file may be a table, which is text, and no ESRI grid."""
    text = b"\0" not in head or head.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return text and head[:5].lower() != b"ncols"


def read_table(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a text table of any layout, with or without a header, or JSON.

    Raises:
        InputError: the file cannot be read, lacks a column, has no soundings, or the meaning of
            its columns is unclear.
    """
    return soundings(path, options, table_of(path))


def table_of(path: Path) -> Table:
    """The table in a text of any layout, or in JSON. Raises an ``InputError`` if it is none."""
    try:
        with path.open("rb") as file:
            begin = b"".join(file.read(HEAD_BYTES).removeprefix(BOM_UTF8).split())
        return (read_json if begin.startswith((b"{", b"[{")) else read_text)(path)
    except (OSError, csv.Error, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None


def read_json(path: Path) -> Table:
    """The table in JSON: an object in each line, or in one document the longest list of objects
    with all others under the same keys, as of several tracks, or lists of one length. Keys are the
    columns, those of an object in it with a point between.

    Raises:
        InputError: it is no JSON, or takes too much memory.
        OSError: the file cannot be read.
    """

    def flat(value: Any, name: str = "") -> dict[str, str]:
        if isinstance(value, dict):
            parts = (flat(each, f"{name}.{key}" if name else key) for key, each in value.items())
            return {key: text for part in parts for key, text in part.items()}
        return {name: "" if value is None else str(value).replace("\0", " ")}

    def lists(value: Any, keys: tuple[str, ...] = ()) -> Iterator[tuple[Any, list[Any]]]:
        """Lists of objects, with the keys that lead to them."""
        if isinstance(value, dict):
            arrays = {key: each for key, each in value.items() if isinstance(each, list)}
            if len(arrays) > 1 and len({*map(len, arrays.values())}) == 1:
                rows = zip(*arrays.values(), strict=True)
                yield (keys, ""), [dict(zip(arrays, row, strict=True)) for row in rows]
            for key, each in value.items():
                yield from lists(each, (*keys, key))
        elif isinstance(value, list):
            if value and all(isinstance(each, dict) for each in value):
                yield keys, value
            for each in value:
                yield from lists(each, keys)

    refuse_larger(f"{path}: its content", path.stat().st_size, JSON_FACTOR)
    text, rows = path.read_text("utf-8-sig").rstrip(), list[dict[str, str]]()
    try:
        every = [*lists(json.loads(text))]
        longest, _ = max(every, key=lambda each: len(each[1]), default=((), []))
        rows = [flat(each) for keys, part in every if keys == longest for each in part]
    except (ValueError, RecursionError) as fault:
        every_line = text.split("\n")
        for at, line in enumerate(every_line, 1):
            try:
                rows += [flat(json.loads(line))] if line.strip() else []
            except (ValueError, RecursionError) as error:
                if rows and at == len(every_line):  # the log ends within it
                    break
                where = f"line {at}: {error}" if at > 1 else str(fault)
                raise InputError(f"{path}: expected JSON, a whole document or an object in each "
                                 f"line ({where})") from None  # fmt: skip
    return Table.of_rows(rows, "JSON", str(path))


def read_text(path: Path) -> Table:
    """The table in a text, whatever its encoding, comments, separator, decimal mark and header.

    Raises:
        InputError: this is not a table, or takes too much memory.
        OSError: the file cannot be read.
    """
    with path.open(newline="", encoding=_encoding(path), errors="replace") as file:
        useful = _useful(file, path)
        head = [*islice(useful, 1)]
        if not head:
            raise InputError(f"{path}: expected a table of soundings, got no rows")
        head += islice(useful, min(HEAD, HEAD_CHARACTERS // len(head[0])))
        found = {each: list(_split(head, each)) for each in SEPARATORS}
        separator = max(SEPARATORS, key=lambda each: SEPARATORS[each][1] * _fit(found[each]))
        rows = found[separator]
        width = Counter(map(len, rows)).most_common(1)[0][0]
        first = _first_row(rows, width)
        header, units = _header(rows[:first], width, separator is None)
        plain = (cell.strip() for row in rows[first:] for cell in row)
        commas = (cell for cell in plain if "," in cell and NUMBER.fullmatch(cell))
        # Between commas it is quoted, and may stand between thousands.
        comma = any(separator != "," or len(cell.partition(",")[2]) != 3 for cell in commas)
        names = header or [str(i + 1) for i in range(width)]
        description = (
            f"separated by {SEPARATORS[separator][0]}{', decimal commas' * comma}"
            f"{', no header' * (not header)}: {shown(','.join(names), 200)}"
        )
        data = islice(_split(chain(head, useful), separator), first, None)
        # A blank line is no row.
        return Table.of(names, filter(None, data), description, str(path), units, comma)


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(LONGEST_LINE)
    if head.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return "utf-16"
    try:
        getincrementaldecoder("utf-8")().decode(head)  # cut within a character or not
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def _useful(file: TextIO, path: Path) -> Iterator[str]:
    """Lines other than blank ones; of comments those with words above all others, without their
    marks, since the last may be the header."""
    begun = False
    for count, line in enumerate(lines(file, f"{path}: "), 1):
        if "\0" in line:
            raise InputError(f"{path}: line {count}: expected text, got binary data")
        comment = line.lstrip().startswith(COMMENTS)
        left = comment and (begun or not _WORD.search(line))
        if line.strip(" \t\r\n,;|") and not left:
            begun = not comment
            yield line.lstrip("#%/! ") if comment else line


def _split(lines: Iterable[str], separator: str | None) -> Iterator[list[str]]:
    if separator is not None:
        return iter(csv.reader(lines, delimiter=separator, skipinitialspace=True))
    return (
        next(csv.reader([line.strip()], delimiter=" ", skipinitialspace=True))
        if '"' in line else line.split() for line in lines
    )  # fmt: skip


def _fit(rows: list[list[str]]) -> float:
    """How well a separator fits: the share of rows of the usual width, times their mean number of
    values (with a small weight for any cell, as a header alone has none)."""
    width, count = Counter(map(len, rows)).most_common(1)[0]
    usual = [sum(map(is_value, row)) for row in rows if len(row) == width]
    return (count / len(rows)) * (sum(usual) / len(usual) + 0.01 * width) if width > 1 else 0.0


def _first_row(rows: Sequence[Sequence[str]], width: int) -> int:
    """The first row of data: of the usual width, where columns of numbers hold numbers, or nothing,
    as before the first fix. Before it come header and text."""
    usual = [[is_value(cell) for cell in row] for row in rows if len(row) == width]
    counts = [sum(column) for column in zip(*usual, strict=True)]
    numeric = [i for i, count in enumerate(counts) if count > 0.1 * len(usual)]
    for index, row in enumerate(rows):
        cells = [row[i] for i in numeric] if len(row) == width else []
        values = sum(map(is_value, cells))
        if values and values + sum(map(is_nothing, cells)) >= len(cells) - (values > 2):
            return index
    return len(rows)


def _header(above: list[list[str]], width: int, blanks: bool) -> tuple[list[str], tuple[str, ...]]:
    """The names of the columns and their units, of the rows above the data; both may be empty.
    Rows of other numbers of cells, but for one that a separator at their ends makes, and of values
    are remarks; but names of a profile's samples are numbers, behind some words."""
    fits = {width} if blanks else range(max(2, width - 1), 1 + max(map(len, above), default=0))
    words = [len(row) - sum(map(is_value, row)) for row in above]
    above = [row for row, count in zip(above, words, strict=True)
             if len(row) in fits and (count == len(row) or count > 2)]  # fmt: skip
    units = _units(above[-1]) if len(above) > 1 else ()
    header = above[-1 - bool(units)] if above else []
    return [name.strip().strip('"') for name in header], units


def _units(row: Sequence[str]) -> tuple[str, ...]:
    """The units in a row that has nothing else, and one that is known; empty if it is none."""
    found = [_UNIT.fullmatch(cell.strip()) for cell in row]
    units = [each[1].lower() if each else "" for each in found]
    all_ = all(u or not cell.strip("()[] -") for u, cell in zip(units, row, strict=True))
    return tuple(units) if all_ and any(u in SPELLINGS or "°" in u for u in units if u) else ()


def soundings(
    path: Path, options: ReadOptions, table: Table, crs: str = "",
    refused: Counter[str] | None = None,
) -> RawSoundings:  # fmt: skip
    """The soundings in a table.

    Args:
        path: start of error messages.
        options: how it is read.
        table: as it is written, or as another kind of file was made one.
        crs: of x and y, as the file says it; empty: unknown.
        refused: what is left out already, by reason.

    Raises:
        Unclear: names or values leave open what columns mean.
        InputError: there is no such column, or no sounding.
    """
    where, table = str(path), _with_places(_with_times(table))
    names, clock, note = _understood(where, options, table)
    each = {meaning: table.columns[name] for meaning, name in names.items()}
    degrees, down = "latitude" in each, "depth" in each
    depths = each[HEIGHTS[down]]
    said, place_unit, scale = _units_of(where, options, table, each, options.crs or crs)
    unit, height = said or "m", depths.numbers(said or "m")
    place, written = _degrees(table, each) if degrees else (
        scale * np.column_stack([each[meaning].numbers() for meaning in PLACES[False]]), ""
    )  # fmt: skip
    row = np.arange(count := len(height))
    stamp_ns, timed = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    if "time" in each:
        stamp_ns, timed = clock.stamps(_texts_of_times(each))
    if timed.any() and stamp_ns.max() <= DAY * SECOND:  # a clock without dates
        stamp_ns[timed] = np.round(SECOND * over_midnight(stamp_ns[timed] / SECOND))
    unplaced, measured = no_position(place, degrees), np.isfinite(height)
    if unplaced.all() and (place == 0).any():
        raise InputError(f"{path}: {NO_FIX}")
    wrong, kept = dict[str, np.ndarray](), np.ones(count, dtype=bool)
    lost = (unplaced & measured).sum()
    fixed = not unplaced.all() and lost > (0 if timed.any() else max(UNTIMED * count, FEWEST))
    if fixed:
        place, refusals = _placed(where, place, unplaced, stamp_ns, timed, degrees)
        kept = measured  # a position alone is no sounding
        row, place, height, stamp_ns, timed = (
            array[kept] for array in (row, place, height, stamp_ns, timed)
        )
        wrong = {name: these[kept] for name, these in refusals.items()}
    wrong["no_time"] = ~timed & (options.timed and "time" in each)
    wrong |= impossible(place, height, degrees, unit)
    elsewhere = wrong["impossible_place"]
    far = np.abs(place[elsewhere])
    place[elsewhere] = height[elsewhere] = np.nan
    if "confidence" in each:
        sure = each["confidence"].numbers()[kept]
        wrong["low_confidence"], why = uncertain(sure, options.min_confidence)
        note += why.format(names["confidence"])
    good = ~np.any(list(wrong.values()), axis=0)
    if "altitude" in each and good.any():
        own = each["altitude"].unit or depths.unit or "m"
        above = each["altitude"].numbers(own)[kept][good] * UNITS[own] / UNITS[unit]
        if is_above_ground(where, names, options.columns, place[good], height[good], above):
            if options.sound_scale != 1:
                raise InputError(f"{where}: water.sound_speed: applies to depths below the surface "
                                 "only, got a vehicle's depth and altitude")  # fmt: skip
            none = without_altitude(above)
            height[good] += np.where(none, 0.0, above if down else -above)
            wrong["no_reading"] = np.zeros(len(good), dtype=bool)
            wrong["no_reading"][good] = none
        else:
            del names["altitude"]
    if down and good.any() and (height[good] < 0).mean() > 0.95:
        height, note = -height, f"{note}, with a minus sign"
    below_keel = counts_from(depths.name) == KEEL
    for option, value in (("draught", options.draught), ("keel", options.keel)):
        if down and value and below_keel != (option == "keel"):
            raise InputError(f"{path}: --{option}: does not apply to depths of {depths.name}")
    if down:
        height = height + options.keel / UNITS[unit]
    labels = {}
    for name in sorted(table.columns.keys() & {*options.labels, LINE, options.by or LINE}):
        known = dict[str, int]()
        code = [known.setdefault(cell.strip(), len(known)) for cell in table.columns[name]]
        labels[name] = Labels(np.array(code, dtype=int)[kept], tuple(known))
    found = RawSoundings(
        place, height, degrees, down, said, crs, stamp_ns if timed.any() else None, row, labels,
        layout=table.description, refused=refused or Counter(),
        understood=_described(names, said, place_unit) + note + written,
        source={"columns": names, "units": unit, "place_units": place_unit},
    ).without(wrong)  # fmt: skip
    if not good.any():
        raise _nothing(path, table, found, far)
    return found


def _described(names: Mapping[str, str], said: str, place_unit: str) -> str:
    """The columns with their meanings and units, as text; ``said``: unit of heights, or empty."""
    degrees, down = "latitude" in names, "depth" in names
    place = ", ".join(f"{meaning} = {names[meaning]}" for meaning in PLACES[degrees])
    if not degrees:
        unsaid = f"m, as nothing says otherwise: --units {said or 'ft'},ft"
        place += f" ({place_unit or unsaid})"
    height = f"{'depth' if down else 'elevation'} = {names[HEIGHTS[down]]}"
    if "altitude" in names:
        height += f", ground = {names[HEIGHTS[down]]} {'+' if down else '-'} {names['altitude']}"
    when = " ".join(names[meaning] for meaning in WHEN if meaning in names)
    return f"{place}, {height} ({said or 'm'}){when and f', time = {when}'}"


def _understood(
    where: str, options: ReadOptions, table: Table
) -> tuple[dict[str, str], Times, str]:
    """The names of the columns by meaning: of the place and the height, and of those of date and
    time, altitude and confidence that there are; how times are read; and what was chosen, and why,
    as text."""
    given = dict(options.columns)
    if not table.named:  # times need not be named
        times = {meaning: each.name for meaning, each in table.times.items()}
        given = {m: name for m, name in times.items() if name not in given.values()} | given
    found = table.meaning(given, where)
    names, note = chosen(table, found, given, where)
    further = ["time", "date", "altitude", "confidence"]
    if {*given} & {*HEIGHTS} and "altitude" not in given:
        further.remove("altitude")
    names |= {meaning: found[meaning][0].name for meaning in further if found[meaning]}
    if "date" in names and "time" not in names:
        names["time"] = names.pop("date")
    date, time = (table.columns[names[m]].clock if m in names else "" for m in WHEN)
    if "date" in names and "date" not in given and (date != "date" or "date" in time):
        del names["date"]  # `day` beside times that have a date
    each = {meaning: table.columns[names[meaning]].sample for meaning in WHEN if meaning in names}
    clock = Times(texts := [*_texts_of_times(each)])
    if options.timed and "time" in names:
        clock.decided(f"{where}: column {names['time']}")
    elif "time" in names and (clock.ambiguous or not clock.stamps(texts)[1].any()):
        note += f"; times not read, such as {shown(texts[0])}" if texts else ""
        names = {meaning: name for meaning, name in names.items() if meaning not in WHEN}
    return names, clock, note


def _texts_of_times(each: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """The texts of columns of date and time, by meaning."""
    return map(" ".join, zip(*(each[m] for m in WHEN if m in each), strict=True))


def _units_of(
    where: str, options: ReadOptions, table: Table, each: Mapping[str, Column], crs: str
) -> tuple[str, str, Any]:
    """The units of heights, and of x and y, of ``UNITS``, empty where nothing says it; and the
    scale of x and y to the metres (or the feet) of their system, ``crs``."""
    height = each[HEIGHTS["depth" in each]]
    unit, of_place = options.unit_of
    beside = unit_beside(table, height, where)  # raises an error where there are several
    unit = unit or beside or height.unit
    degrees = "latitude" in each
    in_feet = bool(crs) and not degrees and is_in_feet("--crs", crs)
    if of_place and (degrees or (in_feet and of_place != "ft")):
        own = "latitude and longitude are in degrees" if degrees else f"{crs} is in feet"
        raise InputError(f"{where}: --units: {own}, got '{options.units}'")
    if in_feet and not unit:
        raise Unclear(
            f"{where}: {crs} is in feet, and column {height.name} does not say its unit",
            [Answer("if it is in feet, too", {"units": "ft"}), Answer("if not", {"units": "m"})],
        )
    if degrees or in_feet:
        return unit, "ft" * in_feet, 1.0
    pair = [each[meaning] for meaning in PLACES[False]]
    known = bool(crs) or any("utm" in words_of(column.name) for column in pair)
    units = [of_place or column.unit or "m" * known for column in pair]
    if any(units) and not all(units):
        x, y = (f"{shown(e.name)} ({own or 'no unit'})" for e, own in zip(pair, units, strict=True))
        raise InputError(f"{where}: columns {x} and {y}: write both in one unit")
    return unit, units[0], [UNITS[each or "m"] for each in units]


def _degrees(table: Table, each: Mapping[str, Column]) -> tuple[np.ndarray, str]:
    """Latitude and longitude of all rows [N, 2], NaN without a side, and how they are written, as
    text."""
    every, place, said = [*table.columns.values()], list[np.ndarray](), list[str]()
    pair = [each[meaning] for meaning in PLACES[True]]
    titles = [f"{each.name} {each.beside}".lower() for each in pair]
    for column, title, letters, word in zip(pair, titles, *SIDES, strict=True):
        at, values = every.index(column), column.numbers(None)
        near = [*every[at + 1 : at + 2], *every[max(at - 1, 0) : at]]
        sides = next((each for each in near if _are_sides(each.filled, letters)), None)
        if sides:
            sign = np.array([SIGNS.get(cell.strip()[:1].upper(), NAN) for cell in sides])
            values = np.where(values == 0, 0.0, sign * np.abs(values))  # 0: no position
            said.append(f"{letters[0]}, {letters[1]} beside them")
        elif {*re.findall(r"[a-z]+", title)} & {letters[1].lower(), word}:
            values = np.where(values == 0, 0.0, -np.abs(values))
            said.append(f"{word} by the header")
        place.append(values)
    most = [float(np.abs(each.known).max(initial=0)) for each in pair]
    whole = min(most) >= 1e4 and not any((each.known % 1).any() for each in pair)
    # Times 1,000,000 they would be less, but for the header's word.
    tenths = most[0] > 90e6 or most[1] > 180e6 or any("e7" in title for title in titles)
    if whole and tenths:
        said.insert(0, "degrees times 10,000,000")
    scale = INTEGER if whole and tenths else 1.0
    return np.column_stack(place) / scale, f", places: {', '.join(said)}" if said else ""


def _are_sides(cells: Sequence[str], letters: str) -> bool:
    """Whether nearly all cells are N or S, or E or W, or words of these."""
    sides = [cell for cell in cells if len(cell) <= 5 and cell[:1].upper() in letters]
    return len(sides) > 0.5 * len(cells)


def _with_times(table: Table) -> Table:
    """A table whose times are written as year, month, day, hour, minute and second in columns that
    follow each other, with one column of times instead; any other as it is."""
    every = [*table.columns.values()]
    heads = [numbers(each.sample[:BLOCK]) for each in every]
    for at in range(len(every) - 5):
        parts, own = np.column_stack(heads[at : at + 6]), every[at : at + 6]
        inside = ((CALENDAR[0] <= parts) & (parts <= CALENDAR[1])).all()
        if len(parts) >= FEWEST and inside and not (parts[:, :5] % 1).any():
            rows = np.column_stack([each.numbers() for each in own]).tolist()
            name = "time" if table.named else own[0].name
            texts = Table.of([name], ([TIME.format(*row)] for row in rows), "").columns
            kept = [*every[:at], *texts.values(), *every[at + 6 :]]
            return replace(table, columns={each.name: each for each in kept})
    return table


def _parts(cell: str) -> list[str]:
    """The numbers of a place in one cell: 58.2, 11.4, POINT (11.4 58.2), N58 12.3 E11 24.1."""
    inside = POINT.sub("", cell).strip()
    found = re.split(r"\s*[,;]\s*|\s+(?=[EWew]\s?\d)|(?<=[NSns])\s+(?=\d)", inside)
    return found if len(found) > 1 else inside.split()


def _with_places(table: Table) -> Table:
    """A table whose places stand in one column, with columns of their numbers behind the others;
    any other as it is."""
    found = table.meaning({}, "")
    if not table.named or any(found[a] and found[b] for a, b in PLACES):
        return table
    for each in table.columns.values():
        rows = [*map(_parts, each.filled[:BLOCK])]  # before a fix there are none
        if len(rows) < FEWEST or {*map(len, rows)} not in ({2}, {3}):
            continue
        values = np.array([[*map(angle, row)] for row in rows])
        point, degrees = POINT.search(each.filled[0]), (np.abs(values[:, :2]) <= 180).all()
        fine = degrees and all(len(text.partition(".")[2]) >= FINE for text in rows[0][:2])
        if np.isfinite(values).all() and (point or fine):
            names = PLACES[False] if not degrees else PLACES[True][:: -1 if point else 1]
            own = Table.of((*names, "z")[: len(rows[0])], map(_parts, each), "").columns
            return replace(table, columns={**table.columns, **own})
    return table


def _placed(
    where: str, place: np.ndarray, unplaced: np.ndarray, stamp_ns: np.ndarray, timed: np.ndarray,
    degrees: bool,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:  # fmt: skip
    """Places of all rows [N, 2], those without a position between the positions around them by
    their times, or else by the numbers of rows; and which of these are refused, by reason. Rows
    without a time get one: in ``stamp_ns``, ``timed``."""
    at, seconds = np.arange(len(place), dtype=float), np.full(len(place), np.nan)
    if timed.any():
        times = spread(stamp_ns[timed] / SECOND)
        # Where times go back, as where a second day follows, the track begins anew.
        back = np.minimum(np.diff(times, prepend=times[0]), 0)
        going = times + np.cumsum(np.where(back < -1, 2 * GAP, 0) - back)
        ends = {"left": going[0] - 1, "right": going[-1] + 1}
        stamp_ns[~timed] = np.round(SECOND * np.interp(at[~timed], at[timed], times))
        at = seconds = np.interp(at, at[timed], going, **ends)
        timed[:] = True
    known = ~unplaced
    track = Track(where, seconds[known], place[known], degrees, at[known])
    return np.where(unplaced[:, None], track.places(at), place), track.refused(at)


def _nothing(path: Path, table: Table, found: RawSoundings, places: np.ndarray) -> InputError:
    """The error for a table without soundings; ``places``: sizes of those that are impossible."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in found.lost.items()) or "no rows"
    first = [next(iter(each.sample), "none") for each in table.columns.values()]
    text = f"{path}: expected soundings, got none ({reasons}). Its first row: "
    text += shown(" | ".join(first), 120)
    if not found.degrees or not found.lost["impossible_place"]:
        return InputError(text)
    return Unclear(
        f"{text}. Expected latitudes and longitudes in degrees, or in degrees, minutes and seconds "
        "with blanks or signs between them",
        swapped(found.columns) if (places <= (180, 90)).all() else [],
    )
