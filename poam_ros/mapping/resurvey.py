"""An earlier survey: learned again from the folder of its run, for joint draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from ..core.errors import InputError, shown
from ..core.geodesy import GeoReference
from ..core.geometry import Extent, Grid, Land
from ..core.maps import ElevationMap
from ..core.settings import flat, instance
from ..models.mapper import BathymetricMapper
from ..models.prior import FILE as PRIOR
from ..models.prior import PriorMap
from ..models.registry import ModelSettings
from ..outputs.change import Change, compare
from ..outputs.run import CONFIG, Run
from ..outputs.volume import DRAWS
from ..screening import ScreeningSettings
from .calibration import LEVELS
from .crossed import DAY
from .drawing import Levels, OnProgress, predict, with_level_errors
from .outline import between_soundings
from .sounding_map import learn
from .soundings import Labels, SoundingMapSettings, Soundings

#: Maximum number of cells of a comparison; all are drawn jointly.
CELLS = 20_000


@dataclass(frozen=True)
class Survey:
    """A survey, read from its folder.

    Attributes:
        folder: map.npz, samples.csv and config.yaml.
        mapped: the map of that run.
        soundings: those in the map.
        workspace: of the model.
        settings: of the map.
        place: its georeference; None if unknown.
        shore: whether the run had a prior of the distance from the shore.
        day: of each sounding; None: all share one error of level.
        levels: of days, as known from crossings; None: unknown.
        simulated: whether the soundings are simulated.
    """

    folder: Path
    mapped: ElevationMap
    soundings: Soundings
    workspace: Extent
    settings: SoundingMapSettings
    place: GeoReference | None
    shore: bool = False
    day: Labels | None = None
    levels: Levels | None = None
    simulated: bool = False

    @classmethod
    def read(cls, folder: Path) -> Survey:
        """Read a survey.

        Raises:
            InputError: a file is missing or damaged, or the model belongs to another package.
        """
        run, land = Run.open(folder), None
        mapped, table, values = run.drawn, run.samples, flat(run.settings)
        if "z" not in table:
            raise InputError(f"{folder / 'samples.csv'}: expected a column z")
        method, bounds = str(values.get("method", "")), values.get("workspace")
        if not method or ":" in method or not isinstance(bounds, list):
            raise InputError(
                f"{folder / CONFIG}: expected `workspace`, and as `method` a model of this "
                f"package, got {shown(method)}"
            )
        try:
            levels = {
                str(name): (float(off), float(std))
                for name, (off, std) in run.settings.get(LEVELS, {}).items()
            }
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder / CONFIG}: expected as `{LEVELS}` two numbers for each day, got "
                f"{shown(str(run.settings[LEVELS]))}"
            ) from error
        row = np.arange(len(table["z"]))
        days, day = np.unique(table.get(DAY, row * 0), return_inverse=True)
        if "outline.file" in values:  # land where the map has no value, and around it
            axes = mapped.grid.x, mapped.grid.y
            x, y = (np.r_[2 * a[0] - a[1], a, 2 * a[-1] - a[-2]] for a in axes)
            land = Land(Grid(x, y), np.pad(np.isfinite(mapped.mean), 1))
        # Its soundings are screened already; a run without stretches did not calibrate.
        settings = instance(
            SoundingMapSettings, {"stretches": 0, **values}, model=ModelSettings.of(values),
            screening=ScreeningSettings(), prior=PriorMap.of_folder(folder),
        )  # fmt: skip
        if settings.model.prior and settings.prior is None:
            raise InputError(f"{folder}: expected its prior, {PRIOR}, which is not there")
        xy, named = np.column_stack((table["x"], table["y"])), tuple(map(str, days))
        return cls(
            folder, mapped, Soundings(row, xy, table["z"], row, land=land), Extent.of(bounds),
            settings, GeoReference.given(run.recorded.get("origin"), run.recorded.get("heading")),
            "shore_trust" in values, Labels(day, named), levels, run.simulated,
        )  # fmt: skip

    def learn(self, on_progress: OnProgress) -> BathymetricMapper:
        """Learn the soundings again. Raises as ``mapping.learn``."""
        return learn(
            self.soundings, self.workspace, self.settings, on_progress, shore=self.shore
        )[0]  # fmt: skip

    def deviations(self, mapper: BathymetricMapper, xy: np.ndarray, seed: int) -> np.ndarray:
        """Joint draws at places [N, 2] less their mean [draws, N], in m."""
        day = self.day or Labels(np.zeros(len(self.soundings), dtype=np.int64), ("",))
        sample = with_level_errors(
            partial(mapper.deviations, seed=seed), self.soundings.xy, day,
            self.settings.level_error, seed, self.levels,
        )  # fmt: skip
        drawn = sample(xy, DRAWS)
        return drawn - drawn.mean(0)

    def covers(self, xy: np.ndarray) -> np.ndarray:
        """Which places [N, 2] have a value in the map; boolean [N]."""
        grid = self.mapped.grid
        return grid.borders.contains(xy) & np.isfinite(grid.interpolate(self.mapped.mean, xy))

    def places(self, xy: np.ndarray, of: Survey) -> np.ndarray:
        """Places [N, 2] on the map of another survey, in the coordinates of this one's.

        Raises:
            InputError: only one of the two has a georeference.
        """
        if self.place is None and of.place is None:
            return xy
        if self.place is None or of.place is None:
            raise InputError(
                f"{self.folder}: expected both surveys with a georeference, or neither; only "
                f"{(of if self.place is None else self).folder} has one"
            )
        return of.place.moved(xy, self.place)


def change_between(
    before: Survey,
    after: Survey,
    resolution: float | None = None,
    offset: float | None = None,
    on_progress: OnProgress = lambda done: None,
    extrapolate: bool = False,
) -> Change:
    """The change from one survey to another, on cells of the first one's map.

    Cells that are not between soundings in both surveys are left out: there a map extrapolates from
    one side, and where a bank begins it is off by more than its deviation says.

    Args:
        before: the first survey.
        after: the second.
        resolution: cell size in m; None: that of the first map, or coarser (``CELLS``).
        offset: of the second survey's elevations, in m; None: estimated.
        on_progress: called with the number of soundings of both learned so far.
        extrapolate: compare all cells that both maps have.

    Raises:
        InputError: the maps share no area, or none between soundings; there are too many cells; or
            only one of the two has a georeference.
        PoamError: a model fails for good.
    """
    grid, shown_by_both = _shared(before, after, resolution)
    both = shown_by_both.copy()
    if not extrapolate:
        for survey in (before, after):
            track = before.places(survey.soundings.xy, survey)
            water = np.ones(len(grid.points), dtype=bool)
            if survey.soundings.land is not None:
                water = survey.covers(survey.places(grid.points, before))
            both &= between_soundings(grid, water.reshape(grid.shape), track)
    if not both.any():
        raise InputError(
            f"{after.folder}: expected cells with soundings of both surveys on more than one side, "
            "got none; --extrapolate compares all cells that both maps have"
        )
    xy = grid.points[both.ravel()]
    first = before.learn(on_progress)
    second = after.learn(lambda done: on_progress(len(before.soundings) + done))
    there = after.places(xy, before)
    seed = before.settings.seed
    old, new = before.deviations(first, xy, seed), after.deviations(second, there, seed + 1)
    difference = predict(second, there).mean - predict(first, xy).mean
    change = compare(grid, both, difference, new - old, offset)
    simulated = before.simulated or after.simulated
    return replace(change, extrapolated=shown_by_both & ~both, simulated=simulated)


def _shared(before: Survey, after: Survey, resolution: float | None) -> tuple[Grid, np.ndarray]:
    """The grid of the comparison, and the cells that both maps have [rows, columns]."""
    borders = before.mapped.grid.borders
    size = resolution or float(borders.size[0] / before.mapped.grid.shape[1])
    while True:
        grid = Grid.cells(borders, size)
        both = before.covers(grid.points)
        both[both] = after.covers(after.places(grid.points[both], before))
        count = int(both.sum())
        if count <= CELLS and min(grid.shape) > 1:
            break
        if resolution or min(grid.shape) < 2:
            raise InputError(
                f"resolution: expected 2 or more rows and columns and at most {CELLS} cells that "
                f"both maps have, got {grid.shape[0]} x {grid.shape[1]} cells, {count} in both"
            )
        size *= float(np.sqrt(1.05 * count / CELLS))
    if not count:
        raise InputError(
            f"{after.folder}: expected an area in common with {before.folder}, got none"
        )
    return grid, both.reshape(grid.shape)
