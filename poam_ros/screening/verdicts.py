"""Verdicts about accepted pings that change when other lines cross theirs.

Each new batch is compared with the pings of other passes beside it. Only where two of them differ
as an echo and the bottom do, or where pings that were withdrawn before are confirmed, the pings
nearest to the batch get verdicts by the crossings of their lines, as a record does (``crossings``).
The work of a batch is bounded. Metres everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.spatial import cKDTree

from ..core.errors import quantity
from ..core.samples import Samples
from .blocks import BLOCK, LiveCrossings, PingBlocks
from .crossings import DEPTH_TOLERANCE, Crossings, find_crossings
from .evidence import PASS_RATIO
from .hypotheses import OTHER_ECHO
from .lines import STRIDE, find_lines
from .paths import MULTIPLES
from .track import MIN_NEIGHBOURHOOD

MAX_PINGS = 1024  # compared at once: about 0.03 s
MIN_KNOWN = 10  # pings of a line with the same verdict that show that it is no accident
CHUNK = 512  # pings of a batch that are compared with others at a time
AGREE = 0.25  # share of the crossing lines that agree with pings that are reinstated
STEPS = 3.0  # steps between pings within which another pass is compared
#: Ranges of two passes contradict each other if their ratio is at least this, and agree below.
CONTRADICTION = MULTIPLES[0] * (1 - DEPTH_TOLERANCE)
ECHOES = {2: "double echoes", 3: "triple echoes", OTHER_ECHO: "false echoes"}
NEWEST = 8  # withdrawn lines that are reported


@dataclass(frozen=True)
class LineVerdict:
    """Pings of one line whose verdict has changed.

    Attributes:
        pings: the pings, in order of acceptance.
        multiple: 2 or 3 if they are double or triple echoes, 0 if they are a smooth run of
            something else or it is unknown what they are, and are withdrawn; 1 if they are
            bottom and are reinstated.
        crossings: number of crossings with other lines that are in use.
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


