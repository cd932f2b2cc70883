"""What the other lines of a survey say of a line, by kriging.

Soundings of other passes predict each block of a line by simple kriging around an almost unknown
level (Cressie 1993, section 3.2). The covariance is fitted to differences between lines, so it
includes errors of position and of water level. The standard deviation is widened to the residuals.
Beside a bank it is still too small: the other lines may all lie on one side of it, or on both, and
see nothing of the slope between. So what a bank may add is given apart. Work grows as N log N.
Metres everywhere; z is up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

PASS_RATIO = 4.0  # distance along the record between two passes, relative to that in the plane
POOL, ASKED = 16, 96  # candidate neighbours of a node; nodes searched for them
NEIGHBOURS = 8  # nodes that predict one
BANK = 0.5  # slope of a bank that the others do not see
CHUNK = 4096  # nodes whose neighbours are searched at a time


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
