"""The log of a mission: every accepted ping, and what the model did with them, in one SQLite file.

From it alone the map can be made again: a row of ``updates`` says which pings a batch held and how
many training steps were taken. A transaction that was committed outlives the process (kill -9) and
the power (write-ahead log with ``synchronous = FULL``: a commit waits for the disk).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..maps import UpdateReport
from ..samples import APPLIED, Samples

#: Of the tables below; a file of another one is not touched.
SCHEMA = 1
#: In the file's header, so that a foreign database is not taken for a log: "POAM".
APPLICATION = 0x504F414D
#: Columns of ``pings`` after the first five: NULL where nobody knows.
KNOWN = ("noise_std", "range", *APPLIED)
TABLES = f"""
CREATE TABLE mission (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE pings (number INTEGER PRIMARY KEY, stamp_ns INTEGER NOT NULL,
    x REAL NOT NULL, y REAL NOT NULL, z REAL NOT NULL, {" REAL, ".join(KNOWN)} REAL);
CREATE TABLE updates (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, steps INTEGER NOT NULL, times INTEGER NOT NULL,
    stamp_ns INTEGER NOT NULL);
CREATE TABLE resets (stamp_ns INTEGER NOT NULL, folder TEXT NOT NULL);
"""
#: What may become of pings: learned, or given up; or the model trained without new ones.
UPDATE, DROP, TRAIN = "update", "drop", "train"


@dataclass(frozen=True)
class Step:
    """Something that the model did.

    Attributes:
        kind: one of the above.
        first, last: numbers of the first and last ping of the batch; -1 of a training.
        steps: training steps taken.
        times: how often, one after the other.
        stamp_ns: when the batch closed.
    """

    kind: str
    first: int = -1
    last: int = -1
    steps: int = 0
    times: int = 1
    stamp_ns: int = 0

    @classmethod
    def of(cls, batch: Samples, report: UpdateReport | None, stamp_ns: int) -> Step:
        """What became of a batch; without a report it was given up."""
        first, last = (int(number) for number in batch.number[[0, -1]])
        if report is None:
            return cls(DROP, first, last, stamp_ns=stamp_ns)
        return cls(UPDATE, first, last, report.steps, stamp_ns=stamp_ns)


@dataclass(frozen=True)
class Logged:
    """What a log holds. Steps are counted from 1: so many are done after the last of them."""

    samples: Samples
    steps: tuple[Step, ...]


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
            new = not path.exists() or _examine(path)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if new:
                self._create(facts)
            self.facts = {n: json.loads(v) for n, v in self._all("SELECT name, value FROM mission")}
        except (sqlite3.Error, OSError, ValueError) as error:
            with suppress(AttributeError):
                self._db.close()
            raise InputError(
                f"{path}: expected a log of this package in a folder that can be written ({error})"
            ) from None

    def append(self, samples: Sequence[Samples], steps: Sequence[Step], done: int) -> None:
        """Commit pings and steps, of which ``done`` came before, or nothing of them. What is there
        already, by its number, stays: a commit that failed may have reached the disk all the same.

        Raises:
            sqlite3.Error: the disk is full, or fails.
        """
        rows = [(done + i, *astuple(step)) for i, step in enumerate(steps, start=1)]
        with _transaction(self._db):
            for part in samples:
                self._insert("pings", _rows(part), 5 + len(KNOWN))
            self._insert("updates", rows, 7)

    def forget(self, done: int) -> None:
        """Only the first ``done`` steps are what happened: the others could not be repeated."""
        with _transaction(self._db):
            self._db.execute("DELETE FROM updates WHERE id > ?", (done,))

    def load(self) -> Logged:
        """Everything.

        Raises:
            InputError: rows are missing, or refer to pings that are not there.
        """
        pings = self._all("SELECT * FROM pings ORDER BY number")
        steps = self._all("SELECT * FROM updates ORDER BY id")
        samples = _samples(pings)
        last = max((row[3] for row in steps), default=-1)
        whole = [row[0] for row in steps] == list(range(1, len(steps) + 1))
        if not whole or last >= len(pings) or not _counts(samples.number):
            raise InputError(
                f"{self.path}: expected every ping and update from the first on; rows are missing"
            )
        return Logged(samples, tuple(Step(*row[1:]) for row in steps))

    def end(self, stamp_ns: int, folder: str) -> None:
        """A reset: the mission goes on in another folder, with a log of its own."""
        with _transaction(self._db):
            self._db.execute("INSERT INTO resets VALUES (?, ?)", (stamp_ns, folder))

    @property
    def successor(self) -> str | None:
        """The folder that the mission goes on in since a reset; None while it does here."""
        rows = self._all("SELECT folder FROM resets")
        return rows[0][0] if rows else None

    def close(self) -> None:
        """Everything is in one file then."""
        self._db.close()

    def _create(self, facts: Mapping[str, Any]) -> None:
        with _transaction(self._db):
            for statement in filter(str.strip, TABLES.split(";")):
                self._db.execute(statement)
            self._insert("mission", [(n, json.dumps(value)) for n, value in facts.items()], 2)
            self._db.execute(f"PRAGMA application_id = {APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {SCHEMA}")

    def _insert(self, table: str, rows: Iterable[tuple[Any, ...]], columns: int) -> None:
        marks = ", ".join("?" * columns)
        self._db.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)

    def _all(self, query: str) -> list[Any]:
        return self._db.execute(query).fetchall()


class _transaction:
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


def _examine(path: Path) -> bool:
    """Whether a file holds nothing yet. Read only: what is not ours is left exactly as it is.

    Raises:
        sqlite3.Error, ValueError: it is no log of ours, or a damaged one.
    """
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        values = (db.execute(f"PRAGMA {n}").fetchone() for n in ("application_id", "user_version"))
        (application,), (schema,) = values
        tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if not application and not tables:
            return True
        if application != APPLICATION:
            raise ValueError("another program's database")
        if schema != SCHEMA:
            raise ValueError(f"layout {schema} of another version, not {SCHEMA}")
        (verdict,) = db.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise ValueError(f"damaged: {' '.join(verdict.split())}")
    return False


def _rows(samples: Samples) -> Iterable[tuple[Any, ...]]:
    """A row of ``pings`` for each."""
    known = np.column_stack((samples.noise_std, samples.range, samples.applied))
    nulls = [[None if v != v else v for v in column] for column in known.T.tolist()]
    integers = samples.number.tolist(), samples.stamp_ns.tolist()
    return zip(*integers, *samples.xy.T.tolist(), samples.z.tolist(), *nulls, strict=True)


def _samples(rows: Sequence[Sequence[Any]]) -> Samples:
    if not rows:
        return Samples.empty()
    number, stamp_ns = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    table = np.array([row[2:] for row in rows], dtype=float)  # None becomes NaN
    x, y, z, noise, distance = table.T[:5]
    return Samples(number, stamp_ns, np.column_stack((x, y)), z, noise, distance, table[:, 5:])


def _counts(number: np.ndarray) -> bool:
    """Whether these are 0, 1, 2 and so on."""
    return bool(np.array_equal(number, np.arange(len(number))))
