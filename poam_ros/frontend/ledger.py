"""The ledger of all pings: received = accepted + held + pending + sum of rejected."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import numpy as np

from ..core.samples import Samples
from .ranges import RawPing
from .refused_pings import NOWHERE, RefusedPings, RefusedPingStore, Xyz


class Ledger:
    """Counts pings by state and numbers the accepted ones. Thread-safe.

    A ping is in one state at a time: it waits for odometry, waits for screening, is held, accepted
    or rejected. Every transition is a method.

    Args:
        numbering: whether accepted pings are numbered in order; False: they have numbers already.

    Attributes:
        received, accepted: number of pings so far.
        waiting: pings that wait for odometry. ``unscreened``: placed pings that wait for screening.
        held: placed pings that wait for confirmation.
        refused: the refused pings.
        odometry_rejected: refused odometry by reason.
        suspect: unusual input by kind: odometry accepted after a jump (``teleport``) or with an
            invalid ``covariance``; an invalid ``water_level``, which is ignored.
    """

    def __init__(self, numbering: bool = True) -> None:
        self.received = self.accepted = self.waiting = self.unscreened = self.held = 0
        self.refused = RefusedPingStore()
        self.odometry_rejected: Counter[str] = Counter()
        self.suspect: Counter[str] = Counter()
        self.numbering = numbering
        self._first = 0  # accepted pings before number 0
        self._lock = threading.Lock()

    @property
    def rejected(self) -> Counter[str]:
        """Refused pings by reason."""
        return self.refused.counts

    @property
    def pending(self) -> int:
        """Pings that wait for odometry, or for screening."""
        return self.waiting + self.unscreened

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
                "held": self.held,
                "pending": self.pending,
                "rejected": sum(self.rejected.values()),
            }

    def receive_placed(self, count: int) -> None:
        """Pings arrived already placed; they wait for screening."""
        with self._lock:
            self.received += count
            self.unscreened += count

    def receive(self) -> None:
        """A ping arrived; it waits for odometry."""
        with self._lock:
            self.received += 1
            self.waiting += 1

    def refuse_arrival(self, reason: str, ping: RawPing, since_s: float) -> None:
        """A ping is refused on arrival; its place will be found later."""
        with self._lock:
            self.received += 1
            self.refused.refuse_unlocated(reason, ping, since_s)

    def refuse_waiting(self, reason: str, stamp_ns: int, xyz: Xyz = NOWHERE) -> None:
        """A ping that waited for odometry is refused; ``xyz`` is final."""
        with self._lock:
            self.waiting -= 1
            self.refused.refuse(reason, stamp_ns, xyz)

    def refuse_later(self, reason: str, ping: RawPing, since_s: float) -> None:
        """A ping that waited for odometry is refused; its place will be found later."""
        with self._lock:
            self.waiting -= 1
            self.refused.refuse_unlocated(reason, ping, since_s)

    def refuse_odometry(self, reason: str) -> None:
        """Count refused odometry."""
        self.odometry_rejected[reason] += 1

    def count_suspect(self, kind: str, suspect: bool) -> None:
        """Count input of a kind if it is suspect."""
        self.suspect[kind] += suspect

    def place(self, count: int) -> None:
        """Pings that waited for odometry are placed; they wait for screening."""
        with self._lock:
            self.waiting -= count
            self.unscreened += count

    def accept(self, placed: Samples) -> Samples:
        """Placed pings are accepted without screening; returns them numbered."""
        with self._lock:
            self.unscreened -= len(placed)
            return self._accept(placed)

    def screen(
        self, screened: int, accepted: Samples, held: Samples, reason: str, refused: Samples
    ) -> Samples:
        """New and held pings were screened; returns the accepted ones numbered.

        Args:
            screened: number of new pings among them.
            accepted: newly accepted pings.
            held: all pings that are held now.
            reason: why the others are refused.
            refused: newly refused pings.
        """
        with self._lock:
            self.unscreened -= screened
            self.held = len(held)
            self.refused.refuse_placed(reason, refused)
            return self._accept(accepted)

    def recover(self, accepted: int, refused: RefusedPings, unscreened: int, held: int) -> None:
        """Recover after a restart.

        Args:
            accepted: number of the next accepted ping.
            refused: the pings refused before the restart.
            unscreened: pings received before it that wait for screening.
            held: pings received before it that are held.
        """
        with self._lock:
            self._first = self.accepted - accepted
            self.refused.recover(refused)
            self.received += unscreened + held
            self.unscreened, self.held = self.unscreened + unscreened, self.held + held

    def reset(self, reason: str, forgotten: Samples) -> None:
        """Refuse the placed pings that were not accepted yet, before the model is reset."""
        with self._lock:
            self.refused.refuse_placed(reason, forgotten)
            self.unscreened = self.held = 0

    def restart(self) -> None:
        """Number from 0 and forget the refused pings' places; the counts stay."""
        with self._lock:
            self.refused.clear()
            self._first = self.accepted

    def _accept(self, samples: Samples) -> Samples:
        first, self.accepted = self.samples, self.accepted + len(samples)
        if not self.numbering:
            return samples
        numbers = np.arange(first, first + len(samples), dtype=np.int64)
        return replace(samples, number=numbers)
