"""Published maps against the known truth: the rows of epochs.csv. No rclpy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from .folder import EpochRecord
from .metrics import Metrics, evaluate

POINTS = 50  # along each side of the evaluation grid (the paper's)
PENDING = 20  # maps kept for a report that is still under way


@dataclass(frozen=True)
class MapReport:
    """What a published map does not say of itself.

    Attributes:
        stamp_ns: the map's stamp.
        samples: how many pings it was made from.
        target_mean, target_variance: of their elevations (m, m^2), which MSLL compares with.
        update_s, predict_s: wall time of the update and of the prediction, in s.
        finished: whether it is the mission's last map, and its results are kept.
    """

    stamp_ns: int
    samples: int
    target_mean: float
    target_variance: float
    update_s: float
    predict_s: float
    finished: bool = False


class EpochScores:
    """Scores each map as soon as the mapper's report on it (the same ``stamp_ns``) is there."""

    def __init__(self, workspace: Extent) -> None:
        self._points = Grid.nodes(workspace, POINTS, POINTS).points
        self._truth: np.ndarray | None = None
        self._maps: dict[int, ElevationMap] = {}
        self._reports: dict[int, MapReport] = {}
        self.began_ns: int | None = None  # ROS time of the mission's begin
        self._scored: list[tuple[int, EpochRecord]] = []  # with the maps' stamps

    @property
    def epochs(self) -> list[EpochRecord]:
        """A record of every map that was scored; before the begin is known, of the first map's."""
        scored = self._scored
        began_ns = scored[0][0] if scored and self.began_ns is None else self.began_ns or 0
        return [replace(epoch, time_s=(ns - began_ns) / SECOND) for ns, epoch in scored]

    def set_truth(self, grid: Grid, elevation: np.ndarray) -> None:
        """The ground truth, elevation [rows, columns] in m."""
        self._truth = grid.interpolate(elevation, self._points)
        self._score()

    def add_map(self, received: ElevationMap) -> None:
        self._maps[received.stamp_ns] = received
        self._score()

    def add_report(self, report: MapReport) -> None:
        self._reports[report.stamp_ns] = report
        self._score()

    def _score(self) -> None:
        """Make an epoch of every map that has its report, in order."""
        truth = self._truth
        if truth is not None:
            for stamp_ns in sorted(self._maps.keys() & self._reports.keys()):
                received, report = self._maps.pop(stamp_ns), self._reports.pop(stamp_ns)
                if not self._scored or report.samples > self._scored[-1][1].samples:
                    self._scored.append((stamp_ns, self._epoch(received, report, truth)))
        for waiting in (self._maps, self._reports):
            while len(waiting) > PENDING:
                del waiting[min(waiting)]

    def _epoch(self, received: ElevationMap, report: MapReport, truth: np.ndarray) -> EpochRecord:
        mean, variance = (
            received.grid.interpolate(layer, self._points)
            for layer in (received.mean, received.variance)
        )
        try:
            metrics = evaluate(mean, variance, truth, report.target_mean, report.target_variance)
        except InputError:  # a map with a variance that is none: the row says so
            metrics = Metrics(*[float("nan")] * 5)
        return EpochRecord(report.samples, 0.0, metrics, report.update_s, report.predict_s)
