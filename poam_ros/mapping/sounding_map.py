"""Maps placed soundings: learns them in batches in the order of the record, as a vehicle's mapper
would, with screening and retries; draws the grid in tiles; and writes the result into a folder."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..core.clock import Moment
from ..core.errors import InputError, PoamError
from ..core.geometry import Extent, Grid, map_grid
from ..core.maps import ElevationMap
from ..core.samples import Samples, WaypointBatches
from ..core.settings import nested, values_of
from ..core.workers import by_workers
from ..frontend.events import BatchLearned, LoopEvent, Problem
from ..frontend.refused_pings import FALSE_ECHO, WITHDRAWN, Ledger
from ..journal.folder import is_journal
from ..journal.tables import JournalContents, JournalStep
from ..learning.recovery import Recovery
from ..learning.session import ModelLoop
from ..learning.updater import TRIES, ModelUpdater, UpdaterStatus
from ..models.mapper import BathymetricMapper
from ..models.prior import FILE as PRIOR
from ..outputs.crossings import FILE as CROSSINGS
from ..outputs.crossings import LINES
from ..outputs.folder import (
    HELD_OUT,
    LEFT_OUT,
    OUTLINE,
    make_folder,
    write_config,
    write_map,
    write_samples,
)
from ..outputs.held_out import FILE as SCORES
from ..outputs.held_out import OTHER_SURVEY, HeldOut, log_loss, split_folds
from ..outputs.run import REFUSED
from ..outputs.volume import WaterBelow, beyond, levels_of, measure, round_step, write_water
from ..screening import ScreeningSettings
from ..screening.judge import PingBlocks, ShiftWatch
from .calibration import KEY, LEVELS, known_errors
from .crossed import DAY, Crossed, cross, units
from .drawing import OnProgress, draw, joint_draws, predict, with_level_errors
from .exclusions import FILE, ROW, files, own_rows
from .outline import Outline, shore_prior, surveyed
from .soundings import (
    DATES,
    Labels,
    LeftOut,
    SoundingMapSettings,
    Soundings,
    time_text,
    write_left_out,
)
from .survey_errors import SurveyErrors

log = logging.getLogger(__name__)

NOW = Moment(0, 0.0)  # for a loop whose batches do not close by themselves
CELLS = 282  # maximum along a map's longer side if no resolution is given
#: Cells of a fold's map, which only says what it would show, are so many times larger.
COARSER = 2
#: The reason of soundings that reached the model's queue but not the map.
DROPPED = "dropped"
STATIONARY = "predicted with the kernel that fits left-out stretches better: {}"
#: What false echoes are, by the factor that the screening of the whole record found.
ECHOES = {2: "double echo", 3: "triple echo", 0: "neither bottom nor multiple"}
#: Files that an earlier run may have left in the folder.
OLD = (
    SCORES, "held_out.csv", "validation.png", "maps.png", "volume.csv", "hypsometry.png",
    "report.html", OUTLINE, "map.npz", "samples.csv", CROSSINGS, LEFT_OUT, LINES,
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
    samples, table = soundings.samples(settings.water_level), soundings.is_table
    steps, out, land = soundings.steps, np.zeros(len(soundings), dtype=bool), None
    if steps is None:  # a mission's pings were screened, and its model knew no land
        settings, land = settings.screened(samples, table=table), soundings.land
        if table:  # screened as a whole, see ``cross``
            out = (crossed or cross(soundings, settings)).refused
        elif soundings.multiple is not None:
            out = soundings.multiple != 1
    aside, before, kept = samples[np.flatnonzero(out)], int(out.sum()), np.flatnonzero(~out)
    if before:
        soundings, samples = soundings[kept], samples[kept]
    prior, refused = settings.prior, Samples.empty()
    if prior is None and shore and table:
        prior = shore_prior(land, samples.xy, samples.z)
    mapper = BathymetricMapper(workspace, settings.model, settings.seed, land, prior)
    batches = soundings.batches(settings)

    def report(done: int) -> None:
        on_progress(before + done)

    if table:
        left, status = _learn_table(mapper, samples, batches, report)
        refused, aside = aside, refused
    else:
        loop = _learn_pings(mapper, samples, batches, steps, settings.screening, report)
        left, status = loop.sample_queue.samples, loop.status
        aside = Samples.joined([aside, loop.withdrawn])
    if mapper.initialised:
        if steps is None:
            mapper.calibrate(settings.stretches)
        return mapper, refused, aside
    if steps is not None:
        raise InputError("mission: its journal ends before the first map")
    if status.failing:
        raise PoamError(f"no map: {status.failing}")
    raise InputError(
        f"soundings: cannot make a map, as {len(left)} accepted elevations do not differ enough "
        f"({len(refused)} more were refused as {FALSE_ECHO})"
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
    """Learn a recording as a vehicle's mapper would, or repeat a mission's steps; what waited at
    their end follows."""
    # The batches are those of the record: none closes by itself.
    live = replace(screening, enabled=screening.enabled and steps is None)
    loop = ModelLoop(mapper, Ledger(numbering=False), WaypointBatches(), screening=live)
    if steps is not None:

        def give_up(number: int) -> None:
            text = f"the mission's step {number + 1} cannot be repeated ({loop.status.failing})"
            raise PoamError(text)

        loop.recover(loop.journal, Recovery(None, JournalContents(samples, steps), give_up))
        for outcome in loop.work(NOW):
            _say(outcome)
            if isinstance(outcome, BatchLearned):
                on_progress(outcome.report.samples)
        blocks = PingBlocks()
        blocks.add(samples)
        if shift := ShiftWatch(blocks, screening.position_std).decide(loop.withdrawn.number):
            log.warning("%s", shift.sentence)
        batches = [slice(len(samples), len(samples))]
    for batch in batches:
        loop.add_soundings(samples[batch], 0)
        if batch.stop == len(samples):
            loop.finish()
        for outcome in loop.work(NOW):
            _say(outcome)
        on_progress(batch.stop)
    return loop


def _say(outcome: LoopEvent | None) -> None:
    """Log a failure."""
    if isinstance(outcome, Problem) and outcome.error:
        log.warning("%s", outcome.text)


def validate(
    mapper: BathymetricMapper, held: Soundings, fold: int = 0, errors: SurveyErrors | None = None,
    water_level: float = 0.0, shown: ElevationMap | None = None,
) -> HeldOut:  # fmt: skip
    """Predict held-out soundings as they were recorded. All count as accepted: none are screened.

    Args:
        mapper: has a map.
        held: the soundings.
        fold: number of this map.
        errors: of the survey in the map; None: unknown.
        water_level: elevation of the water surface for soundings without a level of their own.
        shown: the map, NaN in cells that it does not show; None: it shows all.

    Raises:
        CholeskyError: a matrix is beyond repair.
    """
    found = predict(mapper, held.xy)
    learned = mapper.z
    naive = log_loss(held.z, float(learned.mean()), float(learned.var()))
    std, number = np.sqrt(found.variance), np.full(len(held), fold)
    every = inside = np.ones(len(held), dtype=bool)
    if shown is not None:
        inside = shown.shows(held.xy)
    other = std if errors is None else errors.deviations(
        lambda at: predict(mapper, at).mean, held.xy, found.mean, found.variance,
        mapper.before_calibration(found.variance), held.surface(water_level),
    )  # fmt: skip
    return HeldOut(held.row, held.xy, held.z, found.mean, std, other, number, naive, every, inside)


def validate_fold(
    soundings: Soundings,
    held: np.ndarray,
    fold: int,
    workspace: Extent,
    settings: SoundingMapSettings,
    outline: Outline | None = None,
    extrapolate: bool = False,
    on_progress: OnProgress = lambda done: None,
) -> HeldOut:
    """Predict the held-out soundings (boolean [N]) by a map without them. Raises as ``learn``."""
    taken = soundings[np.flatnonzero(~held)]
    crossed = cross(taken, settings)
    mapper, *_ = learn(taken, workspace, settings, on_progress, crossed)
    errors, level = known_errors(taken, crossed, settings), settings.water_level
    area = np.inf if outline is None else outline.area
    grid = map_grid(workspace, COARSER * cell_size(workspace, area))
    within = None if outline is None else outline.covers(grid)
    drawn = draw(mapper, grid, wanted=within)
    drawn = drawn.only(shown_cells(drawn, mapper, taken, settings, within, extrapolate)[0])
    return validate(mapper, soundings[np.flatnonzero(held)], fold, errors, level, drawn)


def shown_cells(
    drawn: ElevationMap, mapper: BathymetricMapper, taken: Soundings,
    settings: SoundingMapSettings, within: np.ndarray | None, extrapolate: bool,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """The cells of a map of soundings that are shown, and those with which its water is measured;
    boolean [rows, columns]. See ``map_soundings``; ``within``: the cells within the outline."""
    shown = counted = np.isfinite(drawn.mean) if within is None else within
    if not extrapolate:
        highest = taken.surface(settings.water_level, np.max)
        shown, counted = (shown & c for c in surveyed(drawn, mapper.xy, mapper.z, highest))
    return shown, counted


def cross_validate(
    soundings: Soundings, workspace: Extent, settings: SoundingMapSettings, folds: int,
    client: Any = None, on_progress: OnProgress = lambda done: None,
    outline: Outline | None = None, extrapolate: bool = False,
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
        outline: where the maps end.
        extrapolate: whether they show cells about which the soundings say nothing.

    Raises:
        InputError: there are fewer groups than folds, or a fold gives no map.
        PoamError: a model fails for good, or a worker is lost.
    """
    fold, done, parts = split_folds(soundings.group, folds, settings.seed), 0, []

    def report(learned: int) -> None:
        on_progress(done + learned)

    each = (workspace, settings, outline, extrapolate, *([report] if client is None else []))
    every = [(fold == number, number, *each) for number in range(folds)]
    threads = settings.model.threads
    for number, part in by_workers(client, threads, validate_fold, soundings, every, "fold"):
        parts.append(part)
        done += int((fold != number).sum())
        report(0)
    return HeldOut.joined(parts)


