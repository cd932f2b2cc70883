"""Odometry and ranges as drivers publish them."""

from nav_msgs.msg import Odometry
from sensor_msgs.msg import Range

from poam_ros.frontend.odometry import DIAGONAL, VehicleState, bare_frame
from poam_ros.frontend.pings import RawPing
from poam_ros.ros.messages import header, write_pose


def write_odometry(state: VehicleState) -> Odometry:
    """The state as odometry; the speed is in the child frame."""
    message = Odometry(header=header(state.stamp_ns, state.frame_id))
    message.child_frame_id = bare_frame(state.child_frame_id)
    x, y, z = map(float, state.position)
    message.pose.pose = write_pose((x, y), 0, "", z).pose
    q = message.pose.pose.orientation
    q.x, q.y, q.z, q.w = map(float, state.quaternion)
    message.pose.covariance[DIAGONAL] = state.variance
    message.twist.twist.linear.x = float(state.speed)
    return message


def write_range(ping: RawPing, frame_id: str = "sonar_link", field_of_view: float = 0.05) -> Range:
    """A ping as an acoustic range along the x axis of its frame."""
    return Range(
        header=header(ping.stamp_ns, frame_id),
        radiation_type=Range.ULTRASOUND,
        field_of_view=float(field_of_view),
        min_range=float(ping.min_range),
        max_range=float(ping.max_range),
        range=float(ping.range),
        variance=float(ping.variance),
    )
