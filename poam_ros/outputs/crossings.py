"""Crossings of survey lines: crossings.csv, and what they say of the survey and of each line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.errors import quantity
from ..core.geodesy import GeoReference
from ..planning.tvu import CONFIDENCE_95, allowed
from .folder import millimetres, read_table, write_table

#: The file of a run's crossings, and its columns. ``left_out``: 1 where a sounding of one of the
#: two lines there is left out of the map as a multiple.
FILE = "crossings.csv"
COLUMNS = (
    "line", "other", "day", "x", "y", "difference", "depth", "other_depth", "other_day", "left_out",
)  # fmt: skip
#: The file of what crossings say of each line and day, and its columns.
LINES = "lines.csv"
LINE_COLUMNS = ("line", "day", "crossings", "median", "low", "high", "left_out", "verdict")
#: Independent crossings from which their own scatter gives the interval, not that of all crossings.
OWN_SCATTER = 10
#: Standard deviation of a median over that of a mean, and of normal values over their MAD.
MEDIAN_STD, MAD_STD = 1.2533, 1.4826
#: Smaller differences are no offset, whatever the interval, in m.
LEAST_OFFSET = 0.02


@dataclass(frozen=True)
class CrossingTable:
    """C crossings of two lines each.

    Attributes:
        lines, days: names of both lines, and their days (empty: unknown) [C, 2].
        xy: places [C, 2], in m.
        difference: elevation on the first line minus that on the second [C], in m.
        depth: on both lines [C, 2], in m.
        left_out: whether one of the two is left out of the map as a multiple [C].
    """

    lines: np.ndarray
    days: np.ndarray
    xy: np.ndarray
    difference: np.ndarray
    depth: np.ndarray
    left_out: np.ndarray

    def write(self, folder: Path) -> None:
        """Write ``crossings.csv``."""
        columns = self.lines, self.days, self.xy, self.depth, self.difference, self.left_out
        write_table(folder / FILE, COLUMNS, (
            [*line, day[0], *map(millimetres, (*place, by, *depth)), day[1], int(out)]
            for line, day, place, depth, by, out in zip(*(c.tolist() for c in columns), strict=True)
        ))  # fmt: skip

    def to_projected(self, place: GeoReference | None) -> CrossingTable:
        """The same in projected coordinates, if the map has a georeference."""
        return self if place is None else replace(self, xy=place.to_projected(self.xy))

    def statistics(self, order: str) -> CrossingStatistics | None:
        """Of all crossings but those with a multiple; None without any."""
        kept = ~self.left_out
        return statistics_of(self.difference[kept], self.depth[kept], order)

    @classmethod
    def read(cls, path: Path) -> CrossingTable:
        """Read what ``write`` wrote. Empty without a file.

        Raises:
            InputError: it is broken.
        """
        table = read_table(path, COLUMNS) if path.exists() else dict.fromkeys(COLUMNS, np.empty(0))
        sides = ("line", "other"), ("day", "other_day"), ("x", "y"), ("depth", "other_depth")
        lines, days, xy, depth = (np.column_stack((table[a], table[b])) for a, b in sides)
        out = table["left_out"].astype(bool)
        return cls(lines.astype(object), days.astype(object), xy, table["difference"], depth, out)


class CrossingStatistics(NamedTuple):
    """Of the differences of a survey's crossings, as amounts: how many, their median and 95 %
    quantile in m, and the share within the limit of an S-44 order.

    The limit is that of a difference of two soundings that are each within the order's TVU:
    sqrt(2) TVU at their mean depth.
    """

    crossings: int
    median: float
    quantile95: float
    within: float


def statistics_of(
    difference: np.ndarray, depth: np.ndarray, order: str
) -> CrossingStatistics | None:
    """Of differences [C] at crossings of these depths on both lines [C, 2], in m; None without
    any."""
    if not len(difference):
        return None
    amount = np.abs(difference)
    limit = np.sqrt(2) * allowed(order, depth.mean(1))
    median, high = np.quantile(amount, (0.5, 0.95)).tolist()
    return CrossingStatistics(len(amount), median, high, float((amount <= limit).mean()))


class Bias(NamedTuple):
    """Of a line, or a day: crossings with others, the median difference of its elevations from
    theirs with its 95 % interval, in m, and whether it is an offset, not chance."""

    name: str
    crossings: int
    median: float
    low: float
    high: float
    offset: bool


def biases(
    names: np.ndarray, difference: np.ndarray, left_out: np.ndarray, weight: np.ndarray
) -> list[Bias]:
    """The bias of each name, in the order of names.

    A crossing with a multiple counts only for names of which all crossings have one. An interval is
    that of the median of as many independent normal differences as the weights add up to; where
    these are few, with the scatter of all crossings. A bias is an offset if it is unlikely (5 % for
    all names together) without one.

    Args:
        names: of the line, or day, of both sides [C, 2].
        difference: first side less second [C], in m.
        left_out: crossings with a multiple [C].
        weight: how many independent crossings each stands for [C].
    """

    def scatter(values: np.ndarray) -> float:
        return MAD_STD * float(np.median(np.abs(values - np.median(values))))

    across = names[:, 0] != names[:, 1]
    kept = across & ~left_out
    pooled = scatter(difference[kept]) if kept.any() else 0.0
    lines = sorted(
        set(names.ravel().tolist()) - {""},
        key=lambda name: (len(name) if name.isdecimal() else 0, name),  # 9 before 10
    )
    certain = CONFIDENCE_95 + 0.5 * np.log(max(1, len(lines)))  # about Bonferroni's
    biased = []
    for name in lines:
        own = np.where(names[:, 0] == name, 1.0, np.where(names[:, 1] == name, -1.0, 0.0))
        use = (own != 0) & kept
        use = use if use.any() else (own != 0) & across
        values = (own * difference)[use]
        if not len(values):
            biased.append(Bias(name, 0, np.nan, np.nan, np.nan, False))
            continue
        independent = float(weight[use].sum())
        own_scatter = scatter(values) if independent >= OWN_SCATTER else pooled
        std = MEDIAN_STD * own_scatter / np.sqrt(independent)
        middle, half = float(np.median(values)), CONFIDENCE_95 * std
        offset = len(values) > 1 and abs(middle) > max(certain * std, LEAST_OFFSET)
        biased.append(Bias(name, len(values), middle, middle - half, middle + half, bool(offset)))
    return biased


def write_lines(folder: Path, rows: Iterable[tuple[str, str, Bias, int, str]]) -> None:
    """Write ``lines.csv``.

    Args:
        folder: of the run.
        rows: line (empty for a day), day (empty for a line), bias, soundings left out as multiples,
            verdict.
    """
    write_table(folder / LINES, LINE_COLUMNS, (
        [line, day, bias.crossings, *map(millimetres, bias[2:5]), out, verdict]
        for line, day, bias, out, verdict in rows
    ))  # fmt: skip


def statistics_text(statistics: CrossingStatistics | None, order: str) -> str:
    """The statistics in one sentence."""
    if statistics is None:
        return "no crossings of lines"
    return (
        f"{quantity(statistics.crossings, 'crossing')}: median difference "
        f"{statistics.median:.2f} m, 95 % within {statistics.quantile95:.2f} m, "
        f"{100 * statistics.within:.1f} % within the limit of IHO S-44 order {order}"
    )
