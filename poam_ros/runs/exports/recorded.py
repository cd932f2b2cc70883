"""What a run's own config.yaml says of how its map is to be handed on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ...errors import InputError


def read_config(path: Path) -> Any:
    """The settings of a run; None where the run kept none.

    Raises:
        InputError: if the file is there but is no YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise InputError(f"{path}: expected YAML ({' '.join(str(error).split())})") from None


def recorded(folder: Path) -> dict[str, Any]:
    """``origin``, ``heading`` and ``water_level`` of a run, as far as its config.yaml has them.

    They lie flat in that of a mapped log; in that of nodes the planner has the place and the mapper
    the level.

    Raises:
        InputError: if config.yaml is there but is no YAML.
    """
    config = _mapping(read_config(folder / "config.yaml"))
    nodes = _mapping(config.get("nodes"))
    places, levels = (config | _mapping(nodes.get(name)) for name in ("planner", "mapper"))
    origin, level = places.get("origin"), _number(levels.get("water_level"))
    found: dict[str, Any] = {} if level is None else {"water_level": level}
    # A planner's origin of 0, 0 is its default: it was not said.
    if isinstance(origin, list) and any(origin):
        place = tuple(map(_number, origin))
        if len(place) == 2 and None not in place:
            found |= {"origin": place, "heading": _number(places.get("heading")) or 0.0}
    return found


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if known else None