def cell_size(workspace: Extent, area: float = np.inf) -> float:
    """A cell size of 1, 2 or 5 times a power of ten, in m: at most ``CELLS`` cells along the longer
    side. It is smaller for a narrow water such as a river: half as many cells along the side of a
    square of the water's area (m^2)."""
    return round_step(min(float(workspace.size.max()), 2 * area**0.5) / CELLS)


@dataclass(frozen=True)
class SoundingMap:
    """A map of soundings, and what became of each of them.

    Attributes:
        soundings: the record [N].
        taken: those of them that were mapped: all, or all but the held-out ones.
        settings: those that the map was made with.
        mapper: the model.
        drawn: the map on its grid, NaN in cells that are not shown.
        water: below the water's surface by level; None without a cell.
        crossed: what the crossings of ``taken`` show.
        echoes, withdrawn: those refused as false echoes, and withdrawn.
        errors: of the survey, as crossings show them; None: unknown.
        held: which were held out [N], boolean; None: none.
        held_out: the predictions of these.
        accepted: which of the record a map of all would accept [N], boolean.
        outline: where the map ends, if known.
        extrapolated: whether cells are kept about which the soundings say nothing.
    """

    soundings: Soundings
    taken: Soundings
    settings: SoundingMapSettings
    mapper: BathymetricMapper
    drawn: ElevationMap
    water: WaterBelow | None
    crossed: Crossed
    echoes: Samples
    withdrawn: Samples
    errors: SurveyErrors | None
    held: np.ndarray | None
    held_out: HeldOut | None
    accepted: np.ndarray
    outline: Outline | None
    extrapolated: bool

    @property
    def samples(self) -> int:
        """How many soundings are in the map."""
        return self.mapper.samples

    def marked(self, held: HeldOut) -> HeldOut:
        """Held-out soundings of the record, marked by whether a map of all would accept them."""
        index = np.searchsorted(self.soundings.row, held.row)
        return replace(held, accepted=self.accepted[index])

    def sentences(self, order: str = "1a") -> list[str]:
        """What crossings show by an S-44 order, of the kernel, and of priors, in words."""
        said = self.crossed.sentences(order)
        if self.errors is not None and self.errors.sentence:
            said.append(self.errors.sentence)
        if kernel := self.mapper.stationary:
            said.append(STATIONARY.format(kernel))
        return said + ([] if self.mapper.prior is None else [self.mapper.trust_said])

    @property
    def suspected(self) -> list[str]:
        """Constant errors that crossings show, and that were not corrected, in words."""
        if self.taken.steps is not None or KEY in self.taken.source:
            return []
        return [f"an offset of {kind} {bias.name}" for kind, bias in self.crossed.offsets()]

    def write(self, folder: Path, log: Path, order: str = "1a") -> None:
        """Write the folder: config.yaml, samples.csv, map.npz, left_out.csv, volume.csv;
        with an outline outline.csv, and where lines cross crossings.csv and lines.csv.

        Args:
            folder: made if needed. Files of an earlier run in it are removed, but a mission's
                folder keeps its prior.
            log: the file of the soundings, to be recorded.
            order: the S-44 order whose limit the differences at crossings are compared with.

        Raises:
            InputError: the folder cannot be written.
        """
        make_folder(folder)
        mission, mapper, water_level = is_journal(folder), self.mapper, self.settings.water_level
        for name in OLD if mission else (*OLD, PRIOR, REFUSED):
            (folder / name).unlink(missing_ok=True)
        self.crossed.write(folder)
        index = np.searchsorted(self.taken.row, mapper.data.number)
        mapped, unit = self.taken[index], units(self.taken)
        columns = {ROW: own_rows(mapped)}
        if mapped.files:
            paths = tuple(path for path, _ in mapped.files)
            columns[FILE] = Labels(files(mapped).code, paths).words
        if len(unit.names) > 1:
            columns[DAY] = unit.at(index).words
        write_samples(
            folder / "samples.csv", mapper.xy, mapper.z, self.crossed.line.at(index).words,
            **columns,
        )  # fmt: skip
        write_map(folder / "map.npz", self.drawn)
        if self.water is not None:
            write_water(folder, self.water)
        write_left_out(folder, log, self.soundings, self._left_out(), water_level)
        if self.outline is not None:
            self.outline.write(folder)
        if self.settings.prior is not None and not mission:  # a mission's folder has its prior
            self.settings.prior.write(folder)
        write_config(folder / "config.yaml", self._config(log, order))

    def _left_out(self) -> Iterator[LeftOut]:
        """Everything that is not in the map: first what readers, rules and persons left out, then
        what the model loop did."""
        yield from self.soundings.left_out
        if self.held is not None:
            yield self.soundings.left(self.held, HELD_OUT)
        taken, false = self.taken, self.crossed.refused
        rest = ~np.isin(taken.row, self.mapper.data.number)
        for factor, why in ECHOES.items() if taken.is_table else ():
            echoes = rest & false & (self.crossed.found.multiple == factor)
            yield taken.left(echoes, FALSE_ECHO, why)
        if not taken.is_table:
            yield taken.left(rest & false, WITHDRAWN, "crossing lines")
        yield taken.left(rest & ~false, DROPPED, "the model could not learn its batch")

    def _config(self, log: Path, order: str) -> dict[str, Any]:
        """Everything resolved, as plain values."""
        soundings, settings, mapper = self.soundings, self.settings, self.mapper
        stamps, grid = soundings.stamp_ns, self.drawn.grid
        config = {"version": __version__, "log": str(log.resolve()), **soundings.source}
        if stamps is not None and len(stamps) and (stamps > DATES).all():
            config["measured"] = [time_text(int(end)) for end in (stamps.min(), stamps.max())]
        config |= {
            "workspace": list(mapper.workspace.bounds),
            "resolution": float(grid.x[1] - grid.x[0]),
            **nested(
                values_of(settings, settings.model, settings.model.options, settings.screening)
                | {"water.level": soundings.surface(settings.water_level)}
            ),
        }
        if self.outline is not None:
            config["outline"] = self.outline.described
        if mapper.stationary:
            config["kernel"] = mapper.stationary
        if mapper.prior is not None:
            name = "shore_trust" if settings.prior is None else "prior_trust"
            config[name] = round(mapper.trust, 3)
        shown = int(np.isfinite(self.drawn.mean).sum())
        config |= {"order": order, "shown": {"cells": shown, "extrapolate": self.extrapolated}}
        if soundings.excluded:
            config["excluded"] = list(soundings.excluded)
        counts = {"mapped": self.samples, "false_echoes": len(self.echoes)}
        if len(self.withdrawn):
            counts[WITHDRAWN] = len(self.withdrawn)
        return config | {"samples": {**counts, **soundings.refused}}


