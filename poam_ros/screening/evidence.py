"""What the other lines of a survey say of a stretch: kriging, and likelihoods of hypotheses.

The soundings of other lines predict a stretch (simple kriging about a level that is hardly known,
Cressie 1993, section 3.2) with a covariance that is fitted to differences between lines, so that it
holds errors of position and of level as well as the ground. All places of a stretch are predicted
jointly, with the tails of a Student-t distribution. Noise, sill, length and roughness come from the
soundings; the constants below were set by hand, on simulated lakes and on one recorded survey with
planted faults. Work grows as N log N. Metres everywhere; z is up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.spatial import cKDTree

from .stretches import MULTIPLES, Stretches

USED = 3  # places of a stretch from which others are predicted
PASS = 4.0  # way between two soundings, in their distance, from which they are of two passes
POOL, ASKED = 24, 64  # nodes kept about each, and looked at at each level
COARSER, TREES = 4, 4  # nodes of one coarser node, and levels
NEIGHBOURS = 10  # nodes that predict one
PLACES = 16  # of a stretch that are predicted jointly
TAIL = 4.0  # degrees of freedom of the prediction's errors
COMMON = 0.5  # of the noise variance between lines, common to all soundings of one
PRIOR = 8.0  # nodes that the whole record's roughness counts for beside those about a place
LEAST = 0.15  # of the range: smaller differences are no echoes but offsets
TVU = 0.5  # m: nor are smaller ones (S-44, order 1a, in shallow water)
OFFSET = 3.0  # deviations between lines: smaller differences are none
DEEP = 1.5  # times the range that a quarter exceeds: what one line alone finds deeper is no ground
CHUNK = 4096  # nodes whose neighbours are looked for at a time


@dataclass(frozen=True)
class Covariance:
    """Of the ground, and the noise variance of a difference between lines, in m^2; length in m."""

    noise: float
    sill: float
    length: float

    def __call__(self, h: np.ndarray) -> np.ndarray:
        """Of the ground at distances h, in m."""
        return self.sill * np.exp(-h / self.length)


def fit_covariance(h: np.ndarray, difference: np.ndarray) -> Covariance | None:
    """From differences [M] of elevations of two lines at distances h [M]; None: too few.

    Medians of classes of distance, so that a line of echoes does not rule them.
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
    """What is known of each stretch by the others, from nodes: block medians along each stretch.

    Attributes:
        nodes: how many there are, M.
        block: their length along a stretch, in m.
        xy, z, way: of the nodes, and of the coarser ones behind them [M and more].
        stretch: of each of these.
        row: a sounding of each node [M].
        users: the stretches that each stretch helps to predict.
        covariance: of differences between lines; None: too few are near each other.
    """

    def __init__(self, stretches: Stretches) -> None:
        self.stretches = stretches
        self.deepest = DEEP * float(np.quantile(stretches.range, 0.75))
        self.block = max(stretches.depth / 4, 3 * stretches.usual)
        self._make_nodes()
        self._make_pool()
        self.covariance: Covariance | None = None
        self.amplitude = np.ones(self.nodes)

    def _make_nodes(self) -> None:
        """Block medians along each stretch, and blocks of these, coarser and coarser."""
        parts = self.stretches
        order = np.concatenate(parts.rows)
        stretch = parts.of[order]
        start = np.r_[0, np.flatnonzero(np.diff(stretch)) + 1]
        way = parts.way[order]
        way = way - np.repeat(way[start], np.diff(np.r_[start, len(order)]))
        block = np.floor(way / self.block).astype(np.int64)
        levels = []
        for level in range(TREES):
            coarse = block // COARSER**level
            new = np.r_[True, (np.diff(stretch) != 0) | (np.diff(coarse) != 0)]
            begin = np.flatnonzero(new)
            n = np.diff(np.r_[begin, len(order)])
            xy = np.add.reduceat(parts.xy[order], begin) / n[:, None]
            along = np.add.reduceat(parts.way[order], begin) / n
            if level == 0:
                self.row = order[begin]
                self.range = np.add.reduceat((parts.range + parts.z)[order], begin) / n
            levels.append((xy, _medians(parts.z[order], begin, n), along, stretch[begin]))
        self.sizes = [len(level[1]) for level in levels]
        columns = (np.concatenate(column) for column in zip(*levels, strict=True))
        self.xy, self.z, self.way, self.stretch = columns
        self.nodes = self.sizes[0]
        self.range -= self.z[: self.nodes]
        ends = np.searchsorted(self.stretch[: self.nodes], np.arange(parts.count + 1))
        self.rows = [np.arange(a, b) for a, b in pairwise(ends.tolist())]

    def _make_pool(self) -> None:
        """About each node the nearest ones of other passes, dealt round the octants."""
        serves = self.stretches.places[self.stretch] >= USED
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
        xy, way, own = self.xy[ask], self.way[ask, None], self.stretch[ask, None]
        found, away = [], []
        covered = np.zeros((len(ask), 1))
        for tree, rows in trees:
            k = min(ASKED, len(rows))
            d, i = tree.query(xy, k=k)
            d, i = d.reshape(len(ask), k), rows[i.reshape(len(ask), k)]
            other = np.abs(self.way[i] - way) > PASS * np.maximum(d, self.block / 2)
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
        rank[:, :2] = 0  # the nearest two anyhow
        rank = np.where(i >= 0, rank, np.inf)
        order = np.argsort(rank, axis=1, kind="stable")[:, :POOL]
        self.pool[ask, : order.shape[1]] = np.take_along_axis(i, order, 1)

    def fit(self, believed: np.ndarray) -> None:
        """The covariance, from the stretches that are believed [S], and how rough it is where."""
        good = believed[self.stretch]
        known = (self.pool >= 0) & good[np.maximum(self.pool, 0)] & good[: self.nodes, None]
        mine, others = np.repeat(np.arange(self.nodes), known.sum(1)), self.pool[known]
        h = np.hypot(*(self.xy[mine] - self.xy[others]).T)
        self.covariance = fit_covariance(h, self.z[mine] - self.z[others])
        if self.covariance is not None:
            self.amplitude = self._roughness()

    def _roughness(self) -> np.ndarray:
        """Deviation of the ground about each node, relative to the whole record's [M]; from steps
        along lines, which offsets and whole lines of echoes do not spoil."""
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
        count = 0.9 * np.isfinite(about).sum(1)  # without the largest tenth
        kept = np.arange(about.shape[1]) < np.ceil(count)[:, None]
        total = np.where(kept, np.nan_to_num(np.sort(about, axis=1)), 0.0).sum(1)
        ratio = (total / max(usual, 1e-12) + PRIOR) / (count + PRIOR)
        return np.sqrt(np.clip(ratio, 0.25, 4.0))

    def _matrix(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Covariance between nodes a [n] and b [m], with the errors that a line has in common."""
        assert self.covariance is not None
        delta = self.xy[a][:, None] - self.xy[b][None]
        k = self.covariance(np.hypot(delta[..., 0], delta[..., 1]))
        same = self.stretch[a][:, None] == self.stretch[b][None]
        k += COMMON * self.covariance.noise * same
        return k + 4 * self.covariance.sill + 4 * self.covariance.noise  # of the unknown level

    def likelihoods(self, s: int, believed: np.ndarray, free: bool) -> tuple[np.ndarray, float]:
        """What the other believed lines say of a stretch.

        Args:
            s: the stretch.
            believed: which stretches are ground [S], boolean.
            free: its own line has no jump there, so a feature has to pay for its edges here.

        Returns:
            Log likelihoods [4] as ground, as nonsense and as the 2nd and 3rd multiple, but for a
            common constant; and how far it lies from the others, as a part of its range. All zero
            where no other line is near.
        """
        none = np.zeros(2 + len(MULTIPLES)), 0.0
        nodes = self.rows[s]
        if self.covariance is None:
            return none
        if len(nodes) > PLACES:  # in each part the one that is nearest to others
            parts = np.array_split(nodes, PLACES)
            nodes = np.array([part[np.argmin(self.nearest[part])] for part in parts])
        pool = self.pool[nodes]
        used = (pool >= 0) & believed[self.stretch[np.maximum(pool, 0)]]
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
            # Ranges m times as long are spread m times as thin; places of a stretch are not
            # independent of each other.
            thinner = math.sqrt(len(nodes)) * math.log(m)
            found[2 + i] = _student(error + r - r / m, q) - thinner
        if middle <= self.deepest:  # ground that other lines need not have met: as wide as long
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
        return found, abs(off) / max(middle, max(TVU, OFFSET * math.sqrt(noise)) / LEAST)

    def _predict(self, nodes: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean [n] and covariance [n, n] of nodes as the others' soundings predict theirs."""
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
    """Log density of a multivariate Student-t with ``TAIL`` degrees of freedom, but for a constant
    that only depends on the dimension."""
    n = len(error)
    chol = np.linalg.cholesky(scale + 1e-9 * np.trace(scale) / n * np.eye(n))
    u = np.linalg.solve(chol, error)
    return float(-np.log(np.diag(chol)).sum() - 0.5 * (TAIL + n) * math.log1p(u @ u / TAIL))


def _medians(values: np.ndarray, begin: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Of parts of values, each from ``begin`` and n long."""
    ordered = values[np.lexsort((values, np.repeat(np.arange(len(n)), n)))]
    return (ordered[begin + (n - 1) // 2] + ordered[begin + n // 2]) / 2
