"""The log of a mission: every accepted ping, what the model did with them, the pings that are not
accepted yet (they wait to be judged, or are in doubt), and those refused, in one SQLite file.

From it alone the map can be made again: a row of ``updates`` says which pings a batch held and how
many training steps were taken. A transaction that was committed outlives the process (kill -9) and
the power (write-ahead log with ``synchronous = FULL``: a commit waits for the disk).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..samples import Samples
from .log_file import (
    DOUBTS,
    REFUSED,
    SCHEMA,
    Transaction,
    insert,
    insert_pings,
    insert_refused,
    lay_out,
    layout_of,
    read_pings,
    read_refused,
)
from .logged import Doubts, Logged, Step
from .refused import Refusal


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
