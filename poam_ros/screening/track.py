"""What the pings along the track lead to expect of the next one. Ranges in metres."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import NamedTuple

import numpy as np

MIN_CONFIRMING = 3  # held pings of another pass that confirm one
PASS_DISTANCE = 4.0  # times the radius: the distance between two passes
CHUNK = 64  # pings that are compared with all others at a time: so much memory does each need


def confirmed_by_other_passes(
    xy: np.ndarray, z: np.ndarray, distance: np.ndarray, tolerance: np.ndarray, radius: float
) -> np.ndarray:
    """Whether pings of another pass found the same, and more of them than did not [N].

    Args:
        xy: of the pings [N, 2].
        z: their elevations [N].
        distance: that the vehicle had made to each [N].
        tolerance: differences that are none, at each [N].
        radius: how far others count.
    """
    found = np.zeros(len(xy), dtype=bool)
    for first in range(0, len(xy), CHUNK):
        part = slice(first, first + CHUNK)
        near = ((xy[part, None] - xy) ** 2).sum(-1) <= radius**2
        near &= np.abs(distance[part, None] - distance) > PASS_DISTANCE * radius
        same = near & (np.abs(z[part, None] - z) <= tolerance[part, None])
        found[part] = (same.sum(1) >= MIN_CONFIRMING) & (2 * same.sum(1) > near.sum(1))
    return found


MAX_RECENT = 20  # accepted pings that a new one is compared with
MIN_AGREEING = 2  # of these, so that one false echo that was accepted vouches for no other
MIN_NEIGHBOURHOOD = (
    2.0  # m: pings nearer than this, or than half as far as they are deep, are side by side
)
MEDIAN_COUNT = 5  # accepted pings whose median is expected of the next one
JUMP_SIGMAS = 3.0  # scatters between two pings that are no jump
ROUGHNESS_LIMIT = 2.5  # scatters between two pings, in the mean of a run, that are no ground
MIN_SCATTER_RATIO = 0.01  # of a range: scatter that is always granted


class TrackPoint(NamedTuple):
    """Where a ping was taken, and its range."""

    x: float
    y: float
    range: float

    def beside(self, other: TrackPoint) -> bool:
        """Whether they measured neighbouring ground."""
        distance = math.hypot(self.x - other.x, self.y - other.y)
        return distance <= neighbourhood_radius(min(self.range, other.range))


def neighbourhood_radius(depth: float) -> float:
    """How far neighbouring ground goes at a range."""
    return max(MIN_NEIGHBOURHOOD, depth / 2)


def similar_ranges(one: float, other: float, ratio: float, tolerance: float) -> bool:
    """Whether two ranges differ by less than a ratio, or a length."""
    low, high = sorted((one, other))
    return high - low <= tolerance or 0 < high <= ratio * low


def roughness(ranges: np.ndarray) -> float:
    """Mean step between ranges [N] one after the other."""
    return float(np.abs(np.diff(ranges)).mean()) if len(ranges) > 1 else 0.0


def is_smooth(ranges: np.ndarray, scatter: float) -> bool:
    """Whether ranges [N] of a run go on as ground does that scatters so."""
    grain = MIN_SCATTER_RATIO * float(np.median(ranges))
    return roughness(ranges) <= ROUGHNESS_LIMIT * max(scatter, grain)


class AcceptedTrack:
    """The last pings that were accepted, and the distance that was made."""

    def __init__(self) -> None:
        self._accepted: list[
            tuple[float, TrackPoint]
        ] = []  # with the distance made there, in its order
        self._last: TrackPoint | None = None
        self._distance = 0.0

    def go(self, place: TrackPoint) -> float:
        """The distance made so far, in m, with the step to a place."""
        if self._last is not None:
            self._distance += math.hypot(place.x - self._last.x, place.y - self._last.y)
        self._last = place
        return self._distance

    def add(self, place: TrackPoint, distance: float) -> None:
        """This one is accepted, which was taken after this distance."""
        self._accepted.append((distance, place))
        self._accepted.sort(key=itemgetter(0))
        del self._accepted[:-MAX_RECENT]

    @property
    def reached(self) -> float:
        """The distance to the last one that is accepted, in m; -inf without any."""
        return self._accepted[-1][0] if self._accepted else -math.inf

    @property
    def accepted(self) -> np.ndarray:
        """x, y and range of the last ones that are accepted [N, 3]."""
        return np.array([place for _, place in self._accepted]).reshape(-1, 3)

    @property
    def scatter(self) -> float:
        """Median step between accepted ranges one after the other, in m."""
        ranges = self.accepted[:, 2]
        return float(np.median(np.abs(np.diff(ranges)))) if len(ranges) > 1 else 0.0

    def tolerance(self, ranges: np.ndarray) -> np.ndarray:
        """Differences [N] that are no jump at ranges [N]."""
        return JUMP_SIGMAS * np.maximum(self.scatter, MIN_SCATTER_RATIO * ranges)

    def expected(self, place: TrackPoint) -> float:
        """The range that accepted pings beside a place lead to expect; NaN without any."""
        near = self._near(place)[-MEDIAN_COUNT:]
        return float(np.median(near)) if near else math.nan

    def agrees(self, place: TrackPoint, ratio: float) -> bool:
        """Whether accepted pings beside it measured about the same."""
        near, tolerance = self._near(place), JUMP_SIGMAS * self.scatter
        same = sum(similar_ranges(place.range, other, ratio, tolerance) for other in near)
        return same >= min(MIN_AGREEING, len(near)) > 0

    def _near(self, place: TrackPoint) -> list[float]:
        return [other.range for _, other in self._accepted if other.beside(place)]
