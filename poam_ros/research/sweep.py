"""Many missions in parallel: each run is a task, on this machine or on a cluster, and a folder in
the folder of the sweep, with sweep.yaml, failures, and runs.csv, the index of the runs.

A run's folder appears under its name only when it is complete, so every such folder is a finished
run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from .. import __version__
from ..core.errors import InputError, PoamError
from ..core.files import atomic_write, lock, rename_folder
from ..core.process import configure_process
from ..core.workers import cluster
from ..outputs.folder import RUN_COLUMNS, make_folder, read_records, write_config, write_table
from ..simulation.lockstep import LockstepMission, run_mission
from ..simulation.terrain import Terrain
from .configuration import (
    LAYOUT,
    LISTS,
    Run,
    SweepSettings,
    load_environments,
    located,
    read_metadata,
)  # fmt: skip


@dataclass(frozen=True)
class TaskResult:
    """The result of a run: the files of its folder, or the traceback of its failure.

    ``wall_s``: wall time, in s. ``samples``: number of pings at its end.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    samples: int = 0
    wall_s: float = 0.0
    failure: str = ""


class SweepFolder:
    """The folder of a sweep, for one writer at a time.

    Args:
        folder: created if it does not exist.
        settings: of the sweep. They may add runs to those of an earlier sweep in this folder, but
            not change any.
        terrains: by environment.

    Raises:
        InputError: if the folder cannot be written, or has broken runs or runs with other settings.
        PoamError: if a file in it cannot be written.
    """

    def __init__(
        self, folder: Path, settings: SweepSettings, terrains: Mapping[str, Terrain]
    ) -> None:
        self.folder = make_folder(folder)
        sweep = merged(folder / "sweep.yaml", describe(settings, terrains))
        self._order = {
            name: [str(value) for value in sweep[f"{name}s"]]
            for name in ("environment", "pilot", "planner", "method", "seed")
        }
        #: The row of runs.csv of every finished run, by its folder.
        self.finished = {
            path.relative_to(folder).as_posix(): _read_row(path / "run.csv")
            for path in folder.glob("runs/*/*/*/seed-*")
        }
        with _writing(folder):
            write_config(folder / "sweep.yaml", sweep)
            for left in folder.glob("runs/*/*/*/.seed-*"):
                shutil.rmtree(left)  # of an interrupted run
            self._write_index()

    def add(self, run: Run, result: TaskResult) -> None:
        """Store a finished run.

        Raises:
            PoamError: if it cannot be written.
        """
        mission = run.mission
        values = (
            run.environment, run.method, mission.model.values.get("sparse.kernel", ""),
            mission.pilot, mission.planner, mission.seed, result.samples, result.wall_s,
            run.folder,
        )  # fmt: skip
        place = self.folder / run.folder
        beside = place.with_name(f".{place.name}.{os.getpid()}")
        with _writing(place):
            beside.mkdir(parents=True)
            try:
                for name, content in result.files.items():
                    (beside / name).write_bytes(content)
                write_table(beside / "run.csv", RUN_COLUMNS, [values])
                row = _read_row(beside / "run.csv")
                rename_folder(beside, place)
            finally:  # a full disk needs its space
                shutil.rmtree(beside, ignore_errors=True)
            self._failure(run).unlink(missing_ok=True)
            self.finished[run.folder] = row
            self._write_index()

    def fail(self, run: Run, traceback: str) -> Path:
        """Store the traceback of a failed run; returns its file.

        Raises:
            PoamError: if it cannot be written.
        """
        path = self._failure(run)
        with _writing(path):
            path.parent.mkdir(exist_ok=True)
            with atomic_write(path) as file:
                file.write(traceback.encode())
        return path

    def _failure(self, run: Run) -> Path:
        return self.folder / "failures" / f"{'-'.join(run.folder.split('/')[1:])}.txt"

    def _write_index(self) -> None:
        """Write runs.csv, in the order of the configuration."""

        def place(row: Mapping[str, str]) -> list[int]:
            return [[*values, row[name]].index(row[name]) for name, values in self._order.items()]

        rows = sorted(self.finished.values(), key=place)
        values = [tuple(row[name] for name in RUN_COLUMNS) for row in rows]
        write_table(self.folder / "runs.csv", RUN_COLUMNS, values)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the folder of a sweep against a second writer.

    Raises:
        InputError: if it cannot be written, or another process is writing in it.
    """
    try:
        held = lock(make_folder(folder) / ".lock")
    except BlockingIOError:
        raise InputError(f"output: another benchmark is writing to {folder}") from None
    with held:
        yield


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PoamError(
            f"{path}: cannot be written ({error.strerror or error}); the finished runs are kept"
        ) from None


def _read_row(path: Path) -> dict[str, str]:
    """The row of runs.csv that a finished run's folder has in its run.csv."""
    rows = read_records(path, RUN_COLUMNS)
    if len(rows) != 1:
        raise InputError(f"{path}: expected one row; delete its folder to repeat the run")
    return rows[0]


#: Keys of the lists that a later sweep in the folder may add to.
VARIED = ("methods", *LISTS)


