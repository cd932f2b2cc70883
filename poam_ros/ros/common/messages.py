"""Converts messages to values and back, by pure functions.

``importers/messages.py`` has those that read recordings as well and need no ROS.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Point, PoseStamped, Quaternion
from nav_msgs.msg import Odometry, Path
from std_msgs.msg import Float64MultiArray, Header, MultiArrayDimension, MultiArrayLayout

from ...core.clock import SECOND
from ...core.errors import InputError, shown
from ...frontend.odometry import largest_std
from ...importers.messages import LONGEST_FRAME as LONGEST_FRAME
from ...importers.messages import bare_frame
from ...importers.messages import read_odometry as read_odometry
from ...importers.messages import read_range as read_range
from ...importers.messages import stamp_to_ns as stamp_to_ns
from ...outputs.scoring import MapReport

REPORT_LABELS = ("stamp_sec", "stamp_nanosec", *(f.name for f in fields(MapReport)[1:]))


def ns_to_stamp(stamp_ns: int) -> Time:
    """Nanoseconds as a stamp."""
    return Time(sec=int(stamp_ns // SECOND), nanosec=int(stamp_ns % SECOND))


def header(stamp_ns: int, frame_id: str) -> Header:
    """A header; frame ids carry no leading slash."""
    return Header(stamp=ns_to_stamp(stamp_ns), frame_id=bare_frame(frame_id))


def yaw_to_quaternion(yaw: float) -> tuple[float, float, float, float]:
    """The quaternion (x, y, z, w) of a yaw in rad, without pitch and roll."""
    return 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)


def position_std(message: Odometry) -> float:
    """The largest horizontal standard deviation of the position, in m; 0 if unknown."""
    covariance = message.pose.covariance.tolist()  # numpy would warn of infinite ones
    return largest_std(covariance[0], covariance[1], covariance[7])


def write_pose(
    xy: Sequence[float], stamp_ns: int, frame_id: str, z: float = 0.0, yaw: float = 0.0
) -> PoseStamped:
    """A pose without pitch and roll, for a goal or a point of a path."""
    message = PoseStamped(header=header(stamp_ns, frame_id))
    _fill_pose(message.pose, (xy[0], xy[1], z), yaw_to_quaternion(yaw))
    return message


def read_pose(message: PoseStamped) -> np.ndarray:
    """x, y of a goal [2], m."""
    return np.array((message.pose.position.x, message.pose.position.y))


def write_path(points: np.ndarray, stamp_ns: int, frame_id: str, z: float = 0.0) -> Path:
    """Points [K, 2] as a path."""
    poses = [write_pose(xy, stamp_ns, frame_id, z) for xy in points]
    return Path(header=header(stamp_ns, frame_id), poses=poses)


def write_report(report: MapReport) -> Float64MultiArray:
    """A report as `map/report`, with a labelled dimension for each value.

    The stamp takes two values, as one float64 would round it by some 100 ns.
    """
    values = dict(zip(REPORT_LABELS, (0, 0, *astuple(report)[1:]), strict=True))
    values["stamp_sec"], values["stamp_nanosec"] = divmod(report.stamp_ns, SECOND)
    labels = [MultiArrayDimension(label=name, size=1, stride=1) for name in values]
    data = [float(value) for value in values.values()]
    return Float64MultiArray(layout=MultiArrayLayout(dim=labels), data=data)


def read_report(message: Float64MultiArray) -> MapReport:
    """`map/report` as a report; values with other labels are ignored.

    Raises:
        InputError: a value is missing, or no number.
    """
    labels = [dimension.label for dimension in message.layout.dim]
    if len(labels) != len(message.data) or not set(REPORT_LABELS) <= set(labels):
        raise InputError(
            f"map/report: expected {', '.join(REPORT_LABELS)}, one value each; got "
            f"{len(message.data)} values, labelled {shown(', '.join(labels), 200) or 'nothing'}"
        )
    values = dict(zip(labels, message.data, strict=True))
    seconds, nanoseconds, samples, mean, variance, update_s, predict_s, finished = (
        values[name] for name in REPORT_LABELS
    )
    if not all(map(math.isfinite, (seconds, nanoseconds, samples))):
        raise InputError(f"map/report: expected numbers, got {list(message.data)}")
    stamp_ns = int(seconds) * SECOND + int(nanoseconds)
    return MapReport(stamp_ns, int(samples), mean, variance, update_s, predict_s, bool(finished))


def write_diagnostics(
    name: str, level: bytes, text: str, values: Mapping[str, object], stamp_ns: int
) -> DiagnosticArray:
    """A status; floats have six digits."""
    status = DiagnosticStatus(level=level, name=name, message=text)
    status.values = [
        KeyValue(key=key, value=f"{value:.6g}" if isinstance(value, float) else str(value))
        for key, value in values.items()
    ]
    return DiagnosticArray(header=header(stamp_ns, ""), status=[status])


def _fill_pose(pose: object, position: Sequence[float], quaternion: Sequence[float]) -> None:
    x, y, z = (float(value) for value in position)
    pose.position = Point(x=x, y=y, z=z)  # type: ignore[attr-defined]
    qx, qy, qz, qw = (float(value) for value in quaternion)
    pose.orientation = Quaternion(x=qx, y=qy, z=qz, w=qw)  # type: ignore[attr-defined]
