"""The monitor node on real rclpy, with a stand-in for everyone it listens to."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from nav_msgs.msg import Path
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.outputs.recorder import MapReport
from poam_ros.ros import messages
from poam_ros.ros import node as qos
from poam_ros.ros.monitor import MonitorNode
from poam_ros.ros.planner import PlannerNode

SECOND = 1_000_000_000
GRID = Grid.cells(Extent(-30, 30, -30, 30), 2.0)


class Mission(Node):
    """Says what simulator, mapper and planner would."""

    def __init__(self) -> None:
        super().__init__("mission")
        self.terrain = self.create_publisher(PointCloud2, "terrain", qos.LATCHED)
        self.maps = self.create_publisher(PointCloud2, "map/points", qos.KEPT)
        self.reports = self.create_publisher(String, "map/report", qos.KEPT)
        self.samples = self.create_publisher(UInt64, "map/samples", qos.LATCHED)
        self.states = self.create_publisher(String, "mission/state", qos.LATCHED)
        self.plans = self.create_publisher(Path, "plan", qos.KEPT)
        self.diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", qos.LATCHED)
        self.truth = np.add.outer(GRID.y, GRID.x)
        self.terrain.publish(messages.write_cloud(GRID, {"z": self.truth}, SECOND, "map"))

    def plan(self, second: int) -> None:
        self.plans.publish(messages.write_path(np.zeros((2, 2)), second * SECOND, "map"))

    def draw(self, second: int, samples: int, finished: bool = False) -> None:
        variance = np.full(GRID.shape, 4.0)
        drawn = ElevationMap(GRID, self.truth + 1.0, variance, stamp_ns=second * SECOND)
        self.maps.publish(messages.write_map_cloud(drawn, "map"))
        report = MapReport(second * SECOND, samples, 0.1234567890123, 600.0, 0.5, 0.25, finished)
        self.reports.publish(messages.write_report(report))


@pytest.fixture
def monitor(ros):
    def start(**parameters):
        return ros(MonitorNode, parameters={"linger": 0.0} | parameters)

    return start


def scored(node):
    return [(epoch.samples, epoch.time_s) for epoch in node.recorder.epochs]


def test_maps_are_scored_with_times_since_the_first_plan(ros, monitor, eventually):
    node, mission = monitor(), ros(Mission)
    mission.plan(3)
    eventually(lambda: node.recorder.began_ns == 3 * SECOND)
    mission.plan(4)  # later ones begin nothing
    mission.samples.publish(UInt64(data=17))
    mission.draw(5, 10)
    mission.draw(9, 20)
    eventually(lambda: scored(node) == [(10, 2), (20, 6)])
    eventually(lambda: node.progress.samples == 17 and node.progress.epochs == 2)
    assert node.progress.epoch.rmse == pytest.approx(1.0, rel=1e-5)
    assert not node.finished
    mission.states.publish(String(data="done"))
    eventually(lambda: node.finished)
    assert node.recorder.succeeded and node.progress.state == "done"


def test_invalid_reports_and_maps_are_counted(ros, monitor, eventually):
    node, mission = monitor(), ros(Mission)
    mission.reports.publish(String(data="[1.0]"))
    mission.maps.publish(PointCloud2())
    counted = {"map/report unreadable": 1, "map/points unreadable": 1}
    eventually(lambda: dict(node.warnings.counts) == counted)


def test_problems_of_the_nodes_in_its_namespace_are_shown(ros, monitor, eventually):
    node, mission = monitor(), ros(Mission)

    def say(name, level, text, **values):
        status = DiagnosticStatus(name=name, level=level, message=text)
        status.values = [KeyValue(key=key, value=str(value)) for key, value in values.items()]
        mission.diagnostics.publish(DiagnosticArray(status=[status]))
        return node.progress.problems

    eventually(lambda: say("mapper", b"\x02", "broken") == {"mapper": "broken"})
    say("other/planner", b"\x02", "of another mission")
    eventually(lambda: say("mapper", b"\x00", "fine") == {})
    say("simulator", b"\x00", "running", achieved_speed=19.5)
    eventually(lambda: node.progress.speed == 19.5)
    say("mapper", b"\x00", "waiting for the pilot survey", pending=213)
    eventually(lambda: node.progress.pending == 213)


def test_parameters_are_requested_before_any_message_of_the_node(ros, monitor, eventually):
    ros(PlannerNode, up=False, parameters={"max_samples": 77})
    node = monitor()
    eventually(lambda: node.progress.max_samples == 77)
    assert node.recorder.config["planner"]["workspace"] == [-30.0, 30.0, -30.0, 30.0]
