"""Parallel work by processes of this machine or of a dask scheduler: the bands of a map's grid, the
tiles of its joint draws, and the folds of a validation."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.errors import InputError, PoamError, requires_extra
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from ..core.process import configure_process
from ..models.mapper import BathymetricMapper
from ..outputs.held_out import HeldOut, split_folds
from .drawing import OnProgress, Part, assembled, draw
from .joint_draws import Tile
from .sounding_map import validate_fold
from .soundings import SoundingMapSettings, Soundings

#: One thread for each process, whatever the default of the linear algebra.
ENVIRONMENT = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB")
}
#: Bands of the grid for each worker. With more, less time is lost at the end.
BANDS = 4


@contextmanager
def cluster(
    tasks: int, threads: int = 1, workers: int | None = None, scheduler: str | None = None
) -> Iterator[Any]:
    """A dask client of the scheduler, or of workers that are started on this machine.

    Args:
        tasks: number of tasks; at most as many workers are started.
        threads: of the linear algebra in each task.
        workers: number of processes on this machine; None: by the number of cores.
        scheduler: address of a dask scheduler to use instead of this machine.

    Raises:
        InputError: dask is not installed, or there is no scheduler at the address.
    """
    with requires_extra("a map in several processes", "dask.distributed", "benchmark"):
        from dask.system import CPU_COUNT
        from distributed import Client, LocalCluster
    # dask logs every connection, through handlers of the root logger.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler is None:
        workers = workers or max(1, CPU_COUNT // threads)
        # No limit of memory: a worker that needs more would only be killed and started again.
        local = LocalCluster(
            n_workers=min(workers, tasks), threads_per_worker=1, memory_limit=0,
            dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, env=ENVIRONMENT,
        )  # fmt: skip
        with local, Client(local, set_as_default=False) as client:
            yield client
        return
    if not re.fullmatch(r"(\w+://)?[^/]+:\d+", scheduler):
        raise InputError(
            f"scheduler: expected an address such as tcp://10.0.0.5:8786, got {scheduler!r}"
        )
    try:
        client = Client(scheduler, timeout=10, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"scheduler {scheduler}: cannot be reached ({reason})") from None
    with client:
        yield client


def draw_in_bands(
    client: Any, mapper: BathymetricMapper, grid: Grid, on_progress: OnProgress,
    wanted: np.ndarray | None = None,
) -> ElevationMap:  # fmt: skip
    """As ``drawing.draw``, by the workers of a dask client.

    Raises:
        PoamError: a matrix is beyond repair, or a worker is lost.
    """
    from distributed import as_completed

    rows, workers = len(grid.y), max(1, sum(client.nthreads().values()))
    edges = np.linspace(0, rows, min(rows, BANDS * workers) + 1).astype(int).tolist()
    bands, there = [slice(*ends) for ends in pairwise(edges)], _sent(client, mapper)
    tasks = {}
    for band in bands:
        part = None if wanted is None else wanted[band]
        task = partial(draw, grid=Grid(grid.x, grid.y[band]), wanted=part)
        tasks[client.submit(_by, mapper.settings.threads, task, there, pure=False)] = band

    def tiles() -> Iterator[tuple[Part, ElevationMap]]:
        for future in as_completed(tasks, loop=client.loop):
            yield (tasks[future], slice(None)), result(future, "a band of the map")
            future.release()

    return assembled(tiles(), mapper, grid, on_progress)


def draw_tiles(client: Any, mapper: BathymetricMapper, tiles: list[Tile]) -> Iterator[np.ndarray]:
    """As ``joint_draws.here``, by the workers of a dask client, in single precision.

    Raises:
        PoamError: a matrix is beyond repair, or a worker is lost.
    """
    there, threads = _sent(client, mapper), mapper.settings.threads
    for future in [client.submit(_by, threads, _tile, there, tile, pure=False) for tile in tiles]:
        yield result(future, "a tile of the joint draws")


def _tile(mapper: BathymetricMapper, tile: Tile) -> np.ndarray:
    return mapper.deviations(*tile).astype(np.float32)


def _by(threads: int, task: Callable[..., Any], *arguments: Any) -> Any:
    """A task on a worker."""
    configure_process(threads)
    return task(*arguments)


def _sent(client: Any, mapper: BathymetricMapper) -> Any:
    """The mapper on all workers, under a key of its own: the release of an earlier one may still be
    under way."""
    return client.scatter(mapper, broadcast=True, hash=False)


def result(future: Any, what: str) -> Any:
    """The result of a task.

    Raises:
        PoamError: it failed, or its worker is lost.
    """
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, PoamError):
        raise error
    raise PoamError(f"{what}: {type(error).__name__}: {error}") from error


def cross_validate(
    soundings: Soundings, workspace: Extent, settings: SoundingMapSettings, folds: int,
    client: Any = None, on_progress: OnProgress = lambda done: None,
) -> HeldOut:  # fmt: skip
    """Hold out every group of soundings once.

    Args:
        soundings: of the record; groups stay together.
        workspace: of every map.
        settings: of every map.
        folds: how many maps.
        client: of dask, whose workers make the maps in parallel; None: one after the other, in this
            process.
        on_progress: called with the number of soundings learned in all folds together.

    Raises:
        InputError: there are fewer groups than folds, or a fold gives no map.
        PoamError: a model fails for good, or a worker is lost.
    """
    fold = split_folds(soundings.group, folds, settings.seed)
    done, parts, tasks = 0, [], {}
    if client is not None:
        from distributed import as_completed

        there = client.scatter(soundings, broadcast=True)
    for number in range(folds):
        held = fold == number
        learned, rest = int((~held).sum()), (held, number, workspace, settings)
        if client is None:
            report = partial(_add, on_progress, done)
            parts.append(validate_fold(soundings, *rest, report))
            done += learned
        else:
            threads = settings.model.threads
            tasks[client.submit(_by, threads, validate_fold, there, *rest, pure=False)] = (
                number, learned,
            )  # fmt: skip
    for future in as_completed(tasks, loop=client.loop) if tasks else ():
        number, learned = tasks[future]
        parts.append(result(future, f"fold {number}"))
        done += learned
        on_progress(done)
    return HeldOut.joined(parts)


def _add(on_progress: OnProgress, before: int, done: int) -> None:
    on_progress(before + done)
