"""The tables of a mission's log: a database that a transaction of the log is applied to.

It is SQLite, in a file that others can read, or in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.samples import APPLIED, Samples
from ..frontend.refused_pings import MAX_PER_REASON, RefusedPing, RefusedPings
from .contents import JournalContents, JournalStep, ScreeningState

#: Layouts of the tables below: those of screening_state came with the second, refused pings with the third,
#: and with the fourth the transactions beside them (``transactions``), of which ``chain`` has the
#: last. A file of an earlier one can be given what it lacks; one of any other is not touched.
FIRST, DOUBTS, REFUSED, CHAIN = 1, 2, 3, 4
SCHEMA = CHAIN
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
_FOURTH = """
CREATE TABLE chain (sequence INTEGER NOT NULL, checksum TEXT NOT NULL)"""
#: What makes the tables of each layout that the one before lacks.
STATEMENTS = {
    layout: tuple(text.split(";"))
    for layout, text in ((FIRST, _FIRST), (DOUBTS, _SECOND), (REFUSED, _THIRD), (CHAIN, _FOURTH))
}
#: What no log and no recording has: SQL of somebody's own, which would run when rows are read or
#: written. How many there are of it: views, triggers, virtual tables and columns that are computed.
OTHERS = """
SELECT count(*) FROM sqlite_master AS made LEFT JOIN pragma_table_xinfo(made.name) AS part
WHERE made.type IN ('view', 'trigger') OR made.sql LIKE 'CREATE VIRTUAL%' OR part.hidden"""
#: Rows that are compared at a time.
COMPARED = 10_000
#: All tables but the chain, which says where they stand.
TABLES = ("mission", "pings", "updates", "resets", "waiting", "held", "screen", "refused")


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


class _CopiedDatabase(sqlite3.Connection):
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
        copy = sqlite3.connect(Path(folder.name) / where.name, factory=_CopiedDatabase)
    except BaseException:
        folder.cleanup()
        raise
    copy.folder = folder
    return copy


def schema_version(path: Path) -> int:
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
        (others,) = db.execute(OTHERS).fetchone()
        if others:
            raise ValueError("views, triggers or computed columns, which no log has")
        if schema not in STATEMENTS:
            raise ValueError(f"layout {schema} of another version, not {SCHEMA}")
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise ValueError(f"damaged: {' '.join(verdict.split())}")
    return int(schema)


def create_tables(db: sqlite3.Connection, layout: int) -> None:
    """Make the tables that a file of this layout lacks (0: all); inside a transaction."""
    for later in range(layout + 1, SCHEMA + 1):
        for statement in STATEMENTS[later]:
            db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def ping_rows(samples: Samples) -> list[list[Any]]:
    """Pings as rows of a table; None where nobody knows."""
    known = np.column_stack((samples.noise_std, samples.range, samples.applied))
    nulls = [[None if v != v else v for v in column] for column in known.T.tolist()]
    integers = samples.number.tolist(), samples.stamp_ns.tolist()
    columns = (*integers, *samples.xy.T.tolist(), samples.z.tolist(), *nulls)
    return [list(row) for row in zip(*columns, strict=True)]


def refused_rows(refused: Iterable[RefusedPing]) -> list[list[Any]]:
    """Refused pings as rows of a table; None where nobody knows."""
    return [
        [*row[:3], *(None if value != value else value for value in row[3:])] for row in refused
    ]


def insert(db: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]]) -> None:
    """Add rows; what is there already, by its key, stays."""
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)


def apply(db: sqlite3.Connection, parts: Mapping[str, Any]) -> None:
    """Do to the tables what a transaction says, by the names of its parts:

    ``mission``: facts by name; ``pings``, ``updates``, ``waiting``, ``refused``: rows to add;
    ``screen``: judged and memory of the last judgement, which replace those before as the rows of
    ``held`` do; ``forget``: only so many updates are what happened; ``end``: stamp and folder of a
    reset. ``layout``: the one that the first transaction was written by.

    Raises:
        ValueError: it says something else.
        sqlite3.Error: the disk is full, or fails.
    """
    for name, value in parts.items():
        if name == "mission":
            insert(db, name, [(n, json.dumps(v)) for n, v in value.items()])
        elif name in ("pings", "updates", "waiting"):
            insert(db, name, value)
        elif name == "refused":
            _refuse(db, value)
        elif name == "screen":
            db.execute("DELETE FROM waiting WHERE placed < ?", value[:1])
            for table, rows in (("held", parts["held"]), ("screen", [value])):
                db.execute(f"DELETE FROM {table}")
                insert(db, table, rows)
        elif name == "forget":
            db.execute("DELETE FROM updates WHERE id > ?", (value,))
        elif name == "end":
            insert(db, "resets", [value])
            for table in ("held", "waiting"):
                db.execute(f"DELETE FROM {table}")
        elif name != "held" and (name, value) != ("layout", SCHEMA):
            raise ValueError(f"a transaction of another version ({name} {value!r})"[:80])


def _refuse(db: sqlite3.Connection, rows: Sequence[Sequence[Any]]) -> None:
    """Add refused pings; of each reason the newest stay."""
    insert(db, "refused", rows)
    for reason, number in {row[0]: row[1] for row in rows}.items():
        beyond = reason, number - MAX_PER_REASON
        db.execute("DELETE FROM refused WHERE reason = ? AND number <= ?", beyond)


def read_pings(db: sqlite3.Connection, table: str) -> Samples:
    """All pings of a table, in the order of their numbers."""
    return _samples(db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall())


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


def facts_of(db: sqlite3.Connection) -> dict[str, Any]:
    """What an open log was given of its mission when it was made."""
    rows = db.execute("SELECT name, value FROM mission")
    return {name: json.loads(value) for name, value in rows}


def successor_of(db: sqlite3.Connection) -> str | None:
    """The folder that an open log's mission went on in after a reset; None without one."""
    rows = db.execute("SELECT folder FROM resets").fetchall()
    return rows[0][0] if rows else None


