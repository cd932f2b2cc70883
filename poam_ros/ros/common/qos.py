"""How each kind of topic is sent and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from .node import NodeShell
from .running import subscribe


def _profile(depth: int, *, reliable: bool, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


# Maps, terrain and the mission's state: whoever comes late gets the last one.
LATCHED = _profile(1, reliable=True, latched=True)
# As latched, with room for what comes while something else is worked on.
KEPT = _profile(20, reliable=True, latched=True)
# What a sensor driver uses.
SENSOR_PUBLISH = _profile(10, reliable=False)
# How we read one: deep enough for 20 s of odometry at 100 Hz beside a busy model.
SENSOR_READ = _profile(2000, reliable=False)
# A goal is repeated, never latched: no stale goal moves a vehicle that comes up.
GOAL = _profile(1, reliable=True)
# Simulated time: whoever misses one takes the next.
CLOCK = _profile(1, reliable=False)


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
