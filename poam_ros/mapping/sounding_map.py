"""A map of placed soundings: batches in the order of the record, as a vehicle's mapper would have
learned them, screening and retries included; then the grid, tile by tile."""

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
from ..frontend.events import BatchLearned, LoopEvent, PingsScreened, Problem
from ..frontend.ledger import Ledger
from ..frontend.refused_pings import WITHDRAWN
from ..journal.folder import is_journal
from ..journal.interface import JournalContents
from ..learning.loop import ModelLoop
from ..learning.recovery import Recovery
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
from ..outputs.volume import beyond, levels_of, measure, round_step, write_water
from ..screening.screen import FALSE_ECHO, ScreeningSettings
from .crossed import Crossed, cross
from .drawing import OnProgress, draw, predict
from .exclusions import described, rows_and_files
from .left_out_file import left_out, write_left_out
from .outline import Outline
from .soundings import SoundingMapSettings, Soundings
from .surveyed import surveyed

log = logging.getLogger(__name__)

Draw = Callable[[BathymetricMapper, Grid, OnProgress, np.ndarray | None], ElevationMap]
CELLS = 282  # along a map's longer side at most, where nobody says how large they are
#: What an earlier run may have left in a folder, which is not this one's.
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
) -> tuple[BathymetricMapper, Samples, Samples]:
    """A mapper that has learned the soundings, those that were refused as false echoes, and those
    that were withdrawn.

    What a mission's model did with exactly these is done again; a recording's go through the screen
    and into the model batch by batch. Of a table, false echoes are left out before; of a part of a
    mission's soundings, what the mission withdrew.

    Args:
        soundings: of the record.
        workspace: of the model.
        settings: of the map.
        on_progress: called with how many soundings are dealt with by now.
        crossed: what the lines of exactly these say; None: found here where needed.

    Raises:
        InputError: no map can be made of them.
        PoamError: the model fails for good.
    """
    samples = soundings.samples(settings.water_level)
    steps, screening = soundings.steps, ScreeningSettings()  # the mission's pings were screened
    if steps is None:
        settings = settings.screened(samples, table=soundings.is_table)
        screening = settings.screening
        if soundings.is_table:  # screened as a whole, see ``cross``
            screening = replace(screening, enabled=False, crossings=False)
    refused, withdrawn = [Samples.empty()], [Samples.empty()]
    out = soundings.withdrawn if steps is None else None
    if soundings.is_table:
        out = (crossed or cross(soundings, settings)).refused
    if out is not None and out.any():
        aside = refused if soundings.withdrawn is None else withdrawn
        aside.append(samples[np.flatnonzero(out)])
        soundings, samples = soundings[np.flatnonzero(~out)], samples[np.flatnonzero(~out)]
    before = sum(map(len, refused + withdrawn))
    land = soundings.land if steps is None else None  # a mission's model knew of none
    mapper = BathymetricMapper(workspace, settings.model, settings.seed, land, settings.prior)
    # The batches are the record's: none closes by itself.
    loop = ModelLoop(mapper, Ledger(numbering=False), WaypointBatches(), screening=screening)
    if steps is None:
        batches = soundings.batches(settings)
    else:
        _repeat(loop, JournalContents(samples, steps), on_progress)
        batches = [slice(len(samples), len(samples))]
    for batch in batches:
        loop.add_soundings(samples[batch], 0)
        if batch.stop == len(samples):
            loop.finish()
        for outcome in _work(loop):
            if isinstance(outcome, PingsScreened):
                refused.append(outcome.refused)
        on_progress(before + batch.stop)
    if mapper.initialised:
        if steps is None:
            mapper.calibrate(settings.stretches)
        return mapper, Samples.joined(refused), Samples.joined([*withdrawn, loop.withdrawn])
    if steps is not None:
        raise InputError("mission: its journal ends before the first map")
    if failing := loop.status.failing:
        raise PoamError(f"no map: {failing}")
    raise InputError(
        f"soundings: cannot make a map, as {len(loop.sample_queue)} accepted elevations do not "
        "differ enough "
        f"({sum(map(len, refused))} more were refused as {FALSE_ECHO})"
    )


