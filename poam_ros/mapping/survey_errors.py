"""Constant errors of a survey, with their intervals and in words; and how far another survey may
therefore differ from its map.

A map is uncertain on its own frame: that of its positions and levels. Another survey has errors as
large as those that the lines and days of this one have against each other: its positions are off,
so that it measures the depth of a place nearby, and so are its level and its sound speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import stdtrit

from ..core.errors import quantity
from ..core.maps import ElevationMap
from ..outputs.held_out import OTHER_SURVEY
from ..planning.tvu import CONFIDENCE_95
from .crossed import Divisions
from .soundings import Soundings

if TYPE_CHECKING:
    from ..models.mapper import BathymetricMapper

#: The 95 % quantile of a sum of two squared standard normal variables.
SQUARE_95 = -2 * math.log(0.05)
#: Variances are as well known as if errors of so many more recordings or days had been seen.
SEEN = 3


@dataclass(frozen=True)
class Effect:
    """An estimate with its 95 % interval.

    Attributes:
        kind: ``level`` (m, up), ``scale`` (of the depth), ``along`` (m: the sounder is so far ahead
            of the antenna), ``latency`` (s: a depth is so much older than its position) or
            ``line`` (m, up).
        name: of the day or line.
        value, low, high: the estimate and its interval, in the unit of ``kind``.
    """

    kind: str
    name: str
    value: float
    low: float
    high: float

    @classmethod
    def of(cls, kind: str, name: str, value: float, std: float) -> Effect:
        """An estimate with this standard deviation."""
        value, half = float(value), CONFIDENCE_95 * float(std)
        return cls(kind, name, value, value - half, value + half)

    @property
    def sure(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0

    @property
    def sentence(self) -> str:
        """The estimate in words, and whether it may be 0; it is corrected in any case."""
        return f"{self.estimate}: corrected{'' if self.sure else '; may be 0'}"

    @property
    def estimate(self) -> str:
        """The estimate in words."""
        values, age = (self.value, self.low, self.high), "older"
        if self.kind == "latency" and self.value < 0:
            age, values = "newer", (-self.value, -self.high, -self.low)
        what, factor, unit, digits = {
            "level": (f"level of {self.name}: its elevations are off", 1.0, "m", 3),
            "scale": (f"depths of {self.name} are off", 100.0, "%", 2),
            "along": ("along the direction of travel, depths belong ahead", 1.0, "m", 2),
            "latency": (f"latency: depths are {age} than their positions", 1.0, "s", 2),
            "line": (f"line {self.name}: its elevations are off", 1.0, "m", 3),
        }[self.kind]
        value, low, high = (f"{factor * v:+.{digits}f}" for v in values)
        return f"{what} by {value} {unit} (95 %: {low} to {high})"


@dataclass(frozen=True)
class PositionError:
    """By how much the positions of a line or a recording are off, relative to those of most.

    Attributes:
        kind: ``line`` or ``recording``. A line's error is relative to that of its recording.
        name: of the line or recording.
        x, y: the estimate, in m, in the map's coordinates.
        covariance: of both [2, 2], in m^2.
    """

    kind: str
    name: str
    x: float
    y: float
    covariance: np.ndarray

    @property
    def sure(self) -> float:
        """The distance from 0, in distances to the edge of the 95 % region in that direction."""
        off = np.array([self.x, self.y])
        return math.sqrt(float(off @ np.linalg.solve(self.covariance, off)) / SQUARE_95)

    @property
    def sentence(self) -> str:
        """The estimate in words."""
        axes = np.sqrt(SQUARE_95 * np.linalg.eigvalsh(self.covariance)).tolist()
        within = " to ".join(dict.fromkeys(f"{half:.1f}" for half in axes))
        return (
            f"{self.kind} {self.name}: its positions are off by {self.x:+.1f} m in x and "
            f"{self.y:+.1f} m in y (95 %: within {within} m of that)"
        )


class Spread(NamedTuple):
    """Variances of errors as crossings show them: of the positions of a recording and a line, along
    each axis (m^2), of the constant of a line and the level of a day (m^2), and of its scale."""

    position: float = 0.0
    line: float = 0.0
    level: float = 0.0
    scale: float = 0.0


@dataclass(frozen=True)
class Calibration:
    """The estimates, sentences on what cannot be known, and the positions that were corrected.

    ``levels``: of each day, by its name: its error of level relative to the reference, and the
    standard deviation of what is left of it after the correction, in m. ``depth`` (m): at which
    levels are given. ``spread``: of errors of lines, recordings and days. ``left``: of each line,
    day and recording (kind, name), the variances of position (along each axis) and elevation that
    are left after the correction, in m^2.
    """

    effects: tuple[Effect, ...]
    remarks: tuple[str, ...]
    positions: tuple[PositionError, ...] = ()
    levels: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    depth: float = 0.0
    spread: Spread = field(default_factory=Spread)
    left: Mapping[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def known_levels(self, least: float) -> dict[str, list[float]]:
        """``levels`` of days that are clearly off, and of those known to ``least`` or better."""
        return {
            name: [off, std]
            for name, (off, std) in self.levels.items()
            if std <= least or abs(off) > CONFIDENCE_95 * std
        }

    @property
    def sentences(self) -> list[str]:
        """The estimates and remarks, in words."""
        return self.largest(max(len(self.effects), len(self.positions)))

    def largest(self, most: int) -> list[str]:
        """The same, but only the ``most`` largest of the effects of lines, and of the errors of
        positions of lines and of recordings; and how many more there are."""
        lines = [each for each in self.effects if each.kind == "line" and each.sure]
        found = [each.sentence for each in self.effects if each.kind != "line"]
        found += _said(lines, [abs(each.value) for each in lines], most)
        for kind in dict.fromkeys(each.kind for each in self.positions):
            errors = [each for each in self.positions if each.kind == kind]
            size = np.hypot([each.x for each in errors], [each.y for each in errors])
            found.append(
                f"positions of {quantity(len(errors), kind)} are off by "
                f"{float(np.sqrt(np.mean(size**2))):.1f} m (root mean square), at most "
                f"{size.max():.1f} m: corrected"
            )
            named = [each for each in errors if each.sure > 1]
            found += _said(named, [math.hypot(each.x, each.y) for each in named], most)
        return found + list(self.remarks)

    def value(self, kind: str, name: str = "") -> float:
        """The value of an effect; 0 if there is none."""
        found = (e.value for e in self.effects if (e.kind, e.name) == (kind, name))
        return next(found, 0.0)


def _said(
    found: Sequence[Effect] | Sequence[PositionError], sizes: Sequence[float], most: int
) -> list[str]:
    """The sentences of the ``most`` largest, in their order, and how many more there are."""
    shown = sorted(np.argsort(sizes, kind="stable")[::-1][:most].tolist())
    said = [found[i].sentence for i in shown]
    if more := len(found) - len(shown):
        said.append(f"{quantity(more, f'more {found[0].kind}')}: see calibration in config.yaml")
    return said


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
        corrected: whether the soundings are corrected by what crossings show.
    """

    spread: Spread
    depth: float
    xy: np.ndarray
    position: np.ndarray
    level: np.ndarray
    wider: tuple[float, float] = (1.0, 1.0)
    corrected: bool = False

    @classmethod
    def of(
        cls, found: Calibration, soundings: Soundings, divisions: Divisions, corrected: bool
    ) -> SurveyErrors:
        """Those that the crossings of soundings show. ``corrected``: whether they are corrected
        by ``found``, so that only what is uncertain of the corrections is left."""
        spread = found.spread
        both = np.zeros((len(soundings), 2))
        if not corrected:
            both += (spread.position, spread.level)
        else:
            for kind, labels in divisions._asdict().items():
                left = [found.left.get((kind, name), (0.0, 0.0)) for name in labels.names]
                both += np.array(left)[labels.code]
        line, day, recording = (len(labels.names) for labels in divisions)
        moving = recording if 1 < recording <= line / 2 else line
        wider = of_few(2 * (moving - 1)), of_few(day - 1)
        position, level = both.T
        return cls(spread, found.depth, soundings.xy, position, level, wider, corrected)

    def __getitem__(self, index: np.ndarray) -> SurveyErrors:
        """Those of some soundings."""
        xy, position, level = (of[index] for of in (self.xy, self.position, self.level))
        return replace(self, xy=xy, position=position, level=level)

    @property
    def sentence(self) -> str:
        """The errors in words; empty if there are none."""
        variances = {
            "positions": self.spread.position,
            "levels of lines and days": self.spread.level + self.spread.line,
        }
        said = [f"{of} ({v**0.5:.2g} m)" for of, v in variances.items() if v**0.5 >= 5e-3]
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
        map's variances were widened by has the same causes, and is not added once more; but if
        these were corrected, it has others, and is. Errors of few recordings and days say little of
        those of another: they count for more.

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
        own = variance if self.corrected else narrow
        return np.sqrt(np.maximum(variance, own + moved + level + scaled))


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
