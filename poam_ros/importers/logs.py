"""Logs in which positions and depths come at different times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError, quantity, shown
from ..core.geodesy import rough_metres
from ..core.reading import MemoryMeter
from .jumps import POSITION_JUMP, impossible_positions, placed_by
from .raw import RawSoundings

#: Bytes of memory that a position, a depth or a kind of message takes.
ROW_BYTES = 200
#: Depths between positions farther apart than this are refused, in s.
GAP = 10.0
DAY = 86_400.0
#: Radius of the Earth, in m: for offsets of some metres.
EARTH_M = 6_371_000.0
#: Latest plausible time, in s since 1970 (the year 2100).
LAST = 4.1e9


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
        self, path: Path, fixes: Sequence[str], sounders: Sequence[str], times: str
    ) -> RawSoundings:
        """Depths at positions interpolated to their times, both of the first kind that is there.

        Args:
            path: start of error messages.
            fixes: kinds of positions, the preferred first.
            sounders: kinds of depths, the preferred first.
            times: where the times come from, as text.

        Raises:
            InputError: there are no positions or no depths; the message lists what there is.
        """
        fix = next((kind for kind in fixes if self.positions.get(kind)), None)
        sounder = next((kind for kind in sounders if self.has_depths(kind)), None)
        if fix is None or sounder is None:
            every = ("positions", fixes, fix), ("depths", sounders, sounder)
            missing = {what: kinds for what, kinds, kind in every if kind is None}
            counts = self.refused + Counter(d[2] for each in self.depths.values() for d in each)
            raise nothing_found(path, missing, self.heard, counts)
        seconds, depth = np.array([each[:2] for each in self.depths[sounder]]).T
        out = np.array([each[2] for each in self.depths[sounder]])
        timed = (seconds >= 0) & (seconds < LAST)
        stamp_ns = np.round(np.where(timed, seconds, 0) * SECOND).astype(np.int64)
        fixed = np.array(self.positions[fix])
        fixed = fixed[np.isfinite(fixed).all(1)]
        fixed = fixed[np.argsort(fixed[:, 0], kind="stable")]
        place, near = interpolated(seconds, fixed)
        false = impossible_positions(str(path), fixed[:, 0], rough_metres(fixed[:, 1:]))
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
            understood=f"positions {fix}, depths {sounder} (m), {times}",
            layout=quantity(sum(self.heard.values()), 'message'), refused=+self.refused,
        )  # fmt: skip
        return found.without({
            **{reason: out == reason for reason in dict.fromkeys(out.tolist()) if reason},
            "no_time": ~timed, "no_position": ~inside, "position_gap": ~near,
            POSITION_JUMP: placed_by(false, fixed[:, 0], seconds),
        })  # fmt: skip


def nothing_found(
    path: Path, missing: Mapping[str, Sequence[str]], heard: Counter[str], refused: Counter[str]
) -> InputError:
    """The error for a log without positions or depths.

    Args:
        path: of the log.
        missing: the kinds of messages that have them, the preferred first.
        heard: how many messages the log has, by kind.
        refused: how many are left out, by reason; an empty reason does not count.
    """
    wanted = " and ".join(f"{what} ({' or '.join(kinds)})" for what, kinds in missing.items())
    there = ", ".join(f"{n} {shown(kind, 20)}" for kind, n in heard.most_common(12))
    reasons = ", ".join(f"{n} {reason}" for reason, n in refused.items() if reason)
    return InputError(
        f"{path}: expected {wanted}, got none; the file has {there or 'no message'}"
        + (f" (left out: {reasons})" if reasons else "")
    )


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
