"""The file of a mission's log: its tables, what is in their rows, and whether a file is one."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..samples import APPLIED, Samples
from .refused import MOST, Refusal, RefusedPings

#: Layouts of the tables below: those of doubts came with the second, refused pings with the third.
#: A file of an earlier one can be given what it lacks; one of any other is not touched.
FIRST, DOUBTS, REFUSED = 1, 2, 3
SCHEMA = REFUSED
#: In the file's header, so that a foreign database is not taken for a log: "POAM".
APPLICATION = 0x504F414D
#: Columns of pings after the first five: NULL where nobody knows.
KNOWN = ("noise_std", "range", *APPLIED)
_PING = f"""stamp_ns INTEGER NOT NULL, x REAL NOT NULL, y REAL NOT NULL, z REAL NOT NULL,
    {" REAL, ".join(KNOWN)} REAL"""
_FIRST = f"""
CREATE TABLE mission (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE pings (number INTEGER PRIMARY KEY, {_PING});
CREATE TABLE updates (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, steps INTEGER NOT NULL, times INTEGER NOT NULL,
    stamp_ns INTEGER NOT NULL);
CREATE TABLE resets (stamp_ns INTEGER NOT NULL, folder TEXT NOT NULL)"""
_SECOND = f"""
CREATE TABLE waiting (placed INTEGER PRIMARY KEY, {_PING});
CREATE TABLE held (placed INTEGER PRIMARY KEY, {_PING});
CREATE TABLE screen (judged INTEGER NOT NULL, memory TEXT NOT NULL)"""
# Refused pings count from 0 by reason; a key of both, so that a row is there once, and old ones go.
_THIRD = """
CREATE TABLE refused (reason TEXT NOT NULL, number INTEGER NOT NULL, stamp_ns INTEGER NOT NULL,
    x REAL, y REAL, z REAL, PRIMARY KEY (reason, number)) WITHOUT ROWID"""
#: What makes the tables of each layout that the one before lacks.
STATEMENTS = {
    layout: tuple(text.split(";"))
    for layout, text in ((FIRST, _FIRST), (DOUBTS, _SECOND), (REFUSED, _THIRD))
}


class Transaction:
    """All that is executed inside is committed, or nothing of it."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")


class _Copy(sqlite3.Connection):
    """A connection to a copy, which goes with it."""

    folder: TemporaryDirectory[str]

    def close(self) -> None:
        super().close()
        self.folder.cleanup()


def read_only(path: Path) -> sqlite3.Connection:
    """A database to look at: nothing of it is changed, or made where there is none.

    One that is written ahead (WAL) needs a file beside it even for that, which is there while
    somebody writes. Where there is none, and none can be made (a disk that is mounted read-only,
    somebody else's folder), the file is read as it stands; what was written ahead and is left
    beside it is put in, in a copy.

    Raises:
        sqlite3.Error, OSError: it cannot be opened, or copied.
    """
    where = path.resolve()  # what is written ahead lies beside the file, not beside a link to it
    db = sqlite3.connect(f"{where.as_uri()}?mode=ro", uri=True)
    try:
        db.execute("PRAGMA schema_version").fetchone()
        return db
    except sqlite3.OperationalError:
        db.close()
        if not where.is_file() or os.access(where.parent, os.W_OK):
            raise
    wal = where.with_name(f"{where.name}-wal")
    if not (wal.is_file() and wal.stat().st_size):
        return sqlite3.connect(f"{where.as_uri()}?mode=ro&immutable=1", uri=True)
    folder = TemporaryDirectory(prefix="poam-")
    try:
        for file in (where, wal):
            shutil.copyfile(file, Path(folder.name) / file.name)
        copy = sqlite3.connect(Path(folder.name) / where.name, factory=_Copy)
    except BaseException:
        folder.cleanup()
        raise
    copy.folder = folder
    return copy


def layout_of(path: Path) -> int:
    """The layout of a file's tables; 0 where it holds nothing yet, or is not there.

    Read only: what is not ours is left exactly as it is.

    Raises:
        sqlite3.Error, ValueError: it is no log of ours, or a damaged one.
    """
    if not path.exists():
        return 0
    with closing(read_only(path)) as db:
        values = (db.execute(f"PRAGMA {n}").fetchone() for n in ("application_id", "user_version"))
        (application,), (schema,) = values
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not application and not tables:
            return 0
        if application != APPLICATION:
            raise ValueError("another program's database")
        if schema not in STATEMENTS:
            raise ValueError(f"layout {schema} of another version, not {SCHEMA}")
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise ValueError(f"damaged: {' '.join(verdict.split())}")
    return int(schema)


def lay_out(db: sqlite3.Connection, layout: int) -> None:
    """Make the tables that a file of this layout lacks (0: all); inside a transaction."""
    for later in range(layout + 1, SCHEMA + 1):
        for statement in STATEMENTS[later]:
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def insert(
    db: sqlite3.Connection, table: str, rows: Iterable[tuple[Any, ...]], columns: int
) -> None:
    """Add rows; what is there already, by its key, stays."""
    marks = ", ".join("?" * columns)
    db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)


def insert_pings(db: sqlite3.Connection, table: str, samples: Samples) -> None:
    """Add pings by their numbers."""
    known = np.column_stack((samples.noise_std, samples.range, samples.applied))
    nulls = [[None if v != v else v for v in column] for column in known.T.tolist()]
    integers = samples.number.tolist(), samples.stamp_ns.tolist()
    rows = zip(*integers, *samples.xy.T.tolist(), samples.z.tolist(), *nulls, strict=True)
    insert(db, table, rows, 5 + len(KNOWN))


def read_pings(db: sqlite3.Connection, table: str) -> Samples:
    """All pings of a table, in the order of their numbers."""
    return _samples(db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall())


def insert_refused(db: sqlite3.Connection, refused: Iterable[Refusal]) -> None:
    """Add refused pings; of each reason the newest stay."""
    newest: dict[str, int] = {}
    rows = []
    for row in refused:
        newest[row.reason] = row.number
        rows.append((*row[:3], *(None if value != value else value for value in row[3:])))
    insert(db, "refused", rows, 6)
    for reason, number in newest.items():
        beyond = reason, number - MOST
        db.execute("DELETE FROM refused WHERE reason = ? AND number <= ?", beyond)


def read_refused(db: sqlite3.Connection) -> RefusedPings:
    """The refused pings that are there, by reason."""
    return RefusedPings.of(db.execute("SELECT * FROM refused ORDER BY reason, number"))


def _samples(rows: Sequence[Sequence[Any]]) -> Samples:
    if not rows:
        return Samples.empty()
    number, stamp_ns = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    table = np.array([row[2:] for row in rows], dtype=float)  # None becomes NaN
    x, y, z, noise, distance = table.T[:5]
    return Samples(number, stamp_ns, np.column_stack((x, y)), z, noise, distance, table[:, 5:])