class LineVerdicts:
    """Verdicts about accepted pings, batch by batch.

    The verdicts depend on the pings so far, the batch, and which pings are withdrawn; nothing else
    is remembered.

    Args:
        blocks: all accepted pings so far; the batch is the last of them.

    Attributes:
        compared: pings that were compared by crossings so far, each as often as it was.
    """

    def __init__(self, blocks: PingBlocks) -> None:
        self._blocks = blocks
        self.compared = 0

    def decide(self, batch: int, withdrawn: np.ndarray) -> list[LineVerdict]:
        """Verdicts about what the last pings contradict or confirm.

        Args:
            batch: number of the last pings.
            withdrawn: numbers of the pings that are withdrawn.

        Returns:
            The changes, in order.
        """
        data, verdicts = self._blocks.data, []
        out = np.isin(data.number, withdrawn)
        for begin in range(len(data) - batch, len(data), CHUNK):
            chunk = np.arange(begin, min(begin + CHUNK, len(data)))
            chunk = chunk[np.isfinite(data.range[chunk])]
            if len(chunk) and self._questioned(chunk, out):
                for verdict, rows in self._decide_around(chunk, out):
                    out[rows] = verdict.multiple != 1
                    verdicts.append(verdict)
        return verdicts

    def _questioned(self, chunk: np.ndarray, out: np.ndarray) -> bool:
        """Whether pings contradict pings in use of another pass, or confirm or continue withdrawn
        ones."""
        if chunk[0] and out[chunk[0] - 1]:
            return True  # the line goes on
        data = self._blocks.data
        end = int(chunk[-1]) + 1
        steps = np.hypot(*np.diff(data.xy[max(0, end - CHUNK) : end], axis=0).T)
        reach = STEPS * float(np.median(steps[steps > 0])) if steps.any() else MIN_NEIGHBOURHOOD
        rows, _, distance = self._blocks.track(
            np.flatnonzero(self._blocks.away(data.xy[chunk]) <= reach)
        )
        place = np.full(len(data), -1)
        place[rows] = np.arange(len(rows))
        near = cKDTree(data.xy[rows]).query_ball_point(data.xy[chunk], reach)
        mine = np.repeat(chunk, [len(each) for each in near])
        theirs = np.concatenate([np.asarray(each, dtype=np.int64) for each in near])
        passes = np.abs(distance[place[mine]] - distance[theirs]) > PASS_RATIO * reach
        mine, theirs = mine[passes], rows[theirs[passes]]
        order = np.lexsort((np.hypot(*(data.xy[mine] - data.xy[theirs]).T), mine))
        mine, first = np.unique(mine[order], return_index=True)
        theirs = theirs[order][first]  # the nearest of other passes
        low, high = np.sort(data.range[np.stack([mine, theirs])], axis=0)
        contradict = (high >= CONTRADICTION * low) & ~(out[mine] | out[theirs])
        confirm = (high < CONTRADICTION * low) & (out[mine] != out[theirs])
        return bool((contradict | confirm).any())

    def _decide_around(
        self, chunk: np.ndarray, out: np.ndarray
    ) -> Iterator[tuple[LineVerdict, np.ndarray]]:
        """Compare the blocks nearest to some pings; yields the changes with their rows."""
        data = self._blocks.data
        nearest = np.argsort(self._blocks.away(data.xy[chunk]), kind="stable")[: MAX_PINGS // BLOCK]
        rows, piece, distance = self._blocks.track(np.sort(nearest))
        self.compared += len(rows)
        xy, stride = data.xy[rows], STRIDE * float(np.ptp(data.xy[rows], axis=0).max())
        line, count = np.empty(len(rows), dtype=np.int64), 0
        for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(piece)) + 1):
            line[part] = count + find_lines(xy[part], stride)
            count = int(line[part[-1]]) + 1
        found = find_crossings(xy, data.z[rows], line, data.range[rows], distance=distance)
        # The longest first: what is left of a line at its ends continues it.
        long_first = np.argsort(-np.bincount(line, minlength=count), kind="stable")
        for number, multiple in product(long_first.tolist(), (1, *MULTIPLES, OTHER_ECHO)):
            own = (line == number) & (found.multiple == multiple)
            if multiple == OTHER_ECHO and own.any():
                own = _runs(own)  # single ones are refused along the track, or unknown
            change = own & (out[rows] != (multiple != 1))
            if not change.any() or (multiple != 1 and own.sum() < MIN_KNOWN):
                continue
            if multiple != 1 and self._slides(rows[own], rows[found.multiple == 1]):
                continue
            about = change if multiple == 1 else own
            differences, agree = _differences(found, about, data.range[rows])
            if multiple == 1 and AGREE * len(differences) > agree:
                continue
            whole = self._continued(rows[change], out, rows)
            median = float(np.median(differences)) if len(differences) else float("nan")
            yield LineVerdict(data[whole], multiple, len(differences), median), whole

    def _slides(self, own: np.ndarray, bottom: np.ndarray) -> bool:
        """Whether the bottom leads to or from pings without a jump, as it does on a slope."""
        data = self._blocks.data
        for last, beside in ((own.min(), own.min() - 1), (own.max(), own.max() + 1)):
            if beside in bottom:
                low, high = np.sort(data.range[[last, beside]])
                way = float(np.hypot(*(data.xy[last] - data.xy[beside])))
                if high <= (1 + DEPTH_TOLERANCE) * low and way <= max(MIN_NEIGHBOURHOOD, low / 2):
                    return True
        return False

    def _continued(self, rows: np.ndarray, out: np.ndarray, compared: np.ndarray) -> np.ndarray:
        """These pings, and those that continue them without a jump, and were not compared or are
        too few for a verdict."""
        data, parts = self._blocks.data, [np.sort(rows)]
        inside = np.zeros(len(data), dtype=bool)
        inside[compared] = True
        for last, step in ((int(rows.min()), -1), (int(rows.max()), 1)):
            end = last + step * MAX_PINGS
            ahead = np.arange(last, max(end, -1) if step < 0 else min(end, len(data)), step)
            jump = np.abs(np.diff(data.range[ahead])) > DEPTH_TOLERANCE * data.range[ahead[1:]]
            reach = np.maximum(MIN_NEIGHBOURHOOD, data.range[ahead[1:]] / 2)
            jump |= np.hypot(*np.diff(data.xy[ahead], axis=0).T) > reach
            jump |= (out[ahead[1:]] != out[last]) | ~np.isfinite(reach)
            beyond = ahead[1:][~np.maximum.accumulate(jump)]
            known = inside[beyond]
            if known.sum() >= MIN_KNOWN:  # they had a verdict, and were not just too few
                beyond = beyond[: known.argmax()]
            parts.append(beyond)
        return np.sort(np.concatenate(parts))


