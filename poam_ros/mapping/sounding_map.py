"""Maps placed soundings: learns them in batches in the order of the record, as a vehicle's mapper
would, with screening and retries; then draws the grid in tiles."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.clock import Moment
from ..core.errors import InputError, PoamError
from ..core.geometry import Extent, Grid
from ..core.maps import ElevationMap
from ..core.samples import Samples
from ..core.settings import nested, values_of
from ..frontend.batching import WaypointBatches
from ..frontend.events import BatchLearned, LoopEvent, Problem
from ..frontend.ledger import Ledger
from ..frontend.refused_pings import FALSE_ECHO, WITHDRAWN
from ..journal.folder import is_journal
from ..journal.interface import JournalContents, JournalStep
from ..learning.recovery import Recovery
from ..learning.session import ModelLoop
from ..learning.updater import TRIES, ModelUpdater, UpdaterStatus
from ..models.mapper import BathymetricMapper
from ..models.prior import FILE as PRIOR
from ..outputs.crossings import FILE as CROSSINGS
from ..outputs.crossings import LINES
from ..outputs.folder import (
    LEFT_OUT,
    OUTLINE,
    make_folder,
    write_config,
    write_map,
    write_samples,
)
from ..outputs.held_out import FILE as SCORES
from ..outputs.held_out import HeldOut
from ..outputs.results import FILE, write_refused
from ..outputs.scoring import log_loss
from ..outputs.volume import Draws, beyond, levels_of, measure, round_step, write_water
from ..screening import ScreeningSettings
from ..screening.judge import PingBlocks, ShiftWatch
from .calibration import KEY, LEVELS, known_errors
from .crossed import Crossed, cross
from .divisions import day_column, units
from .drawing import OnProgress, draw, predict
from .exclusions import described, rows_and_files
from .joint_draws import DrawTiles, here, joint_draws
from .left_out import DATES, left_out, time_text, write_left_out
from .level_errors import with_level_errors
from .outline import Outline
from .shore import shore_prior
from .soundings import SoundingMapSettings, Soundings
from .survey_errors import SurveyErrors, with_other_survey
from .surveyed import surveyed

log = logging.getLogger(__name__)

Draw = Callable[[BathymetricMapper, Grid, OnProgress, np.ndarray | None], ElevationMap]
CELLS = 282  # maximum along a map's longer side if no resolution is given
#: Files that an earlier run may have left in the folder.
OLD = (
    SCORES, "held_out.csv", "validation.png", "maps.png", "volume.csv", "hypsometry.png",
    "report.html", OUTLINE, "map.npz", "samples.csv", FILE, CROSSINGS, LEFT_OUT, LINES,
)  # fmt: skip


def learn(
    soundings: Soundings,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
    crossed: Crossed | None = None,
    shore: bool = True,
) -> tuple[BathymetricMapper, Samples, Samples]:
    """Learn soundings; returns the mapper, those refused as false echoes, and those withdrawn.

    All soundings of a mission: the model's steps are repeated. A recording: soundings are screened
    and learned batch by batch. A table: false echoes are left out beforehand. A part of a mission's
    soundings: those that the mission withdrew are left out.

    Args:
        soundings: of the record.
        workspace: of the model.
        settings: of the map.
        on_progress: called with the number of soundings processed so far.
        crossed: the crossings of exactly these soundings; None: found here if needed.
        shore: whether a table with land, and without a prior, has one of the distance from land.

    Raises:
        InputError: they do not make a map.
        PoamError: the model fails for good.
    """
    samples = soundings.samples(settings.water_level)
    # A mission's pings were screened.
    steps, screening = soundings.steps, replace(settings.screening, enabled=False)
    refused, withdrawn, out = [Samples.empty()], [Samples.empty()], None
    if steps is None:
        settings = settings.screened(samples, table=soundings.is_table)
        screening = settings.screening
        if soundings.is_table:  # screened as a whole, see ``cross``
            out, aside = (crossed or cross(soundings, settings)).refused, refused
        elif soundings.multiple is not None:
            out, aside = soundings.multiple != 1, withdrawn
    if out is not None and out.any():
        aside.append(samples[np.flatnonzero(out)])
        soundings, samples = soundings[np.flatnonzero(~out)], samples[np.flatnonzero(~out)]
    before = sum(map(len, refused + withdrawn))
    land = soundings.land if steps is None else None  # a mission's model knew no land
    prior = settings.prior
    if prior is None and shore and soundings.is_table:
        prior = shore_prior(land, samples.xy, samples.z)
    mapper = BathymetricMapper(workspace, settings.model, settings.seed, land, prior)
    batches = soundings.batches(settings)

    def report(done: int) -> None:
        on_progress(before + done)

    if soundings.is_table:
        left, status = _learn_table(mapper, samples, batches, report)
    else:
        loop = _learn_pings(mapper, samples, batches, steps, screening, report)
        left, status = loop.sample_queue.samples, loop.status
        withdrawn.append(loop.withdrawn)
    if mapper.initialised:
        if steps is None:
            mapper.calibrate(settings.stretches)
        return mapper, Samples.joined(refused), Samples.joined(withdrawn)
    if steps is not None:
        raise InputError("mission: its journal ends before the first map")
    if status.failing:
        raise PoamError(f"no map: {status.failing}")
    raise InputError(
        f"soundings: cannot make a map, as {len(left)} accepted elevations do not differ enough "
        f"({sum(map(len, refused))} more were refused as {FALSE_ECHO})"
    )


def _learn_table(
    mapper: BathymetricMapper, samples: Samples, batches: list[slice], on_progress: OnProgress
) -> tuple[Samples, UpdaterStatus]:
    """Learn the soundings of a table; a batch that fails is tried again with the next. Returns what
    could not be learned."""
    updater, left = ModelUpdater(mapper, None), Samples.empty()
    for batch in batches:
        left = Samples.joined([left, samples[batch]])
        for _ in range(TRIES if batch.stop == len(samples) else 1):
            if len(left):
                outcome, retry = updater.learn(left)
                _say(outcome)
                left = left if retry else Samples.empty()
        on_progress(batch.stop)
    return left, updater.status


def _learn_pings(
    mapper: BathymetricMapper,
    samples: Samples,
    batches: list[slice],
    steps: tuple[JournalStep, ...] | None,
    screening: ScreeningSettings,
    on_progress: OnProgress,
) -> ModelLoop:
    """Learn a recording as a vehicle's mapper would, or repeat a mission's steps."""
    # The batches are those of the record: none closes by itself.
    loop = ModelLoop(mapper, Ledger(numbering=False), WaypointBatches(), screening=screening)
    if steps is not None:
        _repeat(loop, JournalContents(samples, steps), on_progress)
        batches = [slice(len(samples), len(samples))]
    for batch in batches:
        loop.add_soundings(samples[batch], 0)
        if batch.stop == len(samples):
            loop.finish()
        for _ in _work(loop):
            pass
        on_progress(batch.stop)
    return loop


def _repeat(loop: ModelLoop, logged: JournalContents, on_progress: OnProgress) -> None:
    """Repeat a mission's journal from its beginning; pings that waited at its end stay queued."""

    def give_up(number: int) -> None:
        text = f"the mission's step {number + 1} cannot be repeated ({loop.status.failing})"
        raise PoamError(text)

    loop.recover(loop.journal, Recovery(None, logged, give_up))
    for outcome in _work(loop):
        if isinstance(outcome, BatchLearned):
            on_progress(outcome.report.samples)
    blocks = PingBlocks()
    blocks.add(logged.samples)
    watch = ShiftWatch(blocks, loop.verdicts.settings.position_std)
    if shift := watch.decide(loop.withdrawn.number):
        log.warning("%s", shift.sentence)


