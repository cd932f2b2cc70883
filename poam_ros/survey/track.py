"""Where the vehicle was, and when. No rclpy."""

from __future__ import annotations

import math
from collections import deque

import numpy as np


class Track:
    """Where the vehicle was, and when: the newest of its places, some distance apart."""

    SPACING = 0.25  # m between two places
    LENGTH = 2000  # of them at most

    def __init__(self) -> None:
        self._places: deque[tuple[float, float, float]] = deque(maxlen=self.LENGTH)

    def add(self, measured: float, position: np.ndarray) -> None:
        """The vehicle was at position [2] at a time in s; a clock set back takes back what it saw.

        Places that are later than the newest one could never be told from new ones.
        """
        places = self._places
        while places and places[-1][0] > measured:
            places.pop()
        if not places or math.dist(position, places[-1][1:]) >= self.SPACING:
            places.append((measured, float(position[0]), float(position[1])))

    def since(self, time_s: float) -> np.ndarray:
        """The places after a time in s, newest last [K, 2]."""
        later = [place[1:] for place in self._places if place[0] > time_s]
        return np.array(later, dtype=float).reshape(-1, 2)
