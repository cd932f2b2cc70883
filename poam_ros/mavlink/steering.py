"""Sends a mission's goals, and the places where it holds station, as targets."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from ..mission.mission import Mission
from .authority import Authority
from .link import BOATS, DEGREE, Link
from .telemetry import Telemetry

#: A place to hold station is sent this many times, because no answer confirms it. Not more: a
#: person may send the paused vehicle elsewhere from a ground station.
HOLD_REPEATS, HOLD_PERIOD_S = 3, 1.0
ECHO_TIMEOUT = 3.0  # s; older reports of the autopilot's target are ignored
SAME_PLACE = 1.0  # m, between a target and the autopilot's report of it
#: ArduPilot's defaults, in m, m/s and m/s^2.
WP_RADIUS, WP_SPEED, DECELERATION = 2.0, 2.0, 1.0
STOP_SLACK = 1.5  # m, between where a boat can stop and what it reports a little later


class Destinations(Protocol):
    """Where a vehicle is to go, or else to hold station; [2] in m."""

    @property
    def goal(self) -> np.ndarray | None:
        """None: hold station."""

    @property
    def station(self) -> np.ndarray | None:
        """None: nowhere."""


class Steering:
    """The targets of one vehicle.

    Args:
        link: to the vehicle.
        authority: whether the vehicle may be moved.
        telemetry: of the vehicle.
        period: time between two repetitions of a goal, in s; 0: each goal is sent once. A goal that
            the autopilot reports as its target is not repeated.

    Attributes:
        sent: number of targets sent.
        wp_radius, wp_speed: of the autopilot, in m and m/s.
    """

    def __init__(
        self, link: Link, authority: Authority, telemetry: Telemetry, period: float
    ) -> None:
        self._link, self._authority, self._telemetry = link, authority, telemetry
        self._period, self._sent_s, self.sent = period, -math.inf, 0
        self.wp_radius, self.wp_speed = WP_RADIUS, WP_SPEED
        self._last, self._stopped = (math.nan, math.nan), False
        self.forget(None)

    def configure(self, parameters: Mapping[str, float]) -> None:
        """Take the waypoint radius and the speed from the autopilot's parameters by name."""
        self.wp_radius = parameters.get("WP_RADIUS", WP_RADIUS)
        self.wp_speed = parameters.get("WP_SPEED") or parameters.get("CRUISE_SPEED") or WP_SPEED

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
        goal = mission.goal
        place = mission.station if goal is None else goal
        if goal is not None:
            due = goal is not self._goal or self._repeats(goal, now_s)
            self._holds = 0
        else:
            due = self._holds > 0 and now_s - self._sent_s >= HOLD_PERIOD_S
            if mission.station is not self._station:
                self._holds, due = HOLD_REPEATS, True
            self._holds -= due
        self._goal = goal
        self._station = mission.station
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
        ours = min(math.dist(self._echo, sent) for sent in self._newest) <= SAME_PLACE
        if not ours and self._echoed and self._stops():
            ours = self._stopped = True
            self._newest.append(self._echo)
        self._echoed |= ours
        return "" if ours or not self._echoed else "another ground station has sent a target"

    def _stops(self) -> bool:
        """Whether the autopilot's target is where the boat stops after its arrival.

        ArduPilot's Rover then holds station there, not at our target
        (ModeGuided::get_desired_location). It does so once for each target.
        """
        assert self._telemetry.frame is not None and self._telemetry.position is not None
        here = self._telemetry.frame.to_map(*self._telemetry.position)
        ahead = self.wp_speed**2 / (2 * DECELERATION) + STOP_SLACK
        arrived = math.dist(here, self._last) <= self.wp_radius + ahead
        return arrived and not self._stopped and math.dist(here, self._echo) <= ahead

    def _repeats(self, goal: np.ndarray, now_s: float) -> bool:
        """Whether to send the goal again, because the autopilot does not report it."""
        if not self._period or now_s - self._sent_s < self._period:
            return False
        fresh = now_s - self._echo_s < ECHO_TIMEOUT
        return not (fresh and math.dist(self._echo, goal.tolist()) <= SAME_PLACE)

    def _send(self, place: np.ndarray, z: float) -> None:
        assert self._telemetry.frame is not None
        x, y = place.tolist()
        self._stopped &= (x, y) == self._last
        self._last = x, y
        if (x, y) not in self._newest:
            self._newest.append((x, y))
        self.sent += 1
        self._link.send_target(*self._telemetry.frame.to_degrees((x, y)), z)
