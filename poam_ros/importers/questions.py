"""Which columns of a table are the place and the depth, and the questions that are left open.

The same quantity may be recorded several times, in columns of a table, sentences of NMEA or sonars
of MAVLink: equal records: either; one factor or offset apart that their names explain: the one that
says more; else it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from ..core.errors import shown
from ..core.geodesy import rough_metres
from ..frontend.pings import EQUAL, FACTOR, OFFSET, UNKNOWN, at_times, compare
from ..frontend.pings import SHARE as ALIKE
from .cells import UNITS
from .columns import HEIGHTS, KEEL, PLACES, TRANSDUCER, UNSAID, Column, Table
from .look import place_words, untold
from .options import Unclear

#: Digits after the point of degrees that place soundings: 11 m; and the longest survey in degrees.
FINE, WIDE = 4, 5.0
#: Columns that may be the depth are named up to this number.
NAMED = 3
#: Two surveys are equally long within this share; a column with less than this share is none.
SHARE, FILLED = 0.015, 0.2


class Candidate(NamedTuple):
    """A record that may be the depth.

    Attributes:
        name: as a person names it.
        depth: below the water, by the unit that its name says, else in m [N]; NaN: unknown.
        origin: what it counts from: ``SURFACE`` ...
        unit: that its name says; empty: none.
        meaning: depth; or z, of elevations above a datum, so that depths are a constant less.
    """

    name: str
    depth: np.ndarray
    origin: int = UNSAID
    unit: str = "m"
    meaning: str = "depth"

    @property
    def ends(self) -> np.ndarray:
        """The depths [2] that nine tenths are between."""
        return np.nanquantile(self.depth, (0.05, 0.95))


def best_of(where: str, every: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The record of the depth that is mapped, and what was chosen and why, as text.

    Args:
        where: start of the question.
        every: the preferred first.

    Raises:
        Unclear: two differ by nothing that their names explain. Of these the one that is measured,
            not computed, is named first, and that varies most, since a lidar's height above the
            water hardly varies.
    """
    best, notes = every[0], ""
    for other in every[1:]:
        if (found := _better(best, other)) is None:
            order = sorted(every, key=lambda e: (e.origin != TRANSDUCER, -np.ptp(e.ends)))
            names = (f"{e.name} ({e.ends[0]:.3g} to {e.ends[1]:.3g} m)" for e in order)
            raise Unclear(
                f"{where}: expected one depth, got several that differ: {', '.join(names)}",
                {f"if {each.name} is the depth": {"columns": {each.meaning: each.name}}
                 for each in order},
            )  # fmt: skip
        best, note = found
        notes += note
    return best, notes


def _better(one: Candidate, other: Candidate) -> tuple[Candidate, str] | None:
    """Which of two, and why; None: nothing says it."""
    first, second = (np.flatnonzero(np.isfinite(each.depth)).astype(float) for each in (one, other))
    # Sentences have rows of their own: the nearest within some usual distances of its rows.
    within = 2.0 * float(np.median(np.diff(second))) if len(second) > 1 else 1.0
    beside = np.full(len(one.depth), np.nan)
    beside[first.astype(int)] = at_times(first, second, other.depth[second.astype(int)], within)
    kind, value = compare(one.depth, beside)
    if kind in (EQUAL, UNKNOWN):
        return one, ""
    if kind == OFFSET and one.meaning != other.meaning:
        best, rest = (other, one) if one.meaning == "z" else (one, other)
        return best, f"; {rest.name} is the same above a datum"
    # What counts from the surface is the deeper one.
    if kind == OFFSET and (one.origin - other.origin) * value > 0:
        best, rest = (one, other) if value < 0 else (other, one)
        return best, f"; {rest.name} is {abs(value):.2g} m less throughout"
    if kind == FACTOR:
        for this, that, factor in ((one, other, value), (other, one, 1 / value)):
            unit = [u for u, size in UNITS.items() if u != "m" and abs(factor / size - 1) < ALIKE]
            if unit and that.unit and not this.unit:
                return that, f"; {this.name} is the same in {unit[0]}"
    return None


def chosen(
    table: Table, found: Mapping[str, Sequence[Column]], where: str
) -> tuple[dict[str, Column], str]:
    """The columns x, y or latitude, longitude, and then z or depth, by meaning; and what was
    chosen, as text. ``found``: those of each meaning, by their names or as options say.

    Raises:
        Unclear: names and values leave open which are the place, or the depth.
    """
    places = [{a: found[a][0], b: found[b][0]} for a, b in PLACES if found[a] and found[b]]
    if not places or not (found["z"] or found["depth"]):
        raise _missing(table, found, places, where)
    place = places[0] if len(places) == 1 else _one_place(places, where)
    best, note = _one_height(found, where)
    return place | {best.meaning: table.columns[best.name]}, note