def in_memory() -> sqlite3.Connection:
    """An empty log that is on no disk."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    with Transaction(db):
        create_tables(db, 0)
    return db


def copy(source: sqlite3.Connection, into: sqlite3.Connection) -> None:
    """Add the rows of a log, of this layout or one before; those that are there already stay."""
    (layout,) = source.execute("PRAGMA user_version").fetchone()
    with Transaction(into):
        for table in tables_of(layout):
            insert(into, table, source.execute(f"SELECT * FROM {table}").fetchall())


def tables_of(layout: int) -> Sequence[str]:
    """Those of a layout, but for the chain."""
    number = {FIRST: 4, DOUBTS: 7}.get(layout, len(TABLES))
    return TABLES[:number]


def holds(db: sqlite3.Connection, other: sqlite3.Connection, tables: Iterable[str]) -> bool:
    """Whether every row of another log is in these tables as well."""
    for table in tables:
        query = f"SELECT * FROM {table} ORDER BY 1, 2"
        rows = iter(db.execute(query))
        for row in other.execute(query):
            if row not in rows:  # looks on from where it is
                return False
    return True


def same(db: sqlite3.Connection, other: sqlite3.Connection) -> bool:
    """Whether two logs hold the same rows."""
    for table in TABLES:
        query = f"SELECT * FROM {table} ORDER BY 1, 2"
        ours, theirs = db.execute(query), other.execute(query)
        rows: Sequence[Any] = [()]
        while rows:
            if (rows := ours.fetchmany(COMPARED)) != theirs.fetchmany(COMPARED):
                return False
    return True


def load(db: sqlite3.Connection, path: Path) -> JournalContents:
    """Everything in an open log of this layout.

    Raises:
        InputError: rows are missing, or refer to pings that are not there.
    """
    try:
        samples, held, waiting = (read_pings(db, table) for table in ("pings", "held", "waiting"))
        rows = db.execute("SELECT * FROM updates ORDER BY id").fetchall()
        last = max((row[3] for row in rows), default=-1)
        ids = np.array([row[0] for row in rows], dtype=np.int64) - 1
        if not _counts(ids) or last >= len(samples) or not _counts(samples.number):
            raise ValueError("rows are missing")
        screens = db.execute("SELECT judged, memory FROM screen").fetchall()
        judged, memory = screens[0] if screens else (0, "")
        steps, refused = tuple(JournalStep(*row[1:]) for row in rows), read_refused(db)
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        raise InputError(
            f"{path}: expected every ping and update from the first on ({error})"
        ) from None
    return JournalContents(samples, steps, ScreeningState(judged, held, memory), waiting, refused)


def _counts(number: np.ndarray) -> bool:
    """Whether these are 0, 1, 2 and so on."""
    return bool(np.array_equal(number, np.arange(len(number))))
