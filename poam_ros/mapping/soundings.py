"""Placed soundings, in the order of their record, whatever its format; and those that are left out
of a map, and why: ``left_out.csv`` lists every one."""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.geodesy import GeoReference
from ..core.geometry import Extent, Land
from ..core.samples import Samples
from ..core.settings import Settings, Value, setting
from ..frontend.pings import water_level_setting
from ..frontend.refused_pings import RefusedPings
from ..journal.tables import JournalStep
from ..models.prior import PriorMap
from ..models.registry import ModelSettings, NeighbourOptions
from ..outputs.folder import LEFT_OUT, millimetres, write_table
from ..screening import ScreeningSettings
from ..screening.lines import find_lines

if TYPE_CHECKING:
    from .survey_errors import SurveyErrors

#: Times before this (ns) are not dates: they count from a beginning of the log's own.
DATES = int(datetime(1980, 1, 1, tzinfo=timezone.utc).timestamp()) * SECOND
#: Columns of ``left_out.csv``.
COLUMNS = (
    "file", "row", "time", "line", "x", "y", "z", "depth", "reason", "why", "who", "when",
)  # fmt: skip
#: Name of such a group; a column of this name has precedence. Without it, ``source`` says so.
LINE, OF_TRACK = "line", {"lines_of": "track"}

log = logging.getLogger(__name__)

#: Model settings that differ from a vehicle's: between lines far apart, predictions need soundings
#: from many places, and run time matters less.
MAP_DEFAULTS: dict[str, Value] = {
    "method": "nngp",
    "nngp.neighbours": 32,
    "nngp.candidate_neighbours": 1000,
    "nngp.neighbour_spacing": 0.3,
    "nngp.blending": 1.5,
    "nngp.anisotropy_penalty": 100.0,
    "nngp.shared_anisotropy": 0.1,
}

#: Soundings in the first batch and in the others; number of batches of a long record.
FIRST, SMALL, MOST = 600, 60, 250
#: m: soundings are beside each other within this, or half their depth.
BESIDE_M = 2.0
#: A record is a track if at least this share of its soundings lies beside the previous one.
TRACK = 0.5
#: Spacing of neighbours if soundings are not a track: there are no crowded lines.
SCATTERED_SPACING = 0.2
#: Minimum mean number of soundings per line; with fewer the record is not a track.
LEAST_LINE = 5
#: Ranges are not known if a larger share of soundings is above the water.
DRY = 0.05


