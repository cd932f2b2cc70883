"""Questions about a file: what its names or values leave open, and the options that answer.

An answer is printed only if the file becomes a map with it (``readers``), and names only columns
that can be what it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote
from typing import Any

import numpy as np

from ..core.errors import InputError, shown
from ..core.geodesy import is_in_feet, rough_metres
from .cells import UNITS
from .columns import KEEL, Columns, Names, as_option, counts_from
from .options import ReadOptions

#: Digits after the point of degrees that place soundings: 11 m; and the longest survey in degrees.
FINE, WIDE = 4, 5.0
#: Least value (s) of a column of Unix times: 1980.
UNIX_TIME = 3.2e8
#: Columns that may be the depth are named up to this number.
NAMED = 3
#: Two columns are the same where they differ by this (m, or share of the spread) at most; lengths
#: and units by this share.
SAME, SHARE = 0.06, 0.015
DEEPEST = 12_000.0


@dataclass(frozen=True)
class Answer:
    """Fields of ``ReadOptions`` that decide; ``columns`` are added to those given."""

    when: str
    fields: Mapping[str, Any]

    def applied(self, options: ReadOptions) -> ReadOptions:
        """The options with this answer."""
        columns = {**options.columns, **self.fields.get("columns", {})}
        return replace(options, **{**self.fields, "columns": columns})


class Unclear(InputError):
    """A question, before its answers were tried: ``answers``, the likeliest first."""

    def __init__(self, text: str, answers: Iterable[Answer] = ()) -> None:
        super().__init__(text)
        self.text, self.answers = text, tuple(answers)


def as_words(options: ReadOptions) -> str:
    """The words of a command line that say what a file means."""
    words = [f"--columns {as_option(**options.columns)}"] if options.columns else []
    words += [f"--{name} {quote(value)}" for name in ("units", "crs")
              if (value := getattr(options, name))]  # fmt: skip
    return " ".join(words + ["--trust-columns"] * options.trusted)


@dataclass(frozen=True)
class Sample:
    """The first rows of a table.

    Attributes:
        values: of each column, by name [N]; NaN where a cell is no number.
        decimals: largest number of decimals of each.
        times: columns of times and dates by meaning, as their values say.
        near: latitude and longitude of the survey's other files; None: unknown.
    """

    values: Mapping[str, np.ndarray]
    decimals: Mapping[str, int]
    times: Mapping[str, str] = field(default_factory=dict)
    near: tuple[float, float] | None = None

    def known(self, name: str) -> np.ndarray:
        """The numbers of a column, without those that are exactly 0."""
        values = self.values[name]
        return values[np.isfinite(values) & (values != 0)]

    @property
    def numbers(self) -> list[str]:
        """The columns of numbers that vary and neither are times nor count rows."""
        kept = []
        for name, values in self.values.items():
            known = self.known(name)
            steps = np.diff(values[np.isfinite(values)])
            if name in self.times.values() or len(known) < 0.02 * len(values) or len(known) < 2:
                continue
            counts = len(steps) > 3 and (steps > 0).all() and np.ptp(steps) == 0
            if np.ptp(known) > 0 and not (counts and float(steps[0]).is_integer()):
                kept.append(name)
        return kept

    def fine(self) -> list[str]:
        """The columns that look like degrees."""
        return [
            name for name in self.numbers
            if self.decimals[name] >= FINE and np.abs(known := self.known(name)).max() <= 180
            and np.ptp(known) < WIDE
        ]  # fmt: skip


def is_time(values: np.ndarray) -> bool:
    """Whether values [N] are Unix times."""
    known = values[np.isfinite(values)]
    return len(known) > 0.9 * len(values) > 0 and known.min() > UNIX_TIME and (
        np.diff(known) >= 0
    ).mean() > 0.9  # fmt: skip


def chosen(names: Names, sample: Sample, where: str) -> Columns:
    """The columns of a table.

    Raises:
        Unclear: names and values leave open which are the place, or the depth.
    """
    places, heights = names.places, names.heights
    if not places or not heights:
        raise _missing(names, sample, where)
    place, of_place = _one_place(places, sample, where)
    height, of_height = _one_height(names, heights, sample, where)
    return replace(names.columns(place, height), note=of_place + of_height)


def _missing(names: Names, sample: Sample, where: str) -> Unclear:
    """The question which columns are the place, and which is the depth."""
    known = {name for found in names.found.values() for name in found}
    free = [name for name in sample.numbers if name not in known or not names.given]
    pairs = [{}] if names.places else _pairs(sample)
    taken = {name for pair in pairs for name in pair.values()} | {
        name for meaning in ("latitude", "longitude", "x", "y", "time", "confidence")
        for name in names.found[meaning]
    }  # fmt: skip
    depths = [name for name in free if name not in taken
              and np.abs(sample.known(name)).max() < DEEPEST]  # fmt: skip
    heights = [{}] if names.heights else [
        {("depth" if (sample.known(name) > 0).mean() > 0.5 else "z"): name}
        for name in sorted(depths, key=lambda name: sample.decimals[name] == 0)[:NAMED]
    ]  # fmt: skip
    asked = []
    if not names.places:
        asked.append("which columns are latitude and longitude, or x and y?")
    if not names.heights:
        asked.append("which column is the depth? candidates: " + (", ".join(depths) or "none"))
    answers = [
        Answer(
            "if " + " and ".join(f"{m} is {n}" for m, n in {**pair, **height}.items()),
            {"columns": {**pair, **height, **(sample.times if names.plain else {})}},
        )
        for height in heights
        for pair in pairs
    ]
    header = shown(",".join(names.header), 120)
    return Unclear(
        f"{where}: expected columns latitude, longitude, depth or x, y, z, got {header}: "
        f"{' '.join(asked)}", answers,
    )  # fmt: skip


def _pairs(sample: Sample) -> list[dict[str, str]]:
    """Pairs of columns that may be the place."""
    fine = sample.fine()
    if len(fine) >= 2:
        first, second = fine[:2]
        both = [
            {"latitude": a, "longitude": b}
            for a, b in ((first, second), (second, first))
            if np.abs(sample.known(a)).max() <= 90
        ]
        if sample.near is not None:
            close = [pair for pair in both if all(
                abs(np.median(sample.known(name)) - at) < 1
                for name, at in zip(pair.values(), sample.near, strict=True)
            )]  # fmt: skip
            both = close if len(close) == 1 else both
        return both
    flat = [name for name in sample.numbers if name not in fine]
    if len(flat) == len(sample.values) == 3 or (
        len(flat) >= 2 and min(np.ptp(sample.known(name)) for name in flat[:2]) > 10
    ):
        return [{"x": flat[0], "y": flat[1]}]
    return []


def guessed(sample: Sample) -> dict[str, str]:
    """The columns of a table without a header, if there is one way to understand them: x, y, z in
    metres, or degrees of which one is beyond 90, or lie where other files do, and one depth."""
    pairs = _pairs(sample)
    if len(pairs) != 1:
        return dict(sample.times)
    rest = [
        name for name in sample.numbers
        if name not in pairs[0].values() and (sample.decimals[name] > 0 or "x" in pairs[0])
    ]  # fmt: skip
    if len(rest) != 1 or ("x" in pairs[0] and len(sample.values) != 3):
        return dict(sample.times)
    above = (sample.known(rest[0]) > 0).mean() > 0.5
    return {**sample.times, **pairs[0], "depth" if above else "z": rest[0]}


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
        return (degrees if np.isfinite(round_).all(1).sum() > np.isfinite(flat).all(1).sum()
                else x_y), ""  # fmt: skip
    sides = [np.hypot(*np.ptp(p, axis=0)) for p in (flat[both], rough_metres(round_[both]))]
    if not sides[1] or abs(sides[0] / sides[1] - 1) < SHARE:
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


def _one_height(
    names: Names, heights: Sequence[tuple[str, bool]], sample: Sample, where: str
) -> tuple[tuple[str, bool], str]:
    """The column of depths or elevations, and what was chosen, as text."""
    filled = [h for h in heights if len(sample.known(h[0])) > 0.2 * len(sample.values[h[0]])]
    best, notes = (filled or list(heights))[0], ""
    for other in filled[1:]:
        best, note = _compared(names, best, other, sample, where)
        notes += note
    if (rank := counts_from(best[0])) > 1 and best[1]:
        notes += (
            f" below the {'keel; --keel' if rank == KEEL else 'transducer; --draught'} adds its"
        )
        notes += " depth"
    return best, notes


def _compared(
    names: Names, one: tuple[str, bool], other: tuple[str, bool], sample: Sample, where: str
) -> tuple[tuple[str, bool], str]:
    """Which of two columns of one quantity is read, and why, as text.

    Raises:
        Unclear: their values differ by nothing that is known.
    """
    raw = [np.abs(sample.values[n]) if down else -sample.values[n] for n, down in (one, other)]
    said = [names.units.get(name, "") for name, _ in (one, other)]
    a, b = (values * UNITS[unit or "m"] for values, unit in zip(raw, said, strict=True))
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    spread = max(SAME, SHARE * float(np.ptp(a))) if len(a) else np.inf
    if len(a) < 3 or np.abs(a - b).max() <= spread:
        return one, ""
    ratio = np.median(a / np.where(b == 0, np.nan, b)) if (b != 0).any() else np.nan
    if np.abs(a - ratio * b).max() <= max(spread, SHARE * np.abs(a).max()) and ratio > 0:
        both_ways = ((one, other, said, 1 / ratio), (other, one, said[::-1], ratio))
        for this, that, (its, others), factor in both_ways:
            unit = [u for u, size in UNITS.items() if u != "m" and abs(factor / size - 1) < SHARE]
            if unit and others and not its:
                return that, f"; {this[0]} is the same in {unit[0]}"
    off = float(np.median(a - b))
    if np.abs(a - b - off).max() <= spread:
        if one[1] != other[1]:  # the elevation of the water
            depth, z = (one, other) if one[1] else (other, one)
            return depth, f"; {z[0]} is the same above a datum"
        ranks = [counts_from(name) for name, _ in (one, other)]
        if ranks[0] != ranks[1] and (off > 0) == (ranks[0] < ranks[1]):
            first, second = (one, other) if off > 0 else (other, one)
            return first, f"; {second[0]} is {abs(off):.2g} m less throughout"
    raise Unclear(
        f"{where}: columns {one[0]} and {other[0]} may both be the depth, and differ (by "
        f"{off:.2g} m in the median)",
        [Answer(f"if it is {name}", {"columns": {"depth" if down else "z": name}})
         for name, down in (one, other)],
    )  # fmt: skip


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
