"""The log of a mission: every accepted ping, what the model did with them, the pings that are not
accepted yet (they wait to be judged, or are in doubt), and those refused.

From it alone the map can be made again: a row of ``updates`` says which pings a batch held and how
many training steps were taken. It is there twice. ``pings.journal`` has every transaction with a
checksum (``transactions``), and is on the disk before what it says counts, so that this outlives
the process (kill -9) and the power. ``pings.sqlite`` has the same as tables that any program can
read (``tables``). What is damaged in one of them is made again from the other; what is damaged in
both is told, and not gone on with.
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
from ..core.files import atomic_write, checksum, rename_folder, sync
from ..core.samples import Samples
from ..frontend.refused_pings import RefusedPing
from .contents import JournalStep, ScreeningState
from .tables import (
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
from .verify import JOURNAL, Found, find

#: Endings of what SQLite leaves beside its file.
BESIDE = ("-wal", "-shm")
#: Rows of a transaction where a log is written anew.
ROWS = 100


def _transactions(db: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """What makes a log as it is, in a few rows each."""
    yield {"layout": SCHEMA, "mission": facts_of(db)}
    for table in ("pings", "updates", "waiting", "refused"):
        cursor = db.execute(f"SELECT * FROM {table} ORDER BY 1, 2")
        while rows := cursor.fetchmany(ROWS):
            yield {table: rows}
    for screen in db.execute("SELECT * FROM screen").fetchall():
        yield {"screen": screen, "held": db.execute("SELECT * FROM held ORDER BY 1").fetchall()}
    for row in db.execute("SELECT * FROM resets").fetchall():
        yield {"end": row}


def set_aside(folder: Path, files: Sequence[Path]) -> Path:
    """Copy files of a folder into one in it that is named by what they hold, before they are
    changed: what is damaged in the same way is there once. Raises OSError."""
    there = [file for file in files if file.is_file()]
    name = f"damaged-{checksum(*(file.read_bytes() for file in there))[:8]}"
    place, beside = folder / name, folder / f".{name}.{os.getpid()}"
    if not place.exists():
        beside.mkdir(exist_ok=True)
        for file in there:
            shutil.copyfile(file, beside / file.name)
        rename_folder(beside, place)
    return place


class JournalDatabase:
    """A log, which is read at once, and written after ``begin``. Used by one thread at a time.

    Args:
        path: of the tables' file.
        facts: of the mission, kept as JSON where the log is new.
        salvage: see ``find``.

    Attributes:
        facts: of the mission, as they were when the log was made.
        logged: what it holds.
        successor: the folder that the mission goes on in since a reset; None while it does here.
        notes: in words what is damaged; nothing of that is lost.

    Raises:
        InputError: there is something else, or a log that is damaged or of another version.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any], salvage: bool = False) -> None:
        self.path = path
        self._new = dict(facts)
        self._found = find(path, salvage)
        db = in_memory() if self._found is None else self._found.db
        self.facts = self._new if self._found is None else facts_of(db)
        self.logged, self.successor = load(db, path), successor_of(db)
        self.notes = [] if self._found is None else self._found.notes
        self._db: sqlite3.Connection | None = None

    def begin(self) -> JournalDatabase:
        """Make what is damaged or missing, once a copy of it is set aside, and write from now on.

        Raises:
            InputError: it cannot be written.
        """
        found, self._found = self._found, None
        try:
            if found is None:
                for name in self._files:
                    name.unlink(missing_ok=True)
                found = Found(in_memory())
            if found.notes:
                place = set_aside(self.path.parent, self._files[:3])
                self.notes = [f"{note}; as it was: {place}" for note in found.notes]
            if found.anew:
                found.last = self._write_journal(found.db)
            if found.anew or found.tables:
                self._write_tables(found)
            found.db.close()
            last, journal = found.last, self._files[0]
            self._journal = Transactions(journal, last.sequence, last.checksum, last.end)
            self._db = db = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")  # the journal is on the disk before it
            if not last.sequence:
                self._create()
                self.bring_home()
            sync(self.path.parent)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise InputError(
                f"{self.path}: expected a log of this package in a folder that can be written "
                f"({error})"
            ) from None
        return self

    def append(
        self,
        samples: Sequence[Samples],
        steps: Sequence[JournalStep],
        done: int,
        waiting: Sequence[Samples] = (),
        screening_state: ScreeningState | None = None,
        refused: Sequence[RefusedPing] = (),
    ) -> None:
        """Commit all of this or nothing. What is there already, by its number, stays: a commit
        that failed may have reached the disk all the same.

        Args:
            samples: accepted pings.
            steps: what the model did.
            done: so many steps came before.
            waiting: pings that wait to be judged.
            screening_state: what is left by the last judgement; None: as before.
            refused: pings; the newest of each reason stay.

        Raises:
            sqlite3.Error, OSError: the disk is full, or fails.
        """
        parts: dict[str, Any] = {
            "pings": [row for part in samples for row in ping_rows(part)],
            "updates": [[done + i, *astuple(step)] for i, step in enumerate(steps, start=1)],
            "waiting": [row for part in waiting for row in ping_rows(part)],
            "refused": refused_rows(refused),
        }
        parts = {name: rows for name, rows in parts.items() if rows}
        if screening_state is not None:
            parts |= {
                "screen": [screening_state.screened, screening_state.screener],
                "held": ping_rows(screening_state.held),
            }
        self._commit(parts)

    def truncate_steps(self, done: int) -> None:
        """Only the first ``done`` steps are what happened: the others could not be repeated."""
        self._commit({"forget": done})

    def end(self, stamp_ns: int, folder: str) -> None:
        """A reset: the mission goes on in another folder, with a log of its own; what was in doubt
        or waited is refused."""
        self._commit({"end": [stamp_ns, folder]})
        self.successor = folder

    def bring_home(self) -> None:
        """Bring what SQLite has written ahead into the file of the tables, and that to the disk."""
        assert self._db is not None
        with suppress(sqlite3.Error):  # a reader, or the disk: the next commit has its say
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Nothing is written any more; the tables are in one file then."""
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
            create_tables(self._db, 0)
        self._commit({"layout": SCHEMA, "mission": self._new})

    def _commit(self, parts: Mapping[str, Any]) -> None:
        """To both files or to none: the journal first, as what it says may count from then on."""
        assert self._db is not None
        before = self._journal.sequence
        try:
            with Transaction(self._db):
                apply(self._db, parts)
                self._journal.append(parts)
                _stand_at(self._db, self._journal.sequence, self._journal.last)
        except BaseException:
            if self._journal.sequence > before:
                self._journal.take_back()
            raise

    def _write_journal(self, db: sqlite3.Connection) -> Line:
        """A journal of what a log holds; returns its last line."""
        last = NONE
        with atomic_write(self._files[0]) as file:
            for number, parts in enumerate(_transactions(db), start=1):
                total, text = encode(number, last.checksum, parts)
                file.write(text)
                last = Line(number, last.checksum, total, parts, last.end + len(text))
        return last

    def _write_tables(self, found: Found) -> None:
        """The tables of what was found, in a file of their own; what SQLite left beside goes first,
        as it would be put into that."""
        _stand_at(found.db, found.last.sequence, found.last.checksum)
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            with suppress(FileNotFoundError):
                beside.unlink()
            db = sqlite3.connect(beside)
            found.db.backup(db)
            db.close()
            sync(beside)
            for file in self._files[2:]:
                file.unlink(missing_ok=True)
            beside.replace(self.path)
            sync(self.path.parent)
        finally:
            beside.unlink(missing_ok=True)


def _stand_at(db: sqlite3.Connection, sequence: int, last: str) -> None:
    """These tables are of the journal up to here."""
    db.execute("DELETE FROM chain")
    db.execute("INSERT INTO chain VALUES (?, ?)", (sequence, last))
