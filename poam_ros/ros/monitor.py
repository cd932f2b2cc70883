"""The monitor node: scores the maps of a simulated mission and records its run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from nav_msgs.msg import Path as Plan
from rclpy.parameter import parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient
from rclpy.task import Future
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64MultiArray, String, UInt64

from ..core.errors import InputError
from ..core.geometry import Extent
from ..outputs.recorder import Progress, RunRecorder
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
        self._request_times: dict[str, float] = {}
        for kind, topic, callback, how in (
            (PointCloud2, "terrain", self._on_terrain, LATCHED),
            (PointCloud2, "map/points", self._on_map, KEPT),
            (Float64MultiArray, "map/report", self._on_report, KEPT),
            (UInt64, "map/samples", self._on_samples, LATCHED),
            (String, "mission/state", self._on_state, LATCHED),
            (Plan, "plan", self._on_plan, KEPT),
            (DiagnosticArray, "/diagnostics", self._on_diagnostics, 100),
        ):
            self.create_subscription(kind, topic, callback, how)
        self.create_timer(POLL_PERIOD_S, self._poll)

    @property
    def progress(self) -> Progress:
        """The progress of the mission."""
        return self.recorder.progress

    def _poll(self) -> None:
        for node in OBSERVED:
            self._ask_parameters(node)
        self.recorder.poll()
        self.finished = self.recorder.over

    def _on_terrain(self, message: PointCloud2) -> None:
        with self._warned_of("terrain"):
            grid, layers = messages.read_cloud(message)
            self.recorder.set_truth(grid, layers["z"])

    def _on_map(self, message: PointCloud2) -> None:
        with self._warned_of("map_unreadable"):
            self.recorder.add_map(messages.read_map_cloud(message))

    def _on_report(self, message: Float64MultiArray) -> None:
        with self._warned_of("report_unreadable"):
            self.recorder.add_report(messages.read_report(message))

    @contextmanager
    def _warned_of(self, reason: str) -> Iterator[None]:
        """Warn of what cannot be read."""
        try:
            yield
        except InputError as error:
            self.warnings.add(reason, str(error))

    def _on_samples(self, message: UInt64) -> None:
        self.progress.samples = message.data

    def _on_state(self, message: String) -> None:
        self.recorder.set_state(message.data)

    def _on_plan(self, message: Plan) -> None:
        """The mission begins with the first plan, which is latched for late subscribers."""
        self.recorder.mission_began(messages.stamp_to_ns(message.header.stamp))

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

    def _ask_parameters(self, node: str) -> None:
        """Ask a node for its parameters, for config.yaml, until it answers.

        The answer is lost while the node has not discovered this one yet.
        """
        client, now = self._remote[node], time.monotonic()
        early = now - self._request_times.get(node, -math.inf) < RETRY_PERIOD_S
        if node in self.recorder.config or early or not client.services_are_ready():
            return
        self._request_times[node] = now
        own = {row.name for row in NODES[node]}
        names: list[str] = []

        def ask(future: Future) -> None:
            answer = future.result()
            if answer is not None:  # includes options of the model and the planner in use
                names[:] = [
                    name
                    for name in answer.result.names
                    if name in own or ("." in name and not name.startswith("qos_overrides"))
                ]
                client.get_parameters(names).add_done_callback(keep)

        def keep(future: Future) -> None:
            answer = future.result()
            if answer is not None and len(answer.values) == len(names):
                values = map(parameter_value_to_python, answer.values)
                config = {
                    name: list(value) if hasattr(value, "typecode") else value
                    for name, value in zip(names, values, strict=True)
                }
                self.recorder.add_config(node, config)

        client.list_parameters().add_done_callback(ask)


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, MonitorNode)


if __name__ == "__main__":
    sys.exit(main())
