"""Times of one update, one prediction and one map, part by part: of a mapper and a reference."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info

from ...core.errors import InputError
from ...core.files import atomic_write
from ...core.geometry import Grid
from ...core.process import configure_process
from ...models.data import Dataset
from ...models.mapper import BathymetricMapper
from ...models.native.attentive import BACKEND
from ...models.registry import MODELS, ModelSettings, NeighbourOptions, SparseOptions
from ...simulation.world.terrain import WORKSPACE, load_terrain
from . import rates as counts
from .rates import MachineRates, OperationCount
from .reference import ReferencePOAM

#: Operations that are timed as a whole, by wall clock and by CPU time of the process.
WHOLES = ("update", "predict", "map")
FILL = 1500  # samples in one batch before the measurement


@dataclass(frozen=True)
class ProfileSettings:
    """What is measured.

    Attributes:
        method: of the model.
        samples: in the model before the measurement.
        inducing: maximum number of inducing inputs, of sparse models and the reference.
        batch: new samples in an update.
        queries: points of a prediction.
        grid: a map has ``grid`` x ``grid`` cells.
        repeats: number of measurements of each.
        threads, device, seed: of the model.
        reference: measure GPyTorch in turn with POAM.
    """

    method: str = "poam"
    samples: int = 2000
    inducing: int = 500
    batch: int = 22
    queries: int = 4500
    grid: int = 120
    repeats: int = 10
    threads: int = 1
    device: str = "cpu"
    seed: int = 0
    reference: bool = False

    def __post_init__(self) -> None:
        if self.method not in MODELS:
            raise InputError(f"method: expected one of {', '.join(MODELS)}, got {self.method!r}")
        for name in ("samples", "inducing", "batch", "queries", "grid", "repeats", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.reference and self.samples < self.inducing:
            raise InputError(
                f"reference: expected at least as many samples as inducing inputs, "
                f"got {self.samples} and {self.inducing}"
            )

    @property
    def model(self) -> ModelSettings:
        """Settings of the measured model."""
        sparse = MODELS[self.method].options is SparseOptions
        options = SparseOptions(num_inducing=self.inducing) if sparse else None
        return ModelSettings(self.method, options, self.threads, self.device)


class ProfileSetup:
    """A mapper, and optionally the reference, on the same pings."""

    def __init__(self, settings: ProfileSettings) -> None:
        self.settings = settings
        self.mapper = BathymetricMapper(WORKSPACE, settings.model, settings.seed)
        self._pings = _pings(settings.seed)
        self._grid = Grid.nodes(WORKSPACE, settings.grid, settings.grid)
        self._queries = WORKSPACE.sample(settings.queries, np.random.default_rng(settings.seed))
        self._reference: ReferencePOAM | None = None
        if settings.reference:
            o = SparseOptions()
            lengthscales = torch.linspace(*o.lengthscales, o.num_lengthscales)
            torch.manual_seed(settings.seed)
            self._reference = ReferencePOAM(
                settings.inducing, lengthscales.double(), o.steps, o.minibatch
            )
        self._offset, self._deviation = 0.0, 1.0

    def fill(self) -> None:
        """Add the initial samples."""
        most = max(FILL, self.settings.inducing)
        while (missing := self.settings.samples - self.mapper.samples) > 0:
            xy, z = _next_batch(self._pings, min(most, missing))
            if not self.mapper.initialised:
                self._offset, self._deviation = z.mean(), z.std() or 1.0
            self.mapper.update(xy, z)
            if self._reference:
                self._reference.update(self._scaled(xy, z))

    def round(self) -> dict[str, float]:
        """Times of one update, one prediction and one map, ours and the reference's in turn."""
        times: dict[str, float] = {}
        xy, z = _next_batch(self._pings, self.settings.batch)

        def update() -> None:
            report = self.mapper.update(xy, z)
            times.update((f"{part}_s", seconds) for part, seconds in report.seconds.items())

        ours: dict[str, Callable[[], object]] = {
            "update": update,
            "predict": lambda: self.mapper.predict(self._queries),
            "map": lambda: self.mapper.map(self._grid),
        }
        for name, call in ours.items():
            times[f"{name}_s"], times[f"{name}_cpu_s"] = _timed(call)
            if name == "update":
                busy = times["update_cpu_s"] / times["update_s"]
                parts = [part for part in times if not part.startswith("update")]
                times |= {f"{part[:-2]}_cpu_s": busy * times[part] for part in parts}
            if self._reference:
                times |= self._time_reference(name, xy, z)
        return times

    def _time_reference(self, name: str, xy: np.ndarray, z: np.ndarray) -> dict[str, float]:
        """The reference's CPU time of one whole; of its update also the parts."""
        reference, new = self._reference, self._scaled(xy, z)
        assert reference is not None
        if name != "update":
            points = self._queries if name == "predict" else self._grid.points
            X = self._scaled(points, np.zeros(len(points))).X
            return {f"reference_{name}_cpu_s": _timed(lambda: reference.predict(X))[1]}
        calls: dict[str, Callable[[], object]] = {
            "inducing": lambda: reference.select(new),
            "variational": lambda: reference.update_variational(new),
            "training": reference.train,
        }
        parts = {f"reference_{part}_cpu_s": _timed(call)[1] for part, call in calls.items()}
        return parts | {"reference_update_cpu_s": sum(parts.values())}

    def _scaled(self, xy: np.ndarray, z: np.ndarray) -> Dataset:
        X = (xy - WORKSPACE.centre) / (WORKSPACE.size.max() / 2)
        return Dataset(torch.from_numpy(X), torch.from_numpy((z - self._offset) / self._deviation))


