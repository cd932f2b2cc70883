"""What the simulator sends in every control period, and its terrain and transforms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import Range

from ..clock import SECOND
from ..geometry import Grid
from ..world.simulation import Ping, Simulation, Step
from ..world.terrain import Terrain
from .messages import yaw_to_quaternion

ODOMETRY_FRAME, BASE_FRAME, SONAR_FRAME = "odom", "base_link", "sonar_link"


class Outgoing:
    """The messages of every control period, each made once: making costs more than sending."""

    def __init__(self, simulation: Simulation, frame_id: str, field_of_view: float) -> None:
        self._stamp = Time()
        self.clock = Clock(clock=self._stamp)
        self._odometry = Odometry(child_frame_id=BASE_FRAME)
        self._odometry.header.frame_id = frame_id
        self._odometry.header.stamp = self._stamp
        self._odometry.pose.pose.position.z = simulation.sonar_z
        self._range = Range(radiation_type=Range.ULTRASOUND, field_of_view=field_of_view)
        self._range.header.frame_id = SONAR_FRAME
        self._range.min_range = float(simulation.settings.min_range)
        self._range.max_range = simulation.max_range
        self._transform = TransformStamped(child_frame_id=BASE_FRAME)
        self._transform.header.frame_id = ODOMETRY_FRAME
        self._transform.header.stamp = self._stamp
        self._transform.transform.translation.z = simulation.sonar_z

    def set_stamp(self, stamp_ns: int) -> None:
        """The stamp of clock, odometry and transform."""
        self._stamp.sec, self._stamp.nanosec = divmod(stamp_ns, SECOND)

    def odometry_of(self, step: Step) -> Odometry:
        pose, twist = self._odometry.pose.pose, self._odometry.twist.twist
        pose.position.x, pose.position.y = step.pose.x, step.pose.y
        _, _, pose.orientation.z, pose.orientation.w = yaw_to_quaternion(step.pose.yaw)
        twist.linear.x, twist.angular.z = step.speed, step.turn_rate
        return self._odometry

    def transform_of(self, step: Step) -> TransformStamped:
        transform = self._transform.transform
        transform.translation.x, transform.translation.y = step.pose.x, step.pose.y
        _, _, z, w = yaw_to_quaternion(step.pose.yaw)
        transform.rotation.z, transform.rotation.w = z, w
        return self._transform

    def range_of(self, ping: Ping, stamp_ns: int) -> Range:
        stamp = self._range.header.stamp
        stamp.sec, stamp.nanosec = divmod(stamp_ns, SECOND)
        self._range.range = float(ping.range)
        return self._range


def thinned(terrain: Terrain, cells: int) -> tuple[Grid, np.ndarray]:
    """The terrain's own cells, or every k-th where there are more than ``cells`` along a side."""
    rows, columns = terrain.elevation.shape
    stride = math.ceil(max(rows, columns) / cells)
    extent = terrain.extent
    width, height = extent.size / (columns, rows)
    grid = Grid(
        (extent.xmin + (np.arange(columns) + 0.5) * width)[stride // 2 :: stride],
        (extent.ymin + (np.arange(rows) + 0.5) * height)[stride // 2 :: stride],
    )
    return grid, terrain.elevation[stride // 2 :: stride, stride // 2 :: stride]


def transform_broadcaster(node: Node, frame_id: str) -> Any:
    """A tf2 broadcaster, with what never moves sent already; None where tf2_ros is missing.

    The tree is that of REP-105: map -> odom -> base_link -> sonar_link. The simulated odometry does
    not drift, so map and odom coincide.
    """
    try:
        from tf2_ros import StaticTransformBroadcaster, TransformBroadcaster
    except ImportError:
        node.get_logger().info("tf2_ros is not installed: no transforms are published")
        return None
    mount = TransformStamped(child_frame_id=SONAR_FRAME)
    mount.header.frame_id = BASE_FRAME
    # The beam is the x axis of its frame: a quarter turn about y points it down (REP-103).
    mount.transform.rotation.y = mount.transform.rotation.w = math.sqrt(0.5)
    origin = TransformStamped(child_frame_id=ODOMETRY_FRAME)
    origin.header.frame_id = frame_id
    broadcaster = TransformBroadcaster(node)
    broadcaster.static = StaticTransformBroadcaster(node)  # lives as long
    broadcaster.static.sendTransform([origin, mount])
    return broadcaster
