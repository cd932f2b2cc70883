"""Soundings that a person leaves out: by ``--exclude``, or in ``edits.csv`` beside the log."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, shown
from ..core.geodesy import WGS84, GeoReference, transformed
from ..core.reading import TEXT_FACTOR, read_whole
from ..outputs.folder import unquoted
from ..planning.areas import inside, ring
from .left_out import DATES, Excluded
from .soundings import LINE, Labels, Soundings

log = logging.getLogger(__name__)

#: The file of a person's edits, and its columns besides the conditions.
EDITS = "edits.csv"
WORDS = ("who", "when", "why")
#: Conditions that need no column of the log.
FILE, DAY, ROW, POLYGON, DEGREES = "file", "day", "row", "polygon", "polygon_degrees"
KNOWN = {*WORDS, LINE, FILE, DAY, ROW, POLYGON, DEGREES}
#: In ``source``: where the lines come from if there is no column of them.
LINES_OF, TRACK = "lines_of", "track"
#: The reason of these soundings.
EXCLUDED = "excluded"
#: Maximum number of known values that a message lists.
NAMED = 20


@dataclass(frozen=True)
class Exclusion:
    """Soundings to leave out: those that meet all of the conditions ``which`` (column, value).

    Attributes:
        source: the option or the file that says so, for messages.
        who, when, why: as the person wrote them.
    """

    which: tuple[tuple[str, str], ...]
    source: str
    who: str = ""
    when: str = ""
    why: str = ""

    @property
    def words(self) -> str:
        """The conditions as text."""
        return ", ".join(f"{column}={value}" for column, value in self.which)


def read_option(text: str) -> Exclusion:
    """The exclusion of ``--exclude COLUMN=VALUE``.

    Raises:
        InputError: it is not an exclusion.
    """
    column, equals, value = text.partition("=")
    if not (column and equals and value):
        raise InputError(f"--exclude: expected COLUMN=VALUE, as in line=L7, got {shown(text)}")
    return Exclusion(((column, value),), "--exclude")


def read_edits(path: Path) -> list[Exclusion]:
    """The rows of an ``edits.csv``, in order; none if there is no file.

    Spreadsheets write it with semicolons or tabs, with a byte order mark, or in Windows-1252.

    Raises:
        InputError: ``who``, ``when`` or ``why`` is missing, a column appears twice, or a row has no
            condition.
    """
    if not path.is_file():
        return []
    try:
        content = read_whole(path, TEXT_FACTOR)
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("cp1252", errors="replace")
    except (OSError, InputError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    header = [unquoted(name.strip()) for name in next(rows, [])]
    header = [name.lower() if name.lower() in KNOWN else name for name in header]
    if not set(WORDS) <= set(header) or len(set(header)) < len(header):
        raise InputError(
            f"{path}: expected columns {', '.join(WORDS)} and conditions, each once, got "
            f"{shown(', '.join(header)) or 'none'}"
        )
    found = []
    for number, cells in enumerate(rows, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise InputError(
                f"{path}: expected {len(header)} values in row {number}, got {len(cells)}"
            )
        row = {name: unquoted(text.strip()) for name, text in zip(header, cells, strict=True)}
        which = tuple((name, row[name]) for name in row if name not in WORDS)
        which = tuple((name, value) for name, value in which if value)
        if not which:
            raise InputError(
                f"{path}: expected a condition in row {number} (in a column such as "
                f"{LINE}, {FILE}, {DAY}, {ROW} or {POLYGON}), got none"
            )
        found.append(Exclusion(which, str(path), *(row[name] for name in WORDS)))
    return found


def needed(exclusions: Iterable[Exclusion]) -> frozenset[str]:
    """The columns of a log that exclusions refer to."""
    return frozenset(column for each in exclusions for column, _ in each.which)


def exclude(
    soundings: Soundings, exclusions: Sequence[Exclusion], logs: Sequence[Path]
) -> Soundings:
    """The soundings without those that a person excludes, which are counted as ``excluded``.

    Lines, days and files are determined from all soundings.

    Raises:
        InputError: a column or a value of an option is unknown, or nothing is left.
    """
    kept, left_out, counts, columns = np.ones(len(soundings), dtype=bool), [], [], {}
    for each in exclusions:
        these = np.ones(len(soundings), dtype=bool)
        # An exclusion of another file does not apply here, and its columns may be missing.
        for column, value in sorted(each.which, key=lambda pair: pair[0] != FILE):
            if not these.any():
                break
            if column == ROW:
                these &= _rows(each, value, own_rows(soundings))
            elif column == POLYGON:
                these &= within(_corners(each, POLYGON, value), soundings.xy)
            elif column == DEGREES:
                these &= within(_in_metres(each, value, soundings), soundings.xy)
            else:
                if column not in columns:
                    columns[column] = _values(soundings, column, each, logs)
                these &= _equal(columns[column], column, value, each)
        these &= kept
        kept &= ~these
        left_out.append(
            soundings.left(these, EXCLUDED, each.why or each.words, each.who, each.when)
        )
        counts.append(Excluded(
            each.words, each.source, each.who, each.when, each.why, int(these.sum())
        ))  # fmt: skip
    if not kept.any():
        raise InputError(f"{logs[0]}: all soundings are excluded")
    return replace(soundings.without(*left_out), excluded=tuple(counts))


def with_lines(soundings: Soundings) -> Soundings:
    """The same with labels of lines: from the column ``line``, or else as found in the track."""
    if LINE in soundings.labels:
        return soundings
    line = soundings.lines()
    names = tuple(f"{i + 1}" for i in range(int(line[-1]) + 1))
    source = {**soundings.source, LINES_OF: TRACK}
    return replace(soundings, labels={**soundings.labels, LINE: Labels(line, names)}, source=source)


def days(soundings: Soundings) -> Labels:
    """The day (UTC) of each sounding; empty where unknown."""
    if soundings.stamp_ns is None:
        return Labels(np.zeros(len(soundings), dtype=np.int64), ("",))
    number = np.where(soundings.stamp_ns < DATES, -1, soundings.stamp_ns // (86_400 * SECOND))
    known, code = np.unique(number, return_inverse=True)
    names = ("" if n < 0 else str(np.datetime64(int(n), "D")) for n in known)
    return Labels(code.astype(np.int64), tuple(names))


def _values(
    soundings: Soundings, column: str, exclusion: Exclusion, logs: Sequence[Path]
) -> Labels:
    if column in soundings.labels:
        return soundings.labels[column]
    if column == LINE:
        return with_lines(soundings).labels[LINE]
    if column == DAY and (found := days(soundings)).names != ("",):
        return found
    if column == FILE:
        return Labels(files(soundings).code, tuple(map(str, logs)))
    known = [*soundings.labels, LINE, FILE, ROW, POLYGON, DEGREES]
    raise InputError(
        f"{exclusion.source}: expected a column of the log ({', '.join(dict.fromkeys(known))}, or "
        f"{DAY} where times are known), got '{column}'"
    )


def files(soundings: Soundings) -> Labels:
    """The file of each sounding, by its path if two have one name; without a name if there is only
    one."""
    begins = [first for _, first in soundings.files[1:]]
    code = np.searchsorted(begins, soundings.row, side="right").astype(np.int64)
    return Labels(code, file_names([path for path, _ in soundings.files]) or ("",))


def file_names(paths: Sequence[str]) -> tuple[str, ...]:
    """The names of files without their folders; their paths if two have one name."""
    names = tuple(Path(path).name for path in paths)
    return names if len(set(names)) == len(names) else tuple(paths)


def own_rows(soundings: Soundings) -> np.ndarray:
    """The row of each sounding in its own file [N], from 0."""
    begins = np.array([first for _, first in soundings.files] or [0])
    return soundings.row - begins[files(soundings).code]


def rows_and_files(soundings: Soundings) -> dict[str, np.ndarray]:
    """Columns of a table: the row of each sounding in its file [N] and, if there are several files,
    its file [N]."""
    columns = {ROW: own_rows(soundings)}
    if soundings.files:
        paths = np.array([path for path, _ in soundings.files], dtype=object)
        columns[FILE] = paths[files(soundings).code]
    return columns


def _equal(values: Labels, column: str, value: str, exclusion: Exclusion) -> np.ndarray:
    if column == FILE:
        value = _whole_path(values.names, value, exclusion)
    if value in values.names:
        return values.code == values.names.index(value)
    known = ", ".join(values.names[:NAMED]) + (", ..." if len(values.names) > NAMED else "")
    text = f"{exclusion.source}: expected a {column} of the log ({known}), got '{value}'"
    if exclusion.source == "--exclude":
        raise InputError(text)
    log.warning("%s", text)  # it may belong to another log in the same folder
    return np.zeros(len(values.code), dtype=bool)


def _whole_path(paths: Sequence[str], value: str, exclusion: Exclusion) -> str:
    """The path that ends with this name or part of a path; the value itself if none does."""
    end = Path(value).parts
    found = [path for path in paths if Path(path).absolute().parts[-len(end) :] == end]
    if value in paths or not found:
        return value
    if len(found) > 1:
        raise InputError(
            f"{exclusion.source}: expected one {FILE}, got '{value}', which may be any of "
            f"{', '.join(found[:NAMED])}: give more of its path"
        )
    return found[0]


def _rows(exclusion: Exclusion, text: str, row: np.ndarray) -> np.ndarray:
    """The soundings of a row, or of rows FIRST-LAST."""
    first, dash, last = text.partition("-")
    whole = first.isdecimal() and (last.isdecimal() if dash else not last)
    if not whole or (dash and int(last) < int(first)):
        raise InputError(
            f"{exclusion.source}: expected a {ROW} as 120, or rows as 120-164, got '{text}'"
        )
    return (row >= int(first)) & (row <= int(last or first))


def _corners(exclusion: Exclusion, column: str, text: str) -> np.ndarray:
    try:
        values = np.array([float(word) for word in text.replace(",", " ").split()])
        return ring(values.reshape(-1, 2), column)
    except ValueError:
        form = {POLYGON: "x1 y1 x2 y2 x3 y3 ... in m of the map"}
        raise InputError(
            f"{exclusion.source}: expected a {column} as "
            f"{form.get(column, 'latitude1 longitude1 latitude2 longitude2 ...')}, got "
            f"{shown(text)}"
        ) from None


def _in_metres(exclusion: Exclusion, text: str, soundings: Soundings) -> np.ndarray:
    """The corners of a polygon in degrees, in m of the map [K, 2]."""
    corners = _corners(exclusion, DEGREES, text)
    place = GeoReference.given(soundings.source.get("origin"), soundings.source.get("heading"))
    if place is None:
        raise InputError(
            f"{exclusion.source}: {DEGREES}: expected soundings whose place on the Earth is known, "
            "got metres"
        )
    return place.to_map(transformed(WGS84, place.system(), corners[:, ::-1]))


def within(corners: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Which places [N, 2] lie in a polygon [K, 2]; boolean [N]."""
    near = ((xy >= corners.min(0)) & (xy <= corners.max(0))).all(1)
    near[near] = inside(corners, xy[near])
    return near


def described(excluded: Iterable[Excluded]) -> list[str]:
    """A sentence for each exclusion."""
    sentences = []
    for each in excluded:
        details = ", ".join(word for word in (each.why, each.who, each.when) if word)
        by = f"{Path(each.source).name}: {details}" if details else Path(each.source).name
        sentences.append(f"{quantity(each.number, 'sounding')} excluded: {each.which} ({by})")
    return sentences
