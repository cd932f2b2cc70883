"""Which columns of a table are the place and the depth, and the questions that are left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from ..core.errors import shown
from ..core.geodesy import hemispheres, is_in_feet, rough_metres
from ..frontend.agreement import EQUAL, FACTOR, OFFSET, UNKNOWN, at_times, compare
from ..frontend.agreement import SHARE as ALIKE
from .cells import UNITS
from .columns import KEEL, TRANSDUCER, Columns, Names, counts_from, northern, words_of
from .options import Answer, Unclear

#: Digits after the point of degrees that place soundings: 11 m; and the longest survey in degrees.
FINE, WIDE = 4, 5.0
#: Least value (s) of a column of Unix times: 1980.
UNIX_TIME = 3.2e8
#: Columns that may be the depth are named up to this number; none has larger values.
NAMED, DEEPEST = 3, 12_000.0
#: Words of columns that are something else.
NO_DEPTHS = {
    "temp", "temperature", "temperatur", "speed", "heading", "course", "cog", "sog", "sats", "hdop",
    "satellites", "accuracy", "voltage", "battery", "roll", "pitch", "yaw", "id", "index", "time",
    "record", "number", "num", "no", "frame", "milliseconds", "millis", "confidence",
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
            unit = [u for u, size in UNITS.items() if u != "m" and abs(factor / size - 1) < ALIKE]
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


@dataclass(frozen=True)
class Sample:
    """Rows of a table.

    Attributes:
        values: of each column, by name [N]; NaN where a cell is no number.
        decimals: largest number of decimals of each.
        times: columns of times and dates by meaning, as their values say.
    """

    values: Mapping[str, np.ndarray]
    decimals: Mapping[str, int]
    times: Mapping[str, str] = field(default_factory=dict)

    def known(self, name: str) -> np.ndarray:
        """The numbers of a column, without those that are exactly 0."""
        values = self.values[name]
        return values[np.isfinite(values) & (values != 0)]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers that vary and neither are times nor count rows."""
        kept = []
        for name, values in self.values.items():
            known, steps = self.known(name), np.diff(values[np.isfinite(values)])
            if name in self.times.values() or len(known) < max(2, 0.02 * len(values)):
                continue
            counts = len(steps) > 3 and steps[0] >= 1 and np.ptp(steps) == 0 == steps[0] % 1
            if np.ptp(known) > 0 and not counts:
                kept.append(name)
        return kept

    def fine(self) -> list[str]:
        """The columns that look like degrees."""
        return [
            name for name in self.numbers
            if self.decimals[name] >= FINE and np.abs(known := self.known(name)).max() <= 180
            and np.ptp(known) < WIDE
        ]  # fmt: skip

    def unlike_depths(self, name: str) -> tuple[bool, bool, bool]:
        """What speaks against a column of depths: values of both signs, whole numbers, and a minus
        sign, which altitudes of a receiver near the sea have as well."""
        below = float((self.known(name) < 0).mean())
        return 0.02 < below < 0.98, self.decimals[name] == 0, below > 0.5

    def place_of(self, pair: Mapping[str, str]) -> str:
        """Where columns of latitude and longitude lie, in words; empty for others."""
        if "latitude" not in pair:
            return ""
        north, east = (float(np.median(self.known(pair[m]))) for m in ("latitude", "longitude"))
        side, way = hemispheres(north, east)
        return f" (at {abs(north):.2f} {side}, {abs(east):.2f} {way})"


def is_time(values: np.ndarray) -> bool:
    """Whether values [N] are Unix times."""
    known = values[np.isfinite(values)]
    if len(known) <= 0.9 * len(values) or known.min() <= UNIX_TIME:
        return False
    return bool((np.diff(known) >= 0).mean() > 0.9)


def chosen(names: Names, sample: Sample, where: str) -> Columns:
    """The columns of a table.

    Raises:
        Unclear: names and values leave open which are the place, or the depth.
    """
    if not names.places or not names.heights:
        raise _missing(names, sample, where)
    place, of_place = _one_place(names.places, sample, where)
    height, of_height = _one_height(names, sample, where)
    return replace(names.columns(place, height, where), note=of_place + of_height)


def _missing(names: Names, sample: Sample, where: str) -> Unclear:
    """The question which columns are the place, and which is the depth."""
    known = {name for found in names.found.values() for name in found}
    pairs = [{}] if names.places else _pairs(sample, names)
    taken = {name for pair in pairs for name in pair.values()} | {
        name for meaning in ("latitude", "longitude", "x", "y", "time", "confidence")
        for name in names.found[meaning]
    } | (known if names.given else set())  # fmt: skip
    depths = [name for name in sample.numbers if name not in taken
              and not {*words_of(name)} & NO_DEPTHS
              and np.abs(sample.known(name)).max() < DEEPEST]  # fmt: skip
    asked, heights = [], [dict[str, str]()]
    if not names.places:
        asked.append("which columns are latitude and longitude, or x and y?")
        empty = [
            n
            for n, v in sample.values.items()
            if np.isfinite(v).any() and not np.nan_to_num(v).any()
        ]
        if not pairs and len(empty) > 1:
            asked.append(f"({', '.join(empty)} are 0 everywhere, as without a fix)")
    if not names.heights:
        asked.append("which column is the depth? candidates: " + (", ".join(depths) or "none"))
        heights = [
            {("depth" if (sample.known(name) > 0).mean() > 0.5 else "z"): name}
            for name in sorted(depths, key=sample.unlike_depths)[:NAMED]
        ]
    if names.plain and heights and "z" in heights[0]:
        pairs = pairs[::-1]  # longitude, latitude, elevation, as in files of x y z
    # The likeliest of each first, then what differs from them in one.
    both = [
        (i + j, pair, height) for i, pair in enumerate(pairs) for j, height in enumerate(heights)
    ]
    answers = [
        Answer(
            "if "
            + " and ".join(f"{m} is {n}" for m, n in {**pair, **height}.items())
            + sample.place_of(pair),
            {"columns": {**pair, **height, **(sample.times if names.plain else {})}},
        )
        for _, pair, height in sorted(both, key=lambda each: each[0])
    ]
    return Unclear(
        f"{where}: expected columns latitude, longitude, depth or x, y, z, got "
        f"{shown(','.join(names.header), 120)}: {' '.join(asked)}", answers,
        guess=names.plain and len(heights) == 1, most=3,
    )  # fmt: skip