def _work(loop: ModelLoop) -> Iterator[LoopEvent]:
    """Do the work that is due; yields its events, and logs failures."""
    for outcome in loop.work(Moment(0, 0.0)):
        _say(outcome)
        yield outcome


def _say(outcome: LoopEvent | None) -> None:
    """Log a failure."""
    if isinstance(outcome, Problem) and outcome.error:
        log.warning("%s", outcome.message.text)


def validate(
    mapper: BathymetricMapper, held: Soundings, fold: int = 0, errors: SurveyErrors | None = None,
    water_level: float = 0.0,
) -> HeldOut:  # fmt: skip
    """Predict held-out soundings as they were recorded. All count as accepted: none are screened.

    Args:
        mapper: has a map.
        held: the soundings.
        fold: number of this map.
        errors: of the survey in the map; None: unknown.
        water_level: elevation of the water surface for soundings without a level of their own.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = predict(mapper, held.xy)
    learned = mapper.z
    naive = log_loss(held.z, float(learned.mean()), float(learned.var()))
    std, number = np.sqrt(found.variance), np.full(len(held), fold)
    every = np.ones(len(held), dtype=bool)
    other = std if errors is None else errors.deviations(
        lambda at: predict(mapper, at).mean, held.xy, found.mean, found.variance,
        mapper.before_calibration(found.variance), held.surface(water_level),
    )  # fmt: skip
    return HeldOut(held.row, held.xy, held.z, found.mean, std, other, number, naive, every)


def validate_fold(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
) -> HeldOut:
    """Predict the held-out soundings (boolean [N]) by a map without them. Raises as ``learn``."""
    taken = soundings[np.flatnonzero(~held)]
    crossed = cross(taken, settings)
    mapper, *_ = learn(taken, workspace, settings, on_progress, crossed)
    errors, level = known_errors(taken, crossed, settings), settings.water_level
    return validate(mapper, soundings[np.flatnonzero(held)], fold, errors, level)


@dataclass(frozen=True)
class MappingResult:
    """What became of a record: how many soundings are in the map, refused as false echoes, and
    withdrawn; the held-out ones, if any; sentences on crossings; which soundings a map of all would
    accept [N], boolean; and, in words, constant errors that crossings show, not corrected."""

    samples: int
    false_echoes: int
    withdrawn: int
    held_out: HeldOut | None
    sentences: list[str]
    accepted: np.ndarray
    suspected: list[str]

    def marked(self, held: HeldOut, soundings: Soundings) -> HeldOut:
        """Held-out soundings of the record, marked by whether a map of all would accept them."""
        return replace(held, accepted=self.accepted[np.searchsorted(soundings.row, held.row)])


def _accepted(soundings: Soundings, workspace: Extent, settings: SoundingMapSettings) -> np.ndarray:
    """Which soundings a map of all of them accepts [N], boolean."""
    if soundings.is_table:
        return ~cross(soundings, settings).refused
    if soundings.multiple is not None:
        return soundings.multiple == 1
    if not settings.screening.enabled:
        return np.ones(len(soundings), dtype=bool)
    return np.isin(soundings.row, learn(soundings, workspace, settings)[0].data.number)


def cell_size(workspace: Extent, area: float = np.inf) -> float:
    """A cell size of 1, 2 or 5 times a power of ten, in m: at most ``CELLS`` cells along the longer
    side. It is smaller for a narrow water such as a river: half as many cells along the side of a
    square of the water's area (m^2)."""
    return round_step(min(float(workspace.size.max()), 2 * area**0.5) / CELLS)


