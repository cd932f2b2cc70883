"""What the two files of a log hold, each checked by the other. Nothing is changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import InputError
from .tables import (
    CHAIN,
    Transaction,
    apply,
    copy,
    holds,
    in_memory,
    read_only,
    same,
    schema_version,
)
from .transactions import NONE, Line, read

#: Ending of the file of transactions, beside the tables'.
JOURNAL = ".journal"


@dataclass
class _Database:
    """What the file of the tables says; ``db``: None where it cannot be used, for this ``fault``;
    ``sequence``, ``checksum``: of the last transaction that it has."""

    db: sqlite3.Connection | None = None
    layout: int = 0
    sequence: int = 0
    checksum: str = ""
    fault: str = ""


@dataclass
class Found:
    """All that a log's two files hold.

    Attributes:
        db: in memory.
        last: the last transaction of the journal.
        notes: in words what is damaged.
        anew: whether both files are to be written anew; else ``tables``: whether the tables are.
    """

    db: sqlite3.Connection
    last: Line = NONE
    notes: list[str] = field(default_factory=list)
    anew: bool = False
    tables: bool = False


def find(path: Path, salvage: bool = False) -> Found | None:
    """Read a log, and compare its two files; nothing is changed. None where none was begun.

    Args:
        path: of the tables' file.
        salvage: take what is whole where something is lost; otherwise that is an error.

    Raises:
        InputError: it is no log, or something is lost for good.
    """
    path = path.resolve()  # it lies beside the file, not beside a link to it
    journal = path.with_suffix(JOURNAL)
    begun = journal.exists() and journal.stat().st_size > 0
    with _database(path) as database:
        try:
            if not begun:
                return _of_tables(path, database)
            return _of_both(path, database, salvage)
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{journal}: expected a log of this version ({error})") from None


def _of_tables(path: Path, database: _Database) -> Found | None:
    """A log without a journal: one of a layout before, or one that has lost it."""
    if database.fault:
        raise InputError(f"{path}: expected a mission's log of this version ({database.fault})")
    if database.db is None or (database.layout >= CHAIN and not database.sequence):
        return None
    found = Found(in_memory(), anew=True)
    copy(database.db, found.db)
    if database.layout >= CHAIN:
        found.notes.append(f"{path.stem}{JOURNAL} is missing: {path.name} cannot be checked by it")
    return found


def _of_both(path: Path, database: _Database, salvage: bool) -> Found | None:
    """A log by its journal, or by its tables where the journal is damaged."""
    journal = path.with_suffix(JOURNAL)
    if not (database.sequence or database.fault) and b"\n" not in journal.read_bytes():
        return None  # it ended while it was begun
    db, last, gaps, agree = in_memory(), NONE, False, False
    with Transaction(db):
        for line in read(journal):
            if line is None or line.sequence <= last.sequence:
                continue
            gaps |= line.sequence != last.sequence + 1 or line.previous != last.checksum
            apply(db, line.parts)
            last = line
            if line.sequence == database.sequence and not gaps and database.db is not None:
                agree = line.checksum == database.checksum and same(db, database.db)
    rest = journal.stat().st_size - last.end
    fault = "" if agree else database.fault or "its rows are others"
    if not gaps and (agree or database.db is None or database.sequence <= last.sequence):
        found = Found(db, last, tables=not agree or database.sequence < last.sequence)
        if not agree and last.sequence > 1:
            found.notes.append(f"{path.name} was damaged ({fault}): made again from the journal")
        if rest:
            found.notes.append(
                f"the last {rest} bytes of {journal.name} are no whole transaction, and left out: "
                "it was not finished, or is damaged"
            )
        if not last.sequence:
            raise InputError(f"{journal}: expected a log, got nothing that is whole")
        return found
    restored = _by_tables(journal, db, database)
    if restored is not None:
        text = f"{journal.name} was damaged: made again from {path.name}"
        return Found(restored, notes=[text], anew=True)
    if not salvage:
        raise InputError(
            f"{path.parent}: pings are lost: both {journal.name} and {path.name} are damaged; to "
            f"go on with what is whole: poam repair {path.parent}"
        )
    if database.db is not None:
        copy(database.db, db)
    return Found(db, notes=[_close_gaps(db)], anew=True)


def _by_tables(
    journal: Path, whole: sqlite3.Connection, database: _Database
) -> sqlite3.Connection | None:
    """The tables with the transactions that came after them, where both go together, and with all
    that is ``whole`` of the journal; else None."""
    if database.db is None:
        return None
    db, last = in_memory(), (database.sequence, database.checksum)
    copy(database.db, db)
    with Transaction(db):
        for line in read(journal):
            if line is not None and line.sequence > last[0]:
                if (line.sequence - 1, line.previous) != last:
                    return None
                apply(db, line.parts)
                last = line.sequence, line.checksum
    return db if holds(db, whole, ("mission", "pings", "updates", "resets")) else None


def _close_gaps(db: sqlite3.Connection) -> str:
    """Number the pings that are left, and forget all steps from the first gap on; in words what
    was lost."""
    numbers = [row[0] for row in db.execute("SELECT number FROM pings ORDER BY 1")]
    hole = next((i for i, number in enumerate(numbers) if i != number), len(numbers))
    with Transaction(db):
        for i, number in enumerate(numbers[hole:], start=hole):
            db.execute("UPDATE pings SET number = ? WHERE number = ?", (i, number))
        steps = db.execute("SELECT id, last FROM updates ORDER BY 1").fetchall()
        whole = next((i for i, row in enumerate(steps, 1) if row[0] != i or row[1] >= hole), None)
        if whole is not None:
            db.execute("DELETE FROM updates WHERE id >= ?", (whole,))
    lost = numbers[-1] + 1 - len(numbers) if numbers else 0
    return f"at least {lost} pings are lost; {len(numbers)} are left"


@contextmanager
def _database(path: Path) -> Iterator[_Database]:
    """The file of the tables, as it is at one moment."""
    db = None
    try:
        try:
            layout = schema_version(path)
            if layout:
                db = read_only(path)
                db.execute("BEGIN")  # a mapper may go on writing meanwhile
                row = (0, "")
                if layout >= CHAIN:
                    row = db.execute("SELECT sequence, checksum FROM chain").fetchone() or row
                found = _Database(db, layout, *row)
            else:
                found = _Database()
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            found = _Database(fault=str(error))
        yield found
    finally:
        if db is not None:
            db.close()
