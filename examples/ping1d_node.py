"""Ranges of a Blue Robotics Ping on a serial port, as sensor_msgs/Range (docs/sensors.md)."""

import rclpy
from brping import Ping1D
from rclpy.node import Node
from sensor_msgs.msg import Range

rclpy.init()
node = Node("ping1d")
ranges = node.create_publisher(Range, "sonar/range", 10)
sonar = Ping1D()
sonar.connect_serial("/dev/ttyUSB0", 115200)
sonar.initialize()


def read() -> None:
    if data := sonar.get_distance():  # mm and %
        ping = Range(range=data["distance"] / 1000 if data["confidence"] >= 50 else float("nan"))
        ping.header.frame_id = "sonar_link"
        ping.header.stamp = node.get_clock().now().to_msg()  # of receipt, as the preset expects
        ping.max_range = (data["scan_start"] + data["scan_length"]) / 1000
        ranges.publish(ping)


node.create_timer(0.1, read)
rclpy.spin(node)
