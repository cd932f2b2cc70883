"""The simulator's topics: clock, odometry, pings, transforms and terrain."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import PointCloud2, Range

from ...core.clock import SECOND
from ...core.geometry import Grid
from ...simulation.world.simulator import SimulatedPing, Simulation, SimulationStep
from ...simulation.world.terrain import Terrain
from ..common import qos
from ..common.clouds import colours, write_cloud
from ..common.messages import yaw_to_quaternion

ODOMETRY_FRAME, BASE_FRAME, SONAR_FRAME = "odom", "base_link", "sonar_link"
MAX_TERRAIN_CELLS = 400  # rows or columns of the terrain message


class SimulatorTopics:
    """The simulator's publishers, and the messages of every control period.

    Messages are reused: creating one costs more than sending it.
    """

    def __init__(
        self, node: Node, simulation: Simulation, frame_id: str, field_of_view: float
    ) -> None:
        self._frame_id = frame_id
        self._stamp = Time()
        self._clock = Clock(clock=self._stamp)
        self._odometry = Odometry(child_frame_id=BASE_FRAME)
        self._odometry.header.frame_id = frame_id
        self._odometry.header.stamp = self._stamp
        self._odometry.pose.pose.position.z = simulation.sonar_z
        self._range = Range(radiation_type=Range.ULTRASOUND, field_of_view=field_of_view)
        self._range.header.frame_id = SONAR_FRAME
        self._range.min_range = float(simulation.settings.min_range)
        self._range.max_range = simulation.settings.max_range
        self._transform = TransformStamped(child_frame_id=BASE_FRAME)
        self._transform.header.frame_id = ODOMETRY_FRAME
        self._transform.header.stamp = self._stamp
        self._transform.transform.translation.z = simulation.sonar_z
        self._open(node)

    def _open(self, node: Node) -> None:
        # A publisher's default events cost the executor most of its time. Subscribers report
        # incompatible QoS as well.
        events = PublisherEventCallbacks(use_default_callbacks=False)
        silent: dict[str, Any] = {"event_callbacks": events}
        publisher = node.create_publisher
        self._odometry_publisher = publisher(Odometry, "odom", qos.SENSOR_PUBLISH, **silent)
        self._range_publisher = publisher(Range, "sonar/range", qos.SENSOR_PUBLISH, **silent)
        self._clock_publisher = None
        if node.get_parameter("use_sim_time").value:
            self._clock_publisher = publisher(Clock, "/clock", qos.CLOCK, **silent)
        self._transforms = transform_broadcaster(node, self._frame_id)
        self._terrain_publisher = publisher(PointCloud2, "terrain", qos.LATCHED, **silent)

    @property
    def connected(self) -> bool:
        """Whether both sensors have subscribers."""
        sensors = (self._range_publisher, self._odometry_publisher)
        return all(sensor.get_subscription_count() > 0 for sensor in sensors)

    def send_terrain(self, terrain: Terrain, stamp_ns: int) -> None:
        """Publish the ground truth."""
        grid, elevation = thinned(terrain, MAX_TERRAIN_CELLS)
        layers = {"z": elevation, "rgb": colours(grid, elevation)}
        self._terrain_publisher.publish(write_cloud(grid, layers, stamp_ns, self._frame_id))

    def send(self, step: SimulationStep, offset_ns: int) -> None:
        """Publish a step; stamps are the simulation's time plus the offset."""
        self._stamp.sec, self._stamp.nanosec = divmod(step.time_ns + offset_ns, SECOND)
        if self._clock_publisher is not None:
            self._clock_publisher.publish(self._clock)
        self._odometry_publisher.publish(self._odometry_of(step))
        if self._transforms is not None:
            self._transforms.sendTransform(self._transform_of(step))
        for ping in step.pings:
            self._range_publisher.publish(self._range_of(ping, ping.stamp_ns + offset_ns))

    def _odometry_of(self, step: SimulationStep) -> Odometry:
        pose, twist = self._odometry.pose.pose, self._odometry.twist.twist
        pose.position.x, pose.position.y = step.pose.x, step.pose.y
        _, _, pose.orientation.z, pose.orientation.w = yaw_to_quaternion(step.pose.yaw)
        crab = step.direction - step.pose.yaw
        twist.linear.x, twist.linear.y = step.speed * math.cos(crab), step.speed * math.sin(crab)
        twist.angular.z = step.turn_rate
        return self._odometry

    def _transform_of(self, step: SimulationStep) -> TransformStamped:
        transform = self._transform.transform
        transform.translation.x, transform.translation.y = step.pose.x, step.pose.y
        _, _, z, w = yaw_to_quaternion(step.pose.yaw)
        transform.rotation.z, transform.rotation.w = z, w
        return self._transform

    def _range_of(self, ping: SimulatedPing, stamp_ns: int) -> Range:
        stamp = self._range.header.stamp
        stamp.sec, stamp.nanosec = divmod(stamp_ns, SECOND)
        self._range.range = float(ping.range)
        return self._range


def thinned(terrain: Terrain, cells: int) -> tuple[Grid, np.ndarray]:
    """The cells of the terrain; every k-th if a side has more than ``cells``."""
    stride = math.ceil(max(terrain.elevation.shape) / cells)
    some = slice(stride // 2, None, stride)
    whole = Grid.dividing(terrain.extent, terrain.elevation.shape)
    return Grid(whole.x[some], whole.y[some]), terrain.elevation[some, some]


def transform_broadcaster(node: Node, frame_id: str) -> Any:
    """A tf2 broadcaster that has sent the static transforms; None without tf2_ros.

    The tree is that of REP-105: map -> odom -> base_link -> sonar_link. The simulated odometry does
    not drift, so map and odom are equal.
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
    broadcaster.static = StaticTransformBroadcaster(node)  # keeps it alive
    broadcaster.static.sendTransform([origin, mount])
    return broadcaster