def map_soundings(
    log: Path,
    soundings: Soundings,
    grid: Grid,
    workspace: Extent,
    settings: SoundingMapSettings,
    folder: Path,
    held: np.ndarray | None = None,
    on_progress: OnProgress = lambda done: None,
    draw: Draw = draw,
    draw_tiles: DrawTiles = here,
    outline: Outline | None = None,
    extrapolate: bool = False,
    order: str = "1a",
) -> MappingResult:
    """Map soundings and write the folder: config.yaml, samples.csv, refused.csv, map.npz,
    left_out.csv, volume.csv; with an outline outline.csv, and where lines cross crossings.csv and
    lines.csv.

    Args:
        log: the file of the soundings, to be recorded.
        soundings: to be mapped, in order.
        grid: of the map.
        workspace: of the model.
        settings: of the map.
        folder: for the results; files of these names in it are replaced.
        held: those held out of the map and predicted by it [N], boolean.
        on_progress: called with the number of soundings learned, then with that plus the cells
            drawn.
        draw: predicts the grid, in this process or in parallel.
        draw_tiles: makes the joint draws for the volume, likewise.
        outline: where the map ends; cells outside are NaN.
        extrapolate: keep cells about which the soundings say nothing; otherwise they are NaN.
        order: the S-44 order whose limit the differences at crossings are compared with.

    Raises:
        InputError: no map can be made, or the folder cannot be written.
        PoamError: the model fails for good.
    """
    _prepare(folder)
    use = np.arange(len(soundings)) if held is None else np.flatnonzero(~held)
    taken = soundings if held is None else soundings[use]
    crossed = cross(taken, settings)
    factors = np.ones(len(soundings), dtype=np.int64)
    factors[use] = crossed.found.multiple
    mapper, echoes, withdrawn = learn(taken, workspace, settings, on_progress, crossed)
    crossed = crossed.without(np.isin(taken.row, withdrawn.number))
    crossed.write(folder, order)
    names, index = crossed.line.names, np.searchsorted(taken.row, mapper.data.number)
    day = units(taken).at(index)
    sample = with_level_errors(
        partial(joint_draws, mapper, seed=settings.seed, draw_tiles=draw_tiles), mapper.xy, day,
        settings.level_error, settings.seed, taken.source.get(LEVELS),
    )  # fmt: skip
    write_samples(
        folder / "samples.csv", mapper.xy, mapper.z, np.array(names)[crossed.line.code[index]],
        **rows_and_files(taken[index]), **day_column(day),
    )  # fmt: skip
    within = None if outline is None else outline.covers(grid)
    errors = known_errors(taken, crossed, settings)
    drawn = draw(mapper, grid, lambda cells: on_progress(len(taken) + cells), within)
    if errors is not None:
        drawn = with_other_survey(drawn, errors, mapper, soundings.surface(settings.water_level))
    shown = _write_drawn(
        folder, drawn,
        within, mapper, sample, soundings, settings, extrapolate,
    )  # fmt: skip
    refused = soundings.refused_pings
    for reason, pings in ((FALSE_ECHO, echoes), (WITHDRAWN, withdrawn)):
        refused = refused.more(reason, pings.stamp_ns, pings.xyz)
    write_refused(folder, refused)
    out = left_out(soundings, held, mapper.data.number, echoes.number, withdrawn.number, factors)
    write_left_out(folder, log, soundings, out, settings.water_level)
    if taken.steps is None:
        samples = taken.samples(settings.water_level)
        settings = settings.screened(samples, say=False, table=taken.is_table)
    config = describe(log, soundings, grid, workspace, settings)
    if outline is not None:
        config["outline"] = outline.described
        outline.write(folder)
    sentences = crossed.sentences(order)
    if errors is not None and errors.sentence:
        sentences.append(errors.sentence)
    if settings.prior is not None and not is_journal(folder):  # a mission's folder has its prior
        settings.prior.write(folder)
    if mapper.prior is not None:
        config["shore_trust" if settings.prior is None else "prior_trust"] = round(mapper.trust, 3)
        sentences.append(mapper.trust_said)
    config["order"] = order
    config["shown"] = {"cells": int(shown.sum()), "extrapolate": extrapolate}
    if soundings.excluded:
        config["excluded"] = described(soundings.excluded)
    counts = {"mapped": mapper.samples, "false_echoes": len(echoes)}
    if len(withdrawn):
        counts[WITHDRAWN] = len(withdrawn)
    config["samples"] = {**counts, **soundings.refused}
    write_config(folder / "config.yaml", config)
    checked, accepted = None, np.isin(soundings.row, mapper.data.number)
    if held is not None:
        left = soundings[np.flatnonzero(held)]
        checked = validate(mapper, left, 0, errors, settings.water_level)
        accepted = _accepted(soundings, workspace, settings)
    asked = taken.steps is not None or KEY in taken.source
    offsets = (
        [] if asked else [f"an offset of {kind} {bias.name}" for kind, bias in crossed.offsets()]
    )
    return MappingResult(
        mapper.samples, len(echoes), len(withdrawn), checked, sentences, accepted, offsets
    )


