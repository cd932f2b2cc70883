"""Multiples found by the crossings of survey lines; and the crossings themselves.

A sounder that hears an echo twice records a line as smooth as the bottom, at twice its depth. Along
the line nothing shows it, but the crossing lines do. Soundings are therefore tested by stretches:
runs of a line without a jump. For each stretch, likelihoods of being bottom, a multiple or another
false echo are computed from the stretches currently accepted to be bottom. The most contradicted
stretch is set aside first, those that it contradicted are tested again, and so on. It is accepted
again if those that contradict it are set aside themselves.

Only clear cases are refused: long stretches that crossing lines show to be multiples. Everything
else is left to the screening along the track, which keeps cliffs, pits and terraces that a single
line crosses. The thresholds were set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .evidence import MIN_DIFFERENCE, MIN_PLACES, PASS_RATIO, OtherLines
from .stretches import BOTTOM, FALSE_ECHO, LONG, MULTIPLES, Stretches

MIN_SOUNDINGS = 2 * LONG  # a shorter record is not tested
ASIDE_ODDS = 2.3  # log odds at which a long stretch is set aside
REFUSAL_ODDS = 4.6  # log odds, from other lines alone, at which a stretch is refused as a multiple
DEPTH_TOLERANCE = 0.2  # largest relative difference of its depth, divided, from a crossing line's
MAX_ITERATIONS = 60
MAX_CHANGES = 3  # of a stretch between accepted and set aside
NEAR_LEGS = 32  # nearest legs of each leg that are searched for crossings


@dataclass(frozen=True)
class Crossings:
    """The crossings of a record's lines, and the multiples found by them.

    Attributes:
        multiple: 2 or 3 if a sounding is a double or triple echo, else 1 [N].
        row, other: index of a sounding beside the crossing, on each of the two lines [C].
        xy: place of the crossing [C, 2], in m.
        difference: elevation on the line of ``row`` minus that on the other [C], in m.
        z: elevation on the line of ``row`` [C], in m.
    """

    multiple: np.ndarray
    row: np.ndarray
    other: np.ndarray
    xy: np.ndarray
    difference: np.ndarray
    z: np.ndarray


def find_crossings(
    xy: np.ndarray,
    z: np.ndarray,
    line: np.ndarray,
    ranges: np.ndarray,
    screened: bool = True,
    distance: np.ndarray | None = None,
) -> Crossings:
    """Find the crossings of a record's lines, and multiples by them. Deterministic.

    Args:
        xy: places [N, 2], in the order of the record, in m.
        z: elevations [N], in m.
        line: index of each sounding's line [N].
        ranges: from the surface, or the sounder, to the bottom [N], in m.
        screened: whether to look for multiples.
        distance: along the record up to each sounding [N], in m, where parts of it are left out.
    """
    multiple = np.ones(len(z), dtype=np.int64)
    if len(z) < MIN_SOUNDINGS:
        none = np.empty(0, dtype=np.int64)
        return Crossings(multiple, none, none, np.empty((0, 2)), np.empty(0), np.empty(0))
    stretches = Stretches(xy, z, line, ranges, distance)
    others = OtherLines(stretches, screened)
    a, b, where, own, other = _crossings(others)
    if screened:
        multiple = _MultipleSearch(stretches, others).multiples(a, b)[stretches.of]
    return Crossings(multiple, others.row[a], others.row[b], where, own - other, own)


class _MultipleSearch:
    """Decides which stretches of a record are bottom."""

    def __init__(self, stretches: Stretches, others: OtherLines) -> None:
        self.stretches, self.others = stretches, others
        self.accepted = (stretches.places >= MIN_PLACES) & ~stretches.enclosed() & ~stretches.dry
        self.odds = np.zeros(stretches.count)
        self.kind = np.full(stretches.count, BOTTOM)

    def multiples(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The factor of each stretch [S]: 2 or 3 if the other lines, and most of those that cross
        it, clearly show it to be a multiple; else 1. a, b: the nodes at crossings [C]."""
        self._settle()
        factor = np.ones(self.stretches.count, dtype=np.int64)
        long = self.stretches.places >= LONG
        aside = ~self.accepted & long & np.isin(self.kind, MULTIPLES)
        nodes, across = np.r_[a, b], np.r_[b, a]
        from_accepted = self.accepted[self.others.stretch[across]]
        nodes, across = nodes[from_accepted], across[from_accepted]
        for s in np.flatnonzero(aside).tolist():
            found, differ = self.others.likelihoods(s, self.accepted, free=False)
            if differ < MIN_DIFFERENCE:
                continue
            here = self.others.stretch[nodes] == s
            own, expected = self.others.range[nodes[here]], self.others.range[across[here]]
            for i in np.argsort(-found[2:], kind="stable").tolist():
                m = MULTIPLES[i]
                near = np.abs(own / m - expected) <= DEPTH_TOLERANCE * expected
                if 2 * near.sum() > len(near) and found[2 + i] - found[0] >= REFUSAL_ODDS:
                    factor[s] = m
                    break
        return factor

    def _settle(self) -> None:
        """Test all stretches until nothing changes."""
        flips = np.zeros(self.stretches.count, dtype=np.int64)
        due, settled = set(range(self.stretches.count)), False
        self.others.fit(self.accepted)
        for _ in range(MAX_ITERATIONS):
            for s in due:
                self.odds[s], self.kind[s] = self._test(s)
            change = np.flatnonzero(((self.odds > 0) == self.accepted) & (flips < MAX_CHANGES))
            if not len(change):
                if settled:
                    break
                settled, due = True, set(range(self.stretches.count))
                self.others.fit(self.accepted)  # without the stretches that are set aside now
                continue
            due = self._change(change, flips)

    def _change(self, change: np.ndarray, flips: np.ndarray) -> set[int]:
        """Change stretches between accepted and set aside, the most contradicted first, but none
        that depends on one just changed. Returns the stretches to be tested again."""
        odds = self.odds[change]
        worst = np.where(odds > 0, np.minimum(odds, 1e9), 0.0)
        due: set[int] = set()
        for s in change[np.lexsort((-self.stretches.places[change], -worst))].tolist():
            if s not in due:
                self.accepted[s] = not self.accepted[s]
                flips[s] += 1
                due |= self.others.users[s] | self.stretches.beside(s) | {s}
        return due

    def _test(self, s: int) -> tuple[float, int]:
        """Log odds against a stretch being bottom, and its most likely hypothesis."""
        if self.stretches.dry[s]:
            return np.inf, FALSE_ECHO
        along = self.stretches.likelihoods(s, self.accepted)
        free = bool(along[0] == 0.0)
        across, differ = self.others.likelihoods(s, self.accepted, free)
        long = self.stretches.places[s] >= LONG
        if (long or free) and differ < MIN_DIFFERENCE:
            return -np.inf, BOTTOM
        margin = (
            ASIDE_ODDS
            if long
            else ASIDE_ODDS / 2
            if self.stretches.places[s] >= MIN_PLACES
            else 0.0
        )
        total = along + across
        best = int(np.argmax(total[1:]))
        odds = float(total[1 + best] - total[0]) - margin
        return odds, BOTTOM if odds <= 0 else (FALSE_ECHO, *MULTIPLES)[best]


