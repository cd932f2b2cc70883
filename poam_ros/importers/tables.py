"""Soundings from tables: the layout of a text or of JSON, the meaning of columns, then all rows."""

from __future__ import annotations

import csv
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geodesy import is_in_feet
from ..core.reading import JSON_FACTOR, LONGEST_LINE, lines, parse_json_text, refuse_larger
from ..mapping.soundings import LINE, Labels
from .cells import SPELLINGS, UNITS, Times, angle, is_nothing, is_value, numbers
from .columns import HEIGHTS, KEEL, PLACES, WHEN, Column, Table, meanings_of
from .faults import GAP, impossible, no_position, spread, uncertain
from .look import FEWEST, swapped
from .options import ReadOptions, Unclear
from .questions import FINE, chosen
from .raw import RawSoundings
from .track import DAY, NO_FIX, Track, is_above_ground, over_midnight, without_altitude

#: Separators by name, with weights; the first is preferred if two fit equally. No text has ; | and
#: tabs for anything else, while blanks (None: any run of them) also stand within times and angles.
SEPARATORS = {
    ";": ("semicolons", 9.0), "\t": ("tabs", 9.0), ",": ("commas", 1.0), "|": ("bars", 9.0),
    None: ("blanks", 0.99),
}  # fmt: skip
LF, COMMENTS = "\n", ("#", "%", "//", "!")
#: Lines, and about so many characters, that the layout is detected from; bytes that show JSON.
HEAD, HEAD_CHARACTERS, HEAD_BYTES = 200, 500_000, 64
#: A letter of a word, not of a time or an angle: rows of numbers are commented out.
_WORD = re.compile(r"(?<!\d)[^\W\d_]")
#: What stands about the numbers of a point of WKT, as a GIS writes it.
POINT = re.compile(r"(?:SRID=\d+;)?\s*POINT\s*Z?\s*\(|\)\s*$", re.IGNORECASE)
#: Names of a column that has both numbers of a place.
IN_ONE = {"position", "posicion", "posizione", "gpsposition", "pos", "location", "gps", "latlon",
          "latlong", "latlng", "coordinate", "coordinates", "coords", "koordinaten", "coordenadas",
          "coordonnees", "wkt", "wktgeom", "geom", "thegeom", "geometry"}  # fmt: skip
#: What the columns of a time have, if these are six.
CALENDAR = (1970, 2100), (1, 12), (1, 31), (0, 23), (0, 59), (0, 60.999)
#: Of latitudes and of longitudes: letters of their sides, and the side that is negative.
SIDES = ("NS", "EWO"), ("south", "west")
#: Without times, depths are placed by the numbers of their rows if a larger share has no position.
UNTIMED = 0.2
#: Degrees times 10,000,000, of receivers and autopilots, are whole, and mostly more than these:
#: 90 and 180 degrees times 1,000,000.
WHOLE = np.array((90e6, 180e6))
#: Names of a column that has the unit of depths.
UNIT_NAMES = {"unit", "units", "depthunit", "depthunits", "uom"}


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
    except (OSError, csv.Error, UnicodeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason})") from None


