"""What ends a mission: samples and time. No rclpy."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass
class Budget:
    """Limits of a mission, and what is used up of them since it began.

    Attributes:
        max_samples: 0 = no limit.
        max_duration: seconds; 0 = no limit.
        began: when it did, in s; None before.
        samples: what the mapper has accepted so far.
        first: what of it was accepted before the mission began.
    """

    max_samples: int = 0
    max_duration: float = 0.0
    began: float | None = None
    samples: int = 0
    first: int = 0

    @property
    def endless(self) -> bool:
        """Whether there is no limit."""
        return not (self.max_samples or self.max_duration)

    @property
    def samples_left(self) -> int | None:
        """Samples until the end; None where there is no limit."""
        return max(0, self.max_samples - self.taken) if self.max_samples else None

    @property
    def taken(self) -> int:
        """Samples since the mission began."""
        return self.samples - self.first

    def distance_left(
        self, driven: float, now: float | None = None, speed: float = math.inf
    ) -> float:
        """Metres until the end after ``driven`` m, at as many samples a metre as so far.

        With ``now`` (s), also until ``max_duration``: as fast as so far, at most ``speed`` (m/s).
        Infinite where that is not known.
        """
        way = math.inf
        if self.samples_left is not None and self.samples:
            way = self.samples_left * driven / self.samples
        if now is not None and self.max_duration and self.began is not None and now > self.began:
            pace = min(speed, driven / (now - self.began))
            way = min(way, max(0.0, self.began + self.max_duration - now) * pace)
        return way

    def begin(self, now: float) -> None:
        """A mission begins at ``now`` (s); what the mapper has by then does not count."""
        self.began, self.first = now, self.samples

    def count(self, samples: int) -> None:
        """The mapper has accepted this many; fewer than before where it was reset."""
        self.samples, self.first = samples, min(self.first, samples)

    def spent(self, now: float | None = None) -> str | None:
        """What has run out, by the samples and by ``now`` (s) where it is given; None: nothing."""
        if now is not None and self.began is not None:
            self.began = min(self.began, now)  # a clock that is set back does not lengthen it
            if self.max_duration and now - self.began >= self.max_duration:
                return f"max_duration of {self.max_duration:g} s has passed"
        if self.max_samples and self.taken >= self.max_samples:
            return f"max_samples of {self.max_samples} were taken"
        return None
