"""A map of soundings that are placed already: batches in the order of the record, as a vehicle's
mapper would have learned them, screen and retries included; then the grid, tile by tile."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..core.errors import InputError, PoamError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap, Predicted
from ..core.samples import Samples
from ..frontend.events import Trouble
from ..journal.records import TRAIN, Step
from ..learning.learner import TRIES, Learner
from ..models.mapper import BathymetricMapper
from ..outputs.held_out import HeldOut, log_loss
from ..screening.screen import FALSE_ECHO, Screen
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
    if soundings.steps is not None:
        mapper = _repeat(samples, soundings.steps, workspace, settings, on_progress)
        return mapper, Samples.empty()
    settings = settings.screened(samples)
    mapper = BathymetricMapper(workspace, settings.model, settings.seed)
    learner, screen = Learner(mapper, None), Screen(settings.screening)
    waiting, refused = Samples.empty(), []
    for batch in soundings.batches(settings):
        final = batch.stop == len(samples)
        fresh = samples[batch]
        if settings.screening.enabled:
            fresh, echoes = _judge(screen, fresh, mapper, final)
            refused.append(echoes)
        waiting = _learn(learner, Samples.joined([waiting, fresh]), TRIES if final else 1)
        on_progress(batch.stop)
    if mapper.initialised:
        mapper.calibrate(settings.stretches)
        return mapper, Samples.joined(refused)
    if failing := learner.status.failing:
        raise PoamError(f"no map: {failing}")
    raise InputError(
        f"soundings: expected a ground that a map can be made of, got {len(waiting)} of elevations "
        f"that do not differ enough ({sum(map(len, refused))} more refused as {FALSE_ECHO})"
    )


def _repeat(
    samples: Samples,
    steps: Sequence[Step],
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress,
) -> BathymetricMapper:
    """What a mission's log says, from its begin; what still waited then is a last batch."""
    mapper = BathymetricMapper(workspace, settings.model, settings.seed)
    learner, done = Learner(mapper, None), 0
    for number, step in enumerate(steps, start=1):
        batch = samples[:0] if step.kind == TRAIN else samples[step.first : step.last + 1]
        try:
            learner.repeat(step, batch)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise PoamError(f"the mission's step {number} cannot be repeated ({text})") from error
        done = max(done, step.last + 1)
        on_progress(done)
    _learn(learner, samples[done:], TRIES)
    on_progress(len(samples))
    if not mapper.initialised:
        raise InputError("mission: expected one that came to a map, got none in its log")
    return mapper


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


def _judge(
    screen: Screen, fresh: Samples, mapper: BathymetricMapper, final: bool
) -> tuple[Samples, Samples]:
    """Those that are believed by now, and those refused."""
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
