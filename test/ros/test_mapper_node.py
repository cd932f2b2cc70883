"""The mapper node on real rclpy, with a small model and a vehicle made of publishers."""

import math
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

import kept
from driver_messages import write_odometry, write_range
from feeder import DEPTH, Feeder, Surveyor
from geometry_msgs.msg import TransformStamped
from heard import Listener, read_refused, status_values
from kept import Crossed
from nav_msgs.msg import OccupancyGrid
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64
from std_srvs.srv import Trigger
from toy import Toy, ToyOptions
from visualization_msgs.msg import MarkerArray

from poam_ros.core.clock import SECOND
from poam_ros.core.errors import CholeskyError
from poam_ros.frontend.front_end import RawPing
from poam_ros.frontend.odometry import VehicleState
from poam_ros.journal.tables import REINSTATE, JournalStep
from poam_ros.models.registry import MODELS, ModelEntry
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.outputs.run import read_unmapped
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.messages import read_map_cloud
from poam_ros.ros.node import LATCHED

pytestmark = pytest.mark.ros

SMALL = {
    "method": "poam", "sparse.num_inducing": 40, "sparse.steps": 2,
    "screening.enabled": False, "resolution": 5.0, "odometry.vertical": "datum",
    "batch.size": 20,
    "batch.period": 3600.0, "pilot_samples": 60,
}  # fmt: skip
TOPICS = {
    "map/points": PointCloud2, "map/mean": OccupancyGrid, "map/variance": OccupancyGrid,
    "map/lengthscale": OccupancyGrid, "map/inducing_points": MarkerArray, "map/samples": UInt64,
}  # fmt: skip
LIMIT = 300.0  # s, for a process to end


class Vehicle(Feeder):
    """Publishes what a vehicle and a planner publish, and keeps what the mapper says."""

    def __init__(self, planner=True):
        super().__init__(planner=planner)
        for topic, kind in TOPICS.items():
            self.listen(kind, topic, LATCHED)
        self.reset = self.create_client(Trigger, "mapper/reset")
        self.t = SECOND

    def _keep_status(self, message):
        if values := status_values(message, "mapper"):
            said = {"level": message.status[0].level, "text": message.status[0].message}
            self.heard.keep("status", values | said)

    def finished(self):
        """Whether the mapper has reported its results."""
        reports = self.heard["map/report"]
        return reports and reports[-1].finished

    def says(self, **expected):
        """Whether this is in the newest diagnostics."""
        told = self.heard["status"]
        return told and {name: told[-1].get(name) for name in expected} == expected

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
        self._odom.publish(write_odometry(state))

    def place(self, stamp):
        s = stamp / SECOND
        return 25 * math.sin(0.7 * s), 25 * math.sin(0.43 * s + 0.4), DEPTH

    def ping(self, stamp, distance=None):
        if distance is None:
            x, y, _ = self.place(stamp)
            distance = DEPTH - 20 - 10 * math.sin(x / 8) * math.cos(y / 6) + self._rng.normal()
        self._range.publish(write_range(RawPing(stamp, distance, 1.0, 1000.0)))


@pytest.fixture
def pair(ros, eventually):
    """`pair(planner=True, **parameters)`: a mapper and a vehicle that have found each other."""

    def make(planner=True, **changed):
        mapper = ros(MapperNode, parameters=SMALL | changed)
        vehicle = ros(Vehicle, planner=planner)
        eventually(vehicle.connected, what="no discovery")
        eventually(lambda: vehicle.heard["map/samples"], what="no samples topic")
        session, front_end = mapper.session, mapper.session.front_end
        return SimpleNamespace(mapper=mapper, vehicle=vehicle, session=session, front_end=front_end)

    return make


def settled(p, received):
    """Whether this many pings arrived, and all are accepted or refused."""
    ledger = p.front_end.ledger
    return ledger.received == received == ledger.accepted + ledger.rejected.total()


def learned(p):
    """Number of pings in the model."""
    return p.session.status.samples


