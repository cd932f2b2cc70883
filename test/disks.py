"""A small file system of its own, that a test fills up and frees again."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PAGE = 4096  # bytes, what a file is rounded up to
LARGE = 64 << 20


class Disk:
    """Mounted at ``path``; large until it is made small, or filled up."""

    def __init__(self, path: Path) -> None:
        self.path, self._ballast = path, path / "ballast"

    def resize(self, size: int) -> None:
        """To so many bytes, a page at least."""
        size = max(size // PAGE, 1) * PAGE
        command = ["mount", "-o", f"remount,size={size}", str(self.path)]
        subprocess.run(command, check=True, capture_output=True)

    def fill(self) -> None:
        """Leave nothing free."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(bytes(PAGE)):
                pass

    def free(self) -> None:
        """Undo ``fill``."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def mounted(path: Path) -> Iterator[Disk]:
    """A disk at a folder; the test is skipped where this user may mount none."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={LARGE}", "none", str(path)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted ({error})")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
