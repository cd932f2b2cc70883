"""sweep.yaml: what the runs in a sweep's folder have been made with, and may be joined by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ... import __version__
from ...core.errors import InputError
from ...core.renames import renamed
from ...core.safe_yaml import read_yaml
from ...core.settings import values_of
from ...planning.planners import planner_rows
from ...simulation.world.terrain import Terrain
from .configuration import COMMON, LISTS, MODEL, SONAR, SweepSettings, digest

#: Version of the layout of a sweep's folder, in its sweep.yaml.
FORMAT = 1
#: Keys of the lists that a later sweep in the folder may add to.
VARIED = ("methods", *LISTS)
#: Keys of the mappings, and the settings that they may hold.
TABLES = {"model": MODEL, "planning": planner_rows(), "sonar": SONAR}


def describe(settings: SweepSettings, terrains: Mapping[str, Terrain]) -> dict[str, Any]:
    """Everything resolved, as plain values for sweep.yaml."""
    environments = {}
    for name, terrain in terrains.items():
        given = settings.environments[name]
        environments[name] = {
            "terrain": given.terrain,
            "source": terrain.source,
            "elevation_range": list(given.elevation_range) if given.elevation_range else None,
            "preparation": given.preparation,
            "elevation": [terrain.lowest, terrain.highest],
            "shape": list(terrain.elevation.shape),
            "sha256": digest(terrain),
        }
    base = settings.base
    return {
        "format": FORMAT,
        "version": __version__,
        "environments": environments,
        **{name: list(getattr(settings, name)) for name in VARIED},
        **{row.name: values_of(base)[row.name] for row in COMMON},
        "workspace": list(base.workspace.bounds),
        "model": dict(settings.model),
        "planning": dict(settings.planning),
        "sonar": asdict(base.sonar),
    }


def merged(path: Path, sweep: dict[str, Any]) -> dict[str, Any]:
    """The sweep and what an earlier one in its folder, of the same settings, has besides."""
    if not path.exists():
        if (path.parent / "runs").exists():
            raise InputError(f"{path.parent}: expected a sweep.yaml beside runs/, but not there")
        return sweep
    old = read_metadata(path)
    common = (row.name for row in COMMON)
    for name in (*common, "workspace", *TABLES):
        before, now = (_with_defaults(name, given.get(name)) for given in (old, sweep))
        if before != now:
            raise _changed(path, name, before, now)
    for name, environment in sweep["environments"].items():
        before = old["environments"].get(name, environment)
        if before["sha256"] != environment["sha256"]:
            raise _changed(path, f"environments.{name}", before["source"], environment["source"])
    lists = {n: [*old[n], *(value for value in sweep[n] if value not in old[n])] for n in VARIED}
    return {**sweep, "environments": {**old["environments"], **sweep["environments"]}, **lists}


def _with_defaults(name: str, given: Any) -> Any:
    """What a sweep.yaml says of a setting. One that it does not name, or an older version did not
    know, is what it is by default."""
    if name not in TABLES:
        return {row.name: row.default for row in COMMON}.get(name) if given is None else given
    # In older versions None was the default of max_range, and published an option, now a method.
    kept = {key: value for key, value in (given or {}).items() if value is not None}
    kept = {key: value for key, value in kept.items() if (key, value) != ("published", False)}
    return {**{row.name: row.default for row in TABLES[name]}, **kept}


def _changed(path: Path, name: str, before: Any, now: Any) -> InputError:
    if isinstance(before, dict) and isinstance(now, dict):
        key = next(k for k in {**before, **now} if before.get(k) != now.get(k))
        name, before, now = f"{name}.{key}", before.get(key), now.get(key)
    return InputError(
        f"{path}: {name}: the runs in this folder have {before!r}, the configuration {now!r}; "
        f"give another folder"
    )


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the sweep.yaml of a sweep's folder.

    Raises:
        InputError: if it cannot be read, or the folder is laid out as another version does.
    """
    try:
        found = read_yaml(path)
    except (OSError, InputError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    layout = found.get("format") if isinstance(found, dict) else None
    if layout != FORMAT:
        raise InputError(
            f"{path}: expected format {FORMAT}, got {layout!r}: results of another version; "
            f"give another folder"
        )
    found = renamed(found)  # as what an older version wrote
    for name in ("model", "planning"):
        inner = {**(found.get(name) or {}), "workspace": found["workspace"]}
        found[name] = {key: value for key, value in renamed(inner).items() if key != "workspace"}
    return found