def read_json(path: Path) -> Table:
    """The table in JSON: objects in lines, or in lists of a document. Lists at one level whose keys
    of a meaning are the same are one table; of several the longest of those with places and heights
    counts. Keys are the columns, those of an object in it with a point between.

    Raises:
        InputError: it is no JSON, or takes too much memory.
        OSError: the file cannot be read.
    """

    def lists(value: Any, level: int = 0) -> Iterator[tuple[int, list[dict[str, str]]]]:
        if isinstance(value, list):
            yield level, [flat(each) for each in value if isinstance(each, dict)]
        inside = [*value.values()] if isinstance(value, dict) else value
        for each in inside if isinstance(inside, list) else ():  # as the points of each track
            yield from lists(each, level + 1)

    def flat(value: Any, name: str = "") -> dict[str, str]:
        if isinstance(value, dict):
            parts = (flat(each, f"{name}.{key}" if name else key) for key, each in value.items())
            return {key: text for part in parts for key, text in part.items()}
        return {name: "" if isinstance(value, list | None) else str(value).replace("\0", " ")}

    def telling(kind: Any) -> tuple[int, int]:
        means = {*chain(*map(meaning, kind[1]))}
        count = len(found[kind])  # a single one may be a sensor's place aboard
        return (count > 1) * min(3, len(means & {*HEIGHTS, *chain(*PLACES)})), count

    meaning = cache(meanings_of)
    refuse_larger(f"{path}: its content", path.stat().st_size, JSON_FACTOR)
    text, found = path.read_text("utf-8-sig").strip(), defaultdict[Any, list[dict[str, str]]](list)
    in_lines = text.startswith("{") and LF in text and text.partition(LF)[0].rstrip().endswith("}")
    try:
        text = "[" + re.sub(r"\n\s*", ",\n", text) + "]" if in_lines else text
        for level, rows in lists(parse_json_text(text)):
            if rows:
                found[level, frozenset(filter(meaning, chain(*rows)))] += rows
        if not found:
            raise ValueError("there is none")
    except ValueError as error:
        raise InputError(f"{path}: expected JSON, a list of objects or one in each line ({error}); "
                         "convert it to CSV") from None  # fmt: skip
    return Table.of_rows(found[max(found, key=telling)], "JSON", str(path))


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
        # Between commas it is quoted, and may stand between thousands.
        comma = any("," in cell and np.isfinite(angle(cell.replace(",", ".")))
                    and (separator != "," or len(cell.partition(",")[2]) != 3)
                    for cell in plain)  # fmt: skip
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
    text = head.decode("utf-8", "replace")[:-3]  # cut within a character or not
    # A text may have such marks of its own, from an earlier program.
    wrong = text.count("\ufffd") > head.count("\ufffd".encode())
    return "cp1252" if wrong else "utf-8-sig"


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
    if separator is None:  # a quote that nothing closes ends with its line
        for line in lines:
            yield from csv.reader([" ".join(line.split())], delimiter=" ")
        return
    rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    at = 1
    try:
        for row in rows:
            yield row
            at = rows.line_num + 1
    except csv.Error as error:
        raise csv.Error(f"row {at}: {error}") from None


def _fit(rows: list[list[str]]) -> float:
    """How well a separator fits: the share of rows of the usual width, times their mean number of
    values (with a small weight for any cell, as a header alone has none)."""
    width, count = Counter(map(len, rows)).most_common(1)[0]
    values = sum(is_value(cell) for row in rows if len(row) == width for cell in row)
    return (values + 0.01 * width * count) / len(rows) if width > 1 else 0.0


def _first_row(rows: Sequence[Sequence[str]], width: int) -> int:
    """The first row of data: of the usual width, with as many values, or cells of nothing, as
    before the first fix, as most; of many one may differ. Before it come header and text."""
    values = [sum(map(is_value, row)) * (len(row) == width) for row in rows]
    filled = [n and n + sum(map(is_nothing, row)) for n, row in zip(values, rows, strict=True)]
    usual = float(np.median([*filter(None, filled)] or [1]))
    return next((i for i, n in enumerate(filled) if n >= usual - (usual > 3)), len(rows))


