"""A map of soundings that are placed already: batches in the order of the record, as a vehicle's
mapper would have learned them, screen and retries included; then the grid, tile by tile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np

from ..errors import InputError, PoamError
from ..geometry import Extent, Grid
from ..mapping import BathymetricMapper
from ..maps import ElevationMap, Predicted
from ..samples import Samples
from ..survey.events import Trouble
from ..survey.learner import TRIES, Learner
from ..survey.screening import FALSE_ECHO, Screen
from .sounding_settings import SoundingMapSettings

log = logging.getLogger(__name__)

#: Places that are predicted at a time.
TILE = 20_000
#: Called with how many soundings, or cells, are dealt with by now.
OnProgress = Callable[[int], None]


def learn(
    samples: Samples,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
) -> tuple[BathymetricMapper, int]:
    """A mapper that has learned the samples, and how many were refused as false echoes.

    Raises:
        InputError: no map can be made of them.
        PoamError: the model fails for good.
    """
    settings = settings.screened(samples)
    mapper = BathymetricMapper(workspace, settings.model, settings.seed)
    learner, screen = Learner(mapper, None), Screen(settings.screening)
    waiting, refused = Samples.empty(), 0
    for batch in settings.batches(len(samples)):
        final = batch.stop == len(samples)
        fresh = samples[batch]
        if settings.screening.screening:
            fresh, echoes = _judge(screen, fresh, mapper, final)
            refused += echoes
        waiting = _learn(learner, Samples.joined([waiting, fresh]), TRIES if final else 1)
        on_progress(batch.stop)
    if mapper.initialised:
        return mapper, refused
    if failing := learner.status.failing:
        raise PoamError(f"no map: {failing}")
    raise InputError(
        f"soundings: expected a ground that a map can be made of, got {len(waiting)} of elevations "
        f"that do not differ enough ({refused} more refused as {FALSE_ECHO})"
    )


def draw(
    mapper: BathymetricMapper, grid: Grid, on_progress: OnProgress = lambda done: None
) -> ElevationMap:
    """The map on a grid, predicted a few rows at a time, so that memory does not grow with it.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    rows, columns = grid.shape
    step = max(1, TILE // columns)
    tiles = []
    for begin in range(0, rows, step):
        tiles.append(mapper.map(Grid(grid.x, grid.y[begin : begin + step])))
        on_progress(min(begin + step, rows) * columns)
    fields = {name: np.concatenate([t.fields[name] for t in tiles]) for name in tiles[0].fields}
    mean, variance = (np.concatenate([getattr(t, n) for t in tiles]) for n in ("mean", "variance"))
    return ElevationMap(grid, mean, variance, fields, mapper.support, mapper.samples)


def predict(mapper: BathymetricMapper, xy: np.ndarray) -> Predicted:
    """As the mapper, of soundings at xy [N, 2], a few thousand at a time."""
    parts = [mapper.predict(part) for part in _parts(xy)]
    mean, variance = (np.concatenate([getattr(p, n) for p in parts]) for n in ("mean", "variance"))
    return Predicted(mean, variance)


def _parts(xy: np.ndarray) -> Iterator[np.ndarray]:
    return (xy[begin : begin + TILE] for begin in range(0, len(xy), TILE))


def _judge(
    screen: Screen, fresh: Samples, mapper: BathymetricMapper, final: bool
) -> tuple[Samples, int]:
    """Those that are believed by now, and how many were refused."""
    predict = mapper.predict if mapper.initialised else None
    try:
        judgement = screen.judge(fresh, predict, final)
    except PoamError as error:
        log.warning("soundings are judged without the map: %s", error)
        judgement = screen.judge(fresh, None, final)
    return judgement.accepted, judgement.refused


def _learn(learner: Learner, waiting: Samples, tries: int) -> Samples:
    """Learn what waits, and return what is kept for the next time."""
    while len(waiting) and tries:
        outcome, keep = learner.learn(waiting)
        if isinstance(outcome, Trouble) and outcome.fault:
            log.warning("%s", outcome.note.text)
        waiting, tries = waiting if keep else Samples.empty(), tries - 1
    return waiting
