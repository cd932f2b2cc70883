"""For the launch files: arguments from the parameter tables, nodes that end together.

Needs the launch tools of ROS 2 (``launch``, ``launch_ros``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.events.process import ProcessExited
from launch.logging import get_logger
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from ..core.errors import InputError
from ..core.settings import Setting, Value
from ..ros.parameters import NODES, known_names
from . import graph
from .command import text_of

PATHS = ("output", "terrain", "mission_dir", "areas.file", "goals.file")


class LaunchArguments:
    """The arguments of a launch file, and which of them were given.

    The default of an argument must not override a value in ``params_file``. Therefore it notes
    which arguments are known before they are declared: these were given on the command line or by
    an including launch file.

    Args:
        rows: the arguments. One that is a parameter goes to every node that declares it; the others
            are for the launch file itself.
        required: names without a default; the launch file checks that they are given.
    """

    def __init__(self, rows: Iterable[Setting], required: Iterable[str] = ()) -> None:
        self._rows = {row.name: row for row in rows}
        self._required = frozenset(required)
        self._given: set[str] = set()

    def description(self, nodes: Callable[[LaunchContext], list[Action]]) -> LaunchDescription:
        """The launch description of the arguments and the nodes made from them."""
        declared = [
            DeclareLaunchArgument(
                row.name,
                default_value="" if row.name in self._required else text_of(row.default),
                description=row.help,
                choices=_choices(row),
            )
            for row in self._rows.values()
        ]
        first, last = (OpaqueFunction(function=call) for call in (self._remember, nodes))
        return LaunchDescription([first, *declared, last])

    def value(self, context: LaunchContext, name: str) -> Value:
        """The value of an argument, in its declared type.

        Raises:
            InputError: it is wrong.
        """
        row = self._rows[name]
        try:
            value = row.read(context.launch_configurations[name])
        except InputError as error:
            raise InputError(f"launch argument: {error}") from None
        if name in PATHS and value:
            value = os.path.expanduser(str(value))
        return value

    def parameters(
        self, context: LaunchContext, node: str, values: Mapping[str, Any] = MappingProxyType({})
    ) -> list[Any]:
        """The parameters of a node: the files, the arguments that were given, and ``values``."""
        names = {"use_sim_time", *(row.name for row in NODES[node])}
        given = {name: self.value(context, name) for name in self._given & names}
        given |= {name: value for name, value in values.items() if name in names}
        own = {name: _parameter(value) for name, value in given.items()}
        files = graph.parameter_files(str(self.value(context, "params_file")))
        return [*map(str, files), *([own] if own else [])]

    def given(self, name: str) -> bool:
        """Whether an argument was given with a value."""
        return name in self._given

    def namespace(self, context: LaunchContext) -> str:
        """The argument ``namespace``, without slashes at its ends."""
        return str(self.value(context, "namespace")).strip("/")

    def _remember(self, context: LaunchContext) -> None:
        configurations = context.launch_configurations
        for name in configurations:  # the launch tools ignore what no launch file declares
            if name in self._rows or name not in known_names():
                continue
            text = f"launch argument {name}: expected this parameter in params_file"
            if "." in name:
                raise InputError(text)
            # A launch file that includes this one may have an argument of that name.
            get_logger("poam_ros").warning(f"{text}, if it is meant for poam_ros; ignored here")
        self._given = {name for name in self._rows if name in configurations}
        self._given -= {name for name in self._required if not configurations.get(name, "").strip()}


RESPAWN_DELAY_S = 2.0  # until lock and topics of a dead node are gone
#: Exit status of a node with wrong arguments, which is not started again.
WRONG_ARGUMENTS = 2


def required_node(name: str, respawn: bool = False, **arguments: Any) -> Node:
    """A node whose end also ends the launch; a failed node fails the launch.

    With ``respawn`` a crashed or killed node is started again instead.
    """

    def ended(event: ProcessExited, context: LaunchContext) -> Action | None:
        if context.is_shutdown:
            return None
        if respawn and event.returncode not in (0, WRONG_ARGUMENTS):
            return None
        if event.returncode:
            raise RuntimeError(f"{name} ended with exit status {event.returncode}")
        return Shutdown(reason=f"{name} ended")

    return Node(
        package="poam_ros",
        executable=name,
        name=name,
        output="screen",
        additional_env={"PYTHONUNBUFFERED": "1"},
        # Time to finish an update of the model.
        sigterm_timeout="10",
        on_exit=ended,
        respawn=respawn,
        respawn_delay=RESPAWN_DELAY_S,
        **arguments,
    )


def viewer(command: list[str], sim_time: bool, place: dict[str, Any]) -> Node:
    """RViz by ``graph.rviz_command``; its end does not end the mission.

    ``sim_time``: whether to use simulated time; ``place``: namespace and remappings.
    """
    executable, *arguments = command
    clock = [{"use_sim_time": sim_time}]
    return Node(
        executable=executable, arguments=arguments, output="screen", parameters=clock, **place
    )


def _choices(row: Setting) -> list[str] | None:
    if isinstance(row.default, bool):
        return ["true", "false", "True", "False"]
    return list(row.choices) or None


def _parameter(value: Value) -> Any:
    """A value for launch_ros; text stays text even if it looks like a number."""
    if isinstance(value, tuple):
        return list(value)
    return ParameterValue(value, value_type=str) if isinstance(value, str) else value
