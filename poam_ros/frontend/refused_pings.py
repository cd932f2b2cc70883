"""The ledger of all pings (received = accepted + pending + sum of rejected), and the newest refused
ones of each reason, with their places. No ROS; metres, nanoseconds.

A ping that is refused on arrival waits for odometry like any other, to find its place. Without a
place it is counted all the same. Many pings of one reason displace no pings of another.
"""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.samples import Samples

if TYPE_CHECKING:
    from .front_end import FrontEnd

#: Why pings are refused, in the order of their numbers on the topic `pings/refused` (append new
#: ones), and what to do where many are; empty where that is normal. docs/troubleshooting.md has
#: more.
REASONS = {
    "nan": "the driver sends NaN: the sonar fails, or its messages are misread",
    "no_return": "no echo returns: too deep, or the sonar's range is set too short",
    "too_close": "below sonar.min_range or the driver's: echoes of the hull, or a wrong limit",
    "out_of_range": "above sonar.max_range or the driver's: perhaps a wrong limit",
    "low_confidence": "lower sonar.min_confidence, or repair the sonar",
    "duplicate": "two publishers on the sonar's topic, or a recording played twice",
    "repeat": "",
    "no_odometry": "no odometry at the pings' times: compare the clocks of sonar and odometry; set "
    "sonar.time_offset or odometry.timeout",
    "no_mount": "tf2 has no transform of the sonar's frame, or the beam does not point down: "
    "publish it, or leave sonar.base_frame empty",
    "water_level_stale": "no water level is received: start its source, or set water.level_timeout "
    "to 0",
    "too_noisy": "their noise is above noise.max_std",
    "position_uncertain": "the position is worse than odometry.max_std: wait for a fix",
    "outside_workspace": "the vehicle is outside the workspace: check workspace and frame_id",
    "wild_elevation": "elevations of 100 km: odometry's z is not in metres",
    "false_echo": "",
    "waiting": "",
    "paused": "",
    "after_mission": "",
    "overload": "the model cannot keep up: give it a core, or raise batch.size",
    "log_full": "the disk of mission_dir is too slow",
    "standing": "",
    "withdrawn": "",
    "wrong_frame": "odometry is in another frame than the map: start with frame_id:= the "
    "odometry's frame if its axes are east, north, up, or publish the transform between them for "
    "tf2_ros",
    "body_frame": "odometry is in a frame that moves with the vehicle: choose the driver's topic "
    "with odometry in a fixed frame",
    "stale_transform": "start the publisher of the transform to the map again",
    "above_water": "odometry has the vehicle above the water; z must be 0 there and grow upwards: "
    "convert the driver's axes, set odometry.surface for a vehicle that floats, or "
    "odometry.vertical to datum where z is a height above the map's datum (and water.level there)",
    "beam_up": "the sonar's beam points up: check sonar.tilt, and that attitudes are from "
    "forward-left-up to east-north-up",
    "mirrored": "the course is mirrored against the heading: odometry must be in axes east, north, "
    "up (REP-103)",
    "other_clock": "pings and odometry are stamped by different clocks: synchronise them, or set "
    "sonar.time_offset",
}
#: The same for what refuses odometry alone.
ODOMETRY_REASONS = {
    "jump": "check the position fix; see odometry.max_speed and odometry.max_jump",
    "not_finite": "the driver sends positions that are not numbers: wait for its first fix",
    "invalid_orientation": "the driver sends no attitude: all zeros is none",
}
ADVICE = ODOMETRY_REASONS | REASONS
#: Said in place of a reason where no ping came at all.
NO_PING = "no_ping"
#: Reasons that driving on may end: by driving into the workspace, and by diving to the bottom.
OUTSIDE = "outside_workspace"
OUT_OF_REACH = "nan", "no_return", "too_close", "out_of_range", "low_confidence"
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


#: The newest pings and odometry that are judged, in s.
LATELY_S = 10.0
#: Share of them that is refused: a warning; an error if none is accepted. A fault refuses all; a
#: good sonar that loses a tenth at random is above a fifth in a quarter of all seconds at 1 Hz.
MANY = 0.5


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
        first, new = self.counts.get(reason, 0), slice(-MAX_PER_REASON, None)
        last = first + len(stamp_ns)
        places = zip(
            range(first, last)[new], stamp_ns[new].tolist(), xyz[new].tolist(), strict=True
        )
        more = [RefusedPing(reason, number, ns, *place) for number, ns, place in places]
        return RefusedPings.of(
            row
            for row in (*self.rows, *more)
            if row.reason != reason or row.number >= last - MAX_PER_REASON
        )


