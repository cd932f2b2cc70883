"""Who controls the vehicle: the mission, from a person's start or resume until a take-over.

A take-over is a mode other than GUIDED, disarming, a failsafe, or a silent link. After it the
mission sends nothing until a person starts or resumes it again.
"""

from __future__ import annotations

from dataclasses import dataclass

GUIDED = "GUIDED"
ARMED = 128  # MAV_MODE_FLAG_SAFETY_ARMED
#: MAV_STATE: ArduPilot reports a failsafe as CRITICAL or EMERGENCY; the others are a shutdown.
FAILSAFE = {5: "CRITICAL", 6: "EMERGENCY", 7: "POWEROFF", 8: "FLIGHT_TERMINATION"}


@dataclass(frozen=True)
class Status:
    """The content of a heartbeat: name of the mode, whether the vehicle is armed, and the name of
    the system's state if it is a failsafe; otherwise empty."""

    mode: str
    armed: bool
    failsafe: str = ""

    @property
    def refusal(self) -> str:
        """Why the mission must not move the vehicle, as text; empty: it may."""
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
        """Handle a heartbeat; returns why it is a take-over, or ""."""
        self.status = status
        return self.withdraw(status.refusal)

    def silent(self, seconds: float) -> str:
        """No heartbeat for this time in s; returns as ``heartbeat``."""
        self.status = None
        return self.withdraw(f"the link is lost: no heartbeat for {seconds:.0f} s")

    def restarted(self) -> str:
        """The autopilot has restarted: forget its last heartbeat; returns as ``heartbeat``."""
        self.status = None
        return self.withdraw("the autopilot has started again")

    def withdraw(self, reason: str) -> str:
        """Stop driving the vehicle for a reason; empty: go on. Returns the reason if it is new."""
        if not (reason and self.granted):
            return ""
        self.granted = False
        return reason
