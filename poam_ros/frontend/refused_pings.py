"""The newest refused pings of each reason, with their places. No ROS; metres, nanoseconds.

A ping that is refused on arrival waits for odometry like any other, to find its place. Without a
place it is counted all the same. Many pings of one reason displace no pings of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

#: Why pings are refused, in the order of their numbers on the topic `pings/refused` (append new
#: ones), and what to do where many are; empty where that is normal. docs/troubleshooting.md has
#: more.
REASONS = {
    "nan": "the driver sends NaN: the sonar fails, or its messages are misread",
    "no_return": "no echo returns: too deep, or the sonar's range is set too short",
    "too_close": "below sonar.min_range or the driver's: echoes of the hull, or a wrong limit",
    "out_of_range": "above sonar.max_range or the driver's: perhaps a wrong limit",
    "low_confidence": "lower sonar.min_confidence, or repair the sonar",
    "duplicate": "two publishers on the sonar's topic, or a recording played twice",
    "repeat": "",
    "no_odometry": "no odometry at the pings' times: compare the clocks of sonar and odometry; set "
    "sonar.time_offset or odometry.timeout",
    "no_mount": "tf2 has no transform of the sonar's frame, or the beam does not point down: "
    "publish it, or leave sonar.base_frame empty",
    "water_level_stale": "no water level is received: start its source, or set water.level_timeout "
    "to 0",
    "too_noisy": "their noise is above noise.max_std",
    "position_uncertain": "the position is worse than odometry.max_std: wait for a fix",
    "outside_workspace": "the vehicle is outside the workspace: check workspace and frame_id",
    "wild_elevation": "elevations of 100 km: odometry's z is not in metres",
    "false_echo": "",
    "waiting": "",
    "paused": "",
    "after_mission": "",
    "overload": "the model cannot keep up: give it a core, or raise batch.size",
    "log_full": "the disk of mission_dir is too slow",
    "standing": "",
    "withdrawn": "",
    "wrong_frame": "odometry is in another frame than the map: start with frame_id:= the "
    "odometry's frame, or install tf2_ros and publish the transform between them",
    "body_frame": "odometry is in a frame that moves with the vehicle: choose the driver's topic "
    "with odometry in a fixed frame",
    "stale_transform": "start the publisher of the transform to the map again",
    "above_water": "odometry has the vehicle above the water; z must be 0 there and grow upwards: "
    "convert the driver's axes, set odometry.surface for a vehicle that floats, or "
    "odometry.vertical to datum where z is a height above the map's datum",
    "beam_up": "the sonar's beam points up: check sonar.tilt, and that attitudes are from "
    "forward-left-up to east-north-up",
    "mirrored": "the course is mirrored against the heading: odometry must be in axes east, north, "
    "up (REP-103)",
    "other_clock": "pings and odometry are stamped by different clocks: synchronise them, or set "
    "sonar.time_offset",
}
#: The same for what refuses odometry alone.
ODOMETRY_REASONS = {
    "jump": "check the position fix; see odometry.max_speed and odometry.max_jump",
    "not_finite": "the driver sends positions that are not numbers: wait for its first fix",
    "invalid_orientation": "the driver sends no attitude: all zeros is none",
}
#: Why soundings of a record are refused, and accepted pings are left out of the map.
FALSE_ECHO, WITHDRAWN = "false_echo", "withdrawn"
#: Refused pings of each reason that are stored.
MAX_PER_REASON = 1000
#: x, y and z of a ping in m; z is NaN if only its place is known, all are NaN if nothing is.
Xyz = tuple[float, float, float]
NOWHERE: Xyz = (math.nan, math.nan, math.nan)


class RefusedPing(NamedTuple):
    """A refused ping; ``number`` counts from 0 by reason, since the mission began."""

    reason: str
    number: int
    stamp_ns: int
    x: float
    y: float
    z: float


@dataclass(frozen=True)
class RefusedPings:
    """Refused pings, the newest of each reason.

    Attributes:
        reason: of each [N].
        number: of each [N]; counts from 0 by reason, including pings that are no longer stored.
        stamp_ns: time of measurement [N]; 0 if unknown.
        xyz: places [N, 3], in m; z is NaN if the elevation is unknown, all three if the place is.
    """

    reason: np.ndarray
    number: np.ndarray
    stamp_ns: np.ndarray
    xyz: np.ndarray

    def __len__(self) -> int:
        return len(self.reason)

    def __getitem__(self, index: np.ndarray) -> RefusedPings:
        columns = self.reason, self.number, self.stamp_ns, self.xyz
        return RefusedPings(*(column[index] for column in columns))

    @classmethod
    def of(cls, rows: Iterable[RefusedPing | Sequence]) -> RefusedPings:
        """From rows with the fields of ``RefusedPing``; None becomes NaN."""
        columns = tuple(zip(*rows, strict=True)) or ((),) * 6
        reason, number, stamp_ns, *xyz = columns
        numbers, stamps = (np.array(column, dtype=np.int64) for column in (number, stamp_ns))
        return cls(np.array(reason, dtype=str), numbers, stamps, np.array(xyz, dtype=float).T)

    @classmethod
    def none(cls) -> RefusedPings:
        """No pings."""
        return cls.of(())

    @property
    def rows(self) -> list[RefusedPing]:
        """The pings as plain values."""
        columns = self.reason, self.number, self.stamp_ns, *self.xyz.T
        lists = (column.tolist() for column in columns)
        return [RefusedPing(*row) for row in zip(*lists, strict=True)]

    @property
    def placed(self) -> RefusedPings:
        """The pings whose place is known."""
        return self[np.isfinite(self.xyz[:, :2]).all(axis=1)]

    @property
    def counts(self) -> dict[str, int]:
        """Number of refused pings by reason, including those no longer stored."""
        return {
            str(reason): int(self.number[self.reason == reason].max()) + 1
            for reason in np.unique(self.reason)
        }

    def more(self, reason: str, stamp_ns: np.ndarray, xyz: np.ndarray) -> RefusedPings:
        """These and further pings of a reason, in order: stamp_ns [K], xyz [K, 3]."""
        if not len(stamp_ns):
            return self
        first, same = self.counts.get(reason, 0), self.reason == reason
        last = first + len(stamp_ns)
        new = slice(max(0, len(stamp_ns) - MAX_PER_REASON), None)
        old = self[~same | (self.number >= last - MAX_PER_REASON)]
        number = np.arange(first, last)[new]
        columns = (np.full(len(number), reason), number, stamp_ns[new], xyz[new])
        known = (old.reason, old.number, old.stamp_ns, old.xyz)
        return RefusedPings(*map(np.concatenate, zip(known, columns, strict=True)))
