"""Which positions, times and depths of an NMEA log go together: one receiver, one sounder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import rough_metres
from .logs import DAY, GAP

#: Kinds of sentences with positions and with depths, the preferred first; and those with the date.
FIXES, DEPTHS, DATES = ("GGA", "RMC", "GLL"), ("DBS", "DPT", "DBT"), ("RMC", "ZDA")
#: Receivers, sounders: farther apart than this (m; share) they are not of one boat, or place.
APART, OTHER_DEPTH = 20.0, 0.2
#: Two groups of positions this far apart (degrees), each of this share, are not one survey.
TWO_GROUPS, GROUP_SHARE = 0.5, 0.02


class Fix(NamedTuple):
    """A position: number of its sentence, time (s), latitude, longitude (degrees)."""

    number: int
    time: float
    latitude: float
    longitude: float


@dataclass
class NmeaLog:
    """What the sentences of a file say: fixes with times of day and depths with their offset to the
    surface by talker and kind, and dates with times of day; all after the sentence's number.
    ``torn``: the numbers of sentences whose depth is left out, and why. ``doubled``: whether each
    sentence stands there twice."""

    fixes: dict[tuple[str, str], list[Fix]] = field(default_factory=dict)
    depths: dict[tuple[str, str], list[tuple[int, float, float]]] = field(default_factory=dict)
    dates: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    torn: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)
    doubled: bool = False
    heard: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def date_fixes(log: NmeaLog) -> bool:
    """Turn times of day into times since 1970; whether there was a date.

    Each is the nearest to the time before it, in the order of the file; those before the first date
    to the time behind. Without any date, days count from 0.
    """
    dates = next((log.dates[kind] for kind in DATES if log.dates.get(kind)), [])
    events = [(number, clock, day) for number, clock, day in dates]
    events += [(fix.number, fix.time, np.nan) for every in log.fixes.values() for fix in every]
    events.sort(key=lambda event: (event[0], np.isnan(event[2])))
    now = next((clock + day for _, clock, day in events if day == day), events[0][1])
    first = next((i for i, event in enumerate(events) if event[2] == event[2]), 0)
    times: dict[int, float] = {}
    back = now
    for number, clock, _ in reversed(events[:first]):
        back = times[number] = clock + DAY * round((back - clock) / DAY)
    for number, clock, day in events[first:]:
        going_on = clock + DAY * round((now - clock) / DAY)
        now = clock + day if day == day else going_on
        # At midnight a receiver's date may be a second behind its clock.
        if abs(now - going_on) == DAY and min(clock, DAY - clock) < 60:
            now = going_on
        times[number] = now
    for key, every in log.fixes.items():
        log.fixes[key] = [fix._replace(time=times[fix.number]) for fix in every]
    return bool(dates)


def track(path: Path, log: NmeaLog) -> tuple[list[Fix], str]:
    """The positions of one receiver in the order of the file, and which these are.

    The kind that is preferred, of the talker with the most; what others have where it has none is
    taken where they agree with it.
    """
    most = max(map(len, log.fixes.values()))
    best = min(
        (key for key, every in log.fixes.items() if 2 * len(every) >= most),
        key=lambda key: (FIXES.index(key[1]), -len(log.fixes[key]), key[0] != "GN"),
    )
    talker, kind = best
    fixes, used = _of_one_receiver(path, log.fixes.pop(best), talker), [f"{kind} of {talker}"]
    log.doubled = 2 * len({fix[1:] for fix in fixes}) <= 1.1 * len(fixes)
    fixes = _forward(fixes)
    for (other, its), every in sorted(log.fixes.items(), key=lambda item: -len(item[1])):
        off, one_clock = _apart(fixes, every)
        elsewhere = np.isfinite(off) and off > APART
        if elsewhere and 20 * len(every) > len(fixes):
            one, two = (talker, other) if talker != other else (talker + kind, other + its)
            raise InputError(_contradict(path, f"positions {off:.0f} m apart", one, two, FIXES))
        if more := [] if elsewhere else _filling(fixes, every, one_clock):
            fixes = sorted([*fixes, *more])
            used.append(f"{its} of {other}")
        elif off > APART:
            log.refused["other_receiver"] += len(every)
    return fixes, ", ".join(used)


def _contradict(path: Path, what: str, one: str, two: str, kinds: Sequence[str]) -> str:
    every = two if len(two) > 2 else f"{two}({'|'.join(kinds)})"
    return (
        f"{path}: expected one boat and sounder, got {what} by {one} and by {two}: leave out the "
        f"wrong one, as in grep -a -v -E '[$]{every}' {path.name} > {one}.nmea"
    )


def _of_one_receiver(path: Path, fixes: list[Fix], talker: str) -> list[Fix]:
    """Raises an ``InputError`` where positions are in two groups, or alternate between places."""
    if len(fixes) > 10:
        _check_one_group(path, np.array(fixes))
        every = np.array(fixes)
        one, two = (np.median(_distances(every[k:], every[:-k])) for k in (1, 2))
        if one > APART and two < one / 2:
            raise InputError(
                f"{path}: expected positions of one receiver, got some that alternate between "
                f"places {one:.0f} m apart, all of talker {talker}: two receivers in one log"
            )
    return fixes


def _check_one_group(path: Path, fixes: np.ndarray) -> None:
    """Raise an ``InputError`` where many latitudes or longitudes of fixes [N, 4] are far from the
    others, as with a wrong hemisphere, or with the two exchanged."""
    west = fixes[0, 3] - 180.0
    for name, values in (("latitudes", fixes[:, 2]), ("longitudes", (fixes[:, 3] - west) % 360)):
        order = np.sort(values)
        few = max(1, round(GROUP_SHARE * len(order)))
        steps = np.diff(order[few - 1 : len(order) - few + 1])
        if len(steps) and steps.max() > TWO_GROUPS:
            count = few + int(steps.argmax())
            ends = order[count - 1 : count + 1] + (0.0 if name == "latitudes" else west)
            raise InputError(
                f"{path}: expected positions of one survey, got {name} up to {ends[0]:g} ({count}) "
                f"and from {ends[1]:g} on ({len(order) - count}): hemispheres, or latitude and "
                "longitude, may be exchanged in part. Leave out the wrong ones, or map each part "
                "from a file of its own"
            )


def _apart(fixes: list[Fix], others: list[Fix]) -> tuple[float, bool]:
    """Median distance (m) of others from the fix of the same time, or else of those that stand
    between two fixes of the file from the second; infinite without five of them. And whether both
    may go by one clock."""
    times = {fix.time: fix for fix in fixes}
    same = [(fix, times[fix.time]) for fix in others if fix.time in times]
    if one_clock := len(same) > 0:
        return float(np.median(_distances(*map(np.array, zip(*same, strict=True))))), one_clock
    after = np.searchsorted([fix.number for fix in fixes], [fix.number for fix in others])
    beside = {
        k: (fix, fixes[k])
        for fix, k in zip(others, after.tolist(), strict=True)
        if 0 < k < len(fixes) and 0 < fixes[k].time - fixes[k - 1].time <= GAP
    }
    if len(beside) < 5:  # as of logs that were joined
        return np.inf, True
    pairs = map(np.array, zip(*beside.values(), strict=True))
    return float(np.median(_distances(*pairs))), False


def _distances(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Between fixes [N, 4], in m."""
    places = rough_metres(np.concatenate((one[:, 2:], two[:, 2:])))
    return np.hypot(*(places[: len(one)] - places[len(one) :]).T)


