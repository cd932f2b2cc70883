"""Rows of a log that are no soundings: impossible values, what instruments write without a reading,
positions that the vehicle cannot have reached, depths that a sounder holds, and repeated records.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from ..core.clock import SECOND
from ..core.errors import quantity
from ..core.geodesy import rough_metres
from ..core.geometry import MAX_COORDINATE
from ..frontend.pings import MAX_ELEVATION, held_readings
from ..mapping.soundings import DATES, Soundings
from .cells import NO_READING, UNITS

log = logging.getLogger(__name__)

#: Reasons of soundings that these rules leave out.
POSITION_JUMP, FROZEN, REPEATED = "position_jump", "repeats_last_depth", "repeated"
#: A place is wrong if it is this many times as far out as 90 % of all, and at least this far (m).
#: Fewer places than ``FEWEST`` do not show it.
FAR_TIMES, FAR_M, FEWEST = 20.0, 50_000.0, 20
#: Fewer positions, or a shorter log (s), do not show the vehicle's speed.
FEWEST_POSITIONS, SHORTEST = 9, 9.0
#: The steps whose median is the vehicle's speed, an odd number.
STEPS = 9
#: Between positions farther apart in time than this (s) nobody knows what the vehicle did.
GAP = 10.0
#: Maximum number of jumps in warnings.
WARNED = 3


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
    those that a receiver repeats until it leaps. Warns of jumps that stay. In a log of several
    vehicles it refuses nothing, and warns.

    The track is divided where the vehicle cannot have gone so far, and begins anew where times go
    back or leave a gap. A short part between two that go on without it was an excursion.

    Args:
        where: beginning of warnings.
        seconds: times [N], in s, in the order of the log; NaN where unknown.
        xy: positions [N, 2], in m.
    """
    refused = np.zeros(len(seconds), dtype=bool)
    known = np.flatnonzero(np.isfinite(seconds) & np.isfinite(xy).all(1))
    if len(known) < FEWEST_POSITIONS:
        return refused
    times, places = spread(seconds[known]), xy[known]
    # A repeated position holds from its begin to its end.
    begin = np.flatnonzero(np.append(True, (np.diff(places, axis=0) != 0).any(1)))
    end = np.append(begin[1:], len(known))
    at, since, until = places[begin], times[begin], times[end - 1]
    usual = np.diff(since)
    usual = usual[usual > 0]
    if len(usual) < FEWEST_POSITIONS or usual.sum() < SHORTEST:
        return refused
    interval = float(np.median(usual))
    # At least what wind and waves give to slow vehicles, too; for a moment more than usual.
    speed = max(1.5 * _speed(since, at, interval), 3.0)
    noise = float(np.quantile(np.hypot(*(at[1:-1] - (at[:-2] + at[2:]) / 2).T), 0.9))
    reach = 3.0 + 3 * noise + speed * interval  # m, possible at any time
    apart = since[1:] - until[:-1]
    jumps = np.hypot(*np.diff(at, axis=0).T) > reach + speed * np.maximum(apart, 0)
    if not jumps.any():
        return refused

    def lasts(part: list[int]) -> float:
        return float(until[part[-1]] - since[part[0]])

    def goes_on(a: int, b: int, left: np.ndarray) -> bool:
        """Whether the vehicle may go from a to b if it leaves a at that time."""
        return bool(np.hypot(*(at[b] - at[a])) <= reach + speed * (since[b] - left[a]))

    longest = min(600.0, float(usual.sum()) / 4)  # an excursion, s
    wrong, held, stays, divided = list[int](), list[int](), list[int](), 0
    begins_anew = (apart < 0) | (apart > max(GAP, 5 * interval))
    for track in np.split(np.arange(len(at)), np.flatnonzero(begins_anew) + 1):
        parts = np.split(track, np.flatnonzero(jumps[track[:-1]]) + 1)
        kept = list[list[int]]()
        for part in (each.tolist() for each in parts):
            last = kept[-1][-1] if kept else 0
            rest = until[last] - since[last]
            if kept and min(rest, lasts(part)) > GAP and goes_on(last, part[0], since):
                held.append(last)
                kept[-1] += part
                continue
            while (
                len(kept) > 1
                and lasts(kept[-1]) <= min(longest, lasts(part))
                and goes_on(kept[-2][-1], part[0], until)
            ):
                wrong += kept.pop()
            if kept and goes_on(kept[-1][-1], part[0], until):
                kept[-1] += part
            else:
                kept.append(part)
        for index in (0, -1):  # of these one side is unknown: at most a minute
            if len(kept) > 1 and lasts(kept[index]) <= min(longest, 60):
                wrong += kept.pop(index)
        divided += len(parts) - 1
        stays += [part[0] for part in kept[1:]]
    # Of one vehicle, at most a tenth of the positions are followed by a jump, a fifth are false.
    many = divided > max(2 * WARNED, len(known) / 10)
    if many or (end - begin)[wrong].sum() > len(known) / 5:
        log.warning(
            "%s: positions jump back and forth, as those of several vehicles do: none are refused "
            "as %s. Map each vehicle from a file of its own", where, POSITION_JUMP,
        )  # fmt: skip
        return refused
    for index in stays[:WARNED]:
        log.warning(
            "%s: positions jump by %.0f m and stay there (from sounding %d on): those before or "
            "after it may be displaced",
            where, np.hypot(*(at[index] - at[index - 1])), known[begin[index]],
        )  # fmt: skip
    for index in wrong:
        refused[known[begin[index] : end[index]]] = True
    for index in held:
        refused[known[begin[index] + 1 : end[index]]] = True
    return refused


