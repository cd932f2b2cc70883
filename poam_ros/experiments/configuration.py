"""What a sweep is made of: environments x methods x seeds x pilots x planners, from a YAML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import yaml

from ..errors import InputError
from ..mapping import ModelSettings
from ..world.simulation import SonarSettings
from .mission import MissionSettings

#: Names that are also folders.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
#: What `model:` may not hold, because it differs from run to run.
PER_RUN = ("method", "kernel")

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
        methods: names of METHODS, or ``name:kernel``.
        base: what all runs have in common.
        folder: what relative paths of terrains are relative to.

    Raises:
        InputError: if a value is wrong, a list is empty, or a run is there twice.
    """

    environments: Mapping[str, EnvironmentSettings]
    methods: Sequence[str]
    seeds: Sequence[int] = (0,)
    pilots: Sequence[str] = ("bezier",)
    planners: Sequence[str] = ("max-entropy",)
    base: MissionSettings = field(default_factory=MissionSettings)
    folder: Path = Path()

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
        for i, seed in enumerate(self.seeds):
            if seed < 0:
                raise InputError(f"seeds[{i}]: expected zero or more, got {seed}")
        models = [_at(f"methods[{i}]", self._model, name) for i, name in enumerate(self.methods)]
        for i, model in enumerate(models):
            if model in models[:i]:
                same = self.methods[models.index(model)]
                raise InputError(
                    f"methods[{i}]: expected every run once, got {self.methods[i]!r}, "
                    f"which is the same as {same!r}"
                )
        for name in ("pilot", "planner"):
            for i, value in enumerate(getattr(self, f"{name}s")):
                _at(f"{name}s[{i}]", lambda n, v: replace(self.base, **{n: v}), name, value)

    def runs(self) -> list[Run]:
        """All runs: every method on every environment with the first seed comes first."""
        every = product(self.seeds, self.pilots, self.planners, self.environments, self.methods)
        return [
            Run(
                environment,
                method,
                replace(
                    self.base, planner=planner, pilot=pilot, seed=seed, model=self._model(method)
                ),
            )
            for seed, pilot, planner, environment, method in every
        ]

    def _model(self, method: str) -> ModelSettings:
        name, colon, kernel = method.partition(":")
        changes: dict[str, Any] = {"kernel": kernel} if colon else {}
        return replace(self.base.model, method=name, **changes)


def read_sweep(path: Path) -> SweepSettings:
    """The sweep that a YAML file describes.

    Raises:
        InputError: if the file cannot be read, a key is unknown or a value is wrong.
    """
    return _at(str(path), _parse, _read(path), path.parent)


def find_sweep(name: str) -> Path:
    """The path of a configuration: a file, or one that comes with the package by its bare name.

    Raises:
        InputError: if there is neither.
    """
    path = Path(name).expanduser()
    if path.exists():
        return path
    package = Path(__file__).resolve().parent.parent
    # In a checkout beside the package; installed under share/ of some prefix of it.
    folders = [package.parent / "config", *(p / "share/poam_ros/config" for p in package.parents)]
    for folder in folders:
        shipped = folder / f"{name}.yaml"
        if path.name == name and shipped.is_file():
            return shipped
    raise InputError(
        f"{name}: no such file; expected a YAML file, or paper, ablation, robustness or smoke"
    )


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML would quietly keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{twice[0]!r} is there twice in the mapping of line {line}")
        return super().construct_mapping(node, deep)


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as YAML ({reason})") from None


def _parse(content: Any, folder: Path) -> SweepSettings:
    keys = ("environments", "methods", "seeds", "pilots", "planners")
    whole = ("max_samples", "resolution", "model", "sonar")
    given = _mapping("", content, (*keys, *whole))
    for name in ("environments", "methods"):
        if name not in given:
            raise InputError(f"{name}: expected, but not there")
    sweep: dict[str, Any] = {"environments": _environments(given["environments"])}
    for name, kind in (("methods", str), ("seeds", int), ("pilots", str), ("planners", str)):
        if name in given:
            sweep[name] = _list(name, given[name], kind)
    base: dict[str, Any] = {
        "model": _settings("model", given.get("model", {}), ModelSettings, PER_RUN),
        "sonar": _settings("sonar", given.get("sonar", {}), SonarSettings),
    }
    for name in ("max_samples", "resolution"):
        if name in given:
            base[name] = _value(name, given[name], type(getattr(MissionSettings, name)))
    return SweepSettings(**sweep, base=MissionSettings(**base), folder=folder)


def _environments(given: Any) -> dict[str, EnvironmentSettings]:
    names = tuple(f.name for f in fields(EnvironmentSettings))
    environments = {}
    for name, value in _mapping("environments", given).items():
        where = f"environments.{name}"
        if isinstance(value, str):
            environments[str(name)] = EnvironmentSettings(value)
            continue
        parts = _mapping(where, value, names)
        if parts.get("terrain") is None:
            raise InputError(f"{where}.terrain: expected, but not there")
        settings: dict[str, Any] = {
            n: _value(f"{where}.{n}", parts[n], str)
            for n in ("terrain", "preparation")
            if parts.get(n) is not None
        }
        if parts.get("elevation_range") is not None:
            pair = _list(f"{where}.elevation_range", parts["elevation_range"], float)
            if len(pair) != 2 or not pair[0] < pair[1]:
                raise InputError(
                    f"{where}.elevation_range: expected two numbers, low < high, got {pair}"
                )
            settings["elevation_range"] = tuple(pair)
        environments[str(name)] = EnvironmentSettings(**settings)
    return environments


def _mapping(where: str, value: Any, known: Sequence[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where + ': ' if where else ''}expected a mapping, got {value!r:.60}")
    unknown = [key for key in value if known is not None and key not in known]
    if unknown:
        place = f"{where}.{unknown[0]}" if where else str(unknown[0])
        raise InputError(f"{place}: unknown, expected one of {', '.join(known or ())}")
    return value


def _list(where: str, value: Any, kind: type) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, got {value!r:.60}")
    return [_value(f"{where}[{i}]", item, kind) for i, item in enumerate(value)]


def _value(where: str, value: Any, kind: type) -> Any:
    """The value as that kind; a number is also one that YAML takes for text, such as 1e-6."""
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
    if kind is float and isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return float(value)
        except ValueError:
            pass
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise InputError(f"{where}: expected {names[kind]}, got {value!r:.60}")
    return value


def _settings(where: str, given: Any, kind: Any, without: Sequence[str] = ()) -> Any:
    """A dataclass of settings whose keys and kinds of values are those of its defaults."""
    known = {f.name: f.default for f in fields(kind) if f.default is not MISSING}
    values = {}
    for name, value in _mapping(where, given, list(known)).items():
        if name in without:
            raise InputError(f"{where}.{name}: expected under methods, as in poam or poam:rbf")
        default = known[name]
        optional = default is None and value is None
        wanted = float if default is None else type(default)
        values[name] = None if optional else _value(f"{where}.{name}", value, wanted)
    return _at(where, lambda: kind(**values))


def _at(where: str, call: Callable[..., Result], *arguments: Any) -> Result:
    """Call, and say where it was if the input is wrong."""
    try:
        return call(*arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def describe_model(settings: ModelSettings) -> dict[str, Any]:
    """The model's settings that all runs of a sweep have in common."""
    return {name: value for name, value in asdict(settings).items() if name not in PER_RUN}
