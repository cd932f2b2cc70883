"""The journal: accepted pings, what the model did with them, and refused pings.

It is enough to build the map again: a row of ``updates`` has the pings of a batch and the training
steps taken. It is stored twice. ``pings.journal`` has every transaction with a checksum and is on
the disk before its content counts, so it survives the process (kill -9) and a power failure.
``pings.sqlite`` has the same as tables (``tables``) that any program can read. Damage in one is
repaired from the other; damage in both is reported and refused.

A line of ``pings.journal`` is a checksum, a space and a JSON object: ``sequence`` counts from 1,
``previous`` is the checksum of the line before, the rest are the parts of the transaction (see
``tables.apply``). Lines are only appended. A damaged line loses its own content only; the chain
shows that it is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from ..core.errors import InputError, pasted, quantity
from ..core.files import CHECKSUM, atomic_write, checksum, rename_folder, sha256, sync
from ..core.reading import JSON_FACTOR, allowance
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing
from .tables import (
    SCHEMA,
    JournalStep,
    apply,
    create_tables,
    facts_of,
    forget_steps,
    in_memory,
    load,
    ping_rows,
    refused_rows,
    same,
    snapshot,
    successor_of,
    transaction,
    transactions,
)  # fmt: skip

#: Ending of the file of transactions, beside the tables'; endings of SQLite's own files there.
JOURNAL, BESIDE = ".journal", ("-wal", "-shm")
#: Whether no ping and no step is missing between others.
WHOLE = """SELECT (SELECT count(*) = coalesce(max(number) + 1, 0) FROM pings)
AND (SELECT count(*) = coalesce(max(id), 0) FROM updates)"""


@dataclass(frozen=True)
class Line:
    """A transaction read from the file; ``end``: end of its line, in bytes."""

    sequence: int
    previous: str
    checksum: str
    parts: Mapping[str, Any]
    end: int


#: Before the first.
NONE = Line(0, "", "", {}, 0)


def encode(last: Line, parts: Mapping[str, Any]) -> tuple[Line, bytes]:
    """The line of a transaction after the last one, and its text."""
    values = {"sequence": last.sequence + 1, "previous": last.checksum, **parts}
    body = json.dumps(values, separators=(",", ":")).encode()
    total = checksum(body)
    text = total.encode() + b" " + body + b"\n"
    return Line(last.sequence + 1, last.checksum, total, parts, last.end + len(text)), text


def read_lines(path: Path) -> Iterator[Line | None]:
    """Every line of a file; None for a damaged one. Yields nothing without a file."""
    if not path.exists():
        return
    end = 0
    with path.open("rb") as file:
        while text := file.readline(allowance() // JSON_FACTOR):
            end += len(text)
            yield _decode(text, end)


def has_line(path: Path) -> bool:
    """Whether a file has a whole line, or one that is too long to be ours."""
    with path.open("rb") as file:
        first = file.readline(longest := allowance() // JSON_FACTOR)
    return first.endswith(b"\n") or len(first) == longest


def _decode(text: bytes, end: int) -> Line | None:
    total, body = text[:CHECKSUM], text[CHECKSUM + 1 : -1]
    if text[-1:] != b"\n" or text[CHECKSUM : CHECKSUM + 1] != b" ":
        return None
    if checksum(body).encode() != total:
        return None
    try:
        parts = json.loads(body)
        return Line(parts.pop("sequence"), parts.pop("previous"), total.decode(), parts, end)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # a valid checksum: written by another program


class Transactions:
    """Appends to a file, which is created if missing.

    Args:
        path: of the file.
        last: its last line, after which the file is cut off.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, last: Line = NONE) -> None:
        self.last = self._before = last
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.ftruncate(self._file, last.end)
        except OSError:
            os.close(self._file)
            raise

    def append(self, parts: Mapping[str, Any]) -> None:
        """Write a transaction to the disk.

        Raises:
            OSError: the disk is full, or fails; nothing is appended.
        """
        before, (line, text) = self.last, encode(self.last, parts)
        os.ftruncate(self._file, before.end)  # should the last failure have left a part of a line
        written = 0
        try:
            while written < len(text):
                written += os.pwrite(self._file, text[written:], before.end + written)
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):  # a part of a line would be taken for damage
                os.ftruncate(self._file, before.end)
            raise
        self._before, self.last = before, line

    def take_back(self) -> None:
        """Remove the last line: its transaction was not committed after all."""
        self.last = self._before
        os.ftruncate(self._file, self.last.end)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


@dataclass
class Verified:
    """The content of a journal's two files.

    Attributes:
        db: the content, in memory.
        last: the last transaction of the journal.
        damage: what is damaged, as text.
        rewrite: whether both files must be rewritten.
        rewrite_tables: whether the file of tables must be.
    """

    db: sqlite3.Connection
    last: Line = NONE
    damage: list[str] = field(default_factory=list)
    rewrite: bool = False
    rewrite_tables: bool = False