def _filling(fixes: list[Fix], others: list[Fix], one_clock: bool) -> list[Fix]:
    """Those of ``others`` that lie in a gap of the fixes, or by one clock in another part."""
    every = np.array(fixes)
    number, time = every[:, 0], every[:, 1]
    steps = np.diff(time)
    least = 0.75 * float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.75
    after = np.searchsorted(number, [fix.number for fix in others])
    found = []
    for fix, k in zip(others, after.tolist(), strict=True):
        since = fix.time - time[k - 1] if k > 0 else np.inf
        until = time[k] - fix.time if k < len(time) else np.inf
        if min((abs(since), abs(until)) if one_clock else (since, until)) > least:
            found.append(fix)
    return found


def _forward(fixes: list[Fix]) -> list[Fix]:
    """Without repetitions of a time, as of a doubled sentence."""
    return [f for i, f in enumerate(fixes) if not i or f.time != fixes[i - 1].time]


def sounder(
    path: Path, log: NmeaLog, fixes: list[Fix]
) -> tuple[list[tuple[int, float, float]], list[tuple[str, str]], bool]:
    """The depths of one sounder in the order of the file, talkers and kinds of their sentences, and
    whether they count from the surface.

    The kind that is preferred, of the talker with the most; others that count from there, too,
    where it is silent.
    """
    most = max(map(len, log.depths.values()))
    best = min(
        (key for key, every in log.depths.items() if 2 * len(every) >= most),
        key=lambda key: (DEPTHS.index(key[1]), -len(log.depths[key])),
    )
    chosen = log.depths.pop(best)
    surface = _from_surface(best[1], chosen)
    used = [best]
    for (talker, kind), every in log.depths.items():
        at = np.interp([each[0] for each in every], *np.array(chosen).T[:2])
        ratio = float(np.median([each[1] for each in every] / at))
        ratio = max(ratio, 1 / ratio)
        beside = [] if _from_surface(kind, every) != surface else _silent(chosen, every, fixes)
        few = 20 * len(every) <= len(chosen) or 2 * len(beside) > len(every)
        if kind == best[1] and ratio > 1 + OTHER_DEPTH and not few:
            what = f"depths that differ by a factor of {ratio:.2g}"
            raise InputError(_contradict(path, what, best[0], talker, DEPTHS))
        if beside:
            chosen = sorted([*chosen, *beside])
            used.append((talker, kind))
        if talker != best[0]:
            log.refused["other_sonar"] += len(every) - len(beside)
    offsets = [each for each in chosen if each[2] != 0]
    if 2 * len(offsets) > len(chosen) > len(offsets):  # the others count from elsewhere
        log.refused["no_offset"] += len(chosen) - len(offsets)
        chosen = offsets
    return chosen, used, surface


