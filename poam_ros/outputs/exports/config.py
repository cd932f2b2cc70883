"""What a run's config.yaml records for its chart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.files import verify
from ...core.reading import read_yaml
from ...core.settings import flat


def read_config(path: Path) -> Any:
    """The settings of a run; None if it has none.

    Raises:
        InputError: if the file is there but is no YAML.
    """
    try:
        verify(path)
        return read_yaml(path)
    except FileNotFoundError:
        return None
    except (OSError, InputError) as error:
        raise InputError(f"{path}: expected YAML ({error})") from None


def recorded(folder: Path) -> dict[str, Any]:
    """``origin``, ``heading``, ``water_level`` and ``contour_interval`` of a run, as far as its
    config.yaml has them.

    For a mapped log they are top-level keys. For nodes, the planner has the origin and the mapper
    the level.

    Raises:
        InputError: if config.yaml is there but is no YAML.
    """
    config = _config(folder)
    interval = _number(config.get("contour_interval"))
    nodes = _mapping(config.pop("nodes", None))
    places, levels = (
        flat(config) | flat(_mapping(nodes.get(name))) for name in ("planner", "mapper")
    )
    # The second name is that of older runs.
    level = _number(levels.get("water.level", levels.get("water_level")))
    origin = places.get("origin")
    found: dict[str, Any] = {} if level is None else {"water_level": level}
    found |= {} if interval is None else {"contour_interval": interval}
    # 0, 0 is the planner's default: not given.
    if isinstance(origin, list) and any(origin):
        place = tuple(map(_number, origin))
        if len(place) == 2 and None not in place:
            found |= {"origin": place, "heading": _number(places.get("heading")) or 0.0}
    return found


def title_of(folder: Path, config: Mapping[str, Any]) -> str:
    """The title of a run's map: the one given to `poam map`, as ``config`` has it, or else one with
    the folder's name, which is map-LOG unless another was given."""
    default = f"Bathymetry of {folder.resolve().name.removeprefix('map-')}"
    return str(config.get("title") or default)


def has_its_blanks(folder: Path) -> bool:
    """Whether a run's map was made by `poam map`, which decided what it shows.

    Raises:
        InputError: config.yaml is there but is no YAML.
    """
    return "shown" in _config(folder)


def is_simulated(folder: Path) -> bool:
    """Whether pings of a run's folder are simulated, as its config.yaml says.

    Raises:
        InputError: config.yaml is there but is no YAML.
    """
    return bool(_config(folder).get("simulated"))


def settings_of(folder: Path) -> dict[str, Any]:
    """The contents of a run's config.yaml; settings that several nodes share are there once.

    Raises:
        InputError: config.yaml is there but is no YAML.
    """
    config = _config(folder)
    nodes = _mapping(config.get("nodes"))
    if len(nodes) > 1 and all(own == next(iter(nodes.values())) for own in nodes.values()):
        config["nodes"] = {" and ".join(nodes): next(iter(nodes.values()))}
    return config


def _config(folder: Path) -> dict[str, Any]:
    return _mapping(read_config(folder / "config.yaml"))


def _mapping(value: Any) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def _number(value: Any) -> float | None:
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if known else None
