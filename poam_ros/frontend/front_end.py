"""The front end: events in; placed and refused pings out. No ROS; metres, nanoseconds, radians.

A node, a lock-step mission and a recording use the same one. It has no thread and no clock: the
caller passes the time. First the range of a ping is checked (REP-117). Then the ping waits until
odometry brackets its time of measurement, and is placed by interpolation.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from functools import partial

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import shown
from ..core.samples import Samples
from . import events
from .events import EXPLORING, OVER, PAUSED, PILOT, STATES, WAITING, Event, EventResult, Message
from .ledger import Ledger
from .odometry import CourseCheck, OdometryBuffer, VehicleState
from .placing import PingPlacer, Standing
from .ranges import RangeFilter, RawPing, RepeatedRange
from .refused_pings import REASONS, Xyz
from .settings import SURFACE, FrontEndSettings

#: Reasons to refuse pings: the mission is done; the queue of samples that wait for the model is
#: full; the place is not known.
AFTER_MISSION, OVERLOAD = "after_mission", "overload"
NO_ODOMETRY, OTHER_CLOCK = "no_odometry", "other_clock"
ABOVE_WATER, MIRRORED = "above_water", "mirrored"
#: z above the water that waves and rolling may cause, in m.
MAX_ABOVE = 1.0
#: Odometry comes 5 times a second or more: while it does, a ping whose stamp is so far from the
#: newest one's has another clock.
OTHER_CLOCK_NS, ODOMETRY_PERIOD_S = 2 * SECOND, 1.0
UNLIMITED = Message(
    "no_limits", "the sonar's messages have no limits (min_range, max_range): any range is taken; "
    "set sonar.min_range and sonar.max_range",
)  # fmt: skip
#: A placed ping: time of measurement; x, y, z, noise, range and the applied corrections, flat.
Row = tuple[int, tuple[float, ...]]
NOTHING = EventResult()


class PilotSurvey:
    """Decides when the pilot survey is over.

    It is over when the mission is exploring, or over; without a mission state, after ``samples``.

    Attributes:
        samples: accepted pings that end it.
        state: the last mission state received; None before the first.
        source_present: whether any node publishes the mission state.
        after_reset: whether ``samples`` ends it: after a reset in mid-mission no end of a pilot
            survey will be published. It is over as well when the vehicle stands while exploring:
            the planner then waits for a map, and no further ping would be accepted.
        standing: whether the last ping was refused because the vehicle stands.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.state: str | None = None
        self.source_present = self.after_reset = self.standing = False

    def follow(self, state: str) -> None:
        """Take a new mission state."""
        self.state, self.source_present = state, True
        self.after_reset = self.after_reset and state not in (PILOT, *OVER)

    def follow_source(self, present: bool) -> None:
        """Whether any node publishes the mission state."""
        self.source_present = present

    def change(self, samples: int) -> None:
        """Replace the number of pings that ends it."""
        self.samples = samples

    def reset(self) -> None:
        """Model and data were cleared."""
        self.after_reset, self.standing = self.state != PILOT, False

    def recover(self, after_reset: bool) -> None:
        """Recover after a restart; ``after_reset``: whether the mission was reset before."""
        self.after_reset = after_reset

    def over(self, samples: int) -> bool:
        """Whether it is over after this number of accepted pings."""
        enough = samples >= self.samples
        if self.after_reset:
            return enough or (self.standing and self.state == EXPLORING)
        return self.state in (EXPLORING, *OVER) or (enough and not self.source_present)


