"""A map of soundings that are placed already: batches in the order of the record, as a vehicle's
mapper would have learned them, screen and retries included; then the grid, tile by tile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import numpy as np

from ..core.clock import Moment
from ..core.errors import InputError, PoamError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap, Predicted
from ..core.samples import Samples
from ..frontend.batching import WaypointBatches
from ..frontend.events import Judged, Learned, Outcome, Trouble
from ..frontend.ledger import Ledger
from ..journal.records import Logged
from ..learning.loop import ModelLoop
from ..learning.recovery import Resumption
from ..models.mapper import BathymetricMapper
from ..outputs.held_out import HeldOut, log_loss
from ..screening.screen import FALSE_ECHO, ScreeningSettings
from .soundings import SoundingMapSettings, Soundings

log = logging.getLogger(__name__)

#: Places that are predicted at a time.
TILE = 20_000
#: Called with how many soundings, or cells, are dealt with by now.
OnProgress = Callable[[int], None]


def learn(
    soundings: Soundings,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
) -> tuple[BathymetricMapper, Samples]:
    """A mapper that has learned the soundings, and those that were refused as false echoes.

    What a mission's model did with exactly these is done again; others go through the screen and
    into the model batch by batch.

    Raises:
        InputError: no map can be made of them.
        PoamError: the model fails for good.
    """
    samples = soundings.samples(settings.water_level)
    steps, screening = soundings.steps, ScreeningSettings()  # the mission's pings were screened
    if steps is None:
        screening = settings.screened(samples).screening
    mapper = BathymetricMapper(workspace, settings.model, settings.seed)
    # The batches are the record's: none closes by itself.
    loop = ModelLoop(mapper, Ledger(numbering=False), WaypointBatches(), screening=screening)
    refused = []
    if steps is None:
        batches = soundings.batches(settings)
    else:
        _repeat(loop, Logged(samples, steps), on_progress)
        batches = [slice(len(samples), len(samples))]
    for batch in batches:
        loop.add_soundings(samples[batch], 0)
        if batch.stop == len(samples):
            loop.finish()
        for outcome in _work(loop):
            if isinstance(outcome, Judged):
                refused.append(outcome.refused)
        on_progress(batch.stop)
    if mapper.initialised:
        if steps is None:
            mapper.calibrate(settings.stretches)
        return mapper, Samples.joined(refused)
    if steps is not None:
        raise InputError("mission: expected one that came to a map, got none in its log")
    if failing := loop.status.failing:
        raise PoamError(f"no map: {failing}")
    raise InputError(
        f"soundings: expected a ground that a map can be made of, got {len(loop.backlog)} of "
        "elevations that do not differ enough "
        f"({sum(map(len, refused))} more refused as {FALSE_ECHO})"
    )


def _repeat(loop: ModelLoop, logged: Logged, on_progress: OnProgress) -> None:
    """What a mission's log says, from its begin; what waited then is in the loop's backlog."""

    def give_up(number: int) -> None:
        text = f"the mission's step {number + 1} cannot be repeated ({loop.status.failing})"
        raise PoamError(text)

    loop.go_on(loop.keeping, Resumption(None, logged, give_up))
    for outcome in _work(loop):
        if isinstance(outcome, Learned):
            on_progress(outcome.report.samples)


def _work(loop: ModelLoop) -> Iterator[Outcome]:
    """What comes of the work that is due; failures are logged."""
    for outcome in loop.work(Moment(0, 0.0)):
        if isinstance(outcome, Trouble) and outcome.fault:
            log.warning("%s", outcome.note.text)
        yield outcome


def draw(
    mapper: BathymetricMapper, grid: Grid, on_progress: OnProgress = lambda done: None
) -> ElevationMap:
    """The map on a grid, predicted a few rows at a time, so that memory does not grow with it.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    rows, columns = grid.shape
    step = max(1, TILE // columns)
    whole: dict[str, np.ndarray] = {}
    for begin in range(0, rows, step):
        tile = mapper.map(Grid(grid.x, grid.y[begin : begin + step]))
        for name, values in {**tile.fields, "mean": tile.mean, "variance": tile.variance}.items():
            layer = whole.setdefault(name, np.empty(grid.shape))
            layer[begin : begin + step] = values
        on_progress(min(begin + step, rows) * columns)
    mean, variance = whole.pop("mean"), whole.pop("variance")
    return ElevationMap(grid, mean, variance, whole, mapper.support, mapper.samples)


def predict(mapper: BathymetricMapper, xy: np.ndarray) -> Predicted:
    """As the mapper, of soundings at xy [N, 2], a few thousand at a time."""
    parts = [mapper.predict(part) for part in _parts(xy)]
    mean, variance = (np.concatenate([getattr(p, n) for p in parts]) for n in ("mean", "variance"))
    return Predicted(mean, variance)


def _parts(xy: np.ndarray) -> Iterator[np.ndarray]:
    return (xy[begin : begin + TILE] for begin in range(0, len(xy), TILE))


def validate(mapper: BathymetricMapper, held: Soundings, fold: int = 0) -> HeldOut:
    """Predict held-out soundings, as they were recorded: they are never screened.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = predict(mapper, held.xy)
    learned = mapper.z
    naive = log_loss(held.z, float(learned.mean()), float(learned.var()))
    std, number = np.sqrt(found.variance), np.full(len(held), fold)
    return HeldOut(held.row, held.xy, held.z, found.mean, std, number, naive)


def validate_fold(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
) -> HeldOut:
    """A map without the held soundings (boolean [N]), asked for them. Raises as ``learn``."""
    mapper, _ = learn(soundings[np.flatnonzero(~held)], workspace, settings, on_progress)
    return validate(mapper, soundings[np.flatnonzero(held)], fold)
