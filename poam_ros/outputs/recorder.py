"""Scores of maps against the known truth by the paper's metrics (Sec. V-A), and the files of a
simulated mission besides the mapper's. No rclpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.clock import SECOND
from ..core.errors import InputError, PoamError, needs_extra
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from ..frontend.events import DONE
from . import folder as files
from .folder import EpochRecord
from .held_out import log_loss

POINTS = 50  # along each side of the evaluation grid (the paper's)
PENDING = 20  # maximum number of maps that wait for their report
FILES_TIMEOUT_S = 30.0  # for the mapper's files, after the end of the mission
SETTLING_S = 3.0  # for the last messages and answers


class GridScorer:
    """Scores predictions on the paper's evaluation grid, 50 x 50 points from border to border.

    Args:
        workspace: that the grid covers.
        elevation_at: the true elevation [N] at places [N, 2], in m.

    Attributes:
        points: of the grid [N, 2], in m.
    """

    def __init__(self, workspace: Extent, elevation_at: Callable[[np.ndarray], np.ndarray]) -> None:
        self.points = Grid.nodes(workspace, POINTS, POINTS).points
        self._truth = elevation_at(self.points)

    def score(
        self, mean: np.ndarray, variance: np.ndarray, target_mean: float, target_variance: float
    ) -> dict[str, float]:
        """The metrics of an ``EpochRecord``, by name, of predictive marginals N(mean, variance) at
        ``points`` [N], in m and m^2.

        ``target_mean``, ``target_variance``: of all training targets so far.

        Raises:
            InputError: if a variance is not positive.
        """
        if not (np.all(variance > 0) and target_variance > 0):
            raise InputError("metrics: expected positive variances")
        truth = self._truth
        mse = float(np.mean((mean - truth) ** 2))
        nlpd = float(log_loss(truth, mean, variance).mean())
        naive = float(log_loss(truth, target_mean, np.full_like(truth, target_variance)).mean())
        return {
            "smse": mse / float(truth.var()), "msll": nlpd - naive, "rmse": mse**0.5,
            "mae": float(np.abs(mean - truth).mean()), "nlpd": nlpd,
        }  # fmt: skip


@dataclass(frozen=True)
class MapReport:
    """Properties of a published map that its own message does not carry.

    Attributes:
        stamp_ns: the map's stamp.
        samples: number of pings in the map.
        target_mean, target_variance: of their elevations (m, m^2), for the MSLL.
        update_s, predict_s: wall time of the update and of the prediction, in s.
        finished: whether it is the mission's last map, and its results are written.
    """

    stamp_ns: int
    samples: int
    target_mean: float
    target_variance: float
    update_s: float
    predict_s: float
    finished: bool = False


@dataclass
class Progress:
    """The progress of the mission, for display."""

    state: str = "starting"
    samples: int = 0
    max_samples: int = 0
    pending: int = 0  # pings that wait for odometry or screening
    epoch: EpochRecord | None = None
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
    """Scores each map once the mapper's report on it (with the same ``stamp_ns``) has arrived, and
    writes epochs.csv, config.yaml and truth.npz as they become known.

    Args:
        workspace: the rectangle in which maps are scored.
        path: the run's folder; None: nothing is written.
        log: anything with ``info``, ``warning`` and ``error`` as an rclpy logger has.
        linger: time from the end of the mission until ``over``, in s; None: never.
        nodes: whose parameters ``config`` must hold before it is over.
        clock: a monotonic clock, in s.

    Attributes:
        config: parameters by node, for config.yaml.
        progress: of the mission.
        began_ns: ROS time at the start of the mission; None until it is known.
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
        self._workspace, self._path, self.log = workspace, path, log
        self._linger, self._nodes, self._clock = linger, nodes, clock
        self.progress = Progress()
        self.config: dict[str, dict[str, Any]] = {}
        self.succeeded = self.over = False
        self._maps: dict[int, ElevationMap] = {}  # by stamp, as are the reports
        self._reports: dict[int, MapReport] = {}
        self._scored: list[tuple[int, EpochRecord]] = []  # with the maps' stamps
        self.began_ns: int | None = None
        self._truth: tuple[Grid, np.ndarray] | None = None
        self._scorer: GridScorer | None = None
        self._version: object = None  # of what was written
        self._complete = True  # whether that was all
        self._finished: MapReport | None = None
        self._finished_at = 0.0
        self._done_at: float | None = None
        if path is not None:
            files.make_folder(path)
        self._before = self._map_version()

    def set_truth(self, grid: Grid, elevation: np.ndarray) -> None:
        """The ground truth, elevation [rows, columns] in m at the cells' centres."""
        self._truth = grid, elevation
        self._scorer = GridScorer(self._workspace, lambda xy: grid.interpolate(elevation, xy))
        self._score()

    def add_map(self, received: ElevationMap) -> None:
        """Add a published map."""
        self._maps[received.stamp_ns] = received
        self._score()

    def add_report(self, report: MapReport) -> None:
        """Add the mapper's report on a map; the last one says that its results are written."""
        self._reports[report.stamp_ns] = report
        # If another map follows, it was the last report of an earlier mission.
        self._finished = report if report.finished else None
        self._finished_at = self._clock()
        self._score()

    def add_config(self, node: str, config: dict[str, Any]) -> None:
        """Add a node's parameters by name, for config.yaml."""
        self.config[node] = config
        if node == "planner":
            self.progress.max_samples = config["max_samples"]

    def mission_began(self, stamp_ns: int) -> None:
        """The mission began at this ROS time; of several the earliest counts."""
        self.began_ns = stamp_ns if self.began_ns is None else min(stamp_ns, self.began_ns)

    def set_state(self, state: str) -> None:
        """Set the state of the mission."""
        self.progress.state = state
        if state == DONE and self._done_at is None:
            self._done_at = self._clock()

    @property
    def epochs(self) -> list[EpochRecord]:
        """Records of all scored maps; times count from the first map until the start is known."""
        began_ns = self.began_ns
        if began_ns is None:
            began_ns = self._scored[0][0] if self._scored else 0
        return [epoch._replace(time_s=(ns - began_ns) / SECOND) for ns, epoch in self._scored]

    def _score(self) -> None:
        """Score every map that has its report, in order, and drop the oldest without."""
        scorer = self._scorer
        for stamp_ns in sorted(self._maps.keys() & self._reports.keys()) if scorer else ():
            assert scorer is not None
            received, report = self._maps.pop(stamp_ns), self._reports.pop(stamp_ns)
            if self._scored and report.samples <= self._scored[-1][1].samples:
                continue
            mean, variance = (
                received.grid.interpolate(z, scorer.points)
                for z in (received.mean, received.variance)
            )
            try:
                metrics = scorer.score(mean, variance, report.target_mean, report.target_variance)
            except InputError:  # a variance is not positive: the row says so
                metrics = dict.fromkeys(("smse", "msll", "rmse", "mae", "nlpd"), float("nan"))
            epoch = EpochRecord(
                samples=report.samples, time_s=0.0, update_s=report.update_s,
                predict_s=report.predict_s, **metrics,
            )  # fmt: skip
            self._scored.append((stamp_ns, epoch))
        for waiting in (self._maps, self._reports):
            while len(waiting) > PENDING:
                del waiting[min(waiting)]

    def poll(self) -> None:
        """Update the progress, and write what is new; call it periodically."""
        epochs, now, finished = self.epochs, self._clock(), self._finished
        self.progress.epochs = len(epochs)
        self.progress.epoch = epochs[-1] if epochs else None
        complete = self._write(epochs)
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
        self._write(self.epochs)
        if self._path is None:
            return
        if self._map_version() == self._before:
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

    def _map_version(self) -> object:
        """A value that changes when the mapper's last file is written."""
        return None if self._path is None else files.version_of(self._path / files.MAP)

    def _write(self, epochs: list[EpochRecord]) -> bool:
        """Write what is new since the last time; returns whether it succeeded then."""
        path = self._path
        # Times count from the mission's beginning, which may be heard late.
        version = len(epochs), self.began_ns, len(self.config)
        if path is None or not epochs or version == self._version:
            return self._complete
        self._version, self._complete = version, False
        try:
            files.write_table(path / "epochs.csv", files.EPOCH_COLUMNS, epochs)
            config = {"version": __version__, "simulated": True, "nodes": self.config}
            files.write_config(path / "config.yaml", config)
            if self._truth is not None:
                grid, elevation = self._truth
                files.write_truth(path / "truth.npz", elevation, grid.borders)
            self._complete = True
        except OSError as error:
            self.log.error(f"output: cannot write to {path} ({error.strerror})")
        return self._complete
