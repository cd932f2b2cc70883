"""Published maps against the known truth: the rows of epochs.csv. No rclpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from ..clock import SECOND
from ..errors import InputError
from .metrics import Metrics, evaluate
from .folder import EpochRecord
from ..geometry import Extent, Grid

if TYPE_CHECKING:
    from ..ros.messages import ReceivedMap

POINTS = 50  # along each side of the evaluation grid (the paper's)
PENDING = 20  # maps kept for a report that is still under way


class EpochLog:
    """Scores each map as soon as the mapper's report on it is there as well.

    The map says mean and variance; the report (a diagnostic status of the mapper with the same
    ``map_stamp_ns``) says of how many samples, and their mean and variance, which MSLL needs.
    """

    def __init__(self, workspace: Extent) -> None:
        self._points = Grid.nodes(workspace, POINTS, POINTS).points
        self._truth: np.ndarray | None = None
        self._maps: dict[int, ReceivedMap] = {}
        self._reports: dict[int, Mapping[str, str]] = {}
        self.began: float | None = None  # ROS time of the mission's begin, in s
        self.epochs: list[EpochRecord] = []

    def set_truth(self, grid: Grid, elevation: np.ndarray) -> None:
        """The ground truth, elevation [rows, columns] in m."""
        self._truth = grid.interpolate(elevation, self._points)
        self._score()

    def add_map(self, received: ReceivedMap) -> None:
        """A published map."""
        self._maps[received.stamp_ns] = received
        self._score()

    def add_report(self, report: Mapping[str, str]) -> None:
        """The values of a diagnostic status of the mapper; ignored where they name no map."""
        if report.get("map_stamp_ns"):
            self._reports[int(report["map_stamp_ns"])] = report
            self._score()

    def _score(self) -> None:
        """Make an epoch of every map that has its report, in order."""
        truth = self._truth
        if truth is not None:
            for stamp_ns in sorted(self._maps.keys() & self._reports.keys()):
                received, report = self._maps.pop(stamp_ns), self._reports.pop(stamp_ns)
                if not self.epochs or int(report["samples"]) > self.epochs[-1].samples:
                    self.epochs.append(self._epoch(received, report, truth))
        for waiting in (self._maps, self._reports):
            while len(waiting) > PENDING:
                del waiting[min(waiting)]

    def _epoch(
        self, received: ReceivedMap, report: Mapping[str, str], truth: np.ndarray
    ) -> EpochRecord:
        try:
            metrics = evaluate(
                received.grid.interpolate(received.mean, self._points),
                received.grid.interpolate(received.variance, self._points),
                truth,
                float(report["target_mean"]),
                float(report["target_variance"]),
            )
        except InputError:  # a map with a variance that is none: the row says so
            metrics = Metrics(*[float("nan")] * 5)
        began = received.stamp_ns / SECOND if self.began is None else self.began
        return EpochRecord(
            int(report["samples"]),
            received.stamp_ns / SECOND - began,
            metrics,
            float(report["update_s"]),
            float(report["predict_s"]),
        )
