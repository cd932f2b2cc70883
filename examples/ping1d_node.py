"""Ranges of a Blue Robotics Ping on a serial port, as sensor_msgs/Range (docs/sensors.md)."""

import rclpy
from brping import Ping1D
from rclpy.node import Node
from sensor_msgs.msg import Range

from poam_ros.ros.common.range_converters import range_of_ping1d

rclpy.init()
node = Node("ping1d")
ranges = node.create_publisher(Range, "sonar/range", 10)
sonar = Ping1D()
sonar.connect_serial("/dev/ttyUSB0", 115200)
sonar.initialize()


def read() -> None:
    if data := sonar.get_distance():
        stamp = node.get_clock().now().to_msg()  # of receipt, as the preset expects
        ranges.publish(range_of_ping1d(data, stamp))


node.create_timer(0.1, read)
rclpy.spin(node)
