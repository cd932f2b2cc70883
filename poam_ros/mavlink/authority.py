"""Who controls the vehicle: the mission from a person's start or resume on, until a take-over.

A take-over is any mode but GUIDED, disarming, a failsafe, or silence. After it the mission
sends nothing before a person starts or resumes it: the vehicle is never taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

GUIDED = "GUIDED"
ARMED = 128  # MAV_MODE_FLAG_SAFETY_ARMED
#: MAV_STATE: with CRITICAL and EMERGENCY ArduPilot reports a failsafe; then the vehicle shuts down.
FAILSAFE = {5: "CRITICAL", 6: "EMERGENCY", 7: "POWEROFF", 8: "FLIGHT_TERMINATION"}


@dataclass(frozen=True)
class Status:
    """What a heartbeat says: the mode's name, whether the vehicle is armed, and the name of the
    system's state if that is a failsafe, else empty."""

    mode: str
    armed: bool
    failsafe: str = ""

    @property
    def refusal(self) -> str:
        """Why the mission may not move the vehicle, as text; empty: it may."""
        if self.failsafe:
            return f"the autopilot reports a failsafe ({self.failsafe})"
        if not self.armed:
            return "the vehicle is disarmed"
        return "" if self.mode == GUIDED else f"the mode is {self.mode}, not {GUIDED}"


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
        refusal = self.status.refusal
        self.granted = not refusal
        return refusal

    def heartbeat(self, status: Status) -> str:
        """Take a heartbeat; returns why the vehicle is taken over by it, or ""."""
        self.status = status
        return self.withdraw(status.refusal)

    def silent(self, seconds: float) -> str:
        """No heartbeat has come for so long; returns as ``heartbeat``."""
        self.status = None
        return self.withdraw(f"the link is lost: no heartbeat for {seconds:.0f} s")

    def restarted(self) -> str:
        """The autopilot has started again: its last heartbeat may be older. As ``heartbeat``."""
        self.status = None
        return self.withdraw("the autopilot has started again")

    def withdraw(self, reason: str) -> str:
        """Take the vehicle for this reason (empty: do not); returns it where that is new."""
        if not (reason and self.granted):
            return ""
        self.granted = False
        return reason
