"""What one update, one prediction and one map cost, part by part."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_info

from ..errors import InputError
from ..geometry import Grid
from ..gp.data import Dataset
from ..gp.kernels.native import BACKEND
from ..gp.models import ModelSettings, SparseOptions
from ..mapping import BathymetricMapper
from ..process import prepare
from ..world.terrain import WORKSPACE, load_terrain
from .rates import Rates, map_work, prediction_work, update_work
from .reference import ReferencePOAM

#: Parts of an update that are timed, as in ``UpdateReport.seconds``.
PARTS = ("inducing", "variational", "training")
#: What is timed as a whole, by wall clock and by the CPU time of the process.
WHOLES = ("update", "predict", "map")
FILL = 1500  # samples in one batch before the measurement
WARM_UP = 2  # updates and predictions that do not count

Times = dict[str, list[float]]


@dataclass(frozen=True)
class ProfileSettings:
    """What is measured: ``samples`` there are before, ``batch`` come with an update, ``queries``
    points and a map of ``grid`` x ``grid`` are predicted; each ``repeats`` times. With
    ``reference`` GPyTorch does the same in turn."""

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
        for name in ("samples", "inducing", "batch", "queries", "grid", "repeats", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.reference and self.samples < self.inducing:
            raise InputError(
                f"reference: expected at least as many samples as inducing points, "
                f"got {self.samples} and {self.inducing}"
            )


def profile(settings: ProfileSettings, rates: Rates) -> dict[str, Any]:
    """Medians over the repeats, after warm-up: wall times ``*_s`` and CPU times ``*_cpu_s``.

    CPU times of an update's parts are its own, shared out like the wall time. The spread is half
    the range between the quartiles. ``*_bound_s`` is the time that the unavoidable operations take
    at the machine's rates. Of the reference there are CPU times and ``*_ratio``, the median of its
    CPU time over ours in the same round. Pings are scattered over the generated seamounts.
    """
    options = SparseOptions(num_inducing=settings.inducing)
    model = ModelSettings(options=options, threads=settings.threads, device=settings.device)
    prepare(model.threads)
    contest = _Contest(settings, model)
    contest.fill()
    rounds = [contest.round() for _ in range(WARM_UP + settings.repeats)][WARM_UP:]
    times = {name: [r[name] for r in rounds] for name in rounds[0]}
    result: dict[str, Any] = {
        "samples": settings.samples,
        "inducing": len(contest.mapper.support),
        **{name: getattr(settings, name) for name in ("batch", "queries", "grid", "threads")},
        "device": settings.device,
        "backend": BACKEND,
        **{name: median(values) for name, values in times.items()},
        **{f"{name.removesuffix('_s')}_spread": _spread(v) for name, v in times.items()},
        "gflops": rates.flops / 1e9,
        "exponentials_per_ns": rates.exponentials / 1e9,
        **_bounds(settings, options, rates),
    }
    if settings.reference:
        for name in WHOLES:
            pairs = zip(times[f"reference_{name}_cpu_s"], times[f"{name}_cpu_s"], strict=True)
            result[f"{name}_ratio"] = median(theirs / ours for theirs, ours in pairs)
    return result


def machine(settings: ProfileSettings, rates: Rates) -> str:
    """What it is measured on, in two lines: kernel, threads, BLAS, processor and its rates."""
    blas = {f"{p['internal_api']} {p.get('architecture') or ''}".strip() for p in threadpool_info()}
    return (
        f"kernel: {BACKEND}, device: {settings.device}, threads: {settings.threads}, "
        f"BLAS: {', '.join(sorted(blas))}, {platform.machine()}\n"
        f"one thread: {rates.flops / 1e9:.1f} GFlop/s (DGEMM of 500), "
        f"{rates.exponentials / 1e9:.2f} exponentials per ns"
    )


def table(result: dict[str, Any]) -> str:
    """One case for people, in ms."""
    reference = "update_ratio" in result
    head = f"{'':12}{'wall ms':>16}{'CPU ms':>16}{'bound':>9}{'reached':>9}"
    lines = [
        f"samples {result['samples']}, inducing {result['inducing']}, batch {result['batch']}",
        head + (f"{'reference':>18}{'ratio':>8}" if reference else ""),
    ]
    labels = {"predict": f"{result['queries']} points", "map": "{0} x {0}".format(result["grid"])}
    for name in (*PARTS, *WHOLES):
        cells = _cell(result, name) + _cell(result, f"{name}_cpu")
        bound = result[f"{name}_bound_s"]
        cells += f"{1e3 * bound:9.1f}{bound / result[f'{name}_cpu_s']:9.0%}"
        if reference:
            cells += _cell(result, f"reference_{name}_cpu", 18)
            cells += f"{result[f'{name}_ratio']:7.1f}x" if name in WHOLES else ""
        lines.append(f"{labels.get(name, name):12}{cells}".rstrip())
    return "\n".join(lines)


class _Contest:
    """A mapper, and with it the reference where that is asked for, on the same pings."""

    def __init__(self, settings: ProfileSettings, model: ModelSettings) -> None:
        self.settings = settings
        self.mapper = BathymetricMapper(WORKSPACE, model, settings.seed)
        self._pings = _pings(settings.seed)
        self._grid = Grid.nodes(WORKSPACE, settings.grid, settings.grid)
        self._queries = WORKSPACE.sample(settings.queries, np.random.default_rng(settings.seed))
        self._reference: ReferencePOAM | None = None
        if settings.reference:
            o: SparseOptions = model.options
            lengthscales = torch.linspace(o.min_lengthscale, o.max_lengthscale, o.num_lengthscales)
            torch.manual_seed(settings.seed)
            self._reference = ReferencePOAM(
                settings.inducing, lengthscales.double(), o.steps, o.minibatch
            )
        self._offset, self._deviation = 0.0, 1.0

    def fill(self) -> None:
        """The samples that are there before."""
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
            times.update((f"{part}_s", report.seconds[part]) for part in PARTS)

        ours: dict[str, Callable[[], object]] = {
            "update": update,
            "predict": lambda: self.mapper.predict(self._queries),
            "map": lambda: self.mapper.map(self._grid),
        }
        for name, call in ours.items():
            times[f"{name}_s"], times[f"{name}_cpu_s"] = _timed(call)
            if name == "update":
                busy = times["update_cpu_s"] / times["update_s"]
                times |= {f"{part}_cpu_s": busy * times[f"{part}_s"] for part in PARTS}
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


def _bounds(settings: ProfileSettings, model: SparseOptions, rates: Rates) -> dict[str, float]:
    M, bases = settings.inducing, model.num_lengthscales
    work = {
        **update_work(M, settings.batch, model.minibatch, model.steps, bases),
        "predict": prediction_work(M, settings.queries, bases),
        "map": map_work(M, settings.grid, settings.grid, bases),
    }
    bounds = {f"{name}_bound_s": w.seconds(rates) for name, w in work.items()}
    flops = {f"{name}_gflop": work[name].flops / 1e9 for name in WHOLES}
    return bounds | flops | {f"{n}_exponentials": work[n].exponentials for n in WHOLES}


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


def _spread(values: Sequence[float]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 2


def _cell(result: dict[str, Any], name: str, width: int = 16) -> str:
    """A median and its spread in ms; blank where that was not measured."""
    if f"{name}_s" not in result:
        return " " * width
    return f"{1e3 * result[f'{name}_s']:.1f} +-{1e3 * result[f'{name}_spread']:5.1f}".rjust(width)