def _next_batch(
    pings: Iterator[tuple[np.ndarray, float]], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The next ``count`` pings, xy [count, 2] and z [count]."""
    xy, z = zip(*islice(pings, count), strict=True)
    return np.array(xy), np.array(z)


def _pings(seed: int) -> Iterator[tuple[np.ndarray, float]]:
    terrain, rng = load_terrain("seamounts", seed=seed), np.random.default_rng(seed)
    while True:
        xy = WORKSPACE.sample(FILL, rng)
        yield from zip(xy, terrain.elevation_at(xy) + rng.normal(size=FILL), strict=True)


def _timed(call: Callable[[], object]) -> tuple[float, float]:
    """Wall time and CPU time of the process, in s."""
    wall, cpu = perf_counter(), process_time()
    call()
    return perf_counter() - wall, process_time() - cpu


#: Settings that may be swept, and the labels of their axes.
SWEPT = {"samples": "samples", "inducing": "inducing points", "grid": "map's columns and rows"}
ASPECT = (4.6, 3.6)  # inches of one panel


def draw_profile(results: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw a panel for each setting that takes several values, with the others at their first.

    Raises:
        ImportError: without matplotlib.
    """
    from matplotlib.figure import Figure

    first = results[0]
    swept = [name for name in SWEPT if len({r[name] for r in results}) > 1] or ["samples"]
    figure = Figure(figsize=(ASPECT[0] * len(swept), ASPECT[1]), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(swept), squeeze=False)[0], swept, strict=True):
        others = [other for other in SWEPT if other != name]
        chosen = [r for r in results if all(r[other] == first[other] for other in others)]
        for whole in WHOLES:
            _curve(axes, chosen, name, f"{whole}_cpu", whole)
            compared = [r for r in chosen if f"{whole}_ratio" in r]
            if compared:
                _curve(axes, compared, name, f"reference_{whole}_cpu", f"{whole}, reference")
        axes.set(xscale="log", yscale="log", xlabel=SWEPT[name], ylabel="CPU time (ms)")
        axes.grid(which="both", alpha=0.25)
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, fontsize="small"
    )
    with atomic_write(path) as unfinished:
        figure.savefig(unfinished, dpi=110, format=path.suffix[1:] or "png")


def _curve(axes: Any, results: Sequence[dict[str, Any]], at: str, name: str, label: str) -> None:
    results = sorted(results, key=lambda r: r[at])
    axes.errorbar(
        [r[at] for r in results],
        [1e3 * r[f"{name}_s"] for r in results],
        [1e3 * r[f"{name}_spread"] for r in results],
        marker="o", markersize=4, capsize=2, label=label,
        color=f"C{WHOLES.index(label.split(',')[0])}",
        linestyle="--" if "reference" in label else "-",
    )  # fmt: skip


WARM_UP = 2  # rounds that do not count


def profile(settings: ProfileSettings, rates: MachineRates) -> dict[str, Any]:
    """Medians over the repeats, after warm-up: wall times ``*_s`` and CPU times ``*_cpu_s``.

    The CPU time of an update is divided among its parts in proportion to their wall times. The
    spread is half the interquartile range. ``*_bound_s`` is the time of the unavoidable operations
    at the machine's rates, for POAM and ``nngp``. The reference has CPU times and ``*_ratio``, the
    median ratio of its CPU time to ours in the same round. Pings are scattered over the generated
    seamounts.
    """
    configure_process(settings.threads)
    setup = ProfileSetup(settings)
    setup.fill()
    rounds = [setup.round() for _ in range(WARM_UP + settings.repeats)][WARM_UP:]
    times = {name: [r[name] for r in rounds] for name in rounds[0]}
    result: dict[str, Any] = {
        "method": settings.method,
        "samples": settings.samples,
        "inducing": len(setup.mapper.support),
        **{name: getattr(settings, name) for name in ("batch", "queries", "grid", "threads")},
        "device": settings.device,
        "backend": BACKEND,
        **{name: median(values) for name, values in times.items()},
        **{f"{name.removesuffix('_s')}_spread": _spread(v) for name, v in times.items()},
        "gflops": rates.flops / 1e9,
        "exponentials_per_ns": rates.exponentials / 1e9,
        **_bounds(settings, rates),
    }
    if settings.reference:
        for name in WHOLES:
            pairs = zip(times[f"reference_{name}_cpu_s"], times[f"{name}_cpu_s"], strict=True)
            result[f"{name}_ratio"] = median(theirs / ours for theirs, ours in pairs)
    return result


