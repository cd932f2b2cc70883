"""Whether the pilot survey is over, by what is announced of the mission, or by number."""

from __future__ import annotations

from .states import DONE, EXPLORING, PILOT


class PilotSurvey:
    """Over when the mission explores or is done or, where nobody says so, after enough pings.

    Attributes:
        samples: how many are enough.
        state: of the mission, as it was announced last; None before.
        awaited: whether there is somebody who announces it.
        anew: after a reset in mid-mission the end of its pilot survey will not be announced.
    """

    def __init__(self, samples: int) -> None:
        self.samples = samples
        self.state: str | None = None
        self.awaited = self.anew = False

    def follow(self, state: str) -> None:
        """The mission is in another state."""
        self.state, self.awaited = state, True
        self.anew = self.anew and state not in (PILOT, DONE)

    def reset(self) -> None:
        """Model and data are forgotten."""
        self.anew = self.state != PILOT

    def over(self, samples: int) -> bool:
        """Whether it is, after so many pings."""
        enough = samples >= self.samples
        if self.anew:
            return enough
        return self.state in (EXPLORING, DONE) or (enough and not self.awaited)
