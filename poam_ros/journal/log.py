"""The log of a mission: every accepted ping, what the model did with them, the pings that are not
accepted yet (they wait to be judged, or are in doubt), and those refused, in one SQLite file.

From it alone the map can be made again: a row of ``updates`` says which pings a batch held and how
many training steps were taken. A transaction that was committed outlives the process (kill -9) and
the power (write-ahead log with ``synchronous = FULL``: a commit waits for the disk).
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.samples import APPLIED, Samples
from ..frontend.refused import MOST, Refusal, RefusedPings
from .records import Doubts, Logged, Step

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


class MissionLog:
    """An open log. Used by one thread at a time.

    Args:
        path: of the file, which is made if there is none.
        facts: of the mission, kept as JSON where the log is new.

    Attributes:
        facts: of the mission, as they were when the log was made.

    Raises:
        InputError: the file is no log, or damaged, or of another version, or cannot be written.
    """

    def __init__(self, path: Path, facts: Mapping[str, Any]) -> None:
        self.path = path
        try:
            self._layout = layout_of(path)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not self._layout:
                self._create(facts)
            self.facts = facts_of(self._db)
        except (sqlite3.Error, OSError, ValueError) as error:
            with suppress(AttributeError):
                self._db.close()
            raise InputError(
                f"{path}: expected a log of this package in a folder that can be written ({error})"
            ) from None

    def upgrade(self) -> None:
        """Add the tables that a log of a version before lacks; it was only looked at so far.

        Raises:
            InputError: it cannot be written.
        """
        if self._layout == SCHEMA:
            return
        try:
            with Transaction(self._db):
                lay_out(self._db, self._layout)
        except sqlite3.Error as error:
            self.close()
            told = "expected a log of this version, or one that can be brought to it"
            raise InputError(f"{self.path}: {told} ({error})") from None
        self._layout = SCHEMA

    def append(
        self,
        samples: Sequence[Samples],
        steps: Sequence[Step],
        done: int,
        waiting: Sequence[Samples] = (),
        doubts: Doubts | None = None,
        refused: Sequence[Refusal] = (),
    ) -> None:
        """Commit all of this or nothing. What is there already, by its number, stays: a commit
        that failed may have reached the disk all the same.

        Args:
            samples: accepted pings.
            steps: what the model did.
            done: so many steps came before.
            waiting: pings that wait to be judged.
            doubts: what is left by the last judgement; None: as before.
            refused: pings; the newest of each reason stay.

        Raises:
            sqlite3.Error: the disk is full, or fails.
        """
        rows = [(done + i, *astuple(step)) for i, step in enumerate(steps, start=1)]
        with Transaction(self._db):
            for part in samples:
                insert_pings(self._db, "pings", part)
            insert(self._db, "updates", rows, 7)
            for part in waiting:
                insert_pings(self._db, "waiting", part)
            if doubts is not None:
                self._doubt(doubts)
            insert_refused(self._db, refused)

    def forget(self, done: int) -> None:
        """Only the first ``done`` steps are what happened: the others could not be repeated."""
        with Transaction(self._db):
            self._db.execute("DELETE FROM updates WHERE id > ?", (done,))

    def load(self) -> Logged:
        """Everything.

        Raises:
            InputError: rows are missing, or refer to pings that are not there.
        """
        return load(self._db, self.path)

    def end(self, stamp_ns: int, folder: str) -> None:
        """A reset: the mission goes on in another folder, with a log of its own; what was in doubt
        or waited is refused."""
        with Transaction(self._db):
            self._db.execute("INSERT INTO resets VALUES (?, ?)", (stamp_ns, folder))
            for table in ("held", "waiting"):
                self._db.execute(f"DELETE FROM {table}")

    @property
    def successor(self) -> str | None:
        """The folder that the mission goes on in since a reset; None while it does here."""
        return successor_of(self._db)

    def close(self) -> None:
        """Everything is in one file then."""
        self._db.close()

    def _create(self, facts: Mapping[str, Any]) -> None:
        with Transaction(self._db):
            lay_out(self._db, 0)
            insert(self._db, "mission", [(n, json.dumps(v)) for n, v in facts.items()], 2)
        self._layout = SCHEMA

    def _doubt(self, doubts: Doubts) -> None:
        """Replace what was left by the judgement before."""
        self._db.execute("DELETE FROM waiting WHERE placed < ?", (doubts.judged,))
        for table in ("held", "screen"):
            self._db.execute(f"DELETE FROM {table}")
        insert_pings(self._db, "held", doubts.held)
        insert(self._db, "screen", [(doubts.judged, doubts.memory)], 2)


def facts_of(db: sqlite3.Connection) -> dict[str, Any]:
    """What an open log was given of its mission when it was made."""
    rows = db.execute("SELECT name, value FROM mission")
    return {name: json.loads(value) for name, value in rows}


def successor_of(db: sqlite3.Connection) -> str | None:
    """The folder that an open log's mission went on in after a reset; None without one."""
    rows = db.execute("SELECT folder FROM resets").fetchall()
    return rows[0][0] if rows else None


def load(db: sqlite3.Connection, path: Path) -> Logged:
    """Everything in an open log, of this layout or one before. Raises as the method."""
    samples = read_pings(db, "pings")
    steps = db.execute("SELECT * FROM updates ORDER BY id").fetchall()
    last = max((row[3] for row in steps), default=-1)
    whole = [row[0] for row in steps] == list(range(1, len(steps) + 1))
    if not whole or last >= len(samples) or not _counts(samples.number):
        raise InputError(
            f"{path}: expected every ping and update from the first on; rows are missing"
        )
    logged = Logged(samples, tuple(Step(*row[1:]) for row in steps))
    (layout,) = db.execute("PRAGMA user_version").fetchone()
    if layout >= REFUSED:
        logged = replace(logged, refused=read_refused(db))
    if layout < DOUBTS:
        return logged
    screens = db.execute("SELECT judged, memory FROM screen").fetchall()
    judged, memory = screens[0] if screens else (0, "")
    doubts = Doubts(judged, read_pings(db, "held"), memory)
    return replace(logged, doubts=doubts, waiting=read_pings(db, "waiting"))


def _counts(number: np.ndarray) -> bool:
    """Whether these are 0, 1, 2 and so on."""
    return bool(np.array_equal(number, np.arange(len(number))))
