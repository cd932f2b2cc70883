"""The YAML file of a sweep, read strictly: whatever is wrong is said with its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from ..drivers.mission_settings import MissionSettings
from ..errors import InputError
from ..gp.models import model_rows
from ..planning.planners import planner_rows
from ..settings import Setting, Value, at, rows
from ..world.sonar import SonarSettings
from .configuration import COMMON, LISTS, EnvironmentSettings, SweepSettings, located

#: Sweeps that come with the package, in config/.
SHIPPED = ("paper", "ablation", "robustness", "results", "planners", "smoke")
MERGE = "tag:yaml.org,2002:merge"
_TEXT = Setting("text", "", "Any text")
_NUMBER = Setting("number", 0.0, "Any number")


def read_sweep(path: Path) -> SweepSettings:
    """The sweep that a YAML file describes.

    Raises:
        InputError: if the file cannot be read, a key is unknown or a value is wrong.
    """
    return located(str(path), _parse, _read(path), path)


def find_sweep(name: str) -> Path:
    """The path of a configuration: a file, or one that comes with the package by its bare name.

    Raises:
        InputError: if there is neither.
    """
    path = Path(name).expanduser()
    if path.exists() and not path.is_dir():
        return path
    package = Path(__file__).resolve().parent.parent
    # In a checkout beside the package; installed under share/ of some prefix of it.
    folders = [package.parent / "config", *(p / "share/poam_ros/config" for p in package.parents)]
    for folder in folders:
        shipped = folder / f"{name}.yaml"
        if path.name == name and shipped.is_file() and _is_sweep(shipped):
            return shipped
    found = "is a folder" if path.is_dir() else "no such file"
    raise InputError(
        f"{name}: {found}; expected a YAML file, or one that is shipped: {', '.join(SHIPPED)}"
    )


def _is_sweep(path: Path) -> bool:
    """Whether it is not one of the files of node parameters, which lie in the same folder."""
    content = _read(path)
    return isinstance(content, dict) and "environments" in content


class _Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, of which YAML would quietly keep the last."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # As written: merging (``<<: *a``) later puts keys beside those that they give way to.
        node = super().compose_mapping_node(anchor)
        scalars = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        keys = [key.value if key.tag == MERGE else self.construct_object(key) for key in scalars]
        twice = [key for i, key in enumerate(keys) if key in keys[:i]]
        if twice:
            line = node.start_mark.line + 1
            raise yaml.YAMLError(f"{twice[0]!r} is there twice in the mapping of line {line}")
        return node


def _read(path: Path) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, ValueError, TypeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: cannot be read as YAML ({reason})") from None


def _parse(content: Any, path: Path) -> SweepSettings:
    common = (row.name for row in COMMON)
    keys = ("environments", "methods", *LISTS, *common, "model", "planning", "sonar")
    given = _mapping("", content, keys)
    for name in ("environments", "methods"):
        if name not in given:
            raise InputError(f"{name}: expected, but not there")
    sweep: dict[str, Any] = {
        "environments": _environments(given["environments"]),
        "methods": _list("methods", given["methods"], _TEXT),
        **{name: _list(name, given[name]) for name in LISTS if name in given},
        # Which keys there may be depends on the methods and on the planners.
        "model": _values("model", given.get("model", {}), model_rows()),
        "planning": _values("planning", given.get("planning", {}), planner_rows()),
    }
    sonar = _values("sonar", given.get("sonar", {}), rows(SonarSettings), strict=True)
    base: dict[str, Any] = {
        row.name: _value(row.name, row, given[row.name]) for row in COMMON if row.name in given
    }
    mission = MissionSettings(**base, sonar=located("sonar", lambda: SonarSettings(**sonar)))
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
            raise InputError(f"{where}.terrain: expected, but not there")
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
        raise InputError(f"{place}: unknown, expected one of {', '.join(known or ())}")
    return value


def _list(where: str, value: Any, row: Setting | None = None) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: expected a list, got {value!r:.60}")
    return [_value(f"{where}[{i}]", row, item) if row else item for i, item in enumerate(value)]


def _value(where: str, row: Setting, value: Any) -> Value:
    """The value; a number is also one that YAML takes for text, such as 1e-6."""
    number = isinstance(row.default, float) and isinstance(value, str)
    return at(where, row).read(value) if number else at(where, row).convert(value)


def _values(
    where: str, given: Any, table: Sequence[Setting], strict: bool = False
) -> dict[str, Any]:
    """The values of a mapping, each as its row has it; ``strict``: every key must have one."""
    known = {row.name: row for row in table}
    return {
        name: _value(f"{where}.{name}", known[name], value) if name in known else value
        for name, value in _mapping(where, given, list(known) if strict else None).items()
    }
