"""What every node of ours is made of: parameters, what it opens, and how that is taken down."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile
from rclpy.subscription import Subscription

from ..survey.refusals import Refusals
from .messages import write_diagnostics
from .parameters import declare


class NodeShell(Node):
    """A node that goes round configure, activate, deactivate, cleanup as often as one likes.

    Construction declares parameters, and nothing else. A subclass makes what talks in ``configure``
    and what acts (timers, threads) in ``activate``; both begin with ``super()``'s. All that is made
    by the methods here, or given to ``held``, is taken down in reverse order: what ``activate``
    made in ``deactivate``, what ``configure`` made in ``cleanup``; what is made in between belongs
    to the state the node is in then.

    Args:
        name: of the node.
        table: rows of its parameters.
        options: as ``rclpy.node.Node``.

    Attributes:
        values: the parameters' current values, by name.
        refusals: what it was sent and could not take, since it was configured.
        steady: wall time, for what goes on while a simulated clock stands.
        configured, active: how far it is up.
        ended: set by a node whose work is over; ``run_node`` returns then.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, name: str, table: Iterable[Any], **options: Any) -> None:
        super().__init__(name, **options)
        self._opened, self._started = ExitStack(), ExitStack()
        self.configured = self.active = self.ended = False
        self.steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.refusals = Refusals(self.get_logger().warning)
        self.values = declare(self, table, self._parameters_changed)

    def configure(self) -> None:
        """Make what talks."""
        self.configured = True
        self.refusals = Refusals(self.get_logger().warning)
        self._diagnostics = self.publisher(DiagnosticArray, "/diagnostics", 10)

    def activate(self) -> None:
        """Begin to act."""
        self.active = True

    def deactivate(self) -> None:
        """Stop acting; what talks stays."""
        self._started.close()
        self.active = False

    def cleanup(self) -> None:
        """Take down what talks; the node is as it was constructed, with its current parameters."""
        self._opened.close()
        self.configured = False

    def changed(self, names: frozenset[str]) -> None:
        """Parameters with these names have new values; called while the node is configured."""

    def destroy_node(self) -> None:
        """Take everything down, however far it came up."""
        if self.active:
            self.deactivate()
        if self.configured:
            self.cleanup()
        super().destroy_node()

    @property
    def held(self) -> ExitStack:
        """Takes whatever is to be undone when the present state ends (``held.callback(undo)``)."""
        return self._started if self.active else self._opened

    @property
    def now_ns(self) -> int:
        """ROS time; 0 while a simulated clock has not begun."""
        return self.get_clock().now().nanoseconds

    @property
    def full_name(self) -> str:
        """The node's name with its namespace, as diagnostics have it."""
        return self.get_fully_qualified_name().lstrip("/")

    def publisher(
        self, kind: type, topic: str, qos: QoSProfile | int, **options: Any
    ) -> Publisher:
        """As ``create_publisher``."""
        made = self.create_publisher(kind, topic, qos, **options)
        self.held.callback(self.destroy_publisher, made)
        return made

    def subscription(
        self, kind: type, topic: str, callback: Callable[[Any], None], qos: Any, **options: Any
    ) -> Subscription:
        """As ``create_subscription``."""
        made = self.create_subscription(kind, topic, callback, qos, **options)
        self.held.callback(self.destroy_subscription, made)
        return made

    def service(self, kind: type, name: str, callback: Callable[[Any, Any], Any]) -> None:
        """As ``create_service``."""
        self.held.callback(self.destroy_service, self.create_service(kind, name, callback))

    def timer(
        self, period: float, callback: Callable[[], None], clock: Clock | None = None
    ) -> None:
        """As ``create_timer``, in wall time unless another clock is given."""
        made = self.create_timer(period, callback, clock=clock or self.steady)
        self.held.callback(self.destroy_timer, made)

    def report(
        self, level: bytes, text: str, values: Mapping[str, object], stamp_ns: int | None = None
    ) -> None:
        """Publish a diagnostic status named after the node."""
        stamp = self.now_ns if stamp_ns is None else stamp_ns
        self._diagnostics.publish(write_diagnostics(self.full_name, level, text, values, stamp))

    def _parameters_changed(self, names: frozenset[str]) -> None:
        if self.configured:
            self.changed(names)
