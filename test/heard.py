"""Nodes that keep what they hear, and what tests read from messages that only people read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from rclpy.client import Client
from rclpy.node import Node
from rclpy.qos import QoSProfile
from sensor_msgs.msg import PointCloud2

from poam_ros.frontend.refused_pings import REASONS, RefusedPings
from poam_ros.ros.messages import stamp_to_ns


class Heard:
    """What was heard, by name.

    Reading gives a copy: the executor's thread goes on adding while a test looks at it.
    """

    def __init__(self) -> None:
        self._kept: dict[str, list] = defaultdict(list)

    def __getitem__(self, name: str) -> list[Any]:
        return list(self._kept.get(name, ()))

    def keep(self, name: str, item: Any) -> None:
        self._kept[name].append(item)

    def forget(self, *names: str) -> None:
        """What comes after this is kept again."""
        for name in names:
            self._kept.pop(name, None)


class Listener(Node):
    """Keeps every message of the topics it listens to in ``heard``, by topic."""

    def __init__(self, name: str, **options: Any) -> None:
        self.heard = Heard()
        super().__init__(name, **options)

    def listen(
        self,
        kind: type,
        topic: str,
        qos: QoSProfile | int,
        read: Callable[[Any], Any] = lambda message: message,
    ) -> None:
        """``read`` takes what is to be kept out of a message."""
        self.create_subscription(
            kind, topic, lambda message: self.heard.keep(topic, read(message)), qos
        )

    @property
    def states(self) -> list[str]:
        """Of the mission, as they were announced."""
        return [message.data for message in self.heard["mission/state"]]

    @property
    def reasons(self) -> list[str]:
        """Of these states."""
        return [message.data for message in self.heard["mission/reason"]]

    @property
    def goals(self) -> list[list[float]]:
        """Where the vehicle was sent, [x, y] in m."""
        places = [message.pose.position for message in self.heard["goal_pose"]]
        return [[place.x, place.y] for place in places]


def read_refused(message: PointCloud2) -> RefusedPings:
    """The pings on `pings/refused`, with new numbers."""
    *xyz, code, age = np.frombuffer(message.data, "<f4").astype(float).reshape(-1, 5).T
    stamp_ns = stamp_to_ns(message.header.stamp) - np.round(age * 1e9).astype(np.int64)
    reason = np.array(list(REASONS))[code.astype(int)]
    return RefusedPings(reason, np.arange(len(reason)), stamp_ns, np.column_stack(xyz))


def answer(client: Client, eventually: Callable[..., Any], **fields: Any) -> Any:
    """What a service answers to a request of these fields."""
    eventually(client.service_is_ready)
    future = client.call_async(client.srv_type.Request(**fields))
    eventually(future.done)
    return future.result()


def status_values(message: DiagnosticArray, name: str) -> dict[str, str]:
    """The values of the status whose name ends with ``name``; empty where there is none."""
    for status in message.status:
        if status.name.endswith(name):
            return {item.key: item.value for item in status.values}
    return {}