def machine(settings: ProfileSettings, rates: MachineRates) -> str:
    """The machine, in two lines: kernel, threads, BLAS, processor and its rates."""
    blas = {f"{p['internal_api']} {p.get('architecture') or ''}".strip() for p in threadpool_info()}
    return (
        f"kernel: {BACKEND}, device: {settings.device}, threads: {settings.threads}, "
        f"BLAS: {', '.join(sorted(blas))}, {platform.machine()}\n"
        f"one thread: {rates.flops / 1e9:.1f} GFlop/s (DGEMM of 500), "
        f"{rates.exponentials / 1e9:.2f} exponentials per ns"
    )


def table(result: dict[str, Any]) -> str:
    """The results of one case as a table, in ms."""
    reference = "update_ratio" in result
    head = f"{'':12}{'wall ms':>16}{'CPU ms':>16}{'bound':>9}{'reached':>9}"
    lines = [
        "{method}: samples {samples}, inducing {inducing}, batch {batch}".format(**result),
        head + (f"{'reference':>18}{'ratio':>8}" if reference else ""),
    ]
    labels = {"predict": f"{result['queries']} points", "map": "{0} x {0}".format(result["grid"])}
    for name in _timed_names(result):
        cells = _cell(result, name) + _cell(result, f"{name}_cpu")
        bound = result.get(f"{name}_bound_s")
        if bound is None:
            cells += " " * 18
        else:
            cells += f"{1e3 * bound:9.1f}{bound / result[f'{name}_cpu_s']:9.0%}"
        if reference:
            cells += _cell(result, f"reference_{name}_cpu", 18)
            cells += f"{result[f'{name}_ratio']:7.1f}x" if name in WHOLES else ""
        lines.append(f"{labels.get(name, name):12}{cells}".rstrip())
    return "\n".join(lines)


def _timed_names(result: dict[str, Any]) -> list[str]:
    """Names of the mapper's times: the parts of an update in order, then the wholes."""
    suffix = "_cpu_s"
    names = [name.removesuffix(suffix) for name in result if name.endswith(suffix)]
    parts = [n for n in names if not n.startswith("reference_") and n not in WHOLES]
    return [*parts, *WHOLES]


def _bounds(settings: ProfileSettings, rates: MachineRates) -> dict[str, float]:
    """Lower bounds of the methods whose operations are counted; empty for others."""
    options, grid = settings.model.options, settings.grid
    if isinstance(options, NeighbourOptions):
        work = {
            "update": counts.neighbour_update(options, settings.samples),
            "predict": counts.neighbour_prediction(options, settings.queries),
            "map": counts.neighbour_prediction(options, grid * grid),
        }
        work["training"] = work["update"]
    elif settings.method == "poam":
        work = _sparse_work(settings, options)
    else:
        return {}
    bounds = {f"{name}_bound_s": w.seconds(rates) for name, w in work.items()}
    flops = {f"{name}_gflop": work[name].flops / 1e9 for name in WHOLES}
    return bounds | flops | {f"{n}_exponentials": work[n].exponentials for n in WHOLES}


def _sparse_work(settings: ProfileSettings, options: SparseOptions) -> dict[str, OperationCount]:
    M, bases = settings.inducing, options.num_lengthscales
    return {
        **counts.update_work(M, settings.batch, options.minibatch, options.steps, bases),
        "predict": counts.prediction_work(M, settings.queries, bases),
        "map": counts.map_work(M, settings.grid, settings.grid, bases),
    }


def _spread(values: Sequence[float]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 2


def _cell(result: dict[str, Any], name: str, width: int = 16) -> str:
    """A median and its spread in ms; blank if not measured."""
    if f"{name}_s" not in result:
        return " " * width
    return f"{1e3 * result[f'{name}_s']:.1f} +-{1e3 * result[f'{name}_spread']:5.1f}".rjust(width)
