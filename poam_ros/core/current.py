"""A constant current, and how fast a vehicle that holds its track makes way in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .errors import InputError
from .geometry import path_length

#: The largest current that is reckoned with, as a share of the vehicle's speed.
STRONGEST = 0.9


@dataclass(frozen=True)
class Current:
    """A current, and a vehicle's speed in it.

    Attributes:
        x, y: velocity of the water in the map's axes, in m/s.
        speed: speed through water, in m/s.

    Raises:
        InputError: the vehicle is not faster than the current.
    """

    x: float
    y: float
    speed: float

    def __post_init__(self) -> None:
        if not math.hypot(self.x, self.y) < self.speed < math.inf:
            raise InputError(
                f"current: expected less than the vehicle's speed of {self.speed:g} m/s, got "
                f"{math.hypot(self.x, self.y):g} m/s"
            )

    @classmethod
    def at_most(cls, velocity: Sequence[float], speed: float) -> Current:
        """A current of this velocity [2], or as much of it as the vehicle can make way in."""
        x, y = velocity
        share = min(1.0, STRONGEST * speed / max(math.hypot(x, y), 1e-12))
        return cls(share * x, share * y, speed)

    def __str__(self) -> str:
        return f"{self.x:.2f} {self.y:.2f} m/s"

    @property
    def still(self) -> bool:
        """Whether there is no current."""
        return self.x == self.y == 0

    def speed_over_ground(self, angle: float) -> float:
        """Speed over ground in m/s along a direction, in rad from x to y."""
        if self.still:
            return self.speed
        along = self.x * math.cos(angle) + self.y * math.sin(angle)
        return along + math.sqrt(self.speed**2 - self._across(angle) ** 2)

    def heading(self, angle: float) -> float:
        """The heading in rad that makes the vehicle move along a direction."""
        return angle - math.asin(self._across(angle) / self.speed)

    def _across(self, angle: float) -> float:
        """Component of the current to the left of a direction, in m/s."""
        return self.y * math.cos(angle) - self.x * math.sin(angle)

    def seconds(self, path: np.ndarray) -> float:
        """Time in s along straight legs between places [K, 2] in m."""
        legs = np.diff(path, axis=0)
        angles = np.arctan2(legs[:, 1], legs[:, 0]).tolist()
        return float((np.hypot(*legs.T) / [*map(self.speed_over_ground, angles)]).sum())

    def mean_speed(self, path: np.ndarray) -> float:
        """Mean speed over ground in m/s along straight legs between places [K, 2] in m."""
        length = path_length(path)
        return self.speed if self.still or not length else length / self.seconds(path)
