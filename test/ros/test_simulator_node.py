"""The simulator node on real rclpy, as a vehicle and as the source of time."""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from heard import Listener, answer
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import PointCloud2, Range
from std_msgs.msg import UInt64
from std_srvs.srv import Trigger

from poam_ros.core.geometry import Extent
from poam_ros.frontend.odometry import read_odometry
from poam_ros.ros import messages
from poam_ros.ros import node as qos
from poam_ros.ros.simulator import SimulatorNode, main, thinned
from poam_ros.simulation.terrain import Terrain

EXTENT = Extent(-31, 31, -31, 31)


class Crew(Listener):
    """Gives goals, and keeps everything it hears."""

    def __init__(self) -> None:
        super().__init__("crew")
        clock_qos = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)
        for topic, kind, how in (
            ("odom", Odometry, qos.SENSOR_READ),
            ("sonar/range", Range, qos.SENSOR_READ),
            ("/clock", Clock, clock_qos),
            ("terrain", PointCloud2, qos.LATCHED),
            ("/diagnostics", DiagnosticArray, 10),
        ):
            self.listen(kind, topic, how)
        self.sent = self.create_publisher(PoseStamped, "goal_pose", qos.GOAL)

    def send_goal(self, x: float, y: float, frame: str = "map", stamp_ns: int = 0) -> None:
        self.sent.publish(messages.write_pose((x, y), stamp_ns, frame))

    def is_obeyed(self, simulator: SimulatorNode, *goal: float, stamp_ns: int = 0) -> bool:
        """Whether a goal is taken, which soon is stale: to be asked again and again."""
        self.send_goal(*goal, stamp_ns=stamp_ns)
        return simulator.simulation.vehicle.goal == goal

    def place(self) -> np.ndarray:
        return np.array(read_odometry(self.heard["odom"][-1]).position[:2])


@pytest.fixture
def terrain(tmp_path):
    """A plane that rises to the east: 10 m at the left border, 72 m at the right one."""
    x = np.linspace(-31, 31, 125)[1::2]
    path = tmp_path / "plane.npy"
    np.save(path, np.tile(41 + x, (62, 1)))
    return str(path)


@pytest.fixture
def ship(ros, eventually, terrain):
    def start(**parameters):
        given = {"terrain": terrain, "use_sim_time": True, "speed": 20.0} | parameters
        simulator = ros(SimulatorNode, parameters=given)
        crew = ros(Crew)
        eventually(lambda: crew.heard["odom"] and crew.heard["terrain"])
        eventually(lambda: crew.sent.get_subscription_count() == 1)
        return simulator, crew

    return start


def test_a_vehicle_with_a_sonar_on_simulated_time(ship, eventually):
    simulator, crew = ship()
    crew.send_goal(25, -30)
    topics = ("sonar/range", "odom", "/clock")
    eventually(lambda: all(len(crew.heard[topic]) > 30 for topic in topics))
    times = [messages.stamp_to_ns(m.clock) for m in crew.heard["/clock"]]
    assert times[0] > 0
    assert (np.diff(times) > 0).all()
    states = [read_odometry(m) for m in crew.heard["odom"]]
    assert {s.frame_id for s in states} == {"map"}
    assert crew.heard["odom"][0].child_frame_id == "base_link"
    steps = np.diff([s.stamp_ns for s in states])
    assert steps.min() == 100_000_000  # 10 Hz; best effort may skip some
    assert {s.position[2] for s in states} == {simulator.simulation.sonar_z}
    pings = crew.heard["sonar/range"]
    assert pings[0].header.frame_id == "sonar_link"
    assert pings[0].radiation_type == Range.ULTRASOUND
    assert pings[0].field_of_view == pytest.approx(0.05)
    stamps = np.array([messages.stamp_to_ns(m.header.stamp) for m in pings])
    spacing = np.diff(stamps) / 1e9
    assert spacing.min() == pytest.approx(1 / 3)
    # Elevation = z of the sonar - range, at the place where the vehicle was at the stamp.
    odometry_ns = np.array([s.stamp_ns for s in states])
    x = np.interp(stamps, odometry_ns, [s.position[0] for s in states])
    inside = (stamps > odometry_ns[0]) & (stamps < odometry_ns[-1])
    error = simulator.simulation.sonar_z - np.array([m.range for m in pings]) - (41 + x)
    assert np.abs(error[inside]).max() < 6
    assert abs(error[inside].mean()) < 1
    grid, layers = messages.read_cloud(crew.heard["terrain"][0])
    assert grid.shape == (62, 62) and grid.y[0] < grid.y[-1]
    np.testing.assert_allclose(layers["z"], np.tile(41 + grid.x, (62, 1)), rtol=1e-5)


def test_the_twist_is_over_ground_in_the_axes_of_a_vehicle_that_a_current_sets(ship, eventually):
    _, crew = ship(current=[0.0, 0.6])
    crew.send_goal(25, -30)
    eventually(lambda: crew.heard["odom"][-1].twist.twist.linear.y != 0)
    message = crew.heard["odom"][-1]
    forward, left = message.twist.twist.linear.x, message.twist.twist.linear.y
    moves = complex(forward, left) * np.exp(1j * read_odometry(message).yaw)
    assert abs(moves - 0.6j) == pytest.approx(1.0, abs=0.02)  # through water


