"""Odometry from another frame and transforms of one's own, with a stand-in for tf2.

No wheel brings tf2_ros. The stand-in has the signatures, the types of errors and the topics of
tf2_ros_py 0.36.4 (ros2/geometry2, branch jazzy; rolling has two more arguments of the listener).
The last test is with tf2 itself, where that is installed.
"""

import math
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import Transform, TransformStamped
from rclpy.duration import Duration
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.time import Time
from std_msgs.msg import Header

from poam_ros.core.clock import SECOND, Moment
from poam_ros.frontend.front_end import FrontEnd
from poam_ros.frontend.odometry import VehicleState, rotate
from poam_ros.frontend.pings import FrontEndSettings, RawPing
from poam_ros.ros.inputs import FrameTransformer, transformed
from poam_ros.ros.messages import ns_to_stamp, yaw_to_quaternion
from poam_ros.ros.simulator import SimulatorNode

NO_WAIT = Duration()  # the default of tf2


def quarter_turn():
    """Translated by (10, 20, 30) after a quarter turn to the left."""
    transform = Transform()
    transform.translation.x, transform.translation.y, transform.translation.z = 10.0, 20.0, 30.0
    transform.rotation.z = transform.rotation.w = 5.0  # of any norm
    return transform


@pytest.fixture
def state():
    return VehicleState(1, (1.0, 2.0, 3.0), speed=0.5, frame_id="odom")


@pytest.fixture
def tf2(monkeypatch):
    module = ModuleType("tf2_ros")
    module.made, module.tree = [], {}

    class TransformException(Exception):
        pass

    class LookupException(TransformException):
        pass

    class Buffer:
        def __init__(self, cache_time=None, node=None):
            # With a node it would offer a service that nobody takes down.
            assert node is None
            module.made.append("buffer")
            self.cleared = 0

        def clear(self):
            self.cleared += 1

        def lookup_transform(self, target_frame, source_frame, time, timeout=NO_WAIT):
            # A time of 0 asks for the latest; a timeout would sleep in the callback.
            assert isinstance(time, Time) and time.nanoseconds == 0
            assert timeout == NO_WAIT
            known = {("map", "odom"): quarter_turn(), **module.tree}
            if (target_frame, source_frame) not in known:
                raise LookupException(f'"{source_frame}" passed to lookupTransform does not exist')
            header = Header(stamp=ns_to_stamp(module.stamp_ns))
            return SimpleNamespace(header=header, transform=known[target_frame, source_frame])

    class TransformListener:
        def __init__(self, buffer, node, *, spin_thread=False, qos=None, static_qos=None):
            # A thread of its own would spin the node a second time.
            assert isinstance(buffer, Buffer) and not spin_thread
            self.node, self.buffer = node, buffer
            module.made.append(self)

    class TransformBroadcaster:
        topic = "/tf"

        def __init__(self, node, qos=None):
            self.node = node

        def sendTransform(self, transform):
            sent = transform if isinstance(transform, list) else [transform]
            assert all(isinstance(one, TransformStamped) for one in sent)
            module.sent += [(self.topic, one) for one in sent]

    class StaticTransformBroadcaster(TransformBroadcaster):
        topic = "/tf_static"

    module.sent, module.stamp_ns = [], 0  # all transforms are static
    for kind in (TransformException, LookupException, Buffer, TransformListener):
        setattr(module, kind.__name__, kind)
    module.TransformBroadcaster = TransformBroadcaster
    module.StaticTransformBroadcaster = StaticTransformBroadcaster
    monkeypatch.setitem(sys.modules, "tf2_ros", module)
    return module


@pytest.fixture
def frames():
    return FrameTransformer("node", "map")


@pytest.fixture
def said():
    """What mounts report."""
    return []


@pytest.fixture
def mounts(said):
    return FrameTransformer("node", "map", "base_link", lambda *words: said.append(words))


def test_transform_without_a_rotation_fails_the_buffers_check(state):
    empty = Transform()
    empty.rotation.w = 0.0
    assert math.isnan(transformed(state, empty, "map").position[0])


def test_the_listener_is_created_once_when_needed(state, tf2, frames):
    same = VehicleState(1, (0.0, 0.0, 0.0), frame_id="map")
    assert frames.into_map(same) is same
    assert not tf2.made
    moved = frames.into_map(state)
    assert moved.position == pytest.approx((8.0, 21.0, 33.0))
    assert moved.yaw == pytest.approx(math.pi / 2)
    assert (moved.frame_id, moved.stamp_ns, moved.speed) == ("map", 1, 0.5)
    assert frames.into_map(state) is not None
    buffer, listener = tf2.made
    assert (buffer, listener.node) == ("buffer", "node")


