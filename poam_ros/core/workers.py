"""Work by several processes: workers of dask, on this machine or a scheduler's."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .errors import InputError, PoamError, requires_extra
from .process import configure_process

#: One thread for each process, whatever the default of the linear algebra.
ENVIRONMENT = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB")
}


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


def by_workers(
    client: Any, threads: int, task: Callable[..., Any], shared: Any,
    every: Sequence[tuple[Any, ...]], what: str,
) -> Iterator[tuple[int, Any]]:  # fmt: skip
    """``task(shared, *arguments)`` of every ``arguments`` by the workers of a dask client, with
    ``threads`` of the linear algebra, or without a client here, one after the other: the number and
    result of each as it ends. ``what``: a task's name.

    Raises:
        PoamError: a task failed on a worker, or its worker is lost.
    """
    if client is None:
        yield from enumerate(task(shared, *arguments) for arguments in every)
        return
    from distributed import as_completed

    # Under a key of its own: the release of an earlier one may still be under way.
    there = client.scatter(shared, broadcast=True, hash=False)
    tasks = {
        client.submit(_by, threads, task, there, *arguments, pure=False): number
        for number, arguments in enumerate(every)
    }
    for future in as_completed(tasks, loop=client.loop):
        error = future.exception()
        if isinstance(error, PoamError):
            raise error
        if error is not None:
            text = f"{what} {tasks[future] + 1}: {type(error).__name__}: {error}"
            raise PoamError(text) from error
        yield tasks[future], future.result()
        future.release()


def _by(threads: int, task: Callable[..., Any], *arguments: Any) -> Any:
    """A task on a worker."""
    configure_process(threads)
    return task(*arguments)