class Ledger:
    """Counts pings by state and numbers the accepted ones. Thread-safe.

    A ping is in one state at a time: it waits for odometry (pending), is accepted or rejected.
    Every transition is a method. An accepted ping may be withdrawn from the map later.

    Args:
        numbering: whether accepted pings are numbered in order; False: they have numbers already.

    Attributes:
        received, accepted: number of pings so far.
        pending: pings that wait for odometry.
        rejected: refused pings by reason, including those that wait for their place.
        version: changes with the stored refused pings, the newest of each reason.
        odometry_rejected: refused odometry by reason.
        suspect: unusual input by kind: odometry accepted after a jump (``teleport``), with an
            invalid ``covariance`` or ``above_water``; an invalid ``water_level``, which is ignored.
    """

    def __init__(self, numbering: bool = True) -> None:
        self.received = self.accepted = self.pending = 0
        self.rejected: Counter[str] = Counter()
        self.version = 0
        self.odometry_rejected: Counter[str] = Counter()
        self.suspect: Counter[str] = Counter()
        self.numbering = numbering
        self._first = 0  # accepted pings before number 0
        self._lock = threading.RLock()
        self._newest: dict[str, deque[RefusedPing]] = {}
        self._next: Counter[str] = Counter()  # numbers of refused pings
        self._new: deque[RefusedPing] = deque(maxlen=MAX_PER_REASON * len(REASONS))

    @property
    def samples(self) -> int:
        """Accepted pings since the beginning or the last reset."""
        return self.accepted - self._first

    def counts(self) -> dict[str, int]:
        """Pings by state; ``received`` is the sum of the others."""
        with self._lock:
            return {
                "received": self.received,
                "accepted": self.accepted,
                "pending": self.pending,
                "rejected": sum(self.rejected.values()),
            }

    def receive(self, count: int = 1) -> None:
        """Pings arrived; they wait for odometry."""
        with self._lock:
            self.received += count
            self.pending += count

    def refuse(self, reason: str) -> str:
        """A ping that was received is refused; returns the reason. ``store`` it once its place is
        known."""
        with self._lock:
            self.pending -= 1
            self.rejected[reason] += 1
        return reason

    def store(self, reason: str, stamp_ns: int, xyz: Xyz = NOWHERE) -> None:
        """Store a ping that was refused."""
        with self._lock:
            row = RefusedPing(reason, self._next[reason], stamp_ns, *xyz)
            self._next[reason] += 1
            self._remember(row)
            self._new.append(row)

    def take_refused(self) -> list[RefusedPing]:
        """The refused pings stored since the last call, the newest if there are too many."""
        if not self._new:
            return []
        with self._lock:
            found = list(self._new)
            self._new.clear()
        return found

    @property
    def refused(self) -> RefusedPings:
        """All stored refused pings."""
        with self._lock:
            rows = list(chain.from_iterable(self._newest.values()))
        return RefusedPings.of(rows)

    def count_suspect(self, kind: str, suspect: bool) -> None:
        """Count input of a kind if it is suspect."""
        self.suspect[kind] += suspect

    def accept(self, placed: Samples) -> Samples:
        """Pings that waited for odometry are placed, and accepted; returns them numbered."""
        with self._lock:
            self.pending -= len(placed)
            first, self.accepted = self.samples, self.accepted + len(placed)
            if not self.numbering:
                return placed
            numbers = np.arange(first, first + len(placed), dtype=np.int64)
            return replace(placed, number=numbers)

    def recover(self, accepted: int, refused: RefusedPings) -> None:
        """Recover after a restart.

        Args:
            accepted: number of the next accepted ping.
            refused: the pings refused before the restart.
        """
        with self._lock:
            self._first = self.accepted - accepted
            for row in refused.rows:
                self._remember(row)
            self._next.update(refused.counts)

    def restart(self) -> None:
        """Number from 0 and forget the refused pings' places; the counts stay."""
        with self._lock:
            for stored in (self._newest, self._new, self._next):
                stored.clear()
            self.version += 1
            self._first = self.accepted

    def _remember(self, row: RefusedPing) -> None:
        self._newest.setdefault(row.reason, deque(maxlen=MAX_PER_REASON)).append(row)
        self.version += 1


class Refusal(NamedTuple):
    """A reason that refuses many or, with the others, ``every`` ping or odometry (``what``)."""

    share: float
    reason: str
    what: str
    every: bool


class Lately:
    """How many pings and odometry messages were refused in the last ``LATELY_S``, and why.

    Attributes:
        refused: shares of the pings by reason, largest first.
        odometry: shares of the odometry by reason.
        fault: why none of the pings could be mapped: the main reason, or ``NO_PING``; empty: some
            could, or nothing but the mission's state was against it.
        lost: messages lost since the start, by topic; ``lost_now``: since the last look.
    """

    def __init__(self) -> None:
        self.refused: dict[str, float] = {}
        self.odometry: dict[str, float] = {}
        self.fault = NO_PING
        self.lost: Counter[str] = Counter()
        self.lost_now = 0
        self._before: deque[tuple[float, int, Counter[str], int, Counter[str]]] = deque()

    def take(self, front_end: FrontEnd, lost: Counter[str], steady_s: float) -> None:
        """Look at the counts, at a steady time in s; call about every second."""
        self.lost_now, self.lost = lost.total() - self.lost.total(), Counter(lost)
        ledger, buffer = front_end.ledger, front_end.buffer
        now = (
            steady_s, ledger.received - ledger.pending, Counter(ledger.rejected),
            buffer.added, Counter(ledger.odometry_rejected),
        )  # fmt: skip
        if not self._before:  # what came before the first look is new as well
            self._before.append((steady_s, 0, Counter(), 0, Counter()))
        self._before.append(now)
        while steady_s - self._before[0][0] > LATELY_S:
            self._before.popleft()
        _, judged, refused, accepted, odd = self._before[0]
        self.refused = _shares(now[2] - refused, now[1] - judged)
        lately = now[4] - odd
        self.odometry = _shares(lately, now[3] - accepted + lately.total())
        main = self.main()
        self.fault = main.reason if main and main.every else "" if now[1] > judged else NO_PING

    def main(self) -> Refusal | None:
        """The main reason of refusal, if there are many or all; None: there are not."""
        found = []
        for what, shares in (("pings", self.refused), ("odometry", self.odometry)):
            known = {reason: share for reason, share in shares.items() if ADVICE.get(reason)}
            every = sum(known.values()) > 1 - 1e-9
            for reason, share in known.items():
                if every or share >= MANY:
                    found.append(Refusal(share, reason, what, every))
        return max(found, default=None)


def _shares(counts: Counter[str], total: int) -> dict[str, float]:
    return {reason: count / total for reason, count in counts.most_common()} if total else {}
