"""Survey lines, found in the track; how rough and steep the bottom is along them; how the vehicle
moved; and what the other lines of a survey say of a line, by kriging.

Soundings of other passes predict each block of a line by simple kriging around an almost unknown
level (Cressie 1993, section 3.2). The covariance is fitted to differences between lines, so it
includes errors of position and of water level. The standard deviation is widened to the residuals.
Beside a bank it is still too small: the other lines may all lie on one side of it, or on both, and
see nothing of the slope between. So what a bank may add is given apart. Work grows as N log N.
Metres everywhere; z is up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..core.clock import SECOND

#: A course this far from the line's own is a turn, in radians.
TURN = math.radians(45)
#: Courses are taken over this share of the longer side of the soundings' box.
STRIDE = 0.02
GAP_STEPS = 6.0  # median steps beyond which a line has a gap; or half the range
WINDOW = 20  # steps that give the scatter around a sounding
JUMP = 0.35  # a larger step, relative to the range, is not used for the scatter
MIN_STEP = 0.01  # m: of soundings that are nearer, slopes are not known
LEAST_STEP = 0.05  # m: this is added to standard deviations of steps, and to the limit of a jump
STEEPEST = 0.9  # share of the bottom's slopes
SLOPE = 0.35  # slope of the bottom in the standard deviation across a gap, at most
#: Soundings on either side, the one of them by size that is usual there (false ones are rather too
#: deep), and the ratio to it of one far below.
SIDES, USUAL, BELOW = 9, 3, 1.2
#: Slopes along a line are fitted to at most this many soundings on either side, and no farther than
#: a gap is long.
SIDE = 40
PASS_RATIO = 4.0  # distance along the record between two passes, relative to that in the plane
POOL, ASKED = 16, 96  # candidate neighbours of a node; nodes searched for them
NEIGHBOURS = 8  # nodes that predict one
BANK = 0.5  # slope of a bank that the others do not see
CHUNK = 4096  # nodes whose neighbours are searched at a time


def find_lines(xy: np.ndarray, stride: float | None = None) -> np.ndarray:
    """The line of each sounding [N], counted from 0 in the order of the record.

    A line goes on while its course, also across a gap, is within ``TURN`` of the way from its
    begin. Where it turns it ends at the farthest point it came to.

    Args:
        xy: places [N, 2] along the track, in m.
        stride: distance over which courses are taken, in m; None: ``STRIDE`` of the longer side.
    """
    begins, (x, y) = np.zeros(len(xy), dtype=np.int64), xy[0]
    stride = STRIDE * float(np.ptp(xy, axis=0).max()) if stride is None else stride
    nodes = [0]  # the first sounding, and each that is a stride or more from the last of these
    for i, (east, north) in enumerate(xy.tolist()):
        if (east - x) ** 2 + (north - y) ** 2 >= stride * stride > 0:
            nodes.append(i)
            x, y = east, north
    places, begin = xy[nodes].tolist(), 0
    for i in range(2, len(nodes)):
        if i < begin + 2:
            continue
        (bx, by), (px, py), (nx, ny) = (places[j] for j in (begin, i - 1, i))
        own, now = math.atan2(py - by, px - bx), math.atan2(ny - py, nx - px)
        if abs(math.remainder(now - own, math.tau)) > TURN:
            ahead = xy[nodes[i - 1] : nodes[i]] @ (math.cos(own), math.sin(own))
            begins[nodes[i] - int(ahead[::-1].argmax())] = 1  # the last of them where it stood
            begin = i
    return np.cumsum(begins)


def usual_step(step: np.ndarray) -> float:
    """Median of the distances between successive soundings [N], in m, without those of a vehicle
    that stood; 1 without any."""
    return float(np.median(step[step > 0])) if (step > 0).any() else 1.0


def gaps(ranges: np.ndarray, usual: float) -> np.ndarray:
    """Distance from the sounding before each, with these ranges [N], beyond which a line has a gap
    [N], in m: half the range, or ``GAP_STEPS`` usual steps if that is more."""
    return np.maximum(ranges / 2, GAP_STEPS * usual)


def steps_scatter(ranges: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Scatter of the steps between bottom soundings around each sounding [N], from medians of those
    that are no jumps."""
    rows = np.flatnonzero(bottom)
    steps, low = np.abs(np.diff(ranges[rows])), np.minimum(ranges[rows[1:]], ranges[rows[:-1]])
    rows, steps = (each[steps <= JUMP * low + LEAST_STEP] for each in (rows[1:], steps))
    if not len(rows):
        return np.zeros(len(ranges))
    width = min(WINDOW, len(steps))
    near = np.median(np.lib.stride_tricks.sliding_window_view(steps, width), axis=1) / 0.6745
    middle = np.searchsorted(rows, np.arange(len(ranges)))
    return near[np.clip(middle - width // 2, 0, len(near) - 1)]


def slopes_on(xy: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """How much of the step to each sounding is a slope that goes on before or after it [N], in m.

    Along a steep shore all steps are as large and go the same way. An echo goes out and back, but
    from far below perhaps in two steps: those are a slope as far as both its sides differ."""
    step = np.hypot(*np.diff(xy, axis=0).T)
    slope = np.r_[0.0, np.diff(ranges) / np.maximum(step, MIN_STEP), 0.0]
    own, beside = slope[1:-1], np.stack((slope[:-2], slope[2:]))
    same = np.where(np.sign(beside) == np.sign(own), np.abs(beside), 0.0).max(0)
    found = np.r_[0.0, np.minimum(np.abs(own), same) * np.maximum(step, MIN_STEP)]
    sides = np.lib.stride_tricks.sliding_window_view(np.pad(ranges, SIDES, mode="edge"), SIDES)
    usual = np.partition(sides, USUAL, axis=1)[:, USUAL]
    before, after = usual[: len(ranges)], usual[SIDES : SIDES + len(ranges)]
    deep = np.maximum(ranges, np.r_[ranges[:1], ranges[:-1]]) > BELOW * np.maximum(before, after)
    return np.where(deep, np.minimum(found, np.abs(after - before)), found)


def usual_slope(xy: np.ndarray, ranges: np.ndarray, line: np.ndarray, bottom: np.ndarray) -> float:
    """Slope that ``STEEPEST`` of the bottom does not exceed along its lines, over half its depth or
    a step between soundings; ``SLOPE`` at most.

    Args:
        xy: places [N, 2] in the order of the record, in m.
        ranges: measured there [N], in m.
        line: of each [N].
        bottom: which soundings are of the bottom [N], boolean.
    """
    rows = np.flatnonzero(bottom)
    if len(rows) < 2:
        return SLOPE
    step = np.hypot(*np.diff(xy[rows], axis=0).T)
    usual = usual_step(step)
    back = max(1, round(float(np.median(ranges[rows])) / 2 / usual))
    now, past = rows[back:], rows[:-back]
    away = np.hypot(*(xy[now] - xy[past]).T)
    use = (line[now] == line[past]) & (away > 0) & (away <= 2 * back * usual)
    if not use.any():
        return SLOPE
    rise = np.abs(ranges[now] - ranges[past])[use] / away[use]
    return min(SLOPE, float(np.quantile(rise, STEEPEST)))


class Motion:
    """How the vehicle moved at each sounding.

    Args:
        xy: places of the soundings [N, 2], in m, line by line, in order.
        line: number of each sounding's survey line [N].
        stamp_ns: times [N]; None if unknown.

    Attributes:
        heading: direction of travel, unit vectors [N, 2].
        speed: in m/s [N]; NaN where unknown.
        usual: median distance between successive soundings, in m.
    """

    def __init__(self, xy: np.ndarray, line: np.ndarray, stamp_ns: np.ndarray | None) -> None:
        count = len(xy)
        self._line = line
        step = np.hypot(*np.diff(xy, axis=0).T)
        self.usual = usual_step(step)
        moving = max(float((step > 0).mean()), 0.01) if count > 1 else 1.0
        side = int(np.ceil(GAP_STEPS / 2 / moving))
        begins = np.r_[0, np.flatnonzero(np.diff(line)) + 1]
        run = np.cumsum(np.bincount(begins, minlength=count)) - 1 if count else begins
        first, last = begins[run], np.r_[begins[1:], count][run] - 1
        index = np.arange(count)
        before, after = np.maximum(index - side, first), np.minimum(index + side, last)
        chord = xy[after] - xy[before]
        length = np.hypot(*chord.T)
        self.heading = chord / np.where(length > 0, length, 1.0)[:, None]
        self.speed = np.full(count, np.nan)
        if stamp_ns is not None:
            seconds = (stamp_ns[after] - stamp_ns[before]) / SECOND
            self.speed[seconds > 0] = length[seconds > 0] / seconds[seconds > 0]

    def slopes(
        self,
        xy: np.ndarray,
        z: np.ndarray,
        depth: np.ndarray,
        rows: np.ndarray,
        where: np.ndarray,
    ) -> np.ndarray:
        """Slope of the bottom along the direction of travel at crossings [C]; NaN: unknown.

        Args:
            xy: places of the soundings [N, 2], in m.
            z: their elevations [N], in m.
            depth: of the soundings [N], in m.
            rows: a sounding beside each crossing [C].
            where: the crossings [C, 2], in m.
        """
        index = rows[:, None] + np.arange(-SIDE, SIDE + 1)
        inside = (index >= 0) & (index < len(z))
        index = np.clip(index, 0, len(z) - 1)
        inside &= self._line[index] == self._line[rows][:, None]
        heading = self.heading[rows]
        offset = xy[index] - where[:, None]
        along = np.einsum("cki,ci->ck", offset, heading)
        aside = np.abs(offset[..., 0] * heading[:, 1:] - offset[..., 1] * heading[:, :1])
        reach = gaps(depth[rows], self.usual)[:, None]
        weight = (inside & (np.abs(along) <= reach) & (aside <= reach / 2)).astype(float)
        total = weight.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = along - ((weight * along).sum(1) / total)[:, None]
            spread = (weight * centred**2).sum(1)
            slope = (weight * centred * z[index]).sum(1) / spread
        return np.where((total >= 4) & (spread > 0), slope, np.nan)


class Covariance(NamedTuple):
    """Exponential covariance of the bottom (m^2; length in m), and noise between lines (m^2)."""

    noise: float
    sill: float
    length: float

    def of(self, h: np.ndarray) -> np.ndarray:
        """Covariance of the bottom at distances h, in m."""
        return self.sill * np.exp(-h / self.length)


def fit_covariance(h: np.ndarray, difference: np.ndarray) -> Covariance | None:
    """Fit a covariance to differences [M] of elevations of two lines at distances h [M].

    Fits the medians of distance classes, which a line of echoes does not dominate. None: too few.
    """
    h, difference = h[h > 0], np.abs(difference[h > 0])
    if len(h) < 50:
        return None
    order = np.argsort(h, kind="stable")
    parts = np.array_split(order, min(20, len(h) // 25))
    of = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    where = medians(h[order], of, len(parts))
    semi = (medians(difference[order], of, len(parts)) / 0.6745) ** 2 / 2
    semi = np.maximum(semi, 1e-6 * semi.max() + 1e-12)
    length = np.geomspace(where[0], 3 * where[-1], 24)
    shape = 1 - np.exp(-where / length[:, None])
    # Least squares of relative errors: noise + sill shape = semi; without noise if one is negative.
    flat, bent = 1 / semi, shape / semi
    both = bent @ flat / (flat @ flat)
    rest = bent - both[:, None] * flat
    with np.errstate(divide="ignore", invalid="ignore"):
        sill = rest.sum(1) / (rest**2).sum(1)
    noise = flat.sum() / (flat @ flat) - sill * both
    fits = (noise >= 0) & (sill >= 0)
    noise = np.where(fits, noise, 0.0)
    sill = np.where(fits, sill, bent.sum(1) / (bent**2).sum(1))
    fitted = np.maximum(noise[:, None] + sill[:, None] * shape, 1e-300)
    best = int(((np.log(fitted / semi) ** 2).sum(1)).argmin())
    least = max(0.02 * float(semi.max()), 1e-4)
    return Covariance(max(float(noise[best]), least), float(sill[best]), float(length[best]))


class Prediction(NamedTuple):
    """Of each node [M], in m: mean and standard deviation of its soundings; the standard deviation
    that a bank adds; and the distance to the nearest node that predicts it, inf where nothing is
    said."""

    mean: np.ndarray
    std: np.ndarray
    bank: np.ndarray
    away: np.ndarray


class OtherLines:
    """Predicts blocks of each line from other passes.

    Args:
        xy: places [N, 2] in the order of the record.
        line: of each [N], in the order of the record.
        distance: along the record up to each [N].
        block: length of a block along a line.

    Attributes:
        of: the node of each sounding: a block of its line [N].
        xy: of the nodes [M, 2].
        pool: the nearest nodes of other passes, the nearest first [M, K]; -1: none.
    """

    def __init__(
        self, xy: np.ndarray, line: np.ndarray, distance: np.ndarray, block: float
    ) -> None:
        from scipy.spatial import cKDTree

        self.block, new = block, np.r_[True, np.diff(line) != 0]
        along = distance - distance[np.flatnonzero(new)][np.cumsum(new) - 1]
        self.of = np.cumsum(new | np.r_[True, np.diff(np.floor(along / block)) != 0]) - 1
        n = np.bincount(self.of)
        *places, passed = (np.bincount(self.of, values) / n for values in (*xy.T, distance))
        self.xy = np.column_stack(places)
        tree, k, pools = cKDTree(self.xy), min(ASKED, len(n)), []
        for begin in range(0, len(n), CHUNK):
            ask = np.arange(begin, min(begin + CHUNK, len(n)))
            d, i = (each.reshape(len(ask), k) for each in tree.query(self.xy[ask], k=k))
            apart = PASS_RATIO * np.maximum(d, block / 2)
            other = np.abs(passed[i] - passed[ask, None]) > apart
            order = np.argsort(~other, axis=1, kind="stable")[:, :POOL]
            pools.append(np.take_along_axis(np.where(other, i, -1), order, 1))
        self.pool = np.concatenate(pools)

    def predict(self, z: np.ndarray, used: np.ndarray) -> Prediction:
        """Predict all nodes.

        Args:
            z: elevations of the soundings [N], in m.
            used: those that predict [N], boolean.
        """
        m = len(self.xy)
        values = medians(z[used], self.of[used], m)
        good = np.isfinite(values)
        known = (self.pool >= 0) & good[np.maximum(self.pool, 0)]
        mine = np.repeat(np.arange(m), known.sum(1))
        both = good[mine]
        mine, others = mine[both], self.pool[known][both]
        h = np.hypot(*(self.xy[mine] - self.xy[others]).T)
        covariance = fit_covariance(h, values[mine] - values[others])
        mean, std, away = np.full(m, np.nan), np.full(m, np.nan), np.full(m, np.inf)
        bank = np.zeros(m)
        if covariance is None:
            return Prediction(mean, std, bank, away)
        for begin in range(0, m, CHUNK):
            rows = np.flatnonzero(known[begin : begin + CHUNK].any(1)) + begin
            order = np.argsort(~known[rows], axis=1, kind="stable")[:, :NEIGHBOURS]
            use = np.take_along_axis(known[rows], order, 1)
            pool = np.where(use, np.take_along_axis(self.pool[rows], order, 1), rows[:, None])
            delta = self.xy[pool] - self.xy[rows, None]
            h = np.where(use, np.hypot(delta[..., 0], delta[..., 1]), np.inf)
            away[rows] = h.min(1)
            z = np.where(use, values[pool], 0.0)
            mean[rows], variance, w = self._krige(covariance, pool, use, h, z)
            std[rows] = np.sqrt(variance)
            # A bank between two lines may lie anywhere between them: the nearest weigh most. It
            # shifts the mean by as much as it rises to the weighted middle of the others.
            beyond = BANK * np.hypot(*np.einsum("ij,ijk->ki", np.where(use, w, 0.0), delta))
            weight = np.where(use, 1 / (h + self.block) ** 2, 0.0)
            weight /= weight.sum(1, keepdims=True)
            middle = (weight * z).sum(1, keepdims=True)
            bank[rows] = np.hypot(np.sqrt((weight * (z - middle) ** 2).sum(1)), beyond)
        checked = good & np.isfinite(mean)
        if checked.any():  # a normal error's median is 0.6745; Student's with 4 degrees 0.741
            std *= max(1.0, float(np.median(np.abs(values - mean)[checked] / std[checked])) / 0.741)
        return Prediction(mean, std, bank, away)

    def _krige(
        self, covariance: Covariance, pool: np.ndarray, use: np.ndarray, h: np.ndarray,
        z: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
        """Mean and variance [n] from the nodes ``pool`` [n, k] at distances h, with elevations z,
        where used; and their weights [n, k]."""
        level = 4 * (covariance.sill + covariance.noise)  # variance of the unknown level
        delta = self.xy[pool][:, :, None] - self.xy[pool][:, None]
        k = covariance.of(np.hypot(delta[..., 0], delta[..., 1])) + level
        k *= use[:, :, None] & use[:, None]
        diagonal = np.arange(pool.shape[1])
        k[:, diagonal, diagonal] += np.where(use, covariance.noise * (1 + 1e-6), 1.0)
        c = np.where(use, covariance.of(h) + level, 0.0)
        w = np.linalg.solve(k, c[..., None])[..., 0]
        middle = z.sum(1) / use.sum(1)
        mean = middle + (w * np.where(use, z - middle[:, None], 0.0)).sum(1)
        q = covariance.sill + covariance.noise + level - (w * c).sum(1)
        return mean, np.maximum(q, covariance.noise), w


def medians(values: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Medians of the values of each group [groups]; NaN of one without."""
    n = np.bincount(group, minlength=groups)
    begin, found = np.cumsum(n) - n, np.full(groups, np.nan)
    ordered, some = values[np.lexsort((values, group))], n > 0
    low, high = ((begin + (n + extra) // 2)[some] for extra in (-1, 0))
    found[some] = (ordered[low] + ordered[high]) / 2
    return found