def _pairs(sample: Sample, names: Names) -> list[dict[str, str]]:
    """Pairs of columns that may be the place: the first two that look like degrees, in the order
    that their names say, or in either, or else the first two of numbers, in metres."""
    fine = sample.fine()
    if len(fine) >= 2:
        known = names.found["latitude"], names.found["longitude"]
        both = [
            pair
            for pair in (fine[:2], fine[1::-1])
            if all(not its or one in its for one, its in zip(pair, known, strict=True))
        ]
        said = [(a, b) for a, b in both if northern(a) > northern(b)]
        return [
            {"latitude": a, "longitude": b}
            for a, b in said or both
            if np.abs(sample.known(a)).max() <= 90
        ]
    flat = [name for name in sample.numbers if name not in fine]
    if len(flat) == len(sample.values) == 3 or (
        len(flat) >= 2 and min(np.ptp(sample.known(name)) for name in flat[:2]) > 10
    ):
        return [{"x": flat[0], "y": flat[1]}]
    return []


def _one_place(
    places: Sequence[tuple[str, str, bool]], sample: Sample, where: str
) -> tuple[tuple[str, str, bool], str]:
    """The columns of the place, and what was chosen, as text."""
    if len(places) == 1:
        return places[0], ""
    x_y, degrees = places if not places[0][2] else places[::-1]
    flat, round_ = (np.column_stack([sample.values[n] for n in p[:2]]) for p in (x_y, degrees))
    both = np.isfinite(flat).all(1) & np.isfinite(round_).all(1) & (round_ != 0).any(1)
    if both.sum() < 3 or (np.abs(round_[both]) > (90, 360)).any():
        more = np.isfinite(round_).all(1).sum() > np.isfinite(flat).all(1).sum()
        return degrees if more else x_y, ""
    metres = rough_metres(round_[both])
    sides = [np.hypot(*np.ptp(p, axis=0)) for p in (flat[both], metres)]
    if not sides[1] or abs(sides[0] / sides[1] - 1) < SHARE:
        straight, turned = (
            np.abs(p - np.median(p, axis=0) - metres).sum()
            for p in (flat[both], flat[both][:, ::-1])
        )
        if turned < straight / 3:
            return degrees, f"; {x_y[0]}, {x_y[1]} are a northing and an easting"
        return x_y, ""
    ratio = sides[0] / sides[1]
    if abs(ratio * np.cos(np.radians(np.median(round_[both, 0]))) - 1) < SHARE:
        return degrees, f"; {x_y[0]}, {x_y[1]} are of Mercator's projection"
    raise Unclear(
        f"{where}: by columns {x_y[0]}, {x_y[1]} the survey is {ratio:.3g} times as long as by "
        f"{degrees[0]}, {degrees[1]}",
        [
            Answer("if the degrees are right",
                   {"columns": {"latitude": degrees[0], "longitude": degrees[1]}}),
            Answer("if x and y are right", {"columns": {"x": x_y[0], "y": x_y[1]}}),
        ],
    )  # fmt: skip


def _one_height(names: Names, sample: Sample, where: str) -> tuple[tuple[str, bool], str]:
    """The column of depths or elevations, and what was chosen, as text."""
    counts = {name: len(sample.known(name)) for name, _ in names.heights}
    every = []
    for name, down in names.heights:
        if counts[name] > FILLED * max(counts.values()):
            unit, values = names.units.get(name, ""), sample.values[name]
            depth = UNITS[unit or "m"] * (np.abs(values) if down else -values)
            origin = counts_from(name) if down else TRANSDUCER
            chosen = {"depth" if down else "z": name}
            every.append(Candidate(name, depth, origin, unit, chosen, datum=not down))
    name, down, notes = *names.heights[0], ""
    if every:
        best, notes = best_of(where, every)
        name, down = best.name, not best.datum
    if down and (rank := counts_from(name)) >= TRANSDUCER:
        notes += (
            f" below the {'keel; --keel' if rank == KEEL else 'transducer; --draught'} adds its"
            " depth"
        )
    return (name, down), notes


def check_unit(where: str, crs: str, column: str, unit: str) -> bool:
    """Whether a coordinate system counts feet; empty: none.

    Raises:
        Unclear: it does, and nothing says what the depths are in (``unit`` is empty).
    """
    in_feet = bool(crs) and is_in_feet("--crs", crs)
    if in_feet and not unit:
        raise Unclear(
            f"{where}: {crs} is in feet, and column {column} does not say its unit",
            [Answer("if it is in feet, too", {"units": "ft"}), Answer("if not", {"units": "m"})],
        )
    return in_feet
