"""Settings of a sweep: environments x methods x seeds x pilots x planners.

The terrains are found, loaded and checked before any run starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import InputError, TerrainError
from ..core.files import shipped
from ..core.reading import read_yaml
from ..core.settings import (
    Setting,
    Settings,
    at,
    declared,
    flat,
    instance,
    rows,
    setting,
    unknown,
)  # fmt: skip
from ..models.registry import MODELS, ModelSettings, option_rows
from ..planning.planners import PLANNERS, planner_rows
from ..simulation.settings import MissionSettings
from ..simulation.simulator import SonarSettings
from ..simulation.terrain import BUILT_IN, FORMATS, IMAGES, TILE_NAME, Terrain, load_terrain

#: Names that are also names of folders.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
#: Settings that `model:` may not hold, because they differ from run to run.
PER_RUN = ("method", "sparse.kernel")
#: Further lists of values that differ from run to run, and the mission's setting.
LISTS = {"seeds": "seed", "pilots": "pilot", "planners": "planner"}
_MISSION = {row.name: row for row in rows(MissionSettings)}
#: Endings of files in which a terrain is searched for by name.
ENDINGS = tuple(dict.fromkeys((*FORMATS, ".tiff", *IMAGES)))
Result = TypeVar("Result")


def shared_settings(
    methods: Sequence[str] = (), planners: Sequence[str] = ()
) -> dict[str, Setting]:
    """The settings that all runs share, by their keys in a file: those of these methods and
    planners; of all built-in ones without any."""
    kinds = [MODELS[_named(method)["method"]].options for method in methods]
    model = rows(*dict.fromkeys(kinds)) if kinds else option_rows()
    planning = rows(*(PLANNERS[name].options for name in planners)) if planners else planner_rows()
    return {
        **{name: row for name, row in _MISSION.items() if name not in LISTS.values()},
        **{f"model.{row.name}": row for row in (*rows(ModelSettings), *model)
           if row.name not in PER_RUN},
        **{f"planning.{row.name}": row for row in planning},
        **{f"sonar.{name}": row for name, row in declared(SonarSettings).items()},
    }  # fmt: skip


@dataclass(frozen=True)
class EnvironmentSettings(Settings):
    """A terrain and its processing, as `load_terrain` takes them."""

    terrain: str = setting("", "Name or file of the terrain")
    elevation_range: tuple[float, ...] = setting((0.0, 0.0), "Lowest and highest. 0 0: as it is")
    preparation: str = setting("", "Preparation. Empty: none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.terrain:
            raise InputError("terrain: missing")
        low, high = self.elevation_range
        if (low or high) and not low < high:
            raise InputError(f"elevation_range: expected low < high, got {low:g} {high:g}")


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
        path = f"{self.method}/{mission.pilot}-{mission.planner}/seed-{mission.seed}"
        return f"runs/{self.environment}/{path.replace(':', '-')}"

    def __str__(self) -> str:
        mission = self.mission
        return f"{self.environment} {self.method} {mission.pilot}-{mission.planner} {mission.seed}"


@dataclass(frozen=True)
class SweepSettings:
    """Every run of a sweep: each environment with each method, pilot, planner and seed.

    Attributes:
        environments: by name.
        methods: names of MODELS, ``module:name``, or ``name:kernel`` of a built-in one.
        shared: settings that all runs share, by the keys of ``shared_settings``; each method and
            planner takes those it has.
        folder: of relative paths of terrains.
        file: the file that they were read from, for messages; None without a file.

    Raises:
        InputError: if a value is wrong, a list is empty, or a run is listed twice.
    """

    environments: Mapping[str, EnvironmentSettings]
    methods: Sequence[str]
    seeds: Sequence[int] = (0,)
    pilots: Sequence[str] = ("bezier",)
    planners: Sequence[str] = ("max-entropy",)
    shared: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()
    file: Path | None = None

    def __post_init__(self) -> None:
        for name in ("environments", "methods", *LISTS):
            values = list(getattr(self, name))
            if not values:
                raise InputError(f"{name}: expected at least one, got none")
            if twice := [value for i, value in enumerate(values) if value in values[:i]]:
                raise InputError(f"{name}: expected every value once, got {twice[0]!r} twice")
        for name in self.environments:
            if not NAME.fullmatch(name):
                raise InputError(
                    f"environments: expected names of letters, digits and _ . + -, got {name!r}"
                )
        for key, name in LISTS.items():
            for i, value in enumerate(getattr(self, key)):
                at(f"{key}[{i}]", _MISSION[name]).convert(value)
        for i, method in enumerate(self.methods):
            located(f"methods[{i}]", _named, method)
        models = [self._model(method) for method in self.methods]
        for i, model in enumerate(models):
            if model in models[:i]:
                raise InputError(
                    f"methods[{i}]: expected every run once, got {self.methods[i]!r}, "
                    f"which is the same as {self.methods[models.index(model)]!r}"
                )
        self.runs()

    @cached_property
    def table(self) -> dict[str, Setting]:
        """The settings that ``shared`` may hold, by their keys."""
        return shared_settings(self.methods, self.planners)

    @cached_property
    def _values(self) -> dict[str, Any]:
        """The shared values by the settings' own names."""
        return {self.table[name].name: value for name, value in self.resolved.items()}

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """The shared values by key; of mission and sonar also those that are not given.

        Raises:
            InputError: a key is unknown, or a value is wrong.
        """
        of_all = (name for name in self.table if not name.startswith(("model.", "planning.")))
        values: dict[str, Any] = {name: self.table[name].default for name in of_all}
        for name, value in self.shared.items():
            if name.removeprefix("model.") in PER_RUN:
                raise InputError(f"{name}: expected under methods, as in poam or poam:rbf")
            if name not in self.table:
                raise InputError(unknown(name, ("environments", "methods", *LISTS, *self.table)))
            row = at(name, self.table[name])
            # YAML reads a number such as 1e-6 as text.
            is_number = isinstance(row.default, float) and isinstance(value, str)
            values[name] = row.read(value) if is_number else row.convert(value)
        return values

    def place(self, name: str) -> str:
        """The place of a key, for messages."""
        return f"{self.file}: {name}" if self.file else name

    def changed(self, values: Mapping[str, Any]) -> SweepSettings:
        """The sweep with other values of settings, by name; other names are ignored.

        Raises:
            InputError: no method or planner of the sweep has a setting, or a value does not fit.
        """
        named = {k: values[row.name] for k, row in shared_settings().items() if row.name in values}
        return replace(self, shared={**self.shared, **named})

    def runs(self) -> list[Run]:
        """All runs: every method on every environment with the first seed comes first."""
        values = self._values
        sonar = located("sonar", instance, SonarSettings, values)
        runs = []
        every = product(self.seeds, self.pilots, self.planners, self.environments, self.methods)
        for seed, pilot, planner, environment, method in every:
            varied = {"seed": seed, "pilot": pilot, "planner": planner}
            mission = instance(
                MissionSettings, values | varied, model=self._model(method), sonar=sonar,
                planner_options=instance(PLANNERS[planner].options, values),
            )  # fmt: skip
            runs.append(Run(environment, method, mission))
        return runs

    def _model(self, method: str) -> ModelSettings:
        return ModelSettings.of({**self._values, **_named(method)})


