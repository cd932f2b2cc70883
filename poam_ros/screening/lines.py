"""Survey lines, found in the track; how rough and steep the bottom is; how the vehicle moved."""

from __future__ import annotations

import math

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
#: Slopes along a line are fitted to at most this many soundings on either side,
SIDE = 40
#: and no farther than a gap is long.


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
