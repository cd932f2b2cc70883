"""An alarm for positions that are shifted from some moment on, by where the track crosses itself.

The origin of odometry can drift, or jump in a gap where no check of steps sees it. Then lines
after that moment disagree with the lines before it wherever the bottom slopes. The crossings of
every block of pings with earlier ones are compared: if those across some moment disagree, and
others do not, that is said. Metres everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .blocks import BLOCK, LiveCrossings, PingBlocks
from .crossings import cross_product
from .evidence import PASS_RATIO, medians

GROUP = 4  # successive pings whose middle is one end of a leg
NEAREST = 32  # blocks that a block is compared with
NEAR_LEGS = 12  # nearest legs of each leg that are searched for crossings
NEWEST = 512  # crossings in which a shift is looked for
#: Standard deviations of an elevation (m) and of a range (relative): differences at crossings that
#: they and those of positions explain are none.
ELEVATION_STD, RANGE_STD, SIGMAS = 0.02, 0.005, 2.0
#: Alarm if the sum over crossings of a sixth of the squared difference (in standard deviations, at
#: most 3), less ``AGREES`` each, comes to this. At least ``LEAST`` crossings must be across the
#: moment, of which at most ``WITHOUT`` agree as they are or with a constant difference, and others.
ALARM, AGREES, LEAST, WITHOUT = 5.0, 0.5, 6, 0.6


@dataclass(frozen=True)
class Shift:
    """Positions since some ping seem to be shifted from those before it.

    Attributes:
        first, last: numbers of the first such ping, and of the last one that was compared.
        since, before: median absolute difference at the crossings across that moment, and at all
            others, in m.
        crossings: number of those across it.
    """

    first: int
    last: int
    since: float
    before: float
    crossings: int

    @property
    def sentence(self) -> str:
        """The alarm in words."""
        return (
            f"positions may have shifted: since ping {self.first}, {self.crossings} crossings with "
            f"earlier lines differ by {self.since:.1f} m, before by {self.before:.1f} m"
        )


@dataclass(frozen=True)
class _Legs:
    """Straight pieces of the track: begin and way [L, 2], elevation at the begin and rise along the
    way [L], range [L], first ping and distance travelled [L]."""

    begin: np.ndarray
    way: np.ndarray
    z: np.ndarray
    rise: np.ndarray
    range: np.ndarray
    first: np.ndarray
    travelled: np.ndarray

    def __getitem__(self, index: np.ndarray) -> _Legs:
        return _Legs(*(values[index] for values in vars(self).values()))

    def __len__(self) -> int:
        return len(self.z)


class ShiftWatch:
    """Looks for a shift of positions, block by block of accepted pings.

    Its findings depend on the pings, and on those that are withdrawn, and not on batches. The work
    of a block is bounded.

    Args:
        blocks: all accepted pings so far.
        position_std: standard deviation of their positions, in m; 0: no shift is looked for.

    Attributes:
        found: the last shift; None: none so far.
        crossings: all so far.
    """

    def __init__(self, blocks: PingBlocks, position_std: float) -> None:
        self._blocks, self._position_std = blocks, position_std
        self.found: Shift | None = None
        self.crossings = LiveCrossings.none()
        self._done = 0  # blocks
        self._begin = 0  # ping from which on positions have one origin

    def recover(self, shifts: list[tuple[int, int, np.ndarray]]) -> None:
        """Continue after a restart: crossings are found again, and the shifts that were found.

        Args:
            shifts: first and last ping of each, and the numbers of the pings withdrawn then.
        """
        for _, last, withdrawn in shifts:
            while (self._done + 1) * BLOCK <= last + 1:
                self._cross_block()
            self._accept(self._look(withdrawn))
        while (self._done + 1) * BLOCK <= len(self._blocks.data):
            self._cross_block()

    def decide(self, withdrawn: np.ndarray) -> Shift | None:
        """Compare the blocks that have been completed; returns a shift that is new.

        Args:
            withdrawn: numbers of the pings that are withdrawn.
        """
        new = None
        while (self._done + 1) * BLOCK <= len(self._blocks.data):
            self._cross_block()
            if self._position_std and (shift := self._look(withdrawn)) is not None:
                self._accept(new := shift)
        return new

    def _accept(self, shift: Shift | None) -> None:
        """Later pings are compared with those from now on."""
        if shift is not None:
            self.found, self._begin = shift, self._done * BLOCK

    def _legs(self, blocks: np.ndarray, withdrawn: np.ndarray) -> _Legs:
        """The legs of some complete blocks."""
        data = self._blocks.data
        rows = blocks[:, None] * BLOCK + np.arange(BLOCK)
        order = np.argsort(data.stamp_ns[rows], axis=1, kind="stable")
        rows = np.take_along_axis(rows, order, 1).reshape(-1, GROUP)
        of = np.repeat(np.arange(len(rows)), GROUP)
        at, whole = data.xy[rows].mean(1), rows.ravel()
        z = medians(data.z[whole], of, len(rows))
        ranges = medians(np.nan_to_num(data.range[whole]), of, len(rows))
        span = np.hypot(*np.ptp(data.xy[rows], axis=1).T)
        way = np.diff(at, axis=0)
        length = np.hypot(*way.T)
        usual = 3 * max(float(np.median(span)), 1e-9) * GROUP / (GROUP - 1)
        block = rows[:, 0] // BLOCK
        apart = np.isin(data.number[rows], withdrawn).any(axis=1) | np.greater(span, usual)
        use = (length > 0) & (length <= usual) & (np.diff(block) <= 1)
        use &= ~np.asarray(apart[:-1] | apart[1:])
        travelled = np.r_[0.0, np.cumsum(length)]
        first = rows.min(1)
        legs = _Legs(at[:-1], way, z[:-1], np.diff(z), ranges[:-1], first[:-1], travelled[:-1])
        return legs[np.flatnonzero(use)]

    def _near(self, of: _Legs, blocks: np.ndarray) -> np.ndarray:
        """The blocks, of these, that are the nearest to legs."""
        away = self._blocks.away(of.begin)[blocks]
        near = np.argsort(away, kind="stable")[:NEAREST]
        close = np.less_equal(away[near], BLOCK * _usual(of))
        return np.sort(blocks[near[np.flatnonzero(close)]])

    def _cross_block(self) -> None:
        """Find the crossings of the next block with earlier legs."""
        block, self._done = self._done, self._done + 1
        nothing = np.empty(0, dtype=np.int64)
        own = self._legs(np.arange(max(block - 1, 0), block + 1), nothing)
        if not len(own):
            return
        begin = self._begin // BLOCK
        legs = self._legs(self._near(own, np.arange(begin, block + 1)), nothing)
        late = legs.first >= block * BLOCK - GROUP
        if not late.any():
            return
        a = legs[np.flatnonzero(late)]
        i, j, difference, std = _cross(a, legs, self._position_std)
        step = PASS_RATIO * float(np.median(np.hypot(*legs.way.T)))
        use = legs.travelled[j] < a.travelled[i] - step
        i, j = i[use], j[use]
        ranges = np.column_stack((a.range[i], legs.range[j]))
        new = LiveCrossings(a.first[i], legs.first[j], difference[use], std[use], ranges)
        self.crossings = self.crossings.more(new)

    def _look(self, withdrawn: np.ndarray) -> Shift | None:
        """The moment since which the newest crossings say that positions are shifted."""
        found = self.crossings[-NEWEST:]
        numbers = self._blocks.data.number
        out = np.isin(numbers[found.late], withdrawn) | np.isin(numbers[found.early], withdrawn)
        found = found[~(out | found.multiple) & (found.early >= self._begin)]
        if not len(found):
            return None
        since = np.unique(found.late)[:, None]
        across = (found.early < since) & (found.late >= since)
        amount, scale = np.abs(found.difference) / found.std, 1.0
        for _ in range(2):  # what lines of one origin disagree in is no shift
            score = (across * (np.minimum(amount / scale, 3.0) ** 2 / 6 - AGREES)).sum(1)
            best = int(score.argmax())
            if (~across[best]).sum() >= LEAST:
                scale = max(1.0, 1.5 * float(np.median(amount[~across[best]])))
        own, others = across[best], ~across[best]
        level = np.median(found.difference[own])
        for difference in (found.difference, found.difference - level):
            agree = np.abs(difference)[own] <= SIGMAS * found.std[own]
            few = min(own.sum(), others.sum()) < LEAST
            if score[best] < ALARM or few or agree.mean() > WITHOUT:
                return None
        since_m, before_m = (
            float(np.median(np.abs(found.difference[part]))) for part in (own, others)
        )
        first, last = numbers[[since[best, 0], self._done * BLOCK - 1]].tolist()
        return Shift(first, last, since_m, before_m, int(own.sum()))


def _usual(legs: _Legs) -> float:
    """The usual length of a leg's ping, in m."""
    return float(np.median(np.hypot(*legs.way.T))) / GROUP


