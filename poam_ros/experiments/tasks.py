"""Tasks: what happens on a worker, which may be another machine."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np

from ..drivers.missions import run_mission
from ..drivers.sounding_map import draw
from ..drivers.sounding_settings import SoundingMapSettings
from ..drivers.soundings import Soundings
from ..drivers.validation import validate_fold
from ..geometry import Extent, Grid
from ..maps import ElevationMap
from ..process import prepare
from ..runs.folder import read_map, write_map_tables
from ..runs.held_out import HeldOut
from ..world.terrain import Terrain
from .configuration import Run
from .portrait import Portrait


@dataclass(frozen=True)
class Outcome:
    """What became of a run: the files of its folder, or the traceback of its failure.

    ``wall_s``: how long it took, in s. ``samples``: how many pings it ended with.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    samples: int = 0
    wall_s: float = 0.0
    failure: str = ""


def run_task(terrain: Terrain, run: Run) -> Outcome:
    """Run the mission in a temporary folder. Whatever it raises is in the outcome.

    The files travel instead of being written in place: workers need no file system in common, and
    only one process writes the results.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="poam-") as name:
            folder = Path(name)
            prepare(run.mission.model.threads)
            start = perf_counter()
            records = run_mission(terrain, run.mission, folder)
            wall_s = perf_counter() - start
            write_map_tables(folder, read_map(folder / "map.npz"), terrain)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        return Outcome(files, records[-1].samples, wall_s)
    except Exception:  # one run must not end the others
        return Outcome(failure=traceback.format_exc())


def fold_task(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
) -> HeldOut:
    """One fold of a validation on a worker; the arguments are those of ``validate_fold``."""
    prepare(settings.model.threads)
    return validate_fold(soundings, held, fold, workspace, settings)


def band_task(portrait: Portrait, band: Grid) -> ElevationMap:
    """A band of a map on a worker."""
    prepare(portrait.settings.threads)
    return draw(portrait.mapper, band)
