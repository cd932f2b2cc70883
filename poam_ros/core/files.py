"""Files that are whole whatever happens (written beside, synced, renamed), and locks."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import tokenize
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import BadZipFile

from .errors import InputError, shown
from .reading import parse_json

#: Characters of a checksum, in hexadecimal.
CHECKSUM = 32
#: What reading a file of numpy's may raise that is damaged or somebody else's.
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, RecursionError, MemoryError,
    OverflowError, NotImplementedError, RuntimeError, BadZipFile, zlib.error, struct.error,
    SyntaxError, tokenize.TokenError,
)  # fmt: skip


def checksum(*parts: bytes) -> str:
    """Of these bytes, one after the other: the first half of their SHA-256."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:CHECKSUM]


def sync(path: Path) -> None:
    """Bring a file, or a folder's names, to the disk."""
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def within(folder: Path, name: str) -> Path:
    """What a file calls so of a folder, such as ``runs/seed-1``: never anything outside of that.

    Raises:
        InputError: it leads elsewhere.
    """
    path = folder / name
    own = not {"", ".", ".."} & set(name.split("/")) and "\0" not in name
    if not own or folder.resolve() not in path.resolve().parents:
        raise InputError(f"{folder}: expected a name of something in it, got {shown(name)!r}")
    return path


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write; it takes its name only when it is complete and on the disk.

    Raises:
        OSError: it cannot be written; what had the name before stays.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def rename_folder(beside: Path, place: Path) -> None:
    """Give a folder of files its name, once all of them are on the disk. Raises OSError."""
    for path in (*beside.iterdir(), beside):
        sync(path)
    beside.rename(place)
    sync(place.parent)


def lock(path: Path, wait: bool = False) -> IO[bytes]:
    """Have a file to ourselves until it is closed, or the process ends. It is made if need be.

    Args:
        path: of the file, whose content does not matter.
        wait: until whoever has it leaves it.

    Raises:
        BlockingIOError: another has it.
        OSError: it cannot be opened.
    """
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        raise
    except OSError:
        pass  # a file system without locks: then it is up to the user
    return file


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values with their checksum. Raises OSError."""
    whole = {**values, "checksum": _checksum(values)}
    with replacing(path) as file:
        file.write(json.dumps(whole).encode())


def read_json(path: Path, expected: str) -> dict[str, Any] | None:
    """The values of a file; None where there is none. One without a checksum is taken as it is.

    Raises:
        InputError: it cannot be read, is not ``expected``, or its checksum is another's.
    """
    if not path.exists():
        return None
    try:
        found = parse_json(path)
        if not isinstance(found, dict):
            raise ValueError("something else")
        given = found.pop("checksum", None)
        if given is not None and given != _checksum(found):
            raise ValueError("damaged: the checksum differs")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected {expected} ({error})") from None
    return found


def _checksum(values: Mapping[str, Any]) -> str:
    return checksum(json.dumps(values, sort_keys=True).encode())