@dataclass(frozen=True)
class SoundingMapSettings(Settings):
    """Settings of a map of soundings."""

    seed: int = setting(
        0, "Seed of the random draws in training and folds. The same seed gives the same map",
        minimum=0, maximum=2**31 - 1,
    )  # fmt: skip
    first_batch: int = setting(
        0, "Soundings in the first batch, which sets the scaling. 0: 600; for a recording, as in "
        "the live mapper", minimum=0, maximum=1_000_000, name="batch.first",
    )  # fmt: skip
    batch_size: int = setting(
        0, "Soundings in each further batch. 0: 60, or a 250th of all if that is more; for a "
        "recording, as in the live mapper", minimum=0, maximum=1_000_000,
        name="batch.size",
    )  # fmt: skip
    water_level: float = water_level_setting()
    stretches: int = setting(
        16, "Calibrate the map's variances at the end: predict each of this many stretches of the "
        "record from the others. 0: do not calibrate", minimum=0, maximum=1000,
    )  # fmt: skip
    level_error: float = setting(
        0.0, "Standard deviation of the error of level that all soundings of a day share, such as "
        "of the water level or the draught. Lines that do not cross cannot show it; the intervals "
        "of area and volume then include it. 0: none", "m", minimum=0.0, maximum=100.0,
    )  # fmt: skip
    model: ModelSettings = field(default_factory=lambda: ModelSettings.of(MAP_DEFAULTS))
    screening: ScreeningSettings = field(default_factory=lambda: ScreeningSettings(enabled=True))
    prior: PriorMap | None = None

    def ends(self, count: int) -> list[int]:
        """The ends of the batches of ``count`` soundings, in order."""
        size = self.batch_size or max(SMALL, count // MOST)
        return [*range(self.first_batch or FIRST, count, size), count]

    def screened(
        self, samples: Samples, say: bool = True, table: bool = False
    ) -> SoundingMapSettings:
        """The settings that suit these samples. If the record is not a track: no screening,
        neighbours closer together. If many soundings are above the water, so that ranges are
        unknown: no screening. The survey lines of a table are screened against each other even if
        soundings are far apart along them."""
        steps = np.hypot(*np.diff(samples.xy, axis=0).T)
        depths = np.minimum(samples.range[1:], samples.range[:-1])
        beside = steps <= np.maximum(BESIDE_M, depths / 2)
        share, dry = float(beside.mean()) if len(steps) else 1.0, int((samples.range < 0).sum())
        settings, options, reason = self, self.model.options, ""
        if share < TRACK and isinstance(options, NeighbourOptions):
            spacing = min(options.neighbour_spacing, SCATTERED_SPACING)
            options = replace(options, neighbour_spacing=spacing)
            settings = replace(self, model=replace(self.model, options=options))
        if dry > DRY * len(samples):
            reason = (
                f"{dry} of {len(samples)} soundings are above the water level of "
                f"{self.water_level:g} m (--water-level)"
            )
        elif share < TRACK and not (table and _on_lines(find_lines(samples.xy))):
            reason = (
                f"only {100 * share:.0f} % of the soundings are next to the previous one, so the "
                "file is not in the order of a track"
            )
        if not (self.screening.enabled and reason):
            return settings
        if say:
            log.warning("no screening for false echoes: %s", reason)
        return replace(settings, screening=replace(self.screening, enabled=False))


def _on_lines(line: np.ndarray) -> bool:
    """Whether the lines have enough soundings to be survey lines; ``line``: of each sounding
    [N]."""
    return len(line) >= LEAST_LINE * (int(line[-1]) + 1) if len(line) else False


class Labels(NamedTuple):
    """The values of a column: each sounding's value as an index [N] into the distinct values."""

    code: np.ndarray
    names: tuple[str, ...]

    def at(self, index: np.ndarray) -> Labels:
        """The labels of some soundings."""
        return Labels(self.code[index], self.names)

    @property
    def words(self) -> np.ndarray:
        """The value of each sounding [N]."""
        return np.array(self.names, dtype=object)[self.code]


class LeftOut(NamedTuple):
    """M soundings that are left out of the map for one reason.

    Attributes:
        reason: as in the ledger.
        row: in the log [M]; -1 without one.
        xyz: places and elevations [M, 3], in m; NaN where unknown.
        stamp_ns: times of measurement [M], in ns; 0, or None, where unknown.
        depth: below the water surface [M], in m; None: unknown.
        line: names of the survey lines [M]; None: unknown.
        why: details of the reason; who, when: as a person wrote them.
    """

    reason: str
    row: np.ndarray
    xyz: np.ndarray
    stamp_ns: np.ndarray | None = None
    depth: np.ndarray | None = None
    line: np.ndarray | None = None
    why: str = ""
    who: str = ""
    when: str = ""

    @classmethod
    def of(cls, pings: RefusedPings) -> tuple[LeftOut, ...]:
        """Pings that a front end refused, by reason."""
        every = (pings[pings.reason == reason] for reason in dict.fromkeys(pings.reason.tolist()))
        return tuple(
            cls(str(each.reason[0]), np.full(len(each), -1), each.xyz, each.stamp_ns)
            for each in every
        )


@dataclass(frozen=True)
class Soundings:
    """The soundings of a record.

    Attributes:
        row: data row in the file, from 0 [N].
        xy: places [N, 2], in m.
        z: elevations [N], in m, positive up.
        group: index of the group [N]; without ``names`` each sounding is a group of its own.
        names: of the groups, in order.
        refused: number of rows that are not soundings, by reason.
        source: what was read, and how, as plain values.
        projection: from degrees to metres; None if the record was in metres.
        stamp_ns: times of measurement [N], in ns; None: unknown.
        pings: the samples of a mapper's front end; None if only elevations are known.
        batch: number of the batch [N], as a live mapper closed it; None for other records.
        steps: the steps of a mission's model with exactly these soundings; None for other records
            and for parts of a mission.
        multiple: 2 or 3 if the mission withdrew a sounding as a double or triple echo, 0 if as
            another false echo, else 1 [N]; None for other records.
        depth: below the water surface at the time of measurement [N], in m; None if one level holds
            for all.
        files: path and first row number of each file if there are several; ``row`` continues from
            file to file.
        labels: values of columns, by column; including ``line`` if there is one.
        excluded: what persons left out, in sentences.
        left_out: everything left out so far, including that.
        land: soundings on one side of it say nothing about the other; None without an outline.
        errors: what is left of the errors of calibrated soundings; None: not calibrated.
    """

    row: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    group: np.ndarray
    names: tuple[str, ...] = ()
    refused: Counter[str] = field(default_factory=Counter)
    source: Mapping[str, Any] = field(default_factory=dict)
    projection: GeoReference | None = None
    stamp_ns: np.ndarray | None = None
    pings: Samples | None = None
    batch: np.ndarray | None = None
    steps: tuple[JournalStep, ...] | None = None
    multiple: np.ndarray | None = None
    depth: np.ndarray | None = None
    files: tuple[tuple[str, int], ...] = ()
    labels: Mapping[str, Labels] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    land: Land | None = None
    errors: SurveyErrors | None = None

    @classmethod
    def of(cls, pings: Samples, **others: Any) -> Soundings:
        """Soundings from the samples of a mapper's front end; ``others``: further attributes."""
        row, stamps = np.arange(len(pings)), pings.stamp_ns
        return cls(row, pings.xy, pings.z, row, stamp_ns=stamps, pings=pings, **others)

    @property
    def is_table(self) -> bool:
        """Whether these come from a table, not from a vehicle's mapper."""
        return self.steps is None and self.batch is None and self.pings is None

    @property
    def xyz(self) -> np.ndarray:
        """Places and elevations [N, 3], in m."""
        return np.column_stack((self.xy, self.z))

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: np.ndarray) -> Soundings:
        names = (
            "row", "xy", "z", "group", "stamp_ns", "pings", "batch", "multiple", "depth", "errors",
        )  # fmt: skip
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        labels = {name: column.at(index) for name, column in self.labels.items()}
        return replace(
            self, **{name: v[index] for name, v in known.items()}, labels=labels, steps=None
        )

    def workspace(self, margin: float | None = None) -> Extent:
        """The box around the soundings with a margin in m; None: a hundredth of the longer side, at
        least 1 m."""
        low, high = self.xy.min(0), self.xy.max(0)
        room = max(1.0, (high - low).max() / 100) if margin is None else margin
        return Extent(*np.column_stack((low - room, high + room)).ravel().tolist())

    def within(self, workspace: Extent) -> Soundings:
        """The soundings inside; the others are refused as ``outside_workspace``."""
        return self.without(self.left(~workspace.contains(self.xy), "outside_workspace"))

    def between(self, start: float, stop: float) -> Soundings:
        """The soundings from ``start`` to ``stop`` s after the first (0: no limit); the others are
        refused as ``outside_times``.

        Raises:
            InputError: times are unknown, or no sounding lies between these.
        """
        if not (start or stop):
            return self
        if self.stamp_ns is None:
            raise InputError(
                "--start, --stop: expected a column of times (--columns time=NAME), got none"
            )
        since = (self.stamp_ns - self.stamp_ns.min()) / 1e9
        out = (since < start) | ((since > stop) & bool(stop))
        kept = self.without(self.left(out, "outside_times"))
        if not len(kept):
            raise InputError(
                f"--start, --stop: no soundings in that time (the log lasts {since.max():g} s)"
            )
        return kept

    def with_lines(self) -> Soundings:
        """The same with labels of lines: from the column ``line``, or else as found in the track of
        each file."""
        if LINE in self.labels:
            return self
        begins = np.searchsorted(self.row, [first for _, first in self.files[1:]])
        found = [find_lines(part) for part in np.split(self.xy, begins) if len(part)]
        before = np.cumsum([0, *(int(lines[-1]) + 1 for lines in found)])
        line = np.concatenate([b + lines for b, lines in zip(before, found, strict=False)])
        labels = Labels(line, tuple(f"{i + 1}" for i in range(before[-1])))
        return replace(
            self, labels={**self.labels, LINE: labels}, source={**self.source, **OF_TRACK}
        )

    def grouped_by_line(self) -> Soundings:
        """The soundings grouped by lines found in the track. See ``find_lines``.

        Raises:
            InputError: the soundings are not a track.
        """
        line = self.with_lines().labels[LINE]
        count = len(line.names)
        if not _on_lines(line.code):
            raise InputError(
                f"--by {LINE}: no survey lines found in the track: {len(self)} soundings would be "
                f"{count} lines (name a column with --by)"
            )
        source = {**self.source, "lines_found": count}
        return replace(self, group=line.code, names=line.names, source=source)

    def samples(self, water_level: float) -> Samples:
        """The soundings as samples, numbered by row. Ranges that are unknown are taken from the
        water surface, in m."""
        if self.pings is not None:
            return replace(self.pings, number=self.row)
        bare = Samples.of(self.xy, self.z)
        depth = water_level - self.z if self.depth is None else self.depth
        return replace(bare, number=self.row, range=depth)

    def surface(self, water_level: float, of: Callable[..., Any] = np.median) -> float:
        """Elevation of the water surface, in m: the given one, or the median (or maximum) if it
        changed over the record."""
        return water_level if self.depth is None else float(of(self.z + self.depth))

    def batches(self, settings: SoundingMapSettings) -> list[slice]:
        """The batches to learn: those of the live mapper, if there was one."""
        count, ends = len(self), settings.ends(len(self))
        if self.batch is not None:
            ends = [*(np.flatnonzero(np.diff(self.batch)) + 1).tolist(), count]
        return [slice(begin, end) for begin, end in pairwise([0, *ends])]

    def left(
        self, these: np.ndarray, reason: str, why: str = "", who: str = "", when: str = ""
    ) -> LeftOut:
        """Some of the soundings (``these`` [N], boolean) as a record of what is left out."""
        part = self[np.flatnonzero(these)]
        line = part.labels[LINE].words if LINE in part.labels else None
        return LeftOut(reason, part.row, part.xyz, part.stamp_ns, part.depth, line, why, who, when)

    def without(self, *parts: LeftOut) -> Soundings:
        """The soundings without some parts, which are counted by reason."""
        parts = tuple(part for part in parts if len(part.row))
        if not parts:
            return self
        refused = self.refused.copy()
        for part in parts:
            refused[part.reason] += len(part.row)
        kept = self[np.flatnonzero(~np.isin(self.row, np.concatenate([p.row for p in parts])))]
        return replace(kept, refused=refused, left_out=self.left_out + parts)


