"""A shift of all positions after some moment, found where the track crosses itself.

The origin of odometry can drift, or jump in a gap where no check of steps sees it. Then lines
after that moment disagree with the lines before it wherever the bottom slopes, and agree once they
are moved back. The crossings of every block of pings with earlier ones are compared; where those
across some moment disagree, and others do not, the shift is searched for that lets them agree.
Metres everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from ..core.clock import SECOND
from .blocks import BLOCK, LiveCrossings, PingBlocks
from .crossings import cross_product
from .evidence import PASS_RATIO, medians

GROUP = 4  # successive pings whose middle is one end of a leg
NEAREST = 32  # blocks that a block is compared with; and those before a shift
SINCE = 16  # blocks after a shift, the newest
NEAR_LEGS = 12  # nearest legs of each leg that are searched for crossings
NEWEST = 512  # crossings in which a shift is looked for
#: Standard deviations of an elevation (m) and of a range (relative): differences at crossings that
#: they and those of positions explain are none.
ELEVATION_STD, RANGE_STD, SIGMAS = 0.02, 0.005, 2.0
WORST = 2.0  # log odds, at most, against a shift from one crossing
#: A shift is looked for if the sum over crossings of a sixth of the squared difference (in standard
#: deviations, at most 3), less ``AGREES`` each, comes to this; and the crossings that it needs.
SUSPICIOUS, AGREES, LEAST = 2.0, 0.5, 6
#: Largest shift searched (m), and step of the search.
REACH, STEP = 20.0, 1.5
#: Log odds by which a shift must be likelier than none; and than any other that is ``OTHER`` m
#: away; shares of crossings that agree with it, at least, and without it, at most.
GAIN, MARGIN, OTHER, WITH, WITHOUT = 15.0, 8.0, 5.0, 0.8, 0.6
NEARLY = 12.0  # log odds: shifts so much less likely than the likeliest may be the true one


@dataclass(frozen=True)
class Shift:
    """All positions after some ping are shifted from those before it.

    Attributes:
        first, last: numbers of the first such ping, and of the last one that was compared.
        seconds: from the first to the last.
        east, north: the shift at the end, in the map's x and y, that explains the differences
            best, in m.
        low, high: between these is its size, in m: of all shifts that are nearly as likely.
        agreeing, crossings: crossings that agree after such a shift, of how many.
        agreed, met: the same without it.
        gain, margin: log odds beyond no shift, and beyond the likeliest other shift.
    """

    first: int
    last: int
    seconds: float
    east: float
    north: float
    low: float
    high: float
    agreeing: int
    crossings: int
    agreed: int
    met: int
    gain: float
    margin: float

    @property
    def sure(self) -> bool:
        """Whether the shift explains the differences, no other does, and nothing else is wrong."""
        return (
            self.gain >= GAIN
            and self.margin >= MARGIN
            and self.crossings >= LEAST
            and self.agreeing >= WITH * self.crossings
            and self.agreed <= WITHOUT * self.met
        )

    @property
    def sentence(self) -> str:
        """The shift in words."""
        return (
            f"positions have shifted by {self.low:.0f} to {self.high:.0f} m (most likely "
            f"{self.east:+.0f}, {self.north:+.0f}) "
            f"since ping {self.first} at the latest, {self.seconds:.0f} s ago: with this shift "
            f"{self.agreeing} of {self.crossings} crossings with earlier lines agree, "
            f"without it {self.agreed} of {self.met}"
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
        for first, last, withdrawn in shifts:
            while (self._done + 1) * BLOCK <= last + 1:
                self._cross_block()
            self._accept(self._search(first, withdrawn))
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
            first = self._suspected(withdrawn) if self._position_std else None
            shift = None if first is None else self._search(first, withdrawn)
            if shift is not None and shift.sure:
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

    def _near(self, of: _Legs, blocks: np.ndarray, reach: float = 0.0) -> np.ndarray:
        """The blocks, of these, that are the nearest to legs."""
        away = self._blocks.away(of.begin)[blocks]
        near = np.argsort(away, kind="stable")[:NEAREST]
        close = np.less_equal(away[near], reach + BLOCK * _usual(of))
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
        _, i, j, difference, std = _cross(a, legs, np.zeros((1, 1, 2)), self._position_std)
        step = PASS_RATIO * float(np.median(np.hypot(*legs.way.T)))
        use = legs.travelled[j] < a.travelled[i] - step
        i, j = i[use], j[use]
        ranges = np.column_stack((a.range[i], legs.range[j]))
        new = LiveCrossings(a.first[i], legs.first[j], difference[use], std[use], ranges)
        self.crossings = self.crossings.more(new)

    def _suspected(self, withdrawn: np.ndarray) -> int | None:
        """The ping since which positions may be shifted."""
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
        level = np.median(found.difference[across[best]])
        level_only = (
            np.abs(found.difference - level)[across[best]] <= SIGMAS * found.std[across[best]]
        )
        if score[best] < SUSPICIOUS or level_only.mean() > WITHOUT:
            return None
        return int(since[best, 0])

    def _search(self, first: int, withdrawn: np.ndarray) -> Shift | None:
        """The shift of all pings from the ping ``first`` on that lets the crossings agree."""
        data, last = self._blocks.data, self._done * BLOCK - 1
        later = self._legs(
            np.arange(max(first // BLOCK, self._done - SINCE), self._done), withdrawn
        )
        later = later[np.flatnonzero(later.first >= first)]
        if not len(later):
            return None
        known = np.arange(self._begin // BLOCK, first // BLOCK + 1)
        earlier = self._legs(self._near(later, known, REACH), withdrawn)
        earlier = earlier[np.flatnonzero(earlier.first < first)]
        if len(earlier) < NEAR_LEGS:
            return None
        depths = earlier.z[np.random.default_rng(0).permutation(len(earlier))] - earlier.z
        spread = 1.4826 * float(np.median(np.abs(depths)))
        passed = (later.first - first + 1) / (last + 1 - first)
        growths, std = (np.ones(len(later)), passed), self._position_std
        tries = [_best(later, earlier, growth, spread, std) for growth in growths]
        best = max(tries, key=lambda each: each.value)
        near = np.concatenate([each.size[each.values >= best.value - NEARLY] for each in tries])
        size = float(np.hypot(*best.shift))
        low = max(0.0, min(size, near.min(initial=size)) - STEP / 2)
        high = max(size, near.max(initial=size)) + STEP / 2
        seconds = float(data.stamp_ns[last] - data.stamp_ns[first]) / SECOND
        begin, end = data.number[[first, last]].tolist()
        return Shift(begin, end, seconds, *best.shift, low, high, best.agreeing, best.crossings,
            best.agreed, best.met, best.gain, best.margin)  # fmt: skip


@dataclass(frozen=True)
class _Best:
    """The likeliest shift, its log odds, those beyond no shift, and beyond other shifts; and sizes
    and log odds of all that were tried [S]."""

    shift: tuple[float, float]
    value: float
    gain: float
    margin: float
    agreeing: int
    crossings: int
    agreed: int
    met: int
    size: np.ndarray
    values: np.ndarray


def _best(
    later: _Legs, earlier: _Legs, growth: np.ndarray, spread: float, position_std: float
) -> _Best:
    """The likeliest shift of later legs, by ``growth`` [L] of it each.

    The odds of a crossing are those of the two elevations being of one place to being of any two.
    """

    def tried(shifts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        moves = shifts[:, None] * growth[:, None]
        s, _, _, difference, std = _cross(later, earlier, moves, position_std)
        amount = difference / std
        odds = np.maximum(np.log(spread / std) - 2.5 * np.log1p(amount**2 / 4), -WORST)
        agrees = np.abs(amount) <= SIGMAS
        n = len(shifts)
        return np.bincount(s, odds, n), np.bincount(s, agrees, n), np.bincount(s, minlength=n)

    side = np.arange(-REACH, REACH + STEP / 2, STEP)
    coarse = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    coarse = np.vstack((np.zeros((1, 2)), coarse[np.hypot(*coarse.T) <= REACH]))
    value, agreed, met = tried(coarse)
    side = np.linspace(-STEP, STEP, 7)
    fine = coarse[value.argmax()] + np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    finer, agreeing, crossings = tried(fine)
    k = int(finer.argmax())
    others = value[np.hypot(*(coarse - fine[k]).T) > OTHER].max()
    east, north = fine[k].tolist()
    top = float(finer[k])
    return _Best((east, north), top, top - float(value[0]), top - float(others),
        int(agreeing[k]), int(crossings[k]), int(agreed[0]), int(met[0]),
        np.hypot(*coarse.T), value)  # fmt: skip


def _usual(legs: _Legs) -> float:
    """The usual length of a leg's ping, in m."""
    return float(np.median(np.hypot(*legs.way.T))) / GROUP


