"""Odometry and ranges from messages, whoever made these: rclpy, or the reader of a bag. No ROS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.clock import SECOND
from ..frontend.odometry import VehicleState
from ..frontend.pings import RawPing

if TYPE_CHECKING:
    from builtin_interfaces.msg import Time
    from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
    from nav_msgs.msg import Odometry
    from sensor_msgs.msg import Range

LONGEST_FRAME = 255  # characters
DIAGONAL = [0, 7, 14]  # variances of x, y, z in a covariance [36]


def stamp_to_ns(stamp: Time) -> int:
    """A message's stamp in nanoseconds."""
    return stamp.sec * SECOND + stamp.nanosec


def bare_frame(frame_id: str) -> str:
    """A frame id without the leading slash of old days, so that it compares; and cut, since
    thousands of messages are kept, and nobody bounds what a header holds."""
    return frame_id.lstrip("/")[:LONGEST_FRAME]


def read_odometry(message: Odometry) -> VehicleState:
    """The message as a state; whether its attitude is one is for the buffer to judge."""
    pose, speed = message.pose.pose, message.twist.twist.linear.x
    p, q, stamp_ns = pose.position, pose.orientation, stamp_to_ns(message.header.stamp)
    place, attitude, frame_id = (p.x, p.y, p.z), (q.x, q.y, q.z, q.w), message.header.frame_id
    vx, vy, vz = message.pose.covariance[DIAGONAL].tolist()
    frames = bare_frame(frame_id), bare_frame(message.child_frame_id)
    return VehicleState(stamp_ns, place, attitude, speed, frames[0], (vx, vy, vz), frames[1])


def read_pose(message: PoseStamped | PoseWithCovarianceStamped) -> VehicleState:
    """A pose without speeds as a state."""
    pose = getattr(message.pose, "pose", message.pose)
    p, q = pose.position, pose.orientation
    frame_id = bare_frame(message.header.frame_id)
    place, attitude = (p.x, p.y, p.z), (q.x, q.y, q.z, q.w)
    return VehicleState(stamp_to_ns(message.header.stamp), place, attitude, frame_id=frame_id)


def read_range(message: Range) -> RawPing:
    """The message as a ping."""
    return RawPing(
        stamp_to_ns(message.header.stamp),
        message.range,
        message.min_range,
        message.max_range,
        bare_frame(message.header.frame_id),
        message.field_of_view,
        getattr(message, "variance", 0.0),  # Humble's Range has none
    )
