"""Transforms odometry into the map's frame and looks up sonar mounts, by tf2 if installed."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.time import Time

from ...core.clock import SECOND
from ...core.errors import shown
from ...frontend.odometry import VehicleState, multiply, rotate
from ...frontend.placing import SonarMount
from ...frontend.ranges import MAX_FRAMES
from ...importers.messages import stamp_to_ns

MAX_AGE_S = 10.0  # of a transform that is not static, at the time of the odometry
MOUNT_PERIOD_S = 1.0  # wall time between two look-ups of a sonar mount
MIN_DOWNWARD = 0.5  # minimum downward component of a beam in the vehicle's frame


class FrameTransformer:
    """Transforms states into one frame.

    tf2's buffer and listener are created when the first state in another frame arrives. The latest
    transform is used: the one from `odom` to `map` is a slow correction, and waiting for the exact
    time would delay every ping. One whose publisher has ended is not used for long.

    Attributes:
        fault, reason: why the last state could not be transformed: a name, and a text.
    """

    def __init__(self, node: Node, frame_id: str) -> None:
        self._node = node
        self._frame_id = frame_id
        self._buffer: Any = None
        self._listener: Any = None
        self._tf2: Any = None
        self._missing = False
        self._latest_ns = 0
        self.fault = self.reason = ""

    def close(self) -> None:
        """Stop listening, until another state in another frame arrives."""
        if self._listener is not None:
            self._listener.unregister()
        self._buffer = self._listener = None

    def into_map(self, state: VehicleState) -> VehicleState | None:
        """The state in the map's frame; None, with ``fault`` and ``reason``, if impossible."""
        if state.frame_id == self._frame_id:
            return state
        if moves_with_vehicle(state.frame_id, state.child_frame_id):
            # tf2 would treat the frame as fixed, and add the vehicle's position twice.
            self.fault, frame_id = "body_frame", shown(state.frame_id)
            self.reason = f"odometry is in frame '{frame_id}', which moves with the vehicle"
            return None
        self.fault = "wrong_frame"
        if not self._listens():
            self.reason = (
                f"odometry is in frame '{shown(state.frame_id)}', the map in '{self._frame_id}', "
                "and tf2_ros is not installed: set frame_id to the odometry's frame"
            )
            return None
        if state.stamp_ns < self._latest_ns - SECOND:
            # Time was set back. tf2 would keep its transforms as the newest; it only notices jumps
            # of the system clock. Static transforms stay.
            self._buffer.clear()
        self._latest_ns = state.stamp_ns
        found = self.look_up(self._frame_id, state.frame_id)
        if found is None:
            self.reason += "; or set frame_id to the odometry's frame"
            return None
        since_s = (state.stamp_ns - stamp_to_ns(found.header.stamp)) / SECOND
        if since_s > MAX_AGE_S and stamp_to_ns(found.header.stamp):  # 0: all of it is static
            self.fault, source = "stale_transform", shown(state.frame_id)
            self.reason = (
                f"the transform from '{source}' to '{self._frame_id}' is {since_s:.0f} s old: is "
                "its publisher still running?"
            )
            return None
        return transformed(state, found.transform, self._frame_id)

    def look_up(self, target: str, source: str) -> Any:
        """The latest stamped transform between frames; None, with ``reason``, without one."""
        if not self._listens():
            self.reason = "tf2_ros is not installed"
            return None
        try:
            return self._buffer.lookup_transform(target, source, Time())
        except self._tf2.TransformException as error:
            text = shown(str(error), 160)
            self.reason = f"no transform from '{shown(source)}' to '{shown(target)}': {text}"
            return None

    def _listens(self) -> bool:
        if self._buffer is None and not self._missing:
            try:
                self._tf2 = importlib.import_module("tf2_ros")
            except ImportError:
                self._missing = True
                return False
            self._buffer = self._tf2.Buffer()
            self._listener = self._tf2.TransformListener(self._buffer, self._node)
        return not self._missing


class MountLookup:
    """Looks up in tf2 how sonars are mounted on the vehicle.

    Args:
        frames: access to tf2.
        base: frame of the vehicle; empty: no look-up.
        warn: called with a name and a text for each ping whose sonar mount is unknown.
    """

    def __init__(
        self, frames: FrameTransformer, base: str, warn: Callable[[str, str], object]
    ) -> None:
        self._frames, self._base, self._warn = frames, base, warn
        self._known: dict[str, SonarMount | None] = {}
        self._polled: dict[str, float] = {}

    def changed_mount(self, frame_id: str, now_s: float) -> SonarMount | None:
        """The mount of the sonar with this frame if it is new or changed, else None."""
        if not self._base or now_s - self._polled.get(frame_id, -math.inf) < MOUNT_PERIOD_S:
            return None
        if len(self._polled) >= MAX_FRAMES and frame_id not in self._polled:
            self._warn("no_mount", f"more than {MAX_FRAMES} sonars: '{shown(frame_id)}' is ignored")
            return None
        self._polled[frame_id] = now_s
        transform = self._frames.look_up(self._base, frame_id)
        if transform is None:
            self._warn("no_mount", self._frames.reason)
            return None
        mount = mounted(frame_id, transform.transform)
        if mount is None or mount.beam[2] > -MIN_DOWNWARD:
            text = f"the x axis of '{shown(frame_id)}', its beam, does not point down"
            self._warn("no_mount", f"{text} in '{self._base}'")
            return None
        if mount == self._known.get(frame_id):
            return None
        self._known[frame_id] = mount
        return mount


def moves_with_vehicle(frame_id: str, child_frame_id: str) -> bool:
    """Whether the frame moves with the vehicle: it is the child frame, or its name says so
    (REP-105: `base_link`; sensors: `..._link`)."""
    name = frame_id.rpartition("/")[2]
    own = frame_id != "" and frame_id == child_frame_id
    return own or name.endswith("_link") or name == "base_footprint"


def mounted(frame_id: str, transform: Any) -> SonarMount | None:
    """The sonar mount for a geometry_msgs/Transform from the sonar's to the vehicle's frame; None
    if that is not finite or has no rotation. The beam is the x axis of the sonar's frame."""
    r, t = transform.rotation, transform.translation
    norm = math.hypot(r.x, r.y, r.z, r.w)
    if not (0 < norm < math.inf and math.isfinite(t.x + t.y + t.z)):
        return None
    turn = (r.x / norm, r.y / norm, r.z / norm, r.w / norm)
    x, y, z = rotate(turn, np.array((1.0, 0.0, 0.0))).tolist()
    return SonarMount(frame_id, (t.x, t.y, t.z), (x, y, z))


def transformed(state: VehicleState, transform: Any, frame_id: str) -> VehicleState:
    """The state under a geometry_msgs/Transform; NaN if its rotation is invalid."""
    r, t = transform.rotation, transform.translation
    norm = math.hypot(r.x, r.y, r.z, r.w) or math.nan
    turn = (r.x / norm, r.y / norm, r.z / norm, r.w / norm)
    x, y, z = rotate(turn, np.array(state.position)) + (t.x, t.y, t.z)
    place, attitude = (float(x), float(y), float(z)), multiply(turn, state.quaternion)
    # Variances stay: only the mean of x and y is used, which a turn does not change.
    return replace(state, position=place, quaternion=attitude, frame_id=frame_id)
