"""The monitor node: scores the maps of a simulated mission and records its run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nav_msgs.msg import Path as Plan
from rclpy.parameter import parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64

from ..core.errors import InputError
from ..core.geometry import Extent
from ..frontend.odometry import stamp_to_ns
from ..outputs.recorder import RunRecorder
from . import messages
from .node import KEPT, LATCHED, BaseNode, run_node
from .parameters import MONITOR, NODES

OBSERVED = ("simulator", "mapper", "planner")
POLL_PERIOD_S = 0.2  # wall time between two polls
RETRY_PERIOD_S = 1.0  # wall time until an unanswered request is sent again


class MonitorNode(BaseNode):
    """Feeds a ``RunRecorder``, which writes the run, except for the mapper's files, and at its end
    draws the figures.

    It uses wall time, as the mission's clock may stand still; stamps come with the messages.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("monitor", MONITOR, **options)

    def open(self) -> None:
        """Create the recorder and the subscriptions.

        Raises:
            InputError: the output folder cannot be written.
        """
        super().open()
        values = self.values
        self.recorder = RunRecorder(
            Extent.of(values.workspace),
            Path(values.output) if values.output else None,
            self.get_logger(),
            linger=None if values.keep else values.linger,
            nodes=OBSERVED,
        )
        self.on_exit.callback(self.recorder.close)
        self._remote = {node: AsyncParameterClient(self, node) for node in OBSERVED}
        self._asked: dict[str, tuple[float, Any]] = {}  # when each was last asked, and the task
        self.progress = self.recorder.progress
        recorder, progress, stamp = self.recorder, self.progress, stamp_to_ns
        read_map, read_report = messages.read_map_cloud, messages.read_report
        for kind, topic, take, how in (
            (PointCloud2, "terrain", self._take_terrain, LATCHED),
            (PointCloud2, "map/points", lambda said: recorder.add_map(read_map(said)), KEPT),
            (String, "map/report", lambda said: recorder.add_report(read_report(said)), KEPT),
            (UInt64, "map/samples", lambda said: setattr(progress, "samples", said.data), LATCHED),
            (String, "mission/state", lambda said: recorder.set_state(said.data), LATCHED),
            # The first plan, latched for late subscribers, begins the mission.
            (Plan, "plan", lambda said: recorder.mission_began(stamp(said.header.stamp)), KEPT),
            (DiagnosticArray, "/diagnostics", self._on_diagnostics, 100),
        ):
            called = partial(self._take, f"{topic} unreadable", take)
            self.create_subscription(kind, topic, called, how)
        self.create_timer(POLL_PERIOD_S, self._poll)

    def _poll(self) -> None:
        for node in OBSERVED:  # until each has answered
            asked_s, task = self._asked.get(node, (-math.inf, None))
            early = time.monotonic() - asked_s < RETRY_PERIOD_S
            if node in self.recorder.config or early or not self._remote[node].services_are_ready():
                continue
            if task is not None:  # its answer is lost
                task.cancel()
            assert self.executor is not None
            # Not as part of this callback: the answer would wait for its end.
            task = self.executor.create_task(self._ask_parameters(node))
            self._asked[node] = time.monotonic(), task
        self.recorder.poll()
        self.finished = self.recorder.over

    def _take(self, warning: str, take: Callable[[Any], None], message: Any) -> None:
        """Take a message, or warn that it cannot be read."""
        try:
            take(message)
        except InputError as error:
            self.warnings.add(warning, str(error))

    def _take_terrain(self, message: PointCloud2) -> None:
        grid, layers = messages.read_cloud(message)
        self.recorder.set_truth(grid, layers["z"])

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        """For the display: statuses of the nodes in this namespace; others share the topic."""
        namespace = self.get_namespace().strip("/")
        for status in message.status:
            place, _, node = status.name.rpartition("/")
            if place != namespace or node not in OBSERVED:
                continue
            problem = "" if status.level == DiagnosticStatus.OK else status.message
            values = {item.key: item.value for item in status.values}
            self.progress.add_status(node, problem, values)

    async def _ask_parameters(self, node: str) -> None:
        """Ask a node for its parameters, for config.yaml.

        The answer is lost while the node has not discovered this one yet.
        """
        client = self._remote[node]
        own = {row.name for row in NODES[node]}
        names = [  # includes options of the model and the planner in use
            name
            for name in (await client.list_parameters()).result.names
            if name in own or ("." in name and not name.startswith("qos_overrides"))
        ]
        values = (await client.get_parameters(names)).values
        if len(values) == len(names):
            plain = map(parameter_value_to_python, values)
            config = {
                name: list(value) if hasattr(value, "typecode") else value
                for name, value in zip(names, plain, strict=True)
            }
            self.recorder.add_config(node, config)


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, MonitorNode)


if __name__ == "__main__":
    sys.exit(main())
