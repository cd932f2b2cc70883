"""A map's grid in bands, predicted side by side by workers that each have the model."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..drivers.sounding_map import OnProgress
from ..errors import PoamError
from ..geometry import Grid
from ..mapping import BathymetricMapper
from ..maps import ElevationMap
from .portrait import Portrait
from .tasks import band_task

#: Bands of the grid for each worker: the last ones to finish wait for one of them.
BANDS = 4


def draw_in_bands(
    client: Any, mapper: BathymetricMapper, grid: Grid, on_progress: OnProgress
) -> ElevationMap:
    """As ``sounding_map.draw``, by the workers of a dask client.

    Raises:
        PoamError: a matrix is beyond repair, or a worker is lost.
    """
    from distributed import as_completed

    rows, columns = grid.shape
    workers = max(1, sum(client.nthreads().values()))
    edges = np.linspace(0, rows, min(rows, BANDS * workers) + 1).astype(int).tolist()
    bands = [slice(begin, end) for begin, end in pairwise(edges)]
    there = client.scatter(Portrait.of(mapper), broadcast=True)
    tasks = {
        client.submit(band_task, there, Grid(grid.x, grid.y[band]), pure=False): band
        for band in bands
    }
    whole: dict[str, np.ndarray] = {}
    done = 0
    for future in as_completed(tasks, loop=client.loop):
        band, found = tasks[future], result(future, "a band of the map")
        future.release()
        layers = {**found.fields, "mean": found.mean, "variance": found.variance}
        for name, values in layers.items():
            whole.setdefault(name, np.empty(grid.shape))[band] = values
        done += (band.stop - band.start) * columns
        on_progress(done)
    mean, variance = whole.pop("mean"), whole.pop("variance")
    return ElevationMap(grid, mean, variance, whole, mapper.support, mapper.samples)


def result(future: Any, what: str) -> Any:
    """What a task returns.

    Raises:
        PoamError: it failed, or its worker is lost.
    """
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, PoamError):
        raise error
    raise PoamError(f"{what}: {type(error).__name__}: {error}") from error
