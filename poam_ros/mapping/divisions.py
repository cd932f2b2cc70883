"""Divisions of a survey whose parts have errors of their own: lines, days, boats, recordings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.clock import SECOND
from .crossed import DAY, parts_of
from .exclusions import days
from .soundings import Labels, Soundings

#: A pause that ends a recording, in s.
PAUSE = 60


class Divisions(NamedTuple):
    """The lines of a survey, the units that have a level of their own, and the recordings."""

    line: Labels
    day: Labels
    recording: Labels

    @classmethod
    def of(cls, soundings: Soundings, line: Labels, day: Labels | None = None) -> Divisions:
        """Those of soundings with these lines; ``day``: None: each boat or file on each day."""
        day = units(soundings) if day is None else day
        return cls(line, day, recordings(soundings, day))

    def at(self, index: np.ndarray) -> Divisions:
        """Those of some soundings."""
        return Divisions(*(labels.at(index) for labels in self))


def units(soundings: Soundings) -> Labels:
    """The units that have a level of their own: each boat or file on each day."""
    parts = list(parts_of(soundings).values())
    if not parts:
        return days(soundings)
    known, code = np.unique(
        np.column_stack([part.code for part in parts]), axis=0, return_inverse=True
    )
    names = (
        " ".join(part.names[i] for part, i in zip(parts, row, strict=True)).strip()
        for row in known.tolist()
    )
    return Labels(code.reshape(-1).astype(np.int64), tuple(names))


def day_column(day: Labels) -> dict[str, np.ndarray]:
    """A table's column of these units, if there are several."""
    if len(day.names) < 2:
        return {}
    return {DAY: np.array(day.names, dtype=object)[day.code]}


def recordings(soundings: Soundings, unit: Labels) -> Labels:
    """The recordings: the parts of units between pauses of more than ``PAUSE``. A receiver or a
    sounder may have been started anew there, and its positions may have another error."""
    if soundings.stamp_ns is None:
        return unit
    order = np.lexsort((soundings.stamp_ns, unit.code))
    stamp, code = soundings.stamp_ns[order], unit.code[order]
    begin = np.r_[True, (np.diff(code) != 0) | (np.diff(stamp) > PAUSE * SECOND)]
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(begin) - 1
    names = (
        f"{unit.names[i]} {str(np.datetime64(int(at), 'ns'))[11:16]}".strip()
        for i, at in zip(code[begin].tolist(), stamp[begin].tolist(), strict=True)
    )
    return Labels(number, tuple(names))
