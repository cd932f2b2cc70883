"""The mapper node on real rclpy, with a small model and a vehicle made of publishers."""

from __future__ import annotations

import math
import signal
import subprocess
import threading
import time
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")
pytest.importorskip("torch")

from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import PointCloud2, Range
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger
from visualization_msgs.msg import MarkerArray

from poam_ros.clock import SECOND
from poam_ros.errors import CholeskyError
from poam_ros.ros.clouds import read_map_cloud
from poam_ros.ros.messages import read_diagnostics, write_odometry, write_range
from poam_ros.ros.nodes.mapper import MapperNode
from poam_ros.ros.qos import LATCHED, SENSOR_PUBLISH
from poam_ros.runs.folder import read_map, read_table
from poam_ros.survey.gate import RawPing
from poam_ros.survey.odometry import VehicleState

pytestmark = pytest.mark.ros

SMALL = {
    "num_inducing": 40, "steps": 2, "minibatch": 32, "resolution": 5.0, "batch_size": 20,
    "batch_period": 3600.0, "pilot_samples": 60,
}  # fmt: skip
TOPICS = {
    "map/points": PointCloud2, "map/mean": OccupancyGrid, "map/variance": OccupancyGrid,
    "map/lengthscale": OccupancyGrid, "map/inducing_points": MarkerArray, "map/samples": UInt64,
}  # fmt: skip
DEPTH = 100.0


