"""Settings of a sweep: environments x methods x seeds x pilots x planners.

The terrains are found, loaded and checked before any run starts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ...core.errors import InputError, TerrainError
from ...core.files import shipped
from ...core.reading import read_yaml
from ...core.settings import Setting, Value, at, declared, flat, instance, nearest, rows
from ...models.registry import MODELS, ModelSettings, option_rows
from ...planning.planners import PLANNERS, planner_rows
from ...simulation.settings import MissionSettings
from ...simulation.world.rasters import FORMATS, IMAGES
from ...simulation.world.simulator import SonarSettings
from ...simulation.world.terrain import BUILT_IN, TILE_NAME, Terrain, load_terrain

#: Names that are also names of folders.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
#: Settings that `model:` may not hold, because they differ from run to run.
PER_RUN = ("method", "sparse.kernel")
#: Further lists of values that differ from run to run, and the mission's setting.
LISTS = {"seeds": "seed", "pilots": "pilot", "planners": "planner"}
_MISSION = {row.name: row for row in rows(MissionSettings)}
#: Settings that `model:` and `sonar:` may hold; those of the sonar without a prefix.
MODEL = (*rows(ModelSettings), *option_rows())
SONAR = tuple(at(name, row) for name, row in declared(SonarSettings).items())
#: Settings of the mission that all runs share, apart from model and sonar.
COMMON = tuple(row for row in _MISSION.values() if row.name not in LISTS.values())
#: Settings that ``SweepSettings.changed`` takes.
SHARED = (
    *COMMON, *(row for row in MODEL if row.name not in PER_RUN), *planner_rows(),
    *rows(SonarSettings),
)  # fmt: skip
#: Endings of files in which a terrain is searched for by name.
ENDINGS = tuple(dict.fromkeys((*FORMATS, ".tiff", *IMAGES)))

Result = TypeVar("Result")


@dataclass(frozen=True)
class EnvironmentSettings:
    """A terrain and its processing, as `load_terrain` takes them."""

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
        model: settings of the models, by name; each method takes those it has.
        planning: options of the planners, by name; each planner takes those it has.
        base: settings that all runs share.
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
        known = dict.fromkeys(name for model in models for name in model.values)
        for name in self.model:
            if name in PER_RUN:
                raise InputError(f"model.{name}: expected under methods, as in poam or poam:rbf")
            if name not in known:
                names = [n for n in known if n not in PER_RUN]
                raise InputError(
                    f"model.{name}: unknown to these methods; the nearest is "
                    f"{nearest(name, names)}, of {', '.join(names)}"
                )

    def place(self, name: str) -> str:
        """The place of a key, for messages."""
        return f"{self.file}: {name}" if self.file else name

    def changed(self, values: Mapping[str, Any]) -> SweepSettings:
        """The sweep with other values of ``SHARED``, by name; other names are ignored.

        Raises:
            InputError: no method or planner of the sweep has a setting, or a value does not fit.
        """
        model, planning = (
            {**own, **{row.name: values[row.name] for row in table if row.name in values}}
            for own, table in ((self.model, MODEL), (self.planning, planner_rows()))
        )
        base = _with(replace(self.base, sonar=_with(self.base.sonar, values)), values)
        return replace(self, model=model, planning=planning, base=base)

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


def _with(settings: Any, values: Mapping[str, Any]) -> Any:
    """A dataclass of settings with those of other values that are its own."""
    named = declared(settings).items()
    return replace(settings, **{own: values[row.name] for own, row in named if row.name in values})


def _named(method: str) -> dict[str, str]:
    """The settings of a method such as ``poam``, ``poam:rbf`` or ``module:name``."""
    name, colon, kernel = method.partition(":")
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
    """SHA-256 of a terrain's elevation."""
    elevation = np.ascontiguousarray(terrain.elevation, dtype="<f8")
    return hashlib.sha256(repr(elevation.shape).encode() + elevation.tobytes()).hexdigest()


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
_TEXT = Setting("text", "", "Any text")
_NUMBER = Setting("number", 0.0, "Any number")


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
    file = shipped(f"{name}.yaml") if path.name == name else None
    if file is not None and _is_sweep(file):
        return file
    found = "is a folder" if path.is_dir() else "no such file"
    raise InputError(
        f"{name}: {found}; expected a YAML file, or one that is shipped: {', '.join(SHIPPED)}"
    )


