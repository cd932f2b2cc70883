"""The same quantity several times in one file: which record of the depth is mapped.

One rule for columns of a table, sentences of NMEA and sonars of MAVLink: equal records: either; one
factor or offset apart that their names explain: the one that says more; else it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..frontend.agreement import EQUAL, FACTOR, OFFSET, SHARE, UNKNOWN, at_times, compare
from .cells import UNITS
from .options import Answer, Unclear

#: Ranks of what depths count from, the preferred first.
SURFACE, UNSAID, TRANSDUCER, KEEL = range(4)


class Candidate(NamedTuple):
    """A record that may be the depth.

    Attributes:
        name: as a person names it.
        depth: below the water, by the unit that its name says, else in m [N]; NaN: unknown.
        origin: what it counts from: ``SURFACE`` ...
        unit: that its name says; empty: none.
        columns: the words of ``--columns`` that choose it.
        datum: whether these are elevations above a datum, so that depths are a constant less.
    """

    name: str
    depth: np.ndarray
    origin: int
    unit: str
    columns: Mapping[str, str]
    datum: bool = False


def beside(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The second of two columns [N] in the rows of the first: its own values, or where they stand
    in other rows, as of sentences, the nearest within some usual distances of its rows."""
    own, there = np.flatnonzero(np.isfinite(first)), np.flatnonzero(np.isfinite(second))
    if not len(there) or np.isfinite(second[own]).sum() > len(own) / 2:
        return second
    found = np.full(len(first), np.nan)
    within = 2.0 * float(np.median(np.diff(there))) if len(there) > 1 else 1.0
    found[own] = at_times(own.astype(float), there.astype(float), second[there], within)
    return found


def best_of(where: str, every: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The record of the depth that is mapped, and what was chosen and why, as text.

    Args:
        where: start of the question.
        every: the preferred first.

    Raises:
        Unclear: two differ by nothing that their names explain.
    """
    best, notes = every[0], ""
    for other in every[1:]:
        found = _better(best, other)
        if found is None:
            raise _which(where, every, best, other)
        best, note = found
        notes += note
    return best, notes


def _better(one: Candidate, other: Candidate) -> tuple[Candidate, str] | None:
    """Which of two, and why; None: nothing says it."""
    relation = compare(one.depth, beside(one.depth, other.depth))
    if relation.kind in (EQUAL, UNKNOWN):
        return one, ""
    if relation.kind == OFFSET and one.datum != other.datum:
        first, second = (other, one) if one.datum else (one, other)
        return first, f"; {second.name} is the same above a datum"
    # What counts from the surface is the deeper one.
    if relation.kind == OFFSET and (one.origin - other.origin) * relation.value > 0:
        first, second = (one, other) if relation.value < 0 else (other, one)
        return first, f"; {second.name} is {abs(relation.value):.2g} m less throughout"
    if relation.kind == FACTOR:
        for this, that, factor in ((one, other, relation.value), (other, one, 1 / relation.value)):
            unit = [u for u, size in UNITS.items() if u != "m" and abs(factor / size - 1) < SHARE]
            if unit and that.unit and not this.unit:
                return that, f"; {this.name} is the same in {unit[0]}"
    return None


def _which(where: str, every: Sequence[Candidate], *two: Candidate) -> Unclear:
    """The question which is the depth: of what contradicts each other, the one that varies most is
    named first, since a lidar's height above the water hardly varies."""

    def ends(each: Candidate) -> np.ndarray:
        return np.nanquantile(each.depth, (0.05, 0.95))

    order = sorted(two, key=lambda each: -float(np.ptp(ends(each))))
    if two[0].origin != two[1].origin:  # what is measured, not what is computed of it
        order = sorted(two, key=lambda each: each.origin != TRANSDUCER)
    order += [each for each in every if each not in two]
    names = ", ".join(
        f"{each.name} ({ends(each)[0]:.3g} to {ends(each)[1]:.3g} m)" for each in order
    )
    return Unclear(
        f"{where}: expected one depth, got several that differ: {names}",
        [Answer(f"if {each.name} is the depth", {"columns": each.columns}) for each in order],
    )
