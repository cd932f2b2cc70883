"""Converts drivers' own messages to sensor_msgs/Range; docs/sensors.md shows nodes that use this.

Fields are read by name: no driver's package is needed here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from builtin_interfaces.msg import Time
from sensor_msgs.msg import Range
from std_msgs.msg import Header


def range_of_dvl(message: Any, min_range: float = 0.05, max_range: float = 50.0) -> Range:
    """The altitude of a marine_acoustic_msgs/Dvl, as waterlinked_dvl_driver sends it.

    Without bottom lock (``beam_velocities_valid``) the range is NaN: the device sends -1 or its
    last altitude, and the driver marks the ranges as valid all the same.
    """
    sure = message.beam_velocities_valid and message.altitude > 0
    return Range(
        header=message.header,
        radiation_type=Range.ULTRASOUND,
        min_range=min_range,
        max_range=max_range,
        range=float(message.altitude) if sure else math.nan,
    )


def range_of_ping1d(
    data: Mapping[str, int], stamp: Time, frame_id: str = "sonar_link", min_confidence: int = 50
) -> Range:
    """A reading of ``brping.Ping1D.get_distance()`` of a Blue Robotics Ping, in mm and %.

    The range is NaN if the confidence is low. A repeated reading has the same ``ping_number``: the
    caller drops it, or ``sonar.repeat_window`` does.
    """
    start, length = data["scan_start"] / 1000, data["scan_length"] / 1000
    sure = data["confidence"] >= min_confidence
    return Range(
        header=Header(stamp=stamp, frame_id=frame_id),
        radiation_type=Range.ULTRASOUND,
        field_of_view=math.radians(25),
        min_range=start,
        max_range=start + length,
        range=data["distance"] / 1000 if sure else math.nan,
    )
