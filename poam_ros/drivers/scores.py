"""What the model of a mission in lock-step is worth after each batch, against the truth."""

from __future__ import annotations

from time import perf_counter

from ..geometry import Extent, Grid
from ..mapping import BathymetricMapper
from ..runs.folder import EpochRecord
from ..runs.metrics import evaluate
from ..survey.events import Learned
from ..world.terrain import Terrain

#: Points of the evaluation grid along each side (the paper's).
EVALUATION_POINTS = 50


class Scores:
    """Scores a model on a grid over the workspace, and keeps the records until they are taken."""

    def __init__(self, terrain: Terrain, workspace: Extent) -> None:
        self._points = Grid.nodes(workspace, EVALUATION_POINTS, EVALUATION_POINTS).points
        self._truth = terrain.elevation_at(self._points)
        self._records: list[EpochRecord] = []

    def add(self, mapper: BathymetricMapper, learned: Learned, time_s: float) -> None:
        """The model has learned a batch, at a mission time in s."""
        start = perf_counter()
        prediction = mapper.predict(self._points)
        predict_s = perf_counter() - start
        metrics = evaluate(prediction.mean, prediction.variance, self._truth, *learned.targets)
        report = learned.report
        self._records.append(
            EpochRecord(report.samples, time_s, metrics, report.update_s, predict_s)
        )

    def take(self) -> list[EpochRecord]:
        """The records since the last time."""
        records, self._records = self._records, []
        return records