def _header(above: list[list[str]], width: int, blanks: bool) -> tuple[list[str], list[str]]:
    """The names of the columns, of the row above the data with the most that mean something, or
    the last of these; and the row behind it, which may have units. Both may be empty. Rows of other
    numbers of cells, but for one that a separator at their ends makes, and of values are remarks;
    but names of a profile's samples are numbers, behind some words."""
    fits = {width} if blanks else range(max(2, width - 1), 1 + max(map(len, above), default=0))
    words = [len(row) - sum(map(is_value, row)) for row in above]
    above = [[cell.strip(' "') for cell in row] for row, count in zip(above, words, strict=True)
             if len(row) in fits and (count == len(row) or count > 2)]  # fmt: skip
    means = [sum(map(bool, map(meanings_of, row))) for row in above]
    at = max(range(len(above)), key=lambda i: (means[i], i), default=0)
    return [*chain(*above[at : at + 1])], [*chain(*above[at + 1 : at + 2])]


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
    where, every, table = str(path), table.columns, _with_places(with_times(table))
    each, times, clock, note = _understood(where, options, table)
    names = {meaning: column.name for meaning, column in (each | times).items()}
    degrees, down = "latitude" in each, "depth" in each
    depths, pair = each[HEIGHTS[down]], [each[meaning] for meaning in PLACES[degrees]]
    said, place_unit, scale = _units_of(where, options, table, each, options.crs or crs)
    unit, height, written = said or "m", depths.numbers(said or "m"), ""
    if degrees:
        place, written = _degrees([*table.columns.values()], pair)
    else:
        place = scale * np.column_stack([each.numbers() for each in pair])
    row = np.arange(count := len(height))
    stamp_ns, timed = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    if times:
        stamp_ns, timed = clock.stamps(map(" ".join, zip(*times.values(), strict=True)))
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
    wrong["no_time"] = ~timed & (options.timed and bool(times))
    wrong |= impossible(place, height, degrees, unit)
    place[wrong["impossible_place"]] = height[wrong["impossible_place"]] = np.nan
    if "confidence" in each:
        sure = each["confidence"].numbers()[kept]
        wrong["low_confidence"], why = uncertain(sure, options.min_confidence)
        note += why.format(names["confidence"])
    good = ~np.any(list(wrong.values()), axis=0)
    if "altitude" in each and good.any():
        own = each["altitude"].unit or depths.unit or "m"
        above = each["altitude"].numbers(own)[kept][good] * UNITS[own] / UNITS[unit]
        if not is_above_ground(where, names, options.columns, place[good], height[good], above):
            del names["altitude"]
        elif options.sound_scale != 1:
            raise InputError(f"{where}: water.sound_speed: applies to depths below the surface "
                             "only, got a vehicle's depth and altitude")  # fmt: skip
        else:
            wrong["no_reading"], none = np.zeros(len(good), dtype=bool), without_altitude(above)
            height[good] += np.where(none, 0.0, above if down else -above)
            wrong["no_reading"][good] = none
    if down and good.any() and (height[good] < 0).mean() > 0.95:
        height, note = -height, f"{note}, with a minus sign"
    below_keel = depths.origin == KEEL
    for option, value in (("draught", options.draught), ("keel", options.keel)):
        if down and value and below_keel != (option == "keel"):
            raise InputError(f"{path}: --{option}: does not apply to depths of {depths.name}")
    height = height + down * options.keel / UNITS[unit]
    labels = {}
    for name in every.keys() & {*options.labels, LINE, options.by or LINE}:
        cells = np.array([cell.strip() for cell in every[name]], dtype=object)
        texts, code = np.unique(cells, return_inverse=True)
        labels[name] = Labels(code[kept], tuple(texts.tolist()))
    found = RawSoundings(
        place, height, degrees, down, said, crs, stamp_ns if timed.any() else None, row, labels,
        layout=table.description, refused=refused or Counter(),
        understood=_described(names, said, place_unit) + note + written,
        source={"columns": names, "units": unit, "place_units": place_unit},
    ).without(wrong)  # fmt: skip
    if not good.any():
        raise _nothing(path, table, found)
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
) -> tuple[dict[str, Column], dict[str, Column], Times, str]:
    """The columns by meaning: of the place and the height, and of altitude and confidence that
    there are; those of times; how these are read; and what was chosen, and why, as text."""
    found = table.meaning(options.columns, where)
    each, note = chosen(table, found, where)
    each |= {meaning: found[meaning][0] for meaning in ("altitude", "confidence") if found[meaning]}
    times = table.times(options.columns)
    texts = [*map(" ".join, zip(*(each.sample for each in times.values()), strict=True))]
    clock = Times(texts)
    if options.timed and times and clock.fault:
        raise InputError(f"{where}: column {times['time'].name}: {clock.fault}")
    if texts and not options.timed and (clock.fault or not clock.stamps(texts)[1].any()):
        note, times = f"{note}; times not read, such as {shown(texts[0])}", {}
    return each, times, clock, note


def _units_of(
    where: str, options: ReadOptions, table: Table, each: Mapping[str, Column], crs: str
) -> tuple[str, str, float]:
    """The units of heights, and of x and y, of ``UNITS``, empty where nothing says it; and the
    scale of x and y to the metres (or the feet) of their system, ``crs``."""
    height, (unit, of_place) = each[HEIGHTS["depth" in each]], options.unit_of
    beside = {SPELLINGS.get(cell.lower(), "") for column in table.columns.values()
              if "".join(column.words) in UNIT_NAMES for cell in column.filled}  # fmt: skip
    beside |= {height.unit} - {""}
    if len(beside) > 1:
        raise InputError(f"{where}: columns say {' and '.join(sorted(beside))} for depths; "
                         "write all of them in one unit")  # fmt: skip
    unit = unit or "".join(beside & {*UNITS})
    degrees = "latitude" in each
    in_feet = bool(crs) and not degrees and is_in_feet("--crs", crs)
    if of_place and (degrees or (in_feet and of_place != "ft")):
        own = "latitude and longitude are in degrees" if degrees else f"{crs} is in feet"
        raise InputError(f"{where}: --units: {own}, got '{options.units}'")
    if in_feet and not unit:
        raise Unclear(
            f"{where}: {crs} is in feet, and column {height.name} does not say its unit",
            {"if it is in feet, too": {"units": "ft"}, "if not": {"units": "m"}},
        )
    if degrees or in_feet:
        return unit, "ft" * in_feet, 1.0
    pair = [each[meaning] for meaning in PLACES[False]]
    known = bool(crs) or any("utm" in column.words for column in pair)
    units = {of_place or column.unit or "m" * known for column in pair}
    if len(units) > 1:
        x, y = (f"{shown(e.name)} ({of_place or e.unit or 'no unit'})" for e in pair)
        raise InputError(f"{where}: columns {x} and {y}: write both in one unit")
    return unit, (place_unit := units.pop()), UNITS[place_unit or "m"]


