"""Workers for independent tasks: processes on this machine, or a dask scheduler's."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.errors import InputError

#: One thread each, whatever the linear algebra would take by itself.
ENVIRONMENT = {
    f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB")
}


@contextmanager
def cluster(
    tasks: int, threads: int = 1, workers: int | None = None, scheduler: str | None = None
) -> Iterator[Any]:
    """A client of the scheduler, or of workers on this machine that are started for it.

    Args:
        tasks: how many there are; no more workers than that are started.
        threads: of each task's linear algebra.
        workers: processes on this machine; None: as many as it has cores for.
        scheduler: address of a dask scheduler to work on, instead of this machine.

    Raises:
        InputError: dask is not installed, or there is no scheduler at the address.
    """
    try:
        from dask.system import CPU_COUNT
        from distributed import Client, LocalCluster
    except ImportError:
        raise InputError(
            "side by side needs dask.distributed (pip install 'poam_ros[benchmark]')"
        ) from None
    # It logs every connection, through the root logger's handlers where there are any.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler is not None:
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
        return
    workers = workers or max(1, CPU_COUNT // threads)
    local = LocalCluster(
        n_workers=min(workers, tasks),
        threads_per_worker=1,
        memory_limit=0,  # a run needs what it needs; killing it would not help
        dashboard_address="127.0.0.1:0",  # any free port
        silence_logs=logging.CRITICAL,
        env=ENVIRONMENT,
    )
    with local, Client(local, set_as_default=False) as client:
        yield client