def describe(settings: SweepSettings, terrains: Mapping[str, Terrain]) -> dict[str, Any]:
    """The resolved sweep, as plain values for sweep.yaml."""
    environments = {}
    for name, terrain in terrains.items():
        given = settings.environments[name]
        elevation = np.ascontiguousarray(terrain.elevation, dtype="<f8")
        content = repr(elevation.shape).encode() + elevation.tobytes()
        environments[name] = {
            "terrain": given.terrain,
            "source": terrain.source,
            "elevation_range": list(given.elevation_range) if any(given.elevation_range) else None,
            "preparation": given.preparation or None,
            "elevation": [terrain.lowest, terrain.highest],
            "shape": list(elevation.shape),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    shared = settings.resolved.items()
    return {
        "layout": LAYOUT,
        "version": __version__,
        "environments": environments,
        **{name: list(getattr(settings, name)) for name in VARIED},
        "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in shared},
    }


def merged(path: Path, sweep: dict[str, Any]) -> dict[str, Any]:
    """The sweep, with the runs of an earlier one in its folder that has the same settings.

    Raises:
        InputError: it has others, or cannot be read.
    """
    if not path.exists():
        if (path.parent / "runs").exists():
            raise InputError(f"{path.parent}: there is no sweep.yaml beside runs/")
        return sweep
    old = read_metadata(path)
    before, now = dict(old["settings"]), dict(sweep["settings"])
    for name in sweep["environments"].keys() & old["environments"].keys():  # by their digests
        for each, own in ((old, before), (sweep, now)):
            own[f"environments.{name}"] = each["environments"][name]["sha256"]
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            raise InputError(
                f"{path}: {name}: the runs in this folder have {before.get(name)!r}, the "
                f"configuration {now.get(name)!r}; give another folder"
            )
    lists = {n: [*old[n], *(value for value in sweep[n] if value not in old[n])] for n in VARIED}
    return {**sweep, "environments": {**old["environments"], **sweep["environments"]}, **lists}


@dataclass
class SweepStatus:
    """The state of a sweep.

    Attributes:
        total: number of its runs.
        finished: number of finished runs, with those of earlier calls.
        failed: files of the tracebacks of failed runs.
    """

    total: int
    finished: int = 0
    failed: dict[Run, Path] = field(default_factory=dict)


#: Called with the status and the run that has ended, or None once the first runs have started.
#: Failed runs are in ``status.failed``.
OnRun = Callable[[SweepStatus, Run | None], None]


def run_sweep(
    settings: SweepSettings,
    folder: Path,
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    terrains: Path | None = None,
    on_run: OnRun = lambda status, run: None,
) -> SweepStatus:
    """Run the unfinished runs of a sweep, and store them in ``folder`` (see `SweepFolder`).

    Args:
        settings: of the sweep.
        folder: of the results.
        workers: processes on this machine; None: as many as its cores allow.
        scheduler: address of a dask scheduler to use instead of this machine.
        terrains: a folder that is searched for terrains by name before they are downloaded.
        on_run: called after every run, and with no run before the first.

    Returns:
        The status at the end: ``failed`` has the runs that failed, with the files of their
        tracebacks.

    Raises:
        InputError: if a setting is wrong, a terrain is missing, the folder cannot be used or there
            is no scheduler at the address; nothing has run.
        PoamError: if the cluster is lost, or a result cannot be written.
    """
    if workers is not None and workers < 1:
        raise InputError(f"workers: expected at least 1, got {workers}")
    loaded = load_environments(settings, terrains)
    _check(settings, loaded, here=scheduler is None)
    with locked(folder):
        sweep_folder = SweepFolder(folder, settings, loaded)
        runs = settings.runs()
        waiting = [run for run in runs if run.folder not in sweep_folder.finished]
        status = SweepStatus(len(runs), len(runs) - len(waiting))
        if waiting:
            threads = runs[0].mission.model.threads
            with cluster(len(waiting), threads, workers, scheduler) as client:
                _work(client, waiting, sweep_folder, loaded, status, on_run)
    return status


def _check(settings: SweepSettings, terrains: Mapping[str, Terrain], here: bool) -> None:
    """Set up a mission on every terrain, to check the settings for it."""
    first = {run.environment: run for run in reversed(settings.runs())}
    for run in first.values():
        mission = run.mission
        if not here:  # the device is the workers', not this machine's
            mission = replace(mission, model=replace(mission.model, device="cpu"))
        place = settings.place(f"environments.{run.environment}")
        located(place, LockstepMission, terrains[run.environment], mission)


def _work(
    client: Any,
    waiting: Sequence[Run],
    sweep_folder: SweepFolder,
    terrains: Mapping[str, Terrain],
    status: SweepStatus,
    on_run: OnRun,
) -> None:
    """Run the waiting runs, in their order, on the threads of the cluster."""
    from distributed import as_completed

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        # Tasks, unlike scattered data, are repeated if a worker is lost.
        there = {name: client.submit(copy, land, pure=False) for name, land in terrains.items()}
        arguments = [there[run.environment] for run in waiting], waiting
        futures = client.map(run_task, *arguments, pure=False)
    runs = dict(zip(futures, waiting, strict=True))
    del futures, arguments
    on_run(status, None)
    for future in as_completed(list(runs), loop=client.loop):
        run = runs.pop(future)
        if future.cancelled():
            raise PoamError("the cluster is lost; the finished runs are kept")
        if (error := future.exception()) is None:
            result = future.result()
        else:  # not the run's own failure: its worker died, or lacks this package
            result = TaskResult(failure="".join(traceback.format_exception(error)))
        future.release()
        if result.failure:
            status.failed[run] = sweep_folder.fail(run, result.failure)
        else:
            sweep_folder.add(run, result)
            status.finished += 1
        on_run(status, run)


def run_task(terrain: Terrain, run: Run) -> TaskResult:
    """Run the mission in a temporary folder; an exception becomes part of the result.

    The files are returned instead of written in place: workers need no common file system, and only
    one process writes the results.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="poam-") as name:
            folder = Path(name)
            configure_process(run.mission.model.threads)
            start = perf_counter()
            records = run_mission(terrain, run.mission, folder)
            wall_s = perf_counter() - start
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        return TaskResult(files, records[-1].samples, wall_s)
    except Exception:  # one run must not end the others
        return TaskResult(failure=traceback.format_exc())