def test_holds_station_without_a_fresh_goal_and_returns_to_the_start_at_a_reset(ship, eventually):
    _, crew = ship()
    start = crew.place()
    crew.send_goal(-30, -30)
    eventually(lambda: np.linalg.norm(crew.place() - start) > 1)
    eventually(lambda: crew.heard["odom"][-1].twist.twist.linear.x == 0)
    # 3 s at 1 m/s, and what was driven until the goal came.
    assert 2.5 < np.linalg.norm(crew.place() - start) < 3.5
    answer(crew.create_client(Trigger, "simulator/reset"), eventually)
    eventually(lambda: np.array_equal(crew.place(), start))
    times = [messages.stamp_to_ns(m.clock) for m in crew.heard["/clock"]]
    assert (np.diff(times) > 0).all()


def test_drives_to_a_goal_that_is_repeated_and_stops_there(ship, eventually):
    simulator, crew = ship()
    counts = simulator.warnings.counts
    crew.send_goal(0, 0, frame="odom")
    eventually(lambda: counts["frame"] == 1)
    crew.send_goal(math.nan, 0)
    eventually(lambda: counts["not_finite"] == 1)
    assert simulator.simulation.vehicle.goal is None  # both are refused

    def arrived():
        crew.send_goal(99, -25)  # outside: the nearest point of the workspace is meant
        return np.linalg.norm(crew.place() - (30, -25)) < 0.1

    eventually(arrived)
    eventually(lambda: crew.heard["odom"][-1].twist.twist.linear.x == 0)
    assert set(counts) == {"frame", "not_finite", "outside"} and counts["outside"] >= 1
    for corner in ((30, -30), (-30, -30)):  # a corner is inside
        before = counts["outside"]  # the first time some may still be on their way
        eventually(partial(crew.is_obeyed, simulator, *corner))
    assert counts["outside"] == before


def test_a_large_terrain_is_thinned():
    elevation = np.arange(3601.0)[:, None] * np.ones(3601)
    grid, thin = thinned(Terrain("large", elevation, EXTENT), 400)
    assert max(thin.shape) <= 400
    assert grid.shape == thin.shape
    rows = (grid.y - EXTENT.ymin) / 62 * 3601 - 0.5
    np.testing.assert_allclose(thin[:, 0], rows, atol=1e-6)
    small, same = thinned(Terrain("small", elevation[:40, :30], EXTENT), 400)
    assert same.shape == small.shape == (40, 30)


def test_wall_time_stamps_follow_the_wall_clock_at_speed_1(ship, eventually):
    simulator, crew = ship(use_sim_time=False, speed=1.0)
    eventually(lambda: len(crew.heard["odom"]) > 5)
    eventually(lambda: abs(crew.get_clock().now().nanoseconds - simulator.now_ns) < 5e9)
    assert crew.heard["/clock"] == []
    refused = simulator.set_parameters([Parameter("speed", value=2.0)])[0]
    assert not refused.successful and "speed" in refused.reason


def test_speed_may_change_on_simulated_time(ship, eventually):
    simulator, _ = ship(speed=1.0)
    assert simulator.set_parameters([Parameter("speed", value=30)])[0].successful
    before, began = simulator.simulation.time_ns, time.monotonic_ns()

    def passed():
        """Simulated and wall time since then, in ns."""
        return simulator.simulation.time_ns - before, time.monotonic_ns() - began

    eventually(lambda: passed()[0] > 1e9 + 3 * passed()[1])
    assert not simulator.set_parameters([Parameter("use_sim_time", value=False)])[0].successful


def test_waits_for_a_mission_if_asked(ros, eventually, terrain, monkeypatch):
    monkeypatch.setattr("poam_ros.ros.simulator.MISSION_TIMEOUT_S", math.inf)
    given = {"terrain": terrain, "use_sim_time": True, "speed": 20.0, "wait_for_mission": True}
    simulator = ros(SimulatorNode, parameters=given)
    texts = ["waiting for a mission"]
    simulator.report = lambda level, text, values: texts.append(text)
    eventually(lambda: simulator.waiting)
    assert simulator.simulation.time_ns == 0
    simulator._reported = (time.monotonic() - 100.0, 0, True)  # it has waited for long
    crew = ros(Crew)
    crew.create_publisher(UInt64, "map/samples", qos.LATCHED)  # as a mapper does
    eventually(lambda: simulator.simulation.time_ns > 0)
    eventually(lambda: texts[-1] != texts[0])
    assert texts[texts.count(texts[0])] == "running", "the time before the start makes it no slower"


def test_waits_no_longer_for_a_mission_that_does_not_appear(ros, eventually, terrain, monkeypatch):
    monkeypatch.setattr("poam_ros.ros.simulator.MISSION_TIMEOUT_S", 0.1)
    simulator = ros(SimulatorNode, parameters={"terrain": terrain, "wait_for_mission": True})
    eventually(lambda: simulator.simulation.time_ns > 0)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("terrain:=/no/such/file.npy", "/no/such/file.npy"),
        ("speed:=3.0", "speed"),
        ("sonar.dropout:=1.5", "dropout"),
        ("workspace:=[-99.0, 99.0, -99.0, 99.0]", "start"),
        ("current:=[0.8, -0.6]", "current"),
    ],
)
def test_wrong_parameters_end_with_one_line_and_status_2(refusal, terrain, wrong, named):
    assert named in refusal(main, "-p", f"terrain:={terrain}", "-p", wrong)
