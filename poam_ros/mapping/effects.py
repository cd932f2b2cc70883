"""Constant errors of a survey with their intervals, in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..core.errors import quantity
from ..planning.tvu import CONFIDENCE_95

#: The 95 % quantile of a sum of two squared standard normal variables.
SQUARE_95 = -2 * math.log(0.05)


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
        factor, unit, digits = {
            "scale": (100.0, " %", 2), "latency": (1.0, " s", 2), "along": (1.0, " m", 2),
        }.get(self.kind, (1.0, " m", 3))  # fmt: skip
        values = self.value, self.low, self.high
        age = "older"
        if self.kind == "latency" and self.value < 0:
            age, values = "newer", (-self.value, -self.high, -self.low)
        value, low, high = (f"{factor * v:+.{digits}f}" for v in values)
        what = {
            "level": f"level of {self.name}: its elevations are off by",
            "scale": f"depths of {self.name} are off by",
            "along": "along the direction of travel, depths belong ahead by",
            "latency": f"latency: depths are {age} than their positions by",
            "line": f"{self.kind} {self.name}: its elevations are off by",
        }[self.kind]
        return f"{what} {value}{unit} (95 %: {low} to {high})"


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


#: Where crossings show none.
NO_SPREAD = Spread()


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
    spread: Spread = NO_SPREAD
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
        for errors in self.position_errors:
            found.append(positions_sentence(errors) + ": corrected")
            named = [each for each in errors if each.sure > 1]
            found += _said(named, [math.hypot(each.x, each.y) for each in named], most)
        return found + list(self.remarks)

    @property
    def position_errors(self) -> list[list[PositionError]]:
        """Those of lines, and those of recordings; without a list if there are none."""
        kinds = dict.fromkeys(each.kind for each in self.positions)
        return [[each for each in self.positions if each.kind == kind] for kind in kinds]

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


def positions_sentence(errors: Sequence[PositionError]) -> str:
    """The errors of the positions of lines or of recordings, in words."""
    size = np.hypot([each.x for each in errors], [each.y for each in errors])
    mean = float(np.sqrt(np.mean(size**2)))
    return (
        f"positions of {quantity(len(errors), errors[0].kind)} are off by {mean:.1f} m (root mean "
        f"square), at most {size.max():.1f} m"
    )
