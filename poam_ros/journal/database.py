"""The journal: accepted pings, what the model did with them, and refused pings.

It is enough to build the map again: a row of ``updates`` has the pings of a batch and the training
steps taken. It is stored twice. ``pings.journal`` has every transaction with a checksum
(``transactions``) and is on the disk before its content counts, so it survives the process
(kill -9) and a power failure. ``pings.sqlite`` has the same as tables (``tables``) that any program
can read. Damage in one is repaired from the other; damage in both is reported and refused.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.files import atomic_write, rename_folder, sha256, sync
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing
from .interface import JournalStep
from .tables import (
    PING,
    SCHEMA,
    Transaction,
    apply,
    create_tables,
    facts_of,
    in_memory,
    load,
    ping_rows,
    refused_rows,
    successor_of,
)
from .transactions import NONE, Line, Transactions, encode
from .verify import JOURNAL, Verified, verify

#: Endings of SQLite's own files beside the database.
BESIDE = ("-wal", "-shm")
#: Rows of a transaction when a journal is rewritten.
ROWS = 100


def _transactions(db: sqlite3.Connection, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Transactions that recreate the tables, a few rows each."""
    yield {"layout": SCHEMA, "mission": facts}
    for table, columns in (("pings", PING), ("updates", "*"), ("refused", "*")):
        cursor = db.execute(f"SELECT {columns} FROM {table} ORDER BY 1, 2")
        while rows := cursor.fetchmany(ROWS):
            yield {table: rows}
    for row in db.execute("SELECT * FROM resets").fetchall():
        yield {"end": row}


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
            self._journal = Transactions(journal, last.sequence, last.checksum, last.end)
            self._db = db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # the journal is on the disk first
            if not last.sequence:
                self._create()
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

    def _create(self) -> None:
        assert self._db is not None
        with Transaction(self._db):
            create_tables(self._db)
        self._commit({"layout": SCHEMA, "mission": self._new})

    def _commit(self, parts: Mapping[str, Any]) -> None:
        """Write to both files or none. The journal is first: its content counts from then on."""
        assert self._db is not None
        before = self._journal.sequence
        try:
            with Transaction(self._db):
                apply(self._db, parts)
                self._journal.append(parts)
                _store_position(self._db, self._journal.sequence, self._journal.last)
        except BaseException:
            if self._journal.sequence > before:
                self._journal.take_back()
            raise

    def _write_journal(self, db: sqlite3.Connection) -> Line:
        """Write the journal of these tables; returns its last line."""
        last = NONE
        with atomic_write(self._files[0]) as file:
            for number, parts in enumerate(_transactions(db, self.facts), start=1):
                total, text = encode(number, last.checksum, parts)
                file.write(text)
                last = Line(number, last.checksum, total, parts, last.end + len(text))
        return last

    def _write_tables(self, content: sqlite3.Connection, last: Line) -> None:
        """Replace the file of tables; first delete SQLite's own files beside it, which would be
        applied to the new one."""
        _store_position(content, last.sequence, last.checksum)
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


def _store_position(db: sqlite3.Connection, sequence: int, last: str) -> None:
    """Store the position in the journal up to which these tables are."""
    db.execute("DELETE FROM chain")
    db.execute("INSERT INTO chain VALUES (?, ?)", (sequence, last))