def map_soundings(
    soundings: Soundings,
    grid: Grid,
    workspace: Extent,
    settings: SoundingMapSettings,
    held: np.ndarray | None = None,
    on_progress: OnProgress = lambda done: None,
    outline: Outline | None = None,
    extrapolate: bool = False,
    client: Any = None,
) -> SoundingMap:
    """Map soundings. Nothing is written.

    Args:
        soundings: to be mapped, in order.
        grid: of the map.
        workspace: of the model.
        settings: of the map.
        held: those held out of the map and predicted by it [N], boolean.
        on_progress: called with the number of soundings learned, then with that plus the cells
            drawn.
        outline: where the map ends; cells outside are NaN.
        extrapolate: keep cells about which the soundings say nothing; otherwise they are NaN.
        client: of dask, whose workers predict the grid and make the joint draws of the volume;
            None: this process.

    Raises:
        InputError: no map can be made.
        PoamError: the model fails for good.
    """
    taken = soundings if held is None else soundings[np.flatnonzero(~held)]
    crossed = cross(taken, settings)
    mapper, echoes, withdrawn = learn(taken, workspace, settings, on_progress, crossed)
    crossed = crossed.without(np.isin(taken.row, withdrawn.number))
    errors = known_errors(taken, crossed, settings)
    within = None if outline is None else outline.covers(grid)
    drawn = draw(mapper, grid, lambda cells: on_progress(len(taken) + cells), within, client)
    level = settings.water_level
    surface = soundings.surface(level)
    if errors is not None:
        mean, variance = drawn.mean.ravel(), drawn.variance.ravel()
        other = errors.deviations(
            partial(grid.interpolate, drawn.mean), grid.points, mean, variance,
            mapper.before_calibration(variance), surface,
        )  # fmt: skip
        drawn = replace(drawn, fields={**drawn.fields, OTHER_SURVEY: other.reshape(grid.shape)})
    shown, counted = shown_cells(drawn, mapper, taken, settings, within, extrapolate)
    whole, drawn, water = drawn, drawn.only(shown), None
    if shown.any():
        below = whole.only(counted)  # with draws of its shore
        levels = levels_of(drawn.mean[shown], surface)
        banks = None if within is None else beyond(below.mean, grid, mapper.xy, surface)[1]
        sample = with_level_errors(
            partial(joint_draws, mapper, seed=settings.seed, client=client), mapper.xy,
            units(taken).at(np.searchsorted(taken.row, mapper.data.number)), settings.level_error,
            settings.seed, taken.source.get(LEVELS),
        )  # fmt: skip
        water = measure(below, sample, levels, banks)
    checked, accepted = None, np.isin(soundings.row, mapper.data.number)
    if held is not None:
        checked = validate(mapper, soundings[np.flatnonzero(held)], 0, errors, level, drawn)
        if soundings.is_table:
            accepted = ~cross(soundings, settings).refused
        elif soundings.multiple is not None:
            accepted = soundings.multiple == 1
        elif not settings.screening.enabled:
            accepted = np.ones(len(soundings), dtype=bool)
        else:
            every = learn(soundings, workspace, settings)[0]
            accepted = np.isin(soundings.row, every.data.number)
    if taken.steps is None:
        settings = settings.screened(taken.samples(level), say=False, table=taken.is_table)
    return SoundingMap(
        soundings, taken, settings, mapper, drawn, water, crossed, echoes, withdrawn,
        errors, held, checked, accepted, outline, extrapolate,
    )  # fmt: skip
