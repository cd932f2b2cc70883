"""Many missions in parallel: each run is a task, on this machine or on a cluster."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from ...core.errors import InputError, PoamError
from ...core.process import configure_process
from ...mapping.parallel import cluster
from ...simulation.lockstep import LockstepMission, run_mission
from ...simulation.world.terrain import Terrain
from .configuration import Run, SweepSettings, load_environments
from .folder import SweepFolder, TaskResult, locked


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
        try:
            LockstepMission(terrains[run.environment], mission)
        except InputError as error:
            place = settings.place(f"environments.{run.environment}")
            raise InputError(f"{place}: {error}") from None


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
        there = {name: client.submit(_same, land, pure=False) for name, land in terrains.items()}
        arguments = [there[run.environment] for run in waiting], waiting
        futures = client.map(run_task, *arguments, pure=False)
    runs = dict(zip(futures, waiting, strict=True))
    del futures, arguments
    on_run(status, None)
    for future in as_completed(list(runs), loop=client.loop):
        run, result = runs.pop(future), _result_of(future)
        future.release()
        if result.failure:
            status.failed[run] = sweep_folder.fail(run, result.failure)
        else:
            sweep_folder.add(run, result)
            status.finished += 1
        on_run(status, run)


def _same(terrain: Terrain) -> Terrain:
    return terrain


def _result_of(future: Any) -> TaskResult:
    if future.cancelled():
        raise PoamError("the cluster is lost; the finished runs are kept")
    error = future.exception()
    if error is None:
        return future.result()
    # Not the run's own failure: its worker died, or lacks this package.
    return TaskResult(failure="".join(traceback.format_exception(error)))


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
