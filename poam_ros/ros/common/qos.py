"""QoS profiles, and subscriptions that count lost messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks, UnsupportedEventTypeError
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from .executor import subscribe
from .node import ManagedNode


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
    """Subscriptions to sensors that count lost messages.

    The middleware reports messages that did not arrive, but not those dropped from a full queue at
    either end. These are gaps in the publication sequence numbers, which mean nothing if a topic
    has two publishers.

    Args:
        node: creates the subscriptions.
        afterwards: called once after all messages of a wake-up.

    Attributes:
        lost: messages that were sent but not received, by topic.
    """

    def __init__(self, node: ManagedNode, afterwards: Callable[[], None]) -> None:
        self._node, self._afterwards = node, afterwards
        self._reported: Counter[str] = Counter()  # as the middleware reports
        self._missed: Counter[str] = Counter()  # gaps in the numbers, which include those
        self._last: dict[str, int] = {}
        self._lost_before = 0

    @property
    def lost(self) -> Counter[str]:
        """See the class."""
        return self._reported | self._missed  # the larger of each

    def take_lost(self) -> tuple[Counter[str], int]:
        """``lost``, and the number of messages lost since the last call."""
        lost, before = self.lost, self._lost_before
        self._lost_before = lost.total()
        return lost, self._lost_before - before

    def listen(self, topic: str, kind: type, callback: Callable[[Any], None]) -> None:
        """Subscribe to a topic; ``callback`` is called with each message."""

        def count_lost(status: Any) -> None:
            self._reported[topic] += status.total_count_change

        def count_missed(number: int | None) -> None:
            if number is not None:
                missed = number - self._last.get(topic, number) - 1
                self._last[topic] = number
                if missed > 0 and self._node.count_publishers(topic) == 1:
                    self._missed[topic] += missed

        options = {"event_callbacks": SubscriptionEventCallbacks(message_lost=count_lost)}
        for more in (options, {}):
            try:
                subscribe(
                    self._node, kind, topic, callback, SENSOR_READ, self._afterwards, count_missed,
                    **more,
                )  # fmt: skip
                return
            except UnsupportedEventTypeError:
                self._node.get_logger().warning(
                    f"this middleware does not report messages lost on {topic}"
                )
