"""Scores of a model or a published map against the known truth: the paper's metrics (Sec. V-A)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.clock import SECOND
from ..core.errors import InputError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap, Predicted
from .folder import EpochRecord, Metrics

POINTS = 50  # along each side of the evaluation grid (the paper's)
PENDING = 20  # maximum number of maps that wait for their report


def log_loss(z: np.ndarray, mean: np.ndarray | float, variance: np.ndarray | float) -> np.ndarray:
    """- log N(z; mean, variance), [N]."""
    return 0.5 * np.log(2 * np.pi * variance) + 0.5 * (z - mean) ** 2 / variance


def evaluate(
    mean: np.ndarray,
    variance: np.ndarray,
    truth: np.ndarray,
    target_mean: float,
    target_variance: float,
) -> Metrics:
    """Metrics of predictive marginals N(mean, variance) at points of known elevation ``truth``.

    ``mean``, ``variance`` and ``truth`` are arrays of one shape, in m, m^2 and m; the targets' mean
    and variance are those of all training targets so far.

    Raises:
        InputError: if the shapes differ, or a variance is not positive.
    """
    if not (mean.shape == variance.shape == truth.shape):
        raise InputError(
            f"evaluate: expected arrays of one shape, got {mean.shape}, {variance.shape}, "
            f"{truth.shape}"
        )
    if not (np.all(variance > 0) and target_variance > 0):
        raise InputError("evaluate: expected positive variances")
    squared = (mean - truth) ** 2
    mse = float(squared.mean())
    nlpd = float(log_loss(truth, mean, variance).mean())
    naive = float(log_loss(truth, target_mean, np.full_like(truth, target_variance)).mean())
    return Metrics(
        smse=mse / float(truth.var()),
        msll=nlpd - naive,
        rmse=mse**0.5,
        mae=float(np.abs(mean - truth).mean()),
        nlpd=nlpd,
    )


def average_over_samples(
    samples: np.ndarray, values: np.ndarray, first: float = 1000, last: float = 5000
) -> float:
    """Average of a metric's curve over a span of samples, linearly interpolated.

    A run that ends early is averaged up to its end.

    Raises:
        InputError: if the curve does not reach into the span.
    """
    last = min(last, float(samples[-1]))
    if not last > first or samples[0] > first:
        raise InputError(
            f"average: expected a curve across {first:g} samples, got {samples[0]:g} to "
            f"{samples[-1]:g}"
        )
    inside = samples[(samples > first) & (samples < last)]
    at = np.concatenate(([first], inside, [last]))
    heights = np.interp(at, samples, values)
    return float(np.sum(np.diff(at) * (heights[1:] + heights[:-1]) / 2) / (last - first))


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

    def score(self, predicted: Predicted, target_mean: float, target_variance: float) -> Metrics:
        """Metrics of a prediction at ``points``; raises as ``evaluate``."""
        mean, variance = predicted.mean, predicted.variance
        return evaluate(mean, variance, self._truth, target_mean, target_variance)


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


class EpochScores:
    """Scores each map once the mapper's report on it (with the same ``stamp_ns``) has arrived."""

    def __init__(self, workspace: Extent) -> None:
        self._workspace = workspace
        self._scorer: GridScorer | None = None
        self._maps: dict[int, ElevationMap] = {}
        self._reports: dict[int, MapReport] = {}
        self.began_ns: int | None = None  # ROS time at the start of the mission
        self._scored: list[tuple[int, EpochRecord]] = []  # with the maps' stamps

    @property
    def epochs(self) -> list[EpochRecord]:
        """Records of all scored maps; times count from the first map until the start is known."""
        scored = self._scored
        began_ns = scored[0][0] if scored and self.began_ns is None else self.began_ns or 0
        return [replace(epoch, time_s=(ns - began_ns) / SECOND) for ns, epoch in scored]

    def mission_began(self, stamp_ns: int) -> None:
        """The mission began at this ROS time; of several the earliest counts."""
        self.began_ns = min(stamp_ns, self.began_ns or stamp_ns)

    def set_truth(self, grid: Grid, elevation: np.ndarray) -> None:
        """The ground truth, elevation [rows, columns] in m."""
        self._scorer = GridScorer(self._workspace, lambda xy: grid.interpolate(elevation, xy))
        self._score()

    def add_map(self, received: ElevationMap) -> None:
        self._maps[received.stamp_ns] = received
        self._score()

    def add_report(self, report: MapReport) -> None:
        self._reports[report.stamp_ns] = report
        self._score()

    def _score(self) -> None:
        """Score every map that has its report, in order."""
        scorer = self._scorer
        for stamp_ns in sorted(self._maps.keys() & self._reports.keys()) if scorer else ():
            assert scorer is not None
            received, report = self._maps.pop(stamp_ns), self._reports.pop(stamp_ns)
            if self._scored and report.samples <= self._scored[-1][1].samples:
                continue
            layers = (received.mean, received.variance)
            drawn = Predicted(*(received.grid.interpolate(z, scorer.points) for z in layers))
            try:
                metrics = scorer.score(drawn, report.target_mean, report.target_variance)
            except InputError:  # a variance is not positive: the row says so
                metrics = Metrics(*[float("nan")] * 5)
            epoch = EpochRecord(report.samples, 0.0, metrics, report.update_s, report.predict_s)
            self._scored.append((stamp_ns, epoch))
        for waiting in (self._maps, self._reports):
            while len(waiting) > PENDING:
                del waiting[min(waiting)]
