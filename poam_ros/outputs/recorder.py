"""What a simulated mission leaves beside the mapper's files, and when that is written. No rclpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.errors import PoamError
from ..core.geometry import Extent, Grid
from ..frontend.events import DONE
from . import folder as files
from .scoring import EpochScores, MapReport

FILES_TIMEOUT_S = 30.0  # s that the mapper has for its files, after the mission's end
SHUTDOWN_TIMEOUT_S = 4.0  # s, where the mission was interrupted
SETTLING_S = 3.0  # s for the last messages and answers on their way
POLL_PERIOD_S = 0.05  # s between two looks for the mapper's files


@dataclass
class Progress:
    """What is known of the mission so far; for people's eyes."""

    state: str = "starting"
    samples: int = 0
    max_samples: int = 0
    pending: int = 0  # pings that wait to be placed or judged
    epoch: files.EpochRecord | None = None
    epochs: int = 0
    speed: float = float("nan")
    problems: dict[str, str] = field(default_factory=dict)  # by node


class RunRecorder:
    """Scores what is published, and writes the run's folder once the mapper has kept its results.

    Args:
        workspace: where maps are scored.
        path: the run's folder; None: nothing is written.
        log: anything with ``info``, ``warning`` and ``error`` as an rclpy logger has.
        linger: how long after the mission's end all is ``over``, in s; None: never.
        nodes: those that ``config`` is to hold before the folder is written.
        clock: seconds that only grow.
        sleep: waits for some seconds.

    Attributes:
        config: what the nodes were given, by node, for config.yaml.
        succeeded: whether the run's folder is complete (without one: whether there are epochs).
        over: whether everything is written and has lingered.

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
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.scores, self._path, self.log = EpochScores(workspace), path, log
        self._linger, self._nodes, self._clock, self._sleep = linger, nodes, clock, sleep
        self.progress = Progress()
        self.config: dict[str, dict[str, Any]] = {}
        self.succeeded = self.over = self._written = False
        self._truth: tuple[Grid, np.ndarray] | None = None
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
        """The mapper's report on a map; the mission's last says that its results are kept."""
        self.scores.add_report(report)
        # One that is followed by another map's was an earlier mission's.
        self._finished = report if report.finished else None
        self._finished_at = self._clock()

    def set_state(self, state: str) -> None:
        self.progress.state = state
        if state == DONE and self._done_at is None:
            self._done_at = self._clock()

    def poll(self) -> None:
        """Keep the progress current, and see the mission to its end; to be called now and then."""
        epochs = self.scores.epochs
        self.progress.epochs = len(epochs)
        self.progress.epoch = epochs[-1] if epochs else None
        if self._done_at is None:
            return
        now = self._clock()
        if not self._written and self._may_write(now, self._done_at):
            self._written = True
            self._write()
        lingered = self._linger is not None and now - self._done_at >= self._linger
        self.over = self._written and lingered

    def finish_early(self) -> None:
        """Write what there is of a mission that ends before its time; once it has epochs.

        The mapper writes its files when it is ended, and cannot say so any more: they are looked
        for, but not for long.
        """
        if self._written or self._path is None or not self.scores.epochs:
            return
        self._written = True
        if not self._write_tables(self._path):
            return
        deadline = self._clock() + SHUTDOWN_TIMEOUT_S
        while self._map_file_version() == self._before:
            if self._clock() > deadline:
                return
            self._sleep(POLL_PERIOD_S)
        self._draw(self._path)

    def _may_write(self, now: float, done_at: float) -> bool:
        """Whether the mapper's files are complete, or were waited for long enough."""
        if self._path is None:
            return True
        if self._finished is None:
            return now - done_at >= FILES_TIMEOUT_S
        epochs = self.scores.epochs
        # Two topics keep no order between them: the last map may come after its report.
        scored = bool(epochs) and epochs[-1].samples >= self._finished.samples
        described = self.config.keys() >= set(self._nodes)
        return (scored and described) or now - self._finished_at >= SETTLING_S

    def _map_file_version(self) -> tuple[int, int] | None:
        """Something that changes when map.npz, the mapper's last file, is written."""
        try:
            status = (self._path / "map.npz").stat() if self._path is not None else None
        except FileNotFoundError:
            status = None
        return None if status is None else (status.st_mtime_ns, status.st_ino)

    def _write(self) -> None:
        """Write our share of the run's folder, and the figures."""
        if self._path is None:
            self.succeeded = bool(self.scores.epochs)
        elif self._write_tables(self._path):
            if self._finished is None:
                self.log.error(f"the mapper kept no map in {self._path}; no figures are drawn")
            else:
                self.succeeded = self._draw(self._path)

    def _write_tables(self, path: Path) -> bool:
        """Write epochs.csv, config.yaml and truth.npz; whether that was possible."""
        try:
            rows = [epoch.row() for epoch in self.scores.epochs]
            files.write_table(path / "epochs.csv", files.EPOCH_COLUMNS, rows)
            config = {"version": __version__, "nodes": self.config}
            files.write_config(path / "config.yaml", config)
            if self._truth is not None:
                grid, elevation = self._truth
                files.write_truth(path / "truth.npz", elevation, grid.borders)
        except OSError as error:
            self.log.error(f"output: cannot write to {path} ({error.strerror})")
            return False
        return True

    def _draw(self, path: Path) -> bool:
        """Draw the figures; whether the folder holds what they are drawn from."""
        try:
            from .figures import draw_run

            draw_run(path)
        except ImportError:
            self.log.warning("matplotlib is not installed: no figures are drawn")
        except PoamError as error:
            self.log.error(f"figures: {error}")
            return False
        else:
            self.log.info(f"the run is in {path}")
        return True
