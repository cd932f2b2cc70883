"""Soundings: placed already, in the order of the record, whatever record it was."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import LocalProjection
from ..core.geometry import Extent
from ..core.land import Land
from ..core.samples import Samples
from ..core.settings import Settings, Value, setting
from ..frontend.refused_pings import RefusedPings
from ..frontend.settings import water_level_setting
from ..journal.interface import JournalStep
from ..models.prior import PriorMap
from ..models.registry import ModelSettings, NeighbourOptions
from ..screening.lines import find_lines
from ..screening.screen import ScreeningSettings
from ..screening.track import MIN_NEIGHBOURHOOD
from .left_out import Excluded, LeftOut

#: What people call such a group; a column of this name goes before.
LINE = "line"

log = logging.getLogger(__name__)

#: Model settings of a map of soundings that differ from a vehicle's: between lines that lie far
#: apart, predictions need soundings from many places, and run time matters less.
MAP_DEFAULTS: dict[str, Value] = {
    "method": "nngp",
    "nngp.neighbours": 32,
    "nngp.candidate_neighbours": 1000,
    "nngp.neighbour_spacing": 0.3,
    "nngp.spread_training": True,
    "nngp.blending": 1.5,
    "nngp.max_residual": 4.0,
    "nngp.max_position_error": 5.0,
    "nngp.anisotropy_penalty": 100.0,
    "nngp.shared_anisotropy": 0.1,
}

#: Soundings of the first batch, of another, and how many batches a long record is cut into.
FIRST, SMALL, MOST = 600, 60, 250
#: A record counts as a track if at least this share of soundings lies beside the previous one.
TRACK = 0.5
#: Of neighbours, where soundings are no track: none crowd on one line.
SCATTERED_SPACING = 0.2
#: Ranges are not known if a larger share of soundings is above the water.
DRY = 0.05


@dataclass(frozen=True)
class SoundingMapSettings(Settings):
    """How soundings become a map."""

    seed: int = setting(
        0, "Start of the random numbers in training and folds; the same one gives the same map",
        minimum=0, maximum=2**31 - 1,
    )  # fmt: skip
    first_batch: int = setting(
        0, "Number of soundings in the first batch, which sets the scaling. 0: 600; for a "
        "recording, as the live mapper closed it", minimum=0, maximum=1_000_000, name="batch.first",
    )  # fmt: skip
    batch_size: int = setting(
        0, "Number of soundings in every further batch. 0: 60, or a 250th of all if that is "
        "more; for a recording, as the live mapper closed them", minimum=0, maximum=1_000_000,
        name="batch.size",
    )  # fmt: skip
    water_level: float = water_level_setting()
    stretches: int = setting(
        16, "Calibrate the map's intervals at the end by predicting this many stretches of the "
        "record from the others. 0: do not calibrate", minimum=0, maximum=1000,
    )  # fmt: skip
    model: ModelSettings = field(default_factory=lambda: ModelSettings.of(MAP_DEFAULTS))
    screening: ScreeningSettings = field(default_factory=lambda: ScreeningSettings(enabled=True))
    prior: PriorMap | None = None

    def batches(self, count: int) -> list[slice]:
        """The batches of so many soundings, in order."""
        size = self.batch_size or max(SMALL, count // MOST)
        ends = [*range(self.first_batch or FIRST, count, size), count]
        return [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]

    def screened(
        self, samples: Samples, say: bool = True, table: bool = False
    ) -> SoundingMapSettings:
        """The settings for these samples: of a record that is not a track, without screening, the
        search for soundings that contradict those around them, errors of position, and neighbours
        far apart; of one with many soundings above the water, whose ranges are unknown, without
        screening. The survey lines of a table are screened against each other also if soundings
        are far apart along them."""
        share, settings = _beside(samples), self
        options = self.model.options
        if share < TRACK and isinstance(options, NeighbourOptions):
            spacing = min(options.neighbour_spacing, SCATTERED_SPACING)
            options = replace(
                options, max_residual=0.0, max_position_error=0.0, neighbour_spacing=spacing
            )
            settings = replace(self, model=replace(self.model, options=options))
        track = share >= TRACK or (table and _on_lines(find_lines(samples.xy)))
        reason = _against_screening(samples, self.water_level, "" if track else _apart(share))
        if not (self.screening.enabled and reason):
            return settings
        if say:
            log.warning("no screening for false echoes: %s", reason)
        return replace(settings, screening=replace(self.screening, enabled=False))


def _beside(samples: Samples) -> float:
    """The share of soundings that are next to the previous one."""
    steps = np.hypot(*np.diff(samples.xy, axis=0).T)
    depths = np.minimum(samples.range[1:], samples.range[:-1])
    beside = steps <= np.maximum(MIN_NEIGHBOURHOOD, depths / 2)
    return float(beside.mean()) if len(steps) else 1.0


def _apart(beside: float) -> str:
    """The reason that a record which is not a track is not screened."""
    return (
        f"only {100 * beside:.0f} % of the soundings are next to the previous one, so the file is "
        "not in the order of a track"
    )


def _on_lines(line: np.ndarray) -> bool:
    """Whether there are enough soundings on each line for survey lines; ``line``: of each [N]."""
    return len(line) >= LEAST_LINE * (int(line[-1]) + 1) if len(line) else False


def _against_screening(samples: Samples, water_level: float, no_track: str) -> str:
    """Why these cannot be screened; empty if they can. ``no_track``: the reason if they are not a
    track, else empty."""
    dry = int((samples.range < 0).sum())
    if dry > DRY * len(samples):
        return (
            f"{dry} of {len(samples)} soundings are above the water level of {water_level:g} m "
            "(--water-level)"
        )
    return no_track


class Labels(NamedTuple):
    """Values of a column: index of each sounding's value [N], and the values."""

    code: np.ndarray
    names: tuple[str, ...]

    def at(self, index: np.ndarray) -> Labels:
        """Those of some soundings."""
        return Labels(self.code[index], self.names)