def _named(method: str) -> dict[str, str]:
    """The settings of a method such as ``poam``, ``poam:rbf`` or ``module:name``."""
    name, colon, kernel = str(method).partition(":")
    if not colon or name not in list(MODELS):
        ModelSettings(method)
        return {"method": method}
    settings = {"method": name, "sparse.kernel": kernel}
    if settings.keys() - ModelSettings.of(settings).values.keys():
        raise InputError(f"expected a method that has kernels before the colon, got {method!r}")
    return settings


def located(where: str, call: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function, with ``where`` in front of the message of an ``InputError``."""
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
            low, high = settings.elevation_range
            loaded[name] = load_terrain(
                _source(settings.terrain, sweep.folder, terrains),
                elevation_range=(low, high) if low < high else None,
                preparation=settings.preparation or None,
            )
        except InputError as error:
            is_tile = TILE_NAME.fullmatch(settings.terrain)
            hint = "; here: in a folder, --terrains DIR" if is_tile else ""
            place = sweep.place(f"environments.{name}")
            raise TerrainError(f"{place}: {error}{hint}") from None
    return loaded


def _source(terrain: str, folder: Path, terrains: Path | None) -> str:
    """The source for ``load_terrain``: a name, or a path that exists."""
    if terrain in BUILT_IN:
        return terrain
    if terrains is not None:
        files = {path.name.lower(): path for path in sorted(terrains.iterdir()) if path.is_file()}
        for ending in ENDINGS:
            if (terrain + ending).lower() in files:
                return str(files[(terrain + ending).lower()])
    beside = folder / Path(terrain).expanduser()
    return str(beside) if beside.is_file() else terrain


#: Sweeps shipped with the package, in config/.
SHIPPED = ("paper", "ablation", "robustness", "results", "planners", "smoke")


def read_sweep(path: Path) -> SweepSettings:
    """The sweep that a YAML file describes.

    Raises:
        InputError: if the file cannot be read, a key is unknown or a value is wrong.
    """
    return located(str(path), _parse, _read(path), path)


def find_sweep(name: str) -> Path:
    """The path of a configuration: a file, or the bare name of one shipped with the package.

    Raises:
        InputError: if there is neither.
    """
    path = Path(name).expanduser()
    if path.exists() and not path.is_dir():
        return path
    if name in SHIPPED and (file := shipped(f"{name}.yaml")) is not None:
        return file
    reason = "is a folder" if path.is_dir() else "no such file"
    raise InputError(
        f"{name}: {reason}; expected a YAML file, or one that is shipped: {', '.join(SHIPPED)}"
    )


def _read(path: Path) -> Any:
    try:
        return read_yaml(path)
    except (OSError, InputError) as error:
        raise InputError(f"{path}: cannot be read as YAML ({error})") from None


def _parse(content: Any, path: Path) -> SweepSettings:
    given = _mapping("", content)
    for name in ("environments", "methods"):
        if name not in given:
            raise InputError(f"{name}: missing")
    lists = {name: given.pop(name) for name in ("environments", "methods", *LISTS) if name in given}
    for name, values in lists.items():
        if name != "environments" and not isinstance(values, list):
            raise InputError(f"{name}: expected a list, got {values!r:.60}")
    lists["environments"] = {
        str(name): _environment(f"environments.{name}", value)
        for name, value in _mapping("environments", lists["environments"]).items()
    }
    return SweepSettings(**lists, shared=flat(given), folder=path.parent, file=path)


def _environment(where: str, given: Any) -> EnvironmentSettings:
    values = {"terrain": given} if isinstance(given, str) else _mapping(where, given)
    known = [row.name for row in rows(EnvironmentSettings)]
    for key in values:
        if key not in known:
            raise InputError(f"{where}.{unknown(str(key), known)}")
    try:
        return instance(EnvironmentSettings, {k: v for k, v in values.items() if v is not None})
    except InputError as error:
        raise InputError(f"{where}.{error}") from None


def _mapping(where: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where + ': ' if where else ''}expected a mapping, got {value!r:.60}")
    return value


#: Layout of a sweep's folder, in its sweep.yaml.
LAYOUT = 2


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the sweep.yaml of a sweep's folder.

    Raises:
        InputError: if it cannot be read, or the folder has another layout.
    """
    sweep = _read(path)
    layout = sweep.get("layout") if isinstance(sweep, dict) else None
    if layout != LAYOUT:
        raise InputError(f"{path}: expected layout {LAYOUT}, got {layout!r}; give another folder")
    return dict(sweep)
