"""The likeliest hypotheses of soundings in C if it was built; otherwise NumPy finds the same, more
slowly (see ``loader`` and ``screening/hypotheses.py``). Imports no torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from .loader import INTEGER, POINTER, REAL, declared, structure

STATES = 4  # as in hypotheses.c
NUMBERS = (
    "slope usual wide nonsense repeated cliffs grain exact least_step beside no_reading lost near "
    "no_readings"
)
ARRAYS = "begins changes xy r scatter reach evidence as_nonsense as_run cost skipped origin jumps"


#: As in hypotheses.c.
_Paths = structure((INTEGER, "soundings skipped_most"), (REAL, NUMBERS), (POINTER, ARRAYS))
_library = declared("hypotheses", hypotheses_find=(None, ctypes.POINTER(_Paths), POINTER, POINTER))


def available() -> bool:
    """Whether the compiled library is available."""
    return _library is not None


def find(
    skipped_most: int, numbers: Sequence[float], arrays: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """See ``Path.find``.

    Args:
        skipped_most: nonsense between two other soundings, at most.
        numbers: the first of ``NUMBERS``, in this order.
        arrays: those of ``ARRAYS`` that are given, in this order: from ``xy`` on of
            soundings [N] or [N, S].
    """
    arrays = [np.ascontiguousarray(each) for each in arrays]
    count = len(arrays[-1])
    integers = np.int64
    room: list[np.ndarray] = [
        np.empty((count, STATES)), np.empty((count, STATES)),
        np.empty((count, STATES), integers), np.empty((count, STATES), np.uint8),
    ]  # fmt: skip
    found, jumped = np.empty(count, integers), np.empty(count, bool)
    pointers = (each.ctypes.data for each in (*arrays, *room))
    problem = _Paths(count, skipped_most, *numbers, *pointers)
    _library.hypotheses_find(problem, found.ctypes.data, jumped.ctypes.data)
    return found, jumped
