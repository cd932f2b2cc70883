"""Atomic writes (to a temporary file, synced, renamed), checksums and locks."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import struct
import tokenize
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO
from zipfile import BadZipFile

from .errors import InputError, pasted, shown
from .reading import parse_json, read_whole

#: Characters of a checksum, in hexadecimal.
CHECKSUM = 32
#: File with the SHA-256 of other files in its folder, as ``sha256sum -c`` reads it.
CHECKSUMS = "SHA256SUMS"
#: Errors that reading a damaged or foreign NumPy file may raise.
UNREADABLE = (
    OSError, ValueError, KeyError, TypeError, EOFError, AttributeError, RecursionError, MemoryError,
    OverflowError, NotImplementedError, RuntimeError, BadZipFile, zlib.error, struct.error,
    SyntaxError, tokenize.TokenError,
)  # fmt: skip


def checksum(*parts: bytes) -> str:
    """The first half of the SHA-256 of the concatenated bytes."""
    return hashlib.sha256(b"".join(parts)).hexdigest()[:CHECKSUM]


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """List the SHA-256 of these files of a folder, beside those listed before. Raises OSError."""
    _write_listed(folder, _listed(folder) | {name: sha256(folder / name) for name in names})


def verify(path: Path) -> None:
    """Compare a file with its folder's ``CHECKSUMS``; one that is not listed passes.

    Raises:
        OSError: it cannot be read.
        InputError: its content does not match the listed checksum.
    """
    expected = _listed(path.parent).get(path.name)
    if expected is not None and expected != sha256(path):
        raise InputError(
            f"damaged: not what {CHECKSUMS} says; to set it aside: {pasted('repair', path.parent)}"
        )


def damaged_files(folder: Path) -> list[Path]:
    """The files in a folder that do not match its ``CHECKSUMS``; missing files are skipped."""
    listed = sorted((folder / name, total) for name, total in _listed(folder).items())
    return [path for path, total in listed if path.is_file() and sha256(path) != total]


def _listed(folder: Path) -> dict[str, str]:
    """SHA-256 by name; damaged lines are skipped."""
    try:
        text = read_whole(folder / CHECKSUMS).decode(errors="replace")
    except (OSError, InputError):
        return {}
    rows = (line.partition("  ") for line in text.split("\n"))
    return {name: total for total, _, name in rows if name and "/" not in name and "\0" not in name}


def _write_listed(folder: Path, listed: Mapping[str, str]) -> None:
    with atomic_write(folder / CHECKSUMS) as file:
        file.writelines(f"{total}  {name}\n".encode() for name, total in sorted(listed.items()))


def sha256(*paths: Path) -> str:
    """The SHA-256 of the files' concatenated content, read in parts. Raises OSError."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            for part in iter(lambda: file.read(2**20), b""):
                total.update(part)
    return total.hexdigest()


def sync(path: Path) -> None:
    """Sync a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def within(folder: Path, name: str) -> Path:
    """A path in a folder by a name from a file, such as ``runs/seed-1``; never outside the folder.

    Raises:
        InputError: it leads outside.
    """
    path = folder / name
    own = not {"", ".", ".."} & set(name.split("/")) and "\0" not in name
    if not own or folder.resolve() not in path.resolve().parents:
        raise InputError(f"{folder}: expected a path inside it, got {shown(name)!r}")
    return path


def shipped(name: str) -> Path | None:
    """A file of config/, in a checkout or in the share folder of an installation, if it exists."""
    package = Path(__file__).resolve().parents[1]
    folders = [package.parent / "config", *(p / "share/poam_ros/config" for p in package.parents)]
    return next((folder / name for folder in folders if (folder / name).is_file()), None)


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write. It appears under its name only once it is complete and synced. The checksum
    of an earlier file with this name is removed first.

    Raises:
        OSError: it cannot be written; an earlier file with this name is kept.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.name != CHECKSUMS and path.name in (listed := _listed(path.parent)):
            del listed[path.name]
            _write_listed(path.parent, listed)
        temporary.replace(path)
        sync(path.parent)
    except OSError as error:
        error.filename = error.filename or str(path)  # a failed write does not name its file
        raise
    finally:
        temporary.unlink(missing_ok=True)


def rename_folder(temporary: Path, folder: Path) -> None:
    """Rename a folder once all its files are synced. Raises OSError."""
    for path in (*temporary.iterdir(), temporary):
        sync(path)
    temporary.rename(folder)
    sync(folder.parent)


def lock(path: Path, wait: bool = False) -> IO[bytes]:
    """Lock a file until it is closed or the process ends; create it if needed.

    Args:
        path: of the file; its content does not matter.
        wait: wait until it is free.

    Raises:
        BlockingIOError: another process holds the lock.
        OSError: it cannot be opened.
    """
    file = path.open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        file.close()
        raise
    except OSError:
        pass  # a file system without locks: exclusive use is up to the user
    return file


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write values with their checksum. Raises OSError."""
    whole = {**values, "checksum": _checksum(values)}
    with atomic_write(path) as file:
        file.write(json.dumps(whole).encode())


def read_json(path: Path, expected: str) -> dict[str, Any] | None:
    """The values of a file; None if there is none. A missing checksum is accepted.

    Raises:
        InputError: it cannot be read, is not ``expected``, or its checksum does not match.
    """
    if not path.exists():
        return None
    try:
        values = parse_json(path)
        if not isinstance(values, dict):
            raise ValueError("something else")
        total = values.pop("checksum", None)
        if total is not None and total != _checksum(values):
            raise ValueError("damaged: the checksum differs")
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected {expected} ({error})") from None
    return values


def _checksum(values: Mapping[str, Any]) -> str:
    return checksum(json.dumps(values, sort_keys=True).encode())
