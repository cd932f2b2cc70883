"""What one update and one prediction cost, part by part."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from ..errors import InputError
from ..gp.native import BACKEND
from ..mapping import BathymetricMapper, ModelSettings
from ..world.terrain import WORKSPACE, load_terrain

#: Parts of an update that are timed, as in ``UpdateReport``.
PARTS = ("inducing_s", "variational_s", "training_s", "update_s")
FILL = 1500  # samples in one batch before the measurement
WARM_UP = 2  # updates and predictions that do not count


@dataclass(frozen=True)
class ProfileSettings:
    """What is measured: ``samples`` there are before, ``batch`` come with an update, ``queries``
    points are predicted; each ``repeats`` times."""

    samples: int = 2000
    inducing: int = 500
    batch: int = 22
    queries: int = 4500
    repeats: int = 10
    threads: int = 1
    device: str = "cpu"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("samples", "inducing", "batch", "queries", "repeats", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}: expected at least 1, got {getattr(self, name)}")


def profile(settings: ProfileSettings) -> dict[str, Any]:
    """Median wall times (s) of the parts of an update and of a prediction, after warm-up.

    The spread is half the range between the quartiles. Pings are scattered over the generated
    seamounts.
    """
    model = ModelSettings(
        num_inducing=settings.inducing, threads=settings.threads, device=settings.device
    )
    mapper = BathymetricMapper(WORKSPACE, model, settings.seed)
    pings = _pings(settings.seed)
    while mapper.samples < settings.samples:
        mapper.update(*_next_batch(pings, min(FILL, settings.samples - mapper.samples)))
    rounds = range(WARM_UP + settings.repeats)
    reports = [mapper.update(*_next_batch(pings, settings.batch)) for _ in rounds][WARM_UP:]
    times = {part: [getattr(report, part) for report in reports] for part in PARTS}
    xy = WORKSPACE.sample(settings.queries, np.random.default_rng(settings.seed))
    times["predict_s"] = [_timed(lambda: mapper.predict(xy)) for _ in rounds][WARM_UP:]
    return {
        "samples": settings.samples,
        "inducing": reports[-1].inducing,
        "batch": settings.batch,
        "queries": settings.queries,
        **{part: median(values) for part, values in times.items()},
        **{f"{part}_spread": _spread(values) for part, values in times.items()},
    }


def machine(settings: ProfileSettings) -> str:
    """What it is measured on, in a line: kernel, threads, BLAS, processor."""
    blas = {f"{p['internal_api']} {p.get('architecture') or ''}".strip() for p in threadpool_info()}
    return (
        f"kernel: {BACKEND}, device: {settings.device}, threads: {settings.threads}, "
        f"BLAS: {', '.join(sorted(blas))}, {platform.machine()}"
    )


def _next_batch(
    pings: Iterator[tuple[np.ndarray, float]], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The next ``count`` pings, xy [count, 2] and z [count]."""
    xy, z = zip(*(next(pings) for _ in range(count)), strict=True)
    return np.array(xy), np.array(z)


def _pings(seed: int) -> Iterator[tuple[np.ndarray, float]]:
    terrain, rng = load_terrain("seamounts", seed=seed), np.random.default_rng(seed)
    while True:
        xy = WORKSPACE.sample(FILL, rng)
        yield from zip(xy, terrain.elevation_at(xy) + rng.normal(size=FILL), strict=True)


def _timed(call: Any) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _spread(values: Sequence[float]) -> float:
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 2
