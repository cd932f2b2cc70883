"""Where the vehicle was: the newest places with their times, and all places, thinned out."""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from ..core.geometry import Extent


class Track:
    """Where the vehicle was, and when: bounded, however long the mission is.

    Args:
        workspace: places in it, or near it, are remembered to the end.

    Attributes:
        length: driven so far, in m.
    """

    SPACING = 0.25  # m between two of the newest places
    NEWEST = 2000  # of them at most
    SQUARES = 100  # along the workspace's longer side; one place of each is remembered
    MARGIN = 0.1  # of the longer side, about the workspace

    def __init__(self, workspace: Extent) -> None:
        self._newest: deque[tuple[float, float, float]] = deque(maxlen=self.NEWEST)
        side = float(workspace.size.max())
        self._lower, self._square = workspace.lower, side / self.SQUARES
        self._about = workspace.grown(self.MARGIN * side)
        self._visited: dict[tuple[int, ...], tuple[float, float, float]] = {}
        self._last: np.ndarray | None = None
        self.length = 0.0

    def add(self, measured: float, position: np.ndarray) -> None:
        """The vehicle was at position [2] at a time in s; a clock set back takes back what it saw.

        Places that are later than the newest one could never be told from new ones.
        """
        places = self._newest
        while places and places[-1][0] > measured:
            places.pop()
        if places and math.dist(position, places[-1][1:]) < self.SPACING:
            return
        places.append((measured, float(position[0]), float(position[1])))
        if self._last is not None:
            self.length += math.dist(position, self._last)
        self._last = position
        if self._about.contains(position):
            square = np.floor((position - self._lower) / self._square).astype(int)
            self._visited.setdefault(tuple(square.tolist()), places[-1])

    def memento(self) -> dict[str, object]:
        """What ``restore`` takes, as plain values."""
        visited = [[*square, *place] for square, place in self._visited.items()]
        return {"newest": list(self._newest), "visited": visited, "length": self.length}

    def restore(self, newest: list[list[float]], visited: list[list[float]], length: float) -> None:
        """Go on from a track of the same workspace."""
        for time_s, x, y in newest:
            self._newest.append((time_s, x, y))
        for row, column, *place in visited:
            time_s, x, y = place
            self._visited[int(row), int(column)] = time_s, x, y
        self.length = float(length)

    def since(self, time_s: float) -> np.ndarray:
        """The newest places after a time in s, newest last [K, 2]."""
        later = [place[1:] for place in self._newest if place[0] > time_s]
        return np.array(later, dtype=float).reshape(-1, 2)

    def around(self, time_s: float) -> tuple[np.ndarray, np.ndarray]:
        """The newest places after a time in s, and all up to it, thinned out: [K, 2] each."""
        return self.since(time_s), self.visited(time_s)

    def visited(self, until_s: float = math.inf) -> np.ndarray:
        """One place of every square of the workspace that the vehicle was in by a time [K, 2]."""
        places = [place[1:] for place in self._visited.values() if place[0] <= until_s]
        return np.array(places, dtype=float).reshape(-1, 2)
