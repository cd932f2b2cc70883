"""Reads the two files of a journal and checks each by the other. Changes nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import InputError, pasted, quantity
from .tables import (
    Transaction,
    apply,
    copy,
    forget_steps,
    in_memory,
    read_only,
    same,
    schema_version,
)
from .transactions import NONE, Line, has_line, read

#: Ending of the file of transactions, beside the tables'.
JOURNAL = ".journal"


@dataclass
class _Database:
    """The file of tables; ``db``: None if it cannot be used, because of ``fault``; ``sequence``,
    ``checksum``: of its last transaction."""

    db: sqlite3.Connection | None = None
    sequence: int = 0
    checksum: str = ""
    fault: str = ""


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
    with _database(path) as database:
        try:
            if not begun:
                if database.fault:
                    expected = f"a mission's tables of this version ({database.fault})"
                    raise InputError(f"{path}: expected {expected}")
                if database.db is None or not database.sequence:
                    return None
            elif not (database.sequence or database.fault) and not has_line(journal):
                return None  # interrupted while it was created
            return _of_both(path, database, salvage)
        except (sqlite3.Error, OSError, ValueError, TypeError, KeyError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{journal}: expected a journal of this version ({error})") from None


def _of_both(path: Path, database: _Database, salvage: bool) -> Verified:
    """The content by the journal; where that is damaged, what it lacks is by the tables."""
    journal = path.with_suffix(JOURNAL)
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
    fault = "" if agree else database.fault or "its rows differ"
    if not gaps and (agree or database.db is None or database.sequence <= last.sequence):
        found = Verified(db, last, rewrite_tables=not agree or database.sequence < last.sequence)
        if not agree and last.sequence > 1:
            found.damage.append(f"{path.name} was damaged ({fault}): restored from the journal")
        if rest := journal.stat().st_size - last.end:
            found.damage.append(
                f"the last {rest} bytes of {journal.name} are not a complete transaction and are "
                "ignored: it was interrupted or is damaged"
            )
        if not last.sequence:
            raise InputError(f"{journal}: expected a journal, got no intact line")
        return found
    if database.db is not None:
        copy(database.db, db)
    damage = f"{journal.name} was damaged: restored from {path.name}"
    if not journal.exists():
        damage = f"{journal.name} is missing: {path.name} cannot be checked"
    elif not _whole(db):
        if not salvage:
            raise InputError(
                f"{path.parent}: pings are lost: both {journal.name} and {path.name} are damaged; "
                f"to continue with what is intact: {pasted('repair', path.parent)}"
            )
        damage = _close_gaps(db)
    return Verified(db, damage=[damage], rewrite=True)


def _whole(db: sqlite3.Connection) -> bool:
    """Whether no ping and no step is missing between others."""
    counts = (
        "SELECT count(*), coalesce(max(number) + 1, 0) FROM pings",
        ("SELECT count(*), coalesce(max(id), 0) FROM updates"),
    )
    return all(count == last for count, last in (db.execute(query).fetchone() for query in counts))


def _close_gaps(db: sqlite3.Connection) -> str:
    """Renumber the remaining pings and drop all steps from the first gap on; returns what was
    lost, as text."""
    numbers = [row[0] for row in db.execute("SELECT number FROM pings ORDER BY 1")]
    hole = next((i for i, number in enumerate(numbers) if i != number), len(numbers))
    with Transaction(db):
        for i, number in enumerate(numbers[hole:], start=hole):
            db.execute("UPDATE pings SET number = ? WHERE number = ?", (i, number))
        steps = db.execute("SELECT id, last FROM updates ORDER BY 1").fetchall()
        whole = next((i for i, row in enumerate(steps, 1) if row[0] != i or row[1] >= hole), None)
        forget_steps(db, len(steps) if whole is None else whole - 1)
    lost = numbers[-1] + 1 - len(numbers) if numbers else 0
    return f"lost: at least {quantity(lost, 'ping')}; left: {len(numbers)}"


@contextmanager
def _database(path: Path) -> Iterator[_Database]:
    """A snapshot of the file of tables."""
    db = None
    try:
        try:
            if schema_version(path):
                db = read_only(path)
                db.execute("BEGIN")  # a mapper may write meanwhile
                row = db.execute("SELECT sequence, checksum FROM chain").fetchone() or (0, "")
                found = _Database(db, *row)
            else:
                found = _Database()
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            found = _Database(fault=str(error))
        yield found
    finally:
        if db is not None:
            db.close()
