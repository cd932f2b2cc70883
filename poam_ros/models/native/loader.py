"""The loader of the compiled libraries, and the message if they are missing.

The libraries are built with the package where there is a C compiler, each for several kinds of
processors (see setup.py). The environment variable ``POAM_NATIVE=0`` leaves them aside. Imports no
torch.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

LIBRARIES = ("attentive", "search", "conditional", "network", "hypotheses")
INTERFACE = 17  # as in common.h
#: Types of arguments.
POINTER, INTEGER, REAL = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
#: Without the libraries nngp takes this many times fewer training steps, to limit update times.
FEWER_STEPS = 6
#: Doubles in a vector, and what a processor must have for such a library; as in setup.py.
LANES = {8: {"avx512f", "avx512dq", "avx512vl"}, 4: {"avx2", "fma"}, 2: set[str]()}

log = logging.getLogger(__name__)


def load(name: str) -> ctypes.CDLL | None:
    """A library, if it exists and was built from these sources."""
    path = None if os.environ.get("POAM_NATIVE", "1") == "0" else _path(name)
    if path is None:
        return None
    library = ctypes.CDLL(str(path))
    if _interface(library) == INTERFACE:
        return library
    _warn_of_other_sources()
    return None


@cache
def _warn_of_other_sources() -> None:
    log.warning(
        "compiled parts were built from other sources and are not used: slower, and nngp takes "
        "%d times fewer training steps; install poam_ros again", FEWER_STEPS,
    )  # fmt: skip


def declared(name: str, **functions: tuple[Any, ...]) -> Any:
    """A library with the types of its functions, each the result's and then the arguments'; None
    without the library."""
    library = load(name)
    if library is not None:
        for function, (result, *arguments) in functions.items():
            known = getattr(library, function)
            known.restype, known.argtypes = result, arguments
    return library


def structure(*groups: tuple[Any, str]) -> type[ctypes.Structure]:
    """A structure with these fields, in this order: a type, and the names that have it."""
    fields = [(name, kind) for kind, names in groups for name in names.split()]
    return type("Structure", (ctypes.Structure,), {"_fields_": fields})


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


@cache
def _features() -> frozenset[str]:
    """What the processor has, by Linux's names."""
    try:
        return frozenset(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    except OSError:
        return frozenset()


def _path(name: str) -> Path | None:
    """The library with the longest vectors that the processor has."""
    usable = (lanes for lanes, needed in LANES.items() if needed <= _features())
    names = (f"_{name}_{lanes}{suffix}" for lanes in usable for suffix in EXTENSION_SUFFIXES)
    paths = map(Path(__file__).with_name, names)
    return next((path for path in paths if path.exists()), None)


def _interface(library: ctypes.CDLL) -> int:
    """The number that the library was built with; 0 for a library without one."""
    try:
        return ctypes.c_int64.in_dll(library, "poam_interface").value
    except ValueError:
        return 0
