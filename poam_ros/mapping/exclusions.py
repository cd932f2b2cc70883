"""Soundings that a person leaves out: by ``--exclude``, or in ``edits.csv`` beside the log, which
the page of `poam view` changes."""

from __future__ import annotations

import csv
import io
import logging
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, shown
from ..core.geodesy import WGS84, GeoReference, transformed
from ..core.reading import TEXT_FACTOR, read_whole
from ..core.settings import flat
from ..outputs.folder import LEFT_OUT, read_records, unquoted, write_table
from ..outputs.run import CONFIG, read_settings
from ..planning.areas import inside, ring
from .soundings import DATES, LINE, OF_TRACK, Labels, Soundings

log = logging.getLogger(__name__)

#: The file of a person's edits, and its columns besides the conditions.
EDITS = "edits.csv"
WORDS = ("who", "when", "why")
#: A row's action, in a column of this name: the first where it is empty or there is none.
ACTION, EXCLUDE, RESTORE = "action", "exclude", "restore"
#: Conditions that need no column of the log.
FILE, DAY, ROW, POLYGON, DEGREES = "file", "day", "row", "polygon", "polygon_degrees"
KNOWN = {*WORDS, ACTION, LINE, FILE, DAY, ROW, POLYGON, DEGREES}
#: The same as the option, and where it is written.
OPTION = "--exclude"
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
        action: ``EXCLUDE``, or ``RESTORE`` for those that earlier ones leave out.
    """

    which: tuple[tuple[str, str], ...]
    source: str
    who: str = ""
    when: str = ""
    why: str = ""
    action: str = EXCLUDE

    @property
    def words(self) -> str:
        """The conditions as text."""
        return ", ".join(f"{column}={value}" for column, value in self.which)

    def expected(self, what: str) -> InputError:
        """The error of a condition."""
        return InputError(f"{self.source}: expected {what}")


def read_option(text: str) -> Exclusion:
    """The exclusion of ``--exclude COLUMN=VALUE``.

    Raises:
        InputError: it is not an exclusion.
    """
    column, equals, value = text.partition("=")
    if not (column and equals and value):
        raise InputError(f"{OPTION}: expected COLUMN=VALUE, as in line=L7, got {shown(text)}")
    return Exclusion(((column, value),), OPTION)


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
            expected = f"{len(header)} values in row {number}, got {len(cells)}"
            raise InputError(f"{path}: expected {expected}")
        row = {name: unquoted(text.strip()) for name, text in zip(header, cells, strict=True)}
        if (action := row.pop(ACTION, "").lower() or EXCLUDE) not in (EXCLUDE, RESTORE):
            expected = f"{ACTION} {EXCLUDE} or {RESTORE} in row {number}, got '{action}'"
            raise InputError(f"{path}: expected {expected}")
        which = tuple((name, row[name]) for name in row if name not in WORDS and row[name])
        if not which:
            names = f"{LINE}, {FILE}, {DAY}, {ROW} or {POLYGON}"
            expected = f"a condition in row {number} (in a column such as {names}), got none"
            raise InputError(f"{path}: expected {expected}")
        found.append(Exclusion(which, str(path), row["who"], row["when"], row["why"], action))
    return found


def needed(exclusions: Iterable[Exclusion]) -> frozenset[str]:
    """The columns of a log that exclusions refer to."""
    return frozenset(column for each in exclusions for column, _ in each.which)


def exclude(
    soundings: Soundings, exclusions: Sequence[Exclusion], logs: Sequence[Path]
) -> Soundings:
    """The soundings without those that a person excludes, and no later row restores, which are
    counted as ``excluded``.

    Lines, days and files are determined from all soundings.

    Raises:
        InputError: a column or a value of an option is unknown, or nothing is left.
    """
    by, said = np.full(len(soundings), -1), []  # the exclusion that leaves each out
    for number, each in enumerate(exclusions):
        these = by >= 0 if each.action == RESTORE else by < 0
        # An exclusion of another file does not apply here, and its columns may be missing.
        for column, value in sorted(each.which, key=lambda pair: pair[0] != FILE):
            if not these.any():
                break
            these = these & _meet(soundings, column, value, each, logs)
        by[these] = -1 if each.action == RESTORE else number
        count = quantity(int(these.sum()), "sounding")
        details = ", ".join(word for word in (each.why, each.who, each.when) if word)
        source = ": ".join(filter(None, (Path(each.source).name, details)))
        said.append(f"{count} {each.action}d: {each.words} ({source})")
    if (by >= 0).all():
        raise InputError(f"{logs[0]}: all soundings are excluded")
    left_out = [soundings.left(by == n, EXCLUDED, each.why or each.words, each.who, each.when)
                for n, each in enumerate(exclusions)]  # fmt: skip
    return replace(soundings.without(*left_out), excluded=tuple(said))


def _meet(
    soundings: Soundings, column: str, value: str, by: Exclusion, logs: Sequence[Path]
) -> np.ndarray:
    """Which soundings meet a condition [N], boolean."""
    if column == ROW:
        first, dash, last = value.partition("-")
        whole = first.isdecimal() and (last.isdecimal() if dash else not last)
        if not whole or (dash and int(last) < int(first)):
            raise by.expected(f"a {ROW} as 120, or rows as 120-164, got '{value}'")
        row = own_rows(soundings)
        return (row >= int(first)) & (row <= int(last or first))
    if column in (POLYGON, DEGREES):
        try:
            values = np.array([float(word) for word in value.replace(",", " ").split()])
            corners = ring(values.reshape(-1, 2), column)
        except ValueError:
            form = {POLYGON: "x1 y1 x2 y2 x3 y3 ... in m of the map",
                    DEGREES: "latitude1 longitude1 latitude2 longitude2 ..."}[column]  # fmt: skip
            raise by.expected(f"a {column} as {form}, got {shown(value)}") from None
        if column == DEGREES:
            source = soundings.source
            place = GeoReference.given(source.get("origin"), source.get("heading"))
            if place is None:
                expected = "soundings whose place on the Earth is known, got metres"
                raise InputError(f"{by.source}: {DEGREES}: expected {expected}")
            corners = place.to_map(transformed(WGS84, place.system(), corners[:, ::-1]))
        return inside(corners, soundings.xy)
    own = soundings.with_lines().labels if column == LINE else soundings.labels
    paths = Labels(files(soundings).code, tuple(map(str, logs)))
    labels = {FILE: paths, DAY: days(soundings), **own}.get(column)
    if labels is paths:
        value = _whole_path(paths.names, value, by)
    if labels is None or labels.names == ("",):
        known = ", ".join(dict.fromkeys([*soundings.labels, LINE, FILE, ROW, POLYGON, DEGREES]))
        raise by.expected(
            f"a column of the log ({known}, or {DAY} where times are known), got '{column}'"
        )
    if value in labels.names:
        return labels.code == labels.names.index(value)
    some = ", ".join(labels.names[:NAMED]) + (", ..." if len(labels.names) > NAMED else "")
    error = by.expected(f"a {column} of the log ({some}), got '{value}'")
    if by.source == OPTION:
        raise error
    log.warning("%s", error)  # it may belong to another log in the same folder
    return np.zeros(len(soundings), dtype=bool)


def _whole_path(paths: Sequence[str], value: str, by: Exclusion) -> str:
    """The path that ends with this name or part of a path; the value itself if none does."""
    end = Path(value).parts
    found = [path for path in paths if Path(path).absolute().parts[-len(end) :] == end]
    if value in paths or not found:
        return value
    if len(found) > 1:
        raise by.expected(
            f"one {FILE}, got '{value}', which may be any of {', '.join(found[:NAMED])}: give more "
            "of its path"
        )
    return found[0]


def days(soundings: Soundings) -> Labels:
    """The day (UTC) of each sounding; empty where unknown."""
    if soundings.stamp_ns is None:
        return Labels(np.zeros(len(soundings), dtype=np.int64), ("",))
    number = np.where(soundings.stamp_ns < DATES, -1, soundings.stamp_ns // (86_400 * SECOND))
    known, code = np.unique(number, return_inverse=True)
    names = ("" if n < 0 else str(np.datetime64(int(n), "D")) for n in known)
    return Labels(code.astype(np.int64), tuple(names))


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


class Edits:
    """The ``edits.csv`` of a run of `poam map`, which can be changed.

    Args:
        folder: of the run.

    Attributes:
        path: of the ``edits.csv``: beside the log, or in the run's folder if the log is gone.
        command: the shell command for the next run.

    Raises:
        InputError: its ``config.yaml`` does not name the log.
    """

    def __init__(self, folder: Path) -> None:
        config = flat(read_settings(folder))
        source = config.get("log")
        if not isinstance(source, str):
            raise InputError(f"{folder / CONFIG}: expected the log of `poam map`, got none")
        log = Path(source)
        self.path = ((log if log.is_dir() else log.parent) if log.exists() else folder) / EDITS
        try:
            words = shlex.split(str(config.get("command", "")))
        except ValueError:
            words = []
        # Safe to paste: it is always one of `poam map`, whatever the file says.
        self.command = shlex.join(words) if words[:2] == ["poam", "map"] else "poam map"
        self._folder, self._name = folder, log.name
        self._place = GeoReference.given(config.get("origin"), config.get("heading"))
        self._lines_found = OF_TRACK.items() <= config.items()

    def rows(self) -> list[Exclusion]:
        """The exclusions in the file. Raises as ``read_edits``."""
        return read_edits(self.path)

    def leave_out(self, column: str, value: str, who: str, why: str) -> None:
        """Add a row for each file with such soundings: those of a line, or in a polygon in m of the
        map. The rows hold for these files, whichever others they are mapped with.

        Raises:
            InputError: as ``read_edits``, or a file of the run is damaged.
            OSError: the file cannot be written.
        """
        when = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        who, why = (" ".join(text.split()) for text in (who, why))
        made = [Exclusion(which, "", who, when, why) for which in self._conditions(column, value)]
        self._write([*self.rows(), *made])

    def _conditions(self, column: str, value: str) -> Iterator[tuple[tuple[str, str], ...]]:
        file, row, line, xy = self._soundings()
        if column == POLYGON:
            corners = np.array(value.split(), dtype=float).reshape(-1, 2)
            these = inside(corners, xy)
            if self._place is not None:
                degrees = self._place.degrees(self._place.to_projected(corners))[:, ::-1]
                column, value = DEGREES, " ".join(f"{each:.8f}" for each in degrees.ravel())
        else:
            these = line == value
        for name in dict.fromkeys(file[these].tolist()) or [self._name]:
            own = row[these & (file == name)]
            if column == LINE and self._lines_found and len(own) and (own >= 0).all():
                # Its number depends on the other files.
                yield (ROW, f"{own.min()}-{own.max()}"), (FILE, name)
            else:
                yield (column, value), (FILE, name)

    def _soundings(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """File, row (-1: unknown), line and place [N, 2] of all soundings of the run, also of those
        that are not in the map."""
        every = read_records(self._folder / "samples.csv", ("x", "y"))
        several, path = bool(every) and FILE in every[0], self._folder / LEFT_OUT
        if path.is_file():
            others = read_records(path, (FILE, ROW, LINE, "x", "y"))
            every += [each for each in others if each[ROW] and each["x"]]
        xy = np.array([[each["x"], each["y"]] for each in every], dtype=float).reshape(-1, 2)
        file = np.full(len(xy), self._name)
        if several:
            known, code = np.unique([each[FILE] for each in every], return_inverse=True)
            file = np.array(file_names(known.tolist()))[code.reshape(-1)]
        row = np.array([each.get(ROW, -1) for each in every], dtype=float).astype(np.int64)
        return file, row, np.array([each.get(LINE, "") for each in every]), xy

    def take_back(self, row: Exclusion) -> None:
        """Remove a row, if it is still there. Raises as ``leave_out``."""
        self._write([each for each in self.rows() if each != row])

    def _write(self, rows: list[Exclusion]) -> None:
        columns = list(dict.fromkeys(column for each in rows for column, _ in each.which))
        cells = [
            [each.who, each.when, each.why, each.action,
             *(dict(each.which).get(name, "") for name in columns)]
            for each in rows
        ]  # fmt: skip
        write_table(self.path, [*WORDS, ACTION, *columns], cells)