def spread(seconds: np.ndarray) -> np.ndarray:
    """Times [N], in s, in the order of a log, where equal ones are spread evenly up to the next:
    whole seconds of an instrument that writes several rows in each."""
    first = np.flatnonzero(np.diff(seconds, prepend=np.nan) != 0)
    return np.interp(np.arange(len(seconds)), first, seconds[first]) if len(first) else seconds


def _speed(seconds: np.ndarray, xy: np.ndarray, interval: float) -> float:
    """The speed that the vehicle seldom exceeds, in m/s: the median over ``STEPS`` steps of a
    second or more each; ``interval``: of positions, in s."""
    every = slice(None, None, max(1, min(round(1 / interval), len(xy) // (2 * STEPS))))
    length, since = np.hypot(*np.diff(xy[every], axis=0).T), np.diff(seconds[every])
    speed = np.divide(length, since, out=np.zeros(len(since)), where=since > 0)
    windows = sliding_window_view(np.pad(speed, STEPS // 2, "reflect"), STEPS)
    return float(np.quantile(np.median(windows, axis=1), 0.98))


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
    out, with a warning. A line that is driven again has other times.

    Where times or their dates are unknown, a file is left out that is the same as another one.
    """
    stamps, count = soundings.stamp_ns, len(soundings)
    if stamps is None or not count or not (stamps > DATES).all():
        stamps = None
    ends = np.searchsorted(soundings.row, [first for _, first in soundings.files[1:]]).tolist()
    parts = list[tuple[str, np.ndarray]]()
    for path, (a, b) in zip(files, pairwise([0, *ends, count]), strict=True):
        goes_back = [False] if stamps is None else np.diff(stamps[a:b]) < -10 * SECOND
        back = np.flatnonzero(goes_back) + 1
        # In more parts it is sorted by something else.
        own = np.split(np.arange(a, b), back if len(back) < 20 else [])
        parts += [(path.name, each) for each in own]
    left, out = [], np.zeros(count, dtype=bool)
    for later, (name, these) in enumerate(parts):
        for earlier, others in parts[:later]:
            rest = these[~out[these]]
            found, match = _same(soundings, stamps, rest, others)
            # Two pings may follow each other where a file ends.
            if len(found) < max(1, min(10, len(rest))):
                continue
            out[found] = True
            off = float(np.abs(soundings.z[found] - soundings.z[match]).max())
            where = earlier if name != earlier else "an earlier part of it"
            log.warning(
                "%s: %s of %d also in %s at the same %s: left out%s",
                name, quantity(len(found), "sounding"), len(these), where,
                "places, with the same depths" if stamps is None else "time and place",
                f" (depths differ by up to {off:.2g} m: give the right file first)" * (off > 0.1),
            )  # fmt: skip
            mask = np.isin(np.arange(count), found)
            left.append(soundings.left(mask, REPEATED, f"also in {where}"))
    return soundings.without(*left)


def _same(
    soundings: Soundings, stamps: np.ndarray | None, these: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of indices with the same time, in ms, or in s where a file has whole seconds, and the
    same place; without times all in order, if they are the same to the millimetre."""
    from scipy.spatial import cKDTree

    if stamps is None:
        first, second = (np.round(1000 * soundings.xyz[each]) for each in (these, others))
        return (these, others) if np.array_equal(first, second) else (these[:0], others[:0])
    whole = any(not (stamps[each] % SECOND).any() for each in (these, others))
    points = np.column_stack((np.round(stamps / 1e6), soundings.xy))
    if whole:
        points[:, 0] = stamps // SECOND
    # Within 0.3 m: six decimals of a degree are 0.1 m.
    near, match = cKDTree(points[others]).query(points[these], p=np.inf, distance_upper_bound=0.3)
    known = np.isfinite(near)
    return these[known], others[match[known]]
