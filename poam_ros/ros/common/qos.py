"""QoS profiles, and subscriptions that count lost messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from .executor import subscribe
from .node import BaseNode


def _profile(depth: int, *, reliable: bool, latched: bool = False) -> QoSProfile:
    return QoSProfile(
        depth=depth,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE,
    )


# Maps, terrain and mission state: a late subscriber gets the last message.
LATCHED = _profile(1, reliable=True, latched=True)
# As latched, with a queue for messages that arrive while the node is busy.
KEPT = _profile(20, reliable=True, latched=True)
# As sensor drivers publish.
SENSOR_PUBLISH = _profile(10, reliable=False)
# For reading sensors: 20 s of odometry at 100 Hz while the model is busy.
SENSOR_READ = _profile(2000, reliable=False)
# Goals are repeated, never latched: no old goal moves a vehicle that starts up.
GOAL = _profile(1, reliable=True)
# Simulated time: a lost message is replaced by the next.
CLOCK = _profile(1, reliable=False)


class SensorSubscriptions:
    """Subscriptions to sensors that count lost messages, as the middleware reports them.

    Args:
        node: creates the subscriptions.
        afterwards: called once after all messages of a wake-up.

    Attributes:
        lost: messages that were sent but not received, by topic.
    """

    def __init__(self, node: BaseNode, afterwards: Callable[[], None]) -> None:
        self._node, self._afterwards = node, afterwards
        self.lost: Counter[str] = Counter()
        self._lost_before = 0

    def take_lost(self) -> tuple[Counter[str], int]:
        """``lost``, and the number of messages lost since the last call."""
        before, self._lost_before = self._lost_before, self.lost.total()
        return self.lost, self._lost_before - before

    def listen(self, topic: str, kind: type, callback: Callable[[Any], None]) -> None:
        """Subscribe to a topic; ``callback`` is called with each message."""

        def count_lost(status: Any) -> None:
            self.lost[topic] += status.total_count_change

        events = SubscriptionEventCallbacks(message_lost=count_lost)
        options: dict[str, Any] = {"event_callbacks": events}
        given = self._node, kind, topic, callback, SENSOR_READ, self._afterwards
        try:
            subscribe(*given, **options)
        except UnsupportedEventTypeError:
            subscribe(*given)
            self._node.get_logger().warning(
                f"this middleware does not report messages lost on {topic}"
            )
