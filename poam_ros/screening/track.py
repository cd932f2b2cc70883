"""What the pings along the track lead to expect of the next one. Ranges in metres."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import NamedTuple

import numpy as np

OTHERS = 3  # held pings of another pass that confirm one
ANOTHER_PASS = 4.0  # times the radius: the way between two passes
AT_ONCE = 64  # pings that are compared with all others at a time: so much memory does each need


def confirmed(
    xy: np.ndarray, z: np.ndarray, way: np.ndarray, room: np.ndarray, radius: float
) -> np.ndarray:
    """Whether pings of another pass found the same, and more of them than did not [N].

    Args:
        xy: of the pings [N, 2].
        z: their elevations [N].
        way: that the vehicle had made to each [N].
        room: differences that are none, at each [N].
        radius: how far others count.
    """
    found = np.zeros(len(xy), dtype=bool)
    for first in range(0, len(xy), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        near = ((xy[part, None] - xy) ** 2).sum(-1) <= radius**2
        near &= np.abs(way[part, None] - way) > ANOTHER_PASS * radius
        same = near & (np.abs(z[part, None] - z) <= room[part, None])
        found[part] = (same.sum(1) >= OTHERS) & (2 * same.sum(1) > near.sum(1))
    return found


RECENT = 20  # believed pings that a new one is compared with
AGREEING = 2  # of these, so that one false echo that was believed vouches for no other
REACH = 2.0  # m: pings nearer than this, or than half as far as they are deep, are side by side
NEXT = 5  # believed pings whose median is expected of the next one
STEPS = 3.0  # scatters between two pings that are no jump
ROUGH = 2.5  # scatters between two pings, in the mean of a run, that are no ground
GRAIN = 0.01  # of a range: scatter that is always granted


class TrackPoint(NamedTuple):
    """Where a ping was taken, and its range."""

    x: float
    y: float
    range: float

    def beside(self, other: TrackPoint) -> bool:
        """Whether they measured neighbouring ground."""
        distance = math.hypot(self.x - other.x, self.y - other.y)
        return distance <= reach(min(self.range, other.range))


def reach(depth: float) -> float:
    """How far neighbouring ground goes at a range."""
    return max(REACH, depth / 2)


def alike(one: float, other: float, ratio: float, room: float) -> bool:
    """Whether two ranges differ by less than a ratio, or a length."""
    low, high = sorted((one, other))
    return high - low <= room or 0 < high <= ratio * low


def roughness(ranges: np.ndarray) -> float:
    """Mean step between ranges [N] one after the other."""
    return float(np.abs(np.diff(ranges)).mean()) if len(ranges) > 1 else 0.0


def smooth(ranges: np.ndarray, scatter: float) -> bool:
    """Whether ranges [N] of a run go on as ground does that scatters so."""
    grain = GRAIN * float(np.median(ranges))
    return roughness(ranges) <= ROUGH * max(scatter, grain)


class AcceptedTrack:
    """The last pings that were believed, and the way that was made."""

    def __init__(self) -> None:
        self._believed: list[tuple[float, TrackPoint]] = []  # with the way made there, in its order
        self._last: TrackPoint | None = None
        self._way = 0.0

    def go(self, place: TrackPoint) -> float:
        """The way made so far, in m, with the step to a place."""
        if self._last is not None:
            self._way += math.hypot(place.x - self._last.x, place.y - self._last.y)
        self._last = place
        return self._way

    def add(self, place: TrackPoint, way: float) -> None:
        """This one is believed, which was taken after so much way."""
        self._believed.append((way, place))
        self._believed.sort(key=itemgetter(0))
        del self._believed[:-RECENT]

    @property
    def reached(self) -> float:
        """The way to the last one that is believed, in m; -inf without any."""
        return self._believed[-1][0] if self._believed else -math.inf

    @property
    def believed(self) -> np.ndarray:
        """x, y and range of the last ones that are believed [N, 3]."""
        return np.array([place for _, place in self._believed]).reshape(-1, 3)

    @property
    def scatter(self) -> float:
        """Median step between believed ranges one after the other, in m."""
        ranges = self.believed[:, 2]
        return float(np.median(np.abs(np.diff(ranges)))) if len(ranges) > 1 else 0.0

    def room(self, ranges: np.ndarray) -> np.ndarray:
        """Differences [N] that are no jump at ranges [N]."""
        return STEPS * np.maximum(self.scatter, GRAIN * ranges)

    def expected(self, place: TrackPoint) -> float:
        """The range that believed pings beside a place lead to expect; NaN without any."""
        near = self._near(place)[-NEXT:]
        return float(np.median(near)) if near else math.nan

    def agrees(self, place: TrackPoint, ratio: float) -> bool:
        """Whether believed pings beside it measured about the same."""
        near, room = self._near(place), STEPS * self.scatter
        same = sum(alike(place.range, other, ratio, room) for other in near)
        return same >= min(AGREEING, len(near)) > 0

    def _near(self, place: TrackPoint) -> list[float]:
        return [other.range for _, other in self._believed if other.beside(place)]
