"""Positions of a log that the vehicle cannot have reached: false fixes, as from multipath.

One pass in the order of the log, by the front end's detector of jumps. Where it finds one, a new
part of the track begins; a short part between two that go on without it was an excursion.
"""

from __future__ import annotations

import logging
import math

import numpy as np

from ..core.clock import SECOND
from ..frontend.odometry import JUMP, MOVED, JumpDetector, VehicleState

log = logging.getLogger(__name__)

#: The reason of the soundings that this rule leaves out.
POSITION_JUMP = "position_jump"
#: Fewer positions, or a shorter log (s), do not show the vehicle's speed.
FEWEST, SHORTEST = 9, 9.0
#: The speed over several steps that the vehicle seldom exceeds, the factor by which it may for a
#: moment, and the smallest limit (m/s), which wind and waves give to slow vehicles, too.
STEPS, SELDOM, MARGIN, LEAST_SPEED = 9, 0.98, 1.5, 3.0
#: A step of this length (m) is possible at any time, besides the receiver's noise and resolution.
LEAST_STEP = 3.0
#: Between positions farther apart in time than this (s), and than this many usual intervals,
#: nobody knows what the vehicle did.
GAP, GAPS = 10.0, 5.0
#: An excursion takes at most this time (s), and this share of the log.
LONGEST, SHARE = 600.0, 0.25
#: With more parts than this share of the positions, or this share of positions in excursions, the
#: log is not that of one vehicle.
TOO_MANY, OTHERS = 0.1, 0.2
#: Maximum number of jumps in warnings.
WARNED = 3


