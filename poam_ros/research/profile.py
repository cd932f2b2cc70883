"""Times of one update, one prediction and one map of a model, part by part."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from ..core.errors import InputError
from ..core.geometry import Grid
from ..core.process import configure_process
from ..models.mapper import BathymetricMapper
from ..models.native.attentive import BACKEND
from ..models.registry import ModelSettings
from ..simulation.world.terrain import WORKSPACE, load_terrain

#: Samples in one batch before the measurement; rounds that do not count.
FILL, WARM_UP = 1500, 2
#: Operations that are timed as a whole, by wall clock and by CPU time of the process.
WHOLES = ("update", "predict", "map")


@dataclass(frozen=True)
class ProfileSettings:
    """What is measured.

    Attributes:
        method: of the model.
        samples: in the model before the measurement.
        batch: new samples in an update.
        queries: points of a prediction.
        grid: a map has ``grid`` x ``grid`` cells.
        repeats: number of measurements of each.
        model: its settings.
        seed: of all random draws.

    Raises:
        InputError: a number is less than 1.
    """

    samples: int = 2000
    batch: int = 22
    queries: int = 4500
    grid: int = 120
    repeats: int = 10
    model: ModelSettings = field(default_factory=ModelSettings)
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("samples", "batch", "queries", "grid", "repeats"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected at least 1, got {getattr(self, name)}")


def profile(settings: ProfileSettings) -> dict[str, Any]:
    """Medians over the repeats, after a warm-up: wall times ``*_s`` and CPU times ``*_cpu_s``.

    ``*_spread``: half the interquartile range. Pings are scattered over the generated seamounts.
    """
    configure_process(settings.model.threads)
    mapper = BathymetricMapper(WORKSPACE, settings.model, settings.seed)
    terrain, rng = (
        load_terrain("seamounts", seed=settings.seed),
        np.random.default_rng(settings.seed),
    )

    def batch(count: int) -> tuple[np.ndarray, np.ndarray]:
        xy = WORKSPACE.sample(count, rng)
        return xy, terrain.elevation_at(xy) + rng.normal(size=count)

    while (missing := settings.samples - mapper.samples) > 0:
        mapper.update(*batch(min(FILL, missing)))
    grid = Grid.nodes(WORKSPACE, settings.grid, settings.grid)
    queries = WORKSPACE.sample(settings.queries, rng)
    rounds = [
        _round(mapper, batch(settings.batch), queries, grid)
        for _ in range(WARM_UP + settings.repeats)
    ][WARM_UP:]
    times = {name: [r[name] for r in rounds] for name in rounds[0]}
    return {
        "method": settings.model.method,
        "samples": settings.samples,
        "inducing": len(mapper.support),
        **{name: getattr(settings, name) for name in ("batch", "queries", "grid")},
        "threads": settings.model.threads,
        "device": settings.model.device,
        "backend": BACKEND,
        **{name: median(values) for name, values in times.items()},
        **{f"{name.removesuffix('_s')}_spread": _spread(v) for name, v in times.items()},
    }


def _round(
    mapper: BathymetricMapper, new: tuple[np.ndarray, np.ndarray], queries: np.ndarray, grid: Grid
) -> dict[str, float]:
    """Times of one update with its parts, one prediction and one map, in s."""
    times: dict[str, float] = {}

    def update() -> None:
        report = mapper.update(*new)
        times.update((f"{part}_s", seconds) for part, seconds in report.seconds.items())

    calls: dict[str, Callable[[], object]] = {
        "update": update,
        "predict": lambda: mapper.predict(queries),
        "map": lambda: mapper.map(grid),
    }
    for name, call in calls.items():
        wall, cpu = perf_counter(), process_time()
        call()
        times[f"{name}_s"] = perf_counter() - wall
        times[f"{name}_cpu_s"] = process_time() - cpu
    return times


def _spread(values: Sequence[float]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 2


def machine(settings: ProfileSettings) -> str:
    """The machine in one line: kernel, device, threads, BLAS and processor."""
    blas = {f"{p['internal_api']} {p.get('architecture') or ''}".strip() for p in threadpool_info()}
    return (
        f"kernel: {BACKEND}, device: {settings.model.device}, "
        f"threads: {settings.model.threads}, BLAS: {', '.join(sorted(blas))}, {platform.machine()}"
    )


def table(result: dict[str, Any]) -> str:
    """The results of one case as a table, in ms."""
    lines = [
        "{method}: samples {samples}, inducing {inducing}, batch {batch}".format(**result),
        f"{'':12}{'wall ms':>16}{'CPU ms':>16}",
    ]
    labels = {"predict": f"{result['queries']} points", "map": "{0} x {0}".format(result["grid"])}
    names = [n.removesuffix("_s") for n in result if n.endswith("_s") and "_cpu" not in n]
    for name in sorted(names, key=WHOLES.__contains__):  # the parts of an update, then the wholes
        cells = _cell(result, name) + _cell(result, f"{name}_cpu")
        lines.append(f"{labels.get(name, name):12}{cells}".rstrip())
    return "\n".join(lines)


def _cell(result: dict[str, Any], name: str) -> str:
    """A median and its spread in ms; blank if not measured."""
    if f"{name}_s" not in result:
        return ""
    return f"{1e3 * result[f'{name}_s']:.1f} +-{1e3 * result[f'{name}_spread']:5.1f}".rjust(16)
