"""Likelihoods of a stretch from the other lines of a survey, by kriging.

The soundings of other lines predict a stretch by simple kriging around an almost unknown level
(Cressie 1993, section 3.2). The covariance is fitted to differences between lines, so it includes
errors of position and of water level. All places of a stretch are predicted jointly, with Student-t
errors. Noise, sill, length and roughness are estimated from the soundings; the constants below were
set by hand, on simulated lakes and on one recorded survey with added errors. Work grows as N log N.
Metres everywhere; z is up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from .stretches import MULTIPLES, Stretches

MIN_PLACES = 3  # places that a stretch needs to predict others
PASS_RATIO = 4.0  # distance along the record between two passes, relative to that in the plane
POOL, ASKED = 24, 64  # candidate neighbours of a node; nodes searched at each level
COARSER, TREES = 4, 4  # nodes joined into one of the next level; levels
NEIGHBOURS = 10  # nodes that predict one
MAX_PLACES = 16  # of a stretch that are predicted jointly
TAIL = 4.0  # degrees of freedom of the prediction errors
COMMON = 0.5  # share of the noise variance that is common to all soundings of a line
PRIOR = 8.0  # weight of the record's roughness in that around a node, in nodes
MIN_DIFFERENCE = 0.15  # of the range: smaller differences are offsets, not echoes
TVU = 0.5  # m: smaller differences are no echoes either (S-44, order 1a, shallow water)
OFFSET = 3.0  # standard deviations between lines: smaller differences are no offsets
DEEP = 1.5  # times the upper quartile of the ranges: a deeper bottom on one line is not accepted
CHUNK = 4096  # nodes whose neighbours are searched at a time


@dataclass(frozen=True)
class Covariance:
    """Exponential covariance of the bottom (m^2; length in m), and noise between lines (m^2)."""

    noise: float
    sill: float
    length: float

    def __call__(self, h: np.ndarray) -> np.ndarray:
        """Covariance of the bottom at distances h, in m."""
        return self.sill * np.exp(-h / self.length)


def fit_covariance(h: np.ndarray, difference: np.ndarray) -> Covariance | None:
    """Fit a covariance to differences [M] of elevations of two lines at distances h [M].

    Fits the medians of distance classes, which a line of echoes does not dominate. None: too few.
    """
    h, difference = h[h > 0], np.abs(difference[h > 0])
    if len(h) < 50:
        return None
    parts = np.array_split(np.argsort(h, kind="stable"), min(20, len(h) // 25))
    where = np.array([np.median(h[p]) for p in parts])
    semi = np.array([(np.median(difference[p]) / 0.6745) ** 2 / 2 for p in parts])
    semi = np.maximum(semi, 1e-6 * semi.max() + 1e-12)
    least, best = math.inf, None
    for length in np.geomspace(where[0], 3 * where[-1], 24).tolist():
        shape = 1 - np.exp(-where / length)
        design = np.stack([np.ones_like(shape), shape], axis=1) / semi[:, None]
        for columns in ([0, 1], [1], [0]):
            both = np.zeros(2)
            both[columns] = np.linalg.lstsq(design[:, columns], np.ones(len(semi)), rcond=None)[0]
            if (both < 0).any():
                continue
            fitted = np.maximum(both[0] + both[1] * shape, 1e-300)
            loss = float((np.log(fitted / semi) ** 2).sum())
            if loss < least:
                noise = max(float(both[0]), 0.02 * float(semi.max()), 1e-4)
                least, best = loss, Covariance(noise, float(both[1]), length)
            break
    return best


class OtherLines:
    """Predicts each stretch from the others by nodes: block medians along the stretches.

    Args:
        stretches: of a record.
        predicting: whether predictions are wanted; without, only the nodes are.

    Attributes:
        nodes: number of nodes, M.
        block: length of a block along a stretch, in m.
        xy, z, distance: place, elevation and distance along the record of the nodes, followed by
            those of the coarser levels [M and more].
        stretch: of each of these.
        row: a sounding of each node [M].
        users: the stretches that each stretch helps to predict.
        covariance: of differences between lines; None: too few lie near each other.
    """

    def __init__(self, stretches: Stretches, predicting: bool = True) -> None:
        self.stretches = stretches
        self.deepest = DEEP * float(np.quantile(stretches.range, 0.75))
        self.block = max(stretches.depth / 4, 3 * stretches.usual)
        self._make_nodes()
        if predicting:
            self._make_pool()
        self.covariance: Covariance | None = None
        self.amplitude = np.ones(self.nodes)

    def _make_nodes(self) -> None:
        """Compute block medians along each stretch, at all levels."""
        parts = self.stretches
        order = np.concatenate(parts.rows)
        stretch = parts.of[order]
        start = np.r_[0, np.flatnonzero(np.diff(stretch)) + 1]
        distance = parts.distance[order]
        distance = distance - np.repeat(distance[start], np.diff(np.r_[start, len(order)]))
        block = np.floor(distance / self.block).astype(np.int64)
        levels = []
        for level in range(TREES):
            coarse = block // COARSER**level
            new = np.r_[True, (np.diff(stretch) != 0) | (np.diff(coarse) != 0)]
            begin = np.flatnonzero(new)
            n = np.diff(np.r_[begin, len(order)])
            xy = np.add.reduceat(parts.xy[order], begin) / n[:, None]
            along = np.add.reduceat(parts.distance[order], begin) / n
            if level == 0:
                self.row = order[begin]
                self.range = np.add.reduceat((parts.range + parts.z)[order], begin) / n
            levels.append((xy, _medians(parts.z[order], begin, n), along, stretch[begin]))
        self.sizes = [len(level[1]) for level in levels]
        columns = (np.concatenate(column) for column in zip(*levels, strict=True))
        self.xy, self.z, self.distance, self.stretch = columns
        self.nodes = self.sizes[0]
        self.range -= self.z[: self.nodes]
        ends = np.searchsorted(self.stretch[: self.nodes], np.arange(parts.count + 1))
        self.rows = [np.arange(a, b) for a, b in pairwise(ends.tolist())]

    def _make_pool(self) -> None:
        """Choose the neighbours of each node: the nearest of other passes in all octants."""
        serves = self.stretches.places[self.stretch] >= MIN_PLACES
        offset, trees = 0, []
        for size in self.sizes:
            rows = np.flatnonzero(serves[offset : offset + size]) + offset
            if len(rows):
                trees.append((cKDTree(self.xy[rows]), rows))
            offset += size
        self.pool = np.full((self.nodes, POOL), -1, dtype=np.int64)
        for begin in range(0, self.nodes if trees else 0, CHUNK):
            self._fill(np.arange(begin, min(begin + CHUNK, self.nodes)), trees)
        known = self.pool >= 0
        near = np.maximum(self.pool, 0)
        away = np.hypot(*(self.xy[near] - self.xy[: self.nodes, None]).transpose(2, 0, 1))
        self.nearest = np.where(known, away, np.inf).min(1)
        users = np.repeat(self.stretch[: self.nodes], known.sum(1))
        pairs = np.unique(np.stack([self.stretch[self.pool[known]], users]), axis=1)
        self.users: list[set[int]] = [set() for _ in range(self.stretches.count)]
        for used, user in pairs.T.tolist():
            self.users[used].add(user)

    def _fill(self, ask: np.ndarray, trees: list[tuple[cKDTree, np.ndarray]]) -> None:
        xy, distance, own = self.xy[ask], self.distance[ask, None], self.stretch[ask, None]
        found, away = [], []
        covered = np.zeros((len(ask), 1))
        for tree, rows in trees:
            k = min(ASKED, len(rows))
            d, i = tree.query(xy, k=k)
            d, i = d.reshape(len(ask), k), rows[i.reshape(len(ask), k)]
            other = np.abs(self.distance[i] - distance) > PASS_RATIO * np.maximum(d, self.block / 2)
            other &= (self.stretch[i] != own) & (d >= covered)
            found.append(np.where(other, i, -1))
            away.append(np.where(other, d, np.inf))
            covered = d[:, -1:] if k < len(rows) else np.full((len(ask), 1), np.inf)
        i, d = np.concatenate(found, 1), np.concatenate(away, 1)
        order = np.argsort(d, axis=1, kind="stable")
        i = np.take_along_axis(i, order, 1)
        delta = self.xy[np.maximum(i, 0)] - xy[:, None]
        octant = np.floor(np.arctan2(delta[..., 1], delta[..., 0]) / (np.pi / 4)).astype(int) % 8
        rank = np.zeros(i.shape)
        for o in range(8):
            here = (octant == o) & (i >= 0)
            rank = np.where(here, np.cumsum(here, axis=1) - 1, rank)
        rank[:, :2] = 0  # always take the nearest two
        rank = np.where(i >= 0, rank, np.inf)
        order = np.argsort(rank, axis=1, kind="stable")[:, :POOL]
        self.pool[ask, : order.shape[1]] = np.take_along_axis(i, order, 1)

    def fit(self, accepted: np.ndarray) -> None:
        """Estimate covariance and roughness from the accepted stretches [S, boolean]."""
        good = accepted[self.stretch]
        known = (self.pool >= 0) & good[np.maximum(self.pool, 0)] & good[: self.nodes, None]
        mine, others = np.repeat(np.arange(self.nodes), known.sum(1)), self.pool[known]
        h = np.hypot(*(self.xy[mine] - self.xy[others]).T)
        self.covariance = fit_covariance(h, self.z[mine] - self.z[others])
        if self.covariance is not None:
            self.amplitude = self._roughness()

    def _roughness(self) -> np.ndarray:
        """Standard deviation of the bottom around each node relative to the whole record's [M].

        From steps along lines, which are not affected by offsets or by whole lines of echoes."""
        n = self.nodes
        h = np.hypot(*np.diff(self.xy[:n], axis=0).T)
        same = (np.diff(self.stretch[:n]) == 0) & (h > 0)
        if not same.any():
            return np.ones(n)
        square = np.full(len(self.z), np.nan)
        step = np.diff(self.z[:n])[same] ** 2 / h[same]
        square[: n - 1][same] = step
        usual = float(np.mean(np.sort(step)[: max(1, int(0.9 * len(step)))]))
        about = np.where(self.pool >= 0, square[np.maximum(self.pool, 0)], np.nan)
        count = 0.9 * np.isfinite(about).sum(1)  # trimmed: without the largest tenth
        kept = np.arange(about.shape[1]) < np.ceil(count)[:, None]
        total = np.where(kept, np.nan_to_num(np.sort(about, axis=1)), 0.0).sum(1)
        ratio = (total / max(usual, 1e-12) + PRIOR) / (count + PRIOR)
        return np.sqrt(np.clip(ratio, 0.25, 4.0))

    def _matrix(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Covariance between nodes a [n] and b [m], including errors common to a line."""
        assert self.covariance is not None
        delta = self.xy[a][:, None] - self.xy[b][None]
        k = self.covariance(np.hypot(delta[..., 0], delta[..., 1]))
        same = self.stretch[a][:, None] == self.stretch[b][None]
        k += COMMON * self.covariance.noise * same
        return k + 4 * self.covariance.sill + 4 * self.covariance.noise  # the unknown level

    def likelihoods(self, s: int, accepted: np.ndarray, free: bool) -> tuple[np.ndarray, float]:
        """Likelihoods of a stretch from the other accepted lines.

        Args:
            s: the stretch.
            accepted: which stretches are accepted to be bottom [S], boolean.
            free: whether its own line has no jump there; the edges of a feature then count here.

        Returns:
            Log likelihoods [4] as bottom, other false echo, 2nd and 3rd multiple, up to a common
            constant; and its mean difference from the others relative to its range. All zero if
            no other line is near.
        """
        none = np.zeros(2 + len(MULTIPLES)), 0.0
        nodes = self.rows[s]
        if self.covariance is None:
            return none
        if len(nodes) > MAX_PLACES:  # of each part the one nearest to other lines
            parts = np.array_split(nodes, MAX_PLACES)
            nodes = np.array([part[np.argmin(self.nearest[part])] for part in parts])
        pool = self.pool[nodes]
        used = (pool >= 0) & accepted[self.stretch[np.maximum(pool, 0)]]
        first = np.argsort(~used, axis=1, kind="stable")[:, :NEIGHBOURS]
        pool, used = np.take_along_axis(pool, first, 1), np.take_along_axis(used, first, 1)
        nodes, others = nodes[used.any(1)], np.unique(pool[used])
        if not len(nodes):
            return none
        mean, q = self._predict(nodes, others)
        error, r = self.z[nodes] - mean, np.maximum(self.range[nodes], 0.01)
        middle, noise = float(np.median(r)), self.covariance.noise
        scale = max(middle, self.stretches.depth / 2)
        spread = q + scale**2
        found = np.empty(2 + len(MULTIPLES))
        found[0] = _student(error, q)
        jitter = (0.2 * scale) ** 2 * np.eye(len(nodes))
        found[1] = max(_student(error, spread), _student(error, spread + jitter))
        for i, m in enumerate(MULTIPLES):
            # Ranges m times as long have 1/m of the density; places of a stretch are correlated.
            thinner = math.sqrt(len(nodes)) * math.log(m)
            found[2 + i] = _student(error + r - r / m, q) - thinner
        if middle <= self.deepest:  # a feature that no other line crosses, as wide as long
            wide = float(np.hypot(*np.ptp(self.xy[self.rows[s]], axis=0))) / 2 + self.block
            delta = self.xy[others][None] - self.xy[nodes][:, None]
            away = np.hypot(delta[..., 0], delta[..., 1]).min(1)
            unseen = scale * np.sqrt(1 - np.exp(-2 * away / wide))
            feature = _student(error, q + unseen[:, None] * unseen)
            found[0] = max(
                found[0], feature + (2 * math.log(self.stretches.cliffs) if free else 0.0)
            )
        weight = 1 / np.diag(q)
        off = float((weight * error).sum() / weight.sum())
        return found, abs(off) / max(middle, max(TVU, OFFSET * math.sqrt(noise)) / MIN_DIFFERENCE)

    def _predict(self, nodes: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean [n] and covariance [n, n] of nodes, predicted from the others."""
        assert self.covariance is not None
        own = (1 - COMMON) * self.covariance.noise
        k, c, q = (
            self._matrix(others, others),
            self._matrix(nodes, others),
            self._matrix(nodes, nodes),
        )
        k[np.diag_indices(len(k))] += own * (1 + 1e-6)
        q[np.diag_indices(len(q))] += own
        w = np.linalg.solve(k, c.T)
        level = float(np.median(self.z[others]))
        a = self.amplitude[nodes]
        return level + w.T @ (self.z[others] - level), (q - c @ w) * (a[:, None] * a)


def _student(error: np.ndarray, scale: np.ndarray) -> float:
    """Log density of a multivariate Student-t with ``TAIL`` degrees of freedom, up to a constant
    that depends on the dimension alone."""
    n = len(error)
    chol = np.linalg.cholesky(scale + 1e-9 * np.trace(scale) / n * np.eye(n))
    u = np.linalg.solve(chol, error)
    return float(-np.log(np.diag(chol)).sum() - 0.5 * (TAIL + n) * math.log1p(u @ u / TAIL))


def _medians(values: np.ndarray, begin: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Medians of parts of values, each ``n`` long from ``begin``."""
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(n)), n)))]
    return (ordered[begin + (n - 1) // 2] + ordered[begin + n // 2]) / 2
