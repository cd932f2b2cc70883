"""Raw messages of rosbag2 recordings, without ROS 2: folders, MCAP and SQLite files, also truncated
ones.

Files are read from the front, in the order of recording. A file cut off by a power failure has
neither index nor end: it is read up to the cut.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ..core.errors import InputError, requires_extra
from ..core.reading import RECORD_FACTOR, allowance, refuse_larger
from ..journal.tables import OTHERS, read_only

SUFFIXES = (".mcap", ".db3")


class RawMessage(NamedTuple):
    """A recorded message: topic, type, the definition that came with it (empty without one), time
    of recording, and CDR bytes."""

    topic: str
    kind: str
    definition: str
    time_ns: int
    data: bytes


@dataclass
class ReadProgress:
    """How far recordings could be read: bytes read, bytes in all, and what stopped reading, by
    file. ``topics``: their types, as far as they were met."""

    read: int = 0
    size: int = 0
    torn: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the bytes that could be read."""
        return self.read / self.size if self.size else 0.0


def is_bag(path: Path) -> bool:
    """Whether a path is read as a rosbag2 recording."""
    return path.is_dir() or path.suffix in SUFFIXES


def bag_messages(path: Path, topics: frozenset[str], reach: ReadProgress) -> Iterator[RawMessage]:
    """The messages of some topics, in the order of recording; ``reach`` is kept up to date.

    Raises:
        InputError: there is no recording, its libraries are not installed, or nothing of it can
            be read.
    """
    files = [path]
    if path.is_dir():
        found = [file for file in path.iterdir() if file.suffix in SUFFIXES]
        files = sorted(found, key=lambda file: [_natural(p) for p in re.split(r"(\d+)", file.name)])
    if not files or not all(file.is_file() for file in files):
        raise InputError(
            f"{path}: expected a rosbag2 folder with .mcap or .db3 files, or such a file "
            "(compressed ones: ros2 bag convert)"
        )
    reach.size = sum(file.stat().st_size for file in files)
    before = 0
    for file in files:
        read = _mcap if file.suffix == ".mcap" else _sqlite
        for done, message in read(file, topics, reach):
            reach.read = before + done
            yield message
        before += file.stat().st_size
        if file.name not in reach.torn:
            reach.read = before


def _natural(part: str) -> tuple[int, str]:
    return (int(part), "") if part.isdigit() else (0, part)


def _mcap(
    file: Path, topics: frozenset[str], reach: ReadProgress
) -> Iterator[tuple[int, RawMessage]]:
    with requires_extra(f"{file}: a recording", "mcap and rosbags", "bags"):
        from mcap.exceptions import InvalidMagic
        from mcap.records import Channel, Message, Schema
    schemas: dict[int, Schema] = {}
    channels: dict[int, Channel] = {}
    with file.open("rb") as stream:
        records = mcap_records(stream, file.stat().st_size)
        while True:
            try:
                record = next(records)
                if isinstance(record, Schema):
                    schemas[record.id] = record
                elif isinstance(record, Channel):
                    channels[record.id] = record
                    if record.schema_id in schemas:
                        reach.topics[record.topic] = schemas[record.schema_id].name
                if not isinstance(record, Message):
                    continue
                channel = channels[record.channel_id]
                schema = schemas[channel.schema_id] if channel.schema_id else None
            except StopIteration:
                return
            except InputError as error:
                raise InputError(f"{file}: {error}") from None
            except InvalidMagic as error:
                if not reach.read and stream.tell() < 16:
                    raise InputError(f"{file}: expected an MCAP file ({error})") from None
                reach.torn[file.name] = "its end is not one"
                return
            except Exception as error:  # of decompression, of decoding: each library has its own
                reach.torn[file.name] = f"{type(error).__name__} {error}".strip()
                return
            if channel.topic not in topics or schema is None or channel.message_encoding != "cdr":
                continue
            text = schema.data.decode("utf-8", "replace") if schema.encoding == "ros2msg" else ""
            raw = RawMessage(channel.topic, schema.name, text, record.log_time, record.data)
            yield stream.tell(), raw


def mcap_records(stream: BinaryIO, size: int) -> Iterator[Any]:
    """The records of a file of ``size`` bytes, including those in its chunks.

    Raises:
        InputError: a chunk holds more than is allowed.
    """
    from mcap.records import Chunk
    from mcap.stream_reader import StreamReader, breakup_chunk

    longest = max(1, min(size, allowance()))
    for record in StreamReader(stream, emit_chunks=True, record_size_limit=longest).records:
        if isinstance(record, Chunk):
            refuse_larger("a chunk", record.uncompressed_size, RECORD_FACTOR)
            yield from breakup_chunk(record)
        else:
            yield record


def _sqlite(
    file: Path, topics: frozenset[str], reach: ReadProgress
) -> Iterator[tuple[int, RawMessage]]:
    size = file.stat().st_size
    try:  # neither a lock nor a journal is left beside somebody's record
        connection = read_only(file)
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"{file}: expected a rosbag2 database ({error})") from None
    try:
        if connection.execute(OTHERS).fetchone()[0]:
            raise InputError(f"{file}: expected a rosbag2 database, got one with computed rows")
        rows = connection.execute("SELECT id, name, type FROM topics").fetchall()
        reach.topics.update((str(name), str(kind)) for _, name, kind in rows)
        kinds = {number: (name, kind) for number, name, kind in rows if name in topics}
        marks = ",".join("?" * len(kinds))
        done = 0
        # By number, which is the order of recording and of the file: no index is needed for it.
        query = (
            f"SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN ({marks}) "
            "ORDER BY id"
        )
        for topic, time_ns, data in connection.execute(query, tuple(kinds)):
            done += len(data)
            refuse_larger(f"{file}: a message", len(data), RECORD_FACTOR)
            yield min(done, size), RawMessage(*kinds[topic], "", time_ns, bytes(data))
    except sqlite3.DatabaseError as error:
        if not reach.read:
            raise InputError(f"{file}: expected a rosbag2 database ({error})") from None
        reach.torn[file.name] = str(error)
    finally:
        connection.close()