def _is_sweep(path: Path) -> bool:
    """Whether it is a sweep, not one of the files of node parameters in the same folder."""
    content = _read(path)
    return isinstance(content, dict) and "environments" in content


def _read(path: Path) -> Any:
    try:
        return read_yaml(path)
    except (OSError, InputError) as error:
        raise InputError(f"{path}: cannot be read as YAML ({error})") from None


def _parse(content: Any, path: Path) -> SweepSettings:
    groups = {row.name.partition(".")[0] for row in COMMON}
    lists = ("environments", "methods", *LISTS)
    given = _mapping("", content)
    given = _mapping("", given, (*lists, *groups, "model", "planning", "sonar"))
    shared = flat({name: value for name, value in given.items() if name in groups})
    for name in ("environments", "methods"):
        if name not in given:
            raise InputError(f"{name}: missing")
    sweep: dict[str, Any] = {
        "environments": _environments(given["environments"]),
        "methods": _list("methods", given["methods"], _TEXT),
        **{name: _list(name, given[name]) for name in LISTS if name in given},
        # The allowed keys depend on the methods and planners.
        "model": _values("model", given.get("model", {}), (*rows(ModelSettings), *option_rows())),
        "planning": _values("planning", given.get("planning", {}), planner_rows()),
    }
    sonar = _values("sonar", given.get("sonar", {}), SONAR, strict=True)
    known = {row.name: row for row in COMMON}
    _mapping("", shared, list(known))
    base = {name: _value(name, known[name], value) for name, value in shared.items()}
    mission = instance(
        MissionSettings, base, sonar=located("sonar", lambda: SonarSettings(**sonar))
    )
    return SweepSettings(**sweep, base=mission, folder=path.parent, file=path)


def _environments(given: Any) -> dict[str, EnvironmentSettings]:
    names = tuple(f.name for f in fields(EnvironmentSettings))
    environments = {}
    for name, value in _mapping("environments", given).items():
        where = f"environments.{name}"
        if isinstance(value, str):
            environments[str(name)] = EnvironmentSettings(value)
            continue
        parts = {k: v for k, v in _mapping(where, value, names).items() if v is not None}
        if "terrain" not in parts:
            raise InputError(f"{where}.terrain: missing")
        for n in ("terrain", "preparation"):
            if n in parts:
                parts[n] = _value(f"{where}.{n}", _TEXT, parts[n])
        if "elevation_range" in parts:
            place = f"{where}.elevation_range"
            pair = _list(place, parts["elevation_range"], _NUMBER)
            if len(pair) != 2 or not pair[0] < pair[1]:
                raise InputError(f"{place}: expected two numbers, low < high, got {pair}")
            parts["elevation_range"] = tuple(pair)
        environments[str(name)] = EnvironmentSettings(**parts)
    return environments


def _mapping(where: str, value: Any, known: Sequence[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where + ': ' if where else ''}expected a mapping, got {value!r:.60}")
    unknown = [key for key in value if known is not None and key not in known]
    if unknown:
        place = f"{where}.{unknown[0]}" if where else str(unknown[0])
        near = nearest(str(unknown[0]), known or ())
        names = ", ".join(known or ())
        raise InputError(f"{place}: unknown; the nearest is {near}, of {names}")
    return value


def _list(where: str, value: Any, row: Setting | None = None) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, got {value!r:.60}")
    return [_value(f"{where}[{i}]", row, item) if row else item for i, item in enumerate(value)]


def _value(where: str, row: Setting, value: Any) -> Value:
    """The converted value; also of a number that YAML reads as text, such as 1e-6."""
    number = isinstance(row.default, float) and isinstance(value, str)
    return at(where, row).read(value) if number else at(where, row).convert(value)


def _values(
    where: str, given: Any, table: Sequence[Setting], strict: bool = False
) -> dict[str, Any]:
    """The values of a mapping, converted by their rows; ``strict``: every key must have a row."""
    known = {row.name: row for row in table}
    values = flat(_mapping(where, given))
    return {
        name: _value(f"{where}.{name}", known[name], value) if name in known else value
        for name, value in _mapping(where, values, list(known) if strict else None).items()
    }
