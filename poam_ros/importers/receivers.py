"""Which positions, times and depths of an NMEA log go together: one receiver, one sounder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import rough_metres
from .candidates import EQUAL, OFFSET, UNKNOWN, compare
from .questions import Answer, Unclear
from .track import DAY

#: Kinds of sentences with positions and with depths, the preferred first; and those with the date.
SENTENCES, SOUNDERS, DATES = ("GGA", "RMC", "GLL"), ("DBS", "DPT", "DBT", "DBK"), ("RMC", "ZDA")
#: The same with those of Signal K.
FIXES = (*SENTENCES, "position")
DEPTHS = ("DBS", "belowSurface", "DPT", "DBT", "belowTransducer", "depth", "DBK", "belowKeel")
#: Where the depths of a kind count from; DPT's with its offset, which is 0 or says the keel.
SURFACE, TRANSDUCER, KEEL = "", "transducer", "keel"
#: Talkers of one receiver of several satellite systems, which may change with what it receives.
SATELLITES = ("GN", "GP", "GL", "GA", "GB", "BD", "GQ", "GI")
#: Receivers farther apart than this (m) are not of one place.
APART = 20.0
#: Two groups of positions this far apart (degrees), each of this share, are not one survey.
TWO_GROUPS, GROUP_SHARE = 0.5, 0.02
#: Fewer than this share of the most are no second record of the same.
FEW = 0.05


#: Talker and kind.
Key = tuple[str, str]
T = TypeVar("T")


class Fix(NamedTuple):
    """A position: number of its sentence, or else its time; time (s), latitude, longitude
    (degrees)."""

    number: float
    time: float
    latitude: float
    longitude: float


@dataclass
class NmeaLog:
    """What the sentences of a file say: fixes with times of day and depths with their offset to the
    surface by talker and kind, and dates with times of day; all after the sentence's number.
    ``torn``: the numbers of sentences whose depth is left out, and why."""

    fixes: dict[Key, list[Fix]] = field(default_factory=dict)
    depths: dict[Key, list[tuple[float, float, float]]] = field(default_factory=dict)
    dates: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    torn: dict[Key, list[tuple[float, str]]] = field(default_factory=dict)
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
    times: dict[float, float] = {}
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


def receiver(path: Path, log: NmeaLog, wanted: str) -> tuple[list[Fix], str]:
    """The positions of one receiver in the order of the file, each time once, and which these are.

    The receiver is the talker with the most sentences, or those of several satellite systems, and
    the kind the preferred one that it has often. Other kinds of it give the times that this one
    lacks; other receivers are counted.

    Args:
        path: of the log.
        log: its sentences, dated.
        wanted: talker and kind of the receiver, as a person names it; empty: the one with the most.

    Raises:
        InputError: receivers, or positions of this one, are at different places.
    """
    key = _chosen(path, "latitude", wanted, log.fixes)
    own = {key: log.fixes[key]} if key else _of_most(log.fixes, _satellites)
    key = key or _preferred(own, FIXES)
    fixes, used = list(own[key]), [key]
    for other in sorted(own.keys() - {key}):
        every, known = own[other], {fix.time for fix in fixes}
        apart = _apart(fixes, every)
        if apart > APART and len(every) > FEW * len(fixes):
            raise _two_receivers(path, key, other, apart)
        if apart > APART:
            log.refused["other_receiver"] += len(every)
        elif new := [fix for fix in every if fix.time not in known]:
            fixes += new
            used.append(other)
    log.refused["other_receiver"] += sum(len(log.fixes[k]) for k in log.fixes.keys() - own.keys())
    return _in_order(path, fixes, key[0]), ", ".join(f"{kind} of {talker}" for talker, kind in used)


def _satellites(talker: str) -> str:
    """One name for the talkers of a receiver of several satellite systems."""
    return SATELLITES[0] if talker in SATELLITES else talker


def _of_most(
    every: Mapping[Key, list[T]], name: Callable[[str], str] = str
) -> dict[Key, list[T]]:  # fmt: skip
    """The sentences of the talker that has the most, by talker and kind; ``name``: of a talker."""
    count = Counter[str]()
    for (talker, _), those in every.items():
        count[name(talker)] += len(those)
    most = max(count, key=lambda talker: count[talker])
    return {key: those for key, those in every.items() if name(key[0]) == most}


def _preferred(every: Mapping[Key, Sequence[Any]], kinds: Sequence[str]) -> Key:
    """The first of ``kinds`` that is at least half as frequent as the most frequent one."""
    least = max(map(len, every.values())) / 2
    return min(
        (key for key, those in every.items() if len(those) >= least),
        key=lambda key: (kinds.index(key[1]), -len(every[key]), key[0] != SATELLITES[0]),
    )


def _two_receivers(path: Path, one: Key, two: Key, off: float) -> Unclear:
    names = ["".join(key) for key in (one, two)]
    return Unclear(
        f"{path}: expected one receiver, got positions {off:.0f} m apart by {' and '.join(names)}",
        [Answer(f"if {name} is the boat's", {"columns": {"latitude": name}}) for name in names],
    )


def _apart(fixes: list[Fix], others: list[Fix]) -> float:
    """Median distance of two receivers at the same times, in m; 0 if they have none in common."""
    times = {fix.time: fix for fix in fixes}
    pairs = [(fix, times[fix.time]) for fix in others if fix.time in times]
    return float(np.median(_distances(*map(np.array, zip(*pairs, strict=True))))) if pairs else 0.0


def _in_order(path: Path, fixes: list[Fix], talker: str) -> list[Fix]:
    """In the order of the file, without repetitions of a time, as of a doubled sentence.

    Raises:
        InputError: positions are in two groups, or alternate between places.
    """
    fixes = sorted(fixes)
    every = np.array(fixes)
    if len(fixes) > 10:
        _check_one_group(path, every)
        one, two = (np.median(_distances(every[k:], every[:-k])) for k in (1, 2))
        if one > APART and two < one / 2:
            raise InputError(
                f"{path}: expected positions of one receiver, got some that alternate between "
                f"places {one:.0f} m apart, all of talker {talker}: two receivers in one log"
            )
    return [f for i, f in enumerate(fixes) if not i or f.time != fixes[i - 1].time]


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


def _distances(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Between fixes [N, 4], in m."""
    places = rough_metres(np.concatenate((one[:, 2:], two[:, 2:])))
    return np.hypot(*(places[: len(one)] - places[len(one) :]).T)


