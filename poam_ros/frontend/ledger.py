"""The ledger of all pings: received = accepted + pending + sum of rejected."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import replace
from itertools import chain

import numpy as np

from ..core.samples import Samples
from .refused_pings import MAX_PER_REASON, NOWHERE, REASONS, RefusedPing, RefusedPings, Xyz


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
