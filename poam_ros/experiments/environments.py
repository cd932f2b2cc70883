"""The terrains of a sweep: found, loaded and checked before any run starts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from ..errors import InputError, TerrainError
from ..world.rasters import FORMATS, IMAGES
from ..world.terrain import BUILT_IN, TILE_NAME, Terrain, load_terrain
from .configuration import SweepSettings

ENDINGS = tuple(dict.fromkeys((*FORMATS, ".tiff", *IMAGES)))


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
            hint = "; here: in a folder, --terrains DIR" if _is_tile(settings.terrain) else ""
            place = sweep.place(f"environments.{name}")
            raise TerrainError(f"{place}: {error}{hint}") from None
    return loaded


def digest(terrain: Terrain) -> str:
    """What tells this elevation from any other."""
    elevation = np.ascontiguousarray(terrain.elevation, dtype="<f8")
    return hashlib.sha256(repr(elevation.shape).encode() + elevation.tobytes()).hexdigest()


def _is_tile(terrain: str) -> bool:
    return TILE_NAME.fullmatch(terrain) is not None


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
