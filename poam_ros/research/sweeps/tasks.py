"""Tasks: what happens on a worker, which may be another machine."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from ...core.process import configure_process
from ...outputs.folder import read_map, write_map_tables
from ...simulation.run import run_mission
from ...simulation.world.terrain import Terrain
from .configuration import Run


@dataclass(frozen=True)
class TaskResult:
    """What became of a run: the files of its folder, or the traceback of its failure.

    ``wall_s``: how long it took, in s. ``samples``: how many pings it ended with.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    samples: int = 0
    wall_s: float = 0.0
    failure: str = ""


def run_task(terrain: Terrain, run: Run) -> TaskResult:
    """Run the mission in a temporary folder. Whatever it raises is in the result.

    The files travel instead of being written in place: workers need no file system in common, and
    only one process writes the results.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="poam-") as name:
            folder = Path(name)
            configure_process(run.mission.model.threads)
            start = perf_counter()
            records = run_mission(terrain, run.mission, folder)
            wall_s = perf_counter() - start
            write_map_tables(folder, read_map(folder / "map.npz"), terrain)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        return TaskResult(files, records[-1].samples, wall_s)
    except Exception:  # one run must not end the others
        return TaskResult(failure=traceback.format_exc())
