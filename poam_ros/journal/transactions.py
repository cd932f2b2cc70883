"""The transactions of the journal: lines of a text file, chained by checksums.

A line is a checksum, a space and a JSON object: ``sequence`` counts from 1, ``previous`` is the
checksum of the line before, the rest are the parts of the transaction (see ``tables.apply``). Lines
are only appended, and are on the disk before their content counts. A damaged line loses its own
content only; the chain shows that it is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.files import CHECKSUM, checksum
from ..core.reading import JSON_FACTOR, allowance


@dataclass(frozen=True)
class Line:
    """A transaction read from the file; ``end``: end of its line, in bytes."""

    sequence: int
    previous: str
    checksum: str
    parts: Mapping[str, Any]
    end: int


#: Before the first.
NONE = Line(0, "", "", {}, 0)


def encode(sequence: int, previous: str, parts: Mapping[str, Any]) -> tuple[str, bytes]:
    """Checksum and line of a transaction."""
    values = {"sequence": sequence, "previous": previous, **parts}
    body = json.dumps(values, separators=(",", ":")).encode()
    total = checksum(body)
    return total, total.encode() + b" " + body + b"\n"


def read(path: Path) -> Iterator[Line | None]:
    """Every line of a file; None for a damaged one. Yields nothing without a file."""
    if not path.exists():
        return
    end = 0
    with path.open("rb") as file:
        while text := file.readline(allowance() // JSON_FACTOR):
            end += len(text)
            yield _decode(text, end)


def has_line(path: Path) -> bool:
    """Whether a file has a whole line, or one that is too long to be ours."""
    with path.open("rb") as file:
        first = file.readline(longest := allowance() // JSON_FACTOR)
    return first.endswith(b"\n") or len(first) == longest


def _decode(text: bytes, end: int) -> Line | None:
    total, body = text[:CHECKSUM], text[CHECKSUM + 1 : -1]
    if text[-1:] != b"\n" or text[CHECKSUM : CHECKSUM + 1] != b" ":
        return None
    if checksum(body).encode() != total:
        return None
    try:
        parts = json.loads(body)
        return Line(parts.pop("sequence"), parts.pop("previous"), total.decode(), parts, end)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None  # a valid checksum: written by another program


class Transactions:
    """Appends to a file, which is created if missing.

    Args:
        path: of the file.
        sequence: of its last line; 0: it has none.
        last: checksum of its last line.
        end: end of its last line in bytes; the file is cut off there.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: Path, sequence: int, last: str, end: int) -> None:
        self.sequence, self.last = sequence, last
        self._end, self._before = end, (sequence, last, end)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.ftruncate(self._file, end)
        except OSError:
            os.close(self._file)
            raise

    def append(self, parts: Mapping[str, Any]) -> None:
        """Write a transaction to the disk.

        Raises:
            OSError: the disk is full, or fails; nothing is appended.
        """
        total, line = encode(self.sequence + 1, self.last, parts)
        self._before = self.sequence, self.last, self._end
        os.ftruncate(self._file, self._end)  # should the last failure have left a part of a line
        written = 0
        try:
            while written < len(line):
                written += os.pwrite(self._file, line[written:], self._end + written)
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):  # a part of a line would be taken for damage
                os.ftruncate(self._file, self._end)
            raise
        self.sequence, self.last, self._end = self.sequence + 1, total, self._end + len(line)

    def take_back(self) -> None:
        """Remove the last line: its transaction was not committed after all."""
        self.sequence, self.last, self._end = self._before
        os.ftruncate(self._file, self._end)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
