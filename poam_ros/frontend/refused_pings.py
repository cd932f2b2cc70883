"""Refused pings, and where they were: the newest of each reason. Knows no ROS; metres, nanoseconds.

A ping that is refused on arrival waits, as others do, until odometry says where it was taken.
Where nobody knows, it is counted all the same. A flood of one reason pushes out no other's.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..core.samples import Samples
from .ranges import RawPing

#: Why pings are refused, in the order of their numbers on the topic `pings/refused`: new ones go to
#: the end. docs/troubleshooting.md says what to do about each.
REASONS = (
    "nan", "no_return", "too_close", "out_of_range", "low_confidence", "duplicate", "repeat",
    "no_odometry", "no_mount", "water_level_stale", "too_noisy", "position_uncertain",
    "outside_workspace", "wild_elevation", "false_echo", "waiting", "paused", "after_mission",
    "overload", "log_full", "reset", "standing",
)  # fmt: skip
#: Refused pings of each reason that are remembered.
MAX_PER_REASON = 1000
#: Refused pings that wait for odometry, at most.
MAX_PENDING = 200
#: Where a ping was, x, y and z in m; z is NaN where only its place is known, all where nothing is.
Spot = tuple[float, float, float]
NOWHERE: Spot = (math.nan, math.nan, math.nan)


class RefusedPing(NamedTuple):
    """A refused ping; ``number`` counts those of its reason from 0, since the mission's begin."""

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
        reason: of each, by name [N].
        number: counts the refused pings of each reason from 0, forgotten ones too [N].
        stamp_ns: time of measurement [N]; 0 where nobody knows.
        xyz: where they were [N, 3], in m; z is NaN where no elevation is known, all three where
            nobody knows the place.
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
        """Rows as ``RefusedPing`` has them; None is NaN."""
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
        """Each as plain values."""
        columns = self.reason, self.number, self.stamp_ns, *self.xyz.T
        lists = (column.tolist() for column in columns)
        return [RefusedPing(*row) for row in zip(*lists, strict=True)]

    @property
    def placed(self) -> RefusedPings:
        """Those whose place is known."""
        return self[np.isfinite(self.xyz[:, :2]).all(axis=1)]

    @property
    def counts(self) -> dict[str, int]:
        """How many were refused in all, by reason."""
        return {
            str(reason): int(self.number[self.reason == reason].max()) + 1
            for reason in np.unique(self.reason)
        }

    def more(self, reason: str, stamp_ns: np.ndarray, xyz: np.ndarray) -> RefusedPings:
        """With further pings of a reason, in order: stamp_ns [K], xyz [K, 3] as the attributes."""
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
    """Counts refused pings, and remembers where the newest of each reason were.

    Two threads may call it, but ``refuse_unlocated``, ``locate_pending`` and ``abandon_pending`` are one's.

    Attributes:
        counts: of all refused pings by reason, those that wait for their place too.
        version: changes with what is remembered.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.version = 0
        self._lock = threading.Lock()
        self._newest: dict[str, deque[RefusedPing]] = {}
        self._next: Counter[str] = Counter()  # numbers
        self._new: deque[RefusedPing] = deque(maxlen=MAX_PER_REASON * len(REASONS))
        self._waiting: deque[tuple[RawPing, str, float]] = deque()

    @property
    def waiting(self) -> int:
        """Refused pings whose place is not known yet."""
        return len(self._waiting)

    def refuse(self, reason: str, stamp_ns: int, spot: Spot = NOWHERE) -> None:
        """A ping is refused, and this is all that will be known of its place."""
        self.counts[reason] += 1
        self._remember(reason, stamp_ns, spot)

    def refuse_placed(self, reason: str, pings: Samples) -> None:
        """Placed pings are refused."""
        stamps, places = pings.stamp_ns.tolist(), pings.xy.tolist()
        for stamp_ns, (x, y), z in zip(stamps, places, pings.z.tolist(), strict=True):
            self.refuse(reason, stamp_ns, (x, y, z))

    def refuse_unlocated(self, reason: str, ping: RawPing, since_s: float) -> None:
        """A ping is refused; since a steady time, in s, it waits to be found where it was."""
        self.counts[reason] += 1
        if len(self._waiting) >= MAX_PENDING:
            self._abandon_first()
        self._waiting.append((ping, reason, since_s))

    def locate_pending(self, find: Callable[[RawPing, float], tuple[int, Spot] | None]) -> None:
        """Find out where those that wait were, in their order.

        Args:
            find: given a ping and since when it waits, returns its time of measurement in ns and
                its place; None while odometry may still tell.
        """
        while self._waiting:
            ping, reason, since_s = self._waiting[0]
            found = find(ping, since_s)
            if found is None:
                return
            self._waiting.popleft()
            self._remember(reason, *found)

    def abandon_pending(self) -> None:
        """Nobody will know where those that wait were."""
        while self._waiting:
            self._abandon_first()

    def take_new(self) -> list[RefusedPing]:
        """What was remembered since the last call, as far as there was room."""
        if not self._new:
            return []
        with self._lock:
            found = list(self._new)
            self._new.clear()
        return found

    def newest(self) -> RefusedPings:
        """All that is remembered."""
        with self._lock:
            rows = list(chain.from_iterable(self._newest.values()))
        return RefusedPings.of(rows)

    def recover(self, known: RefusedPings) -> None:
        """Remember what another one did, which numbers go on from."""
        for row in known.rows:
            self._newest.setdefault(row.reason, deque(maxlen=MAX_PER_REASON)).append(row)
        self._next.update(known.counts)
        self.version += 1

    def clear(self) -> None:
        """Forget what is remembered, and number anew; the counts stay."""
        with self._lock:
            self._newest.clear()
            self._new.clear()
            self._next.clear()
            self.version += 1

    def _remember(self, reason: str, stamp_ns: int, spot: Spot) -> None:
        with self._lock:
            row = RefusedPing(reason, self._next[reason], stamp_ns, *spot)
            self._next[reason] += 1
            self._newest.setdefault(reason, deque(maxlen=MAX_PER_REASON)).append(row)
            self._new.append(row)
            self.version += 1

    def _abandon_first(self) -> None:
        ping, reason, _ = self._waiting.popleft()
        self._remember(reason, ping.stamp_ns, NOWHERE)