def test_every_refused_ping_has_a_reason(pair, eventually):
    p = pair(**{"sonar.offset": [0.0, 0.0, -0.5]})
    v = p.vehicle
    v.listen(PointCloud2, "pings/refused", LATCHED, read_refused)
    v.listen(MarkerArray, "pings/refused_markers", LATCHED)
    v.t = 100 * SECOND
    v.drive(10)
    for fault in (math.nan, math.inf, math.inf, -math.inf, 0.5, 5000.0):
        v.ping(v.t - SECOND // 20, fault)
    v.ping(SECOND)  # long before the first odometry
    eventually(lambda: settled(p, 17))
    assert p.front_end.ledger.rejected == {
        "nan": 1, "no_return": 2, "too_close": 2, "out_of_range": 1, "other_clock": 1,
    }  # fmt: skip
    eventually(lambda: v.heard["map/samples"][-1].data == 10)
    eventually(lambda: v.says(received="17"))
    eventually(lambda: v.heard["pings/refused"] and len(v.heard["pings/refused"][-1]) == 6)
    refused = v.heard["pings/refused"]
    found = refused[-1]
    assert sorted(found.reason) == sorted([*["too_close", "no_return"] * 2, "nan", "out_of_range"])
    x, y, _ = v.place(v.t - SECOND // 20)
    np.testing.assert_allclose(found.xyz[:, :2], [(x, y)] * 6, atol=0.05)
    assert (found.xyz[:, 2] == 99.5).all(), "without an elevation they are at the sonar's"
    eventually(lambda: v.heard["pings/refused_markers"])
    drawn = {m.ns: len(m.points) for m in v.heard["pings/refused_markers"][-1].markers if m.ns}
    assert drawn == {"too_close": 2, "no_return": 2, "nan": 1, "out_of_range": 1}
    statuses = len(v.heard["status"])
    eventually(lambda: len(v.heard["status"]) >= statuses + 3)
    assert len(v.heard["pings/refused"]) == len(refused), "said again although nothing is new"
    status = v.heard["status"][-1]
    assert (status["rejected"], status["rejected nan"], status["accepted"]) == ("7", "1", "10")
    assert {"lost odom", "lost sonar/range", "pending", "backlog", "errors"} <= status.keys()


def test_pings_are_placed_by_parameters_that_may_change(pair, eventually):
    p = pair(**{"sonar.time_offset": -0.5, "sonar.offset": [1.0, 0.0, -2.0]})
    v = p.vehicle
    v.drive(30)
    eventually(lambda: settled(p, 30))
    assert p.front_end.ledger.rejected == {"no_odometry": 5}  # measured before the first odometry
    samples = p.session.all_samples()
    stamps = [SECOND + SECOND // 20 + i * SECOND // 10 - SECOND // 2 for i in range(5, 30)]
    truth = [np.add(v.place(stamp), (1.0, 0.0, 0.0))[:2] for stamp in stamps]
    # Between two messages 0.1 s apart the curve leaves its chord by millimetres.
    np.testing.assert_allclose(samples.xy, truth, atol=0.05)
    assert samples.stamp_ns.tolist() == stamps
    new = {"sonar.time_offset": 0, "batch.size": 7, "pilot_samples": 9}
    changed = p.mapper.set_parameters([Parameter(n, value=value) for n, value in new.items()])
    assert all(result.successful for result in changed)
    assert p.front_end.settings.range_time_offset == 0.0
    assert (p.session.sample_queue.policy.batch_size, p.session.pilot.samples) == (7, 9)


def test_mission_from_pilot_to_done(pair, eventually, tmp_path, ros):
    p = pair(output=str(tmp_path / "run"))
    v = p.vehicle
    v.say("pilot")
    eventually(lambda: p.session.pilot.state == "pilot")
    v.drive(80)  # more than pilot_samples: with a planner there, its word counts
    eventually(lambda: settled(p, 80))
    v.say("exploring")
    eventually(lambda: v.heard["map/points"], what="no map after the pilot")
    assert learned(p) == 80
    v.drive(32)
    eventually(lambda: settled(p, 112))
    v.say("done")
    eventually(v.finished, what="no results")
    v.drive(3)
    eventually(lambda: p.front_end.ledger.rejected["after_mission"] >= 3)
    assert learned(p) == p.front_end.ledger.accepted
    eventually(lambda: v.heard["map/samples"][-1].data == learned(p))

    # Who comes late gets the last map, and it is the file's on every cell.
    late = ros(Vehicle, planner=False)
    eventually(lambda: all(late.heard[topic] for topic in TOPICS), what="maps are not latched")
    cloud = late.heard["map/points"][-1]
    got, kept = read_map_cloud(cloud), read_map(tmp_path / "run" / "map.npz")
    assert (cloud.height, cloud.width) == (12, 12)
    for layer in ("mean", "variance", "lengthscale"):
        np.testing.assert_array_equal(getattr(got, layer), getattr(kept, layer).astype(np.float32))
    z = read_table(tmp_path / "run" / "samples.csv")["z"]
    assert kept.samples == len(z) == p.front_end.ledger.accepted and kept.stamp_ns == got.stamp_ns
    report = v.heard["map/report"][-1]
    assert (report.stamp_ns, report.samples) == (got.stamp_ns, kept.samples)
    # In full precision, not as people are shown it.
    shown = pytest.approx((z.mean(), z.var()), rel=1e-4)  # of what is written to the mm
    assert (report.target_mean, report.target_variance) == shown
    eventually(lambda: v.says(finished="true", samples=str(kept.samples)))
    status = v.heard["status"][-1]
    mean = np.array(late.heard["map/mean"][-1].data).reshape(12, 12)
    low, high = float(status["map/mean at 0"]), float(status["map/mean at 100"])
    np.testing.assert_allclose(low + mean * (high - low) / 100, kept.mean, atol=(high - low) / 150)
    assert len(late.heard["map/inducing_points"][-1].markers[0].points) == len(kept.support) > 0
    told = {"update_s", "training_s", "predict_s", "map_age_s", "noise_std", "support", "jitter"}
    assert told <= status.keys()


def test_without_a_planner_it_starts_automatically_and_can_be_reset(pair, eventually):
    p = pair(planner=False)
    v = p.vehicle
    for layer in ("mean", "variance", "lengthscale"):  # unknown before the first map
        grid = eventually(lambda layer=layer: v.heard[f"map/{layer}"])[-1]
        assert set(grid.data) == {-1} and (grid.info.width, grid.info.height) == (12, 12)
        assert (grid.info.origin.position.x, grid.info.resolution) == (-30.0, 5.0)
    assert eventually(lambda: v.heard["map/samples"])[-1].data == 0
    assert not v.heard["map/points"]
    v.drive(59)
    eventually(lambda: settled(p, 59))
    assert p.session.status.updates == 0
    v.drive(1)
    eventually(lambda: v.heard["map/points"], what="no map at pilot_samples")
    eventually(lambda: v.heard["map/mean"] and max(v.heard["map/mean"][-1].data) == 100)

    assert v.reset.wait_for_service(LIMIT)
    assert v.reset.call(Trigger.Request()).success
    eventually(lambda: set(v.heard["map/mean"][-1].data) == {-1}, what="the old picture stays")
    eventually(lambda: v.heard["map/samples"][-1].data == 0)
    assert learned(p) == 0
    maps = len(v.heard["map/points"])
    v.drive(60)
    eventually(lambda: len(v.heard["map/points"]) > maps, what="no map after the reset")
    assert learned(p) == 60


@pytest.fixture
def fickle(monkeypatch):
    """A model called fickle, which waits for ``go`` and raises ``failures``, one an update."""
    state = SimpleNamespace(go=threading.Event(), failures=[], busy=threading.Event())
    state.go.set()

    class Fickle(Toy):
        def update(self, new, enough=None):
            state.busy.set()
            assert state.go.wait(LIMIT)
            if state.failures:
                raise state.failures.pop(0)
            return super().update(new, enough)

    monkeypatch.setitem(MODELS, "fickle", ModelEntry(Fickle, ToyOptions))
    yield state
    state.go.set()


def test_callbacks_and_diagnostics_do_not_wait_for_the_model(pair, eventually, fickle):
    p = pair(method="fickle")
    v = p.vehicle
    v.say("exploring")
    fickle.go.clear()
    v.drive(30)
    assert fickle.busy.wait(LIMIT)
    v.drive(90)
    eventually(lambda: settled(p, 120), what="callbacks wait for the model")
    eventually(lambda: v.says(accepted="120"), what="diagnostics starve")
    fickle.go.set()
    eventually(lambda: learned(p) == 120)
    assert p.session.status.updates <= 3


def test_a_failure_is_reported_until_it_is_over_and_loses_nothing(pair, eventually, fickle, capfd):
    p = pair(method="fickle")
    v = p.vehicle
    p.mapper.warnings.add("odd", "a warning before the error")
    fickle.failures[:] = [CholeskyError("Kuu is not positive definite")]
    v.say("exploring")
    v.drive(30)
    wanted = {"level": b"\x02", "errors CholeskyError": "1"}
    eventually(lambda: v.says(**wanted), what="no ERROR")
    said = capfd.readouterr().err
    assert "is not positive definite" in said and "cannot be reported" not in said
    v.drive(20)
    eventually(lambda: settled(p, 50))
    v.say("done")
    eventually(lambda: learned(p) == 50)
    eventually(lambda: v.says(level=b"\x00"), what="ERROR stays")
    # A model without lengthscale and support is published as well.
    got = read_map_cloud(v.heard["map/points"][-1])
    assert np.isfinite(got.mean).all() and np.isnan(got.lengthscale).all()
    eventually(lambda: max(v.heard["map/mean"][-1].data) == 100)
    assert set(v.heard["map/lengthscale"][-1].data) == {-1}
    (support,) = v.heard["map/inducing_points"][-1].markers
    assert support.action == support.DELETE and not support.points


def test_mount_and_noise_are_taken_from_the_messages(pair, eventually):
    p = pair(**{"sonar.base_frame": "base_link", "noise.enabled": True, "noise.slope": 0.5})
    v, tree = p.vehicle, {}
    v.drive(4)
    eventually(lambda: p.front_end.ledger.rejected["no_mount"] == 4)
    # tf2 is not here: what it would find is put in its place.
    p.mapper._inputs.frames.look_up = lambda target, source: tree[target, source]
    tree["base_link", "sonar_link"] = found = TransformStamped()
    mount = found.transform
    mount.translation.z = -2.0
    mount.rotation.y = mount.rotation.w = math.sqrt(0.5)
    p.mapper._inputs.frames._polled.clear()  # else it would be asked for once a second
    v.locate()
    state = VehicleState(v.t + SECOND // 10, (1.0, 2.0, DEPTH), variance=(4.0, 4.0, 3.0))
    v._odom.publish(write_odometry(state))
    v._range.publish(write_range(RawPing(state.stamp_ns, 50.0, 1.0, 100.0), field_of_view=0.0))
    eventually(lambda: p.front_end.ledger.accepted == 1)
    samples = p.session.all_samples()
    np.testing.assert_allclose(samples.xy, [[1.0, 2.0]], atol=1e-9)
    np.testing.assert_allclose(samples.z, [DEPTH - 2 - 50])
    np.testing.assert_allclose(samples.noise_std, [2.0])  # of z 3, of the place 0.25 * 4


def test_a_node_that_is_ended_early_writes_partial_results(ros, pair, eventually, tmp_path):
    p = pair(output=str(tmp_path / "run"))
    p.vehicle.say("pilot")
    p.vehicle.drive(70)
    eventually(lambda: settled(p, 70))
    p.vehicle.say("exploring")
    eventually(lambda: p.vehicle.heard["map/points"])
    p.vehicle.drive(9)  # fewer than a batch
    eventually(lambda: p.front_end.ledger.accepted == 79)
    ros.end(p.mapper)
    kept = read_map(tmp_path / "run" / "map.npz")
    samples = read_table(tmp_path / "run" / "samples.csv")
    assert kept.samples == len(samples["z"]) == 79  # those that waited, too
    assert p.front_end.ledger.accepted == 79
    cloud = read_map_cloud(p.vehicle.heard["map/points"][-1])  # of the first 70
    assert cloud.mean.shape == kept.mean.shape and np.isfinite(kept.mean).all()


def test_a_pause_ends_when_its_planner_dies(ros, eventually):
    mapper = ros(MapperNode, parameters=SMALL)
    vehicle = ros(Vehicle, planner=False)
    planner = ros(lambda: Node("dying_planner"))
    states = planner.create_publisher(String, "mission/state", LATCHED)
    eventually(vehicle.connected)
    states.publish(String(data="paused"))
    eventually(lambda: mapper.session.front_end.closed == "paused")
    vehicle.drive(5)
    eventually(lambda: mapper.session.ledger.rejected["paused"] == 5)
    planner.destroy_publisher(states)
    eventually(lambda: mapper.session.front_end.closed is None)
    assert mapper.warnings.counts["states_gone"] == 1
    vehicle.drive(5)
    eventually(lambda: mapper.session.samples == 5)


def test_a_mapper_that_has_not_looked_yet_says_that_it_maps_no_ping(ros, eventually, monkeypatch):
    """Else a mission could begin in its first second, and every ping be refused."""
    monkeypatch.setattr(MapperNode, "_on_timer", lambda self: None)
    ears = ros(lambda: Listener("ears"))
    ears.listen(String, "pings/fault", LATCHED, lambda message: message.data)
    ros(MapperNode, parameters=SMALL)
    eventually(lambda: ears.heard["pings/fault"] == ["no_ping"])


def test_messages_that_the_middleware_has_lost_are_reported(pair, eventually, monkeypatch):
    made = []
    monkeypatch.setattr(
        "poam_ros.ros.node.SubscriptionEventCallbacks",
        lambda **given: made.append(given["message_lost"]) or SubscriptionEventCallbacks(**given),
    )
    p = pair()
    status = partial(p.vehicle.heard.__getitem__, "status")
    for report, topic in zip(made, ("odom", "sonar/range"), strict=True):
        p.mapper.in_turn(report, SimpleNamespace(total_count_change=3))
        eventually(lambda name=topic: status() and int(status()[-1][f"lost {name}"]) == 3)
    assert p.mapper.lost.total() == 6


def test_a_line_of_double_echoes_is_withdrawn_from_the_map_and_reported(ros, eventually, tmp_path):
    values = {**kept.SMALL, "screening.enabled": True, "mission_dir": str(tmp_path / "m")}
    mapper = ros(MapperNode, parameters=values)
    vehicle = ros(Surveyor)
    eventually(vehicle.connected, what="no discovery")
    vehicle.say("pilot")
    vehicle.drive(int(np.flatnonzero(Crossed.LINES == 3)[0]))
    vehicle.say("exploring")
    eventually(lambda: vehicle.mapped, what="no map of the pilot survey")
    vehicle.drive(len(Crossed.PLACES) - vehicle.sent)
    vehicle.say("done")
    eventually(lambda: vehicle.reports[-1].finished, what="no results")
    withdrawn, false = mapper.session.withdrawn, int((Crossed.LINES == Crossed.FALSE).sum())
    assert 0.9 * false < len(withdrawn) <= false  # the transport may lose pings
    at = (withdrawn.stamp_ns * 10 // SECOND).astype(int)
    assert set(Crossed.LINES[at]) == {Crossed.FALSE}
    eventually(lambda: vehicle.status.get("withdrawn") == str(len(withdrawn)))
    vehicle.listen(PointCloud2, "pings/refused", LATCHED, read_refused)  # as poam view

    def marked():
        heard = vehicle.heard["pings/refused"]
        return heard and (heard[-1].reason == "withdrawn").sum()

    eventually(lambda: marked() == len(withdrawn))
    accepted = mapper.session.ledger.accepted
    assert vehicle.mapped == accepted - len(withdrawn)
    assert len(read_table(tmp_path / "m" / "samples.csv")["x"]) == vehicle.mapped
    assert read_unmapped(tmp_path / "m").refused.counts["withdrawn"] == len(withdrawn)
    line = f"double echoes, {len(withdrawn)} pings withdrawn"
    eventually(lambda: vehicle.status.get("withdrawn line 1", "").endswith(line))
    said = vehicle.status["withdrawn line 1"]
    ros.end(mapper)
    vehicle.status = {}
    again = ros(MapperNode, parameters=values)
    eventually(lambda: vehicle.status.get("withdrawn line 1") == said, what="not after a restart")
    assert "withdrawn line 2" not in vehicle.status
    reinstated = JournalStep(REINSTATE, *withdrawn.number[[0, 9]].tolist())
    again.session._updater.change([(reinstated, withdrawn[:10])])
    eventually(lambda: marked() == len(withdrawn) - 10)
