"""What a sweep is made of: environments x methods x seeds x pilots x planners.

The terrains are found, loaded and checked before any run starts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..drivers.mission_settings import MissionSettings
from ..errors import InputError, TerrainError
from ..gp.models import ModelSettings
from ..planning.planners import PLANNERS
from ..settings import at, instance, rows
from ..world.rasters import FORMATS, IMAGES
from ..world.terrain import BUILT_IN, TILE_NAME, Terrain, load_terrain

#: Names that are also folders.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
#: What `model:` may not hold, because it differs from run to run.
PER_RUN = ("method", "kernel")
#: What differs from run to run besides: the key of the list, and the mission's setting.
LISTS = {"seeds": "seed", "pilots": "pilot", "planners": "planner"}
_MISSION = {row.name: row for row in rows(MissionSettings)}
#: The mission's settings that all runs of a sweep have in common, but for model and sonar.
COMMON = tuple(row for row in _MISSION.values() if row.name not in LISTS.values())
#: Of the files in which a terrain is looked for by its name.
ENDINGS = tuple(dict.fromkeys((*FORMATS, ".tiff", *IMAGES)))

Result = TypeVar("Result")


@dataclass(frozen=True)
class EnvironmentSettings:
    """A terrain and what is done to it, as `load_terrain` takes them."""

    terrain: str
    elevation_range: tuple[float, float] | None = None
    preparation: str | None = None


@dataclass(frozen=True)
class Run:
    """One run of a sweep. ``method``: as in the configuration, such as ``poam`` or ``poam:rbf``."""

    environment: str
    method: str
    mission: MissionSettings

    @property
    def folder(self) -> str:
        """The run's folder, relative to the sweep's."""
        mission = self.mission
        method = self.method.replace(":", "-")
        path = f"{mission.pilot}-{mission.planner}/seed-{mission.seed}"
        return f"runs/{self.environment}/{method}/{path}"

    def __str__(self) -> str:
        mission = self.mission
        return f"{self.environment} {self.method} {mission.pilot}-{mission.planner} {mission.seed}"


@dataclass(frozen=True)
class SweepSettings:
    """Every run of a sweep: each environment with each method, pilot, planner and seed.

    Attributes:
        environments: by name.
        methods: names of MODELS, or ``name:kernel``.
        model: settings of the models, by name; of each method, those that it has.
        planning: options of the planners, by name; of each planner, those that it has.
        base: what all runs have in common besides.
        folder: what relative paths of terrains are relative to.
        file: what they were read from, if they were; messages say it.

    Raises:
        InputError: if a value is wrong, a list is empty, or a run is there twice.
    """

    environments: Mapping[str, EnvironmentSettings]
    methods: Sequence[str]
    seeds: Sequence[int] = (0,)
    pilots: Sequence[str] = ("bezier",)
    planners: Sequence[str] = ("max-entropy",)
    model: Mapping[str, Any] = field(default_factory=dict)
    planning: Mapping[str, Any] = field(default_factory=dict)
    base: MissionSettings = field(default_factory=MissionSettings)
    folder: Path = Path()
    file: Path | None = None

    def __post_init__(self) -> None:
        for name in ("environments", "methods", "seeds", "pilots", "planners"):
            values = list(getattr(self, name))
            if not values:
                raise InputError(f"{name}: expected at least one, got none")
            twice = [value for i, value in enumerate(values) if value in values[:i]]
            if twice:
                raise InputError(f"{name}: expected every value once, got {twice[0]!r} twice")
        for name in self.environments:
            if not NAME.fullmatch(name):
                raise InputError(
                    f"environments: expected names of letters, digits and _ . + -, got {name!r}"
                )
        for key, name in LISTS.items():
            for i, value in enumerate(getattr(self, key)):
                at(f"{key}[{i}]", _MISSION[name]).convert(value)
        self._check_models()
        options = [located("planning", self._planning, planner) for planner in self.planners]
        names = list(dict.fromkeys(row.name for given in options for row in rows(given)))
        for name in self.planning:
            if name not in names:
                known = ", ".join(names) or "none"
                raise InputError(
                    f"planning.{name}: unknown to these planners, expected one of {known}"
                )

    def _check_models(self) -> None:
        for i, method in enumerate(self.methods):
            located(f"methods[{i}]", _named, method)
        models = [located("model", self._model, method) for method in self.methods]
        for i, model in enumerate(models):
            if model in models[:i]:
                same = self.methods[models.index(model)]
                raise InputError(
                    f"methods[{i}]: expected every run once, got {self.methods[i]!r}, "
                    f"which is the same as {same!r}"
                )
        known = dict.fromkeys(name for model in models for name in model.flat)
        for name in self.model:
            if name in PER_RUN:
                raise InputError(f"model.{name}: expected under methods, as in poam or poam:rbf")
            if name not in known:
                names = ", ".join(n for n in known if n not in PER_RUN)
                raise InputError(f"model.{name}: unknown to these methods, expected one of {names}")

    def place(self, name: str) -> str:
        """How messages say where a key is."""
        return f"{self.file}: {name}" if self.file else name

    def runs(self) -> list[Run]:
        """All runs: every method on every environment with the first seed comes first."""
        runs = []
        every = product(self.seeds, self.pilots, self.planners, self.environments, self.methods)
        for seed, pilot, planner, environment, method in every:
            varied: dict[str, Any] = {"seed": seed, "pilot": pilot, "planner": planner}
            varied["planner_options"] = self._planning(planner)
            mission = replace(self.base, **varied, model=self._model(method))
            runs.append(Run(environment, method, mission))
        return runs

    def _planning(self, planner: str) -> Any:
        return instance(PLANNERS[planner].options, self.planning)

    def _model(self, method: str) -> ModelSettings:
        return ModelSettings.of({**self.model, **_named(method)})


def _named(method: str) -> dict[str, str]:
    """The settings that a name like ``poam`` or ``poam:rbf`` stands for."""
    name, colon, kernel = method.partition(":")
    settings = {"method": name, "kernel": kernel} if colon else {"method": name}
    if settings.keys() - ModelSettings.of(settings).flat:
        raise InputError(f"expected a method that has kernels before the colon, got {method!r}")
    return settings


def located(where: str, call: Callable[..., Result], *arguments: Any) -> Result:
    """Call, and say where it was if the input is wrong."""
    try:
        return call(*arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def load_environments(sweep: SweepSettings, terrains: Path | None = None) -> dict[str, Terrain]:
    """The terrain of every environment, by its name.

    Args:
        sweep: with the environments, and the folder that relative paths are relative to.
        terrains: a folder in which a terrain is looked for by its name, in any case and format,
            before it is downloaded.

    Raises:
        InputError: if ``terrains`` is no folder.
        TerrainError: if a terrain cannot be found or read.
    """
    if terrains is not None and not terrains.is_dir():
        raise InputError(f"terrains: expected a folder, got {terrains}")
    loaded = {}
    for name, settings in sweep.environments.items():
        try:
            loaded[name] = load_terrain(
                _source(settings.terrain, sweep.folder, terrains),
                elevation_range=settings.elevation_range,
                preparation=settings.preparation,
            )
        except InputError as error:
            hint = (
                "; here: in a folder, --terrains DIR"
                if TILE_NAME.fullmatch(settings.terrain)
                else ""
            )
            place = sweep.place(f"environments.{name}")
            raise TerrainError(f"{place}: {error}{hint}") from None
    return loaded


def digest(terrain: Terrain) -> str:
    """What tells this elevation from any other."""
    elevation = np.ascontiguousarray(terrain.elevation, dtype="<f8")
    return hashlib.sha256(repr(elevation.shape).encode() + elevation.tobytes()).hexdigest()


def _source(terrain: str, folder: Path, terrains: Path | None) -> str:
    """What ``load_terrain`` is to load: a name, or a path that exists."""
    if terrain in BUILT_IN:
        return terrain
    if terrains is not None:
        files = {path.name.lower(): path for path in sorted(terrains.iterdir()) if path.is_file()}
        for ending in ENDINGS:
            if (terrain + ending).lower() in files:
                return str(files[(terrain + ending).lower()])
    beside = folder / Path(terrain).expanduser()
    return str(beside) if beside.is_file() else terrain
