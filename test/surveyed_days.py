"""A lake that was surveyed on three days, and errors planted in such surveys."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
from planted import simulated

from poam_ros.mapping.exclusions import days
from poam_ros.mapping.soundings import LINE, Labels, Soundings
from poam_ros.screening.lines import Motion

#: The first moment, and the length of a day, in ns.
BEGIN, DAY = 1_699_920_000_000_000_000, 86_400_000_000_000


@cache
def survey() -> Soundings:
    """A lake in three days, at 0.8 to 2.2 m/s; positions are off by 0.2 m for each line."""
    record = simulated("smooth", 1, 0.2)
    count = record.line.max() + 1
    speed = np.random.default_rng(101).uniform(0.8, 2.2, count)[record.line]
    day = (np.random.default_rng(1).permutation(count) % 3)[record.line]
    step = np.r_[0, np.hypot(*np.diff(record.xy, axis=0).T)]
    seconds = np.cumsum(np.minimum(step, 5) / speed)
    row = np.arange(len(record.z))
    lines = Labels(record.line, tuple(f"L{i}" for i in range(count)))
    stamps = BEGIN + (1e9 * seconds).astype(np.int64) + day * DAY
    return Soundings(row, record.xy, record.z, row, stamp_ns=stamps, labels={LINE: lines})


def planted(
    whole: Soundings, latency: float = 0.0, level: float = 0.0, scale: float = 0.0,
    days_of: tuple[int, int] = (1, 2),
) -> Soundings:  # fmt: skip
    """Depths older than their positions, one day higher, another too deep in proportion."""
    motion, day = Motion(whole.xy, whole.labels[LINE].code, whole.stamp_ns), days(whole).code
    xy = whole.xy + (latency * np.nan_to_num(motion.speed))[:, None] * motion.heading
    z = whole.z + level * (day == days_of[0]) + scale * whole.z * (day == days_of[1])
    return replace(whole, xy=xy, z=z)