def _runs(which: np.ndarray) -> np.ndarray:
    """Those of the pings [N], boolean, that are in runs of ``MIN_KNOWN`` or more."""
    begin = np.r_[0, np.flatnonzero(np.diff(which)) + 1]
    length = np.diff(np.r_[begin, len(which)])
    return which & np.repeat(length >= MIN_KNOWN, length)


def withdrawn_lines(
    withdrawn: Samples, multiple: np.ndarray, crossings: LiveCrossings, stride: float
) -> list[LineVerdict]:
    """The lines that are withdrawn, by all their crossings with others so far.

    This depends on the present state alone, so that it is the same after a restart.

    Args:
        withdrawn: the withdrawn pings, in the order in which they were withdrawn.
        multiple: what they are, as in ``LineVerdict`` [n].
        crossings: all so far.
        stride: distance over which courses are taken, in m.

    Returns:
        The ``NEWEST``, the last withdrawn first.
    """
    order, numbers = np.argsort(withdrawn.number, kind="stable"), withdrawn.number
    cuts = (np.diff(numbers[order]) > MIN_KNOWN) | (np.diff(multiple[order]) != 0)
    pieces = np.split(order, np.flatnonzero(cuts) + 1)
    lines = [
        part
        for piece in pieces
        if len(piece)
        for turn in [find_lines(withdrawn.xy[piece], stride)]
        for part in np.split(piece, np.flatnonzero(np.diff(turn)) + 1)
    ]
    newest = sorted(lines, key=max, reverse=True)[:NEWEST]
    out = np.isin(np.stack([crossings.late, crossings.early]), numbers)
    once = crossings[np.flatnonzero(out[0] != out[1])]  # with lines in use
    return [_of_line(withdrawn[part], int(multiple[part[0]]), once) for part in newest]


def _of_line(pings: Samples, multiple: int, crossings: LiveCrossings) -> LineVerdict:
    """What crossings with lines in use say of withdrawn pings."""
    own = np.isin(np.stack([crossings.late, crossings.early]), pings.number)
    side, row = np.nonzero(own)
    differences = np.where(side == 0, 1, -1) * crossings.difference[row]
    median = float(np.median(differences)) if len(row) else float("nan")
    return LineVerdict(pings, multiple, len(row), median)


def _differences(found: Crossings, about: np.ndarray, ranges: np.ndarray) -> tuple[np.ndarray, int]:
    """Differences of some soundings from the bottom on lines across, in m; and how many of them are
    small."""
    ends, across = np.r_[found.row, found.other], np.r_[found.other, found.row]
    differences = np.r_[found.difference, -found.difference]
    use = about[ends] & (found.multiple[across] == 1) & ~about[across]
    agree = np.abs(differences[use]) <= DEPTH_TOLERANCE * ranges[ends[use]]
    return differences[use], int(agree.sum())
