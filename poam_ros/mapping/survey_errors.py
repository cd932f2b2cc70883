"""Errors that a survey shows of itself at its crossings, and how far another survey may therefore
differ from its map.

A map is uncertain on its own frame: that of its positions and levels. Another survey has errors as
large as those that the lines and days of this one have against each other: its positions are off,
so that it measures the depth of a place nearby, and so are its level and its sound speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import stdtrit

from ..core.maps import ElevationMap
from ..outputs.held_out import OTHER_SURVEY
from ..planning.tvu import CONFIDENCE_95
from .crossed import Divisions
from .effects import Calibration, Spread
from .soundings import Soundings

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: Variances are as well known as if errors of so many more recordings or days had been seen.
SEEN = 3


@dataclass(frozen=True)
class SurveyErrors:
    """What is known of the errors of a survey.

    Attributes:
        spread: variances of one more line, recording and day.
        depth: at which its level holds, in m.
        xy: places of the survey's soundings [N, 2], in m.
        position, level: variances of the errors that are left in each of these, along each axis and
            of the elevation [N], in m^2.
        wider: factors of the variances by displacements and by levels (``of_few``).
    """

    spread: Spread
    depth: float
    xy: np.ndarray
    position: np.ndarray
    level: np.ndarray
    wider: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(
        cls, found: Calibration, soundings: Soundings, divisions: Divisions, corrected: bool
    ) -> SurveyErrors:
        """Those that the crossings of soundings show. ``corrected``: whether they are corrected
        by ``found``, so that only what is uncertain of the corrections is left."""
        spread = found.spread
        position, level = np.zeros((2, len(soundings)))
        if not corrected:
            position += spread.position
            level += spread.level
        else:
            for kind, labels in zip(("line", "day", "recording"), divisions, strict=True):
                left = [found.left.get((kind, name), (0.0, 0.0)) for name in labels.names]
                both = np.array(left)[labels.code]
                position, level = position + both[:, 0], level + both[:, 1]
        line, day, recording = (len(labels.names) for labels in divisions)
        moving = recording if 1 < recording <= line / 2 else line
        wider = of_few(2 * (moving - 1)), of_few(day - 1)
        return cls(spread, found.depth, soundings.xy, position, level, wider)

    def __getitem__(self, index: np.ndarray) -> SurveyErrors:
        """Those of some soundings."""
        xy, position, level = (of[index] for of in (self.xy, self.position, self.level))
        return replace(self, xy=xy, position=position, level=level)

    @property
    def sentence(self) -> str:
        """The errors in words; empty if there are none."""
        deviations = (
            ("positions", self.spread.position**0.5, "m"),
            ("levels of lines and days", (self.spread.level + self.spread.line) ** 0.5, "m"),
        )
        said = [f"{what} ({size:.2g} {unit})" for what, size, unit in deviations if size >= 5e-3]
        if not said:
            return ""
        return (
            f"crossings show errors of {' and '.join(said)}: uncertainties are those on the map's "
            "own frame; those as another survey would measure it, with such errors of its own, are "
            "given beside them"
        )

    def deviations(
        self, mean_at: Callable[[np.ndarray], np.ndarray], xy: np.ndarray, mean: np.ndarray,
        variance: np.ndarray, narrow: np.ndarray, surface: float,
    ) -> np.ndarray:  # fmt: skip
        """Standard deviations of what another survey measures at places [N], in m.

        It is off by the displacement between both surveys: the mean square of the map's changes
        over that distance, in four directions, is the slope's and the curvature's share. What the
        map's variances were widened by has the same causes, and is not added once more. Errors of
        few recordings and days say little of those of another: they count for more.

        Args:
            mean_at: the map's elevations at places [N, 2]; NaN where it has none.
            xy: the places [N, 2], in m.
            mean: the map's elevations there [N], in m.
            variance: the map's there [N], with noise, in m^2.
            narrow: the same before it was widened by left-out stretches [N].
            surface: elevation of the water's surface, in m.
        """
        nearest = cKDTree(self.xy).query(xy)[1]
        apart = np.sqrt(self.spread.position + self.position[nearest])
        changes = np.zeros((4, len(xy)))
        if apart.any():
            for change, way in zip(changes, ((1, 0), (-1, 0), (0, 1), (0, -1)), strict=True):
                change[:] = mean_at(xy + apart[:, None] * np.array(way)) - mean
        known = np.isfinite(changes)
        squares = np.where(known, changes, 0.0) ** 2
        moved = self.wider[0] * 2 * squares.sum(0) / np.maximum(known.sum(0), 1)
        level = self.wider[1] * (self.spread.level + self.spread.line + self.level[nearest])
        scaled = self.spread.scale * (surface - mean - self.depth) ** 2
        return np.sqrt(np.maximum(variance, narrow + moved + level + scaled))


def of_few(degrees: int) -> float:
    """The factor of a variance with which a normal interval of 95 % is as wide as Student's, for a
    variance that is known by this many degrees of freedom, and by ``SEEN`` beforehand."""
    return float(stdtrit(SEEN + degrees, 0.975) / CONFIDENCE_95) ** 2


def with_other_survey(
    drawn: ElevationMap, errors: SurveyErrors, mapper: BathymetricMapper, surface: float
) -> ElevationMap:
    """A mapper's map with the standard deviations of what another survey measures, as a field;
    ``surface``: elevation of the water's, in m."""
    mean, variance = drawn.mean.ravel(), drawn.variance.ravel()
    std = errors.deviations(
        partial(drawn.grid.interpolate, drawn.mean), drawn.grid.points, mean, variance,
        mapper.before_calibration(variance), surface,
    )  # fmt: skip
    return replace(drawn, fields={**drawn.fields, OTHER_SURVEY: std.reshape(drawn.grid.shape)})
