"""What screening remembers: the accepted pings along the track, the held ones and their runs.

Ranges and distances in metres.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.reading import parse_json_text
from ..core.samples import Samples

MIN_CONFIRMING = 3  # held pings of other passes that confirm one
PASS_DISTANCE = 4.0  # distance travelled between two passes, in radii
CHUNK = 64  # pings compared with all others at a time, to bound the memory

MAX_RECENT = 20  # accepted pings that a new one is compared with
MIN_AGREEING = 2  # of these: one accepted false echo supports no other
#: m: pings are neighbours within this, half their range, or ``NEIGHBOUR_STEPS`` usual steps.
MIN_NEIGHBOURHOOD = 2.0
NEIGHBOUR_STEPS = 3.0
MEDIAN_COUNT = 5  # accepted pings whose median is the expected next range
JUMP_SIGMAS = 3.0  # a larger step, in scatters, is a jump
ROUGHNESS_LIMIT = 2.5  # a run with a larger mean step, in scatters, is not smooth
MIN_SCATTER_RATIO = 0.01  # lower bound of the scatter, as a share of the range


def confirmed_by_other_passes(
    xy: np.ndarray, z: np.ndarray, distance: np.ndarray, tolerance: np.ndarray, radius: float
) -> np.ndarray:
    """Whether enough pings of other passes agree with a ping, and more agree than disagree [N].

    Args:
        xy: places of the pings [N, 2].
        z: their elevations [N].
        distance: travelled up to each [N].
        tolerance: elevations this close agree, at each [N].
        radius: only pings within it are compared.
    """
    found = np.zeros(len(xy), dtype=bool)
    for first in range(0, len(xy), CHUNK):
        part = slice(first, first + CHUNK)
        near = ((xy[part, None] - xy) ** 2).sum(-1) <= radius**2
        near &= np.abs(distance[part, None] - distance) > PASS_DISTANCE * radius
        same = near & (np.abs(z[part, None] - z) <= tolerance[part, None])
        found[part] = (same.sum(1) >= MIN_CONFIRMING) & (2 * same.sum(1) > near.sum(1))
    return found


class TrackPoint(NamedTuple):
    """Where a ping was taken, and its range."""

    x: float
    y: float
    range: float

    def beside(self, other: TrackPoint, step: float) -> bool:
        """Whether the two pings are neighbours on a track with this usual step."""
        distance = math.hypot(self.x - other.x, self.y - other.y)
        return distance <= neighbourhood_radius(min(self.range, other.range), step)


def neighbourhood_radius(depth: float, step: float) -> float:
    """Largest distance between neighbouring pings at a range: a fast boat over shallow water has
    steps as long as the depth, and still no gaps.

    Args:
        depth: the smaller range, in m.
        step: the usual distance between successive pings, in m.
    """
    return max(MIN_NEIGHBOURHOOD, depth / 2, NEIGHBOUR_STEPS * step)


def similar_ranges(one: float, other: float, ratio: float, tolerance: float) -> bool:
    """Whether two ranges differ by at most a ratio, or a length."""
    low, high = sorted((one, other))
    return high - low <= tolerance or 0 < high <= ratio * low


def roughness(ranges: np.ndarray) -> float:
    """Mean absolute step between successive ranges [N]."""
    return float(np.abs(np.diff(ranges)).mean()) if len(ranges) > 1 else 0.0


def is_smooth(ranges: np.ndarray, scatter: float) -> bool:
    """Whether the ranges of a run [N] are as smooth as a bottom with this scatter."""
    grain = MIN_SCATTER_RATIO * float(np.median(ranges))
    return roughness(ranges) <= ROUGHNESS_LIMIT * max(scatter, grain)


class AcceptedTrack:
    """The last accepted pings, and the distance travelled."""

    def __init__(self) -> None:
        self._accepted: list[tuple[float, TrackPoint]] = []  # by distance travelled
        self._last: TrackPoint | None = None
        self._distance = 0.0

    def go(self, place: TrackPoint) -> float:
        """Move to a place; returns the distance travelled so far, in m."""
        if self._last is not None:
            self._distance += math.hypot(place.x - self._last.x, place.y - self._last.y)
        self._last = place
        return self._distance

    def add(self, place: TrackPoint, distance: float) -> None:
        """Add an accepted ping that was taken after this distance."""
        self._accepted.append((distance, place))
        self._accepted.sort(key=itemgetter(0))
        del self._accepted[:-MAX_RECENT]

    @property
    def reached(self) -> float:
        """Distance travelled up to the last accepted ping, in m; -inf without any."""
        return self._accepted[-1][0] if self._accepted else -math.inf

    @property
    def accepted(self) -> np.ndarray:
        """x, y and range of the last accepted pings [N, 3]."""
        return np.array([place for _, place in self._accepted]).reshape(-1, 3)

    @property
    def scatter(self) -> float:
        """Median absolute step between successive accepted ranges, in m."""
        ranges = self.accepted[:, 2]
        return float(np.median(np.abs(np.diff(ranges)))) if len(ranges) > 1 else 0.0

    def tolerance(self, ranges: np.ndarray) -> np.ndarray:
        """Largest differences [N] at ranges [N] that are not jumps."""
        return JUMP_SIGMAS * np.maximum(self.scatter, MIN_SCATTER_RATIO * ranges)

    def expected(self, place: TrackPoint, step: float) -> float:
        """The range expected at a place, from neighbouring accepted pings; NaN without any."""
        near = self._near(place, step)[-MEDIAN_COUNT:]
        return float(np.median(near)) if near else math.nan

    def agrees(self, place: TrackPoint, ratio: float, step: float) -> bool:
        """Whether neighbouring accepted pings have similar ranges."""
        near, tolerance = self._near(place, step), JUMP_SIGMAS * self.scatter
        same = sum(similar_ranges(place.range, other, ratio, tolerance) for other in near)
        return same >= min(MIN_AGREEING, len(near)) > 0

    def _near(self, place: TrackPoint, step: float) -> list[float]:
        return [other.range for _, other in self._accepted if other.beside(place, step)]


@dataclass
class ScreenerState:
    """What one screening leaves for the next.

    Attributes:
        held: the held pings in order of arrival.
        runs: the run of pings that each held ping belongs to.
        expected: the range that was expected of each instead; NaN: none.
        distances: travelled up to each, in m.
        open: the runs that may continue, with the last ping of each.
        enclosed_runs: runs that have the expected bottom on both sides.
        run_count: runs so far.
    """

    held: Samples = field(default_factory=Samples.empty)
    runs: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    expected: np.ndarray = field(default_factory=lambda: np.empty(0))
    distances: np.ndarray = field(default_factory=lambda: np.empty(0))
    track: AcceptedTrack = field(default_factory=AcceptedTrack)
    open: dict[int, TrackPoint] = field(default_factory=dict)
    enclosed_runs: set[int] = field(default_factory=set)
    run_count: int = 0


#: Classes written attribute by attribute, by their tag; and keys that differ from the names.
_CLASSES: dict[str, tuple[type, dict[str, str]]] = {
    "Memory": (
        ScreenerState,
        {"distances": "ways", "enclosed_runs": "flanked", "run_count": "begun"},
    ),
    "Track": (AcceptedTrack, {"_accepted": "_believed", "_distance": "_way"}),
}


def dump_state(state: ScreenerState) -> str:
    """The state as JSON, exact to the last bit."""
    return json.dumps(_plain(state))


def load_state(text: str) -> ScreenerState:
    """The inverse of ``dump_state``.

    Raises:
        InputError: the text was written by a version with other screening rules.
    """
    try:
        state = _value(parse_json_text(text))
        if not isinstance(state, ScreenerState):
            raise TypeError("no state")
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(f"the stored screening state has other rules ({error})") from None
    return state


def _plain(value: Any) -> Any:
    """A value as JSON; other types become an object with one entry, their tag."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for tag, (kind, keys) in _CLASSES.items():
        if isinstance(value, kind):
            return {tag: {keys.get(n, n): _plain(part) for n, part in vars(value).items()}}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, list(value.shape), value.ravel().tolist()]}
    if isinstance(value, Samples):
        return {"Samples": [_plain(array) for array in value.arrays]}
    if isinstance(value, TrackPoint):
        return {"Place": [_plain(part) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_plain(key), _plain(part)] for key, part in value.items()]}
    if isinstance(value, (set, tuple, list)):
        parts = sorted(value) if isinstance(value, set) else value
        return {type(value).__name__: [_plain(part) for part in parts]}
    raise TypeError(f"cannot write a {type(value).__name__}")


def _value(plain: Any) -> Any:
    """The inverse of ``_plain``.

    Raises:
        ValueError, TypeError, KeyError: it was written by other code.
    """
    if not isinstance(plain, dict):
        return plain
    [(kind, parts)] = plain.items()
    if kind in _CLASSES:
        made, keys = _CLASSES[kind][0](), _CLASSES[kind][1]
        names = {keys.get(name, name): name for name in vars(made)}
        if names.keys() != parts.keys():
            raise KeyError(f"{kind} has other attributes")
        vars(made).update({names[key]: _value(part) for key, part in parts.items()})
        return made
    if kind == "array":
        dtype, shape, values = parts
        return np.array(values, dtype=dtype).reshape(shape)
    if kind == "Samples":
        return Samples(*map(_value, parts))
    if kind == "Place":
        return TrackPoint(*map(_value, parts))
    if kind == "dict":
        return {_value(key): _value(part) for key, part in parts}
    return {"set": set, "tuple": tuple, "list": list}[kind](map(_value, parts))
