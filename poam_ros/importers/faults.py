"""Rows of a log that are no soundings: impossible values, what instruments write without a reading,
positions that the vehicle cannot have reached, depths that a sounder holds, and repeated records.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.errors import quantity
from ..core.geodesy import rough_metres
from ..core.geometry import MAX_COORDINATE
from ..frontend.odometry import SIGMAS, JumpDetector, reachable
from ..frontend.pings import MAX_ELEVATION, held_readings
from ..mapping.soundings import DATES, Soundings
from .cells import NO_READING, UNITS

log = logging.getLogger(__name__)

#: Reasons of soundings that these rules leave out.
POSITION_JUMP, FROZEN, REPEATED = "position_jump", "repeats_last_depth", "repeated"
#: A place is wrong if it is this many times as far out as 90 % of all, and at least this far (m).
#: Fewer places than ``FEWEST`` do not show it.
FAR_TIMES, FAR_M, FEWEST = 20.0, 50_000.0, 20
#: The steps whose median is the vehicle's speed, an odd number.
STEPS = JumpDetector.MIN_SPEEDS
#: Between positions farther apart in time than this (s) nobody knows what the vehicle did.
GAP = 10.0
#: A jump this close (s) to the begin or the end of a log, or to a gap, is taken for false positions
#: there.
END = 60.0


def impossible(
    place: np.ndarray, height: np.ndarray, degrees: bool, unit: str
) -> dict[str, np.ndarray]:
    """Which values cannot be soundings, whatever the others are: boolean [N] by reason. The
    arguments are attributes of ``RawSoundings``."""
    limits = (90.0, 360.0) if degrees else (MAX_COORDINATE, MAX_COORDINATE)
    return {
        "not_a_number": ~(np.isfinite(place).all(1) & np.isfinite(height)),
        "impossible_place": ~(np.abs(place) <= limits).all(1),
        "wild_elevation": ~(np.abs(height) * UNITS[unit or "m"] <= MAX_ELEVATION),
    }


def no_readings(height: np.ndarray) -> dict[str, np.ndarray]:
    """Which depths or elevations [N] instruments write without a reading: boolean [N] by reason."""
    size, lost = np.abs(height), np.zeros(len(height), dtype=bool)
    sentinel = np.isin(size, NO_READING)
    signs = np.sign(height[height != 0])
    # A value like the others is a reading: 9 m in a lake of 12 m, 0 on a shore above the datum.
    if len(signs) and abs(float(signs.mean())) > 0.8:
        others = size if sentinel.all() else size[~sentinel]
        least, typical = np.quantile(others, (0.99 if sentinel.all() else 0.01, 0.99))
        apart = (size > 2 * typical) | ((size >= 99) & (2 * size < least))  # 9999 mm among 30,000
        lost = sentinel & (apart | (np.sign(height) != np.sign(np.median(height))))
    # The deepest value is the sonar's limit if it is repeated, and much more than the next one.
    deepest = size[~lost].max(initial=0)
    below = size[~lost & (size < deepest)]
    limit = (size == deepest) & bool(
        len(below) and (size[~lost] == deepest).sum() >= 5 and deepest > 1.5 * below.max()
    )
    return {"no_reading": lost, "sonar_limit": limit}


def no_position(place: np.ndarray, degrees: bool = True) -> np.ndarray:
    """Which of these places [N, 2] are none, boolean [N]: unknown, or exactly 0, 0, which receivers
    write without a fix; in metres where all others lie far from there."""
    unknown, null = ~np.isfinite(place).all(1), (place == 0).all(1)
    if degrees or not null.any():
        return unknown | null
    others = place[~unknown & ~null & (np.abs(place) <= MAX_COORDINATE).all(1)]
    far = len(others) > 0 and np.hypot(*np.median(others, axis=0)) > FAR_M
    return unknown | (null & far)


def far_away(
    place: np.ndarray, kept: np.ndarray, degrees: bool, near: tuple[float, float] | None
) -> np.ndarray:
    """Which places [N, 2] are many times farther away than most of ``kept`` [N], boolean [N]: from
    their middle, or from ``near`` (latitude, longitude)."""
    if kept.sum() < FEWEST:
        return np.zeros(len(place), dtype=bool)
    middle = np.median(place[kept], axis=0) if near is None or not degrees else near
    places = np.vstack((place, middle))
    xy = rough_metres(places) if degrees else places
    away = np.hypot(*(xy[:-1] - xy[-1]).T)
    reach = np.quantile(away[kept], 0.9 if near is None else 0.5)
    return away > max(FAR_TIMES * reach, FAR_M)


def uncertain(confidence: np.ndarray, least: float | None) -> tuple[np.ndarray, str]:
    """Which readings their instrument is not sure of [N], boolean; and which those are, as text.

    Args:
        confidence: as the instrument writes it: a percentage, or a flag [N]; NaN: unknown.
        least: that is accepted; None: 50 of a percentage, as on a vehicle, and any flag but 0.
    """
    known = confidence[np.isfinite(confidence)]
    if least is None and len(known) and 10 < known.max() <= 100 and known.min() >= 0:
        least = 50.0
    if len(known) and least is not None:
        return confidence < least, f", {{}} of at least {least:g}"
    if not len(known) or (known == 0).mean() > 0.5:  # 0 is what most have: all is well
        return np.zeros(len(confidence), dtype=bool), ""
    return confidence == 0, ", {} other than 0"


def impossible_positions(where: str, seconds: np.ndarray, xy: np.ndarray) -> np.ndarray:
    """Which positions of a log are impossible; boolean [N]: false fixes, as from multipath, and
    those that a receiver repeats until it leaps. Warns of jumps that stay, and of several vehicles
    in one log, of which none are refused.

    What the vehicle can have reached is told as on a vehicle (``frontend.odometry.reachable``); but
    a log knows what follows a jump. The track goes on with the first part of it that can be reached
    and lasts longer than what lies between; if there is none, the vehicle has moved.

    Args:
        where: beginning of warnings.
        seconds: times [N], in s, in the order of the log; NaN where unknown.
        xy: positions [N, 2], in m.
    """
    refused = np.zeros(len(seconds), dtype=bool)
    known = np.flatnonzero(np.isfinite(seconds) & np.isfinite(xy).all(1))
    times, places = spread(seconds[known]), xy[known]
    # A repeated position holds from its begin to its end.
    moved = np.append(True, (np.diff(places, axis=0) != 0).any(1))[: len(known)]
    begin = np.flatnonzero(moved)
    count = np.diff(begin, append=len(known))
    at, since, until = places[begin], times[begin], times[begin + count - 1]
    length, steps = np.hypot(*np.diff(at, axis=0).T), np.diff(since)
    some = len(steps) // STEPS * STEPS
    if not some or (interval := float(np.median(steps))) <= 0:
        return refused
    # What it seldom exceeds over some steps, of which less than half may be false, but in one part
    # of the log; at least what wind and waves give to slow vehicles, too.
    speeds = np.sort((length / np.maximum(steps, interval))[:some].reshape(-1, STEPS), axis=1)
    speed = max(float(np.quantile(speeds[:, STEPS // 2], 0.98, method="lower")), 1.0)
    noise = float(np.quantile(np.hypot(*(at[1:-1] - (at[:-2] + at[2:]) / 2).T), 0.9))
    slack = 3.0 + SIGMAS * noise + speed * interval  # m, possible at any time
    # After a gap, and where times go back, any place can be reached.
    apart = since[1:] - until[:-1]
    gap = np.append(False, (apart < 0) | (apart > max(GAP, 5 * interval)))
    track = np.cumsum(gap)

    def reached(a: Any, b: Any, left: np.ndarray) -> np.ndarray:
        """Whether the vehicle can have gone from a to b, indices, if it left a at that time."""
        return reachable(np.hypot(*(at[b] - at[a]).T), since[b] - left[a], speed, slack)

    every = np.arange(len(steps))
    jumps = np.append(False, ~reached(every, every + 1, until)) & ~gap
    if not jumps.any():
        return refused
    first = np.append(0, np.flatnonzero(jumps | gap))  # of each part
    last = np.append(first[1:], len(at)) - 1
    lasts, rests = until[last] - since[first], (until - since)[last]
    leaps = reached(last[:-1], first[1:], since) & (np.minimum(rests[:-1], lasts[1:]) > GAP)
    leaps &= jumps[first[1:]]
    wrong, held = np.zeros((2, len(at)), dtype=bool)
    stays, part = list[int](), 0
    while part + 1 < len(first):
        later = np.arange(part + 1, len(first))[:64]  # more are not the same jump's
        later = later[track[first[later]] == track[last[part]]]
        between = until[last[later - 1]] - since[first[part + 1]]
        goes_on = later[(lasts[later] >= between) & reached(last[part], first[later], until)]
        if leaps[part]:
            held[last[part]] = True
        elif len(goes_on):
            wrong[first[part + 1] : first[goes_on[0]]] = True
            part = int(goes_on[0]) - 1
        elif jumps[first[part + 1]]:
            stays.append(int(first[part + 1]))
        part += 1
    # Of a short begin or end, of the log or beside a gap, one side is unknown.
    for index in stays:
        begins, ends = np.searchsorted(track, (track[index], track[index] + 1))
        before, after = until[index - 1] - since[begins], until[ends - 1] - since[index]
        if min(before, after) <= END:
            wrong[slice(begins, index) if before < after else slice(index, ends)] = True
    stays = [index for index in stays if not (wrong[index - 1] or wrong[index])]
    if count[wrong].sum() > len(known) / 5:  # these are another vehicle's
        wrong[:], held[:], stays = False, False, np.flatnonzero(jumps).tolist()
    if stays:
        log.warning(
            "%s: positions jump by %.0f m and stay there (from sounding %d on)%s: those before or "
            "after it may be displaced, or another vehicle's, which needs a file of its own",
            where, length[stays[0] - 1], known[begin[stays[0]]],
            f", and {len(stays) - 1} times more" * (len(stays) > 1),
        )  # fmt: skip
    # The first of repeated positions was measured.
    refused[known] = np.repeat(wrong, count) | (np.repeat(held, count) & ~moved)
    return refused


def spread(seconds: np.ndarray) -> np.ndarray:
    """Times [N], in s, in the order of a log, where equal ones are spread evenly up to the next:
    whole seconds of an instrument that writes several rows in each."""
    first = np.flatnonzero(np.diff(seconds, prepend=np.nan) != 0)
    return np.interp(np.arange(len(seconds)), first, seconds[first]) if len(first) else seconds


def frozen(where: str, xy: np.ndarray, height: np.ndarray) -> np.ndarray:
    """Which soundings hold the last depth although the bottom changes, boolean [N]
    (``frontend.pings.held_readings``). Warns of those that nothing contradicts.

    Args:
        where: start of warnings.
        xy: places in m [N, 2].
        height: depths or elevations as the file has them [N].
    """
    wrong, unsure = held_readings(xy, height, height)
    for begin, end in unsure:
        log.warning(
            "%s: %d soundings over %.0f m have the same depth of %g (from sounding %d on): a flat "
            "bottom, or a sounder that lost it", where, end - begin,
            np.hypot(*np.diff(xy[begin:end], axis=0).T).sum(), abs(height[begin]), begin,
        )  # fmt: skip
    return wrong


def without_repeats(soundings: Soundings, files: Sequence[Path]) -> Soundings:
    """The soundings of one or more ``files``, each once: those of a later file, or of a later part
    of a file whose times begin anew, that an earlier one has at the same time and place are left
    out, with a warning. A line that is driven again has other times. Without dates none are."""
    from scipy.spatial import cKDTree

    stamps, count = soundings.stamp_ns, len(soundings)
    if stamps is None or not count or not (stamps > DATES).all():
        return soundings
    file = np.searchsorted([first for _, first in soundings.files[1:]], soundings.row, "right")
    back = np.diff(stamps) < -10 * SECOND
    # In more parts it is sorted by something else.
    back &= np.bincount(file[1:][back], minlength=len(files))[file[1:]] < 20
    begins = [0, *(np.flatnonzero(back | (np.diff(file) > 0)) + 1).tolist(), count]
    # Some files have whole seconds, and six decimals of a degree, 0.1 m.
    whole = any(not (stamps[a:b] % SECOND).any() for a, b in pairwise(begins))
    points = np.column_stack((stamps // SECOND if whole else np.round(stamps / 1e6), soundings.xy))
    left, out = [], np.zeros(count, dtype=bool)
    for begin, end in pairwise(begins[1:]):
        at, these = points[:begin, 0], points[begin:end]
        first, last = these[:, 0].min(), these[:, 0].max()
        others = np.flatnonzero((at >= first) & (at <= last) & ~out[:begin])
        near, match = cKDTree(points[others]).query(these, p=np.inf, distance_upper_bound=0.3)
        found, same = begin + np.flatnonzero(np.isfinite(near)), others[match[np.isfinite(near)]]
        # Two pings may follow each other where a file ends.
        if len(found) < max(1, min(10, end - begin)):
            continue
        out[found] = True
        off = float(np.abs(soundings.z[found] - soundings.z[same]).max())
        where = ", ".join("an earlier part of it" if number == file[begin] else files[number].name
                          for number in np.unique(file[same]))  # fmt: skip
        log.warning(
            "%s: %s of %d also in %s at the same time and place: left out%s",
            files[file[begin]].name, quantity(len(found), "sounding"), end - begin, where,
            f" (depths differ by up to {off:.2g} m: give the right file first)" * (off > 0.1),
        )  # fmt: skip
        mask = np.isin(np.arange(count), found)
        left.append(soundings.left(mask, REPEATED, f"also in {where}"))
    return soundings.without(*left)
