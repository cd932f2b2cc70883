"""Many missions in parallel: each run is a task, on this machine or on a cluster."""

from __future__ import annotations

import tempfile
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from ...core.errors import InputError, PoamError
from ...core.process import configure_process
from ...mapping.parallel import cluster
from ...outputs.folder import read_map, write_map_tables
from ...simulation.lockstep import LockstepMission, run_mission
from ...simulation.world.terrain import Terrain
from .configuration import Run, SweepSettings, load_environments
from .folder import SweepFolder, TaskResult, locked


@dataclass
class SweepStatus:
    """The state of a sweep. ``finished`` includes runs of earlier calls; ``walls``: wall times in s
    by method."""

    total: int
    finished: int = 0
    waiting: list[Run] = field(default_factory=list)
    running: dict[Any, tuple[Run, float]] = field(default_factory=dict)
    failed: dict[Run, Path] = field(default_factory=dict)
    walls: dict[str, list[float]] = field(default_factory=dict)

    def seconds_left(self) -> float | None:
        """Estimated time left in s, from the mean time of each method's finished runs."""
        every = [wall for walls in self.walls.values() for wall in walls]
        if not every or not self.running:
            return None
        mean = {name: sum(walls) / len(walls) for name, walls in self.walls.items()}
        overall = sum(every) / len(every)
        left = sum(mean.get(run.method, overall) for run in self.waiting)
        now = monotonic()
        remains = [
            max(0.0, mean.get(run.method, overall) - (now - since))
            for run, since in self.running.values()
        ]
        return max((left + sum(remains)) / len(self.running), *remains, 0.0)


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
        runs, finished = settings.runs(), sweep_folder.finished
        waiting = [run for run in runs if run.folder not in finished]
        status = SweepStatus(len(runs), len(runs) - len(waiting), waiting)
        for row in finished.values():
            status.walls.setdefault(row["method"], []).append(float(row["wall_s"]))
        if waiting:
            threads = settings.runs()[0].mission.model.threads
            with cluster(len(waiting), threads, workers, scheduler) as client:
                _work(client, sweep_folder, loaded, status, on_run)
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
    sweep_folder: SweepFolder,
    terrains: Mapping[str, Terrain],
    status: SweepStatus,
    on_run: OnRun,
) -> None:
    """Run all waiting runs, one per thread of the cluster at a time."""
    from distributed import as_completed

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        # Tasks, unlike scattered data, are repeated if a worker is lost.
        there = {
            name: client.submit(_same, terrain, pure=False) for name, terrain in terrains.items()
        }

    def start() -> list[Any]:
        # Counted each time: workers come and go.
        slots = max(1, sum(client.nthreads().values()))
        started = []
        while status.waiting and len(status.running) < slots:
            run = status.waiting.pop(0)
            future = client.submit(run_task, there[run.environment], run, pure=False)
            status.running[future] = run, monotonic()
            started.append(future)
        return started

    completed = as_completed(start(), loop=client.loop)
    on_run(status, None)
    for future in completed:
        run, _ = status.running.pop(future)
        result = _result_of(future)
        future.release()
        if result.failure:
            status.failed[run] = sweep_folder.fail(run, result.failure)
        else:
            sweep_folder.add(run, result)
            status.finished += 1
            status.walls.setdefault(run.method, []).append(result.wall_s)
        completed.update(start())
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
            write_map_tables(folder, read_map(folder / "map.npz"), terrain)
            files = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
        return TaskResult(files, records[-1].samples, wall_s)
    except Exception:  # one run must not end the others
        return TaskResult(failure=traceback.format_exc())
