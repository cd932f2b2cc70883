"""Odometry from another frame into the map's, by tf2 where it is installed."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
from rclpy.node import Node
from rclpy.time import Time

from ..clock import SECOND
from ..survey.odometry import VehicleState, multiply, rotate
from ..survey.refusals import quoted


class FrameChanger:
    """Brings states into one frame.

    tf2's buffer and listener are made when the first state in another frame comes, and only where
    the package is there. The latest transform is taken: the one between `odom` and `map` is a slow
    correction, and waiting for the exact moment would hold up every ping.
    """

    def __init__(self, node: Node, frame_id: str) -> None:
        self._node = node
        self._frame_id = frame_id
        self._buffer: Any = None
        self._listener: Any = None
        self._tf2: Any = None
        self._missing = False
        self._latest_ns = 0
        self.reason = ""

    def close(self) -> None:
        """Stop listening; what comes later in another frame makes it listen anew."""
        if self._listener is not None:
            self._listener.unregister()
        self._buffer = self._listener = None

    def into_map(self, state: VehicleState) -> VehicleState | None:
        """The state in the map's frame; None, and ``reason`` set, where it cannot be brought."""
        if state.frame_id == self._frame_id:
            return state
        if self._buffer is None and not self._missing:
            self._listen()
        if self._missing:
            self.reason = (
                f"odometry is in frame {quoted(state.frame_id)}, the map in '{self._frame_id}', "
                "and tf2_ros is not installed"
            )
            return None
        if state.stamp_ns < self._latest_ns - SECOND:
            # Time was set back. tf2 takes what it has for newer than all that comes, and learns of
            # a jump of the system's clock only. Transforms that never change stay.
            self._buffer.clear()
        self._latest_ns = state.stamp_ns
        try:
            found = self._buffer.lookup_transform(self._frame_id, state.frame_id, Time())
        except self._tf2.TransformException as error:
            way = f"from {quoted(state.frame_id)} to '{self._frame_id}'"
            self.reason = f"no transform {way}: {str(error)[:200]}"
            return None
        return transformed(state, found.transform, self._frame_id)

    def _listen(self) -> None:
        try:
            self._tf2 = importlib.import_module("tf2_ros")
        except ImportError:
            self._missing = True
            return
        self._buffer = self._tf2.Buffer()
        self._listener = self._tf2.TransformListener(self._buffer, self._node)


def transformed(state: VehicleState, transform: Any, frame_id: str) -> VehicleState:
    """The state under a geometry_msgs/Transform; one without a valid rotation is left to fail."""
    r, t = transform.rotation, transform.translation
    norm = math.hypot(r.x, r.y, r.z, r.w) or math.nan
    turn = (r.x / norm, r.y / norm, r.z / norm, r.w / norm)
    x, y, z = rotate(turn, np.array(state.position)) + (t.x, t.y, t.z)
    place, attitude = (float(x), float(y), float(z)), multiply(turn, state.quaternion)
    return replace(state, position=place, quaternion=attitude, frame_id=frame_id)
