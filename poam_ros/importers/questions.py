"""Which columns of a table are the place and the depth, and the questions that are left open.

The same quantity may be recorded several times, in columns of a table, sentences of NMEA or sonars
of MAVLink: equal records: either; one factor or offset apart that their names explain: the one that
says more; else it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..core.errors import shown
from ..core.geodesy import rough_metres
from ..frontend.pings import EQUAL, FACTOR, OFFSET, UNKNOWN, at_times, compare
from ..frontend.pings import SHARE as ALIKE
from .cells import UNITS, Dialect, Times, angle, cell_of, is_clock, is_date, is_nothing, number
from .columns import KEEL, TRANSDUCER, Names, counts_from, northern, words_of
from .look import place_words, untold
from .options import Answer, Unclear

#: Digits after the point of degrees that place soundings: 11 m; and the longest survey in degrees.
FINE, WIDE = 4, 5.0
#: Least value (s) of a column of Unix times: 2001. Latitudes times 10,000,000 are less.
UNIX_TIME = 1e9
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


@dataclass(frozen=True)
class Sample:
    """Rows of a table.

    Attributes:
        values: of each column, by name [N]; NaN where a cell is no number.
        decimals: largest number of decimals of each.
        times: columns of times and dates by meaning, as their values say.
        clocks: all columns of times and dates.
    """

    values: Mapping[str, np.ndarray]
    decimals: Mapping[str, int]
    times: Mapping[str, str] = field(default_factory=dict)
    clocks: frozenset[str] = frozenset()

    @classmethod
    def of(cls, dialect: Dialect, rows: Sequence[Sequence[str]]) -> Sample:
        """The values of rows, by column."""
        found, values, decimals = list[tuple[str, str]](), dict[str, np.ndarray](), dict[str, int]()
        comma, mark = dialect.comma, "." if dialect.comma else ","
        for i, name in enumerate(dialect.header):
            texts = [cell_of(row, i).strip() for row in rows]
            known = [text for text in texts if not is_nothing(text)]
            after = (text.replace(",", mark).partition(".")[2] for text in texts)
            decimals[name] = max(map(len, after), default=0)
            values[name] = np.array([_value(text, comma) for text in texts])
            most = 0.9 * len(known)
            if known and len({*known}) > 1 and sum(map(is_clock, known)) > most:
                found.append(("time", name))
            elif known and sum(map(is_date, known)) > most:
                found.append(("date and time" if ":" in known[0] else "date", name))
            elif known and _goes_on(values[name]) and (
                np.nanmin(values[name]) > UNIX_TIME or Times(known).packed
            ):  # fmt: skip
                found.append(("time", name))
        times = dict[str, str]()
        for meaning, name in found:
            times.setdefault(meaning, name)
        if "date and time" in times:
            times = {"time": times["date and time"]}
        elif "date" in times and "time" not in times:
            times["time"] = times.pop("date")
        return cls(values, decimals, times, frozenset(name for _, name in found))

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
            counts = len(steps) > 3 and steps[0] >= 1 and np.ptp(steps) == 0 == steps[0] % 1
            varies = len(known) >= max(2, 0.02 * len(values)) and np.ptp(known) > 0
            if varies and not counts and name not in self.clocks:
                kept.append(name)
        return kept

    def pairs(self, names: Names) -> list[dict[str, str]]:
        """Pairs of columns that may be the place: the first two that look like degrees, in the
        order that their names say, or in either; or else two in m: of UTM, or that are called so,
        or of a table without a header the first two."""
        other = {name for m in ("z", "depth", "confidence") for name in names.found[m]}
        free = [name for name in self.numbers if name not in other]
        fine = [
            name for name in free
            if self.decimals[name] >= FINE and np.abs(self.known(name)).max() <= 180
            and np.ptp(self.known(name)) < WIDE
        ]  # fmt: skip
        if len(fine) >= 2:
            said = names.found["latitude"], names.found["longitude"]
            both = [
                pair for pair in (fine[:2], fine[1::-1])
                if all(not its or one in its for one, its in zip(pair, said, strict=True))
            ]  # fmt: skip
            both = [[a, b] for a, b in both if northern(a) > northern(b)] or both
            return [{"latitude": a, "longitude": b} for a, b in both
                    if np.abs(self.known(a)).max() <= 90]  # fmt: skip
        flat = [name for name in free if name not in fine]

        def within(name: str, ends: tuple[float, float]) -> bool:
            return ends[0] <= self.known(name).min() and self.known(name).max() <= ends[1]

        for a, b in pairwise(flat):
            if within(a, UTM[0]) and within(b, UTM[1]):
                return [{"x": a, "y": b}]
        wide = len(flat) >= 2 and min(np.ptp(self.known(name)) for name in flat[:2]) > 10
        called = wide and northern(flat[0]) != northern(flat[1])
        if called or (names.plain and (wide or len(flat) == len(self.values) == 3)
                      and len(flat) < GRID):  # fmt: skip
            return [{"x": flat[0], "y": flat[1]}]
        return []

    def unlike_depths(self, name: str, place: Sequence[str]) -> tuple[bool, float]:
        """What speaks against a column of depths: values of both signs, and how badly the columns
        of ``place`` tell it."""
        below = float((self.known(name) < 0).mean())
        if len(place) < 2:
            return 0.02 < below < 0.98, 1.0
        xy = np.column_stack([self.values[each] for each in place])
        return 0.02 < below < 0.98, untold(xy, self.values[name])

    def place_of(self, pair: Mapping[str, str]) -> str:
        """Where columns of latitude and longitude lie, in words; empty for others."""
        if "latitude" not in pair:
            return ""
        north, east = (float(np.median(self.known(pair[m]))) for m in ("latitude", "longitude"))
        return place_words(north, east)


def _value(cell: str, comma: bool) -> float:
    """The number or the angle in a cell; NaN without one."""
    if is_nothing(cell):
        return np.nan
    found = angle(cell, comma)
    return number(cell, comma) if found != found else found


def _goes_on(values: np.ndarray) -> bool:
    """Whether nearly all values [N] are numbers that do not fall."""
    known = values[np.isfinite(values)]
    rises = np.diff(known) >= 0
    return len(known) > 0.9 * len(values) and bool(rises.sum() > 0.9 * len(rises))


def chosen(
    names: Names, sample: Sample, where: str
) -> tuple[tuple[str, str, bool], tuple[str, bool], str]:
    """Columns of ``names.places`` and of ``names.heights``, and what was chosen, as text.

    Raises:
        Unclear: names and values leave open which are the place, or the depth.
    """
    if not names.places or not names.heights:
        raise _missing(names, sample, where)
    place, of_place = _one_place(names.places, sample, where)
    height, of_height = _one_height(names, sample, where)
    return place, height, of_place + of_height


def _missing(names: Names, sample: Sample, where: str) -> Unclear:
    """The question which columns are the place, and which is the depth."""
    asked, pairs, heights = list[str](), [dict[str, str]()], [dict[str, str]()]
    place = list(names.places[0][:2]) if names.places else []
    if not names.places:
        pairs = sample.pairs(names)
        place = list(pairs[0].values()) if pairs else []
        asked.append("which columns are latitude and longitude, or x and y?")
        known = {name: values[np.isfinite(values)] for name, values in sample.values.items()}
        empty = [name for name, values in known.items() if len(values) and not values.any()]
        if not pairs and len(empty) > 1:
            asked.append(f"({', '.join(empty)} are 0 everywhere, as without a fix)")
        elif not pairs:
            asked.append("(no column looks like a position)")
    if not names.heights:
        taken = {*place} | {
            name for meaning, found in names.found.items() for name in found
            if names.given or meaning not in ("altitude", "date")
        }  # fmt: skip
        depths = [name for name in sample.numbers if name not in taken
                  and not {*words_of(name)} & NO_DEPTHS
                  and np.abs(sample.known(name)).max() < DEEPEST]  # fmt: skip
        depths.sort(key=lambda name: sample.unlike_depths(name, place))
        asked.append(
            "which column is the depth? candidates: " + (shown(", ".join(depths), 120) or "none")
        )
        up = [(sample.known(name) > 0).mean() <= 0.5 for name in depths[:NAMED]]
        heights = [{"z" if its else "depth": n} for its, n in zip(up, depths, strict=False)]
        if names.plain and (up[:1] == [True] or len(names.header) == 3):
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


def _one_place(
    places: Sequence[tuple[str, str, bool]], sample: Sample, where: str
) -> tuple[tuple[str, str, bool], str]:
    """The columns of the place, and what was chosen, as text."""
    if len(places) == 1:
        return places[0], ""
    x_y, degrees = places
    flat, round_ = (np.column_stack([sample.values[n] for n in p[:2]]) for p in (x_y, degrees))
    known = [np.isfinite(each).all(1) for each in (flat, round_)]
    both = known[0] & known[1] & (round_ != 0).any(1)
    if both.sum() < 3 or (np.abs(round_[both]) > (90, 360)).any():
        return degrees if known[1].sum() > known[0].sum() else x_y, ""
    metres = rough_metres(round_[both])
    sides = [np.hypot(*np.ptp(p, axis=0)) for p in (flat[both], metres)]
    ratio = sides[0] / sides[1] if sides[1] else 1.0
    if abs(ratio - 1) < SHARE:
        straight, turned = (
            np.abs(p - np.median(p, axis=0) - metres).sum()
            for p in (flat[both], flat[both][:, ::-1])
        )
        if turned < straight / 3:
            return degrees, f"; {x_y[0]}, {x_y[1]} are a northing and an easting"
        return x_y, ""
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
            unit, values = names.units[name], sample.values[name]
            depth = UNITS[unit or "m"] * (np.abs(values) if down else -values)
            origin = counts_from(name) if down else TRANSDUCER
            column = {"depth" if down else "z": name}
            every.append(Candidate(name, depth, origin, unit, column, datum=not down))
    name, down, notes = *names.heights[0], ""
    if every:
        best, notes = best_of(where, every)
        name, down = best.name, not best.datum
    if down and (rank := counts_from(name)) >= TRANSDUCER:
        option = "keel; --keel" if rank == KEEL else "transducer; --draught"
        notes += f" below the {option} adds its depth"
    return (name, down), notes