def _missing(
    table: Table, found: Mapping[str, Sequence[Column]], places: list[dict[str, Column]], where: str
) -> Unclear:
    """The question which columns are the place, and which is the depth."""
    times = table.times({}).values()
    free = [each for each in table.columns.values() if each.is_number and each not in times]
    asked, pairs, heights = list[str](), [dict[str, Column]()], [dict[str, Column]()]
    if not places:
        other = [each for m in ("z", "depth", "confidence") for each in found[m]]
        places = pairs = _pairs(table, found, [each for each in free if each not in other])
        asked.append("which columns are latitude and longitude, or x and y?")
        asked += [] if pairs else ["(no column looks like a position)"]
    if not (found["z"] or found["depth"]):
        place = [*places[0].values()] if places else []
        free = [each for each in free if {*each.meanings} <= {"altitude", "date"}]
        depths = [each for each in free if not (each.is_other or each in place)]
        if place:  # what the place tells best is the ground
            xy = np.column_stack([each.values for each in place])
            depths.sort(key=lambda each: untold(xy, each.values))
        names = shown(", ".join(each.name for each in depths), 120)
        asked.append(f"which column is the depth? candidates: {names or 'none'}")
        heights = [{HEIGHTS[int((each.known > 0).mean() > 0.5)]: each} for each in depths[:NAMED]]
        if not table.named and "z" in next(iter(heights), {}):
            pairs = pairs[::-1]  # longitude, latitude, elevation, as in files of x y z
    answers = {}
    for height, pair in product(heights, pairs):
        columns = {m: each.name for m, each in (pair | height).items()}
        when = f"if {' and '.join(f'{m} is {name}' for m, name in columns.items())}"
        if "latitude" in pair:
            when += place_words(*(float(np.median(each.known)) for each in pair.values()))
        answers[when] = {"columns": columns}
    return Unclear(
        f"{where}: expected columns latitude, longitude, depth or x, y, z, got {table.header}: "
        f"{' '.join(asked)}", answers, guess=not table.named and len(heights) == 1, most=3,
    )  # fmt: skip


def _pairs(
    table: Table, found: Mapping[str, Sequence[Column]], free: Sequence[Column]
) -> list[dict[str, Column]]:
    """Pairs of ``free`` columns that may be the place, by meaning: the first two that look like
    degrees, in the order that their names say, or in either; or else the first two of a table
    without a header whose only numbers are the first three: x, y, z."""
    fine = [each for each in free if max(len(c.partition(".")[2]) for c in each.sample) >= FINE
            and np.abs(each.known).max() <= 180 and np.ptp(each.known) < WIDE]  # fmt: skip
    if len(fine) < 2:
        x_y_z = not table.named and len(free) == 3 and free == [*table.columns.values()][:3]
        return [dict(zip(PLACES[False], free, strict=False))] * x_y_z
    pairs = [dict(zip(PLACES[True], pair, strict=True)) for pair in (fine[:2], fine[1::-1])]
    return [pair for pair in pairs if np.abs(pair["latitude"].known).max() <= 90
            and all(not found[m] or each in found[m] for m, each in pair.items())]  # fmt: skip


def _one_place(places: list[dict[str, Column]], where: str) -> dict[str, Column]:
    """The columns of the place, by meaning: degrees, unless x and y contradict them."""
    x_y, degrees = places
    flat, round_ = (
        np.column_stack([UNITS[each.unit or "m"] * each.values for each in pair.values()])
        for pair in places
    )
    known = (np.abs(round_) <= (90, 360)).all(1) & (round_ != 0).any(1)
    both = known & np.isfinite(flat).all(1)
    if known.sum() < np.isfinite(flat).all(1).sum() / 2:
        return x_y
    if both.sum() < 3:
        return degrees
    lengths = (np.hypot(*np.ptp(each[both], axis=0)) for each in (flat, rough_metres(round_)))
    ratio = float(np.divide(*lengths))
    mercator = np.cos(np.radians(np.median(round_[both, 0])))  # as of Lowrance's x and y
    if min(abs(ratio - 1), abs(ratio * mercator - 1)) < SHARE:
        return degrees
    own, other = ({m: each.name for m, each in pair.items()} for pair in places)
    raise Unclear(
        f"{where}: by columns {', '.join(own.values())} the survey is {ratio:.3g} times as long as "
        f"by {', '.join(other.values())}",
        {"if the degrees are right": {"columns": other}, "if x and y are right": {"columns": own}},
    )  # fmt: skip


def _one_height(found: Mapping[str, Sequence[Column]], where: str) -> tuple[Candidate, str]:
    """The column of depths or elevations, and what was chosen, as text."""
    order = [(m, each) for m in HEIGHTS for each in sorted(found[m], key=lambda each: each.origin)]
    most = max(len(each.known) for _, each in order)
    every = list[Candidate]()
    for m, each in order:
        if len(each.known) >= FILLED * most:
            size = np.abs(each.values) if m == "depth" else -each.values
            depth = UNITS[each.unit or "m"] * size
            every.append(Candidate(each.name, depth, each.origin, each.unit, m))
    best, notes = best_of(where, every)
    if best.meaning == "depth" and best.origin >= TRANSDUCER:
        option = "keel; --keel" if best.origin == KEEL else "transducer; --draught"
        notes += f" below the {option} adds its depth"
    return best, notes