def _cross(
    a: _Legs, b: _Legs, position_std: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The crossings of legs a with legs b.

    Returns:
        Of each crossing: index of both legs, elevation on a less that on b, and the standard
        deviation of this difference where there is none, in m.
    """
    k = min(NEAR_LEGS, len(b))
    far = max(float(np.hypot(*legs.way.T).max()) for legs in (a, b))
    middle = a.begin + a.way / 2
    away, near = cKDTree(b.begin + b.way / 2).query(middle, k=k, distance_upper_bound=far)
    i, column = np.nonzero(np.isfinite(away.reshape(-1, k)))
    j = near.reshape(-1, k)[i, column]
    p, q = a.way[i], b.way[j]
    to = b.begin[j] - a.begin[i]
    with np.errstate(divide="ignore", invalid="ignore"):
        t, u = (cross_product(to, v) / cross_product(p, q) for v in (q, p))
    hit = (t >= 0) & (t < 1) & (u >= 0) & (u < 1)
    i, j, t, u = i[hit], j[hit], t[hit], u[hit]
    difference = a.z[i] + t * a.rise[i] - b.z[j] - u * b.rise[j]
    steep = (a.rise[i] ** 2 / (p[hit] ** 2).sum(1)) + (b.rise[j] ** 2 / (q[hit] ** 2).sum(1))
    variance = position_std**2 * steep + (RANGE_STD * a.range[i]) ** 2 + ELEVATION_STD**2
    return i, j, difference, np.sqrt(2 * variance)
