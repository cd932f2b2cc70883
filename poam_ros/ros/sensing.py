"""Subscriptions to what arrives many times a second, and what of it was lost on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError

from .qos import SENSOR_READ
from .running import subscribe
from .shell import NodeShell


class Sensors:
    """Topics of sensors.

    Args:
        node: that hears them.
        afterwards: called once for all messages that one look at a topic finds.

    Attributes:
        lost: messages that did not arrive, by topic.
    """

    def __init__(self, node: NodeShell, afterwards: Callable[[], None]) -> None:
        self._node, self._afterwards = node, afterwards
        self.lost: Counter[str] = Counter()
        self._lost_lately = 0

    def take_lost(self) -> tuple[Counter[str], int]:
        """``lost``, and how many of them were since the last call."""
        lately, self._lost_lately = self._lost_lately, 0
        return self.lost, lately

    def listen(self, topic: str, kind: type, callback: Callable[[Any], None]) -> None:
        """Hear a topic; ``callback`` takes each message."""

        def count_lost(status: Any) -> None:
            self.lost[topic] += status.total_count_change
            self._lost_lately += status.total_count_change

        options = {"event_callbacks": SubscriptionEventCallbacks(message_lost=count_lost)}
        for more in (options, {}):
            try:
                subscribe(self._node, kind, topic, callback, SENSOR_READ, self._afterwards, **more)
                return
            except UnsupportedEventTypeError:
                self._node.get_logger().warning(
                    f"this middleware does not tell of messages lost on {topic}"
                )
