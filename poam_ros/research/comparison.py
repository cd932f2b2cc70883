"""Comparison of a sweep's runs: read from CSV files, averaged over samples and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.files import within
from ..core.maps import ElevationMap
from ..models.registry import MODELS
from ..outputs.folder import EPOCH_COLUMNS, RUN_COLUMNS, read_map, read_records, read_table
from .configuration import read_metadata

#: Columns of epochs.csv that are averaged.
METRICS = tuple(name for name in EPOCH_COLUMNS if name not in ("samples", "time_s"))
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
    def of(cls, values: Iterable[float]) -> Statistic:
        """Of the runs' values."""
        numbers = [float(value) for value in values]
        std = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None
        return cls(float(np.mean(numbers)), std, len(numbers))


@dataclass(frozen=True)
class Comparison:
    """All runs of one pilot survey and one planner: by environment and method, which are in the
    order of the sweep, by seed."""

    pilot: str
    planner: str
    runs: Mapping[str, Mapping[str, list[FinishedRun]]]

    @cached_property
    def methods(self) -> list[str]:
        """In the order of the sweep."""
        return list(dict.fromkeys(method for runs in self.runs.values() for method in runs))

    def shown(self, environment: str) -> dict[str, FinishedRun]:
        """The run of each method that is drawn: of the first common seed, or of its own first seed.

        Methods are in the order of the sweep.
        """
        of_method = self.runs[environment]
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
        ends = [
            run.samples[[0, -1]].tolist()
            for of_method in self.runs.values() for runs in of_method.values() for run in runs
        ]  # fmt: skip
        firsts, lasts = zip(*ends, strict=True)
        if all(first <= start < last for first, last in ends):
            return start, min(end, max(lasts))
        return max(firsts), max(*firsts, min(lasts))

    def average(self, environment: str, method: str, metric: str) -> Statistic:
        """Over seeds, of a metric's average over the span.

        With a span of zero length: the metric at the last epoch.
        """
        first, last = self.span
        if not first < last:
            return self.final(environment, method, metric)
        return Statistic.of(
            average_over_samples(run.samples, run.epochs[metric], first, last)
            for run in self.runs[environment][method]
        )

    def final(self, environment: str, method: str, metric: str) -> Statistic:
        """Over seeds, of a metric at the last epoch."""
        return Statistic.of(run.epochs[metric][-1] for run in self.runs[environment][method])


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
    groups: dict[tuple[str, str], dict[str, dict[str, list[FinishedRun]]]] = {}
    for record in records:
        environment, method, run = record["environment"], record["method"], _read_run(path, record)
        group = groups.setdefault((record["pilot"], record["planner"]), {})
        runs = group.setdefault(environment, {}).setdefault(method, [])
        if run.seed in [other.seed for other in runs]:
            words = (environment, method, record["pilot"], record["planner"], str(run.seed))
            raise InputError(f"{path}: expected every run once, got {' '.join(words)} twice")
        runs.append(run)
        runs.sort(key=lambda run: run.seed)
    return [Comparison(*names, group) for names, group in groups.items()]


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
    return FinishedRun(int(record["seed"]), folder, epochs)
