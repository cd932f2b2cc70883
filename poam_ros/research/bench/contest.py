"""What is measured, and the rounds of it: a mapper and the reference on the same pings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from time import perf_counter, process_time

import numpy as np
import torch

from ...core.errors import InputError
from ...core.geometry import Grid
from ...models.data import Dataset
from ...models.mapper import BathymetricMapper
from ...models.registry import MODELS, ModelSettings, SparseOptions
from ...simulation.world.terrain import WORKSPACE, load_terrain
from .reference import ReferencePOAM

#: What is timed as a whole, by wall clock and by the CPU time of the process.
WHOLES = ("update", "predict", "map")
FILL = 1500  # samples in one batch before the measurement


@dataclass(frozen=True)
class ProfileSettings:
    """What is measured: ``samples`` there are before, ``batch`` come with an update, ``queries``
    points and a map of ``grid`` x ``grid`` are predicted by ``method``; each ``repeats`` times.
    ``inducing`` is of the sparse models and of the reference: with ``reference``, GPyTorch does
    what POAM does in turn."""

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
                f"reference: expected at least as many samples as inducing points, "
                f"got {self.samples} and {self.inducing}"
            )

    @property
    def model(self) -> ModelSettings:
        """The model that is measured."""
        sparse = MODELS[self.method].options is SparseOptions
        options = SparseOptions(num_inducing=self.inducing) if sparse else None
        return ModelSettings(self.method, options, self.threads, self.device)


class Contest:
    """A mapper, and with it the reference where that is asked for, on the same pings."""

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
