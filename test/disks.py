"""A small file system of its own, that a test fills up and frees again."""

from __future__ import annotations

import os
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
        self._remount(f"size={max(size // PAGE, 1) * PAGE}")

    def fill(self) -> None:
        """Leave nothing free."""
        with suppress(OSError), self._ballast.open("ab", buffering=0) as file:
            while file.write(bytes(PAGE)):
                pass

    def use_up_inodes(self) -> None:
        """Let no further file be created; those that exist can grow."""
        state = os.statvfs(self.path)
        self._remount(f"nr_inodes={state.f_files - state.f_ffree}")

    def free(self) -> None:
        """Undo ``fill`` and ``use_up_inodes``."""
        self._ballast.unlink(missing_ok=True)
        self._remount("nr_inodes=0")

    def _remount(self, option: str) -> None:
        command = ["mount", "-o", f"remount,{option}", str(self.path)]
        subprocess.run(command, check=True, capture_output=True)


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
