"""What the survey lines of a record show: false echoes, which are left out of a table's map; the
list of crossings; and a verdict on each line and day. And the divisions of a survey whose parts
have errors of their own: lines, days, boats, recordings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.clock import SECOND
from ..core.errors import quantity
from ..frontend.refused_pings import WITHDRAWN
from ..outputs.crossings import Bias, CrossingTable, biases, statistics_text, write_lines
from ..screening.crossings import Compared, crossing_weights, find_crossings
from ..screening.hypotheses import MULTIPLES
from ..screening.judge import ECHOES
from .exclusions import days, files
from .soundings import LINE, Labels, SoundingMapSettings, Soundings

#: The kinds of soundings left out of a line, by ``Compared.multiple``.
LEFT_OUT = {of: f"{echoes}, {{}} left out" for of, echoes in ECHOES.items()} | {
    1: "{} " + WITHDRAWN  # from a recording, by this map
}
#: If fewer than this share of a line's soundings are left out, the line itself is judged, too.
FEW = 0.1
#: Number of the largest offsets of lines that are reported.
WORST = 8
DAY = "day"
#: A pause that ends a recording, in s.
PAUSE = 60
#: Columns that tell boats or recordings apart.
BOATS = frozenset(
    spelt
    for name in ("boat", "vessel", "ship", "instrument", "sounder", "transducer", "device", "file",
                 "filename", "file_name")
    for spelt in (name, name.capitalize(), name.upper())
)  # fmt: skip


@dataclass(frozen=True)
class Crossed:
    """What the crossings of soundings show.

    Attributes:
        refused: which soundings are false echoes, or are withdrawn [N], boolean.
        line: of each sounding [N].
        found: the crossings, and which soundings are false echoes.
        table: of the crossings.
        weight: how many independent crossings each one counts as [C].
        parts: names of both sides of the crossings [C, 2], by each division that may have levels of
            its own (``parts_of``); of equal divisions only the first.
        rows: of the soundings in the file [N].
    """

    refused: np.ndarray
    line: Labels
    found: Compared
    table: CrossingTable
    weight: np.ndarray
    parts: Mapping[str, np.ndarray]
    rows: np.ndarray

    def without(self, rows: np.ndarray) -> Crossed:
        """The same, with these soundings [N] (boolean) left out as well."""
        refused = self.refused | rows
        ends = np.column_stack((self.found.row, self.found.other))
        table = replace(self.table, left_out=refused[ends].any(1))
        return replace(self, refused=refused, table=table)

    def write(self, folder: Path) -> None:
        """Write ``crossings.csv`` and ``lines.csv``; nothing without crossings."""
        if not len(self.found.row):
            return
        self.table.write(folder)
        lines = [(bias.name, "", bias, out, said) for bias, out, said in self._lines]
        days = self._biases.get(DAY, [])
        lines += [("", bias.name, bias, 0, _verdict(bias, DAY)) for bias in days]
        write_lines(folder, lines)

    @cached_property
    def _biases(self) -> dict[str, list[Bias]]:
        """Those of lines, days, files and boats, by kind."""
        given, kinds = self.table, {LINE: self.table.lines, **self.parts}
        return {
            kind: biases(names, given.difference, given.left_out, self.weight)
            for kind, names in kinds.items()
        }

    @cached_property
    def _lines(self) -> list[tuple[Bias, int, str]]:
        """Bias, number of soundings left out, and verdict of each line that has crossings, such
        soundings, or runs that stay though they may be false."""
        found = []
        known = {bias.name: bias for bias in self._biases[LINE]}
        for number, name in enumerate(self.line.names):
            factors = self.found.multiple[(self.line.code == number) & self.refused]
            runs = [text for line, text in self._runs if line == name]
            if not (len(factors) or name in known or runs):
                continue
            bias = known.get(name, Bias(name, 0, np.nan, np.nan, np.nan, False))
            said = [] if name in self._spoilt else [_verdict(bias, LINE)]
            for factor, text in LEFT_OUT.items():
                if n := int((factors == factor).sum()):
                    said.append(text.format(quantity(n, "sounding")))
            found.append((bias, len(factors), "; ".join(said + runs)))
        return found

    def offsets(self) -> list[tuple[str, Bias]]:
        """Offsets of days, files and boats, each with its kind; and of lines, the largest first,
        but of none that is left out in part."""
        own = [b for b, *_ in self._lines if b.offset and b.name not in self._spoilt]
        own.sort(key=lambda bias: -abs(bias.median))
        found = [(kind, b) for kind in self.parts for b in self._biases[kind] if b.offset]
        return found + [(LINE, bias) for bias in own]

    @cached_property
    def _spoilt(self) -> set[str]:
        """The lines of which ``FEW`` or more of the soundings are left out."""
        code, every = self.line.code, len(self.line.names)
        out, count = (np.bincount(of, minlength=every) for of in (code[self.refused], code))
        return {self.line.names[i] for i in np.flatnonzero(out >= np.maximum(FEW * count, 1))}

    def sentences(self, order: str) -> list[str]:
        """The survey's statistics, then sentences on the lines with the most soundings left out,
        on offsets of days, files and boats, on the largest offsets of lines, and on the longest
        runs that stay, though they may be false."""
        said = []
        if len(self.found.row):
            spoilt = self._spoilt
            multiples = self.line.at(self.refused & np.isin(self.found.multiple, MULTIPLES))
            said.append(statistics_text(self.table.statistics(order), order))
            left = [each for each in self._lines if each[0].name in spoilt]
            left.sort(key=lambda each: -each[1])
            said += [_sentence(LINE, bias, text, 1) for bias, _, text in left[:WORST]]
            if more := len(left[WORST:]):
                lines = quantity(more, "more line")
                said.append(f"{lines} with soundings left out: see lines.csv")
            if single := [name for name in multiples.words if name not in spoilt]:
                many, of = quantity(len(single), "single multiple"), len(set(single))
                said.append(f"{many} on {quantity(of, 'line')} left out: see lines.csv")
            offsets = self.offsets()
            most = WORST + sum(kind != LINE for kind, _ in offsets)
            said += [_sentence(kind, b, _verdict(b, kind), 2) for kind, b in offsets[:most]]
            if more := len(offsets[most:]):
                said.append(f"{more} more lines with an offset: see lines.csv")
        said += [f"line {name}, {text}" for name, text in self._runs[:WORST]]
        if more := len(self._runs[WORST:]):
            said.append(f"{quantity(more, 'more run')} such as these, all shorter")
        return said

    @cached_property
    def _runs(self) -> list[tuple[str, str]]:
        """Line and description of each run that stays, though it may be false; the longest
        first."""
        runs = [run for run in self.found.suspicious if not self.refused[run.rows].any()]
        found = []
        for run in sorted(runs, key=lambda run: -len(run.rows)):
            first, last = self.rows[run.rows[[0, -1]]].tolist()
            name = self.line.names[self.line.code[run.rows[0]]]
            found.append((name, f"rows {first} to {last}: {run.sentence}"))
        return found


def _verdict(bias: Bias, kind: str) -> str:
    """The verdict on a line, day, file or boat by its crossings alone."""
    others = "the lines it crosses" if kind == LINE else f"the other {kind}s"
    if not bias.crossings:
        return "crosses no other line"
    if bias.offset:
        return f"{'shallower' if bias.median > 0 else 'deeper'} than {others}"
    if bias.crossings == 1:
        return "one crossing, too few to show an offset"
    return f"agrees with {others}"


def _sentence(kind: str, bias: Bias, verdict: str, digits: int) -> str:
    if not bias.crossings:
        return f"{kind} {bias.name}, by the lines beside it: {verdict}"
    count, within = quantity(bias.crossings, "crossing"), ""
    if digits > 1:
        within = f" (95 %: {bias.low:+.2f} to {bias.high:+.2f})"
    return f"{kind} {bias.name}: {count}, median {bias.median:+.{digits}f} m{within}: {verdict}"


def parts_of(soundings: Soundings) -> dict[str, Labels]:
    """The divisions that may have levels of their own, if they have several parts: days, files, and
    columns that tell boats apart; by ``DAY``, ``file`` or the column."""
    columns = {name: part for name, part in soundings.labels.items() if name in BOATS}
    if columns:
        most = len(soundings.with_lines().labels[LINE].names) / 2
        columns = {name: part for name, part in columns.items() if len(part.names) <= most}
    found = {DAY: days(soundings), "file": files(soundings), **columns}
    return {name: part for name, part in found.items() if len(part.names) > 1}


class Divisions(NamedTuple):
    """The lines of a survey, the units that have a level of their own, and the recordings."""

    line: Labels
    day: Labels
    recording: Labels

    @classmethod
    def of(cls, soundings: Soundings, line: Labels) -> Divisions:
        """Those of soundings with these lines. Recordings are the parts of units between pauses of
        more than ``PAUSE``: a receiver or a sounder may have been started anew there, and its
        positions may have another error."""
        unit = units(soundings)
        if soundings.stamp_ns is None:
            return cls(line, unit, unit)
        order = np.lexsort((soundings.stamp_ns, unit.code))
        stamp, code = soundings.stamp_ns[order], unit.code[order]
        begin = np.r_[True, (np.diff(code) != 0) | (np.diff(stamp) > PAUSE * SECOND)]
        number = np.empty(len(order), dtype=np.int64)
        number[order] = np.cumsum(begin) - 1
        names = (
            f"{unit.names[i]} {str(np.datetime64(int(at), 'ns'))[11:16]}".strip()
            for i, at in zip(code[begin].tolist(), stamp[begin].tolist(), strict=True)
        )
        return cls(line, unit, Labels(number, tuple(names)))

    def at(self, index: np.ndarray) -> Divisions:
        """Those of some soundings."""
        return Divisions(*(labels.at(index) for labels in self))


def units(soundings: Soundings) -> Labels:
    """The units that have a level of their own: each boat or file on each day."""
    parts = list(parts_of(soundings).values()) or [days(soundings)]
    codes = np.column_stack([part.code for part in parts])
    known, code = np.unique(codes, axis=0, return_inverse=True)
    names = (
        " ".join(part.names[i] for part, i in zip(parts, row, strict=True)).strip()
        for row in known.tolist()
    )
    return Labels(code.reshape(-1).astype(np.int64), tuple(names))


def cross(soundings: Soundings, settings: SoundingMapSettings) -> Crossed:
    """Find the crossings of soundings, and the false echoes of a table that is screened.

    Lines are those of the column ``line``, or else those found in the track. Recordings and
    missions lose no further soundings: their maps are to be the vehicle's.
    """
    samples = soundings.samples(settings.water_level)
    judged = settings.screened(samples, say=False, table=True)
    screened = soundings.is_table and judged.screening.enabled
    if LINE not in soundings.labels and soundings.names and soundings.is_table:
        line = Labels(soundings.group, soundings.names)
    else:
        line = soundings.with_lines().labels[LINE]
    depth = settings.water_level - soundings.z if soundings.depth is None else soundings.depth
    ranges = np.where(np.isfinite(samples.range), samples.range, depth)
    found = find_crossings(soundings.xy, soundings.z, line.code, ranges, screened)
    if soundings.multiple is not None:
        found = replace(found, multiple=soundings.multiple)
    refused = found.multiple != 1
    ends = np.column_stack((found.row, found.other))
    elevations = np.column_stack((found.z, found.z - found.difference))
    table = CrossingTable(
        line.at(ends).words, days(soundings).at(ends).words, found.xy, found.difference,
        (soundings.z + depth)[ends] - elevations, refused[ends].any(1),
    )  # fmt: skip
    parts: dict[bytes, tuple[str, Labels]] = {}  # of those that divide them alike, the first
    for name, part in parts_of(soundings).items():
        _, first, code = np.unique(part.code, return_index=True, return_inverse=True)
        parts.setdefault(first[code].tobytes(), (name, part))
    words = {name: part.at(ends).words for name, part in parts.values()}
    weight = crossing_weights(found.xy, line.code[ends], found.block)
    return Crossed(refused, line, found, table, weight, words, soundings.row)
