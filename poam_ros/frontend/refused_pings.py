"""The newest refused pings of each reason, with their places. No ROS; metres, nanoseconds.

A ping that is refused on arrival waits for odometry like any other, to find its place. Without a
place it is counted all the same. Many pings of one reason displace no pings of another.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

#: Why pings are refused, in the order of their numbers on the topic `pings/refused`; append new
#: ones. docs/troubleshooting.md has a remedy for each.
REASONS = (
    "nan", "no_return", "too_close", "out_of_range", "low_confidence", "duplicate", "repeat",
    "no_odometry", "no_mount", "water_level_stale", "too_noisy", "position_uncertain",
    "outside_workspace", "wild_elevation", "false_echo", "waiting", "paused", "after_mission",
    "overload", "log_full", "standing", "withdrawn", "wrong_frame", "body_frame", "stale_transform",
    "above_water", "beam_up", "mirrored", "other_clock",
)  # fmt: skip
#: Why soundings of a record are refused, and accepted pings are left out of the map.
FALSE_ECHO, WITHDRAWN = "false_echo", "withdrawn"
#: Refused pings of each reason that are stored.
MAX_PER_REASON = 1000
#: x, y and z of a ping in m; z is NaN if only its place is known, all are NaN if nothing is.
Xyz = tuple[float, float, float]
NOWHERE: Xyz = (math.nan, math.nan, math.nan)


class RefusedPing(NamedTuple):
    """A refused ping; ``number`` counts from 0 by reason, since the mission began."""

    reason: str
    number: int
    stamp_ns: int
    x: float
    y: float
    z: float


@dataclass(frozen=True)
class RefusedPings:
    """Refused pings, the newest of each reason.

    Attributes:
        reason: of each [N].
        number: of each [N]; counts from 0 by reason, including pings that are no longer stored.
        stamp_ns: time of measurement [N]; 0 if unknown.
        xyz: places [N, 3], in m; z is NaN if the elevation is unknown, all three if the place is.
    """

    reason: np.ndarray
    number: np.ndarray
    stamp_ns: np.ndarray
    xyz: np.ndarray

    def __len__(self) -> int:
        return len(self.reason)

    def __getitem__(self, index: np.ndarray) -> RefusedPings:
        columns = self.reason, self.number, self.stamp_ns, self.xyz
        return RefusedPings(*(column[index] for column in columns))

    @classmethod
    def of(cls, rows: Iterable[RefusedPing | Sequence]) -> RefusedPings:
        """From rows with the fields of ``RefusedPing``; None becomes NaN."""
        columns = tuple(zip(*rows, strict=True)) or ((),) * 6
        reason, number, stamp_ns, *xyz = columns
        numbers, stamps = (np.array(column, dtype=np.int64) for column in (number, stamp_ns))
        return cls(np.array(reason, dtype=str), numbers, stamps, np.array(xyz, dtype=float).T)

    @classmethod
    def none(cls) -> RefusedPings:
        """No pings."""
        return cls.of(())

    @property
    def rows(self) -> list[RefusedPing]:
        """The pings as plain values."""
        columns = self.reason, self.number, self.stamp_ns, *self.xyz.T
        lists = (column.tolist() for column in columns)
        return [RefusedPing(*row) for row in zip(*lists, strict=True)]

    @property
    def placed(self) -> RefusedPings:
        """The pings whose place is known."""
        return self[np.isfinite(self.xyz[:, :2]).all(axis=1)]

    @property
    def counts(self) -> dict[str, int]:
        """Number of refused pings by reason, including those no longer stored."""
        return {
            str(reason): int(self.number[self.reason == reason].max()) + 1
            for reason in np.unique(self.reason)
        }

    def more(self, reason: str, stamp_ns: np.ndarray, xyz: np.ndarray) -> RefusedPings:
        """These and further pings of a reason, in order: stamp_ns [K], xyz [K, 3]."""
        if not len(stamp_ns):
            return self
        first, same = self.counts.get(reason, 0), self.reason == reason
        last = first + len(stamp_ns)
        new = slice(max(0, len(stamp_ns) - MAX_PER_REASON), None)
        old = self[~same | (self.number >= last - MAX_PER_REASON)]
        number = np.arange(first, last)[new]
        columns = (np.full(len(number), reason), number, stamp_ns[new], xyz[new])
        known = (old.reason, old.number, old.stamp_ns, old.xyz)
        return RefusedPings(*map(np.concatenate, zip(known, columns, strict=True)))


class RefusedPingStore:
    """Counts refused pings, and stores the newest of each reason with their places.

    Two threads may use it.

    Attributes:
        counts: of all refused pings by reason, including those that wait for their place.
        version: changes with the stored pings.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.version = 0
        self._lock = threading.Lock()
        self._newest: dict[str, deque[RefusedPing]] = {}
        self._next: Counter[str] = Counter()  # numbers
        self._new: deque[RefusedPing] = deque(maxlen=MAX_PER_REASON * len(REASONS))

    def store(self, reason: str, stamp_ns: int, xyz: Xyz = NOWHERE) -> None:
        """Store a refused ping that is counted already."""
        with self._lock:
            row = RefusedPing(reason, self._next[reason], stamp_ns, *xyz)
            self._next[reason] += 1
            self._newest.setdefault(reason, deque(maxlen=MAX_PER_REASON)).append(row)
            self._new.append(row)
            self.version += 1

    def take_new(self) -> list[RefusedPing]:
        """The pings stored since the last call, the newest if there are too many."""
        if not self._new:
            return []
        with self._lock:
            found = list(self._new)
            self._new.clear()
        return found

    def newest(self) -> RefusedPings:
        """All stored pings."""
        with self._lock:
            rows = list(chain.from_iterable(self._newest.values()))
        return RefusedPings.of(rows)

    def recover(self, known: RefusedPings) -> None:
        """Add the pings of an earlier process and continue their numbers."""
        for row in known.rows:
            self._newest.setdefault(row.reason, deque(maxlen=MAX_PER_REASON)).append(row)
        self._next.update(known.counts)
        self.version += 1

    def clear(self) -> None:
        """Remove the stored pings and number from 0; the counts stay."""
        with self._lock:
            self._newest.clear()
            self._new.clear()
            self._next.clear()
            self.version += 1