def test_earlier_transforms_are_dropped_when_time_is_set_back(state, tf2, frames):
    for stamp_s, cleared in ((100.0, 0), (100.1, 0), (99.5, 0), (7.0, 1), (7.1, 1), (2.0, 2)):
        assert frames.into_map(replace(state, stamp_ns=round(stamp_s * SECOND))) is not None
        assert tf2.made[1].buffer.cleared == cleared


def test_a_transform_whose_publisher_has_ended_is_refused_until_it_is_back(state, tf2, frames):
    """`map -> odom` stayed frozen, and all was mapped with it."""
    tf2.stamp_ns = 100 * SECOND

    def at(seconds):
        return frames.into_map(replace(state, stamp_ns=round(seconds * SECOND)))

    assert at(100.0) is not None and at(109.0) is not None
    assert at(111.0) is None and at(500.0) is None
    assert frames.fault == "stale_transform" and "400 s old" in frames.reason
    tf2.stamp_ns = 500 * SECOND
    assert at(501.0) is not None
    tf2.stamp_ns = 0  # a static one never ends
    assert at(9000.0) is not None


def test_reason_without_tf2(state, monkeypatch, frames):
    monkeypatch.setitem(sys.modules, "tf2_ros", None)  # makes its import fail
    assert frames.into_map(state) is None
    assert frames.reason.startswith("odometry is in another frame")
    assert "tf2_ros is not installed" in frames.reason


@pytest.mark.parametrize(
    ("frame", "child"),
    [
        ("base_link", "base_link"), ("dvl_link", ""), ("auv1/dvl_link", "auv1/base_link"),
        ("base_footprint", "base_link"), ("vehicle", "vehicle"), ("ned", "ned"),
    ],
)  # fmt: skip
def test_odometry_in_a_frame_that_moves_with_the_vehicle_is_refused(tf2, frames, frame, child):
    tf2.tree["map", frame] = quarter_turn()  # tf2 would take it for a fixed one
    state = VehicleState(1, (1.0, 2.0, 3.0), frame_id=frame, child_frame_id=child)
    assert frames.into_map(state) is None and frames.fault == "body_frame"
    assert f"'{frame}', which moves with the vehicle" in frames.reason


@pytest.mark.parametrize(("frame", "child"), [("odom", "base_link"), ("odom", ""), ("map", "map")])
def test_odometry_in_a_fixed_frame_is_accepted(tf2, frame, child):
    state = VehicleState(1, (1.0, 2.0, 3.0), frame_id=frame, child_frame_id=child)
    assert FrameTransformer("node", "map").into_map(state).frame_id == "map"