class Vehicle(Node):
    """Publishes what a vehicle and a planner publish, and keeps what the mapper says."""

    def __init__(self, planner=True, **options):
        super().__init__("vehicle", **options)
        self.odom = self.create_publisher(Odometry, "odom", SENSOR_PUBLISH)
        self.range = self.create_publisher(Range, "sonar/range", SENSOR_PUBLISH)
        self.state = self.create_publisher(String, "mission/state", LATCHED) if planner else None
        self.got = defaultdict(list)
        for topic, kind in TOPICS.items():
            self.create_subscription(kind, topic, self.got[topic].append, LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._keep_status, 10)
        self.reset = self.create_client(Trigger, "mapper/reset")
        self.t = 0
        self.rng = np.random.default_rng(0)

    def _keep_status(self, message):
        if values := read_diagnostics(message, "mapper"):  # not the report of each map
            self.got["level"].append(message.status[0].level)
            self.got["status"].append(values)

    def connected(self):
        return self.odom.get_subscription_count() and self.range.get_subscription_count()

    def say(self, state):
        self.state.publish(String(data=state))

    def drive(self, steps, fault=None, frame="map"):
        """Odometry at 10 Hz of stamped time, a ping in the middle of every step."""
        for _ in range(steps):
            self.locate(frame)
            self.ping(self.t + SECOND // 20, fault)
            self.t += SECOND // 10
            time.sleep(0.002)
        self.locate(frame)

    def locate(self, frame="map"):
        state = VehicleState(self.t, self.place(self.t), frame_id=frame)
        self.odom.publish(write_odometry(state))

    def place(self, stamp):
        s = stamp / SECOND
        return 25 * math.sin(0.7 * s), 25 * math.sin(0.43 * s + 0.4), DEPTH

    def ping(self, stamp, distance=None):
        if distance is None:
            x, y, _ = self.place(stamp)
            distance = DEPTH - 20 - 10 * math.sin(x / 8) * math.cos(y / 6) + self.rng.normal()
        self.range.publish(write_range(RawPing(stamp, distance, 1.0, 1000.0)))


def parameters(**changed):
    return [Parameter(name, value=value) for name, value in {**SMALL, **changed}.items()]


@pytest.fixture
def pair(ros, eventually):
    """`pair(planner=True, **parameters)`: a mapper and a vehicle that have found each other."""

    def make(planner=True, **changed):
        mapper = ros(MapperNode, parameter_overrides=parameters(**changed))
        vehicle = ros(Vehicle, planner=planner)
        eventually(vehicle.connected, what="no discovery")
        eventually(lambda: vehicle.got["map/samples"], what="no samples topic")
        if planner:
            eventually(lambda: mapper.count_publishers("mission/state"))
        return SimpleNamespace(mapper=mapper, vehicle=vehicle, gate=mapper.gate)

    return make


def settled(p, received):
    """Whether this many pings came, and every one of them is counted."""
    gate = p.gate
    total = gate.accepted + gate.pending + sum(gate.rejected.values())
    return gate.received == received == total


def test_nothing_is_known_before_the_first_map(pair, eventually):
    p = pair()
    for layer in ("mean", "variance", "lengthscale"):
        grid = eventually(lambda layer=layer: p.vehicle.got[f"map/{layer}"])[-1]
        assert set(grid.data) == {-1}
        assert (grid.info.width, grid.info.height) == (12, 12)
        assert (grid.info.origin.position.x, grid.info.resolution) == (-30.0, 5.0)
    assert p.vehicle.got["map/samples"][-1].data == 0
    status = eventually(lambda: p.vehicle.got["status"])[-1]
    assert status["samples"] == "0"
    assert not p.vehicle.got["map/points"]


def test_every_rejected_ping_has_its_reason(pair, eventually):
    p = pair()
    v = p.vehicle
    v.t = 100 * SECOND
    v.drive(10)
    for fault in (math.nan, math.inf, math.inf, -math.inf, 0.5, 5000.0):
        v.ping(v.t - SECOND // 20, fault)
    v.ping(SECOND)  # long before the first odometry
    eventually(lambda: settled(p, 17), what=str(p.gate))
    assert p.gate.rejected == {
        "nan": 1, "no_return": 2, "too_close": 2, "out_of_range": 1, "no_odometry": 1,
    }  # fmt: skip
    assert p.gate.accepted == 10
    eventually(lambda: v.got["map/samples"][-1].data == 10)
    eventually(lambda: v.got["status"] and v.got["status"][-1].get("received") == "17")
    status = v.got["status"][-1]
    assert (status["rejected"], status["rejected nan"], status["accepted"]) == ("7", "1", "10")
    assert {"lost odom", "lost sonar/range", "pending", "backlog", "errors"} <= status.keys()


def test_pings_are_placed_at_their_time_of_measurement(pair, eventually):
    p = pair(range_time_offset=-0.5, sonar_offset=[1.0, 0.0, -2.0])
    v = p.vehicle
    v.drive(30)
    eventually(lambda: settled(p, 30))
    assert p.gate.rejected == {"no_odometry": 5}  # measured before the first odometry
    samples = np.concatenate(p.mapper.worker._waiting)
    stamps = [SECOND // 20 + i * SECOND // 10 - SECOND // 2 for i in range(5, 30)]
    truth = [np.add(v.place(stamp), (1.0, 0.0, 0.0))[:2] for stamp in stamps]
    # Between two messages 0.1 s apart the curve leaves its chord by millimetres.
    np.testing.assert_allclose(samples[:, :2], truth, atol=0.05)
    changed = p.mapper.set_parameters([Parameter("range_time_offset", value=0)])
    assert changed[0].successful
    assert p.gate.settings.offset_ns == 0


def test_mission_from_pilot_to_done(pair, eventually, tmp_path, ros):
    p = pair(output=str(tmp_path / "run"))
    v = p.vehicle
    v.say("pilot")
    v.drive(80)  # more than pilot_samples: with a planner there, its word counts
    eventually(lambda: settled(p, 80))
    time.sleep(0.3)
    assert p.mapper.worker.status.updates == 0
    v.say("exploring")
    eventually(lambda: v.got["map/points"], what="no map after the pilot")
    assert p.mapper.worker.status.samples == 80
    v.drive(25)
    eventually(lambda: p.mapper.worker.status.updates == 2)
    v.drive(7)
    eventually(lambda: settled(p, 112))
    v.say("done")
    eventually(lambda: (tmp_path / "run" / "map.npz").exists(), what="no results")
    v.drive(3)
    eventually(lambda: p.gate.rejected["after_mission"] >= 3)
    assert p.mapper.worker.status.samples == p.gate.accepted == v.got["map/samples"][-1].data

    # Who comes late gets the last map, and it is the file's on every cell.
    late = ros(Vehicle, planner=False, parameter_overrides=[])
    eventually(lambda: all(late.got[topic] for topic in TOPICS), what="maps are not latched")
    cloud = late.got["map/points"][-1]
    got, kept = read_map_cloud(cloud), read_map(tmp_path / "run" / "map.npz")
    assert (cloud.height, cloud.width) == (12, 12)
    for layer in ("mean", "variance", "lengthscale"):
        np.testing.assert_array_equal(getattr(got, layer), getattr(kept, layer).astype(np.float32))
    assert kept.samples == len(read_table(tmp_path / "run" / "samples.csv")["z"]) == p.gate.accepted
    told = len(v.got["status"])
    eventually(lambda: len(v.got["status"]) > told)
    status = v.got["status"][-1]
    assert status["finished"] == "true"
    mean = np.array(late.got["map/mean"][-1].data).reshape(12, 12)
    low, high = float(status["map/mean at 0"]), float(status["map/mean at 100"])
    np.testing.assert_allclose(low + mean * (high - low) / 100, kept.mean, atol=(high - low) / 150)
    assert len(late.got["map/inducing_points"][-1].markers[0].points) == len(kept.inducing_points)
    told = {"update_s", "predict_s", "publish_s", "map_age_s", "noise_std", "inducing", "jitter"}
    assert told <= status.keys()


def test_starts_by_itself_where_there_is_no_planner_and_can_be_reset(pair, eventually):
    p = pair(planner=False)
    v = p.vehicle
    v.drive(59)
    eventually(lambda: settled(p, 59))
    time.sleep(0.3)
    assert p.mapper.worker.status.updates == 0
    v.drive(1)
    eventually(lambda: v.got["map/points"], what="no map at pilot_samples")
    eventually(lambda: v.got["map/mean"] and max(v.got["map/mean"][-1].data) == 100)

    v.reset.wait_for_service(10)
    assert v.reset.call(Trigger.Request()).success
    eventually(lambda: set(v.got["map/mean"][-1].data) == {-1}, what="the old picture stays")
    eventually(lambda: v.got["map/samples"][-1].data == 0)
    assert p.mapper.worker.status.samples == 0
    maps = len(v.got["map/points"])
    v.drive(60)
    eventually(lambda: len(v.got["map/points"]) > maps, what="no map after the reset")
    assert p.mapper.worker.status.samples == 60


def test_a_batch_closes_with_ros_time_and_coalesces(pair, eventually):
    p = pair(batch_period=0.5)
    v = p.vehicle
    v.say("exploring")
    v.drive(30)
    eventually(lambda: p.mapper.worker.status.samples == 30)
    updates = p.mapper.worker.status.updates
    v.drive(3)  # fewer than batch_size
    eventually(lambda: p.mapper.worker.status.samples == 33)

    release = threading.Event()
    update = p.mapper.worker._mapper.update
    p.mapper.worker._mapper.update = lambda xy, z: (release.wait(20), update(xy, z))[1]
    v.drive(90)
    eventually(lambda: settled(p, 123), what="callbacks wait for the model")
    eventually(
        lambda: v.got["status"] and v.got["status"][-1]["accepted"] == "123",
        what="diagnostics starve",
    )
    release.set()
    eventually(lambda: p.mapper.worker.status.samples == 123)
    assert p.mapper.worker.status.updates <= updates + 4


def test_flat_ground_waits_for_more(pair, eventually):
    p = pair()
    v = p.vehicle
    v.say("exploring")
    v.drive(25, fault=80.0)
    eventually(lambda: settled(p, 25))
    time.sleep(0.3)
    assert p.mapper.worker.status.updates == 0
    assert p.mapper.worker.backlog == 25
    v.drive(25)
    eventually(lambda: p.mapper.worker.status.samples >= 40)


def test_numerical_failure_keeps_the_batch_and_says_so(pair, eventually):
    p = pair()
    v, model = p.vehicle, p.mapper.worker._mapper
    update = model.update

    def fail(xy, z):
        raise CholeskyError("Kuu: not positive definite with jitter 0.01")

    model.update = fail
    v.say("exploring")
    v.drive(30)
    eventually(lambda: v.got["level"] and v.got["level"][-1] == b"\x02", what="no ERROR")
    assert p.mapper.worker.backlog == 30
    assert p.mapper.worker.status.errors == {"CholeskyError": 1}  # no retry without new pings
    model.update = update
    v.drive(20)
    eventually(lambda: p.mapper.worker.status.samples >= 40)
    eventually(lambda: settled(p, 50))
    v.say("done")
    eventually(lambda: p.mapper.worker.status.samples == 50)
    eventually(lambda: v.got["level"][-1] == b"\x00", what="ERROR stays")


def test_any_other_failure_leaves_the_node_up(pair, eventually):
    p = pair(batch_size=5)
    v, model = p.vehicle, p.mapper.worker._mapper
    v.say("exploring")
    v.drive(20)
    eventually(lambda: p.mapper.worker.status.samples == p.gate.accepted == 20)
    update, calls = model.update, []

    def fail(xy, z):
        calls.append(len(z))
        raise RuntimeError("out of memory")

    model.update = fail
    for expected in (1, 2, 3):
        v.drive(6)
        eventually(lambda n=expected: sum(p.mapper.worker.status.errors.values()) >= n)
    model.update = update
    dropped = p.mapper.worker.status.dropped["RuntimeError"]
    assert dropped == calls[-1] > calls[0]
    v.drive(6)
    eventually(lambda: settled(p, 44))
    v.say("done")
    eventually(lambda: p.mapper.worker.status.samples + dropped == 44)


def test_odometry_in_another_frame(pair, eventually):
    p = pair()
    p.vehicle.drive(5, frame="odom")
    eventually(lambda: p.gate.odometry_rejected["wrong_frame"] == 6)
    eventually(lambda: p.gate.pending == 5)
    p.vehicle.t = 10 * SECOND
    p.vehicle.drive(5, frame="/map")
    eventually(lambda: p.gate.accepted == 5)
    assert p.gate.rejected["no_odometry"] == 5


def test_in_a_namespace_with_a_remapping(ros, eventually):
    mapper = ros(
        MapperNode,
        namespace="auv1",
        cli_args=["--ros-args", "-r", "sonar/range:=altimeter"],
        parameter_overrides=parameters(),
    )
    names = {name for name, _ in mapper.get_topic_names_and_types()}
    assert {f"/auv1/{topic}" for topic in TOPICS} <= names
    assert {"/auv1/odom", "/auv1/altimeter", "/auv1/mission/state", "/diagnostics"} <= names
    assert "/auv1/sonar/range" not in names
    services = dict(mapper.get_service_names_and_types())
    assert services["/auv1/mapper/reset"] == ["std_srvs/srv/Trigger"]


def test_ended_in_the_pilot_survey_it_keeps_its_pings_but_no_earlier_run_is_lost(
    pair, eventually, tmp_path
):
    p = pair(output=str(tmp_path))
    p.vehicle.say("pilot")
    p.mapper._keep_remains()
    assert list(tmp_path.iterdir()) == []
    p.vehicle.drive(30)
    eventually(lambda: settled(p, 30) and p.mapper.worker.backlog == 30)
    p.mapper.worker.stop()
    p.mapper._keep_remains()
    assert [path.name for path in tmp_path.iterdir()] == ["samples.csv"]
    assert len(read_table(tmp_path / "samples.csv")["z"]) == 30
    (tmp_path / "map.npz").write_bytes(b"of an earlier run")
    (tmp_path / "samples.csv").write_text("of an earlier run")
    p.mapper._keep_remains()
    assert (tmp_path / "samples.csv").read_text() == "of an earlier run"


def test_ended_before_its_time_it_keeps_what_it_has(pair, eventually, tmp_path):
    p = pair(output=str(tmp_path / "run"))
    p.vehicle.say("pilot")
    p.vehicle.drive(70)
    eventually(lambda: settled(p, 70))
    p.vehicle.say("exploring")
    eventually(lambda: p.vehicle.got["map/points"])
    p.vehicle.drive(9)  # fewer than a batch
    eventually(lambda: settled(p, 79) and p.mapper.worker.backlog == 9)
    p.mapper.worker.stop()
    p.mapper._keep_remains()
    kept = read_map(tmp_path / "run" / "map.npz")
    samples = read_table(tmp_path / "run" / "samples.csv")
    assert kept.samples == 70 and len(samples["z"]) == p.gate.accepted == 79
    cloud = read_map_cloud(p.vehicle.got["map/points"][-1])
    np.testing.assert_array_equal(cloud.mean, kept.mean.astype(np.float32))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stops_without_a_traceback(how, python, ros_env):
    arguments = [f"-p{name}:={value}" for name, value in SMALL.items()]
    flat = [part for a in arguments for part in ("-p", a[2:])]
    node = subprocess.Popen(
        [python, "-m", "poam_ros.ros.nodes.mapper", "--ros-args", *flat],
        env=ros_env, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said = node.stderr.readline()
    assert "waiting for pings" in said
    time.sleep(0.5)  # to be stopped while it spins, not while it is made
    node.send_signal(how)
    _, errors = node.communicate(timeout=20)
    assert node.returncode == 0, errors
    assert "Traceback" not in errors