class FrontEnd:
    """Takes pings and odometry in any order and returns placed samples in order of arrival.

    Args:
        settings: how pings are placed; may be replaced at any time.
        pilot_samples: pings of the pilot survey if no mission state is published.

    Attributes:
        ledger: counts every ping.
        pilot: the pilot survey; the first batch waits for its end.
        closed: the reason to refuse every ping on arrival; None while pings are taken.
        clock_offset_s: how far the last ping of another clock was ahead of odometry, in s.
    """

    clock_offset_s = 0.0

    def __init__(self, settings: FrontEndSettings, pilot_samples: int = 500) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self.pilot = PilotSurvey(pilot_samples)
        self.closed: str | None = None
        self._placer, self._standing = PingPlacer(), Standing()
        self._range_filter, self._repeated = RangeFilter(), RepeatedRange()
        self._course = CourseCheck()
        self._fault = ""  # why the last odometry was refused, if pings are refused by that name
        self._odometry_s = -math.inf  # when the last odometry came, by the steady clock
        self._told_of_limits = False  # that pings have none
        self._waiting: deque[tuple[RawPing, float, int]] = deque()  # since; ahead of odometry, ns
        self._earliest = 0  # lower bound of the waiting pings' stamps

    @property
    def buffer(self) -> OdometryBuffer:
        """The odometry."""
        return self._placer.buffer

    def level(self, now: Moment) -> float | None:
        """The water level, in m; None while none is known."""
        return self._placer.water.level(self.settings, now)

    def sonar_heights(self, stamp_ns: np.ndarray, now: Moment) -> np.ndarray:
        """z of a sonar at stamps [N], as [N] in m: where refused pings without one are drawn."""
        return self._placer.sonar_heights(stamp_ns, self.settings, now)

    def handle(self, event: Event, now: Moment, full: bool = False) -> EventResult:
        """Handle an event; returns at once.

        ``full``: whether the queue of accepted samples is full.
        """
        match event:
            case VehicleState():
                restarts, self._odometry_s = self.buffer.restarts, now.steady_s
                self.add_odometry(event)
                if self.buffer.restarts > restarts:
                    text = "odometry was set back: starting again"
                    return EventResult(message=Message("odometry_set_back", text))
            case RawPing():
                self.add_ping(event, now, full)
                limited = event.max_range > 0 or self.settings.max_range
                if not (limited or self._told_of_limits):
                    self._told_of_limits = True
                    return EventResult(message=UNLIMITED)
            case events.SonarMount():
                self._placer.add(event)
            case events.WaterLevel(level):
                self.ledger.count_suspect("water_level", not self._placer.water.add(level, now))
            case events.Tick():
                samples = self.take(now)
                text = self._repeated_of(samples)
                message = Message("repeated_range", text) if text else None
                return EventResult(samples, message=message) if len(samples) else NOTHING
            case events.MissionStateChanged(name):
                return self._follow(name, now)
            case events.MissionStateSourceChanged(present):
                self.pilot.follow_source(present)
                if not present and (lifted := self.reopen(PAUSED, WAITING)):
                    text = f"mission/state lost its publisher: no longer {lifted}"
                    return EventResult(message=Message("states_gone", text))
            case events.OdometryRefused(reason):
                self._refuse_odometry(reason)
            case events.ClockSetBack():
                self.buffer.clear()
                self._set_back()
                return EventResult(
                    message=Message("clock", "the clock was set back: waiting for odometry")
                )
            case events.SettingsChanged(settings, _, pilot_samples):
                self.settings = settings
                self.pilot.change(pilot_samples)
            case events.ResetRequested():
                self.reopen(AFTER_MISSION)
                self.pilot.reset()
                self._standing = Standing()  # the new map has no ping from here
        return NOTHING

    def add_odometry(self, state: VehicleState) -> str | None:
        """Take one state; returns the reason if it is refused (and counts it)."""
        restarts, ledger = self.buffer.restarts, self.ledger
        s = self.settings
        if s.surface:
            place, spread = state.position[:2], state.variance[:2]
            state = replace(state, position=(*place, 0.0), variance=(*spread, 0.0))
        reason = self._vertical_fault(state)
        reason = reason or self.buffer.add(state, s.max_vehicle_speed, s.max_jump)
        if reason is not None:
            self._refuse_odometry(reason)
        else:
            self._fault = ""
            ledger.count_suspect("teleport", self.buffer.jumped)
            ledger.count_suspect("covariance", state.invalid_variance)
        if self.buffer.restarts > restarts:
            self._set_back()
        return reason

    def _vertical_fault(self, state: VehicleState) -> str | None:
        """What is wrong with odometry whose z counts from the surface; None: nothing."""
        if self.settings.vertical != SURFACE:
            return None
        if state.position[2] > MAX_ABOVE:
            return ABOVE_WATER
        return MIRRORED if self._course.mirrored(state) else None

    def _refuse_odometry(self, reason: str) -> None:
        self.ledger.refuse_odometry(reason)
        self._fault = reason if reason in REASONS else self._fault

    def add_ping(self, ping: RawPing, now: Moment, full: bool = False) -> None:
        """Refuse a ping, or queue it for ``take``; ``full``: see ``handle``."""
        reason = self.closed or self._range_filter.refusal_reason(ping, self.settings)
        if reason is None and full:
            reason = OVERLOAD
        if reason is not None:
            self.ledger.refuse_arrival(reason, ping, now.steady_s)
            return
        self.ledger.receive()
        if len(self._waiting) >= self.settings.capacity:
            oldest, _, _ = self._waiting.popleft()
            self.ledger.refuse_waiting(NO_ODOMETRY, oldest.stamp_ns)
        earliest = self._earliest if self._waiting else ping.stamp_ns
        self._earliest = min(earliest, ping.stamp_ns)
        newest = self.buffer.newest_ns
        heard = newest is not None and now.steady_s - self._odometry_s < ODOMETRY_PERIOD_S
        ahead = ping.stamp_ns - newest if heard and newest is not None else 0
        self._waiting.append((ping, now.steady_s, ahead))

    def take(self, now: Moment) -> Samples:
        """Place the pings that odometry brackets; returns them in order of arrival."""
        settings, newest = self.settings, self.buffer.newest_ns
        offset_ns = round(settings.range_time_offset * SECOND)
        if self.ledger.refused.waiting:
            self.ledger.refused.locate_pending(partial(self._find, newest, offset_ns, now))
        if self._all_wait(None if newest is None else newest - offset_ns, now):
            return Samples.empty()
        area = (
            None if settings.workspace is None else settings.workspace.grown(settings.max_outside)
        )
        rows: list[Row] = []
        still: deque[tuple[RawPing, float, int]] = deque()
        for ping, since, ahead in self._waiting:
            measured = ping.stamp_ns + offset_ns
            if newest is None or measured > newest:
                if now.steady_s - since > settings.odometry_wait:
                    self.ledger.refuse_waiting(self._unplaced(ahead + offset_ns), measured)
                else:
                    still.append((ping, since, ahead))
                continue
            row = self._placer.row(ping, measured, area, settings, now)
            if isinstance(row, str):
                row = self._unplaced(ahead + offset_ns) if row == NO_ODOMETRY else row
                xyz = self._placer.xyz(ping, measured, settings, now)
                self.ledger.refuse_waiting(row, measured, xyz)
            elif self._standing.full((row[0], row[1]), settings.pings_at_place):
                self.ledger.refuse_waiting("standing", measured, (row[0], row[1], row[2]))
                self.pilot.standing = True
            else:
                rows.append((measured, row))
                self.pilot.standing = False
        self._waiting = still
        self._earliest = min((ping.stamp_ns for ping, _, _ in still), default=0)
        return self.ledger.accept(_unnumbered(rows))

    def _unplaced(self, ahead_ns: int) -> str:
        """Why there is no odometry for a ping that was this far ahead of it when it came, in ns."""
        if self._fault:
            return self._fault
        if abs(ahead_ns) <= OTHER_CLOCK_NS:
            return NO_ODOMETRY
        self.clock_offset_s = ahead_ns / SECOND
        return OTHER_CLOCK

    def reopen(self, *reasons: str) -> str | None:
        """Stop refusing pings for one of these reasons; returns the reason, or None."""
        if self.closed not in reasons:
            return None
        closed, self.closed = self.closed, None
        return closed

    def _follow(self, state: str, now: Moment) -> EventResult:
        """Open or close for pings by the mission state."""
        if state not in STATES:
            text = f"mission/state: expected one of {', '.join(STATES)}, got '{shown(state)}'"
            return EventResult(message=Message("unknown_state", text))
        over = self.pilot.state in OVER
        if state == PAUSED and over:  # on the way home
            return NOTHING
        self.pilot.follow(state)
        if state not in OVER:
            self.closed = state if state in (PAUSED, WAITING) else None
        elif not over:  # refuse the waiting pings and all that follow
            samples, self.closed = self.take(now), AFTER_MISSION
            for ping, since_s, _ in self._waiting:
                self.ledger.refuse_later(AFTER_MISSION, ping, since_s)
            self._waiting.clear()
            return EventResult(samples, done=True)
        return NOTHING

    def _repeated_of(self, samples: Samples) -> str:
        """What to say of a sonar that repeats its last range; empty: nothing."""
        rows = zip(samples.stamp_ns.tolist(), samples.xy.tolist(), samples.range, strict=True)
        said = [self._repeated.follow(ns, (x, y), float(r)) for ns, (x, y), r in rows]
        return next((text for text in said if text), "")

    def _all_wait(self, newest_ns: int | None, now: Moment) -> bool:
        """Whether no waiting ping can be placed or timed out; saves a loop over all of them."""
        if not self._waiting:
            return True
        ahead = newest_ns is None or self._earliest > newest_ns
        return ahead and now.steady_s - self._waiting[0][1] <= self.settings.odometry_wait

    def _find(
        self, newest_ns: int | None, offset_ns: int, now: Moment, ping: RawPing, since_s: float
    ) -> tuple[int, Xyz] | None:
        """Time and place of a refused ping; None while odometry for it may still come."""
        measured = ping.stamp_ns + offset_ns
        waits = newest_ns is None or measured > newest_ns
        if waits and now.steady_s - since_s <= self.settings.odometry_wait:
            return None
        return measured, self._placer.xyz(ping, measured, self.settings, now)

    def _set_back(self) -> None:
        """Time was set back: no odometry will come for the waiting pings."""
        self._range_filter.clear()
        for ping, _, _ in self._waiting:
            self.ledger.refuse_waiting(NO_ODOMETRY, ping.stamp_ns)
        self._waiting.clear()
        self.ledger.refused.abandon_pending()


def _unnumbered(rows: list[Row]) -> Samples:
    if not rows:
        return Samples.empty()
    stamps, values = zip(*rows, strict=True)
    numbers, table = np.full(len(rows), -1, dtype=np.int64), np.array(values)
    stamp_ns = np.array(stamps, dtype=np.int64)
    z, noise_std, distance = table[:, 2:5].T
    return Samples(numbers, stamp_ns, table[:, :2], z, noise_std, distance, table[:, 5:])
