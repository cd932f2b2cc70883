"""From raw pings and odometry to placed elevations. Knows no ROS; metres, nanoseconds, radians.

A ping becomes a sample in two steps: its range is judged (REP-117), then it waits until odometry
brackets its time of measurement, and is placed by interpolation. Every ping ends in exactly one of
four heaps, so that always ``received = accepted + held + pending + sum of rejected``.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.samples import Samples
from .odometry import OdometryBuffer, VehicleState
from .placing import Mount, Placer, Standing
from .ranges import RangeJudge, RawPing
from .refused import RefusedStore, Spot
from .settings import GateSettings
from .water import Water, WaterLevel

#: The reasons by which pings are refused once the mission is done, and while the model, which all
#: that was accepted waits for, is so far behind that no more may wait.
AFTER_MISSION, OVERLOAD = "after_mission", "overload"
#: The reason by which they are refused whose place nobody knows.
NO_ODOMETRY = "no_odometry"
#: A placed ping: time of measurement; x, y, z, noise, range and what was applied to it, flat.
Row = tuple[int, tuple[float, ...]]


class PingGate:
    """Takes pings and odometry in any interleaving and hands back placed samples, in order.

    ``closed``: the reason by which every ping is refused on arrival, None while pings are taken.
    ``full``: whether there is no room for what would be accepted.
    ``odd``: what was taken although something about it was not: odometry that is elsewhere
    (``teleport``) or with an impossible covariance, a water level that cannot be one.
    ``screened``: whether placed pings are judged before they are accepted (``acceptance``), which
    counts here those that wait for it (``unjudged``) and those in doubt (``held``).
    ``refused``: what is known of refused pings.
    """

    def __init__(self, settings: GateSettings) -> None:
        self.settings, self.screened = settings, False
        self.unjudged = self.held = 0
        self.refused = RefusedStore()
        self.closed: str | None = None
        self.full = False
        self.received = 0
        self.accepted = 0
        self.odometry_rejected: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self._placer, self._standing = Placer(), Standing()
        self._judge = RangeJudge()
        self._waiting: deque[tuple[RawPing, float]] = deque()
        self._earliest = 0  # no stamp of those that wait is before this one
        self._first = 0  # accepted before the number 0 that is counted from now

    @property
    def buffer(self) -> OdometryBuffer:
        """Where the vehicle was."""
        return self._placer.buffer

    @property
    def water(self) -> Water:
        """Its level, as it was heard."""
        return self._placer.water

    @property
    def rejected(self) -> Counter[str]:
        """Refused pings by reason."""
        return self.refused.counts

    @property
    def pending(self) -> int:
        """Pings that wait for odometry, or to be judged."""
        return len(self._waiting) + self.unjudged

    @property
    def samples(self) -> int:
        """Accepted since the beginning, or since numbers began anew."""
        return self.accepted - self._first

    def level(self, now: Moment) -> float | None:
        """The water's, over the map's datum, in m; None while none is known."""
        return self.water.level(self.settings, now)

    def add_odometry(self, state: VehicleState) -> str | None:
        """Take one state; return the reason where it is refused (it is counted)."""
        restarts = self.buffer.restarts
        s = self.settings
        reason = self.buffer.add(state, s.max_vehicle_speed, s.max_jump)
        if reason is not None:
            self.odometry_rejected[reason] += 1
        else:
            self.odd["teleport"] += self.buffer.jumped
            self.odd["covariance"] += state.odd_variance
        if self.buffer.restarts > restarts:
            self._set_back()
        return reason

    def hear(self, event: RawPing | Mount | WaterLevel, now: Moment, full: bool = False) -> None:
        """Take a ping, how a sonar is mounted, or the water's level; ``full`` as of the class."""
        self.full = full
        match event:
            case RawPing():
                self.add_ping(event, now)
            case Mount():
                self._placer.add(event)
            case WaterLevel(level):
                self.odd["water_level"] += not self.water.add(level, now)

    def add_ping(self, ping: RawPing, now: Moment) -> None:
        """Take one ping: it is rejected at once, or waits for `take`."""
        reason = self.closed or self._judge.fault_of(ping, self.settings)
        if reason is None and self.full:
            reason = OVERLOAD
        if reason is not None:
            self.refuse(ping, reason, now)
            return
        self.received += 1
        if len(self._waiting) >= self.settings.capacity:
            oldest, _ = self._waiting.popleft()
            self.refused.refuse(NO_ODOMETRY, oldest.stamp_ns)
        earliest = self._earliest if self._waiting else ping.stamp_ns
        self._earliest = min(earliest, ping.stamp_ns)
        self._waiting.append((ping, now.steady_s))

    def refuse(self, ping: RawPing, reason: str, now: Moment) -> None:
        """A ping is rejected on arrival; where it was is found out by `take`."""
        self.received += 1
        self.refused.postpone(reason, ping, now.steady_s)

    def take(self, now: Moment) -> Samples:
        """The samples that can be placed by now, in the order of arrival; without numbers where
        they are screened."""
        settings, newest = self.settings, self.buffer.newest_ns
        offset_ns = round(settings.range_time_offset * SECOND)
        if self.refused.waiting:
            self.refused.settle(partial(self._find, newest, offset_ns, now))
        if self._all_wait(None if newest is None else newest - offset_ns, now):
            return Samples.empty()
        area = None if settings.workspace is None else settings.workspace.grown(settings.margin)
        rows: list[Row] = []
        still: deque[tuple[RawPing, float]] = deque()
        for ping, since in self._waiting:
            measured = ping.stamp_ns + offset_ns
            if newest is None or measured > newest:
                if now.steady_s - since > settings.odometry_wait:
                    self.refused.refuse(NO_ODOMETRY, measured)
                else:
                    still.append((ping, since))
                continue
            row = self._placer.row(ping, measured, area, settings, now)
            if isinstance(row, str):
                spot = self._placer.spot(ping, measured, settings, now)
                self.refused.refuse(row, measured, spot)
            elif self._standing.full(row[:2], settings.pings_at_place):
                self.refused.refuse("standing", measured, row[:3])
            else:
                rows.append((measured, row))
        self._waiting = still
        self._earliest = min((ping.stamp_ns for ping, _ in still), default=0)
        samples = _unnumbered(rows)
        if not self.screened:
            return self.accept(samples)
        self.unjudged += len(samples)
        return samples

    def accept(self, samples: Samples) -> Samples:
        """Count placed pings as accepted, and number them."""
        numbers = np.arange(self.samples, self.samples + len(samples), dtype=np.int64)
        self.accepted += len(samples)
        return replace(samples, number=numbers)

    def counts(self) -> dict[str, int]:
        """How many pings are where; the first is the sum of the others."""
        return {
            "received": self.received,
            "accepted": self.accepted,
            "held": self.held,
            "pending": self.pending,
            "rejected": sum(self.rejected.values()),
        }

    def finish(self) -> None:
        """The mission is done: what waits and what comes is rejected as ``after_mission``."""
        self.closed = AFTER_MISSION
        for ping, since_s in self._waiting:
            self.refused.postpone(AFTER_MISSION, ping, since_s)
        self._waiting.clear()

    def reopen(self, *reasons: str) -> str | None:
        """Take pings again where they are refused for one of these; which it was, or None."""
        if self.closed not in reasons:
            return None
        closed, self.closed = self.closed, None
        return closed

    def put_back(self, unjudged: int, held: int) -> None:
        """So many pings were received before a restart, and are judged, or judged again, now."""
        self.received += unjudged + held
        self.unjudged, self.held = self.unjudged + unjudged, self.held + held

    def renumber(self, number: int = 0) -> None:
        """The next sample has this number."""
        self._first = self.accepted - number

    def restart(self) -> None:
        """Time was set back: odometry and waiting pings belong to another time."""
        self.buffer.clear()
        self._set_back()

    def _all_wait(self, newest_ns: int | None, now: Moment) -> bool:
        """Whether there is nothing to do for any ping: under a flood each look would cost more."""
        if not self._waiting:
            return True
        ahead = newest_ns is None or self._earliest > newest_ns
        return ahead and now.steady_s - self._waiting[0][1] <= self.settings.odometry_wait

    def _find(
        self, newest_ns: int | None, offset_ns: int, now: Moment, ping: RawPing, since_s: float
    ) -> tuple[int, Spot] | None:
        """When and where a refused ping was taken; None while odometry may still tell."""
        measured = ping.stamp_ns + offset_ns
        waits = newest_ns is None or measured > newest_ns
        if waits and now.steady_s - since_s <= self.settings.odometry_wait:
            return None
        return measured, self._placer.spot(ping, measured, self.settings, now)

    def _set_back(self) -> None:
        """What waits is of another time than odometry will be."""
        self._judge.clear()
        for ping, _ in self._waiting:
            self.refused.refuse(NO_ODOMETRY, ping.stamp_ns)
        self._waiting.clear()
        self.refused.give_up()


def _unnumbered(rows: list[Row]) -> Samples:
    if not rows:
        return Samples.empty()
    stamps, values = zip(*rows, strict=True)
    numbers, table = np.full(len(rows), -1, dtype=np.int64), np.array(values)
    stamp_ns = np.array(stamps, dtype=np.int64)
    z, noise_std, distance = table[:, 2:5].T
    return Samples(numbers, stamp_ns, table[:, :2], z, noise_std, distance, table[:, 5:])