def _prepare(folder: Path) -> None:
    """Make the folder, and remove an earlier run's files; a mission's folder keeps its prior."""
    make_folder(folder)
    for name in OLD if is_journal(folder) else (*OLD, PRIOR):
        (folder / name).unlink(missing_ok=True)


def _write_drawn(
    folder: Path, drawn: ElevationMap, within: np.ndarray | None, mapper: BathymetricMapper,
    sample: Draws, soundings: Soundings, settings: SoundingMapSettings, extrapolate: bool,
) -> np.ndarray:  # fmt: skip
    """Write map.npz and volume.csv; returns the cells that the map shows.

    ``within``: cells inside the outline; None: no outline. ``sample``: draws for the volume.
    """
    shown = counted = np.isfinite(drawn.mean) if within is None else within
    if not extrapolate:
        surface = soundings.highest_surface(settings.water_level)
        shown, counted = (shown & c for c in surveyed(drawn, mapper.xy, mapper.z, surface))
    drawn, water = drawn.only(shown), drawn.only(counted)
    write_map(folder / "map.npz", drawn)
    if shown.any():
        surface = soundings.surface(settings.water_level)
        levels = levels_of(drawn.mean[shown], surface)
        banks = None if within is None else beyond(water.mean, drawn.grid, mapper.xy, surface)[1]
        write_water(folder, measure(water, sample, levels, banks))  # with draws of its shore
    return shown


def _measured(soundings: Soundings) -> dict[str, list[str]]:
    """When the first and the last of the soundings were measured (UTC), if their dates are known;
    a mission's journal says it itself."""
    stamps = soundings.stamp_ns
    if stamps is None or not len(stamps) or not (stamps > DATES).all():
        return {}
    return {"measured": [time_text(int(end)) for end in (stamps.min(), stamps.max())]}


def describe(
    log: Path,
    soundings: Soundings,
    grid: Grid,
    workspace: Extent,
    settings: SoundingMapSettings,
) -> dict[str, Any]:
    """Everything resolved, as plain values for config.yaml."""
    return {
        "version": __version__,
        "log": str(log.resolve()),
        **soundings.source,
        **_measured(soundings),
        "workspace": list(workspace.bounds),
        "resolution": float(grid.x[1] - grid.x[0]),
        **nested(
            values_of(settings, settings.model, settings.model.options, settings.screening)
            | {"water.level": soundings.surface(settings.water_level)}
        ),
    }
