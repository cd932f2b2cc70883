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
from .columns import KEEL, PLACES, TRANSDUCER, Column, Table, counts_from, words_of
from .look import place_words, untold
from .options import Answer, Unclear

#: Digits after the point of degrees that place soundings: 11 m; and the longest survey in degrees.
FINE, WIDE = 4, 5.0
#: Columns that may be the depth are named up to this number.
NAMED = 3
#: Words of columns that are something else.
NO_DEPTHS = {
    "temp", "temperature", "temperatur", "speed", "heading", "course", "cog", "sog", "sats", "hdop",
    "satellites", "accuracy", "voltage", "battery", "roll", "pitch", "yaw", "id", "index", "time",
    "record", "number", "num", "no", "frame", "milliseconds", "millis", "confidence", "area",
    "volume",
}  # fmt: skip
#: Two surveys are equally long within this share; a column with less than this share is none.
SHARE, FILLED = 0.015, 0.2


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
        Unclear: two differ by nothing that their names explain. Of these the one that varies most
            is named first, since a lidar's height above the water hardly varies.
    """
    best, notes = every[0], ""
    for other in every[1:]:
        if (found := _better(best, other)) is None:
            order = sorted((best, other), key=lambda each: -float(np.ptp(each.ends)))
            if best.origin != other.origin:  # what is measured, not what is computed of it
                order.sort(key=lambda each: each.origin != TRANSDUCER)
            order += [each for each in every if each is not best and each is not other]
            names = (f"{e.name} ({e.ends[0]:.3g} to {e.ends[1]:.3g} m)" for e in order)
            raise Unclear(
                f"{where}: expected one depth, got several that differ: {', '.join(names)}",
                [Answer(f"if {each.name} is the depth", {"columns": each.columns})
                 for each in order],
            )  # fmt: skip
        best, note = found
        notes += note
    return best, notes


def _better(one: Candidate, other: Candidate) -> tuple[Candidate, str] | None:
    """Which of two, and why; None: nothing says it."""
    first, second = (np.flatnonzero(np.isfinite(each.depth)) for each in (one, other))
    beside = other.depth
    if len(second) and np.isfinite(beside[first]).sum() <= len(first) / 2:
        # In other rows, as of sentences: the nearest within some usual distances of its rows.
        within = 2.0 * float(np.median(np.diff(second))) if len(second) > 1 else 1.0
        beside = np.full(len(one.depth), np.nan)
        beside[first] = at_times(
            first.astype(float), second.astype(float), other.depth[second], within
        )
    kind, value = compare(one.depth, beside)
    if kind in (EQUAL, UNKNOWN):
        return one, ""
    if kind == OFFSET and one.datum != other.datum:
        best, rest = (other, one) if one.datum else (one, other)
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
    table: Table, found: Mapping[str, Sequence[Column]], given: Mapping[str, str], where: str
) -> tuple[dict[str, str], str]:
    """The names of the columns x, y or latitude, longitude, and then z or depth, by meaning; and
    what was chosen, as text.

    Args:
        table: its columns.
        found: those of each meaning, by their names.
        given: names by meaning, as options say.
        where: start of the question.

    Raises:
        Unclear: names and values leave open which are the place, or the depth.
    """
    places = [{a: found[a][0].name, b: found[b][0].name}
              for a, b in PLACES if found[a] and found[b]]  # fmt: skip
    if not places or not (found["z"] or found["depth"]):
        raise _missing(table, found, given, places, where)
    place, of_place = _one_place(table, places, where)
    height, of_height = _one_height(found, where)
    return place | height, of_place + of_height


def _missing(
    table: Table, found: Mapping[str, Sequence[Column]], given: Mapping[str, str],
    places: list[dict[str, str]], where: str,
) -> Unclear:  # fmt: skip
    """The question which columns are the place, and which is the depth."""
    asked, free = list[str](), [each for each in table.columns.values() if each.is_number]
    pairs, heights, order = places[:0] or [dict[str, str]()], [dict[str, str]()], 1
    if not places:
        other = [each for m in ("z", "depth", "confidence") for each in found[m]]
        places = pairs = _pairs(table, found, [each for each in free if each not in other])
        asked.append("which columns are latitude and longitude, or x and y?")
        asked += [] if pairs else ["(no column looks like a position)"]
    if not (found["z"] or found["depth"]):
        place = [table.columns[name] for name in (places or [{}])[0].values()]
        xy = np.column_stack([each.values for each in place]) if place else np.zeros((0, 2))
        named = [m for m in found if m in given or m not in ("altitude", "date")]
        taken = [*place, *(each for m in named for each in found[m])]
        depths = [each for each in free
                  if each not in taken and not {*words_of(each.name)} & NO_DEPTHS]  # fmt: skip
        depths.sort(key=lambda each: untold(xy, each.values) if place else 1.0)
        names = shown(", ".join(each.name for each in depths), 120)
        asked.append(f"which column is the depth? candidates: {names or 'none'}")
        heights = [{"depth" if (each.known > 0).mean() > 0.5 else "z": each.name}
                   for each in depths[:NAMED]]  # fmt: skip
        if not table.named and "z" in (heights or [{}])[0]:
            order = -1  # longitude, latitude, elevation, as in files of x y z
    further = {} if table.named else {m: each.name for m, each in table.times.items()}
    answers = []
    for height, pair in product(heights, pairs[::order]):
        when = f"if {' and '.join(f'{m} is {name}' for m, name in (pair | height).items())}"
        if "latitude" in pair:
            when += place_words(*(float(np.median(table.columns[n].known)) for n in pair.values()))
        answers.append(Answer(when, {"columns": pair | height | further}))
    return Unclear(
        f"{where}: expected columns latitude, longitude, depth or x, y, z, got {table.header}: "
        f"{' '.join(asked)}", answers, guess=not table.named and len(heights) == 1, most=3,
    )  # fmt: skip


def _pairs(
    table: Table, found: Mapping[str, Sequence[Column]], free: Sequence[Column]
) -> list[dict[str, str]]:
    """Pairs of ``free`` columns that may be the place, by meaning: the first two that look like
    degrees, in the order that their names say, or in either; or else the first two of a table
    without a header whose only numbers are the first three: x, y, z."""
    fine = [each for each in free if max(len(c.partition(".")[2]) for c in each.sample) >= FINE
            and np.abs(each.known).max() <= 180 and np.ptp(each.known) < WIDE]  # fmt: skip
    if len(fine) < 2:
        x_y_z = not table.named and len(free) == 3 and [*free] == [*table.columns.values()][:3]
        return [dict(zip(PLACES[False], (each.name for each in free), strict=False))] * x_y_z
    return [
        dict(zip(PLACES[True], (each.name for each in pair), strict=True))
        for pair in (fine[:2], fine[1::-1])
        if np.abs(pair[0].known).max() <= 90
        and all(not found[m] or each in found[m] for m, each in zip(PLACES[1], pair, strict=True))
    ]  # fmt: skip


def _one_place(
    table: Table, places: Sequence[dict[str, str]], where: str
) -> tuple[dict[str, str], str]:
    """The columns of the place, and what was chosen, as text: degrees, unless x and y contradict
    them."""
    if len(places) == 1:
        return places[0], ""
    columns = [[table.columns[name] for name in pair.values()] for pair in places]
    flat, round_ = (np.column_stack([UNITS[each.unit or "m"] * each.values for each in pair])
                    for pair in columns)  # fmt: skip
    known = (np.abs(round_) <= (90, 360)).all(1) & (round_ != 0).any(1)
    both = known & np.isfinite(flat).all(1)
    x_y, degrees = places
    if known.sum() < np.isfinite(flat).all(1).sum() / 2:
        return x_y, ""
    if both.sum() < 3:
        return degrees, ""
    lengths = (np.hypot(*np.ptp(each[both], axis=0)) for each in (flat, rough_metres(round_)))
    ratio, names = float(np.divide(*lengths)), ", ".join(x_y.values())
    if abs(ratio - 1) < SHARE:
        return degrees, ""
    if abs(ratio * np.cos(np.radians(np.median(round_[both, 0]))) - 1) < SHARE:
        return degrees, f"; {names} are of Mercator's projection"
    raise Unclear(
        f"{where}: by columns {names} the survey is {ratio:.3g} times as long as by "
        f"{', '.join(degrees.values())}",
        [Answer("if the degrees are right", {"columns": degrees}),
         Answer("if x and y are right", {"columns": x_y})],
    )  # fmt: skip


def _one_height(found: Mapping[str, Sequence[Column]], where: str) -> tuple[dict[str, str], str]:
    """The column of depths or elevations, and what was chosen, as text."""
    depths = sorted(found["depth"], key=lambda each: counts_from(each.name))
    most, every = max(len(each.known) for each in (*found["z"], *depths)), list[Candidate]()
    for each in (*found["z"], *depths):
        if len(each.known) >= FILLED * most:
            down = each in depths
            depth = UNITS[each.unit or "m"] * (np.abs(each.values) if down else -each.values)
            origin = counts_from(each.name) if down else TRANSDUCER
            words = {"depth" if down else "z": each.name}
            every.append(Candidate(each.name, depth, origin, each.unit, words, datum=not down))
    best, notes = best_of(where, every)
    if not best.datum and best.origin >= TRANSDUCER:
        option = "keel; --keel" if best.origin == KEEL else "transducer; --draught"
        notes += f" below the {option} adds its depth"
    return dict(best.columns), notes
