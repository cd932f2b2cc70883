"""Comparison of a sweep's runs: read from CSV files, averaged over samples and seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.files import within
from ..core.maps import ElevationMap
from ..models.registry import MODELS
from ..outputs.folder import RUN_COLUMNS, read_map, read_records, read_table
from .configuration import read_metadata

#: Columns of epochs.csv that are averaged.
METRICS = ("smse", "msll", "rmse", "mae", "nlpd", "update_s", "predict_s")

#: Samples over which the paper averages (Table 1).
PAPER_SPAN = (1000.0, 5000.0)

_KERNELS = {"rbf": "RBF", "attentive": "AK"}


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


@dataclass(frozen=True)
class FinishedRun:
    """A finished run; ``epochs``: the columns of its epochs.csv, each [epochs]."""

    environment: str
    method: str
    pilot: str
    planner: str
    seed: int
    folder: Path
    epochs: dict[str, np.ndarray]

    @property
    def samples(self) -> np.ndarray:
        """Samples in the map after each epoch, ascending, [epochs]."""
        return self.epochs["samples"]

    @cached_property
    def map(self) -> ElevationMap:
        """The final map. Raises an InputError if its file is missing or broken."""
        return read_map(self.folder / "map.npz")


@dataclass(frozen=True)
class Statistic:
    """Mean and standard deviation (of n - 1) over ``seeds`` runs; no deviation of a single one."""

    mean: float
    std: float | None
    seeds: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Statistic | None:
        """Of the runs' values; None without any."""
        numbers = [float(value) for value in values]
        std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
        return cls(float(np.mean(numbers)), std, len(numbers)) if numbers else None


@dataclass(frozen=True)
class Comparison:
    """All runs of one pilot survey and one planner."""

    pilot: str
    planner: str
    runs: tuple[FinishedRun, ...]

    @cached_property
    def environments(self) -> list[str]:
        """In the order of the sweep."""
        return list(dict.fromkeys(run.environment for run in self.runs))

    @cached_property
    def methods(self) -> list[str]:
        """In the order of the sweep."""
        return list(dict.fromkeys(run.method for run in self.runs))

    def of(self, environment: str, method: str | None = None) -> list[FinishedRun]:
        """The runs in an environment, of one method or all, by seed."""
        runs = [
            run for run in self.runs
            if run.environment == environment and method in (None, run.method)
        ]  # fmt: skip
        return sorted(runs, key=lambda run: run.seed)

    def shown(self, environment: str) -> dict[str, FinishedRun]:
        """The run of each method that is drawn: of the first common seed, or of its own first seed.

        Methods are in the order of the sweep.
        """
        of_method = {name: self.of(environment, name) for name in self.methods}
        of_method = {name: runs for name, runs in of_method.items() if runs}
        common = set.intersection(*({run.seed for run in runs} for runs in of_method.values()))
        return {
            name: next((run for run in runs if common and run.seed == min(common)), runs[0])
            for name, runs in of_method.items()
        }

    @cached_property
    def span(self) -> tuple[float, float]:
        """Span of samples to average over: the paper's, up to the end of the longest run; if a run
        does not reach it, the span that all runs have; of zero length if there is none."""
        start, end = PAPER_SPAN
        if all(run.samples[0] <= start < run.samples[-1] for run in self.runs):
            return start, min(end, max(float(run.samples[-1]) for run in self.runs))
        first = max(float(run.samples[0]) for run in self.runs)
        return first, max(first, min(float(run.samples[-1]) for run in self.runs))

    def average(self, environment: str, method: str, metric: str) -> Statistic | None:
        """Over seeds, of a metric's average over the span; None if the method has no run there.

        With a span of zero length: the metric at the last epoch.
        """
        first, last = self.span
        if not first < last:
            return self.final(environment, method, metric)
        return Statistic.of(
            average_over_samples(run.samples, run.epochs[metric], first, last)
            for run in self.of(environment, method)
        )

    def final(self, environment: str, method: str, metric: str) -> Statistic | None:
        """Over seeds, of a metric at the last epoch; None if the method has no run there."""
        return Statistic.of(run.epochs[metric][-1] for run in self.of(environment, method))


def method_label(method: str) -> str:
    """A method's name in figures and tables: ``poam:rbf`` is POAM (RBF), ``module:name`` itself."""
    name, _, kernel = method.partition(":")
    if kernel and name not in list(MODELS):
        return method
    label = name.upper()
    return f"{label} ({_KERNELS.get(kernel, kernel.capitalize())})" if kernel else label


def read_comparisons(folder: Path) -> list[Comparison]:
    """The sweep in ``folder``, a comparison for each pilot and planner, in the sweep's order.

    Raises:
        InputError: if there is no finished run, a file is missing or broken, or the folder has the
            format of another version.
    """
    path = folder / "runs.csv"
    if not path.is_file():
        raise InputError(f"{folder}: expected the folder of a benchmark, with runs.csv in it")
    if (folder / "sweep.yaml").is_file():
        read_metadata(folder / "sweep.yaml")
    records = read_records(path, RUN_COLUMNS)
    if not records:
        raise InputError(f"{path}: expected at least one finished run, got none")
    seen: set[tuple[Any, ...]] = set()
    groups: dict[tuple[str, str], list[FinishedRun]] = {}
    for run in [_read_run(path, record) for record in records]:
        key = run.environment, run.method, run.pilot, run.planner, run.seed
        if key in seen:
            raise InputError(
                f"{path}: expected every run once, got {' '.join(map(str, key))} twice"
            )
        seen.add(key)
        groups.setdefault((run.pilot, run.planner), []).append(run)
    return [Comparison(*names, tuple(group)) for names, group in groups.items()]


def _read_run(index: Path, record: dict[str, str]) -> FinishedRun:
    folder = within(index.parent, record["folder"])
    for name in ("pilot", "planner"):  # they become parts of file names
        within(folder, record[name])
    if not record["seed"].isdecimal():
        raise InputError(f"{index}: expected a whole number as seed, got {record['seed']!r}")
    path = folder / "epochs.csv"
    epochs = read_table(path, ("samples", *METRICS))
    samples = epochs["samples"]
    if not len(samples) or not np.all(np.diff(samples) > 0):
        raise InputError(f"{path}: expected at least one epoch, and samples that increase")
    return FinishedRun(
        record["environment"], record["method"], record["pilot"], record["planner"],
        int(record["seed"]), folder, epochs,
    )  # fmt: skip
