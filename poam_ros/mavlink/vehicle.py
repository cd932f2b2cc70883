"""A vehicle on a link: who controls it, where it is, and the targets sent to it."""

from __future__ import annotations

import math
from typing import Any

from ..core.clock import Moment
from ..core.errors import shown
from .authority import Authority
from .link import Link
from .parameters import ParameterReader
from .steering import Steering
from .telemetry import Telemetry

#: After a longer time between two calls, the newest heartbeats may have been dropped, in s.
STALL_S = 4.0
TEXT_AGE_S = 10.0  # a STATUSTEXT within this time before a failsafe explains it


class Vehicle:
    """Reads a link; messages that say who controls the vehicle are handled before all others.

    Args:
        link: to the vehicle.
        period: time between two repetitions of a goal, in s.

    Attributes:
        authority: whether the mission may move the vehicle.
        telemetry: the vehicle's positions and ranges.
        parameters: of the autopilot.
        steering: sends the targets.
        stalled: whether targets are withheld because the link was not read for some time. A full
            queue drops the newest messages, so only a later heartbeat ends this.
    """

    def __init__(self, link: Link, period: float) -> None:
        self.link, self.authority = link, Authority()
        self.telemetry = Telemetry(link.settings.surface, sonar=link.settings.sonar)
        self.parameters = ParameterReader()
        self.steering = Steering(link, self.authority, self.telemetry, period)
        self.stalled = False
        self._read_s: float | None = None
        self._text = ("", -math.inf)  # the last STATUSTEXT, and when it came

    def listen(self, now: Moment) -> tuple[list[Any], str]:
        """The messages that have arrived, and the reason of a take-over or ""."""
        now_s, last_s = now.steady_s, self._read_s
        stall, self._read_s = last_s is not None and now_s - last_s > STALL_S, now_s
        messages, reason = self.link.poll(now_s), ""
        for message in messages:
            reason = reason or self._hear(message, now_s)
        fresh = any(message.get_type() == "HEARTBEAT" for message in messages)
        self.stalled = stall or self.link.flooded or (self.stalled and not fresh)
        heard = self.link.heard_s
        if heard is not None and now_s - heard > self.link.settings.timeout:
            reason = reason or self.authority.silent(now_s - heard)
        for name in self.parameters.due(now_s) if heard is not None else ():
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
            text = self.authority.heartbeat(status)
            explanation, when = self._text
            explained = text and status.failsafe and now_s - when < TEXT_AGE_S
            return f"{text}: {explanation}" if explained else text
        if kind == "STATUSTEXT":
            self._text = shown(str(message.text)), now_s
        elif kind == "PARAM_VALUE":
            self.parameters.answer(message)
            self.telemetry.limits = self.parameters.range_limits
            self.steering.configure(self.parameters.values)
        elif kind == "POSITION_TARGET_GLOBAL_INT":
            return self.authority.withdraw(self.steering.foreign_target(message, now_s))
        return ""
