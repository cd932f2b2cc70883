"""Odometry from another frame, with a stand-in for tf2 (which no wheel brings)."""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import Transform

from poam_ros.ros.transforms import FrameChanger, transformed
from poam_ros.survey.odometry import VehicleState


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
    module.made = []

    class Buffer:
        def lookup_transform(self, target, source, time):
            if (target, source) != ("map", "odom"):
                raise LookupError("no such frame")
            return SimpleNamespace(transform=quarter_turn())

    module.Buffer = Buffer
    module.TransformListener = lambda buffer, node: module.made.append(node)
    monkeypatch.setitem(sys.modules, "tf2_ros", module)
    return module


def test_transformed(state):
    moved = transformed(state, quarter_turn(), "map")
    np.testing.assert_allclose(moved.position, (8.0, 21.0, 33.0), atol=1e-12)
    assert moved.yaw == pytest.approx(math.pi / 2)
    assert (moved.frame_id, moved.stamp_ns, moved.speed) == ("map", 1, 0.5)


def test_transform_without_a_rotation_fails_the_buffers_check(state):
    empty = Transform()
    empty.rotation.w = 0.0
    assert math.isnan(transformed(state, empty, "map").position[0])


def test_listener_is_made_once_and_only_when_needed(state, tf2):
    frames = FrameChanger("node", "map")
    same = VehicleState(1, (0.0, 0.0, 0.0), frame_id="map")
    assert frames.into_map(same) is same
    assert not tf2.made
    assert frames.into_map(state).position == pytest.approx((8.0, 21.0, 33.0))
    assert frames.into_map(state) is not None
    assert tf2.made == ["node"]


def test_reason_where_there_is_no_transform(tf2):
    frames = FrameChanger("node", "map")
    assert frames.into_map(VehicleState(1, (0.0, 0.0, 0.0), frame_id="utm")) is None
    assert "'utm' to 'map'" in frames.reason


def test_reason_where_there_is_no_tf2(state, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2_ros", None)  # makes its import fail
    frames = FrameChanger("node", "map")
    assert frames.into_map(state) is None
    assert "tf2_ros is not installed" in frames.reason
