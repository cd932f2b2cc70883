"""The water's level over the map's datum. Knows no ROS."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..core.clock import Moment
from .settings import MAX_LEVEL, GateSettings


@dataclass(frozen=True)
class WaterLevel:
    """The water's surface lies so many metres above the map's datum."""

    level: float


def level_fault(level: float) -> str:
    """What is wrong with a level, in words; empty where nothing is."""
    if math.isfinite(level) and abs(level) <= MAX_LEVEL:
        return ""
    return f"water_level: expected metres from {-MAX_LEVEL:g} to {MAX_LEVEL:g}, got {level}"


class WaterLevelTracker:
    """The level that holds now: the topic's once it spoke, and only while it speaks."""

    def __init__(self) -> None:
        self._heard: tuple[float, float] | None = None  # level, and when in s

    def add(self, level: float, now: Moment) -> bool:
        """Take a level; False where it cannot be one, and the last one holds on."""
        if level_fault(level):
            return False
        self._heard = level, now.limit_s
        return True

    def level(self, settings: GateSettings, now: Moment) -> float | None:
        """The level in m; None where none is known, or the last one is too old."""
        if self._heard is None:
            return None if settings.await_water_level else settings.water_level
        level, when = self._heard
        age, limit = now.limit_s - when, settings.water_level_timeout
        # Heard in a time to come: the clock was set back, and nobody knows how old it is.
        return level if not limit or -1.0 <= age <= limit else None