def _crossings(
    others: OtherLines,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All crossings, also of a line with itself, each once.

    Lines are polylines through their nodes; elevations are interpolated along them.

    Returns:
        The node before the crossing on each line [C] and [C], the places [C, 2] and the
        elevations on both lines [C] and [C].
    """
    n = others.nodes
    xy, z = others.xy[:n], others.z[:n]
    length = np.hypot(*np.diff(xy, axis=0).T)
    same = np.diff(others.stretch[:n]) == 0
    legs = np.flatnonzero(same & (length > 0) & (length <= 3 * others.block))
    if len(legs) < 2:
        none = np.empty(0, dtype=np.int64)
        return none, none, np.empty((0, 2)), np.empty(0), np.empty(0)
    middle = (xy[legs] + xy[legs + 1]) / 2
    k = min(NEAR_LEGS, len(legs))
    far = float(length[legs].max())
    _, near = cKDTree(middle).query(middle, k=k, distance_upper_bound=far)
    i = np.repeat(np.arange(len(legs)), k)
    j = near.reshape(-1)
    i, j = i[j < len(legs)], j[j < len(legs)]
    pairs = np.unique(np.stack([np.minimum(i, j), np.maximum(i, j)])[:, i != j], axis=1)
    a, b = legs[pairs]
    p, q = xy[a + 1] - xy[a], xy[b + 1] - xy[b]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = _cross(xy[b] - xy[a], q) / _cross(p, q)
        u = _cross(xy[b] - xy[a], p) / _cross(p, q)
    passes = np.abs(others.distance[a] - others.distance[b]) > PASS_RATIO * others.block
    hit = (t >= 0) & (t < 1) & (u >= 0) & (u < 1) & passes
    a, b, t, u = a[hit], b[hit], t[hit], u[hit]
    own, other = z[a] + t * (z[a + 1] - z[a]), z[b] + u * (z[b + 1] - z[b])
    return a, b, xy[a] + t[:, None] * p[hit], own, other


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
