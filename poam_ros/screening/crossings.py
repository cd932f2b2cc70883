"""Multiples of the ground, judged by what the other lines of a survey say; and the crossings.

A sounder that hears an echo twice writes a line as smooth as the ground, at twice its depth.
Nothing along that line shows it; the lines that cross it do. So soundings are judged by stretches,
runs of a line without a jump, and each stretch by how likely it is as ground, as a multiple of the
ground or as anything else, given the stretches that are believed at the time. The one that is
contradicted most is doubted first, what it contradicted is judged again, and so on; a stretch that
was doubted comes back when those that spoke against it are doubted themselves.

Only what is certain is refused: long stretches that lines which cross them show to be multiples.
The rest is left to the screen along the track, so that cliffs, pits and terraces that one line
crosses stay. The thresholds were set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from .evidence import LEAST as SMALL
from .evidence import PASS, USED, OtherLines
from .stretches import GROUND, LONG, MULTIPLES, NONSENSE, Stretches

MIN_SOUNDINGS = 2 * LONG  # soundings of a record that can be judged
DOUBT_ODDS = 2.3  # log odds from which a long stretch is doubted
REFUSAL_ODDS = 4.6  # log odds, by other lines alone, from which a stretch is refused as a multiple
DEPTH_TOLERANCE = (
    0.2  # of the range: how near its depth, divided, is to that of a line that crosses it
)
MAX_ITERATIONS = 60
MAX_CHANGES = 3  # times that a stretch may change
NEAR_LEGS = 32  # legs about each among which crossings are looked for


@dataclass(frozen=True)
class Crossings:
    """What the crossings of a record's lines say.

    Attributes:
        multiple: what each sounding is found to be [N]: 1 unless it is refused; 2 or 3 where it is
            one of a double or triple echo.
        row, other: a sounding of each line beside each crossing [C], indices of the record.
        xy: where they cross [C, 2], in m.
        difference: elevation by the line of ``row`` less that by the other [C], in m.
    """

    multiple: np.ndarray
    row: np.ndarray
    other: np.ndarray
    xy: np.ndarray
    difference: np.ndarray


def find_crossings(
    xy: np.ndarray, z: np.ndarray, line: np.ndarray, ranges: np.ndarray
) -> Crossings:
    """Judge a record by the crossings of its lines; the same record gives the same judgement.

    Args:
        xy: places [N, 2], in the order of the record, in m.
        z: elevations [N], in m.
        line: index of each one's line [N].
        ranges: from the surface, or the sounder, to the ground [N], in m.
    """
    if len(z) < MIN_SOUNDINGS:
        none = np.empty(0, dtype=np.int64)
        return Crossings(np.ones(len(z), dtype=np.int64), none, none, np.empty((0, 2)), np.empty(0))
    stretches = Stretches(xy, z, line, ranges)
    others = OtherLines(stretches)
    a, b, where, difference = _crossings(others)
    multiple = _MultipleSearch(stretches, others).multiples(a, b)[stretches.of]
    return Crossings(multiple, others.row[a], others.row[b], where, difference)


class _MultipleSearch:
    """Which stretches of a record are ground."""

    def __init__(self, stretches: Stretches, others: OtherLines) -> None:
        self.stretches, self.others = stretches, others
        self.believed = (stretches.places >= USED) & ~stretches.enclosed() & ~stretches.dry
        self.odds = np.zeros(stretches.count)
        self.kind = np.full(stretches.count, GROUND)

    def multiples(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The factor of each stretch [S], after all are judged: 1, or of a multiple that other
        lines are certain of, and most of those that cross it; a, b: the nodes at crossings [C]."""
        self._settle()
        factor = np.ones(self.stretches.count, dtype=np.int64)
        long = self.stretches.places >= LONG
        doubted = ~self.believed & long & np.isin(self.kind, MULTIPLES)
        nodes, across = np.r_[a, b], np.r_[b, a]
        told = self.believed[self.others.stretch[across]]
        nodes, across = nodes[told], across[told]
        for s in np.flatnonzero(doubted).tolist():
            m = int(self.kind[s])
            here = self.others.stretch[nodes] == s
            expected = self.others.range[across[here]]
            near = (
                np.abs(self.others.range[nodes[here]] / m - expected) <= DEPTH_TOLERANCE * expected
            )
            if 2 * near.sum() <= len(near):
                continue
            found, differ = self.others.likelihoods(s, self.believed, free=False)
            if differ >= SMALL and found[2 + MULTIPLES.index(m)] - found[0] >= REFUSAL_ODDS:
                factor[s] = m
        return factor

    def _settle(self) -> None:
        """Judge everything, the worst first, until nothing changes."""
        flips = np.zeros(self.stretches.count, dtype=np.int64)
        due, settled = set(range(self.stretches.count)), False
        self.others.fit(self.believed)
        for _ in range(MAX_ITERATIONS):
            for s in due:
                self.odds[s], self.kind[s] = self._test(s)
            change = np.flatnonzero(((self.odds > 0) == self.believed) & (flips < MAX_CHANGES))
            if not len(change):
                if settled:
                    break
                settled, due = True, set(range(self.stretches.count))
                self.others.fit(self.believed)  # without what is doubted now
                continue
            due = self._change(change, flips)

    def _change(self, change: np.ndarray, flips: np.ndarray) -> set[int]:
        """Believe, or doubt, those that are to change, the worst first, but none that bears on one
        which has just changed; returns those to be judged again."""
        odds = self.odds[change]
        worst = np.where(odds > 0, np.minimum(odds, 1e9), 0.0)
        due: set[int] = set()
        for s in change[np.lexsort((-self.stretches.places[change], -worst))].tolist():
            if s not in due:
                self.believed[s] = not self.believed[s]
                flips[s] += 1
                due |= self.others.users[s] | self.stretches.beside(s) | {s}
        return due

    def _test(self, s: int) -> tuple[float, int]:
        """Log odds of a stretch against ground, and its likeliest hypothesis."""
        if self.stretches.dry[s]:
            return np.inf, NONSENSE
        along = self.stretches.likelihoods(s, self.believed)
        free = bool(along[0] == 0.0)
        across, differ = self.others.likelihoods(s, self.believed, free)
        long = self.stretches.places[s] >= LONG
        if (long or free) and differ < SMALL:
            return -np.inf, GROUND
        margin = DOUBT_ODDS if long else DOUBT_ODDS / 2 if self.stretches.places[s] >= USED else 0.0
        total = along + across
        best = int(np.argmax(total[1:]))
        odds = float(total[1 + best] - total[0]) - margin
        return odds, GROUND if odds <= 0 else (NONSENSE, *MULTIPLES)[best]


def _crossings(
    others: OtherLines,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """All crossings, also of a line with itself, each once: the nodes beside them [C] twice, where
    [C, 2], and the differences [C].

    Lines are taken as polylines through their nodes; elevations are interpolated along these.
    """
    n = others.nodes
    xy, z = others.xy[:n], others.z[:n]
    length = np.hypot(*np.diff(xy, axis=0).T)
    same = np.diff(others.stretch[:n]) == 0
    legs = np.flatnonzero(same & (length > 0) & (length <= 3 * others.block))
    if len(legs) < 2:
        none = np.empty(0, dtype=np.int64)
        return none, none, np.empty((0, 2)), np.empty(0)
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
    passes = np.abs(others.way[a] - others.way[b]) > PASS * others.block
    hit = (t >= 0) & (t < 1) & (u >= 0) & (u < 1) & passes
    a, b, t, u = a[hit], b[hit], t[hit], u[hit]
    difference = z[a] + t * (z[a + 1] - z[a]) - z[b] - u * (z[b + 1] - z[b])
    return a, b, xy[a] + t[:, None] * p[hit], difference


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