def _cross(
    a: _Legs, b: _Legs, shifts: np.ndarray, position_std: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The crossings of legs a, moved by the negatives of S shifts [S, A or 1, 2], with legs b.

    Returns:
        Of each crossing: index of the shift, of both legs, elevation on a less that on b, and the
        standard deviation of this difference where there is none, in m.
    """
    middle = a.begin + a.way / 2 - shifts
    k = min(NEAR_LEGS, len(b))
    far = max(float(np.hypot(*legs.way.T).max()) for legs in (a, b))
    tree = cKDTree(b.begin + b.way / 2)
    away, near = tree.query(middle.reshape(-1, 2), k=k, distance_upper_bound=far)
    query, column = np.nonzero(np.isfinite(away.reshape(-1, k)))
    j = near.reshape(-1, k)[query, column]
    s, i = np.divmod(query, len(a))
    p, q = a.way[i], b.way[j]
    to = b.begin[j] - a.begin[i] + shifts[s, np.minimum(i, shifts.shape[1] - 1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        t, u = (cross_product(to, v) / cross_product(p, q) for v in (q, p))
    hit = (t >= 0) & (t < 1) & (u >= 0) & (u < 1)
    s, i, j, t, u = s[hit], i[hit], j[hit], t[hit], u[hit]
    difference = a.z[i] + t * a.rise[i] - b.z[j] - u * b.rise[j]
    steep = (a.rise[i] ** 2 / (p[hit] ** 2).sum(1)) + (b.rise[j] ** 2 / (q[hit] ** 2).sum(1))
    variance = position_std**2 * steep + (RANGE_STD * a.range[i]) ** 2 + ELEVATION_STD**2
    return s, i, j, difference, np.sqrt(2 * variance)