def verify(path: Path, salvage: bool = False) -> Verified | None:
    """Read a journal and compare its two files; changes nothing. None: there is no journal.

    Args:
        path: the file of tables.
        salvage: return what is intact if something is lost; otherwise that is an error.

    Raises:
        InputError: it is not a journal, or something is lost for good.
    """
    path = path.resolve()  # the journal lies beside the file, not beside a link to it
    journal = path.with_suffix(JOURNAL)
    begun = journal.exists() and journal.stat().st_size > 0
    with ExitStack() as stack:
        tables, end, fault = None, (0, ""), ""
        try:
            if (tables := stack.enter_context(snapshot(path))) is not None:
                end = tables.execute("SELECT sequence, checksum FROM chain").fetchone() or end
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            tables, fault = None, str(error)
        if not begun and fault:
            raise InputError(f"{path}: expected a mission's tables of this version ({fault})")
        try:
            if not (end[0] or (begun and (fault or has_line(journal)))):
                return None  # none, or interrupted while it was created
            return _of_both(path, tables, end, fault, salvage)
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{journal}: expected a journal of this version ({error})") from None


def _of_both(
    path: Path, tables: sqlite3.Connection | None, end: tuple[int, str], fault: str, salvage: bool
) -> Verified:
    """The content by the journal; where that is damaged, what it lacks is by the tables: None if
    they cannot be used, because of ``fault``; ``end``: sequence and checksum of their last
    transaction."""
    journal = path.with_suffix(JOURNAL)
    db, last, gaps, agree = in_memory(), NONE, False, False
    with transaction(db):
        for line in read_lines(journal):
            if line is None or line.sequence <= last.sequence:
                continue
            gaps |= line.sequence != last.sequence + 1 or line.previous != last.checksum
            apply(db, line.parts)
            last = line
            if line.sequence == end[0] and not gaps and tables is not None:
                agree = line.checksum == end[1] and same(db, tables)
    if not gaps and (agree or tables is None or end[0] <= last.sequence):
        found = Verified(db, last, rewrite_tables=not agree or end[0] < last.sequence)
        if not agree and last.sequence > 1:
            fault = fault or "its rows differ"
            found.damage.append(f"{path.name} was damaged ({fault}): restored from the journal")
        if rest := journal.stat().st_size - last.end:
            found.damage.append(
                f"the last {rest} bytes of {journal.name} are not a complete transaction and are "
                "ignored: it was interrupted or is damaged"
            )
        if not last.sequence:
            raise InputError(f"{journal}: expected a journal, got no intact line")
        return found
    if tables is not None:
        with transaction(db):
            for parts in transactions(tables, facts_of(tables, path)):
                apply(db, parts)
    damage = f"{journal.name} was damaged: restored from {path.name}"
    if not journal.exists():
        damage = f"{journal.name} is missing: {path.name} cannot be checked"
    elif not db.execute(WHOLE).fetchone()[0]:
        if not salvage:
            raise InputError(
                f"{path.parent}: pings are lost: both {journal.name} and {path.name} are damaged; "
                f"to continue with what is intact: {pasted('repair', path.parent)}"
            )
        damage = _close_gaps(db)
    return Verified(db, damage=[damage], rewrite=True)


def _close_gaps(db: sqlite3.Connection) -> str:
    """Renumber the remaining pings and drop all steps from the first gap on; returns what was
    lost, as text."""
    numbers = [row[0] for row in db.execute("SELECT number FROM pings ORDER BY 1")]
    hole = next((i for i, number in enumerate(numbers) if i != number), len(numbers))
    with transaction(db):
        for i, number in enumerate(numbers[hole:], start=hole):
            db.execute("UPDATE pings SET number = ? WHERE number = ?", (i, number))
        steps = db.execute("SELECT id, last FROM updates ORDER BY 1").fetchall()
        whole = next((i for i, row in enumerate(steps, 1) if row[0] != i or row[1] >= hole), None)
        forget_steps(db, len(steps) if whole is None else whole - 1)
    lost = numbers[-1] + 1 - len(numbers) if numbers else 0
    return f"lost: at least {quantity(lost, 'ping')}; left: {len(numbers)}"


def set_aside(folder: Path, files: Sequence[Path]) -> Path:
    """Copy files into a subfolder named by their content, before they are changed.

    The same damage is copied once. Raises OSError.
    """
    there = [file for file in files if file.is_file()]
    name = f"damaged-{sha256(*there)[:8]}"
    place, beside = folder / name, folder / f".{name}.{os.getpid()}"
    if not place.exists():
        beside.mkdir(exist_ok=True)
        try:
            for file in there:
                shutil.copyfile(file, beside / file.name)
            rename_folder(beside, place)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    return place


