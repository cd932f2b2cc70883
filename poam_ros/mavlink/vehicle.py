"""A vehicle on a link: who controls it, where it is, and the targets sent to it.

The mission controls it from a person's start or resume until a take-over: a mode other than GUIDED,
disarming, a failsafe, or a silent link. Then it sends nothing until a person starts or resumes it
again.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, Protocol

import numpy as np

from ..core.clock import Moment
from ..core.errors import shown
from ..mission.mission import Mission
from .link import BOATS, DEGREE, Link, Status
from .telemetry import Telemetry

#: A place to hold station is sent this many times, because no answer confirms it. Not more: a
#: person may send the paused vehicle elsewhere from a ground station.
HOLD_REPEATS, HOLD_PERIOD_S = 3, 1.0
ECHO_TIMEOUT = 3.0  # s; older reports of the autopilot's target are ignored
SAME_PLACE = 1.0  # m, between a target and the autopilot's report of it
#: ArduPilot's defaults, in m, m/s and m/s^2.
WP_RADIUS, WP_SPEED, DECELERATION = 2.0, 2.0, 1.0
STOP_SLACK = 1.5  # m, between where a boat can stop and what it reports a little later
#: After a longer time between two calls, the newest heartbeats may have been dropped, in s.
STALL_S = 4.0
TEXT_AGE_S = 10.0  # a STATUSTEXT within this time before a failsafe explains it


class Authority:
    """Whether the mission may send targets.

    Attributes:
        granted: whether it may.
        status: of the last heartbeat; None before the first and while the link is silent.
    """

    def __init__(self) -> None:
        self.granted = False
        self.status: Status | None = None

    def grant(self) -> str:
        """A person starts or resumes the mission; returns why that is refused, or ""."""
        if self.status is None:
            return "there is no heartbeat of an autopilot"
        self.granted = not self.status.refusal
        return self.status.refusal

    def heard(self, status: Status | None, reason: str = "") -> str:
        """Take a heartbeat, or that there is none any more, for a reason; returns why this is a
        take-over, or ""."""
        self.status = status
        return self.withdraw(reason if status is None else status.refusal)

    def withdraw(self, reason: str) -> str:
        """Stop driving the vehicle for a reason; empty: go on. Returns the reason if it is new."""
        if not (reason and self.granted):
            return ""
        self.granted = False
        return reason


class Destinations(Protocol):
    """Where a vehicle is to go, or else to hold station; [2] in m."""

    @property
    def goal(self) -> np.ndarray | None:
        """None: hold station."""

    @property
    def station(self) -> np.ndarray | None:
        """None: nowhere."""


class Steering:
    """Sends a mission's goals, and the places where it holds station, as targets.

    Args:
        link: to the vehicle.
        authority: whether the vehicle may be moved.
        telemetry: of the vehicle.
        period: time between two repetitions of a goal, in s; 0: each goal is sent once. A goal that
            the autopilot reports as its target is not repeated.

    Attributes:
        sent: number of targets sent.
    """

    def __init__(
        self, link: Link, authority: Authority, telemetry: Telemetry, period: float
    ) -> None:
        self._link, self._authority, self._telemetry = link, authority, telemetry
        self._period, self._sent_s, self.sent = period, -math.inf, 0
        self._last, self._stopped = (math.nan, math.nan), False
        self.forget(None)

    def forget(self, station: np.ndarray | None) -> None:
        """A person starts or resumes the mission. ``station``: where it held station, which is not
        sent again."""
        self._goal: np.ndarray | None = None
        self._station, self._holds = station, 0
        self._newest: deque[tuple[float, float]] = deque(maxlen=8)  # targets, x and y in m
        self._echoed = False  # the autopilot has reported one of them
        self._echo, self._echo_s = (math.nan, math.nan), -math.inf  # its newest report

    def idle(self, mission: Mission) -> bool:
        """Whether there is nothing more to send."""
        if not self._authority.granted:
            return True
        return mission.station is self._station and mission.goal is None and not self._holds

    def steer(self, mission: Destinations, z: float, now_s: float) -> None:
        """Send what is due at a steady time in s; ``z``: of the vehicle, in m."""
        if not self._authority.granted:
            return
        goal, station = mission.goal, mission.station
        if goal is not None:
            # Again while the autopilot does not report it.
            reported = now_s - self._echo_s < ECHO_TIMEOUT and self._is_echo(goal.tolist())
            again = self._period and now_s - self._sent_s >= self._period and not reported
            due, self._holds = goal is not self._goal or bool(again), 0
        else:
            due = self._holds > 0 and now_s - self._sent_s >= HOLD_PERIOD_S
            if station is not self._station:
                self._holds, due = HOLD_REPEATS, True
            self._holds -= due
        self._goal, self._station = goal, station
        place = station if goal is None else goal
        if due and place is not None:
            self._sent_s = now_s
            self._send(place, z)

    def hold(self, place: np.ndarray, z: float) -> None:
        """Hold station at a place [2] in m while the process ends."""
        for _ in range(HOLD_REPEATS if self._authority.granted else 0):
            self._send(place, z)

    def foreign_target(self, message: Any, now_s: float) -> str:
        """The reason for a take-over if another ground station has set the target; or "".

        Args:
            message: a POSITION_TARGET_GLOBAL_INT.
            now_s: steady time in s.
        """
        frame = self._telemetry.frame
        if frame is None or not self._newest or self._link.vehicle_type not in BOATS:
            return ""
        if not (message.lat_int or message.lon_int):
            return ""
        self._echo_s = now_s
        self._echo = frame.to_map(message.lat_int / DEGREE, message.lon_int / DEGREE)
        ours = any(map(self._is_echo, self._newest))
        if not ours and self._echoed and self._stops():
            ours = self._stopped = True
            self._newest.append(self._echo)
        self._echoed |= ours
        return "" if ours or not self._echoed else "another ground station has sent a target"

    def _is_echo(self, place: Any) -> bool:
        return math.dist(self._echo, place) <= SAME_PLACE

    def _stops(self) -> bool:
        """Whether the autopilot's target is where the boat stops after its arrival.

        ArduPilot's Rover then holds station there, not at our target
        (ModeGuided::get_desired_location). It does so once for each target.
        """
        assert self._telemetry.frame is not None and self._telemetry.position is not None
        here = self._telemetry.frame.to_map(*self._telemetry.position)
        known = self._telemetry.parameters.values
        speed = known.get("WP_SPEED") or known.get("CRUISE_SPEED") or WP_SPEED
        ahead = speed**2 / (2 * DECELERATION) + STOP_SLACK
        arrived = math.dist(here, self._last) <= known.get("WP_RADIUS", WP_RADIUS) + ahead
        return arrived and not self._stopped and math.dist(here, self._echo) <= ahead

    def _send(self, place: np.ndarray, z: float) -> None:
        assert self._telemetry.frame is not None
        x, y = place.tolist()
        self._stopped &= (x, y) == self._last
        self._last = x, y
        if (x, y) not in self._newest:
            self._newest.append((x, y))
        self.sent += 1
        self._link.send_target(*self._telemetry.frame.to_degrees((x, y)), z)


class Vehicle:
    """Reads a link; messages that say who controls the vehicle are handled before all others.

    Args:
        link: to the vehicle.
        period: time between two repetitions of a goal, in s.

    Attributes:
        authority: whether the mission may move the vehicle.
        telemetry: the vehicle's positions and ranges, and the autopilot's parameters.
        steering: sends the targets.
        stalled: whether targets are withheld because the link was not read for some time. A full
            queue drops the newest messages, so only a later heartbeat ends this.
    """

    def __init__(self, link: Link, period: float) -> None:
        self.link, self.authority = link, Authority()
        self.telemetry = Telemetry(link.settings.surface, sonar=link.settings.sonar)
        self.steering = Steering(link, self.authority, self.telemetry, period)
        self.stalled = False
        self._read_s = math.inf
        self._text = ("", -math.inf)  # the last STATUSTEXT, and when it came

    def listen(self, now: Moment) -> tuple[list[Any], str]:
        """The messages that have arrived, and the reason of a take-over or ""."""
        now_s = now.steady_s
        stall, self._read_s = now_s - self._read_s > STALL_S, now_s
        messages, reason = self.link.poll(now_s), ""
        for message in messages:
            reason = reason or self._hear(message, now_s)
        fresh = any(message.get_type() == "HEARTBEAT" for message in messages)
        self.stalled = stall or self.link.flooded or (self.stalled and not fresh)
        if (heard := self.link.heard_s) is None:
            return messages, reason
        if (silent := now_s - heard) > self.link.settings.timeout and not reason:
            lost = f"the link is lost: no heartbeat for {silent:.0f} s"
            reason = self.authority.heard(None, lost)
        for name in self.telemetry.parameters.due(now_s):
            self.link.request_parameter(name)
        return messages, reason

    def control(self, goal: bool) -> str:
        """Who controls the vehicle, as text; ``goal``: whether the mission has one."""
        if self.authority.granted:
            if goal:
                return "the mission drives the vehicle"
            return "the vehicle holds station for the mission"
        status = self.authority.status
        if status is None:
            return f"no heartbeat on {self.link.settings.url}"
        return status.refusal or "waiting for a person"

    def _hear(self, message: Any, now_s: float) -> str:
        """Handle a message about who controls the vehicle; returns why it is a take-over, or ""."""
        kind = message.get_type()
        if kind == "HEARTBEAT":
            status = self.link.status(message)
            text = self.authority.heard(status)
            explanation, when = self._text
            explained = text and status.failsafe and now_s - when < TEXT_AGE_S
            return f"{text}: {explanation}" if explained else text
        if kind == "STATUSTEXT":
            self._text = shown(str(message.text)), now_s
        elif kind == "POSITION_TARGET_GLOBAL_INT":
            return self.authority.withdraw(self.steering.foreign_target(message, now_s))
        return ""
