"""The loader of the compiled libraries, and the message if they are missing.

The libraries are built with the package where there is a C compiler (see setup.py). The environment
variable ``POAM_NATIVE=0`` leaves them aside. Imports no torch.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

LIBRARIES = ("attentive", "search", "conditional", "network", "hypotheses")
INTERFACE = 12  # as in common.h
#: Without the libraries nngp takes this many times fewer training steps, to limit update times.
FEWER_STEPS = 6

log = logging.getLogger(__name__)


def load(name: str) -> ctypes.CDLL | None:
    """A library, if it exists and was built from these sources."""
    path = None if os.environ.get("POAM_NATIVE", "1") == "0" else _path(name)
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    if _interface(library) == INTERFACE:
        return library
    log.warning("%s was built from other sources: slower without it, so install again", name)
    return None


def missing_parts() -> str:
    """A sentence for people if compiled parts are missing; empty if there are all."""
    missing = [name for name in LIBRARIES if load(name) is None]
    if not missing:
        return ""
    return (
        f"without the compiled {', '.join(missing)}: slower, and nngp takes "
        f"{FEWER_STEPS} times fewer training steps (install a C compiler, then poam_ros "
        "again)"
    )


def announce() -> None:
    """Print this sentence, as the first line of a program."""
    if text := missing_parts():
        sys.stderr.write(f"WARNING: {text}\n")


def _path(name: str) -> Path | None:
    paths = (Path(__file__).with_name(f"_{name}{suffix}") for suffix in EXTENSION_SUFFIXES)
    return next((path for path in paths if path.exists()), None)


def _interface(library: ctypes.CDLL) -> int:
    """The number that the library was built with; 0 for a library without one."""
    try:
        return ctypes.c_int64.in_dll(library, "poam_interface").value
    except ValueError:
        return 0
