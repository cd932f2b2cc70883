"""Soundings: placed already, in the order of the record, whatever record it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import InputError
from ..geometry import Extent
from ..samples import Samples
from ..survey.logged import Step
from ..survey.refused import RefusedPings
from .lines import LINE, find_lines
from .projection import LocalProjection
from .sounding_settings import SoundingMapSettings

#: In ``source``: how many lines were found in the track.
FOUND = "lines_found"
#: Soundings of a line, at least and in the mean; what has fewer is no track.
LEAST_LINE = 5


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
        stamp_ns: when they were measured [N], in ns; None where nobody knows.
        taken: the same as a mapper's front end made them; None where only elevations are known.
        batch: the number of each one's batch [N], as a live mapper closed them; None of others.
        steps: what a mission's model did with exactly these; None of others, and of a part.
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
    taken: Samples | None = None
    batch: np.ndarray | None = None
    steps: tuple[Step, ...] | None = None

    @classmethod
    def of(cls, taken: Samples, **others: Any) -> Soundings:
        """What a mapper's front end made, a row each; ``others``: further attributes."""
        row = np.arange(len(taken))
        return cls(
            row, taken.xy, taken.z, row, stamp_ns=taken.stamp_ns, taken=taken, **others
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: np.ndarray) -> Soundings:
        names = ("row", "xy", "z", "group", "stamp_ns", "taken", "batch")
        known = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(self, **{name: v[index] for name, v in known.items()}, steps=None)

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
                f"--start, --stop: expected soundings then, got none (they last {since.max():g} s)"
            )
        return kept

    def by_lines(self) -> Soundings:
        """In groups of one line each, found in the track. See ``lines.find_lines``.

        Raises:
            InputError: this is no track.
        """
        group = find_lines(self.xy)
        count = int(group[-1]) + 1
        if len(self) < LEAST_LINE * count:
            raise InputError(
                f"--by {LINE}: expected a track to find lines in, got {len(self)} soundings of "
                f"which {count} would be lines (give --by a column)"
            )
        names, source = tuple(f"{i + 1}" for i in range(count)), {**self.source, FOUND: count}
        return replace(self, group=group, names=names, source=source)

    def samples(self, water_level: float) -> Samples:
        """The same as samples, numbered by row; where ranges are not known they are those from the
        water's surface, in m."""
        if self.taken is not None:
            return replace(self.taken, number=self.row)
        bare = Samples.of(self.xy, self.z)
        return replace(bare, number=self.row, range=water_level - self.z)

    def batches(self, settings: SoundingMapSettings) -> list[slice]:
        """The batches that they are learned in: the live mapper's, where there was one."""
        if self.batch is None:
            return settings.batches(len(self))
        ends = [*(np.flatnonzero(np.diff(self.batch)) + 1).tolist(), len(self)]
        return [slice(begin, end) for begin, end in pairwise([0, *ends])]

    def _only(self, kept: np.ndarray, reason: str) -> Soundings:
        if kept.all():
            return self
        refused = self.refused + Counter({reason: int((~kept).sum())})
        stamps = np.zeros(len(self), dtype=np.int64) if self.stamp_ns is None else self.stamp_ns
        where = np.column_stack((self.xy, self.z))
        pings = self.refused_pings.more(reason, stamps[~kept], where[~kept])
        return replace(self[np.flatnonzero(kept)], refused=refused, refused_pings=pings)
