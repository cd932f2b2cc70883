"""The front end: pings, odometry and states in; placed and refused pings out. No ROS.

Metres, nanoseconds, radians.

A node, a lock-step mission and a recording use the same one. It has no thread and no clock: the
caller passes the time. First the range of a ping is checked (REP-117). Then the ping waits until
odometry brackets its time of measurement, and is placed by interpolation.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..core.clock import SECOND, Moment
from ..core.errors import shown
from ..core.geometry import MAX_COORDINATE, Extent, is_place
from ..core.samples import Samples
from .events import EXPLORING, OVER, PAUSED, PILOT, STATES, WAITING
from .odometry import CourseCheck, OdometryBuffer, OdometryRefused, VehicleState
from .pings import (
    MAX_ELEVATION,
    MAX_FRAMES,
    SURFACE,
    FrontEndSettings,
    RangeFilter,
    RawPing,
    RepeatedRange,
    SonarMount,
    Standing,
    level_fault,
    mount_of,
    noise_of,
    place,
    refusal_reason,
)  # fmt: skip
from .refused_pings import NOWHERE, REASONS, Ledger, Xyz

#: Reasons to refuse pings: the mission is done; the queue of samples that wait for the model is
#: full; the place is not known.
AFTER_MISSION, OVERLOAD = "after_mission", "overload"
NO_ODOMETRY, OTHER_CLOCK = "no_odometry", "other_clock"
ABOVE_WATER, MIRRORED, BEAM_UP = "above_water", "mirrored", "beam_up"
#: z above the water that waves and rolling may cause, in m.
MAX_ABOVE = 1.0
#: Odometry comes 5 times a second or more: while it does, a ping whose stamp is so far from the
#: newest one's has another clock.
OTHER_CLOCK_NS, ODOMETRY_PERIOD_S = 2 * SECOND, 1.0
UNLIMITED = (
    "no_limits", "the sonar's messages have no limits (min_range, max_range): any range is taken; "
    "set sonar.min_range and sonar.max_range",
)  # fmt: skip
#: Of a placed ping: x, y, z, noise, range and the applied corrections, flat.
Row = tuple[float, ...]


class _Waiting(NamedTuple):
    """A ping that waits for odometry, since ``since_s`` (steady time), when it was ``ahead_ns`` of
    odometry; ``refused``: why it is refused already, and only its place is missing; ``early``:
    whether it came before the mission, so that it is refused unless it has a fault of its own."""

    ping: RawPing
    since_s: float
    ahead_ns: int
    refused: str
    early: bool


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

    def reset(self) -> None:
        """Model and data were cleared."""
        self.after_reset, self.standing = self.state != PILOT, False

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
        buffer: the odometry.
        closed: the reason to refuse every ping on arrival; None while pings are taken.
        clock_offset_s: how far the last ping of another clock was ahead of odometry, in s.
        warn: called with a name and a text for people.
    """

    clock_offset_s = 0.0

    def __init__(self, settings: FrontEndSettings, pilot_samples: int = 500) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self.pilot = PilotSurvey(pilot_samples)
        self.closed: str | None = None
        self.warn: Callable[[str, str], object] = lambda reason, text: None
        self.buffer, self._standing = OdometryBuffer(), Standing()
        self._mounts: dict[str, SonarMount] = {}  # by frame
        self._level: tuple[float, float] | None = None  # the last received, and when it came in s
        self._range_filter, self._repeated = RangeFilter(), RepeatedRange()
        self._course = CourseCheck()
        self._fault = ""  # why the last odometry was refused, if pings are refused by that name
        self._odometry_s = -math.inf  # when the last odometry came, by the steady clock
        self._told_of_limits = False  # that pings have none
        self._waiting: deque[_Waiting] = deque()  # for odometry

    def level(self, now: Moment) -> float | None:
        """The water level, in m: that of the settings until one was received, then the last one;
        None: none is known, or the last one is stale."""
        settings = self.settings
        if self._level is None:
            return None if settings.await_water_level else settings.water_level
        level, when = self._level
        age, limit = now.unadjusted_s - when, settings.water_level_timeout
        # A negative age means that the clock was set back: the true age is unknown.
        return level if not limit or -1.0 <= age <= limit else None

    def sonar_heights(self, stamp_ns: np.ndarray, now: Moment) -> np.ndarray:
        """z of a sonar at stamps [N], as [N] in m, where refused pings without one are drawn: as
        the vehicle is inclined now; NaN without odometry."""
        heights, newest = self.buffer.heights(stamp_ns), self.buffer.newest_ns
        last = next(reversed(self._mounts.values()), None)
        mount = last if self.settings.base_frame else mount_of(self.settings)
        if newest is None or mount is None:
            return heights
        state = self.buffer.at(newest, 0)
        assert state is not None
        level = (self.level(now) or 0.0) if self.settings.from_surface else 0.0
        return heights + place(state, mount, 0.0, level)[0][2] - state.position[2]

    def odometry(self, state: VehicleState | OdometryRefused, now: Moment) -> str | None:
        """Take a state of the vehicle; returns the reason if it is refused (and counts it)."""
        if isinstance(state, OdometryRefused):
            return self._refuse_odometry(state.reason)
        self._odometry_s = now.steady_s
        restarts, ledger, s = self.buffer.restarts, self.ledger, self.settings
        if s.surface:
            xy, spread = state.position[:2], state.variance[:2]
            state = replace(state, position=(*xy, 0.0), variance=(*spread, 0.0))
        reason = None
        if s.vertical == SURFACE:  # z must count from there
            if state.position[2] > MAX_ABOVE:
                reason = ABOVE_WATER
            elif self._course.mirrored(state):
                reason = MIRRORED
        reason = reason or self.buffer.add(state, s.max_vehicle_speed, s.max_jump)
        if reason is not None:
            self._refuse_odometry(reason)
        else:
            self._fault = ""
            ledger.count_suspect("teleport", self.buffer.jumped)
            ledger.count_suspect("covariance", state.invalid_variance)
            unchecked = not s.vertical and state.position[2] > MAX_ABOVE
            ledger.count_suspect(ABOVE_WATER, unchecked)
        if self.buffer.restarts > restarts:
            self._set_back()
            self.warn("odometry_set_back", "odometry was set back: starting again")
        return reason

    def mount(self, mount: SonarMount) -> None:
        """Take the mount of a sonar."""
        if len(self._mounts) < MAX_FRAMES or mount.frame_id in self._mounts:
            self._mounts[mount.frame_id] = mount

    def water_level(self, level: float, now: Moment) -> None:
        """Take a water level above the map's datum, in m."""
        self.ledger.count_suspect("water_level", bool(fault := level_fault(level)))
        self._level = self._level if fault else (level, now.unadjusted_s)

    def clock_set_back(self) -> None:
        """The clock of the stamps has jumped back."""
        self.buffer.clear()
        self._set_back()
        self.warn("clock", "the clock was set back: waiting for odometry")

    def change(self, settings: FrontEndSettings, pilot_samples: int) -> None:
        """Replace the settings."""
        self.settings, self.pilot.samples = settings, pilot_samples

    def reset(self) -> None:
        """Model and data were cleared."""
        if self.closed == AFTER_MISSION:
            self.closed = None
        self.pilot.reset()
        self._standing = Standing()  # the new map has no ping from here

    def mission(self, state: str, now: Moment) -> Samples | None:
        """Open or close for pings by the mission's state.

        Returns:
            None, but at the end of the mission: the last pings that are placed.
        """
        if state not in STATES:
            expected = f"expected one of {', '.join(STATES)}"
            self.warn("unknown_state", f"mission/state: {expected}, got '{shown(state)}'")
            return None
        over = self.pilot.state in OVER
        if state == PAUSED and over:  # on the way home
            return None
        self.pilot.follow(state)
        if state not in OVER:
            self.closed = state if state in (PAUSED, WAITING) else None
            return None
        if over:
            return None
        samples, self.closed = self.take(now), AFTER_MISSION
        self._waiting = deque(
            each if each.refused else each._replace(refused=self.ledger.refuse(AFTER_MISSION))
            for each in self._waiting
        )
        return samples

    def mission_source(self, present: bool) -> None:
        """Whether any node publishes the mission's state."""
        self.pilot.source_present = present
        if not present and self.closed in (PAUSED, WAITING):
            self.warn("states_gone", f"mission/state lost its publisher: no longer {self.closed}")
            self.closed = None

    def _refuse_odometry(self, reason: str) -> str:
        self.ledger.odometry_rejected[reason] += 1
        self._fault = reason if reason in REASONS else self._fault
        return reason

    def ping(self, ping: RawPing, now: Moment, full: str = "") -> None:
        """Queue a ping for ``take``, which places it, or finds where it was if it is refused here.

        ``full``: the reason to refuse pings that could be placed; empty: none.
        """
        if not (ping.max_range > 0 or self.settings.max_range or self._told_of_limits):
            self._told_of_limits = True
            self.warn(*UNLIMITED)
        # Before the start its own fault counts: who starts must know whether pings can be mapped.
        early = self.closed == WAITING
        closed = "" if early else self.closed
        reason = closed or self._range_filter.refusal_reason(ping, self.settings) or full
        self.ledger.receive()
        if reason:
            self.ledger.refuse(reason)
        if len(self._waiting) >= self.settings.capacity:
            self._drop(self._waiting.popleft())
        newest = self.buffer.newest_ns
        heard = newest is not None and now.steady_s - self._odometry_s < ODOMETRY_PERIOD_S
        ahead = ping.stamp_ns - newest if heard and newest is not None else 0
        self._waiting.append(_Waiting(ping, now.steady_s, ahead, reason, early))

    def take(self, now: Moment) -> Samples:
        """Place the pings that odometry brackets; returns the accepted ones in order of arrival."""
        if not self._waiting:
            return Samples.empty()
        settings, newest = self.settings, self.buffer.newest_ns
        offset_ns = round(settings.range_time_offset * SECOND)
        area = settings.workspace and settings.workspace.grown(settings.max_outside)
        stamps, rows = list[int](), list[Row]()
        still: deque[_Waiting] = deque()
        for each in self._waiting:
            ping, measured = each.ping, each.ping.stamp_ns + offset_ns
            late = newest is None or measured > newest
            if late and now.steady_s - each.since_s <= settings.odometry_wait:
                still.append(each)
                continue
            reason, xyz, row = NO_ODOMETRY, NOWHERE, Row()
            if not late:
                reason, xyz, row = self._placed(ping, measured, bool(each.refused), area, now)
            if reason == NO_ODOMETRY:
                reason = self._unplaced(each.ahead_ns + offset_ns)
            elif not (reason or each.refused):
                reason = WAITING if each.early else self._stands(xyz)
            if reason or each.refused:
                self._drop(each, reason, measured, xyz)
            else:
                stamps.append(measured)
                rows.append(row)
        self._waiting = still
        samples = self.ledger.accept(_unnumbered(stamps, rows))
        for ns, (x, y, _, _, distance, *_) in zip(stamps, rows, strict=True):
            if text := self._repeated.follow(ns, (x, y), distance):
                self.warn("repeated_range", text)
        return samples

    def _stands(self, xyz: Xyz) -> str:
        """The reason to refuse a ping from this place, as the vehicle stands; empty: none."""
        standing = self._standing.full(xyz[:2], self.settings.pings_at_place)
        self.pilot.standing = standing
        return "standing" if standing else ""

    def _placed(
        self, ping: RawPing, stamp_ns: int, refused: bool, area: Extent | None, now: Moment
    ) -> tuple[str, Xyz, Row]:
        """Why a ping is refused, empty: it is not; where it was, as far as known: without a valid
        range the place of the sonar, without a mount that of the vehicle; and its row."""
        settings = self.settings
        if (state := self._state(stamp_ns)) is None:
            return NO_ODOMETRY, NOWHERE, ()
        level, mount = self.level(now), self._mount(ping)
        limits = settings.min_range, settings.max_range
        measured = not refused or refusal_reason(ping, *limits) is None
        distance = ping.range * settings.sound_scale if measured else 0.0
        added = (level or 0.0) if settings.from_surface else 0.0
        end, beam = place(state, mount or mount_of(settings), distance, added)
        x, y, z = end.tolist() if mount else (*state.position[:2], math.nan)
        known = measured and level is not None and abs(z) <= MAX_COORDINATE
        xyz = (x, y, z if known else math.nan) if is_place(np.array((x, y))) else NOWHERE
        noise = noise_of(settings, ping, state.known_variance, distance)
        if level is None:
            return "water_level_stale", xyz, ()
        if mount is None:
            return "no_mount", xyz, ()
        if settings.vertical == SURFACE and beam[2] >= 0:
            return BEAM_UP, xyz, ()
        if area is not None and not area.contains(end[:2]):
            return "outside_workspace", xyz, ()
        if not abs(z) <= MAX_ELEVATION:
            return "wild_elevation", xyz, ()
        if isinstance(noise, str):
            return noise, xyz, ()
        water = settings.sound_speed_assumed, settings.sound_speed, added
        return "", xyz, (x, y, z, noise, ping.range, *water, *beam)

    def _state(self, stamp_ns: int) -> VehicleState | None:
        return self.buffer.at(stamp_ns, round(self.settings.odometry_timeout * SECOND))

    def _mount(self, ping: RawPing) -> SonarMount | None:
        by_frame = self.settings.base_frame
        return self._mounts.get(ping.frame_id) if by_frame else mount_of(self.settings)

    def _drop(
        self, each: _Waiting, reason: str = NO_ODOMETRY, stamp_ns: int | None = None,
        xyz: Xyz = NOWHERE,
    ) -> None:  # fmt: skip
        """Refuse a waiting ping for this reason, unless it is refused already; store its place."""
        stamp_ns = each.ping.stamp_ns if stamp_ns is None else stamp_ns
        self.ledger.store(each.refused or self.ledger.refuse(reason), stamp_ns, xyz)

    def _unplaced(self, ahead_ns: int) -> str:
        """Why there is no odometry for a ping that was this far ahead of it when it came, in ns."""
        if self._fault:
            return self._fault
        if abs(ahead_ns) <= OTHER_CLOCK_NS:
            return NO_ODOMETRY
        self.clock_offset_s = ahead_ns / SECOND
        return OTHER_CLOCK

    def _set_back(self) -> None:
        """Time was set back: no odometry will come for the waiting pings."""
        self._range_filter.clear()
        for each in self._waiting:
            self._drop(each)
        self._waiting.clear()


def _unnumbered(stamps: list[int], rows: list[Row]) -> Samples:
    if not rows:
        return Samples.empty()
    numbers, table = np.full(len(rows), -1, dtype=np.int64), np.array(rows)
    stamp_ns = np.array(stamps, dtype=np.int64)
    z, noise_std, distance = table[:, 2:5].T
    return Samples(numbers, stamp_ns, table[:, :2], z, noise_std, distance, table[:, 5:])
