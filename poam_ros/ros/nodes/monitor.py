"""The monitor node: scores the maps of a simulated mission and writes the run's folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String, UInt64

from ... import __version__
from ...errors import InputError, PoamError
from ...geometry import Extent, Grid
from ...runs.folder import EpochRecord
from ...runs.scoring import EpochLog
from ...survey.mission import DONE
from .. import messages
from ..parameters import MONITOR, NODES, declare
from ..running import run_node

OBSERVED = ("simulator", "mapper", "planner")
FILES_PATIENCE = 30.0  # s of wall time that the mapper has for its files
SHUTDOWN_PATIENCE = 4.0  # s of wall time, where the mission was interrupted
SETTLING = 1.0  # s of wall time for the last messages on their way
PERIOD = 0.2  # s of wall time between two looks
# A latched topic, but with room for maps that come while another is scored.
MAPS = QoSProfile(
    depth=20, reliability=ReliabilityPolicy.RELIABLE, durability=messages.LATCHED.durability
)


@dataclass
class Progress:
    """What is known of the mission so far; for people's eyes."""

    state: str = "starting"
    samples: int = 0
    max_samples: int = 0
    epoch: EpochRecord | None = None
    epochs: int = 0
    speed: float = float("nan")
    problems: dict[str, str] = field(default_factory=dict)  # by node


