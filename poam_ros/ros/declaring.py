"""Parameters as table rows: one row feeds the ROS descriptor, the checks, the YAML and the docs.

The rows themselves are in ``parameters.py``. Nothing here imports rclpy until a node declares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Union

from ..errors import InputError

if TYPE_CHECKING:
    from rcl_interfaces.msg import ParameterDescriptor
    from rclpy.node import Node

Value = Union[bool, int, float, str, "tuple[float, ...]"]

KINDS = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a node.

    Attributes:
        name: name on the node.
        default: its type is the parameter's type; a tuple of floats has a fixed length.
        description: one sentence.
        unit: unit of the value, empty where it has none.
        minimum, maximum: inclusive bounds of a number, or of each number of a tuple.
        choices: the words a text may be; empty for any text.
        mutable: whether it may be changed while the node runs.
        check: a further check of the converted value, raising ``InputError``.
    """

    name: str
    default: Value
    description: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    mutable: bool = False
    check: Callable[[Any], object] | None = None

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if isinstance(self.default, tuple):
            return f"{len(self.default)} numbers{self.interval}"
        return KINDS[type(self.default)] + self.interval

    @property
    def interval(self) -> str:
        """The bounds, in words; empty where there are none."""
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            return f" from {low:g} to {high:g}"
        if low is not None:
            return f" of at least {low:g}"
        return f" of at most {high:g}" if high is not None else ""

    def convert(self, value: Any) -> Value:
        """The value in the declared type: an integer becomes a float where a float is meant.

        Raises:
            InputError: wrong type, length, range or choice, or a number that is not finite.
        """
        try:
            converted = self._converted(value)
        except (TypeError, ValueError):
            raise InputError(
                f"parameter {self.name}: expected {self.expected}, got {_shown(value)}"
            ) from None
        if self.check is not None:
            try:
                self.check(converted)
            except InputError as error:
                raise InputError(f"parameter {self.name}: {error}") from None
        return converted

    def _converted(self, value: Any) -> Value:
        if isinstance(self.default, tuple):
            if isinstance(value, (str, bytes)) or len(value) != len(self.default):
                raise ValueError
            return tuple(float(self._number(item)) for item in value)
        if isinstance(self.default, float):
            return float(self._number(value))
        if type(value) is not type(self.default) or (self.choices and value not in self.choices):
            raise ValueError
        return self._number(value) if type(value) is int else value

    def _number(self, value: Any) -> float:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        # bool is an int to Python, and NaN fails no negative test.
        if isinstance(value, bool) or not (math.isfinite(value) and low <= value <= high):
            raise ValueError
        return value

    def descriptor(self) -> ParameterDescriptor:
        """The row as ROS describes it (`ros2 param describe`)."""
        from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor

        unit = f" [{self.unit}]" if self.unit else ""
        described = ParameterDescriptor(
            description=self.description + unit,
            additional_constraints=self.expected,
            read_only=not self.mutable,
            # Lets an integer stand for a float; `convert` checks what rclpy then does not.
            dynamic_typing=True,
        )
        low, high = self.minimum, self.maximum
        if low is None and high is None:
            return described
        if isinstance(self.default, float):
            described.floating_point_range = [
                FloatingPointRange(
                    from_value=-math.inf if low is None else float(low),
                    to_value=math.inf if high is None else float(high),
                )
            ]
        elif isinstance(self.default, int):
            described.integer_range = [
                IntegerRange(
                    from_value=-(2**63) if low is None else int(low),
                    to_value=2**63 - 1 if high is None else int(high),
                )
            ]
        return described


def declare(
    node: Node,
    table: Iterable[Parameter],
    changed: Callable[[frozenset[str]], None] | None = None,
) -> SimpleNamespace:
    """Declare a table on a node; return its values, by name, in the declared types.

    The values stay current: after an accepted change at run time the namespace holds the new value,
    and ``changed`` is called with the names that changed. What is refused changes nothing.

    Raises:
        InputError: an override (command line, parameter file) is wrong.
    """
    rows = {row.name: row for row in table}
    values = SimpleNamespace()
    for row in rows.values():
        default = list(row.default) if isinstance(row.default, tuple) else row.default
        described = row.descriptor()
        # The bounds are attached only after our own check, whose words name what was expected.
        bare = type(described)(dynamic_typing=True)
        given = node.declare_parameter(row.name, default, bare).value
        setattr(values, row.name, row.convert(given))
        node.set_descriptor(row.name, described)
    _follow(node, rows, values, changed)
    return values


def _follow(
    node: Node,
    rows: dict[str, Parameter],
    values: SimpleNamespace,
    changed: Callable[[frozenset[str]], None] | None,
) -> None:
    """Validate every later change before it is made, and apply it after."""
    from rcl_interfaces.msg import SetParametersResult

    def validate(parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name in rows:
                try:
                    rows[parameter.name].convert(parameter.value)
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


def render_yaml(nodes: Mapping[str, Sequence[Parameter]], title: str) -> str:
    """A ROS parameter file with every default; `/**/` lets it serve a node in any namespace."""
    lines = [f"# {title}", "# Rendered from poam_ros/ros/parameters.py; a test keeps them equal."]
    for node, table in nodes.items():
        lines += ["", f"/**/{node}:", "  ros__parameters:"]
        for row in table:
            unit = f" [{row.unit}]" if row.unit else ""
            lines.append(f"    # {row.description}{unit} ({row.expected})")
            lines.append(f"    {row.name}: {_yaml(row.default)}")
    return "\n".join(lines) + "\n"


def render_markdown(table: Sequence[Parameter]) -> str:
    """The table for the README."""
    lines = [
        "| parameter | default | unit | expected | at run time | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for row in table:
        cells = (
            f"`{row.name}`",
            f"`{_yaml(row.default)}`",
            row.unit,
            row.expected,
            "yes" if row.mutable else "no",
            row.description,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _shown(value: Any) -> str:
    return repr(value if value is None or isinstance(value, (str, int, float)) else list(value))


def _yaml(value: Value) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_yaml(item) for item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        text = repr(value)
        # YAML 1.1 reads 1e-06 as text: a float needs its point.
        mantissa, exponent, power = text.partition("e")
        return text if "." in mantissa else mantissa + ".0" + exponent + power
    return f'"{value}"' if isinstance(value, str) else str(value)
