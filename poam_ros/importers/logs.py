"""Logs in which positions and depths come at different times; the reader of NMEA 0183."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, requires_extra, shown
from ..core.reading import MemoryMeter
from .jumps import POSITION_JUMP, impossible_positions, metres
from .raw import RawSoundings, ReadOptions

#: Bytes of memory that a position, a depth or a kind of message takes.
ROW_BYTES = 200
#: Depths between positions farther apart than this are refused, in s.
GAP = 10.0
DAY = 86_400.0
#: Radius of the Earth, in m: for offsets of some metres.
EARTH_M = 6_371_000.0
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9
#: Sentences with positions and with depths, the preferred first; and those with the date.
FIXES, DEPTHS, DATES = ("GGA", "RMC"), ("DBS", "DPT", "DBT"), ("RMC", "ZDA")
#: Where depths count from, if that is not the surface.
FROM = {"DBT": " below the transducer; --draught adds its depth"}
LONGEST_SENTENCE = 4096  # of a line, with the text before the sentence
_SENTENCE = re.compile(r"\$[A-Z]{2}([A-Z]{3}),[^$*]*\*[0-9A-Fa-f]{2}")
_BEGIN = re.compile(r"\$[A-Z]{2}([A-Z]{3}),")


@dataclass
class PositionsAndDepths:
    """Positions and depths of a log by kind of message: time (s), latitude and longitude (degrees);
    time (s), depth (m) and why it is left out, empty where it is not. ``beams``: time (s), and the
    sonar's direction as north, east, down; without them depths are vertical."""

    positions: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    depths: dict[str, list[tuple[float, float, str]]] = field(default_factory=dict)
    beams: list[tuple[float, float, float, float]] = field(default_factory=list)
    heard: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    memory: MemoryMeter = field(default_factory=MemoryMeter)

    def hear(self, kind: str, wanted: bool) -> None:
        """Count a message. Raises an ``InputError``: those that are kept take too much memory."""
        if wanted or kind not in self.heard:
            self.memory.add(ROW_BYTES)
        self.heard[kind] += 1

    def has_depths(self, kind: str) -> bool:
        """Whether there is a depth of this kind that is not left out."""
        return any(not out for _, _, out in self.depths.get(kind, ()))

    def soundings(
        self, path: Path, fixes: Sequence[str], sounders: Sequence[str], said: str
    ) -> RawSoundings:
        """Depths at positions interpolated to their times, both of the first kind that is there.

        Args:
            path: start of error messages.
            fixes: kinds of positions, the preferred first.
            sounders: kinds of depths, the preferred first.
            said: where the times come from, as text.

        Raises:
            InputError: there are no positions or no depths; the message lists what there is.
        """
        fix = next((kind for kind in fixes if self.positions.get(kind)), None)
        sounder = next((kind for kind in sounders if self.has_depths(kind)), None)
        if fix is None or sounder is None:
            heard = ", ".join(f"{n} {shown(kind, 20)}" for kind, n in self.heard.most_common(12))
            missing = [
                f"{what} ({' or '.join(kinds)})"
                for what, kinds, kind in (
                    ("positions", fixes, fix), ("depths", sounders, sounder),
                )
                if kind is None
            ]  # fmt: skip
            counts = self.refused + Counter(d[2] for each in self.depths.values() for d in each)
            refused = ", ".join(f"{n} {reason}" for reason, n in counts.items() if reason)
            raise InputError(
                f"{path}: expected {' and '.join(missing)}, got none; the file has "
                f"{heard or 'no message'}" + (f" (left out: {refused})" if refused else "")
            )
        seconds, depth = np.array([each[:2] for each in self.depths[sounder]]).T
        out = np.array([each[2] for each in self.depths[sounder]])
        timed = (seconds >= 0) & (seconds < LAST)
        stamp_ns = np.round(np.where(timed, seconds, 0) * SECOND).astype(np.int64)
        fixed = np.array(self.positions[fix])
        fixed = fixed[np.isfinite(fixed).all(1)]
        fixed = fixed[np.argsort(fixed[:, 0], kind="stable")]
        place, near = interpolated(seconds, fixed)
        false = impossible_positions(str(path), fixed[:, 0], metres(fixed[:, 1:]))
        inside = np.isfinite(place).all(1)
        beams = np.array(sorted(self.beams)).reshape(-1, 4)
        if len(beams := beams[np.isfinite(beams).all(-1)]):
            north, east, down = (
                depth * np.interp(seconds, beams[:, 0], part) for part in beams[:, 1:].T
            )
            degree = math.radians(EARTH_M)
            place[:, 1] += east / (degree * np.cos(np.radians(place[:, 0])))
            place[:, 0] += north / degree
            depth = down
        found = RawSoundings(
            place, depth, stamp_ns=stamp_ns, fixed=True,
            said=f"positions {fix}, depths {sounder} (m{FROM.get(sounder, '')}), {said}",
            layout=quantity(sum(self.heard.values()), 'message'), refused=+self.refused,
        )  # fmt: skip
        return found.without({
            **{reason: out == reason for reason in dict.fromkeys(out.tolist()) if reason},
            "no_time": ~timed, "no_position": ~inside, "position_gap": ~near,
            POSITION_JUMP: _placed_by(false, fixed[:, 0], seconds),
        })  # fmt: skip


