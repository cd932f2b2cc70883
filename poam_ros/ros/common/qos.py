"""How each kind of topic is sent and read."""

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


class SensorSubscriptions:
    """Topics of sensors, and what is lost of them.

    A middleware tells of messages that did not arrive, not of those that newer ones pushed out of a
    full queue, at either end. These show as gaps in the numbers that a publisher gives; with two
    publishers on a topic nobody can tell a gap from the other's number.

    Args:
        node: that hears them.
        afterwards: called once for all messages that one look at a topic finds.

    Attributes:
        lost: messages that were sent and not heard, by topic.
    """

    def __init__(self, node: ManagedNode, afterwards: Callable[[], None]) -> None:
        self._node, self._afterwards = node, afterwards
        self._told: Counter[str] = Counter()  # by the middleware
        self._missed: Counter[str] = Counter()  # by the numbers, which it is among
        self._last: dict[str, int] = {}
        self._lost_before = 0

    @property
    def lost(self) -> Counter[str]:
        """As the class says."""
        return self._told | self._missed  # the larger of each

    def take_lost(self) -> tuple[Counter[str], int]:
        """``lost``, and how many of them were since the last call."""
        lost, before = self.lost, self._lost_before
        self._lost_before = lost.total()
        return lost, self._lost_before - before

    def listen(self, topic: str, kind: type, callback: Callable[[Any], None]) -> None:
        """Hear a topic; ``callback`` takes each message."""

        def count_lost(status: Any) -> None:
            self._told[topic] += status.total_count_change

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
                    f"this middleware does not tell of messages lost on {topic}"
                )
