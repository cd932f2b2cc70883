"""Ranges as a sonar reports them, a filter for invalid and repeated ones, and the comparison of two
records of one quantity, as of two sonars. Metres, ns."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.clock import SECOND
from .settings import FrontEndSettings

MAX_FRAMES = 16  # sonars that are distinguished
MAX_REMEMBERED = 64  # newest pings that a new one is compared with to find duplicates
TOO_CLOSE = "too_close"  # a reason of refusal
#: A range that is repeated for so long (s), so often and over so many m is hardly a flat bottom's.
#: Number and length are those of logs (importers/faults.py).
LOST_S, LOST_COUNT, LOST_M = 60.0, 15, 15.0
MAX_RANGE = 1e5  # m; beyond the reach of any sonar, whatever a message says


@dataclass(frozen=True)
class RawPing:
    """A range as the sonar reports it.

    Attributes:
        stamp_ns: time.
        range: in m, as reported, without corrections.
        min_range, max_range: limits of validity, in m.
        frame_id: frame of the sonar.
        field_of_view: full angle of the beam in rad; 0: unknown.
        variance: of the range, m^2; 0: unknown (as of sensor_msgs/Range).
        confidence: in the driver's unit; NaN: unknown.
    """

    stamp_ns: int
    range: float
    min_range: float
    max_range: float
    frame_id: str = ""
    field_of_view: float = 0.0
    variance: float = 0.0
    confidence: float = math.nan


def refusal_reason(ping: RawPing, low: float = 0.0, high: float = 0.0) -> str | None:
    """Why a range is not a measurement (REP-117); None if it is one.

    A range of 0 is never valid: drivers send 0 for "no echo", also with a minimum of 0.

    Args:
        ping: the range.
        low: shortest valid range in m; 0: the ping's own limit.
        high: longest valid range in m; 0: the ping's own limit; 0 or NaN again: none.
    """
    low = low or (ping.min_range if ping.min_range > 0 else 0.0)
    high = high or (ping.max_range if ping.max_range > 0 else MAX_RANGE)
    if low <= ping.range <= high and 0 < ping.range <= MAX_RANGE:
        return None
    if math.isnan(ping.range):
        return "nan"
    if ping.range == math.inf:
        return "no_return"
    # -inf is REP-117's "too close", and lies below every minimum.
    return TOO_CLOSE if ping.range < low or ping.range <= 0 else "out_of_range"


class RangeFilter:
    """Refuses invalid, duplicate and repeated ranges."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the previous pings."""
        self._past: deque[tuple[int, float, str]] = deque(maxlen=MAX_REMEMBERED)
        self._first: dict[str, RawPing] = {}  # by frame: the first ping with the current value

    def refusal_reason(self, ping: RawPing, settings: FrontEndSettings) -> str | None:
        """Why a ping is refused; None if it is taken."""
        reason = refusal_reason(ping, settings.min_range, settings.max_range)
        if reason is not None:
            return reason
        if ping.confidence < settings.min_confidence:  # never true for NaN: unknown
            return "low_confidence"
        # Four beams may share a stamp; the same beam with the same range is the same ping.
        key = ping.stamp_ns, ping.range, ping.frame_id
        if key in self._past:
            return "duplicate"
        self._past.append(key)
        # A truly level bottom still passes once a window: time counts from the first of equal
        # readings that was taken.
        first, window = self._first.get(ping.frame_id), settings.repeat_window * SECOND
        if first and first.range == ping.range and 0 <= ping.stamp_ns - first.stamp_ns < window:
            return "repeat"
        if first is None and len(self._first) >= MAX_FRAMES:
            self._first.clear()
        self._first[ping.frame_id] = ping
        return None


class RepeatedRange:
    """Notices a sonar that repeats its last range while the vehicle moves on, as one does that has
    lost the bottom."""

    def __init__(self) -> None:
        self._range = math.nan
        self._begun_ns, self._count, self._length = 0, 0, 0.0
        self._place, self._said = (0.0, 0.0), False

    def follow(self, stamp_ns: int, place: tuple[float, float], distance: float) -> str:
        """What to say of a placed ping: time in ns, place in m, range in m; empty: nothing. Each
        repetition is reported once."""
        if distance != self._range:
            self._range, self._begun_ns, self._place = distance, stamp_ns, place
            self._count, self._length, self._said = 1, 0.0, False
            return ""
        self._count, self._length = self._count + 1, self._length + math.dist(place, self._place)
        self._place = place
        since_s = (stamp_ns - self._begun_ns) / SECOND
        enough = since_s >= LOST_S and self._count >= LOST_COUNT and self._length >= LOST_M
        if self._said or not enough:
            return ""
        self._said = True
        return (
            f"the sonar has repeated {distance:.4g} m for {since_s:.0f} s, over "
            f"{self._length:.0f} m: it may have lost the bottom"
        )


#: Records that are rounded differently (a tenth of a fathom is 0.18 m), or of two sounders of one
#: boat: nine tenths of the differences are at most this many m and this share of the value.
ROUNDED, SHARE = 0.1, 0.02
#: Fewer pairs do not show how two records differ.
FEWEST = 5
#: Two sonars' readings are of the same bottom within this time, in s.
TOGETHER = 1.0
EQUAL, OFFSET, FACTOR, DIFFERENT, UNKNOWN = "equal", "offset", "factor", "different", "unknown"


class Relation(NamedTuple):
    """How a second record of a quantity differs from the first.

    Attributes:
        kind: ``EQUAL``; ``OFFSET``: by ``value`` m; ``FACTOR``: ``value`` times; ``DIFFERENT``;
            ``UNKNOWN``: too few pairs.
        value: see there; else 0.
    """

    kind: str
    value: float = 0.0


def compare(first: np.ndarray, second: np.ndarray) -> Relation:
    """The relation of a second record to the first; both [N], in m, NaN where unknown.

    A factor is found only where the values differ enough to tell it from an offset.
    """
    known = np.isfinite(first) & np.isfinite(second) & (first != 0)
    one, two = first[known], second[known]
    fewer = min(np.isfinite(first).sum(), np.isfinite(second).sum())
    if len(one) < max(FEWEST, fewer / 10):
        return Relation(UNKNOWN)
    size = np.abs(one)
    offset, factor = float(np.median(two - one)), float(np.median(two / one))
    found = {
        EQUAL: np.abs(two - one),
        OFFSET: np.abs(two - one - offset),
        FACTOR: np.abs(two / factor - one) if factor else np.full(len(one), np.inf),
    }
    for kind, value in ((EQUAL, 0.0), (OFFSET, offset), (FACTOR, factor)):
        if np.quantile(found[kind] - SHARE * size, 0.9) <= ROUNDED:
            return Relation(kind, value)
    return Relation(DIFFERENT)


def at_times(
    seconds: np.ndarray, times: np.ndarray, values: np.ndarray, within: float
) -> np.ndarray:
    """The values [K] at ``times`` [K], ascending, that are the nearest to ``seconds`` [N]; NaN
    where none is ``within`` so many s."""
    if not len(times):
        return np.full(len(seconds), np.nan)
    after = np.clip(np.searchsorted(times, seconds), 1, max(len(times) - 1, 1))
    last = np.minimum(after, len(times) - 1)
    near = np.where(seconds - times[after - 1] <= times[last] - seconds, after - 1, last)
    return np.where(np.abs(times[near] - seconds) <= within, values[near], np.nan)
