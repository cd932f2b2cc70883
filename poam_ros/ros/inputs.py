"""What mapper and planner get from drivers: odometry, transforms, ranges, water level."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.time import Time
from sensor_msgs.msg import Range
from std_msgs.msg import Float64

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.settings import instance
from ..frontend.odometry import (
    VehicleState,
    bare_frame,
    multiply,
    read_odometry,
    rotate,
    stamp_to_ns,
)
from ..frontend.pings import MAX_FRAMES, RawPing, SonarMount, read_range
from .node import LATCHED, SENSOR_READ, BaseNode
from .parameters import RangeSettings

DOUBLE_S = 0.5  # the same water level comes twice from a latched publisher within this time
MAX_AGE_S = 10.0  # of a transform that is not static, at the time of the odometry
MOUNT_PERIOD_S = 1.0  # wall time between two look-ups of a sonar mount
MIN_DOWNWARD = 0.5  # minimum downward component of a beam in the vehicle's frame
Stamped = TypeVar("Stamped", RawPing, VehicleState)


class Inputs:
    """Subscribes to a node's sensors. What messages lack is filled in where possible, and said.

    Args:
        node: with the parameter ``frame_id`` and those of ``RangeSettings``.
        on_odometry: called with the state in the map's frame, or None if that is impossible
            (``frames`` says why), and the message.
        on_ping: called with each ping.
        on_level: called with each new water level, in m.
        afterwards: called once after all messages of a wake-up.

    Attributes:
        frames: access to tf2.

    Raises:
        InputError: the ranges' message type is not installed, or it has no such field.
    """

    def __init__(
        self,
        node: BaseNode,
        on_odometry: Callable[[VehicleState | None, Odometry], None],
        on_ping: Callable[[RawPing], None],
        on_level: Callable[[float], None],
        afterwards: Callable[[], None] = lambda: None,
    ) -> None:
        self._node, self._on_level = node, on_level
        self._level: tuple[float, float] | None = None  # the last one, and when it came
        self._unstamped = set[str]()  # what has come without stamps
        base = getattr(node.values, "sonar.base_frame", "")
        self.frames = FrameTransformer(node, node.values.frame_id, base, node.warnings.add)
        ranges = RangeReader(instance(RangeSettings, vars(node.values)))

        def odometry(message: Odometry) -> None:
            state = self._stamped(read_odometry(message), "odometry")
            on_odometry(self.frames.into_map(state), message)

        def ping(message: Any) -> None:
            on_ping(self._stamped(ranges.read(message), "pings"))

        node.listen(Odometry, "odom", odometry, afterwards)
        node.listen(ranges.kind, "sonar/range", ping, afterwards)
        # Twice: a transient local subscription alone would not hear a volatile publisher, and a
        # volatile one not what was latched before.
        for how in (SENSOR_READ, LATCHED):
            node.create_subscription(Float64, "water_level", self._take_level, how)

    def _take_level(self, message: Float64) -> None:
        now = self._node.moment.steady_s
        known, self._level = self._level, (message.data, now)
        if known is None or known[0] != message.data or now - known[1] > DOUBLE_S:
            self._on_level(message.data)

    def _stamped(self, value: Stamped, what: str) -> Stamped:
        if value.stamp_ns or self._node.now_ns < SECOND:  # a simulation begins at 0
            return value
        if what not in self._unstamped:
            self._unstamped.add(what)
            text = f"no stamps on {what}: the time of arrival counts"
            self._node.get_logger().warning(text)
        return replace(value, stamp_ns=self._node.now_ns)


class RangeReader:
    """Reads pings from messages of any type with a numeric field.

    Args:
        settings: type and fields.

    Attributes:
        kind: the messages' class.

    Raises:
        InputError: the type is not installed, or it has no such field.
    """

    def __init__(self, settings: RangeSettings) -> None:
        self._settings, self.kind = settings, message_type(settings.range_type)
        # The names and indices in fields such as `beams[0].range`.
        names = settings.range_field, settings.range_valid_field
        self._range, self._valid = (re.findall(r"\w+", name) for name in names)
        fields = self.kind.get_fields_and_field_types()
        if not self._range and self.kind is not Range:
            raise InputError(
                f"parameter range_field: expected the field of {settings.range_type} that holds "
                f"the range, one of {', '.join(fields)}"
            )
        for name, path in (("range_field", self._range), ("range_valid_field", self._valid)):
            if path and path[0] not in fields:
                raise InputError(
                    f"parameter {name}: {settings.range_type} has no field '{path[0]}', only "
                    f"{', '.join(fields)}"
                )

    def read(self, message: Any) -> RawPing:
        """The ping of a message; its range is NaN if it is not good."""
        ping = read_range(message) if self.kind is Range else RawPing(0, math.nan, 0.0, 0.0)
        if header := getattr(message, "header", None):
            frame_id = bare_frame(header.frame_id)
            ping = replace(ping, stamp_ns=stamp_to_ns(header.stamp), frame_id=frame_id)
        if self._range:
            distance = self._settings.range_scale * number_in(message, self._range)
            ping = replace(ping, range=distance)
        if self._valid and not number_in(message, self._valid) >= self._settings.range_valid_min:
            ping = replace(ping, range=math.nan)
        return ping


def message_type(name: str) -> Any:
    """The class of a message type, as in `std_msgs/msg/Float32`.

    Raises:
        InputError: it is not installed.
    """
    package, _, kind = name.replace("/msg/", "/").partition("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), kind)
    except (ImportError, AttributeError, ValueError):
        raise InputError(
            "parameter range_type: expected an installed message type, as in "
            f"std_msgs/msg/Float32, got '{shown(name)}'"
        ) from None


def number_in(message: Any, path: list[str]) -> float:
    """The number at a path of names and indices in a message; NaN if there is none."""
    try:
        for name in path:
            message = message[int(name)] if name.isdigit() else getattr(message, name)
        return float(message)
    except (AttributeError, IndexError, TypeError, ValueError):
        return math.nan


class FrameTransformer:
    """Transforms states into one frame, and says how sonars are mounted, by tf2 if that is
    installed.

    It listens from the first state in another frame on. The latest transform is used: the one from
    `odom` to `map` is a slow correction, and waiting for the exact time would delay every ping. One
    whose publisher has ended is not used for long.

    Args:
        node: that listens.
        frame_id: of the map.
        base: frame of the vehicle, in which sonars are looked up; empty: none is.
        warn: called with a name and a text for each ping whose sonar mount is unknown.

    Attributes:
        fault, reason: why the last state could not be transformed: a name, and a text.
    """

    def __init__(
        self, node: Node, frame_id: str, base: str = "", warn: Callable[[str, str], object] = print
    ) -> None:
        self._node, self._frame_id, self._base, self._warn = node, frame_id, base, warn
        self._latest_ns = 0
        self._known: dict[str, SonarMount | None] = {}
        self._polled: dict[str, float] = {}
        self.fault = self.reason = ""

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
        if self._tf2 is not None and state.stamp_ns < self._latest_ns - SECOND:
            # Time was set back. tf2 would keep its transforms as the newest; it only notices jumps
            # of the system clock. Static transforms stay.
            self._buffer.clear()
        self._latest_ns = state.stamp_ns
        found = self.look_up(self._frame_id, state.frame_id)
        if found is None:
            self.reason = (
                f"odometry is in another frame than the map: {self.reason}; publish the transform, "
                "or set frame_id to the odometry's frame"
            )
            return None
        sent_ns = stamp_to_ns(found.header.stamp)
        since_s = (state.stamp_ns - sent_ns) / SECOND
        if since_s > MAX_AGE_S and sent_ns:  # 0: all of it is static
            self.fault, source = "stale_transform", shown(state.frame_id)
            self.reason = (
                f"the transform from '{source}' to '{self._frame_id}' is {since_s:.0f} s old: is "
                "its publisher still running?"
            )
            return None
        return transformed(state, found.transform, self._frame_id)

    def look_up(self, target: str, source: str) -> Any:
        """The latest stamped transform between frames; None, with ``reason``, without one."""
        missing = "tf2_ros is not installed"
        if self._tf2 is not None:
            try:
                return self._buffer.lookup_transform(target, source, Time())
            except self._tf2.TransformException as error:
                missing = shown(str(error), 160)
        self.reason = f"no transform from '{shown(source)}' to '{shown(target)}': {missing}"
        return None

    def changed_mount(self, frame_id: str, now_s: float) -> SonarMount | None:
        """The mount of the sonar with this frame if it is new or changed, else None."""
        if not self._base or now_s - self._polled.get(frame_id, -math.inf) < MOUNT_PERIOD_S:
            return None
        if len(self._polled) >= MAX_FRAMES and frame_id not in self._polled:
            self._warn("no_mount", f"more than {MAX_FRAMES} sonars: '{shown(frame_id)}' is ignored")
            return None
        self._polled[frame_id] = now_s
        transform = self.look_up(self._base, frame_id)
        if transform is None:
            self._warn("no_mount", self.reason)
            return None
        mount = mounted(frame_id, transform.transform)
        if not (math.isfinite(sum(mount.offset)) and mount.beam[2] <= -MIN_DOWNWARD):
            text = f"the x axis of '{shown(frame_id)}', its beam, does not point down"
            self._warn("no_mount", f"{text} in '{self._base}'")
            return None
        if mount == self._known.get(frame_id):
            return None
        self._known[frame_id] = mount
        return mount

    @cached_property
    def _tf2(self) -> Any:
        """The package, with a buffer that listens from now on; None if it is not installed."""
        try:
            tf2 = importlib.import_module("tf2_ros")
        except ImportError:
            return None
        self._buffer = tf2.Buffer()
        self._listener = tf2.TransformListener(self._buffer, self._node)
        return tf2


def moves_with_vehicle(frame_id: str, child_frame_id: str) -> bool:
    """Whether the frame moves with the vehicle: it is the child frame, or its name says so
    (REP-105: `base_link`; sensors: `..._link`)."""
    name = frame_id.rpartition("/")[2]
    own = frame_id != "" and frame_id == child_frame_id
    return own or name.endswith("_link") or name == "base_footprint"


def mounted(frame_id: str, transform: Any) -> SonarMount:
    """The sonar mount for a geometry_msgs/Transform from the sonar's to the vehicle's frame; NaN
    where that has no rotation. The beam is the x axis of the sonar's frame."""
    turn, place = _rotation_and_translation(transform)
    x, y, z = rotate(turn, np.array((1.0, 0.0, 0.0))).tolist()
    return SonarMount(frame_id, place, (x, y, z))


def transformed(state: VehicleState, transform: Any, frame_id: str) -> VehicleState:
    """The state under a geometry_msgs/Transform; NaN if its rotation is invalid."""
    turn, place = _rotation_and_translation(transform)
    x, y, z = (rotate(turn, np.array(state.position)) + place).tolist()
    # Variances stay: only the mean of x and y is used, which a turn does not change.
    attitude = multiply(turn, state.quaternion)
    return replace(state, position=(x, y, z), quaternion=attitude, frame_id=frame_id)


def _rotation_and_translation(
    transform: Any,
) -> tuple[tuple[float, float, float, float], tuple[float, float, float]]:
    r, t = transform.rotation, transform.translation
    norm = math.hypot(r.x, r.y, r.z, r.w) or math.nan
    return (r.x / norm, r.y / norm, r.z / norm, r.w / norm), (t.x, t.y, t.z)
