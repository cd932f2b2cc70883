"""Survey lines in a track that does not name them: where it turns, or has a gap, one begins."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

#: What people call such a group; a column of this name goes before.
LINE = "line"
#: A course this far from the line's own is a turn, in radians.
TURN = math.radians(45)
#: Courses are taken over this share of the longer side of the soundings' box.
STRIDE = 0.02
#: Times the usual step, in place or in time, from which there is a gap.
GAP = 20.0


def find_lines(xy: np.ndarray, stamp_ns: np.ndarray | None = None) -> np.ndarray:
    """The line of each sounding [N], counted from 0 in the order of the record.

    A line goes on while its course is within ``TURN`` of the way from its begin, and there is no
    gap in place or, where times are known, in time. Where it turns it ends at the farthest point
    it came to.

    Args:
        xy: places [N, 2] along the track, in m.
        stamp_ns: times of measurement [N], in ns.
    """
    begins = np.zeros(len(xy), dtype=bool)
    begins[:1] = True
    steps = np.hypot(*np.diff(xy, axis=0).T)
    stride = STRIDE * float(np.ptp(xy, axis=0).max()) if len(xy) else 0.0
    begins[1:] |= steps > max(GAP * _usual(steps), stride)
    if stamp_ns is not None:
        pauses = np.diff(stamp_ns)
        begins[1:] |= pauses > GAP * _usual(pauses)
    edges = [*np.flatnonzero(begins).tolist(), len(xy)]
    for begin, end in pairwise(edges):
        for turn in _turns(xy[begin:end], stride):
            begins[begin + turn] = True
    return np.cumsum(begins) - 1


def _usual(steps: np.ndarray) -> float:
    """The median of those that are any: positions may repeat."""
    some = steps[steps > 0]
    return float(np.median(some)) if len(some) else math.inf


def _turns(xy: np.ndarray, stride: float) -> list[int]:
    """Where a track without gaps turns."""
    nodes, turns, begin = _nodes(xy, stride), [], 0
    for i in range(2, len(nodes)):
        if i < begin + 2:
            continue
        (bx, by), (px, py), (nx, ny) = (xy[nodes[j]] for j in (begin, i - 1, i))
        own, now = math.atan2(py - by, px - bx), math.atan2(ny - py, nx - px)
        if abs(math.remainder(now - own, math.tau)) > TURN:
            ahead = xy[nodes[i - 1] : nodes[i]] @ (math.cos(own), math.sin(own))
            turns.append(nodes[i - 1] + int(ahead.argmax()))
            begin = i
    return turns


def _nodes(xy: np.ndarray, stride: float) -> list[int]:
    """The first sounding, and each that is a stride or more from the last of these."""
    nodes, (x, y) = [0], xy[0]
    for i, (east, north) in enumerate(xy.tolist()):
        if (east - x) ** 2 + (north - y) ** 2 >= stride * stride > 0:
            nodes.append(i)
            x, y = east, north
    return nodes
