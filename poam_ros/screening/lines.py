"""Survey lines, found in the track."""

from __future__ import annotations

import math

import numpy as np

#: A course this far from the line's own is a turn, in radians.
TURN = math.radians(45)
#: Courses are taken over this share of the longer side of the soundings' box.
STRIDE = 0.02


def find_lines(xy: np.ndarray, stride: float | None = None) -> np.ndarray:
    """The line of each sounding [N], counted from 0 in the order of the record.

    A line goes on while its course, also across a gap, is within ``TURN`` of the way from its
    begin. Where it turns it ends at the farthest point it came to.

    Args:
        xy: places [N, 2] along the track, in m.
        stride: distance over which courses are taken, in m; None: ``STRIDE`` of the longer side.
    """
    begins = np.zeros(len(xy), dtype=np.int64)
    stride = STRIDE * float(np.ptp(xy, axis=0).max()) if stride is None else stride
    begins[_turns(xy, stride)] = 1
    return np.cumsum(begins)


def usual_step(step: np.ndarray) -> float:
    """Median of the distances between successive soundings [N], in m, without those of a vehicle
    that stood; 1 without any."""
    return float(np.median(step[step > 0])) if (step > 0).any() else 1.0


def _turns(xy: np.ndarray, stride: float) -> list[int]:
    """The first soundings of new lines."""
    nodes, turns, begin = _nodes(xy, stride), [], 0
    for i in range(2, len(nodes)):
        if i < begin + 2:
            continue
        (bx, by), (px, py), (nx, ny) = (xy[nodes[j]] for j in (begin, i - 1, i))
        own, now = math.atan2(py - by, px - bx), math.atan2(ny - py, nx - px)
        if abs(math.remainder(now - own, math.tau)) > TURN:
            ahead = xy[nodes[i - 1] : nodes[i]] @ (math.cos(own), math.sin(own))
            turns.append(nodes[i] - int(ahead[::-1].argmax()))  # the last of them where it stood
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