class MonitorNode(Node):
    """Listens to everything, and at ``done`` writes what the mapper does not.

    Where it is ended before, it writes what there is.

    Wall time alone drives it: it looks after a mission whose clock may stand still. What it needs
    of ROS time comes with the messages.

    Args:
        end: called once, when the mission is over and everything is written.

    Raises:
        InputError: a parameter is wrong, or the output folder cannot be written.
    """

    def __init__(self, end: Callable[[], object] | None = None, **arguments: Any) -> None:
        super().__init__("monitor", **arguments)
        self._p = declare(self, MONITOR)
        self._end = end
        self.progress = Progress()
        self.succeeded = False  # whether the run's folder is complete
        self.ended = False
        self._log = EpochLog(Extent.of(self._p.workspace))
        self._terrain: tuple[Grid, np.ndarray] | None = None
        self._config: dict[str, dict[str, Any]] = {}
        self._remote: dict[str, AsyncParameterClient] = {}
        self._asked: set[str] = set()
        self._done_at: float | None = None
        self._files_at: float | None = None
        self._written = False
        self._folder = Path(self._p.output) if self._p.output else None
        if self._folder is not None:
            from ...runs.folder import make_folder

            make_folder(self._folder)
        self._before = self._map_file_version()
        self._subscribe()

    def _subscribe(self) -> None:
        self.create_subscription(PointCloud2, "terrain", self._on_terrain, messages.LATCHED)
        self.create_subscription(PointCloud2, "map/points", self._on_map, MAPS)
        self.create_subscription(UInt64, "map/samples", self._on_samples, messages.LATCHED)
        self.create_subscription(String, "mission/state", self._on_state, messages.LATCHED)
        self.create_subscription(DiagnosticArray, "/diagnostics", self._on_diagnostics, 100)
        self.create_timer(PERIOD, self._look, clock=Clock(clock_type=ClockType.STEADY_TIME))

    def _on_terrain(self, message: PointCloud2) -> None:
        try:
            grid, layers = messages.read_cloud(message)
            self._terrain = grid, layers["z"]
        except (InputError, KeyError) as error:
            self.get_logger().warning(f"terrain: expected a grid with z, got none ({error})")
            return
        self._log.set_truth(*self._terrain)

    def _on_map(self, message: PointCloud2) -> None:
        try:
            self._log.add_map(messages.read_map_cloud(message))
        except InputError as error:
            self.get_logger().warning(str(error))

    def _on_samples(self, message: UInt64) -> None:
        self.progress.samples = message.data

    def _on_state(self, message: String) -> None:
        self.progress.state = message.data
        if message.data == DONE and self._done_at is None:
            self._done_at = time.monotonic()

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        """Take the statuses of the nodes in our namespace; others share the topic."""
        namespace = self.get_namespace().strip("/")
        for status in message.status:
            place, _, node = status.name.rpartition("/")
            values = {item.key: item.value for item in status.values}
            if place == namespace and node == "mapper: map":
                self._log.add_report(values)
            if place != namespace or node not in OBSERVED:
                continue
            self._ask_parameters(node)
            if status.level == DiagnosticStatus.OK:
                self.progress.problems.pop(node, None)
            else:
                self.progress.problems[node] = status.message
            if node == "simulator":
                self.progress.speed = float(values.get("achieved_speed", "nan"))
            elif node == "planner" and values.get("began_s"):
                self._log.began = float(values["began_s"])

    def _ask_parameters(self, node: str) -> None:
        """Ask a node once for everything it was given, for config.yaml."""
        if node not in self._remote:
            self._remote[node] = AsyncParameterClient(self, node)
        client = self._remote[node]
        if node in self._asked or not client.services_are_ready():
            return
        self._asked.add(node)
        names = [row.name for row in NODES[node]]

        def keep(future: Future) -> None:
            answer = future.result()
            if answer is not None and len(answer.values) == len(names):
                values = map(parameter_value_to_python, answer.values)
                self._config[node] = {
                    name: list(value) if hasattr(value, "typecode") else value
                    for name, value in zip(names, values, strict=True)
                }
                if node == "planner":
                    self.progress.max_samples = self._config[node]["max_samples"]

        client.get_parameters(names).add_done_callback(keep)

    def _look(self) -> None:
        """Keep the progress current; see the mission to its end."""
        epochs = self._log.epochs
        self.progress.epochs = len(epochs)
        self.progress.epoch = epochs[-1] if epochs else None
        if self._done_at is None:
            return
        now = time.monotonic()
        if not self._written and self._may_write(now):
            self._written = True
            self._write()
        over = self._written and not self._p.keep and now - self._done_at >= self._p.linger
        if over and not self.ended:
            self.ended = True
            if self._end is not None:
                self._end()

    def _may_write(self, now: float) -> bool:
        """Whether the mapper's files are complete, or were waited for long enough."""
        assert self._done_at is not None
        if self._folder is None:
            return True
        if self._files_at is None and self._map_file_version() != self._before:
            self._files_at = now
        if self._files_at is not None:
            return now - self._files_at >= SETTLING
        return now - self._done_at >= FILES_PATIENCE

    def _map_file_version(self) -> tuple[int, int] | None:
        """Something that changes when map.npz, the mapper's last file, is written."""
        if self._folder is None:
            return None
        try:
            status = (self._folder / "map.npz").stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def _write(self) -> None:
        """Write our share of the run's folder, and the figures."""
        if self._folder is None:
            self.succeeded = bool(self._log.epochs)
            return
        if not self._write_tables(self._folder):
            return
        if self._files_at is None:
            self.get_logger().error(
                f"the mapper wrote no map into {self._folder}; no figures are drawn"
            )
            return
        self.succeeded = True
        self._draw(self._folder)

    def _write_tables(self, folder: Path) -> bool:
        """Write epochs.csv, config.yaml and truth.npz; whether that was possible."""
        from ...runs import folder as results

        config = {"version": __version__, "nodes": self._config}
        try:
            rows = [epoch.row() for epoch in self._log.epochs]
            results.write_table(folder / "epochs.csv", results.EPOCH_COLUMNS, rows)
            results.write_config(folder / "config.yaml", config)
            if self._terrain is not None:
                grid, elevation = self._terrain
                results.write_truth(folder / "truth.npz", elevation, _borders(grid))
        except OSError as error:
            self.get_logger().error(f"output: cannot write to {folder} ({error.strerror})")
            return False
        return True

    def conclude(self) -> None:
        """Write what there is of a mission that ends before its time; once it has epochs.

        The mapper writes its files when it is ended: it is waited for, but not for long.
        """
        if self._written or self._folder is None or not self._log.epochs:
            return
        self._written = True
        if not self._write_tables(self._folder):
            return
        deadline = time.monotonic() + SHUTDOWN_PATIENCE
        while self._map_file_version() == self._before:
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)
        self._draw(self._folder)

    def destroy_node(self) -> None:
        """Keep what there is first."""
        self.conclude()
        super().destroy_node()

    def _draw(self, folder: Path) -> None:
        try:
            from ...runs.figures import draw_run

            draw_run(folder)
        except ImportError:
            self.get_logger().warning("matplotlib is not installed: no figures are drawn")
        except PoamError as error:
            self.get_logger().error(f"figures: {error}")
        else:
            self.get_logger().info(f"the run is in {folder}")


def _borders(grid: Grid) -> Extent:
    """The outer borders of a raster whose cell centres are the grid."""
    half_x, half_y = (grid.x[1] - grid.x[0]) / 2, (grid.y[1] - grid.y[0]) / 2
    return Extent(grid.x[0] - half_x, grid.x[-1] + half_x, grid.y[0] - half_y, grid.y[-1] + half_y)


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until the mission is over; returns the exit status."""
    return run_node(lambda: MonitorNode(end=rclpy.try_shutdown), args)


if __name__ == "__main__":
    sys.exit(main())
