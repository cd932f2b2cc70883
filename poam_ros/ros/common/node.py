"""The base class of all nodes: parameters, what is undone at the end, diagnostics."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from types import SimpleNamespace
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node

from ...core.clock import SECOND, Moment
from ...core.errors import InputError, LogThrottle, shown
from ...core.settings import Setting, Value, unknown
from .messages import write_diagnostics
from .parameters import inner_rows, known_names


class BaseNode(Node):
    """A node of this package.

    The constructor only declares parameters. ``open`` creates everything else; a subclass calls
    ``super().open()`` first, and gives ``on_exit`` what must be undone before the node ends.

    Args:
        name: of the node.
        table: rows of its parameters.
        options: as ``rclpy.node.Node``.

    Attributes:
        values: current values of the parameters, by name.
        warnings: throttled warnings, such as messages it could not use.
        on_exit: what ``destroy_node`` undoes, in reverse order: ``on_exit.callback(undo)``.
        steady_clock: the clock of every timer. Nobody sets it, and it runs while a simulated clock
            stands still. ``ahead_s``: of ``Moment``.
        finished: set by a node whose work is done; then ``run_node`` returns.

    Raises:
        InputError: a parameter is wrong.
    """

    finished = False
    _is_open = False

    def __init__(self, name: str, table: Iterable[Any], **options: Any) -> None:
        super().__init__(name, **options)
        self.on_exit = ExitStack()
        self.steady_clock = Clock(clock_type=ClockType.STEADY_TIME)
        self.ahead_s = self.get_clock().now().nanoseconds / SECOND - time.monotonic()
        self.warnings = LogThrottle(self.get_logger().warning)
        self.values = declare_parameters(
            self, table, self._parameters_changed, partial(inner_rows, name)
        )
        refuse_unknown(self, known_names())

    def open(self) -> None:
        """Create publishers, subscriptions, services, timers and threads.

        Raises:
            InputError: a parameter is wrong, or a file cannot be used.
        """
        self._diagnostics = self.create_publisher(DiagnosticArray, "/diagnostics", 10)
        self._is_open = True

    def changed(self, names: frozenset[str]) -> None:
        """Called with the names of parameters that have new values, once the node is open."""

    def destroy_node(self) -> None:
        """Undo what ``on_exit`` holds, and destroy the node."""
        self._is_open = False
        try:
            self.on_exit.close()
        finally:
            super().destroy_node()

    @property
    def now_ns(self) -> int:
        """ROS time; 0 before a simulated clock starts."""
        return self.get_clock().now().nanoseconds

    @property
    def moment(self) -> Moment:
        """The present time on all clocks."""
        clock: Any = self.get_clock()  # a ROSClock
        ahead_s = None if clock.ros_time_is_active else self.ahead_s
        return Moment(self.now_ns, time.monotonic(), ahead_s)

    @property
    def full_name(self) -> str:
        """The name with the namespace, as in diagnostics."""
        return self.get_fully_qualified_name().lstrip("/")

    def create_timer(  # type: ignore[override]  # the clock is fixed
        self, period_s: float, callback: Callable[[], Any], **options: Any
    ) -> Any:
        """rclpy's, with the steady clock: the system clock may be set back."""
        return super().create_timer(period_s, callback, clock=self.steady_clock, **options)

    def report(
        self, level: bytes, text: str, values: Mapping[str, object], stamp_ns: int | None = None
    ) -> None:
        """Publish a diagnostic status named after the node."""
        stamp = self.now_ns if stamp_ns is None else stamp_ns
        self._diagnostics.publish(write_diagnostics(self.full_name, level, text, values, stamp))

    def _parameters_changed(self, names: frozenset[str]) -> None:
        if self._is_open:
            self.changed(names)


def describe(row: Setting) -> ParameterDescriptor:
    """The setting as a ROS descriptor (`ros2 param describe`)."""
    described = ParameterDescriptor(
        description=row.help,
        additional_constraints=row.expected,
        read_only=not row.mutable,
        # Allows an integer for a float; `convert` checks the type instead of rclpy.
        dynamic_typing=True,
    )
    low, high = row.minimum, row.maximum
    if low is None and high is None:
        return described
    if isinstance(row.default, float):
        ends = -math.inf if low is None else float(low), math.inf if high is None else float(high)
        described.floating_point_range = [FloatingPointRange(from_value=ends[0], to_value=ends[1])]
    elif isinstance(row.default, int):
        ends = -(2**63) if low is None else int(low), 2**63 - 1 if high is None else int(high)
        described.integer_range = [IntegerRange(from_value=ends[0], to_value=ends[1])]
    return described


def declare_parameters(
    node: Node,
    table: Iterable[Setting],
    changed: Callable[[frozenset[str]], None] | None = None,
    inner: Callable[[dict[str, Any]], Iterable[Setting]] = lambda values: (),
) -> SimpleNamespace:
    """Declare a table on a node; return the values by name, in the declared types.

    ``inner`` returns further rows for the values of the table: options of the chosen model or
    planner. After an accepted change at run time the returned namespace has the new value, and
    ``changed`` is called with the names.

    Raises:
        InputError: an override (command line, parameter file) is wrong.
    """
    rows = {row.name: row for row in table}
    values = SimpleNamespace()
    _declare(node, rows.values(), values)
    further = {row.name: row for row in inner(vars(values))}
    _declare(node, further.values(), values)
    _watch_changes(node, rows | further, values, changed)
    return values


def refuse_unknown(node: Node, others: Collection[str] = ()) -> None:
    """Refuse an override (command line, parameter file) that no parameter takes.

    ``others``: names that a parameter file may hold for other nodes, models or planners.

    Raises:
        InputError: there is one; it names the nearest parameter.
    """
    # rclpy ignores overrides of undeclared parameters and offers no public access to them.
    declared = list(node._parameters)
    for name in node._parameter_overrides:
        if not (name in declared or name in others or name.startswith("qos_overrides.")):
            raise InputError(f"parameter {unknown(shown(name), declared)}")


def _declare(node: Node, rows: Iterable[Setting], values: SimpleNamespace) -> None:
    for row in rows:
        default = list(row.default) if isinstance(row.default, tuple) else row.default
        described = describe(row)
        # The bounds are attached after our own check, whose message says what was expected.
        bare = type(described)(dynamic_typing=True)
        given = node.declare_parameter(row.name, default, bare).value
        setattr(values, row.name, _converted(row, given))
        node.set_descriptor(row.name, described)


def _watch_changes(
    node: Node,
    rows: dict[str, Setting],
    values: SimpleNamespace,
    changed: Callable[[frozenset[str]], None] | None,
) -> None:
    """Validate later changes before they are made, and apply them after."""

    def validate(parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name in rows:
                try:
                    _converted(rows[parameter.name], parameter.value)
                except InputError as error:
                    return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def apply(parameters: list[Any]) -> None:
        names = frozenset(p.name for p in parameters if p.name in rows)
        for parameter in parameters:
            if parameter.name in names:
                setattr(values, parameter.name, rows[parameter.name].convert(parameter.value))
        if names and changed is not None:
            changed(names)

    node.add_on_set_parameters_callback(validate)
    node.add_post_set_parameters_callback(apply)


def _converted(row: Setting, value: Any) -> Value:
    try:
        return row.convert(value)
    except InputError as error:
        raise InputError(f"parameter {error}") from None