class Sounder(NamedTuple):
    """The depths of one kind of one talker.

    Attributes:
        key: talker and kind.
        depths: number of the sentence, depth (m), offset (m) [N, 3].
        epoch: number of positions before each [N].
        origin: what they count from: ``SURFACE``, ``TRANSDUCER`` or ``KEEL``.
    """

    key: Key
    depths: np.ndarray
    epoch: np.ndarray
    origin: str

    @property
    def name(self) -> str:
        """Talker and kind, as a person names it."""
        return "".join(self.key)

    @property
    def heights(self) -> np.ndarray:
        """Depths with the offset to the surface [N], in m."""
        return self.depths[:, 1] + np.maximum(self.depths[:, 2], 0.0)


def sounder(path: Path, log: NmeaLog, fixes: list[Fix], wanted: str) -> tuple[Sounder, list[Key]]:
    """The depths of the talker with the most, of the preferred kind that it has often, and others
    of its that count from there where this one has none; and which these are.

    Args:
        path: of the log.
        log: its sentences.
        fixes: of the receiver, in the order of the file.
        wanted: talker and kind, as a person names them; empty: see above.

    Raises:
        InputError: depths of another kind or talker contradict these.
    """
    every = {key: _sounder(log, key, fixes) for key in log.depths}
    key = _chosen(path, "depth", wanted, every)
    found, used = every[key or _preferred(_of_most(log.depths), DEPTHS)], []
    for other in every.values() if not key else ():
        if other.key == found.key:
            continue
        if len(other.depths) > FEW * len(found.depths):
            _check_same(path, found, other)
        new = ~np.isin(other.epoch, found.epoch)
        if other.key[0] == found.key[0] and other.origin == found.origin and new.any():
            used.append(other.key)
            depths = np.concatenate((found.depths, other.depths[new]))
            order = np.argsort(depths[:, 0])
            epoch = np.append(found.epoch, other.epoch[new])[order]
            found = found._replace(depths=depths[order], epoch=epoch)
    for (talker, _), each in every.items():
        log.refused["other_sonar"] += len(each.depths) if talker != found.key[0] else 0
    return found, [found.key, *used]


