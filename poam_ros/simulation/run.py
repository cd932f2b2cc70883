"""A mission in lock-step and the folder that it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..core.geometry import map_grid
from ..outputs.folder import (
    EPOCH_COLUMNS,
    EpochRecord,
    make_folder,
    write_config,
    write_map,
    write_samples,
    write_table,
    write_truth,
)
from ..outputs.results import write_refused
from .lockstep import LockstepMission
from .settings import MissionSettings
from .world.terrain import Terrain


def run_mission(
    terrain: Terrain,
    settings: MissionSettings,
    folder: Path,
    on_epoch: Callable[[EpochRecord], None] = lambda record: None,
    on_end: Callable[[str], None] = lambda reason: None,
) -> list[EpochRecord]:
    """Run a mission and write its folder: config.yaml, truth.npz, epochs.csv (kept up to date),
    and at the end samples.csv, refused.csv and map.npz. ``on_end`` is told why it was the end.

    Raises:
        InputError: if a setting is wrong or the folder cannot be written.
        CholeskyError: if the model is beyond repair; what was measured so far is in the folder.
    """
    make_folder(folder)
    mission = LockstepMission(terrain, settings)
    write_config(folder / "config.yaml", describe(mission))
    write_truth(folder / "truth.npz", terrain.elevation, terrain.extent)
    records: list[EpochRecord] = []
    try:
        for record in mission.epochs():
            records.append(record)
            rows = [r.row() for r in records]
            write_table(folder / "epochs.csv", EPOCH_COLUMNS, rows)
            on_epoch(record)
    finally:
        # Also after Ctrl-C or a failure: what was measured is never lost.
        samples = mission.session.everything()
        write_refused(folder, mission.session.ledger.refused.newest())
        write_samples(folder / "samples.csv", samples.xy, samples.z)
    grid = map_grid(settings.workspace, settings.resolution)
    write_map(folder / "map.npz", mission.mapper.map(grid))
    on_end(mission.mission.reason)
    return records


def describe(mission: LockstepMission) -> dict[str, Any]:
    """Everything resolved, as plain values for config.yaml."""
    terrain, settings = mission.terrain, mission.settings
    return {
        "version": __version__,
        "terrain": {
            "name": terrain.name,
            "source": terrain.source,
            "environment": list(terrain.extent.bounds),
            "elevation": [terrain.lowest, terrain.highest],
        },
        **asdict(settings),
        "model": settings.model.flat,
        "workspace": list(settings.workspace.bounds),
        "water_level": settings.target.water_level,
        "sonar": asdict(mission.simulation.settings),
    }
