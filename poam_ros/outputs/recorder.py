"""The files of a simulated mission besides the mapper's. No rclpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.errors import PoamError, needs_extra
from ..core.geometry import Extent, Grid
from ..frontend.events import DONE
from . import folder as files
from .scoring import EpochScores, MapReport

FILES_TIMEOUT_S = 30.0  # for the mapper's files, after the end of the mission
SETTLING_S = 3.0  # for the last messages and answers


@dataclass
class Progress:
    """The progress of the mission, for display."""

    state: str = "starting"
    samples: int = 0
    max_samples: int = 0
    pending: int = 0  # pings that wait for odometry or screening
    epoch: files.EpochRecord | None = None
    epochs: int = 0
    speed: float = float("nan")
    reason: str = ""  # of the state
    depth: str = ""
    time_left: float = float("inf")  # s, about
    problems: dict[str, str] = field(default_factory=dict)  # by node

    def add_status(self, node: str, problem: str, values: Mapping[str, str]) -> None:
        """Take a node's diagnostics: its problem (empty: none) and its values by key."""
        self.problems.pop(node, None)
        if problem:
            self.problems[node] = problem
        with suppress(ValueError):  # of another node with this name
            if node == "simulator":
                self.speed = float(values.get("achieved_speed", "nan"))
            elif node == "mapper":
                self.pending = int(values.get("pending", "0"))


class RunRecorder:
    """Scores published maps, and writes epochs.csv, config.yaml and truth.npz as they become known.

    Args:
        workspace: the rectangle in which maps are scored.
        path: the run's folder; None: nothing is written.
        log: anything with ``info``, ``warning`` and ``error`` as an rclpy logger has.
        linger: time from the end of the mission until ``over``, in s; None: never.
        nodes: whose parameters ``config`` must hold before it is over.
        clock: a monotonic clock, in s.

    Attributes:
        config: parameters by node, for config.yaml.
        succeeded: whether the run's folder is complete; without a folder: whether there are epochs.
        over: whether the mapper's last map and results are there, and ``linger`` has passed.

    Raises:
        InputError: the folder cannot be written.
    """

    def __init__(
        self,
        workspace: Extent,
        path: Path | None,
        log: Any,
        *,
        linger: float | None,
        nodes: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scores, self._path, self.log = EpochScores(workspace), path, log
        self._linger, self._nodes, self._clock = linger, nodes, clock
        self.progress = Progress()
        self.config: dict[str, dict[str, Any]] = {}
        self.succeeded = self.over = False
        self._truth: tuple[Grid, np.ndarray] | None = None
        self._version: object = None  # of what was written
        self._complete = True  # whether that was all
        self._finished: MapReport | None = None
        self._finished_at = 0.0
        self._done_at: float | None = None
        if path is not None:
            files.make_folder(path)
        self._before = self._map_file_version()

    def set_truth(self, grid: Grid, elevation: np.ndarray) -> None:
        """The ground truth, elevation [rows, columns] in m at the cells' centres."""
        self._truth = grid, elevation
        self.scores.set_truth(grid, elevation)

    def add_report(self, report: MapReport) -> None:
        """Add the mapper's report on a map; the last one says that its results are written."""
        self.scores.add_report(report)
        # If another map follows, it was the last report of an earlier mission.
        self._finished = report if report.finished else None
        self._finished_at = self._clock()

    def add_config(self, node: str, config: dict[str, Any]) -> None:
        """Add a node's parameters by name, for config.yaml."""
        self.config[node] = config
        if node == "planner":
            self.progress.max_samples = config["max_samples"]

    def set_state(self, state: str) -> None:
        """Set the state of the mission."""
        self.progress.state = state
        if state == DONE and self._done_at is None:
            self._done_at = self._clock()

    def poll(self) -> None:
        """Update the progress, and write what is new; call it periodically."""
        epochs = self.scores.epochs
        self.progress.epochs = len(epochs)
        self.progress.epoch = epochs[-1] if epochs else None
        complete, now, finished = self._write(), self._clock(), self._finished
        if self._done_at is None:
            return
        if finished is not None and self._path is not None:
            # Topics are not ordered: the last map may arrive after its report.
            scored = bool(epochs) and epochs[-1].samples >= finished.samples
            described = self.config.keys() >= set(self._nodes)
            settled = (scored and described) or now - self._finished_at >= SETTLING_S
        else:
            settled = self._path is None or now - self._done_at >= FILES_TIMEOUT_S
        if settled:
            has_map = self._path is None or finished is not None
            self.succeeded = complete and bool(epochs) and has_map
            self.over = self._linger is not None and now - self._done_at >= self._linger

    def close(self) -> None:
        """Write what is new, and draw the figures of what the mapper has written, if it has."""
        self._write()
        if self._path is None:
            return
        if self._map_file_version() == self._before:
            if self._done_at is not None:
                self.succeeded = False
                self.log.error(f"the mapper wrote no map to {self._path}; no figures are drawn")
            return
        try:
            from .figures import draw_run

            draw_run(self._path)
        except ImportError:
            self.log.warning(f"no figures: {needs_extra('drawing', 'matplotlib', 'sim')}")
        except (PoamError, OSError) as error:
            self.log.error(f"figures: {error}")
            self.succeeded = False

    def _map_file_version(self) -> tuple[int, int] | None:
        """A value that changes when map.npz, the mapper's last file, is written."""
        try:
            status = (self._path / "map.npz").stat() if self._path is not None else None
        except FileNotFoundError:
            status = None
        return None if status is None else (status.st_mtime_ns, status.st_ino)

    def _write(self) -> bool:
        """Write what is new since the last time; returns whether it succeeded then."""
        scores, path = self.scores, self._path
        # Times count from the mission's beginning, which may be heard late.
        version = len(scores.epochs), scores.began_ns, len(self.config)
        if path is None or not scores.epochs or version == self._version:
            return self._complete
        self._version, self._complete = version, False
        try:
            rows = [epoch.row() for epoch in scores.epochs]
            files.write_table(path / "epochs.csv", files.EPOCH_COLUMNS, rows)
            config = {"version": __version__, "simulated": True, "nodes": self.config}
            files.write_config(path / "config.yaml", config)
            if self._truth is not None:
                grid, elevation = self._truth
                files.write_truth(path / "truth.npz", elevation, grid.borders)
            self._complete = True
        except OSError as error:
            self.log.error(f"output: cannot write to {path} ({error.strerror})")
        return self._complete