def _sounder(log: NmeaLog, key: Key, fixes: list[Fix]) -> Sounder:
    """Depths of a kind; of DPT those without the offset that most have are left out."""
    depths, kind = np.array(log.depths[key]), key[1]
    offset = depths[:, 2] != 0
    if 2 * offset.sum() > len(depths) > offset.sum():  # the others count from elsewhere
        log.refused["no_offset"] += int((~offset).sum())
        depths = depths[offset]
    from_surface = kind in ("DBS", "belowSurface") or (depths[:, 2] > 0).any()
    epoch = np.searchsorted([fix.number for fix in fixes], depths[:, 0])
    origin = SURFACE if from_surface else KEEL if kind in ("DBK", "belowKeel") else TRANSDUCER
    return Sounder(key, depths, epoch, origin)


#: From the bottom, the depth below the first is the smallest.
_LOWEST_FIRST = (KEEL, TRANSDUCER, SURFACE)


def _check_same(path: Path, own: Sounder, other: Sounder) -> None:
    """Raise an ``InputError`` where two records of the depth are not of the same bottom: they may
    differ by a constant, but not so that the depth below the surface is the smaller one."""
    relation = compare(*_by_epoch(own, other))
    higher = _LOWEST_FIRST.index(own.origin) - _LOWEST_FIRST.index(other.origin)
    one_boat = own.key[0] == other.key[0]
    possible = not one_boat or higher * relation.value <= 0
    if relation.kind in (EQUAL, UNKNOWN) or (relation.kind == OFFSET and possible):
        return
    # The depth below the transducer is what is measured; the others are computed from it.
    first, second = sorted((own, other), key=lambda each: each.origin != TRANSDUCER)
    sizes = " and ".join(
        f"{each.name} (median {np.median(each.heights):.4g} m"
        f"{f' below the {each.origin}' if each.origin else ' below the surface'})"
        for each in (first, second)
    )
    names = [each.name for each in (first, second)]
    raise Unclear(
        f"{path}: expected one depth, got {sizes}, which cannot both be right",
        [Answer(f"if {name} is the depth", {"columns": {"depth": name}}) for name in names],
    )


def _by_epoch(*sounders: Sounder) -> list[np.ndarray]:
    """The mean height of each between two positions [E]; NaN where it has none."""
    count = 1 + max(int(each.epoch.max(initial=0)) for each in sounders)
    with np.errstate(invalid="ignore"):
        return [
            np.bincount(each.epoch, each.heights, count) / np.bincount(each.epoch, None, count)
            for each in sounders
        ]


def _chosen(path: Path, meaning: str, wanted: str, there: Mapping[Key, object]) -> Key | None:
    """The talker and kind that a person names, as SDDBT or DBT; None: none is named.

    Raises:
        InputError: it is not there.
    """
    if not wanted:
        return None
    for key in there:
        if wanted.upper() in ("".join(key).upper(), key[1].upper()):
            return key
    names = " or ".join(f"{meaning}={''.join(key)}" for key in there)
    raise InputError(f"{path}: --columns: expected {names}, got {meaning}={wanted}")