def test_axes_north_east_down_with_their_transform_and_a_turned_beam(tf2, frames):
    """As docs/connect.md says: north at 1 m/s, 3 m deep, 10 m above the bottom."""
    tf2.tree["map", "world_ned"] = transform = Transform()
    transform.rotation.x = transform.rotation.y = math.sqrt(0.5)
    transform.rotation.w = 0.0  # a roll of half a turn, then a yaw of a quarter
    settings = FrontEndSettings(sonar_tilt=(0.0, math.pi), sonar_offset=(0.5, 0.0, 0.25))
    front_end = FrontEnd(settings)
    for i in range(30):
        now = Moment(0, 0.0)
        north = VehicleState((100 + i) * SECOND // 10, (i / 10, 7.0, 3.0), frame_id="world_ned")
        front_end.odometry(frames.into_map(north), now)
        front_end.ping(RawPing((100 + i) * SECOND // 10, 10.0, 0.3, 99.0), now)
    samples = front_end.take(Moment(0, 0.0))
    assert len(samples) >= 28 and not front_end.ledger.rejected
    np.testing.assert_allclose(samples.xy[:, 0], 7.0, atol=1e-9)
    np.testing.assert_allclose(samples.xy[0], (7.0, 0.5), atol=1e-9)  # 0.5 m ahead: further north
    np.testing.assert_allclose(samples.z, -13.25, atol=1e-9)


@pytest.mark.parametrize("frame", ["utm", "", "ß" * 100_000, "a\nb", "\u202e"])
def test_odd_frames_are_refused_in_a_short_line(tf2, frame, frames):
    assert frames.into_map(VehicleState(1, (0.0, 0.0, 0.0), frame_id=frame)) is None
    assert frames.fault == "wrong_frame"
    assert frames.reason.isprintable() and "\n" not in frames.reason and len(frames.reason) < 400
    if frame == "utm":
        assert "'utm' to 'map'" in frames.reason and "does not exist" in frames.reason


DOWN = (0.0, math.sqrt(0.5), 0.0, math.sqrt(0.5))


def mount_transform(turn=DOWN):
    transform = Transform()
    transform.translation.x, transform.translation.z = 1.5, -0.2
    r = transform.rotation
    r.x, r.y, r.z, r.w = turn
    return transform


def test_only_new_mounts_are_reported(tf2, mounts, said):
    assert mounts.changed_mount("sonar_link", 0.0) is None  # not there yet
    assert said == [("no_mount", said[0][1])] and "'sonar_link' to 'base_link'" in said[0][1]
    tf2.tree["base_link", "sonar_link"] = mount_transform()
    assert mounts.changed_mount("sonar_link", 0.5) is None  # asked a moment ago
    mount = mounts.changed_mount("sonar_link", 1.5)
    assert (mount.frame_id, mount.offset) == ("sonar_link", (1.5, 0.0, -0.2))
    np.testing.assert_allclose(mount.beam, (0, 0, -1), atol=1e-12)
    assert mounts.changed_mount("sonar_link", 3.0) is None  # the same
    tf2.tree["base_link", "sonar_link"].translation.x = 1.6
    assert mounts.changed_mount("sonar_link", 4.5).offset[0] == 1.6
    assert len(said) == 1


# Of the first, the beam is the x axis: it looks ahead.
@pytest.mark.parametrize("turn", [(0.0, 0.0, 0.0, 1.0), (0.0,) * 4, (math.nan, 0.0, 0.0, 1.0)])
def test_a_mount_whose_beam_does_not_point_down_is_refused(tf2, turn, mounts, said):
    tf2.tree["base_link", "sonar_link"] = mount_transform(turn)
    assert mounts.changed_mount("sonar_link", 0.0) is None
    assert "does not point down" in said[0][1]


def test_mounts_need_a_base_frame_and_are_limited_in_number(monkeypatch, mounts, said):
    monkeypatch.setitem(sys.modules, "tf2_ros", None)
    none = FrameTransformer("node", "map", "", lambda *words: said.append(words))
    assert none.changed_mount("sonar_link", 0.0) is None and not said
    for i in range(100):
        assert mounts.changed_mount(f"sonar{i}", 0.0) is None
    assert all(words.endswith("tf2_ros is not installed") for _, words in said[:16])
    assert all("more than 16 sonars" in words for _, words in said[16:]) and len(said) == 100
    assert len(mounts._polled) == 16


def test_the_broadcast_tree_is_that_of_rep_105_with_a_beam_that_points_down(tf2, ros):
    node = SimulatorNode(parameter_overrides=[Parameter("terrain", value="seamounts")])
    node.open()
    assert [(topic, sent.header.frame_id, sent.child_frame_id) for topic, sent in tf2.sent] == [
        ("/tf_static", "map", "odom"),
        ("/tf_static", "base_link", "sonar_link"),
    ]
    turn = tf2.sent[1][1].transform.rotation
    beam = rotate((turn.x, turn.y, turn.z, turn.w), np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(beam, [0, 0, -1], atol=1e-12)
    tf2.sent.clear()
    node.send(step := node.simulation.step())
    ((topic, moving),) = tf2.sent
    assert (topic, moving.header.frame_id, moving.child_frame_id) == ("/tf", "odom", "base_link")
    place, turn = moving.transform.translation, moving.transform.rotation
    assert (place.x, place.y, place.z) == (step.pose.x, step.pose.y, node.simulation.sonar_z)
    assert (turn.x, turn.y, turn.z, turn.w) == pytest.approx(yaw_to_quaternion(step.pose.yaw))
    node.destroy_node()


def test_with_tf2_itself_a_transform_that_ends_is_refused_and_its_return_is_fresh(ros, eventually):
    """Two publishers one after the other, as a restart is."""
    tf2_ros = pytest.importorskip("tf2_ros")
    node, base = ros(Node, node_name="listener"), 1000 * SECOND
    frames = FrameTransformer(node, "map")

    def broadcast(x, seconds):
        def send(sender):
            sent = TransformStamped(child_frame_id="odom")
            sent.header.frame_id, sent.header.stamp = "map", ns_to_stamp(base + seconds * SECOND)
            sent.transform.translation.x = x
            sender.sendTransform(sent)

        sender = ros(Node, node_name=f"at{seconds}")
        out = tf2_ros.TransformBroadcaster(sender)
        return lambda: send(out)

    def x_at(seconds):
        stamp_ns = base + round(seconds * SECOND)
        moved = frames.into_map(VehicleState(stamp_ns, (1.0, 0.0, 0.0), frame_id="odom"))
        return None if moved is None else moved.position[0]

    def known(send, x, seconds):
        eventually(lambda: send() or x_at(seconds) == x)

    assert x_at(0.0) is None and frames.fault == "wrong_frame"
    known(broadcast(10.0, 0), 11.0, 5.0)
    assert x_at(9.0) == 11.0
    assert x_at(20.0) is None and frames.fault == "stale_transform"
    known(broadcast(20.0, 20), 21.0, 20.5)