def impossible_positions(where: str, seconds: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Which positions of a log are impossible; boolean [N]. Warns of jumps that stay. In a log of
    several vehicles it refuses nothing, and warns.

    Args:
        where: beginning of warnings.
        seconds: times [N], in s, in the order of the log; NaN where unknown.
        xy: positions [N, 2], in m; repeated ones hold until the next.

    A new track begins where times are unknown or go back.
    """
    refused = np.zeros(len(seconds), dtype=bool)
    known = np.flatnonzero(np.isfinite(seconds) & np.isfinite(xy).all(1))
    times, places = spread(seconds[known]), xy[known]
    moved = np.flatnonzero(np.append(True, (np.diff(places, axis=0) != 0).any(1))[: len(known)])
    usual = np.diff(times[moved])
    usual = usual[usual > 0]
    if len(usual) < FEWEST or usual.sum() < SHORTEST:
        return refused
    interval = float(np.median(usual))
    limit = MARGIN * _speed(times[moved], places[moved], max(1.0, interval))
    speed = max(limit, LEAST_SPEED) / JumpDetector.SPEED_FACTOR
    # Receivers and links repeat positions, and deliver several at once after a delay.
    reach = LEAST_STEP + 3 * _noise(times[moved], places[moved]) + 2 * _resolution(places[moved])
    reach += JumpDetector.SPEED_FACTOR * speed * interval
    steps = np.diff(times)
    far = np.hypot(*np.diff(places, axis=0).T) > reach
    if not (far & (steps >= 0)).any():
        return refused
    apart = np.flatnonzero((steps < 0) | (steps > max(GAP, GAPS * interval))) + 1
    longest = min(LONGEST, SHARE * float(usual.sum()))
    wrong, stays, parts = list[int](), list[int](), 0
    for track in np.split(np.arange(len(known)), apart):
        every, alone = _parts(times, places, track.tolist(), speed, reach)
        kept, excursions = _without_excursions(times, places, every, longest, speed, reach)
        wrong += alone + excursions
        stays += [part[0] for part in kept[1:]]
        parts += len(every) - 1
    if parts > max(2 * WARNED, TOO_MANY * len(known)) or len(wrong) > OTHERS * len(known):
        log.warning(
            "%s: positions jump back and forth, as those of several vehicles do: none are refused "
            "as %s. Map each vehicle from a file of its own", where, POSITION_JUMP,
        )  # fmt: skip
        return refused
    for index in stays[:WARNED]:
        log.warning(
            "%s: positions jump by %.0f m and stay there (from sounding %d on): those before or "
            "after it may be displaced",
            where, np.hypot(*(places[index] - places[index - 1])), known[index],
        )  # fmt: skip
    refused[known[wrong]] = True
    return refused


def spread(seconds: np.ndarray) -> np.ndarray:
    """Times [N], in s, in the order of a log, where equal ones are spread evenly up to the next:
    whole seconds of an instrument that writes several rows in each."""
    first = np.flatnonzero(np.diff(seconds, prepend=np.nan) != 0)
    return np.interp(np.arange(len(seconds)), first, seconds[first]) if len(first) else seconds


def _parts(
    times: np.ndarray, places: np.ndarray, track: list[int], speed: float, reach: float
) -> tuple[list[list[int]], list[int]]:
    """The parts of a track that jumps divide, and the positions that are none, both as indices."""
    detector, parts, waiting, alone = JumpDetector(), [list[int]()], list[int](), list[int]()
    for index in track:
        x, y = places[index].tolist()
        state = VehicleState(round(times[index] * SECOND), (x, y, 0.0))
        fault = detector.check(state, speed, reach)
        if fault == JUMP:
            waiting.append(index)
            continue
        if fault == MOVED:
            parts.append(waiting)
        else:
            alone += waiting
        parts[-1].append(index)
        waiting = []
    return parts, alone + waiting


def placed_by(false: np.ndarray, times: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Which depths, at ``seconds`` [N], are placed by a false position; ``false``: boolean [K], at
    ``times``, ascending."""
    number = np.append(0, np.cumsum(false))  # false positions before each
    first, after = (np.searchsorted(times, seconds, side=side) for side in ("left", "right"))
    between = first == after
    low = np.maximum(first - between, 0)
    return number[np.minimum(after + between, len(times))] > number[low]


def _without_excursions(
    times: np.ndarray, places: np.ndarray, every: list[list[int]], longest: float, speed: float,
    reach: float,
) -> tuple[list[list[int]], list[int]]:  # fmt: skip
    """The parts of a track without those that it goes on without, which take at most ``longest`` s,
    and the positions of these, both as indices."""
    kept, wrong = list[list[int]](), list[int]()

    def lasts(part: list[int]) -> float:
        return float(times[part[-1]] - times[part[0]])

    def goes_on(before: list[int], after: list[int]) -> bool:
        a, b = before[-1], after[0]
        possible = reach + JumpDetector.SPEED_FACTOR * speed * (times[b] - times[a])
        return bool(np.hypot(*(places[b] - places[a])) <= possible)

    for part in every:
        while (
            len(kept) > 1
            and lasts(kept[-1]) <= min(longest, lasts(part))
            and goes_on(kept[-2], part)
        ):
            wrong += kept.pop()
        if kept and goes_on(kept[-1], part):
            kept[-1] += part
        else:
            kept.append(part)
    for end in (0, -1):
        if len(kept) > 1 and lasts(kept[end]) <= longest:
            wrong += kept.pop(end)
    return kept, wrong


def _speed(times: np.ndarray, places: np.ndarray, interval: float) -> float:
    """The sustained speed that the vehicle seldom exceeds, in m/s: the median over ``STEPS`` steps
    of at least ``interval`` s each."""
    chosen, last = [0], times[0]
    for index, time in enumerate(times.tolist()):
        if not 0 <= time - last < interval:
            chosen.append(index)
            last = time
    steps, length = np.diff(times[chosen]), np.hypot(*np.diff(places[chosen], axis=0).T)
    speed = np.divide(length, steps, out=np.zeros(len(steps)), where=steps > 0)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(speed, STEPS // 2, "reflect"), STEPS)
    return float(np.quantile(np.median(windows, axis=1), SELDOM))


def _noise(times: np.ndarray, places: np.ndarray) -> float:
    """How far nine tenths of the positions are at most from the line between their neighbours in
    time, in m."""
    before, after = times[1:-1] - times[:-2], times[2:] - times[1:-1]
    orderly = (before >= 0) & (after >= 0) & (before + after > 0)
    if not orderly.any():
        return 0.0
    share = (before[orderly] / (before + after)[orderly])[:, None]
    between = places[:-2][orderly] * (1 - share) + places[2:][orderly] * share
    return float(np.quantile(np.hypot(*(places[1:-1][orderly] - between).T), 0.9))


def _resolution(places: np.ndarray) -> float:
    """The length of the positions' least steps, in m."""
    steps = np.abs(np.diff(places, axis=0)).T
    least = [np.quantile(axis[axis > 0], 0.1) if (axis > 0).any() else 0.0 for axis in steps]
    return math.hypot(*least)


def seconds_of(stamp_ns: np.ndarray) -> np.ndarray:
    """Times in s since the first [N]; NaN where they are unknown (0)."""
    known = stamp_ns != 0
    first = stamp_ns[known].min() if known.any() else 0
    return np.where(known, (stamp_ns - first) / SECOND, np.nan)
