"""What became of every ping: received = accepted + held + pending + sum of rejected."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import numpy as np

from ..core.samples import Samples
from .ranges import RawPing
from .refused_pings import NOWHERE, RefusedPings, RefusedPingStore, Spot


class Ledger:
    """Counts pings, and numbers those that are accepted; whoever moves a ping on says so here.

    A ping is in one state at a time: it waits for odometry, waits for screening, is held, accepted
    or rejected. Any thread may call.

    Args:
        numbering: whether pings are numbered as they come; False: they have numbers of their own.

    Attributes:
        received: pings so far. ``accepted``: of them, those that were accepted.
        waiting: pings that wait for odometry. ``unscreened``: placed ones that wait for screening.
        held: placed pings that wait for confirmation.
        refused: what is known of refused pings.
        odometry_rejected: refused odometry by reason.
        suspect: what was taken although something about it is unusual: odometry that jumped
            (``teleport``) or with an impossible covariance, a water level that is impossible.
    """

    def __init__(self, numbering: bool = True) -> None:
        self.received = self.accepted = self.waiting = self.unscreened = self.held = 0
        self.refused = RefusedPingStore()
        self.odometry_rejected: Counter[str] = Counter()
        self.suspect: Counter[str] = Counter()
        self.numbering = numbering
        self._first = 0  # accepted before the number 0 that is counted from now
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
        """Accepted since the beginning, or since numbers began anew."""
        return self.accepted - self._first

    def counts(self) -> dict[str, int]:
        """How many pings are where; the first is the sum of the others."""
        with self._lock:
            return {
                "received": self.received,
                "accepted": self.accepted,
                "held": self.held,
                "pending": self.pending,
                "rejected": sum(self.rejected.values()),
            }

    def receive_placed(self, count: int) -> None:
        """So many pings came that are placed already, and wait for screening."""
        with self._lock:
            self.received += count
            self.unscreened += count

    def receive(self) -> None:
        """A ping came, and waits for odometry."""
        with self._lock:
            self.received += 1
            self.waiting += 1

    def refuse_arrival(self, reason: str, ping: RawPing, since_s: float) -> None:
        """A ping came and is refused; where it was is found out later."""
        with self._lock:
            self.received += 1
            self.refused.refuse_unlocated(reason, ping, since_s)

    def refuse_waiting(self, reason: str, stamp_ns: int, spot: Spot = NOWHERE) -> None:
        """A ping that waited for odometry is refused; this is all that is known of its place."""
        with self._lock:
            self.waiting -= 1
            self.refused.refuse(reason, stamp_ns, spot)

    def refuse_later(self, reason: str, ping: RawPing, since_s: float) -> None:
        """A ping that waits for odometry is refused; where it was is found out later."""
        with self._lock:
            self.waiting -= 1
            self.refused.refuse_unlocated(reason, ping, since_s)

    def place(self, count: int) -> None:
        """So many pings that waited for odometry are placed, and wait for screening."""
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
        """So many pings were screened, with those held before; returns the accepted ones numbered.

        ``held``: all that are held now.
        """
        with self._lock:
            self.unscreened -= screened
            self.held = len(held)
            self.refused.refuse_placed(reason, refused)
            return self._accept(accepted)

    def recover(self, accepted: int, refused: RefusedPings, unscreened: int, held: int) -> None:
        """Go on after a restart: number after so many accepted pings; ``refused`` are remembered,
        and the others, which were received before it, are screened now."""
        with self._lock:
            self._first = self.accepted - accepted
            self.refused.recover(refused)
            self.received += unscreened + held
            self.unscreened, self.held = self.unscreened + unscreened, self.held + held

    def reset(self, reason: str, forgotten: Samples) -> None:
        """Placed pings that were not accepted yet are refused: a mission is over."""
        with self._lock:
            self.refused.refuse_placed(reason, forgotten)
            self.unscreened = self.held = 0

    def restart(self) -> None:
        """Number anew, and forget the places of refused pings; the counts stay."""
        with self._lock:
            self.refused.clear()
            self._first = self.accepted

    def _accept(self, samples: Samples) -> Samples:
        first, self.accepted = self.samples, self.accepted + len(samples)
        if not self.numbering:
            return samples
        numbers = np.arange(first, first + len(samples), dtype=np.int64)
        return replace(samples, number=numbers)