def _degrees(every: list[Column], pair: list[Column]) -> tuple[np.ndarray, str]:
    """Latitude and longitude of all rows [N, 2], NaN without a side, and how they are written, as
    text. ``every``: column of the table; ``pair``: those two."""
    place, said = list[np.ndarray](), list[str]()
    for column, letters, word in zip(pair, *SIDES, strict=True):
        at, values = every.index(column), column.numbers(None)
        near = [*every[at + 1 : at + 2], *every[max(at - 1, 0) : at]]
        sides = next((each for each in near if _are_sides(each.filled, letters)), None)
        title = {*re.findall(r"[a-z]+", f"{column.name} {column.beside}".lower())}
        if sides or title & {letters[1].lower(), word}:
            pairs = zip(column, sides or repeat(letters[1]), strict=False)
            signed = np.array([angle(f"{cell} {side.strip()[:1] or '?'}") for cell, side in pairs])
            by = f"{letters[0]}, {letters[1]} beside them" if sides else f"{word} by the header"
            said += [by] * bool(np.isfinite(signed).any())
            # A side in the cell itself goes before the header's: 8.6 E below Longitude (E/W).
            values = signed if sides else np.where(np.isfinite(signed), signed, values)
        place.append(values)
    found, scale = np.column_stack(place), 1.0
    known = [each.known for each in pair]
    titled = any("e7" in column.name.lower() for column in pair)
    large = [np.abs(values).max(initial=0) for values in known] > (WHOLE / 1e4 if titled else WHOLE)
    if large.any() and not any((values % 1).any() for values in known):
        said.insert(0, "degrees times 10,000,000")
        scale = 1e7
    return found / scale, f", places: {', '.join(said)}" if said else ""


def _are_sides(cells: Sequence[str], letters: str) -> bool:
    """Whether nearly all cells are N or S, or E or W, or words of these."""
    sides = [cell for cell in cells if len(cell) <= 5 and cell[:1].upper() in letters]
    return len(sides) > 0.5 * len(cells)


def with_times(table: Table) -> Table:
    """A table whose times stand in six columns, from year to second, with one of their texts in
    place of these; any other as it is."""
    every = [*table.columns.values()]
    for at in range(len(every) - 5):
        six = every[at : at + 6]
        heads = (numbers(each.filled[:: 1 + len(each.filled) // 100]) for each in six)
        # All but the seconds are whole.
        fit = (((low <= head) & (head <= high) & ((head % 1 == 0) | (high == 60.999))).all()
               for head, (low, high) in zip(heads, CALENDAR, strict=True))  # fmt: skip
        if all(fit) and min(len(each.filled) for each in six) >= FEWEST:
            form = "{}-{}-{} {}:{}:{}".format
            texts = ([form(*map(str.strip, row))] for row in zip(*six, strict=True))
            left = {name: each for name, each in table.columns.items() if each not in six}
            return replace(table, columns={**Table.of(["datetime"], texts, "").columns, **left})
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
    if any(found[a] and found[b] for a, b in PLACES):
        return table
    for each in table.columns.values():
        rows = [[*map(angle, _parts(cell))] for cell in each.filled[:FEWEST]]
        if "".join(each.words) in IN_ONE and {*map(len, rows)} in ({2}, {3}):
            values, point = np.array(rows)[:, :2], POINT.search(each.filled[0])
            degrees = (np.abs(values) <= 180).all()
            fine = point or (degrees and (values != values.round(FINE - 1)).any())
            if fine and np.isfinite(values).all():
                names = PLACES[True][:: -1 if point else 1] if degrees else PLACES[False]
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


def _nothing(path: Path, table: Table, found: RawSoundings) -> InputError:
    """The error for a table without soundings."""
    reasons = ", ".join(f"{n} {reason}" for reason, n in found.lost.items()) or "no rows"
    first = " | ".join(next(iter(each.sample), "none") for each in table.columns.values())
    text = f"{path}: expected soundings, got none ({reasons}). Its first row: {shown(first, 120)}"
    if not found.degrees or not found.lost["impossible_place"]:
        return InputError(text)
    most = [np.abs(table.columns[found.columns[m]].known).max(initial=0) for m in PLACES[True]]
    return Unclear(
        f"{text}. Expected latitudes and longitudes in degrees, or in degrees, minutes and seconds "
        "with blanks or signs between them",
        swapped(found.columns) if (np.array(most) <= (180, 90)).all() else {},
    )
