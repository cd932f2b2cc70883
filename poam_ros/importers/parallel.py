"""A map's grid in bands, predicted side by side by workers that each have the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.errors import PoamError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from ..core.process import configure_process
from ..core.samples import Samples
from ..models.mapper import BathymetricMapper, MapperState
from ..models.packing import Packed, pack, unpack
from ..models.registry import ModelSettings
from ..outputs.held_out import HeldOut, split_folds
from .mapping import OnProgress, draw, validate_fold
from .soundings import SoundingMapSettings, Soundings


@dataclass(frozen=True)
class Portrait:
    """A mapper that travels, and predicts: plain arrays, the pings but for one left behind."""

    workspace: Extent
    settings: ModelSettings
    packed: Packed
    offset: float
    deviation: float
    sample: Samples

    @classmethod
    def of(cls, mapper: BathymetricMapper) -> Portrait:
        """Of a mapper that has a map."""
        state = mapper.state()
        return cls(
            mapper.workspace, mapper.settings, pack(state.model), state.offset, state.deviation,
            state.samples[:1],
        )  # fmt: skip

    @cached_property
    def mapper(self) -> BathymetricMapper:
        """It again. Once on a worker, which keeps what was sent to it for all of its tasks."""
        mapper = BathymetricMapper(self.workspace, self.settings)
        model = unpack(self.packed)
        mapper.restore(MapperState(model, self.offset, self.deviation, self.sample))
        return mapper


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


def cross_validate(
    soundings: Soundings,
    workspace: Extent,
    settings: SoundingMapSettings,
    folds: int,
    client: Any = None,
    on_progress: Callable[[int], None] = lambda done: None,
) -> HeldOut:
    """Hold out every group of soundings once.

    Args:
        soundings: of the record; their groups stay together.
        workspace: of every map.
        settings: of every map.
        folds: how many maps.
        client: of dask, whose workers map side by side; None: in turn, in this process.
        on_progress: called with how many soundings were learned, of all folds together.

    Raises:
        InputError: fewer groups than folds, or no map can be made without one of the folds.
        PoamError: a model fails for good, or a worker is lost.
    """
    fold = split_folds(soundings.group, folds, settings.seed)
    masks = [fold == number for number in range(folds)]
    sizes = np.array([int((~mask).sum()) for mask in masks])
    if client is None:
        parts = []
        for number, mask in enumerate(masks):
            report = partial(_add, on_progress, int(sizes[:number].sum()))
            parts.append(validate_fold(soundings, mask, number, workspace, settings, report))
        return HeldOut.joined(parts)
    from distributed import as_completed

    there = client.scatter(soundings, broadcast=True)
    tasks = {
        client.submit(fold_task, there, mask, number, workspace, settings, pure=False): number
        for number, mask in enumerate(masks)
    }
    done, parts = 0, []
    for future in as_completed(tasks, loop=client.loop):
        parts.append(result(future, f"fold {tasks[future]}"))
        done += int(sizes[tasks[future]])
        on_progress(done)
    return HeldOut.joined(parts)


def _add(on_progress: Callable[[int], None], before: int, done: int) -> None:
    on_progress(before + done)


def fold_task(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
) -> HeldOut:
    """One fold of a validation on a worker; the arguments are those of ``validate_fold``."""
    configure_process(settings.model.threads)
    return validate_fold(soundings, held, fold, workspace, settings)


def band_task(portrait: Portrait, band: Grid) -> ElevationMap:
    """A band of a map on a worker."""
    configure_process(portrait.settings.threads)
    return draw(portrait.mapper, band)