def write_left_out(
    folder: Path, log: Path, soundings: Soundings, parts: Iterator[LeftOut], water_level: float
) -> None:
    """Write ``left_out.csv`` of a run's folder, by file and row. ``log``: the file of the record,
    if it is a single one; ``water_level`` (m): for depths where no other is known."""
    files = soundings.files or ((str(log), 0),)
    begins = [first for _, first in files]
    every = [(row, part, i) for part in parts for i, row in enumerate(part.row.tolist())]

    def rows() -> Iterator[list[Any]]:
        for row, part, i in sorted(every, key=lambda each: (each[0] < 0, each[0])):
            path, first = files[max(0, bisect_right(begins, row) - 1)]
            x, y, z = part.xyz[i].tolist()
            depth = water_level - z if part.depth is None else float(part.depth[i])
            yield [
                path, "" if row < 0 else row - first,
                "" if part.stamp_ns is None else time_text(int(part.stamp_ns[i])),
                "" if part.line is None else part.line[i], *map(millimetres, (x, y, z, depth)),
                part.reason, part.why, part.who, part.when,
            ]  # fmt: skip

    write_table(folder / LEFT_OUT, COLUMNS, rows())


def time_text(stamp_ns: int) -> str:
    """A time (UTC) to the microsecond, or s since the log's own beginning; empty if unknown (0)."""
    if not stamp_ns:
        return ""
    if stamp_ns < DATES:
        return f"{stamp_ns / SECOND:.3f}"
    text = str(np.datetime64(round(stamp_ns / 1000), "us"))
    return text.rstrip("0").rstrip(".") + "Z"