def _from_surface(kind: str, depths: list[tuple[int, float, float]]) -> bool:
    return kind == "DBS" or any(offset > 0 for _, _, offset in depths)


def _silent(
    chosen: list[tuple[int, float, float]], others: list[tuple[int, float, float]], fixes: list[Fix]
) -> list[tuple[int, float, float]]:
    """Those of ``others`` that lie more than half of ``GAP`` from any chosen one in time."""
    number, time = np.array(fixes).T[:2]
    clock, at = (np.interp([each[0] for each in every], number, time) for every in (chosen, others))
    clock = np.sort(clock)
    after = np.clip(np.searchsorted(clock, at), 1, max(len(clock) - 1, 1))
    near = np.minimum(
        abs(at - clock[after - 1]), abs(at - clock[np.minimum(after, len(clock) - 1)])
    )
    return [each for each, off in zip(others, near.tolist(), strict=True) if off > GAP / 2]


def without_doubled_depths(
    fixes: list[Fix], depths: list[tuple[int, float, float]]
) -> list[tuple[int, float, float]]:
    """Depths of a log with doubled sentences, without the second of each."""
    kept, at = [], np.searchsorted([f.number for f in fixes], [each[0] for each in depths])
    edges = np.flatnonzero(np.diff(at)) + 1
    for begin, end in zip([0, *edges], [*edges, len(depths)], strict=True):
        these = depths[begin:end]
        values, half = [each[1:] for each in these], len(these) // 2
        if values[:half] == values[half:]:
            these = these[:half]
        elif values[::2] == values[1::2]:
            these = these[::2]
        kept += these
    return kept
