"""Pings of several passes over one place, which confirm each other. Metres everywhere."""

from __future__ import annotations

import numpy as np

OTHERS = 3  # held pings of another pass that confirm one
ANOTHER_PASS = 4.0  # times the radius: the way between two passes
AT_ONCE = 64  # pings that are compared with all others at a time: so much memory does each need


def confirmed(
    xy: np.ndarray, z: np.ndarray, way: np.ndarray, room: np.ndarray, radius: float
) -> np.ndarray:
    """Whether pings of another pass found the same, and more of them than did not [N].

    Args:
        xy: of the pings [N, 2].
        z: their elevations [N].
        way: that the vehicle had made to each [N].
        room: differences that are none, at each [N].
        radius: how far others count.
    """
    found = np.zeros(len(xy), dtype=bool)
    for first in range(0, len(xy), AT_ONCE):
        part = slice(first, first + AT_ONCE)
        near = ((xy[part, None] - xy) ** 2).sum(-1) <= radius**2
        near &= np.abs(way[part, None] - way) > ANOTHER_PASS * radius
        same = near & (np.abs(z[part, None] - z) <= room[part, None])
        found[part] = (same.sum(1) >= OTHERS) & (2 * same.sum(1) > near.sum(1))
    return found