class JournalDatabase:
    """A journal: read when constructed, written after ``begin``. For one thread at a time.

    Args:
        path: the file of tables.
        facts: of the mission; written as JSON if the journal is new.
        salvage: see ``verify``.

    Attributes:
        facts: of the mission, from when the journal was created.
        contents: what it holds.
        successor: the folder that continues the mission after a reset; None: no reset.
        damage: what is damaged but not lost, as text.

    Raises:
        InputError: the file is not a journal, or is damaged or of another version.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], salvage: bool = False) -> None:
        self.path = path
        self._new = dict(facts)
        self._found = verify(path, salvage)
        db = in_memory() if self._found is None else self._found.db
        self.facts = self._new if self._found is None else facts_of(db, path)
        self.contents, self.successor = load(db, path), successor_of(db)
        self.damage = [] if self._found is None else self._found.damage
        self._db: sqlite3.Connection | None = None

    def begin(self) -> JournalDatabase:
        """Set damaged files aside, write what is damaged or missing, and open it for writing.

        Raises:
            InputError: it cannot be written.
        """
        found, self._found = self._found, None
        try:
            if found is None:
                for name in self._files:
                    name.unlink(missing_ok=True)
                found = Verified(in_memory())
            if found.damage:
                place = set_aside(self.path.parent, self._files[:3])
                self.damage = [f"{text}; damaged files copied to {place}" for text in found.damage]
            journal = self._files[0]
            last = self._write_journal(found.db) if found.rewrite else found.last
            if found.rewrite or found.rewrite_tables:
                self._write_tables(found.db, last)
            found.db.close()
            self._journal = Transactions(journal, last)
            self._db = db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # the journal is on the disk first
            if not last.sequence:
                with transaction(db):
                    create_tables(db)
                self._commit({"layout": SCHEMA, "mission": self._new})
                self.flush_tables()
            sync(self.path.parent)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise InputError(
                f"{self.path}: expected a journal of this package in a writable folder ({error})"
            ) from None
        return self

    def append(
        self,
        samples: Sequence[Samples],
        steps: Sequence[JournalStep],
        done: int,
        refused: Sequence[RefusedPing] = (),
    ) -> None:
        """Commit all of this or nothing. Existing rows with the same number stay: a failed commit
        may have reached the disk all the same.

        Args:
            samples: accepted pings.
            steps: what the model did.
            done: number of steps before these.
            refused: refused pings; the newest of each reason stay.

        Raises:
            sqlite3.Error, OSError: the disk is full, or fails.
        """
        parts: dict[str, Any] = {
            "pings": [row for part in samples for row in ping_rows(part)],
            "updates": [[done + i, *astuple(step)] for i, step in enumerate(steps, start=1)],
            "refused": refused_rows(refused),
        }
        self._commit({name: rows for name, rows in parts.items() if rows})

    def truncate_steps(self, done: int) -> None:
        """Drop all steps after the first ``done``, which could not be repeated."""
        self._commit({"forget": done})

    def end(self, stamp_ns: int, folder: str) -> None:
        """Write a reset: the mission continues in another folder with its own journal."""
        self._commit({"end": [stamp_ns, folder]})
        self.successor = folder

    def flush_tables(self) -> None:
        """Move SQLite's write-ahead log into the file of tables, and that to the disk."""
        assert self._db is not None
        # A reader blocks it, or the disk fails: the next commit reports.
        with suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Close both files; the tables are in a single file then."""
        if self._db is not None:
            self._db.close()
        if (journal := self.__dict__.pop("_journal", None)) is not None:
            journal.close()

    @property
    def _files(self) -> tuple[Path, ...]:
        beside = (self.path.with_name(self.path.name + ending) for ending in BESIDE)
        return (self.path.with_suffix(JOURNAL), self.path, *beside)

    def _commit(self, parts: Mapping[str, Any]) -> None:
        """Write to both files or none. The journal is first: its content counts from then on."""
        assert self._db is not None
        before = self._journal.last
        try:
            with transaction(self._db):
                apply(self._db, parts)
                self._journal.append(parts)
                _store_position(self._db, self._journal.last)
        except BaseException:
            if self._journal.last is not before:
                self._journal.take_back()
            raise

    def _write_journal(self, db: sqlite3.Connection) -> Line:
        """Write the journal of these tables; returns its last line."""
        last = NONE
        with atomic_write(self._files[0]) as file:
            for parts in transactions(db, self.facts):
                last, text = encode(last, parts)
                file.write(text)
        return last

    def _write_tables(self, content: sqlite3.Connection, last: Line) -> None:
        """Replace the file of tables; first delete SQLite's own files beside it, which would be
        applied to the new one."""
        _store_position(content, last)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                beside.unlink()
            db = sqlite3.connect(beside)
            content.backup(db)
            db.close()
            sync(beside)
            for file in self._files[2:]:
                file.unlink(missing_ok=True)
            beside.replace(self.path)
            sync(self.path.parent)
        finally:
            beside.unlink(missing_ok=True)


def _store_position(db: sqlite3.Connection, last: Line) -> None:
    """Store the last line of the journal that is in these tables."""
    db.execute("DELETE FROM chain")
    db.execute("INSERT INTO chain VALUES (?, ?)", (last.sequence, last.checksum))
