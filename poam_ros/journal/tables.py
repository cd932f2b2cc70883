"""What a journal holds: as values for the model loop, and as tables of an SQLite database that the
journal's transactions are applied to, in a file that other programs can read, or in memory.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.reading import parse_json_text
from ..core.samples import APPLIED, Samples
from ..frontend.refused_pings import MAX_PER_REASON, RefusedPing, RefusedPings

#: Kinds of steps: a batch was learned or dropped; accepted pings were withdrawn or reinstated.
UPDATE, DROP, WITHDRAW, REINSTATE = "update", "drop", "withdraw", "reinstate"


@dataclass(frozen=True)
class JournalStep:
    """Something that the model did.

    Attributes:
        kind: one of the above.
        first, last: numbers of the first and last ping of the batch, or of those withdrawn,
            reinstated.
        steps: training steps taken; of ``WITHDRAW`` what the pings are: 2 or 3 if double or triple
            echoes, 0 if other false echoes.
        stamp_ns: when the batch became due.
    """

    kind: str
    first: int
    last: int
    steps: int = 0
    stamp_ns: int = 0


def withdrawn_after(steps: Sequence[JournalStep]) -> dict[int, int]:
    """The pings that are withdrawn after these steps: numbers, in order, and what each is (see
    ``JournalStep.steps``)."""
    found: dict[int, int] = {}
    for step in steps:
        if step.kind == WITHDRAW:
            found |= dict.fromkeys(range(step.first, step.last + 1), step.steps)
        elif step.kind == REINSTATE:
            for number in range(step.first, step.last + 1):
                found.pop(number, None)
    return dict(sorted(found.items()))


@dataclass(frozen=True)
class JournalContents:
    """What a journal holds.

    Attributes:
        samples: the accepted pings.
        steps: what the model did; step numbers count from 1.
        refused: the newest refused pings of each reason.
    """

    samples: Samples
    steps: tuple[JournalStep, ...]
    refused: RefusedPings = field(default_factory=RefusedPings.none)


#: Version of the tables below, which a file of another version has not.
SCHEMA = 5
#: Identifies our databases in the file's header: "POAM".
APPLICATION = 0x504F414D
#: Columns of pings after the first five, but for the last: NULL if unknown.
KNOWN = ("noise_std", "range", *APPLIED)
#: Columns of a ping as it was placed.
PING = ", ".join(("number", "stamp_ns", "x", "y", "z", *KNOWN))
#: Steps keep the verdict on a ping current: 1 bottom, and in the map; 2 or 3 a multiple;
#: 0 something else. Refused pings are numbered from 0 by reason: together they are the key.
STATEMENTS = f"""
CREATE TABLE mission (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE pings (number INTEGER PRIMARY KEY, stamp_ns INTEGER NOT NULL, x REAL NOT NULL,
    y REAL NOT NULL, z REAL NOT NULL, {" REAL, ".join(KNOWN)} REAL,
    verdict INTEGER NOT NULL DEFAULT 1);
CREATE TABLE updates (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, steps INTEGER NOT NULL, stamp_ns INTEGER NOT NULL);
CREATE TABLE resets (stamp_ns INTEGER NOT NULL, folder TEXT NOT NULL);
CREATE TABLE refused (reason TEXT NOT NULL, number INTEGER NOT NULL, stamp_ns INTEGER NOT NULL,
    x REAL, y REAL, z REAL, PRIMARY KEY (reason, number)) WITHOUT ROWID;
CREATE TABLE chain (sequence INTEGER NOT NULL, checksum TEXT NOT NULL)""".split(";")
#: Counts foreign SQL, which would run when rows are read or written and which neither a journal
#: nor a recording has: views, triggers, virtual tables and computed columns.
OTHERS = """
SELECT count(*) FROM sqlite_master AS made LEFT JOIN pragma_table_xinfo(made.name) AS part
WHERE made.type IN ('view', 'trigger') OR made.sql LIKE 'CREATE VIRTUAL%' OR part.hidden"""
#: The steps: an id, then the fields of a ``JournalStep``.
UPDATES = "SELECT * FROM updates ORDER BY id"
#: Rows of a transaction when tables are recreated.
ROWS = 100
#: All tables except ``chain``, with their columns except those that follow from steps.
TABLES = {"mission": "*", "pings": PING, "updates": "*", "resets": "*", "refused": "*"}


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commits everything executed inside, or nothing."""
    with db:
        db.execute("BEGIN IMMEDIATE")
        yield


def read_only(path: Path) -> sqlite3.Connection:
    """Open a database read-only; nothing is changed or created.

    With a write-ahead log SQLite needs a further file beside the database even to read it. If that
    is missing and cannot be created (read-only disk, another user's folder), the file is read as
    it is; with a write-ahead log left beside it, both are copied into memory.

    Raises:
        sqlite3.Error, OSError: it cannot be opened, or copied.
    """
    where = path.resolve()  # the write-ahead log lies beside the file, not beside a link to it
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
    memory = sqlite3.connect(":memory:")
    with TemporaryDirectory(prefix="poam-") as folder:
        for file in (where, wal):
            shutil.copyfile(file, Path(folder) / file.name)
        with closing(sqlite3.connect(Path(folder) / where.name)) as copied:
            copied.backup(memory)
    return memory


@contextmanager
def snapshot(path: Path) -> Iterator[sqlite3.Connection | None]:
    """A file's tables at one moment; None if it is empty or does not exist. Changes nothing.

    Raises:
        sqlite3.Error, OSError, ValueError: it is not a journal, or it is damaged.
    """
    if not path.exists():
        yield None
        return
    with closing(read_only(path)) as db:
        db.execute("BEGIN")  # a mapper may write meanwhile

        def value(query: str) -> Any:
            return db.execute(query).fetchone()[0]

        application = value("PRAGMA application_id")
        if not application and not value("SELECT count(*) FROM sqlite_master"):
            yield None
            return
        if application != APPLICATION:
            raise ValueError("another program's database")
        if value(OTHERS):
            raise ValueError("views, triggers or computed columns, which no journal has")
        if (schema := value("PRAGMA user_version")) != SCHEMA:
            raise ValueError(f"layout {schema} of another version, not {SCHEMA}")
        if (verdict := value("PRAGMA quick_check(1)")) != "ok":
            raise ValueError(f"damaged: {' '.join(verdict.split())}")
        yield db


def create_tables(db: sqlite3.Connection) -> None:
    """Create the tables; inside a transaction."""
    for statement in STATEMENTS:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {SCHEMA}")


def ping_rows(samples: Samples) -> list[list[Any]]:
    """Pings as rows of a table; None if unknown."""
    known = np.column_stack((samples.noise_std, samples.range, samples.applied))
    nulls = [[None if v != v else v for v in column] for column in known.T.tolist()]
    integers = samples.number.tolist(), samples.stamp_ns.tolist()
    columns = (*integers, *samples.xy.T.tolist(), samples.z.tolist(), *nulls)
    return [list(row) for row in zip(*columns, strict=True)]


def refused_rows(refused: Iterable[RefusedPing]) -> list[list[Any]]:
    """Refused pings as rows of a table; None if unknown."""
    return [
        [*row[:3], *(None if value != value else value for value in row[3:])] for row in refused
    ]


def insert(
    db: sqlite3.Connection, table: str, rows: Sequence[Sequence[Any]], columns: str = ""
) -> None:
    """Add rows, of these columns or all; existing rows with the same key stay."""
    if rows:
        marks, named = ", ".join("?" * len(rows[0])), f" ({columns})" if columns else ""
        db.executemany(f"INSERT OR IGNORE INTO {table}{named} VALUES ({marks})", rows)


def apply(db: sqlite3.Connection, parts: Mapping[str, Any]) -> None:
    """Apply a transaction to the tables, by the names of its parts.

    ``mission``: facts by name. ``pings``, ``updates``, ``refused``: rows to add. ``forget``: number
    of updates to keep. ``end``: stamp and folder of a reset. ``layout``: version that wrote the
    first transaction.

    Raises:
        ValueError: a part is unknown.
        sqlite3.Error: the disk is full, or fails.
    """
    for name, value in parts.items():
        if name == "mission":
            insert(db, name, [(n, json.dumps(v)) for n, v in value.items()])
        elif name == "pings":
            insert(db, name, value, PING)
        elif name == "updates":
            insert(db, name, value)
            _judge(db, value)
        elif name == "refused":
            insert(db, name, value)
            for reason, number in {row[0]: row[1] for row in value}.items():  # keep the newest
                beyond = reason, number - MAX_PER_REASON
                db.execute("DELETE FROM refused WHERE reason = ? AND number <= ?", beyond)
        elif name == "forget":
            forget_steps(db, value)
        elif name == "end":
            insert(db, "resets", [] if successor_of(db) else [value])
        elif (name, value) != ("layout", SCHEMA):
            raise ValueError(f"a transaction of another version ({name} {value!r})"[:80])


def forget_steps(db: sqlite3.Connection, steps: int) -> None:
    """Keep the first steps only, and the verdicts that follow from them."""
    db.execute("DELETE FROM updates WHERE id > ?", (steps,))
    db.execute("UPDATE pings SET verdict = 1 WHERE verdict != 1")
    _judge(db, db.execute(UPDATES).fetchall())


def _judge(db: sqlite3.Connection, steps: Sequence[Sequence[Any]]) -> None:
    """Set the verdicts that change with steps."""
    changes = [
        (row[4] if row[1] == WITHDRAW else 1, row[2], row[3])
        for row in steps
        if row[1] in (WITHDRAW, REINSTATE)
    ]
    db.executemany("UPDATE pings SET verdict = ? WHERE number BETWEEN ? AND ?", changes)


def read_pings(db: sqlite3.Connection) -> Samples:
    """All pings, in the order of their numbers."""
    rows = db.execute(f"SELECT {PING} FROM pings ORDER BY 1").fetchall()
    if not rows:
        return Samples.empty()
    number, stamp_ns = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    table = np.array([row[2:] for row in rows], dtype=float)  # None becomes NaN
    z, noise, distance = table.T[2:5]
    return Samples(number, stamp_ns, table[:, :2], z, noise, distance, table[:, 5:])


def read_refused(db: sqlite3.Connection) -> RefusedPings:
    """The stored refused pings, by reason."""
    return RefusedPings.of(db.execute("SELECT * FROM refused ORDER BY reason, number"))


def facts_of(db: sqlite3.Connection, path: Path) -> dict[str, Any]:
    """The facts of the mission from when the journal was created.

    Raises:
        InputError: they cannot be read, or are not those of a mission.
    """
    try:
        rows = db.execute("SELECT name, value FROM mission")
        facts = {name: parse_json_text(value) for name, value in rows}
        for name in ("settings", "mapper"):
            if not isinstance(facts.get(name, {}), dict):
                raise ValueError(f"no values in {name}")
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise InputError(f"{path}: expected the settings of a mission ({error})") from None
    return facts


def successor_of(db: sqlite3.Connection) -> str | None:
    """The folder that continues the mission after a reset; None: no reset."""
    rows = db.execute("SELECT folder FROM resets").fetchall()
    return rows[0][0] if rows else None


def in_memory() -> sqlite3.Connection:
    """Empty tables in memory."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    with transaction(db):
        create_tables(db)
    return db


def transactions(db: sqlite3.Connection, facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Transactions that recreate the tables, a few rows each."""
    yield {"layout": SCHEMA, "mission": facts}
    for table in ("pings", "updates", "refused"):
        cursor = db.execute(f"SELECT {TABLES[table]} FROM {table} ORDER BY 1, 2")
        while rows := cursor.fetchmany(ROWS):
            yield {table: rows}
    for row in db.execute("SELECT * FROM resets").fetchall():
        yield {"end": row}


def same(db: sqlite3.Connection, other: sqlite3.Connection) -> bool:
    """Whether two databases have the same rows."""
    decoded = db.text_factory, other.text_factory
    db.text_factory = other.text_factory = bytes  # a damaged text may not be UTF-8 any more
    try:
        return all(
            ours == theirs
            for query in (f"SELECT * FROM {table} ORDER BY 1, 2" for table in TABLES)
            for ours, theirs in zip_longest(db.execute(query), other.execute(query))
        )
    finally:
        db.text_factory, other.text_factory = decoded


def load(db: sqlite3.Connection, path: Path) -> JournalContents:
    """Everything in the tables of this version.

    Raises:
        InputError: rows are missing, or refer to missing pings.
    """
    try:
        samples = read_pings(db)
        rows = db.execute(UPDATES).fetchall()
        last = max((row[3] for row in rows), default=-1)
        ids, numbers = [row[0] for row in rows], samples.number.tolist()
        whole = ids == list(range(1, len(ids) + 1)) and numbers == list(range(len(numbers)))
        if not whole or last >= len(samples):
            raise ValueError("rows are missing")
        steps, refused = tuple(JournalStep(*row[1:]) for row in rows), read_refused(db)
    except (sqlite3.Error, ValueError, TypeError, OverflowError) as error:
        text = f"{path}: expected all pings and updates from the first on ({error})"
        raise InputError(text) from None
    return JournalContents(samples, steps, refused)