def interpolated(seconds: np.ndarray, fixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions at times.

    Args:
        seconds: the times [N], in s.
        fixes: time (s), latitude and longitude (degrees) of known positions [K, 3].

    Returns:
        Latitude and longitude [N, 2], NaN before the first position and after the last one; and
        whether the positions around each are at most ``GAP`` s apart [N], boolean.
    """
    order = np.argsort(fixes[:, 0], kind="stable")
    times, first = np.unique(fixes[order, 0], return_index=True)
    latitude, longitude = fixes[order][first, 1:].T
    longitude = np.unwrap(longitude, period=360.0)
    place = np.column_stack([np.interp(seconds, times, each) for each in (latitude, longitude)])
    place[:, 1] = (place[:, 1] + 180.0) % 360.0 - 180.0
    place[(seconds < times[0]) | (seconds > times[-1])] = np.nan
    after = np.clip(np.searchsorted(times, seconds), 1, max(1, len(times) - 1))
    if len(times) == 1:
        return place, np.ones(len(seconds), dtype=bool)
    return place, (times[after] - times[after - 1] <= GAP) | np.isin(seconds, times)


def _placed_by(false: np.ndarray, times: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Which depths, at ``seconds`` [N], are placed by one of the false positions: boolean [K], at
    ``times``, rising."""
    number = np.append(0, np.cumsum(false))  # of false positions before each
    first, after = (np.searchsorted(times, seconds, side=side) for side in ("left", "right"))
    between = first == after
    low = np.maximum(first - between, 0)
    return number[np.minimum(after + between, len(times))] > number[low]


def is_nmea(path: Path, head: bytes) -> bool:
    """Whether most of a file's first lines hold an NMEA sentence."""
    lines = [line for line in head.decode("latin-1").splitlines()[:200] if line.strip()]
    return bool(lines) and sum(bool(_BEGIN.search(line)) for line in lines) > len(lines) / 2


def read_nmea(path: Path, options: ReadOptions) -> RawSoundings:
    """Read a log of NMEA 0183 sentences: GGA, RMC, ZDA; DBS, DPT, DBT.

    A depth has no time of its own: its time is interpolated by line number between the position
    sentences before and after. The offset of DPT to the surface is added. Text before the $ is
    skipped.

    Raises:
        InputError: the file cannot be read, pynmeagps is not installed, or there are no positions
            or depths.
    """
    found = PositionsAndDepths(memory=MemoryMeter(f"{path}: its content"))
    fixes: dict[str, list[tuple[int, float, float, float]]] = {kind: [] for kind in FIXES}
    depths: dict[str, list[tuple[int, float, str]]] = {kind: [] for kind in DEPTHS}
    days: list[tuple[int, float]] = []  # the line, and the date in s since 1970
    for line, kind, message in _sentences(path, found):
        if message is None:
            _leave_out(found, depths, line, kind, "bad_checksum")
            continue
        try:
            if kind in DATES and (day := _day(message)) is not None:
                days.append((line, day))
            if kind in FIXES:
                if (fix := _fix(kind, message)) is None:
                    found.refused["no_fix"] += 1
                else:
                    fixes[kind].append((line, *fix))
            elif kind in DEPTHS:
                depth = _depth(kind, message)
                out = "no_reading" if depth is None else ""
                depths[kind].append((line, np.nan if depth is None else depth, out))
        except (AttributeError, TypeError, ValueError):  # fields that are missing, or no numbers
            _leave_out(found, depths, line, kind, "bad_sentence")
    best = next((kind for kind in FIXES if fixes[kind]), None)
    if best is not None:
        lines, clock, latitude, longitude = np.array(fixes[best]).T
        seconds = _dated(lines, clock, days)
        found.positions[best] = list(
            zip(seconds.tolist(), latitude.tolist(), longitude.tolist(), strict=True)
        )
        for sounder, every in depths.items():
            if every:
                at, depth = np.array([each[:2] for each in every]).T
                times = np.interp(at, lines, seconds)
                times[(at < lines[0]) | (at > lines[-1])] = np.nan
                outside = np.isnan(times)
                times[outside] = np.where(at[outside] < lines[0], seconds[0] - 1, seconds[-1] + 1)
                reasons = [out for _, _, out in every]
                found.depths[sounder] = list(
                    zip(times.tolist(), depth.tolist(), reasons, strict=True)
                )
    else:
        found.depths = {
            sounder: [(0.0, depth, out) for _, depth, out in every]
            for sounder, every in depths.items()
        }
    said = f"time UTC{'' if days else ' of day without a date'}"
    return found.soundings(path, FIXES, DEPTHS, said)


def _leave_out(
    found: PositionsAndDepths, depths: dict[str, list[tuple[int, float, str]]], line: int,
    kind: str, reason: str,
) -> None:  # fmt: skip
    """A sentence that cannot be read: a depth is a sounding that is left out."""
    if kind in depths:
        depths[kind].append((line, np.nan, reason))
    else:
        found.refused[reason] += 1


def _sentences(path: Path, found: PositionsAndDepths) -> Iterator[tuple[int, str, Any]]:
    """Line number, kind and content of every sentence that is needed; of a torn one None."""
    with requires_extra(f"{path}: NMEA 0183", "pynmeagps", "nmea"):
        from pynmeagps import NMEAReader
    wanted = {*FIXES, *DEPTHS, *DATES}
    try:
        with path.open("rb") as file:
            number = 0
            while text := file.readline(LONGEST_SENTENCE).decode("latin-1"):
                number += 1
                begin = _BEGIN.search(text)
                if begin is None:
                    continue
                found.hear(begin.group(1), begin.group(1) in wanted)
                if begin.group(1) not in wanted:
                    continue
                sentence = _SENTENCE.search(text)
                try:
                    if sentence is None:
                        raise ValueError("no checksum")
                    yield number, sentence.group(1), NMEAReader.parse(sentence.group(0))
                except Exception:  # of the library, and what malformed fields make it raise
                    yield number, begin.group(1), None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None


def _fix(kind: str, message: Any) -> tuple[float, float, float] | None:
    """Time of day (s), latitude and longitude; None without a fix."""
    known = message.quality not in (0, "") if kind == "GGA" else message.status == "A"
    if not known or "" in (message.time, message.lat, message.lon):
        return None
    clock, latitude, longitude = message.time, float(message.lat), float(message.lon)
    if abs(latitude) > 90 or abs(longitude) > 180:
        return None
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second + clock.microsecond / 1e6
    return seconds, latitude, longitude


def _day(message: Any) -> float | None:
    """The date in s since 1970."""
    if message.msgID == "RMC":
        day = message.date
    else:
        day = "" if "" in (message.year, message.month, message.day) else date(
            message.year, message.month, message.day
        )  # fmt: skip
    return None if day == "" else (day - date(1970, 1, 1)).days * DAY


def _depth(kind: str, message: Any) -> float | None:
    """Depth in m, below the surface; below the transducer if nothing else is known."""
    if kind == "DBS":
        text = message.field_03
    elif kind == "DPT":
        text = message.depth
    else:
        text = message.depthm
    if text == "":
        return None
    offset, depth = getattr(message, "offset", ""), float(text)
    if depth <= 0:  # what sounders write that have lost the bottom
        return None
    return depth + (max(0.0, float(offset)) if offset != "" else 0.0)


def _dated(lines: np.ndarray, clock: np.ndarray, days: list[tuple[int, float]]) -> np.ndarray:
    """Times of day [N] with the date of the last date sentence before each; before any, with the
    first date; without any, days count from 0. A clock that goes back by more than half a day has
    passed midnight."""
    midnights = np.cumsum(np.diff(clock, prepend=clock[:1]) < -DAY / 2) * DAY
    if not days:
        return clock + midnights
    at, day = np.array(days).T
    index = np.maximum(np.searchsorted(at, lines, side="right") - 1, 0)
    # At midnight the position may come before the date.
    known = day[index] + clock
    return known + DAY * np.round((np.maximum.accumulate(known) - known) / DAY)
