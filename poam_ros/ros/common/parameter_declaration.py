"""Declares settings as parameters of a node. Imports rclpy only then."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from ...core.renames import refuse_old
from ...core.settings import Setting, Value

if TYPE_CHECKING:
    from rcl_interfaces.msg import ParameterDescriptor
    from rclpy.node import Node


def describe(row: Setting) -> ParameterDescriptor:
    """The setting as a ROS descriptor (`ros2 param describe`)."""
    from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor

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
        InputError: an override (command line, parameter file) is wrong or has an old name.
    """
    rows = {row.name: row for row in table}
    values = SimpleNamespace()
    # rclpy ignores overrides of undeclared parameters and offers no public access to them.
    refuse_old(node._parameter_overrides, rows, "parameter ")
    _declare(node, rows.values(), values)
    further = {row.name: row for row in inner(vars(values))}
    _declare(node, further.values(), values)
    _watch_changes(node, rows | further, values, changed)
    return values


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
    from rcl_interfaces.msg import SetParametersResult

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
