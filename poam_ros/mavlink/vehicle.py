"""A vehicle on a link: who controls it, where it is, and the targets sent to it.

The mission controls it from a person's start or resume until a take-over: a mode other than GUIDED,
disarming, a failsafe, or a silent link. Then it sends nothing until a person starts or resumes it
again.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

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


class Vehicle:
    """Reads a link, and sends a mission's goals, and the places where it holds station, as targets.

    Messages that say who controls the vehicle are handled before all others.

    Args:
        link: to the vehicle.
        period: time between two repetitions of a goal, in s; 0: each goal is sent once. A goal that
            the autopilot reports as its target is not repeated.

    Attributes:
        telemetry: the vehicle's positions and ranges, and the autopilot's parameters.
        granted: whether the mission may move the vehicle.
        status: of the last heartbeat; None before the first and while the link is silent.
        stalled: whether targets are withheld because the link was not read for some time. A full
            queue drops the newest messages, so only a later heartbeat ends this.
        sent: number of targets sent.
    """

    def __init__(self, link: Link, period: float) -> None:
        self.link, self._period = link, period
        self.telemetry = Telemetry(link.settings.surface, sonar=link.settings.sonar)
        self.granted = self.stalled = False
        self.status: Status | None = None
        self.sent = 0
        self._read_s, self._sent_s = math.inf, -math.inf
        self._text = ("", -math.inf)  # the last STATUSTEXT, and when it came
        self._last, self._stopped = (math.nan, math.nan), False
        self._forget(None)

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
            reason = self.lose(f"the link is lost: no heartbeat for {silent:.0f} s")
        for name in self.telemetry.parameters.due(now_s):
            self.link.request_parameter(name)
        return messages, reason

    def control(self, goal: bool) -> str:
        """Who controls the vehicle, as text; ``goal``: whether the mission has one."""
        if self.granted:
            drives = "the mission drives the vehicle"
            return drives if goal else "the vehicle holds station for the mission"
        if self.status is None:
            return f"no heartbeat on {self.link.settings.url}"
        return self.status.refusal or "waiting for a person"

    @property
    def refusal(self) -> str:
        """Why the mission must not move the vehicle, as text; empty: it may, if a person agrees."""
        if self.status is None:
            return "there is no heartbeat of an autopilot"
        return self.status.refusal

    def grant(self, station: np.ndarray | None) -> None:
        """A person starts or resumes the mission. ``station``: where it held station, which is not
        sent again."""
        self.granted = True
        self._forget(station)

    def lose(self, reason: str) -> str:
        """The vehicle's state is not known any more, for a reason; returns that if it is a
        take-over, or ""."""
        self.status = None
        return self._withdraw(reason)

    def _forget(self, station: np.ndarray | None) -> None:
        self._goal: np.ndarray | None = None
        self._station, self._holds = station, 0
        self._newest: deque[tuple[float, float]] = deque(maxlen=8)  # targets, x and y in m
        self._echoed = False  # the autopilot has reported one of them
        self._echo, self._echo_s = (math.nan, math.nan), -math.inf  # its newest report

    def idle(self, mission: Mission) -> bool:
        """Whether there is nothing more to send."""
        still = mission.station is self._station and mission.goal is None and not self._holds
        return still or not self.granted

    def steer(self, mission: Mission, z: float, now_s: float) -> None:
        """Send what is due at a steady time in s; ``z``: of the vehicle, in m."""
        if not self.granted or self.stalled:
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
        for _ in range(HOLD_REPEATS if self.granted else 0):
            self._send(place, z)

    def _withdraw(self, reason: str) -> str:
        """Stop driving the vehicle for a reason; empty: go on. Returns the reason if it is new."""
        if not (reason and self.granted):
            return ""
        self.granted = False
        return reason

    def _hear(self, message: Any, now_s: float) -> str:
        """Handle a message about who controls the vehicle; returns why it is a take-over, or ""."""
        kind = message.get_type()
        if kind == "HEARTBEAT":
            self.status = status = self.link.status(message)
            text, (explanation, when) = self._withdraw(status.refusal), self._text
            explained = text and status.failsafe and now_s - when < TEXT_AGE_S
            return f"{text}: {explanation}" if explained else text
        if kind == "STATUSTEXT":
            self._text = shown(str(message.text)), now_s
        elif kind == "POSITION_TARGET_GLOBAL_INT" and self._is_foreign(message, now_s):
            return self._withdraw("another ground station has sent a target")
        return ""

    def _is_foreign(self, message: Any, now_s: float) -> bool:
        """Whether another ground station has set the target that the autopilot reports."""
        frame = self.telemetry.frame
        if frame is None or not self._newest or self.link.vehicle_type not in BOATS:
            return False
        if not (message.lat_int or message.lon_int):
            return False
        self._echo_s = now_s
        self._echo = frame.metres(message.lat_int / DEGREE, message.lon_int / DEGREE)
        ours = any(map(self._is_echo, self._newest))
        if not ours and self._echoed and self._stops():
            ours = self._stopped = True
            self._newest.append(self._echo)
        self._echoed |= ours
        return self._echoed and not ours

    def _is_echo(self, place: Any) -> bool:
        return math.dist(self._echo, place) <= SAME_PLACE

    def _stops(self) -> bool:
        """Whether the autopilot's target is where the boat stops after its arrival.

        ArduPilot's Rover then holds station there, not at our target
        (ModeGuided::get_desired_location). It does so once for each target.
        """
        telemetry = self.telemetry
        assert telemetry.frame is not None and telemetry.position is not None
        here, known = telemetry.frame.metres(*telemetry.position), telemetry.parameters.values
        speed = known.get("WP_SPEED") or known.get("CRUISE_SPEED") or WP_SPEED
        ahead = speed**2 / (2 * DECELERATION) + STOP_SLACK
        arrived = math.dist(here, self._last) <= known.get("WP_RADIUS", WP_RADIUS) + ahead
        return arrived and not self._stopped and math.dist(here, self._echo) <= ahead

    def _send(self, place: np.ndarray, z: float) -> None:
        assert self.telemetry.frame is not None
        x, y = place.tolist()
        self._stopped &= (x, y) == self._last
        self._last = x, y
        if (x, y) not in self._newest:
            self._newest.append((x, y))
        self.sent += 1
        self.link.send_target(*self.telemetry.frame.to_degrees((x, y)), z)
