"""A folder as it is on a disk that is mounted read-only, also for root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def read_only(folder: Path) -> Iterator[Path]:
    """A copy of a folder that this process cannot write to meanwhile, whoever runs it."""
    # Not below pytest's own folder, which nobody but its owner may enter.
    copy = Path(tempfile.mkdtemp(prefix="poam-test-read-only-"))
    try:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        for path in copy.rglob("*"):
            path.chmod(0o555 if path.is_dir() else 0o444)
        copy.chmod(0o555)
        root = os.geteuid() == 0
        if root:
            os.setresuid(NOBODY, NOBODY, 0)
        try:
            assert not os.access(copy, os.W_OK)
            yield copy
        finally:
            if root:
                os.setresuid(0, 0, 0)
    finally:
        for path in (copy, *copy.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(copy)
