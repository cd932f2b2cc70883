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
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import stdtrit

from ..core.errors import quantity
from ..planning.tvu import CONFIDENCE_95
from .crossed import Divisions
from .soundings import Soundings

#: The 95 % quantile of a sum of two squared standard normal variables.
SQUARE_95 = -2 * math.log(0.05)
#: Variances are as well known as if errors of so many more recordings or days had been seen.
SEEN = 3
#: Of each kind of effect: its words, the factor and the unit of its numbers, their digits.
SAID = {
    "level": ("level of {}: its elevations are off", 1.0, "m", 3),
    "scale": ("depths of {} are off", 100.0, "%", 2),
    "along": ("along the direction of travel, depths belong ahead", 1.0, "m", 2),
    "latency": ("latency: depths are older than their positions", 1.0, "s", 2),
    "line": ("line {}: its elevations are off", 1.0, "m", 3),
}


class Spread(NamedTuple):
    """Variances of errors as crossings show them: of the positions of a recording and a line, along
    each axis (m^2), of the constant of a line and the level of a day (m^2), and of its scale."""

    position: float = 0.0
    line: float = 0.0
    level: float = 0.0
    scale: float = 0.0


class Effect(NamedTuple):
    """An estimate with its standard deviation."""

    value: float
    std: float

    @property
    def sure(self) -> bool:
        """Whether the 95 % interval excludes 0."""
        return abs(self.value) > CONFIDENCE_95 * self.std

    def sentence(self, kind: str, name: str) -> str:
        """The estimate in words, and whether it may be 0; it is corrected in any case."""
        what, factor, unit, digits = SAID[kind]
        value, half = factor * self.value, factor * CONFIDENCE_95 * self.std
        if kind == "latency" and value < 0:
            what, value = what.replace("older", "newer"), -value
        best, low, high = (f"{v:+.{digits}f}" for v in (value, value - half, value + half))
        zero = "" if self.sure else "; may be 0"
        return f"{what.format(name)} by {best} {unit} (95 %: {low} to {high}): corrected{zero}"


class PositionError(NamedTuple):
    """By how much positions are off in x and y [2], in m, with the covariance [2, 2]."""

    value: np.ndarray
    covariance: np.ndarray

    @property
    def sure(self) -> bool:
        """Whether the 95 % region excludes 0."""
        return bool(self.value @ np.linalg.solve(self.covariance, self.value) > SQUARE_95)

    def sentence(self, kind: str, name: str) -> str:
        """The estimate in words."""
        axes = np.sqrt(SQUARE_95 * np.linalg.eigvalsh(self.covariance)).tolist()
        within = " to ".join(dict.fromkeys(f"{half:.1f}" for half in axes))
        x, y = self.value
        return (
            f"{kind} {name}: its positions are off by {x:+.1f} m in x and {y:+.1f} m in y "
            f"(95 %: within {within} m of that)"
        )


@dataclass(frozen=True)
class Calibration:
    """Constant errors of a survey, each by its kind and name.

    Attributes:
        effects: ``level`` of a day (m, up) and ``scale`` of its depths, relative to the day
            ``reference``; ``along`` (m: the sounder is so far ahead of the antenna); ``latency``
            (s: a depth is so much older than its position); of a ``line`` (m, up).
        positions: of a ``line``, relative to its recording, or a ``recording``, relative to most.
        remarks: on what cannot be known.
        depth: at which levels are given, in m.
        spread: of errors of lines, recordings and days.
        left: for lines, days and recordings, the variances of position (along each axis) and
            elevation that are left in each after the correction [P, 2], in m^2.
    """

    effects: Mapping[tuple[str, str], Effect] = field(default_factory=dict)
    positions: Mapping[tuple[str, str], PositionError] = field(default_factory=dict)
    remarks: Sequence[str] = ()
    reference: str = ""
    depth: float = 0.0
    spread: Spread = field(default_factory=Spread)
    left: Mapping[str, np.ndarray] = field(default_factory=dict)

    def levels(self, least: float = math.inf) -> dict[str, list[float]]:
        """Of each day: its error of level relative to the reference, and the standard deviation of
        what is left of it after the correction, in m; of days that are clearly off, and of those
        known to ``least`` or better."""
        days = {name: effect for (kind, name), effect in self.effects.items() if kind == "level"}
        return {self.reference: [0.0, 0.0]} | {
            name: [*level] for name, level in days.items() if level.std <= least or level.sure
        }

    def sentences(self, most: int = 10**9) -> list[str]:
        """The estimates and remarks in words. Of the effects of lines, and of the errors of
        positions of lines and of recordings, only the ``most`` largest; and how many more there
        are."""
        said = [each.sentence(*of) for of, each in self.effects.items() if of[0] != "line"]
        sure = {of: each for of, each in self.effects.items() if of[0] == "line" and each.sure}
        said += _largest(sure, most)
        for kind in dict.fromkeys(kind for kind, _ in self.positions):
            off = {of: each for of, each in self.positions.items() if of[0] == kind}
            size = np.hypot(*np.array([each.value for each in off.values()]).T)
            said.append(
                f"positions of {quantity(len(off), kind)} are off by "
                f"{float(np.sqrt(np.mean(size**2))):.1f} m (root mean square), at most "
                f"{size.max():.1f} m: corrected"
            )
            said += _largest({of: each for of, each in off.items() if each.sure}, most)
        return [*said, *self.remarks]


def _largest(found: Mapping[tuple[str, str], Effect | PositionError], most: int) -> list[str]:
    """The sentences of the ``most`` largest, in their order, and how many more there are."""
    size = [-float(np.linalg.norm(each.value)) for each in found.values()]
    shown = set(np.argsort(size, kind="stable")[:most].tolist())
    said = [each.sentence(*of) for i, (of, each) in enumerate(found.items()) if i in shown]
    if more := len(found) - len(shown):
        kind = next(iter(found))[0]
        said.append(f"{quantity(more, f'more {kind}')}: see calibration in config.yaml")
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
        by ``found``, so that only what is uncertain of the corrections is left; otherwise the
        map's model has learned its positions' errors, as a rougher bottom."""
        spread, both = found.spread, np.zeros((len(soundings), 2))
        if not corrected:
            both[:, 1] += spread.level
        for kind, left in found.left.items() if corrected else ():
            both += left[getattr(divisions, kind).code]
        line, day, recording = (len(labels.names) for labels in divisions)
        moving = recording if 1 < recording <= line / 2 else line
        wider = of_few(2 * (moving - 1)), of_few(day - 1)
        return cls(spread, found.depth, soundings.xy, both[:, 0], both[:, 1], wider, corrected)

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