#: In ``source``: how many lines were found in the track.
FOUND = "lines_found"
#: Minimum mean number of soundings of a line; a record with fewer is not a track.
LEAST_LINE = 5


def line_names(labels: Mapping[str, Labels], index: np.ndarray) -> np.ndarray:
    """The names of the survey lines of some soundings [M]; empty where unknown."""
    if LINE not in labels:
        return np.full(len(index), "", dtype=object)
    code, names = labels[LINE].at(index)
    return np.array(names, dtype=object)[code]


@dataclass(frozen=True)
class Soundings:
    """What a record holds.

    Attributes:
        row: the data row of each in the file, from 0 [N].
        xy: places [N, 2], in m.
        z: elevations [N], in m, positive up.
        group: the index of each one's group [N]; without ``names`` each is one of its own.
        names: of the groups, in their order.
        refused: rows that are no soundings, by reason.
        refused_pings: the newest of each reason, with their places; a mission's own among them.
        source: what was read and how, as plain values.
        projection: by which degrees became metres; None where they were metres.
        stamp_ns: when they were measured [N], in ns; None: unknown.
        pings: the same as a mapper's front end made them; None where only elevations are known.
        batch: the number of each one's batch [N], as a live mapper closed them; None of others.
        steps: what a mission's model did with exactly these; None of others, and of a part.
        withdrawn: which of them a mission withdrew [N], boolean; None of others.
        depth: of each under the water's surface at its time [N], in m; None where one level is
            that of all.
        files: path and first row number of each file, where there are several; ``row`` counts on
            from file to file.
        labels: values of columns, by the column; ``line`` among them where there is one.
        excluded: what a person left out.
        left_out: everything that is left out so far, with what a person did.
        land: across which they say nothing of the bottom; None where no outline tells.
    """

    row: np.ndarray
    xy: np.ndarray
    z: np.ndarray
    group: np.ndarray
    names: tuple[str, ...] = ()
    refused: Counter[str] = field(default_factory=Counter)
    refused_pings: RefusedPings = field(default_factory=RefusedPings.none)
    source: Mapping[str, Any] = field(default_factory=dict)
    projection: LocalProjection | None = None
    stamp_ns: np.ndarray | None = None
    pings: Samples | None = None
    batch: np.ndarray | None = None
    steps: tuple[JournalStep, ...] | None = None
    withdrawn: np.ndarray | None = None
    depth: np.ndarray | None = None
    files: tuple[tuple[str, int], ...] = ()
    labels: Mapping[str, Labels] = field(default_factory=dict)
    excluded: tuple[Excluded, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    land: Land | None = None

    @classmethod
    def of(cls, pings: Samples, **others: Any) -> Soundings:
        """What a mapper's front end made, a row each; ``others``: further attributes."""
        row = np.arange(len(pings))
        return cls(
            row, pings.xy, pings.z, row, stamp_ns=pings.stamp_ns, pings=pings, **others
        )  # fmt: skip

    @property
    def is_table(self) -> bool:
        """Whether no vehicle's mapper took these."""
        return self.steps is None and self.batch is None and self.pings is None

    @property
    def xyz(self) -> np.ndarray:
        """Places and elevations [N, 3], in m."""
        return np.column_stack((self.xy, self.z))

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: np.ndarray) -> Soundings:
        names = (
            "row", "xy", "z", "group", "stamp_ns", "pings", "batch", "withdrawn", "depth",
        )  # fmt: skip
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        labels = {name: column.at(index) for name, column in self.labels.items()}
        return replace(
            self, **{name: v[index] for name, v in known.items()}, labels=labels, steps=None
        )

    def workspace(self, margin: float | None = None) -> Extent:
        """Their own box with a margin in m; None: a hundredth of the longer side, at least 1 m."""
        (xmin, ymin), (xmax, ymax) = self.xy.min(0), self.xy.max(0)
        side = max(xmax - xmin, ymax - ymin)
        room = max(1.0, side / 100) if margin is None else margin
        bounds = xmin - room, xmax + room, ymin - room, ymax + room
        return Extent(*map(float, bounds))

    def within(self, workspace: Extent) -> Soundings:
        """Those inside; the others are refused as ``outside_workspace``."""
        return self._only(workspace.contains(self.xy), "outside_workspace")

    def between(self, start: float, stop: float) -> Soundings:
        """Those measured so many s after the first, or more, and before so many (0: any time); the
        others are refused as ``outside_times``.

        Raises:
            InputError: times are not known, or none was measured then.
        """
        if not (start or stop):
            return self
        if self.stamp_ns is None:
            raise InputError(
                "--start, --stop: expected a column of times (--columns time=NAME), got none"
            )
        since = (self.stamp_ns - self.stamp_ns.min()) / 1e9
        kept = self._only((since >= start) & ((since <= stop) | (not stop)), "outside_times")
        if not len(kept):
            raise InputError(
                f"--start, --stop: no soundings in that time (the log lasts {since.max():g} s)"
            )
        return kept

    def lines(self) -> np.ndarray:
        """The line of each sounding [N], from 0, found in the track of each file."""
        begins = np.searchsorted(self.row, [first for _, first in self.files[1:]])
        lines, last = [], 0
        for part in filter(len, np.split(self.xy, begins)):
            lines.append(last + find_lines(part))
            last = int(lines[-1][-1]) + 1
        return np.concatenate(lines)

    def grouped_by_line(self) -> Soundings:
        """In groups of one line each, found in the track. See ``find_lines``.

        Raises:
            InputError: this is no track.
        """
        group = self.lines()
        count = int(group[-1]) + 1
        if not _on_lines(group):
            raise InputError(
                f"--by {LINE}: no survey lines found in the track: {len(self)} soundings would be "
                f"{count} lines (name a column with --by)"
            )
        names, source = tuple(f"{i + 1}" for i in range(count)), {**self.source, FOUND: count}
        return replace(self, group=group, names=names, source=source)

    def samples(self, water_level: float) -> Samples:
        """The same as samples, numbered by row; where ranges are not known they are those from the
        water's surface, in m."""
        if self.pings is not None:
            return replace(self.pings, number=self.row)
        bare = Samples.of(self.xy, self.z)
        depth = water_level - self.z if self.depth is None else self.depth
        return replace(bare, number=self.row, range=depth)

    def surface(self, water_level: float) -> float:
        """Elevation of the water's surface, in m: the given one, or where it changed over the
        record its median."""
        return water_level if self.depth is None else float(np.median(self.z + self.depth))

    def highest_surface(self, water_level: float) -> float:
        """As ``surface``, where it changed its maximum."""
        return water_level if self.depth is None else float((self.z + self.depth).max())

    def batches(self, settings: SoundingMapSettings) -> list[slice]:
        """The batches that they are learned in: the live mapper's, where there was one."""
        if self.batch is None:
            return settings.batches(len(self))
        ends = [*(np.flatnonzero(np.diff(self.batch)) + 1).tolist(), len(self)]
        return [slice(begin, end) for begin, end in pairwise([0, *ends])]

    def left(
        self, these: np.ndarray, reason: str, why: str = "", who: str = "", when: str = ""
    ) -> LeftOut:
        """Some of the soundings [N], boolean, as what is left out."""
        index, count = np.flatnonzero(these), int(these.sum())
        stamps = np.zeros(count, dtype=np.int64) if self.stamp_ns is None else self.stamp_ns[index]
        depth = np.full(count, np.nan) if self.depth is None else self.depth[index]
        line = line_names(self.labels, index)
        return LeftOut(
            reason, self.row[index], stamps, self.xyz[index], depth, line, why, who, when
        )

    def without(self, *parts: LeftOut) -> Soundings:
        """These without parts of them, which are counted by reason."""
        parts = tuple(part for part in parts if len(part.row))
        if not parts:
            return self
        refused, pings = self.refused.copy(), self.refused_pings
        for part in parts:
            refused[part.reason] += len(part.row)
            pings = pings.more(part.reason, part.stamp_ns, part.xyz)
        kept = ~np.isin(self.row, np.concatenate([part.row for part in parts]))
        return replace(
            self[np.flatnonzero(kept)], refused=refused, refused_pings=pings,
            left_out=self.left_out + parts,
        )  # fmt: skip

    def _only(self, kept: np.ndarray, reason: str) -> Soundings:
        return self.without(self.left(~kept, reason))