def _repeat(loop: ModelLoop, logged: JournalContents, on_progress: OnProgress) -> None:
    """What a mission's log says, from its begin; what waited then is in the loop's backlog."""

    def give_up(number: int) -> None:
        text = f"the mission's step {number + 1} cannot be repeated ({loop.status.failing})"
        raise PoamError(text)

    loop.recover(loop.journal, Recovery(None, logged, give_up))
    for outcome in _work(loop):
        if isinstance(outcome, BatchLearned):
            on_progress(outcome.report.samples)
    if shift := loop.verdicts.watch.found:
        log.warning("%s", shift.sentence)


def _work(loop: ModelLoop) -> Iterator[LoopEvent]:
    """What comes of the work that is due; failures are logged."""
    for outcome in loop.work(Moment(0, 0.0)):
        if isinstance(outcome, Problem) and outcome.error:
            log.warning("%s", outcome.message.text)
        yield outcome


def validate(mapper: BathymetricMapper, held: Soundings, fold: int = 0) -> HeldOut:
    """Predict held-out soundings, as they were recorded: they are never screened, all are accepted.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = predict(mapper, held.xy)
    learned = mapper.z
    naive = log_loss(held.z, float(learned.mean()), float(learned.var()))
    std, number = np.sqrt(found.variance), np.full(len(held), fold)
    every = np.ones(len(held), dtype=bool)
    return HeldOut(held.row, held.xy, held.z, found.mean, std, number, naive, every)


def validate_fold(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
    on_progress: OnProgress = lambda done: None,
) -> HeldOut:
    """A map without the held soundings (boolean [N]), asked for them. Raises as ``learn``."""
    mapper, *_ = learn(soundings[np.flatnonzero(~held)], workspace, settings, on_progress)
    return validate(mapper, soundings[np.flatnonzero(held)], fold)


@dataclass(frozen=True)
class MappingResult:
    """What became of a record: soundings in the map, those refused as false echoes, those
    withdrawn, those held out, where some were, what the crossings of lines say, in sentences, and
    which soundings of the record a map of all of them takes [N], boolean."""

    samples: int
    false_echoes: int
    withdrawn: int
    held_out: HeldOut | None
    sentences: list[str]
    accepted: np.ndarray

    def judged(self, held: HeldOut, soundings: Soundings) -> HeldOut:
        """Held-out soundings of the record, with what the map of all of them takes."""
        return replace(held, accepted=self.accepted[np.searchsorted(soundings.row, held.row)])


def _accepted(soundings: Soundings, workspace: Extent, settings: SoundingMapSettings) -> np.ndarray:
    """Which soundings a map of all of them takes [N], boolean."""
    if soundings.is_table:
        return ~cross(soundings, settings).refused
    if soundings.withdrawn is not None:
        return ~soundings.withdrawn
    if not settings.screening.enabled:
        return np.ones(len(soundings), dtype=bool)
    return np.isin(soundings.row, learn(soundings, workspace, settings)[0].data.number)


def cell_size(workspace: Extent, area: float = np.inf) -> float:
    """1, 2 or 5 times a power of ten, in m, for ``CELLS`` cells along the longer side at most; or
    smaller for half as many along the side of a square of the water's area (m^2), as of a river."""
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
    outline: Outline | None = None,
    extrapolate: bool = False,
    order: str = "1a",
) -> MappingResult:
    """Map soundings and write the folder: config.yaml, samples.csv, refused.csv, map.npz,
    left_out.csv, volume.csv; with an outline outline.csv, and where lines cross crossings.csv and
    lines.csv.

    Args:
        log: the file that they are from, for the record.
        soundings: to be mapped, in order.
        grid: of the map.
        workspace: of the model.
        settings: of the map.
        folder: of the results, new or another run's, whose files of these names are replaced.
        held: those that are kept out of the map, and predicted by it [N], boolean.
        on_progress: called with the soundings that are learned, then with those and the cells.
        draw: predicts the grid, in this process or by the help of others.
        outline: where the map ends; outside of it cells are NaN.
        extrapolate: keep cells that the soundings say nothing about; else they are NaN.
        order: of S-44, whose limit the differences at crossings are compared with.

    Raises:
        InputError: no map can be made, or the folder cannot be written.
        PoamError: the model fails for good.
    """
    make_folder(folder)
    mission = is_journal(folder)
    for name in OLD:
        (folder / name).unlink(missing_ok=True)
    if not mission:
        (folder / PRIOR).unlink(missing_ok=True)
    taken = soundings if held is None else soundings[np.flatnonzero(~held)]
    crossed = cross(taken, settings)
    mapper, echoes, withdrawn = learn(taken, workspace, settings, on_progress, crossed)
    multiples = taken.row[crossed.refused]
    crossed = crossed.without(np.isin(taken.row, withdrawn.number))
    crossed.write(folder, order)
    names, index = crossed.line.names, np.searchsorted(taken.row, mapper.data.number)
    write_samples(
        folder / "samples.csv", mapper.xy, mapper.z, np.array(names)[crossed.line.code[index]],
        **rows_and_files(taken[index]),
    )  # fmt: skip
    within = None if outline is None else outline.covers(grid)
    drawn = draw(mapper, grid, lambda cells: on_progress(len(taken) + cells), within)
    shown = counted = np.isfinite(drawn.mean) if within is None else within
    if not extrapolate:
        surface = soundings.highest_surface(settings.water_level)
        shown, counted = (shown & c for c in surveyed(drawn, mapper.xy, mapper.z, surface))
    drawn, counted = drawn.only(shown), drawn.only(counted)
    refused, counts = soundings.refused_pings, {"false_echoes": len(echoes)}
    for reason, pings in ((FALSE_ECHO, echoes), (WITHDRAWN, withdrawn)):
        refused = refused.more(reason, pings.stamp_ns, pings.xyz)
    if len(withdrawn):
        counts[WITHDRAWN] = len(withdrawn)
    write_refused(folder, refused)
    out = left_out(soundings, held, mapper.data.number, echoes.number, withdrawn.number, multiples)
    write_left_out(folder, log, soundings, out, settings.water_level)
    write_map(folder / "map.npz", drawn)
    if shown.any():
        surface = soundings.surface(settings.water_level)
        levels = levels_of(drawn.mean[shown], surface)
        sample = partial(mapper.sample, seed=settings.seed)
        banks = None if outline is None else beyond(counted.mean, grid, mapper.xy, surface)[1]
        write_water(folder, measure(counted, sample, levels, banks))  # with draws of its shore
    if taken.steps is None:
        samples = taken.samples(settings.water_level)
        settings = settings.screened(samples, say=False, table=taken.is_table)
    config = describe(log, soundings, grid, workspace, settings)
    if outline is not None:
        config["outline"] = outline.described
        outline.write(folder)
    sentences = crossed.sentences(order)
    if settings.prior is not None:
        if not mission:  # which has its own
            settings.prior.write(folder)
        config["prior_trust"] = round(mapper.trust, 3)
        sentences.append(mapper.trust_said)
    config["order"] = order
    config["shown"] = {"cells": int(shown.sum()), "extrapolate": extrapolate}
    if soundings.excluded:
        config["excluded"] = described(soundings.excluded)
    config["samples"] = {"mapped": mapper.samples, **counts, **soundings.refused}
    write_config(folder / "config.yaml", config)
    checked, accepted = None, np.isin(soundings.row, mapper.data.number)
    if held is not None:
        checked = validate(mapper, soundings[np.flatnonzero(held)])
        accepted = _accepted(soundings, workspace, settings)
    return MappingResult(mapper.samples, len(echoes), len(withdrawn), checked, sentences, accepted)


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
        "workspace": list(workspace.bounds),
        "resolution": float(grid.x[1] - grid.x[0]),
        **nested(
            values_of(settings, settings.model, settings.model.options, settings.screening)
            | {"water.level": soundings.surface(settings.water_level)}
        ),
    }
