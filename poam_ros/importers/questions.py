"""Which columns of a table are the place and the depth, and the questions that are left open.

The same quantity may be recorded several times, in columns of a table, sentences of NMEA or sonars
of MAVLink: equal records: either; one factor or offset apart that their names explain: the one that
says more; else it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from ..core.errors import shown
from ..core.geodesy import rough_metres
from ..frontend.pings import EQUAL, FACTOR, OFFSET, UNKNOWN, at_times, compare
from ..frontend.pings import SHARE as ALIKE
from .cells import UNITS
from .columns import KEEL, PLACES, TRANSDUCER, Column, Table, counts_from, northern, words_of
from .look import place_words, untold
from .options import Answer, Unclear

#: Digits after the point of degrees that place soundings: 11 m; and the longest survey in degrees.
FINE, WIDE = 4, 5.0
#: Columns that may be the depth are named up to this number; none has larger values.
NAMED, DEEPEST = 3, 12_000.0
#: Columns of numbers that only a grid has.
GRID = 40
#: Eastings and northings of UTM (m).
UTM = (1e5, 9e5), (1e4, 1e7)
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
    pairs, heights, order = [dict[str, str]()], [dict[str, str]()], 1
    if not places:
        other = [each for m in ("z", "depth", "confidence") for each in found[m]]
        places = pairs = _pairs(table, found, [each for each in free if each not in other])
        asked.append("which columns are latitude and longitude, or x and y?")
        empty = [name for name, each in table.columns.items()
                 if not len(each.known) and (each.values == 0).any()]  # fmt: skip
        if not pairs and len(empty) > 1:
            asked.append(f"({', '.join(empty)} are 0 everywhere, as without a fix)")
        elif not pairs:
            asked.append("(no column looks like a position)")
    if not (found["z"] or found["depth"]):
        place = [table.columns[name] for name in (places or [{}])[0].values()]
        named = [m for m in found if given or m not in ("altitude", "date")]
        taken = [*place, *(each for m in named for each in found[m])]
        depths = [
            each for each in free if each not in taken and not {*words_of(each.name)} & NO_DEPTHS
            and np.abs(each.known).max() < DEEPEST
        ]  # fmt: skip
        depths.sort(key=lambda each: _unlike_depths(each, place))
        names = shown(", ".join(each.name for each in depths), 120)
        asked.append(f"which column is the depth? candidates: {names or 'none'}")
        heights = [{"depth" if (each.known > 0).mean() > 0.5 else "z": each.name}
                   for each in depths[:NAMED]]  # fmt: skip
        if not table.named and ("z" in (heights or [{}])[0] or len(table.columns) == 3):
            order = -1  # longitude, latitude, elevation, as in files of x y z
    further = {} if table.named else {m: each.name for m, each in table.times.items()}
    # The likeliest of each first, then what differs from them in one.
    both = sorted(product(enumerate(pairs[::order]), enumerate(heights)),
                  key=lambda each: each[0][0] + each[1][0])  # fmt: skip
    answers = []
    for (_, pair), (_, height) in both:
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
    degrees, in the order that their names say, or in either; or else two in m: of UTM, or that are
    called so, or of a table without a header the first two."""
    fine = [each for each in free if max(len(c.partition(".")[2]) for c in each.sample) >= FINE
            and np.abs(each.known).max() <= 180 and np.ptp(each.known) < WIDE]  # fmt: skip
    if len(fine) >= 2:
        both = [
            pair for pair in (fine[:2], fine[1::-1])
            if all(not found[m] or each in found[m]
                   for m, each in zip(PLACES[True], pair, strict=True))
        ]  # fmt: skip
        both = [[a, b] for a, b in both if northern(a.name) > northern(b.name)] or both
        return [{"latitude": a.name, "longitude": b.name} for a, b in both
                if np.abs(a.known).max() <= 90]  # fmt: skip
    flat = [each for each in free if each not in fine]
    ends = [(float(each.known.min()), float(each.known.max())) for each in flat]
    inside = [[low <= a and b <= high for a, b in ends] for low, high in UTM]
    for at, (a, b) in enumerate(pairwise(flat)):
        if inside[0][at] and inside[1][at + 1]:
            return [{"x": a.name, "y": b.name}]
    wide = len(flat) >= 2 and min(b - a for a, b in ends[:2]) > 10
    called = wide and northern(flat[0].name) != northern(flat[1].name)
    plain = not table.named and (wide or len(flat) == len(table.columns) == 3) and len(flat) < GRID
    return [{"x": flat[0].name, "y": flat[1].name}] if called or plain else []


def _unlike_depths(column: Column, place: Sequence[Column]) -> tuple[bool, float]:
    """What speaks against a column of depths: values of both signs, and how badly the columns of
    ``place`` tell it."""
    below, told = float((column.known < 0).mean()), 1.0
    if len(place) == 2:
        told = untold(np.column_stack([each.values for each in place]), column.values)
    return 0.02 < below < 0.98, told


def _one_place(
    table: Table, places: Sequence[dict[str, str]], where: str
) -> tuple[dict[str, str], str]:
    """The columns of the place, and what was chosen, as text."""
    if len(places) == 1:
        return places[0], ""
    x_y, degrees = places
    flat, round_ = (
        np.column_stack([table.columns[name].values for name in pair.values()]) for pair in places
    )
    known = [np.isfinite(each).all(1) for each in (flat, round_)]
    both = known[0] & known[1] & (round_ != 0).any(1)
    if both.sum() < 3 or (np.abs(round_[both]) > (90, 360)).any():
        return degrees if known[1].sum() > known[0].sum() else x_y, ""
    metres = rough_metres(round_[both])
    sides = [np.hypot(*np.ptp(p, axis=0)) for p in (flat[both], metres)]
    ratio = sides[0] / sides[1] if sides[1] else 1.0
    names = ", ".join(x_y.values())
    if abs(ratio - 1) < SHARE:
        straight, turned = (
            np.abs(p - np.median(p, axis=0) - metres).sum()
            for p in (flat[both], flat[both][:, ::-1])
        )
        if turned < straight / 3:
            return degrees, f"; {names} are a northing and an easting"
        return x_y, ""
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
