"""A map of a record and the folder that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from ..models.mapper import BathymetricMapper
from ..outputs.folder import make_folder, write_config, write_map, write_samples
from ..outputs.held_out import HeldOut
from ..outputs.results import FILE, write_refused
from ..outputs.volume import levels_of, measure, round_step, write_water
from ..screening.screen import FALSE_ECHO
from .mapping import OnProgress, draw, learn, validate
from .outline import Outline
from .soundings import SoundingMapSettings, Soundings

#: A mapper's map on a grid; see ``sounding_map.draw``.
Draw = Callable[[BathymetricMapper, Grid, OnProgress], ElevationMap]
#: Cells along a map's longer side, about, where nobody says how large they are.
CELLS = 256
#: What an earlier run may have left in a folder, which is not this one's.
OLD = (
    "validation.json",
    "held_out.csv",
    "validation.png",
    "maps.png",
    "volume.csv",
    "hypsometry.png",
    "report.html",
    "map.npz",
    "samples.csv",
    FILE,
)


@dataclass(frozen=True)
class Mapped:
    """What became of a record: soundings in the map, those refused as false echoes, and those held
    out, where some were."""

    samples: int
    false_echoes: int
    held_out: HeldOut | None


def cell_size(workspace: Extent) -> float:
    """1, 2 or 5 times a power of ten, in m, for about ``CELLS`` cells along the longer side."""
    return round_step(float(workspace.size.max()) / CELLS)


def map_soundings(
    log: Path,
    soundings: Soundings,
    grid: Grid,
    workspace: Extent,
    settings: SoundingMapSettings,
    folder: Path,
    held: np.ndarray | None = None,
    on_progress: OnProgress = lambda done: None,
    draw: Draw = draw,
    outline: Outline | None = None,
    extrapolate: bool = False,
) -> Mapped:
    """Map soundings and write the folder: config.yaml, samples.csv, refused.csv, map.npz and
    volume.csv.

    Args:
        log: the file that they are from, for the record.
        soundings: to be mapped, in order.
        grid: of the map.
        workspace: of the model.
        settings: of the map.
        folder: of the results, new or another run's, whose files of these names are replaced.
        held: those that are kept out of the map, and predicted by it [N], boolean.
        on_progress: called with the soundings that are learned, then with those and the cells.
        draw: predicts the grid, in this process or by the help of others.
        outline: where the map ends; outside of it cells are NaN.
        extrapolate: keep cells that the soundings say nothing about; else they are NaN.

    Raises:
        InputError: no map can be made, or the folder cannot be written.
        PoamError: the model fails for good.
    """
    make_folder(folder)
    for name in OLD:
        (folder / name).unlink(missing_ok=True)
    taken = soundings if held is None else soundings[np.flatnonzero(~held)]
    mapper, echoes = learn(taken, workspace, settings, on_progress)
    write_samples(folder / "samples.csv", mapper.xy, mapper.z)
    drawn = draw(mapper, grid, lambda cells: on_progress(len(taken) + cells))
    shown = np.ones(grid.shape, dtype=bool) if outline is None else outline.covers(grid)
    if not extrapolate:
        shown &= known(drawn, mapper.xy, mapper.z)
    drawn = drawn.only(shown)
    where = np.column_stack((echoes.xy, echoes.z))
    refused = soundings.refused_pings.more(FALSE_ECHO, echoes.stamp_ns, where)
    write_refused(folder, refused)
    write_map(folder / "map.npz", drawn)
    if shown.any():
        levels = levels_of(drawn.mean[shown], soundings.surface(settings.water_level))
        sample = partial(_sample, mapper, settings.seed)
        write_water(folder, measure(drawn, sample, levels))
    if taken.steps is None:
        settings = settings.screened(taken.samples(settings.water_level), say=False)
    config = describe(log, soundings, grid, workspace, settings)
    if outline is not None:
        config["outline"] = outline.described
    config["shown"] = {"cells": int(shown.sum()), "extrapolate": extrapolate}
    config["samples"] = {"mapped": mapper.samples, "false_echoes": len(echoes), **soundings.refused}
    write_config(folder / "config.yaml", config)
    checked = None if held is None else validate(mapper, soundings[np.flatnonzero(held)])
    return Mapped(mapper.samples, len(echoes), checked)


def _sample(mapper: BathymetricMapper, seed: int, places: np.ndarray, count: int) -> np.ndarray:
    return mapper.sample(places, count, seed)


def known(drawn: ElevationMap, xy: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Which cells the soundings at xy [N, 2] of elevations z [N] say anything about.

    Not those farther from all of them than a lengthscale; nor those whose variance is larger than
    that of z, beside what it is where there are soundings: their own mean says as much there.

    Returns:
        Boolean [rows, columns].
    """
    from scipy.spatial import cKDTree

    distance, _ = cKDTree(xy).query(drawn.grid.points)
    far = distance.reshape(drawn.grid.shape) > drawn.lengthscale  # NaN: nothing is far
    sounded = drawn.variance[drawn.grid.counted(xy) > 0]
    least = float(np.median(sounded)) if len(sounded) else 0.0
    return ~far & (drawn.variance - least <= z.var())


def describe(
    log: Path,
    soundings: Soundings,
    grid: Grid,
    workspace: Extent,
    settings: SoundingMapSettings,
) -> dict[str, Any]:
    """Everything resolved, as plain values for config.yaml."""
    return {
        "version": __version__,
        "log": str(log.resolve()),
        **soundings.source,
        "workspace": list(workspace.bounds),
        "resolution": float(grid.x[1] - grid.x[0]),
        **asdict(settings),
        "water_level": soundings.surface(settings.water_level),
        "model": settings.model.flat,
    }
