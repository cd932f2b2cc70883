"""The inputs of mapper and planner, as drivers publish them: ranges, odometry, water level."""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from nav_msgs.msg import Odometry
from sensor_msgs.msg import Range
from std_msgs.msg import Float64

from ...core.clock import SECOND
from ...core.errors import InputError, shown
from ...frontend.odometry import VehicleState
from ...frontend.ranges import RawPing
from ...importers.messages import bare_frame, read_odometry, read_range, stamp_to_ns
from . import qos
from .node import BaseNode
from .parameters import RangeSettings

#: The same level comes twice from a latched publisher within this time, in s.
DOUBLE_S = 0.5
Stamped = TypeVar("Stamped", RawPing, VehicleState)


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
        self._settings = settings
        self.kind = message_type(settings.range_type)
        self._range, self._valid = _path(settings.range_field), _path(settings.range_valid_field)
        if not self._range and self.kind is not Range:
            raise InputError(
                f"parameter range_field: expected the field of {settings.range_type} that holds "
                f"the range, one of {', '.join(self.kind.get_fields_and_field_types())}"
            )
        for name, path in (("range_field", self._range), ("range_valid_field", self._valid)):
            fields = self.kind.get_fields_and_field_types()
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
            scale = self._settings.range_scale
            ping = replace(ping, range=scale * _number(message, self._range))
        if self._valid and not _number(message, self._valid) >= self._settings.range_valid_min:
            ping = replace(ping, range=math.nan)
        return ping


class Inputs:
    """Reads a node's messages; what they lack is filled in where possible, and said.

    Args:
        node: with the parameters of ``RangeSettings``.
        settings: of the ranges.
    """

    def __init__(self, node: BaseNode, settings: RangeSettings) -> None:
        self._node, self.ranges = node, RangeReader(settings)
        self._level: tuple[float, float] | None = None  # the last one, and when it came

    def ping(self, message: Any) -> RawPing:
        """The ping of a message."""
        return self._stamped(self.ranges.read(message), "pings")

    def odometry(self, message: Odometry) -> VehicleState:
        """The vehicle's state of a message."""
        return self._stamped(read_odometry(message), "odometry")

    def listen_to_level(self, take: Callable[[float], None]) -> None:
        """Subscribe to `water_level`, also to a latched one that was sent before.

        Two subscriptions: a transient local one alone would not hear a volatile publisher.
        """

        def once(message: Float64) -> None:
            now = self._node.moment.steady_s
            known, self._level = self._level, (message.data, now)
            if known is None or known[0] != message.data or now - known[1] > DOUBLE_S:
                take(message.data)

        for how in (qos.SENSOR_READ, qos.LATCHED):
            self._node.create_subscription(Float64, "water_level", once, how)

    def _stamped(self, value: Stamped, what: str) -> Stamped:
        if value.stamp_ns or self._node.now_ns < SECOND:  # a simulation begins at 0
            return value
        text = f"{what} have no stamps: the time of their arrival counts"
        self._node.warnings.remind(f"no_stamp_{what}", text)
        return replace(value, stamp_ns=self._node.now_ns)


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


def _path(field: str) -> list[str]:
    """The names and indices in a field such as ``beams[0].range``."""
    return re.findall(r"\w+", field)


def _number(message: Any, path: list[str]) -> float:
    """The number at a path in a message; NaN if there is none."""
    try:
        for name in path:
            message = message[int(name)] if name.isdigit() else getattr(message, name)
        return float(message)
    except (AttributeError, IndexError, TypeError, ValueError):
        return math.nan
