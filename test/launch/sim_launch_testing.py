"""A small mission under launch_testing; ``test_sim_launch.py`` runs it, `launch_test` does too.

The mission keeps its nodes when it is done, so that launch_testing ends them, by Ctrl-C.
"""

from __future__ import annotations

import os
import time
import unittest
from pathlib import Path

import launch_testing
import launch_testing.asserts
import rclpy
from launch import LaunchDescription
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource
from nav_msgs.msg import OccupancyGrid
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

LAUNCH_FILE = Path(__file__).parent.parent.parent / "launch" / "sim.launch.py"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
PATIENCE = 300.0  # s


def generate_test_description() -> LaunchDescription:
    mission = IncludeLaunchDescription(
        PythonLaunchDescriptionSource(str(LAUNCH_FILE)),
        launch_arguments={
            "speed": "20",
            "max_samples": "200",
            "keep": "true",
            "params_file": os.environ["POAM_TEST_PARAMS"],
        }.items(),
    )
    return LaunchDescription([mission, launch_testing.actions.ReadyToTest()])


class TestMission(unittest.TestCase):
    def setUp(self) -> None:
        rclpy.init()
        self.node = rclpy.create_node("watcher")
        self.seen: dict[str, object] = {}
        self.states: list[str] = []
        for topic, kind in (
            ("map/mean", OccupancyGrid),
            ("map/variance", OccupancyGrid),
            ("map/points", PointCloud2),
        ):
            self.node.create_subscription(
                kind,
                topic,
                lambda message, topic=topic: self.seen.update({topic: message}),
                LATCHED,
            )
        self.node.create_subscription(
            String, "mission/state", lambda message: self.states.append(message.data), LATCHED
        )

    def tearDown(self) -> None:
        self.node.destroy_node()
        rclpy.shutdown()

    def wait_for(self, condition, what: str) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            rclpy.spin_once(self.node, timeout_sec=0.1)
            if condition():
                return
        self.fail(f"after {PATIENCE:g} s: no {what}; states {self.states}, maps {list(self.seen)}")

    def mapped(self) -> bool:
        """Whether all maps came; -1 everywhere is said before there is a map."""
        mean = self.seen.get("map/mean")
        return len(self.seen) == 3 and any(value >= 0 for value in mean.data)

    def test_nodes_come_up_and_map_until_done(self) -> None:
        expected = {"simulator", "mapper", "planner", "monitor"}
        self.wait_for(lambda: expected <= set(self.node.get_node_names()), f"nodes {expected}")
        self.wait_for(lambda: "done" in self.states, "end of the mission")
        self.wait_for(self.mapped, "maps with values")
        cloud, mean = self.seen["map/points"], self.seen["map/mean"]
        self.assertEqual((cloud.height, cloud.width), (mean.info.height, mean.info.width))


@launch_testing.post_shutdown_test()
class TestEnd(unittest.TestCase):
    def test_every_node_ends_cleanly(self, proc_info) -> None:
        launch_testing.asserts.assertExitCodes(proc_info)
