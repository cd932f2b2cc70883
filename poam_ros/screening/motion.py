"""Direction and speed of travel at each sounding, and the slope of the bottom along it."""

from __future__ import annotations

import numpy as np

from ..core.clock import SECOND
from .lines import usual_step

#: Slopes along a line are fitted to at most this many soundings on either side,
SIDE = 40
#: and as far as this many usual distances between soundings, or half the depth if that is more.
SPAN = 6.0


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
        side = int(np.ceil(SPAN / 2 / moving))
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
        reach = np.maximum(np.maximum(depth[rows], 0.0) / 2, SPAN * self.usual)[:, None]
        weight = (inside & (np.abs(along) <= reach) & (aside <= reach / 2)).astype(float)
        total = weight.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            centred = along - ((weight * along).sum(1) / total)[:, None]
            spread = (weight * centred**2).sum(1)
            slope = (weight * centred * z[index]).sum(1) / spread
        return np.where((total >= 4) & (spread > 0), slope, np.nan)


def gradients(heading: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """The bottom's gradient [C, 2] from its slopes along two directions ([C, 2, 2], [C, 2])."""
    return (np.linalg.pinv(heading, rcond=0.3) @ slope[..., None])[..., 0]
