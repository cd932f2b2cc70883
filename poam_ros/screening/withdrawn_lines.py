"""Pings whose verdict has changed, or that are withdrawn, line by line in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.errors import quantity
from ..core.samples import Samples
from .blocks import LiveCrossings
from .hypotheses import OTHER_ECHO
from .lines import find_lines

ECHOES = {2: "double echoes", 3: "triple echoes", OTHER_ECHO: "false echoes"}
LEAST = 10  # fewer pings of a line are only counted
NEWEST = 8  # withdrawn lines that are reported


@dataclass(frozen=True)
class LineVerdict:
    """Pings of one line with the same verdict.

    Attributes:
        pings: the pings.
        multiple: 2 or 3 if they are double or triple echoes, 0 if something else; 1: bottom.
        crossings: number of their crossings with lines in use.
        difference: median difference of elevation from these lines, in m.
    """

    pings: Samples
    multiple: int
    crossings: int
    difference: float

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        ends = (f"({x:.0f}, {y:.0f})" for x, y in self.pings.xy[[0, -1]].tolist())
        text = f"line from {' to '.join(ends)}"
        if self.crossings:
            text += f": {quantity(self.crossings, 'crossing')}, median {self.difference:+.1f} m"
        else:
            text += ", by the lines beside it"
        if self.multiple == 1:
            return f"{text}: bottom after all, {quantity(len(self.pings), 'ping')} reinstated"
        return f"{text}: {ECHOES[self.multiple]}, {quantity(len(self.pings), 'ping')} withdrawn"


def line_verdicts(
    pings: Samples,
    multiple: np.ndarray,
    crossings: LiveCrossings,
    withdrawn: np.ndarray,
    stride: float,
) -> list[LineVerdict]:
    """Pings with verdicts as lines, in order of acceptance, by all their crossings so far.

    This depends on the present state alone, so that it is the same after a restart.

    Args:
        pings: in order of acceptance.
        multiple: what they are, as in ``LineVerdict`` [n].
        crossings: all so far; those with lines that are withdrawn do not count.
        withdrawn: numbers of the pings that are withdrawn.
        stride: distance over which courses are taken, in m.

    Returns:
        Those of ``LEAST`` pings or more.
    """
    cuts = (np.diff(pings.number) > LEAST) | (np.diff(multiple) != 0)
    pieces = np.split(np.arange(len(pings)), np.flatnonzero(cuts) + 1)
    lines = [
        part
        for piece in pieces
        if len(piece) >= LEAST
        for turn in [find_lines(pings.xy[piece], stride)]
        for part in np.split(piece, np.flatnonzero(np.diff(turn)) + 1)
        if len(part) >= LEAST
    ]
    out = np.isin(np.stack([crossings.late, crossings.early]), withdrawn)
    return [_of_line(pings[part], int(multiple[part[0]]), crossings, out) for part in lines]


def _of_line(
    pings: Samples, multiple: int, crossings: LiveCrossings, out: np.ndarray
) -> LineVerdict:
    """What crossings with lines in use say of pings; ``out``: which sides are withdrawn [2, C]."""
    own = np.isin(np.stack([crossings.late, crossings.early]), pings.number)
    side, row = np.nonzero(own & ~out[::-1] & ~own[::-1])
    differences = np.where(side == 0, 1, -1) * crossings.difference[row]
    median = float(np.median(differences)) if len(row) else float("nan")
    return LineVerdict(pings, multiple, len(row), median)
