"""The planner ``budget``: survey lines that are closer where the bottom is rougher. Numpy only.

``path_entropy`` plans until no large gap is left. Then one sweep across the area spends the rest.
The error between two lines a distance s apart is a s^g, where a is the roughness and g an exponent;
its sum over an area is smallest, for a given length of lines, if their density is proportional to
a^(1 / (g + 1)). Lines from border to border that bend towards rough places come near that density
and need no more turns than even lines. But they cannot be dense in one small place alone: where
that costs too much, ``path_entropy`` plans.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..core.geometry import Grid, path_length, squared_distance_to
from ..core.settings import Settings, setting
from .boustrophedon import MAX_LINES, turn_lengths
from .path_entropy import PathEntropyOptions, path_entropy
from .situation import MapView, Situation, usable

#: g: between 1 and 2 on real bottom, at distances of some metres.
EXPONENT = 1.5
#: Cells along the workspace's longer side, and the scale on which roughness is averaged, in cells.
CELLS, BLUR = 60, 4.0
#: Rows across the lines and columns along them of the raster on which lines are placed.
ROWS, COLUMNS = 24, 160
#: A line is bent at every third row; its bends are smoothed over this many rows.
BEND, SMOOTH = 3, 0.8
#: Rounds in which every line moves to the middle of the places that are nearest to it.
ROUNDS = 15
#: Share of the spacing that lines keep from the workspace's border.
MARGIN = 0.35
#: Lines in one plan; roughness is learned again before the next two.
LINES = 2
#: A sweep begins if the error of its lines is at most this many times that of lines of the best
#: density, and goes on up to the second number. ``path_entropy`` has about 1.25 times the error of
#: even lines where the bottom is equally rough. Learned (docs/results.md): 1.02 to 1.08 where lines
#: win, 1.35 to 1.45 where they do not, 1.7 to 2.6 on corner; near the end of a sweep up to 1.6.
MAX_WASTE, MAX_WASTE_UNDER_WAY = 1.25, 2.0
#: The area is explored if at most this share of it is far from all tracks: farther than
#: ``exploration_distance``, and than this many spacings of the lines.
FAR_SHARE, FAR_SPACINGS = 0.05, 4.0
#: No sweep begins, or goes on, whose lines would be farther apart than these shares of the side of
#: a square of the workspace's area: path-entropy makes better maps then (docs/results.md).
WIDEST, WIDEST_UNDER_WAY = 1 / 20, 1 / 8
#: A sweep begins on the farther side of the area if this share of the roughness is in that half.
ROUGHER = 0.6
#: Lines of a mission without a budget.
UNLIMITED = 30


@dataclass(frozen=True)
class BudgetOptions(Settings):
    """Options of ``budget``."""

    prefix = "budget"

    unevenness: float = setting(
        1.0, "How far the density of lines follows the roughness. 0: even lines. 1: the density "
        "with the smallest error if the roughness were known exactly", minimum=0.0, maximum=2.0,
        mutable=True,
    )  # fmt: skip
    exploration_distance: float = setting(
        0.17, "Explore as path-entropy, and begin the lines when hardly any place is farther than "
        "this from all tracks, as a share of the side of a square of the workspace's area. Shorter "
        "distances make better maps on the way, and a poorer one at the end. 10: no "
        "exploration", minimum=0.01, maximum=10.0, mutable=True,
    )  # fmt: skip


def budget(
    view: MapView, situation: Situation, options: BudgetOptions, rng: np.random.Generator
) -> np.ndarray:
    """The waypoints of the next two survey lines, [K, 2].

    The whole rest of the sweep is planned each time, with as many lines as ``distance_left``
    allows. Lines run along the workspace's longer side. The first is at the corner nearest to the
    vehicle, or on the other side if that is rougher, each further one beside the last line in
    ``recent_track``. Before the area is explored, where roughness is too concentrated for such
    lines (``MAX_WASTE``) or they would be far apart (``WIDEST``), and when no line fits into what
    is left, it is the next leg of ``path-entropy``.

    Raises:
        InputError: no place has a usable variance, or no path is allowed.
    """
    sweep = _Sweep(view, situation, options)
    low, high = 0, sweep.most() + 1
    found: list[list[np.ndarray]] = []
    while high - low > 1 and sweep.explored and sweep.open and sweep.suitable:
        middle = (low + high) // 2
        lines = sweep.lines(middle)
        if way_length(_parts(lines), situation) <= situation.distance_left:
            low, found = middle, lines
        else:
            high = middle
    # The last three are planned together: a single last line would have to fit exactly.
    taken = _parts(found[: LINES if len(found) > LINES + 1 else None])
    if not taken:
        return path_entropy(view, situation, PathEntropyOptions(), rng)
    return np.concatenate(taken)


def _parts(lines: list[list[np.ndarray]]) -> list[np.ndarray]:
    return [part for line in lines for part in line]


def way_length(lines: list[np.ndarray], situation: Situation) -> float:
    """Length in m of the way from the vehicle along polylines [K, 2] each, with turns between, and
    from there home."""
    if not lines:
        return 0.0
    legs = sum(path_length(line) for line in lines)
    steps = [math.dist(a[-1], b[0]) for a, b in pairwise(lines)]
    turns = turn_lengths(np.array(steps), situation.turning_radius)
    way = math.dist(situation.position, lines[0][0]) + legs + float(turns.sum())
    return way + situation.extra(np.concatenate(lines))


class _Sweep:
    """The part of the workspace that is not surveyed yet, in a frame of its own.

    v runs along the lines, u across them, from the workspace's lower corner, in m.

    Attributes:
        explored: whether there are no large gaps between the tracks.
        open: whether any part is left.
        suitable: whether roughness is so spread that lines from border to border suit it, and what
            is left allows enough of them.
    """

    def __init__(self, view: MapView, situation: Situation, options: BudgetOptions) -> None:
        self._situation, workspace = situation, situation.workspace
        self._along = along = int(workspace.size[1] >= workspace.size[0])
        self._length, self._width = float(workspace.size[along]), float(workspace.size[1 - along])
        self._v = (np.arange(ROWS) + 0.5) / ROWS * self._length
        self._edges = np.linspace(0, self._width, COLUMNS + 1)
        u = (self._edges[1:] + self._edges[:-1]) / 2
        points = self._places(*np.broadcast_arrays(u, self._v[:, None])).reshape(-1, 2)
        area = situation.routes.areas if situation.routes else None
        self._area = None if area is None or area.unrestricted else area
        inside = np.ones(len(points), bool) if self._area is None else self._area.allowed(points)
        way = min(max(situation.distance_left, 1e-9), UNLIMITED * self._length)
        spacing = float(inside.mean()) * self._length * self._width / way
        rough = roughness(view, situation, points, min(spacing / 2, self._width / 10))
        density = rough ** (options.unevenness / (EXPONENT + 1))
        # Lines are driven in the area alone, but pass through the rest as evenly as they can.
        shares = inside.reshape(ROWS, COLUMNS).mean(0)
        # How much of a line is in the area, on average.
        self._share = float(shares[shares > 0].mean()) if inside.any() else 1.0
        density[~inside] = density[inside].mean() if inside.any() else 1.0
        inside, density = inside.reshape(ROWS, COLUMNS), density.reshape(ROWS, COLUMNS)
        waste = _waste(density, inside)
        nearest = np.sqrt(squared_distance_to(points, situation.visited)).reshape(ROWS, COLUMNS)
        side = math.sqrt(self._length * self._width)
        limit = max(options.exploration_distance * side, FAR_SPACINGS * spacing)
        self.explored = self._explored(points, inside & (nearest > limit), int(inside.sum()))
        self._here = situation.position - workspace.lower
        self._last = self._last_line(inside)
        if self._last is not None:
            sides = [inside & (u < self._last[:, None]), inside & (u > self._last[:, None])]
            empty = [nearest[side].mean() if side.any() else 0.0 for side in sides]
            falling = empty[0] > empty[1]
            ahead = sides[0] if falling else sides[1]
            # Behind the last line of a sweep, places are a quarter of a spacing from the nearest
            # line on average. Where it is more than half, it is only a leg of the exploration.
            if min(empty) > spacing * ahead.sum() / max(inside.sum(), 1) / 2:
                self._last = None
        under_way = self._last is not None
        self.suitable = waste <= (MAX_WASTE_UNDER_WAY if under_way else MAX_WASTE)
        if self._last is None:
            # After an interruption: what is as dense as lines there would be is surveyed.
            share = density / density[inside].mean() if inside.any() else density
            scale = BLUR / CELLS * max(self._length, self._width)
            near = _blurred(nearest, scale * ROWS / self._length, scale * COLUMNS / self._width)
            left = near > 0.7 * spacing / share
            left &= left.mean(0) > 0.5  # no lines for single places
            self._falling = self._begins_high(np.where(left, rough.reshape(ROWS, COLUMNS), 0.0), u)
        else:
            self._falling, left = falling, ahead
        self.open = bool((left & inside).any())
        self._left_share = float((left & inside).mean() / max(inside.mean(), 1e-12))
        apart, widest = (
            (spacing * self._left_share, WIDEST_UNDER_WAY) if under_way else (spacing, WIDEST)
        )
        self.suitable &= apart <= widest * side
        self._density = np.where(left, density, 1e-6 * density.min())

    def _explored(self, points: np.ndarray, far: np.ndarray, count: int) -> bool:
        """Whether few of ``count`` places are far from all tracks and can be reached.

        Args:
            points: of the raster [ROWS * COLUMNS, 2], in m.
            far: which of them are far from all tracks [ROWS, COLUMNS].
            count: number of those in the area.
        """
        few = FAR_SHARE * count
        return far.sum() <= few or self._situation.reachable(points[far.ravel()]).sum() <= few

    def _begins_high(self, rough: np.ndarray, u: np.ndarray) -> bool:
        """Whether the sweep begins at the highest u: on the vehicle's side, or on the rougher one.

        The rougher half first lowers the error soon.
        """
        high = self._here[1 - self._along] > self._width / 2
        share = float(rough[:, u > self._width / 2].sum() / max(rough.sum(), 1e-300))
        if max(share, 1 - share) > ROUGHER:
            high = share > 0.5
        return bool(high)

    def most(self) -> int:
        """No more lines than these can fit; without a budget, the lines to drive."""
        left = self._situation.distance_left
        if math.isinf(left):
            return max(1, round(UNLIMITED * self._left_share))
        return min(MAX_LINES, math.ceil(4 * left / (self._share * self._length)))

    def lines(self, count: int) -> list[list[np.ndarray]]:
        """``count`` lines in driving order, each of its allowed parts [K, 2] in m.

        Lines without an allowed part are left out.
        """
        across = self._spread(count)
        across = across[:, ::-1] if self._falling else across
        length, margin = self._length, MARGIN * self._left_share * self._width / count
        margin = min(margin, length / 4)
        inner = self._v[BEND // 2 :: BEND]
        v = np.concatenate(([margin], inner[(inner > margin) & (inner < length - margin)]))
        v = np.append(v, length - margin)
        upwards, lines = self._here[self._along] < length / 2, []
        for u in across.T:
            parts = self._allowed_parts(u, v)
            if parts:
                lines.append(parts if upwards else [part[::-1] for part in parts[::-1]])
                upwards = not upwards
        return lines

    def _spread(self, count: int) -> np.ndarray:
        """u of ``count`` lines in every row [ROWS, count], in m, in ascending order.

        First quantiles of the density, then rounds of Lloyd's algorithm (1982) in every row. In
        one dimension its density is that of the weights' cube root, so these are cubed.
        """
        density, edges = self._density, self._edges
        step, zero = edges[1], np.zeros((ROWS, 1))
        mass = np.concatenate((zero, np.cumsum(density, 1)), 1)
        wanted = (np.arange(count) + 0.5) / count
        lines = np.stack([np.interp(wanted, row / row[-1], edges) for row in mass])
        weights = density**3
        middles = (edges[1:] + edges[:-1]) / 2
        mass = np.concatenate((zero, np.cumsum(weights, 1)), 1)
        moment = np.concatenate((zero, np.cumsum(weights * middles, 1)), 1)

        def up_to(sums: np.ndarray, u: np.ndarray) -> np.ndarray:
            cell = np.clip((u / step).astype(int), 0, COLUMNS - 1)
            below, above = (np.take_along_axis(sums, cell + k, 1) for k in (0, 1))
            return below + (u / step - cell) * (above - below)

        # The last line is a neighbour that does not move.
        fixed = None if self._last is None else np.clip(self._last, 0, self._width)[:, None]
        for _ in range(ROUNDS):
            ends = (zero, zero + self._width)
            if fixed is not None:
                beside = lines[:, -1:] if self._falling else lines[:, :1]
                half = (fixed + beside) / 2
                ends = (ends[0], half) if self._falling else (half, ends[1])
            borders = np.concatenate((ends[0], (lines[:, 1:] + lines[:, :-1]) / 2, ends[1]), 1)
            total = np.diff(up_to(mass, borders), axis=1)
            centre = np.diff(up_to(moment, borders), axis=1) / np.where(total > 0, total, 1.0)
            lines = np.where(total > 0, 0.3 * lines + 0.7 * centre, lines)
            lines = np.sort(_smoothing(ROWS, SMOOTH) @ lines, axis=1)
        return lines

    def _last_line(self, inside: np.ndarray) -> np.ndarray | None:
        """u of the line that the track ends with, in every row [ROWS]; None if it is no line, or if
        none comes before it: then it is a leg of the exploration. Where lines are long, the track
        before it may be too short to tell."""
        track = (self._situation.recent_track - self._situation.workspace.lower)[::-1]
        u, v = track[:, 1 - self._along], track[:, self._along]
        end = self._line_end(u, v, inside)
        before = path_length(track[end:])
        if not end or (before > self._length and not self._line_end(u[end:], v[end:], inside)):
            return None
        order = np.argsort(v[:end], kind="stable")
        return np.interp(self._v, v[:end][order], u[:end][order])

    def _line_end(self, u: np.ndarray, v: np.ndarray, inside: np.ndarray) -> int:
        """How many of the places u, v [K] from the newest on are of a line; 0 if they are none."""
        if len(u) < 2:
            return 0
        for sign in (1.0, -1.0):
            forth = sign * v
            turned = forth < np.maximum.accumulate(forth) - 0.1 * self._length
            end = int(np.argmax(turned)) if turned.any() else len(v)
            end = int(np.argmax(forth[:end])) + 1
            reach = float(np.ptp(v[:end]))
            # How long a line can be here, in the area.
            column = np.clip(np.searchsorted(self._edges, np.median(u[:end])) - 1, 0, COLUMNS - 1)
            possible = inside[:, column].mean() * self._length
            if reach > 0.6 * possible and np.ptp(u[:end]) < 0.4 * self._width:
                return end
        return 0

    def _places(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Places [..., 2] in m."""
        places = np.empty((*np.shape(u), 2))
        places[..., 1 - self._along], places[..., self._along] = u, v
        return places + self._situation.workspace.lower

    def _allowed_parts(self, u: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
        """The waypoints of a line's allowed parts, in ascending order of v."""
        clip = self._situation.workspace.clip
        if self._area is None:
            return [clip(self._places(np.interp(v, self._v, u), v))]
        fine = np.unique(np.concatenate((v, np.linspace(v[0], v[-1], 256))))
        bent = np.interp(fine, v, np.interp(v, self._v, u))
        places = clip(self._places(bent, fine))
        inside = np.concatenate(([False], self._area.allowed(places), [False]))
        changes = np.flatnonzero(inside[1:] != inside[:-1])
        parts = []
        for first, after in zip(changes[::2], changes[1::2], strict=True):
            kept = np.isin(fine[first:after], v)
            kept[[0, -1]] = True
            if after - first > 1:
                parts.append(places[first:after][kept])
        return parts


def _waste(density: np.ndarray, inside: np.ndarray) -> float:
    """How many times the smallest possible error lines from border to border have, at least 1.

    With b the best ``density``, the roughness is b^(g + 1), and the smallest error of L metres of
    lines is (sum of b)^(g + 1) / L^g. Lines from border to border pass through every row equally
    often, so a row's density is b over its mean in that row. Both as if lines needed no turns.

    Args:
        density: best density of lines up to a factor [ROWS, COLUMNS].
        inside: whether the vehicle may be there [ROWS, COLUMNS]; lines are driven there alone.
    """
    means, sums = density.mean(1), (density * inside).sum(1)
    if not sums.any():
        return 1.0
    length = (sums / means).sum()
    return float((means**EXPONENT * sums).sum() * length**EXPONENT / sums.sum() ** (EXPONENT + 1))


def roughness(view: MapView, situation: Situation, points: np.ndarray, reach: float) -> np.ndarray:
    """Variance of the bottom 1 m from a ping, [N] in m^2 up to a factor, at points [N, 2] in m.

    Variance above the smallest one is compared with the distance to the nearest ping to the power
    of ``EXPONENT``. Places within ``reach`` m count most: variances far from all pings are limited,
    so what is not surveyed yet would look smoother than what is. Farther away, it is as rough as
    the nearest surveyed places.

    Raises:
        InputError: no place has a usable variance.
    """
    workspace = situation.workspace
    side = float(workspace.size.max())
    grid = Grid.cells(workspace, side / CELLS)
    variance = np.asarray(view.predict(grid.points).variance, dtype=float)
    good = usable(variance, len(grid.points))
    if not len(situation.visited):
        return np.ones(len(points))
    distance = np.sqrt(squared_distance_to(grid.points, situation.visited))
    nearest = max(reach, float(distance[good].min()))
    weights = np.where(good, np.exp(-0.5 * (distance / nearest) ** 2), 0.0)
    above = np.where(good, np.maximum(variance - variance[good].min(), 0.0), 0.0)
    expected = np.maximum(distance, side / 200) ** EXPONENT
    found, total = (
        _blurred((weights * values).reshape(grid.shape), BLUR, BLUR) for values in (above, expected)
    )
    ratio = found / np.maximum(total, 1e-300)
    highest = float(ratio.max())
    if highest <= 0:
        return np.ones(len(points))
    return grid.interpolate(np.maximum(ratio, 1e-6 * highest), points)


def _blurred(values: np.ndarray, rows: float, columns: float) -> np.ndarray:
    """Means with the weights of a Gaussian of these standard deviations in rows and columns."""
    return _smoothing(values.shape[0], rows) @ values @ _smoothing(values.shape[1], columns).T


def _smoothing(count: int, scale: float) -> np.ndarray:
    """The matrix [count, count] of Gaussian weights; every row sums to 1."""
    offsets = np.subtract.outer(np.arange(count), np.arange(count)) / scale
    weights = np.exp(-0.5 * offsets**2)
    return weights / weights.sum(1, keepdims=True)
