"""Rectangles, regular grids, rasters of land and water, and paths: how long they are, and how long
they take in a current. Metres, x east, y north."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .errors import InputError

#: m; larger coordinates do not resolve a millimetre, and their squares may overflow.
MAX_COORDINATE = 1e12
#: Distances computed at a time, so that they stay in the processor's cache.
DISTANCES = 100_000
#: The largest current that is reckoned with, as a share of the vehicle's speed.
STRONGEST = 0.9


def is_place(xy: np.ndarray) -> bool:
    """Whether xy is a place: two finite numbers, within ``MAX_COORDINATE`` of the origin."""
    return np.shape(xy) == (2,) and bool(np.all(np.abs(xy) <= MAX_COORDINATE))


@dataclass(frozen=True)
class Extent:
    """The rectangle [xmin, xmax] x [ymin, ymax], in metres.

    Raises:
        InputError: if a bound is not finite, or the rectangle is empty.
    """

    xmin: float
    xmax: float
    ymin: float
    ymax: float

    def __post_init__(self) -> None:
        if not np.isfinite(self.bounds).all() or self.xmin >= self.xmax or self.ymin >= self.ymax:
            expected = "finite xmin < xmax and ymin < ymax"
            raise InputError(f"extent: expected {expected}, got {self.bounds}")

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Extent:
        """From the four numbers (xmin, xmax, ymin, ymax)."""
        try:
            xmin, xmax, ymin, ymax = map(float, bounds)
        except (TypeError, ValueError):
            raise InputError(f"extent: expected xmin xmax ymin ymax, got {list(bounds)}") from None
        return cls(xmin, xmax, ymin, ymax)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(xmin, xmax, ymin, ymax)."""
        return self.xmin, self.xmax, self.ymin, self.ymax

    @property
    def lower(self) -> np.ndarray:
        """The lower left corner, [2]."""
        return np.array([self.xmin, self.ymin])

    @property
    def upper(self) -> np.ndarray:
        """The upper right corner, [2]."""
        return np.array([self.xmax, self.ymax])

    @property
    def size(self) -> np.ndarray:
        """Width and height, [2]."""
        return np.array([self.xmax - self.xmin, self.ymax - self.ymin])

    @property
    def centre(self) -> np.ndarray:
        """The centre, [2]."""
        return self.lower + self.size / 2

    def contains(self, xy: np.ndarray, slack: float = 0.0) -> np.ndarray:
        """Which of the points xy [..., 2] lie inside, or within ``slack`` of it; boolean [...]."""
        x, y = np.moveaxis(np.asarray(xy), -1, 0)
        across = (x >= self.xmin - slack) & (x <= self.xmax + slack)
        return across & (y >= self.ymin - slack) & (y <= self.ymax + slack)

    def clip(self, xy: np.ndarray) -> np.ndarray:
        """The nearest points inside, [..., 2]."""
        # The bounds themselves: lower + size may round past the upper ones.
        return np.clip(xy, self.lower, (self.xmax, self.ymax))

    def grown(self, margin: float) -> Extent:
        """The rectangle with ``margin`` added on every side."""
        return Extent(
            self.xmin - margin, self.xmax + margin, self.ymin - margin, self.ymax + margin
        )

    def around(self, other: Extent) -> Extent:
        """The smallest rectangle that contains both."""
        low, high = (f(self.bounds, other.bounds).tolist() for f in (np.minimum, np.maximum))
        return Extent(low[0], high[1], low[2], high[3])

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Points drawn uniformly from the inside, [count, 2]."""
        return self.lower + self.size * rng.uniform(size=(count, 2))


@dataclass(frozen=True)
class Grid:
    """Points on a regular grid: x [columns] and y [rows], ascending, in metres."""

    x: np.ndarray
    y: np.ndarray

    @classmethod
    def cells(cls, extent: Extent, resolution: float) -> Grid:
        """Centres of square cells that start in the lower left corner and cover the extent."""
        if not 0 < resolution < np.inf:
            raise InputError(
                f"resolution: expected a positive cell size in metres, got {resolution}"
            )
        # The small tolerance keeps 60 m / 0.1 m at 600 cells in spite of rounding.
        counts = np.maximum(np.ceil(extent.size / resolution - 1e-9), 1).astype(int)
        sides = zip(extent.lower, counts, strict=True)
        return cls(*(least + (np.arange(count) + 0.5) * resolution for least, count in sides))

    @classmethod
    def nodes(cls, extent: Extent, columns: int, rows: int) -> Grid:
        """Points from border to border, the corners included (the evaluation grid of the paper)."""
        return cls(*map(np.linspace, extent.lower, extent.upper, (columns, rows)))

    @classmethod
    def of_file(cls, x: np.ndarray, y: np.ndarray) -> Grid:
        """A grid with the coordinates in a file.

        Raises:
            InputError: x or y is not an ascending row of at least two finite numbers.
        """
        x, y = (np.asarray(values, dtype=float) for values in (x, y))
        if any(v.ndim != 1 or len(v) < 2 or not np.isfinite(v).all() for v in (x, y)):
            raise InputError("expected at least two finite numbers in x and in y")
        if any((np.diff(v) <= 0).any() for v in (x, y)):
            raise InputError("expected ascending x and y")
        return cls(x, y)

    @classmethod
    def dividing(cls, extent: Extent, shape: tuple[int, ...]) -> Grid:
        """Centres of the cells of a raster (rows, columns) whose outer borders are the extent."""
        rows, columns = shape
        sides = zip(extent.lower, extent.size / (columns, rows), (columns, rows), strict=True)
        return cls(*(least + width * (np.arange(count) + 0.5) for least, width, count in sides))

    @property
    def borders(self) -> Extent:
        """The outer borders of the cells around the points; needs at least 2 x 2 points."""
        x, y = self.x, self.y
        half_x, half_y = (x[1] - x[0]) / 2, (y[1] - y[0]) / 2
        return Extent(x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y)

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return len(self.y), len(self.x)

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell, in m."""
        width, height = self.borders.size / self.shape[::-1]
        return float(width), float(height)

    @property
    def cell_area(self) -> float:
        """Area of a cell, in m^2."""
        return math.prod(self.cell_size)

    @cached_property
    def points(self) -> np.ndarray:
        """All points, row-major from the lower left, x fastest, [rows * columns, 2]."""
        return np.stack(np.meshgrid(self.x, self.y), axis=-1).reshape(-1, 2)

    def same(self, other: Grid) -> bool:
        """Whether both have the same points."""
        return np.array_equal(self.x, other.x) and np.array_equal(self.y, other.y)

    def counted(self, xy: np.ndarray) -> np.ndarray:
        """Number of the places xy [N, 2] in each cell [rows, columns], as floats."""
        row, column = self.located(xy[self.borders.contains(xy)])
        rows, columns = self.shape
        counts = np.bincount(row * columns + column, minlength=rows * columns)
        return counts.reshape(self.shape).astype(float)

    def located(self, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns [N] of the cells in which the places xy [N, 2] lie; of those beyond the
        borders, of the nearest cell."""
        borders, (rows, columns) = self.borders, self.shape
        cells = ((xy - borders.lower) / borders.size * (columns, rows)).astype(int)
        column, row = np.clip(cells, 0, (columns - 1, rows - 1)).T
        return row, column

    def interpolate(self, values: np.ndarray, xy: np.ndarray) -> np.ndarray:
        """Bilinear interpolation of values [rows, columns] at xy [N, 2]; flat beyond the border.

        Next to a value that is not finite, the result is not finite either; NaN at a NaN place.
        """
        column, s = _locate(self.x, xy[:, 0])
        row, t = _locate(self.y, xy[:, 1])
        right = np.minimum(column + 1, len(self.x) - 1)
        above = np.minimum(row + 1, len(self.y) - 1)
        with np.errstate(invalid="ignore"):  # infinity times 0
            low = (1 - s) * values[row, column] + s * values[row, right]
            high = (1 - s) * values[above, column] + s * values[above, right]
            return (1 - t) * low + t * high


def map_grid(workspace: Extent, resolution: float) -> Grid:
    """The cells of a map, ``resolution`` m wide.

    Raises:
        InputError: if the resolution is not positive, or too coarse for two rows and columns.
    """
    grid = Grid.cells(workspace, resolution)
    if min(grid.shape) < 2:
        raise InputError(
            f"resolution: expected less than the workspace's sides of {workspace.size[0]:g} and "
            f"{workspace.size[1]:g} m, got {resolution:g}"
        )
    return grid


def _locate(nodes: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The cell index of each coordinate between equidistant nodes, and the fraction inside it."""
    if len(nodes) == 1:
        return np.zeros(len(at), dtype=int), np.zeros(len(at))
    position = np.clip((at - nodes[0]) / (nodes[1] - nodes[0]), 0, len(nodes) - 1)
    index = np.minimum(np.nan_to_num(position).astype(int), len(nodes) - 2)
    return index, position - index


@dataclass(frozen=True)
class Land:
    """A raster of land and water: a sounding on one side of land says nothing about the other.

    Attributes:
        grid: centres of square cells.
        water: which cells are water [rows, columns], boolean, at least one. A place beyond the
            raster counts as the nearest cell at the border.
    """

    grid: Grid
    water: np.ndarray

    def moved(self, centre: np.ndarray, scale: float) -> Land:
        """The same land in the coordinates (xy - centre) / scale."""
        x, y = (
            (axis - c) / scale for axis, c in zip((self.grid.x, self.grid.y), centre, strict=True)
        )
        return Land(Grid(x, y), self.water)

    @property
    def side(self) -> float:
        """Side of a cell."""
        return float(self.grid.x[1] - self.grid.x[0])

    @cached_property
    def to_land(self) -> np.ndarray:
        """Distance of each cell to the nearest land [rows, columns]; 0 on land."""
        from scipy.ndimage import distance_transform_edt

        nowhere = np.full(self.water.shape, np.inf)
        return nowhere if self.water.all() else distance_transform_edt(self.water, self.side)

    @cached_property
    def nearest_water(self) -> np.ndarray:
        """Row and column of the water nearest to each cell [2, rows, columns]."""
        from scipy.ndimage import distance_transform_edt

        return distance_transform_edt(~self.water, return_distances=False, return_indices=True)

    def _cells(self, xy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of places [..., 2]."""
        # Each axis by itself: NumPy is slow where the last axis has two elements.
        column, row = (
            np.clip((at - axis[0]) / self.side + 0.5, 0.0, len(axis) - 1.0).astype(np.int64)
            for at, axis in ((xy[..., 0], self.grid.x), (xy[..., 1], self.grid.y))
        )
        return row, column

    def _afloat(self, xy: np.ndarray) -> np.ndarray:
        """Places [N, 2], those on land moved to the nearest water."""
        rows, columns = cells = self._cells(xy)
        row, column = self.nearest_water[:, rows, columns]
        there = np.column_stack((self.grid.x[column], self.grid.y[row]))
        return np.where(self.water[cells][:, None], xy, there)

    def wet(self, xy: np.ndarray) -> np.ndarray:
        """Whether places [N, 2] are water; boolean [N]."""
        return self.water[self._cells(xy)]

    def hides(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether places b [N, 2] are on land, or land lies between them and a; boolean [N]."""
        return ~self.wet(b) | self.between(a, b)

    def between(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Whether the straight line between places a and b [N, 2] crosses land; boolean [N].

        A place on land counts as the water nearest to it. A line is halved until no land is as near
        to its middle as its ends, or until it is half a cell long.
        """
        crosses = np.zeros(len(a), dtype=bool)
        # No land lies in between if the nearest land is farther away than the other place.
        free = self.to_land[self._cells(a)] - 2 * self.side
        dx, dy = (b - a).T
        line = np.flatnonzero(dx * dx + dy * dy > np.square(np.maximum(free, 0.0)))
        a, b = self._afloat(a[line]), self._afloat(b[line])
        middle, half = (a + b) / 2, (b - a) / 2
        while len(line):
            free = self.to_land[self._cells(middle)]
            crosses[line[free == 0]] = True
            length = np.hypot(*half.T)
            near = (free - 2 * self.side < length) & (length > self.side / 4) & ~crosses[line]
            line, middle, half = line[near], middle[near], half[near] / 2
            line = np.concatenate((line, line))
            middle = np.concatenate((middle - half, middle + half))
            half = np.concatenate((half, half))
        return crosses


def filled(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """The values [rows, columns], unknown ones replaced by the nearest known one."""
    if known.all():
        return values
    from scipy.ndimage import distance_transform_edt

    nearest = distance_transform_edt(~known, return_distances=False, return_indices=True)
    return values[tuple(nearest)]


def path_length(path: np.ndarray) -> float:
    """Length in metres of the polyline path [K, 2]."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def squared_distance_to(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Squared distance of points [N, 2] to the nearest of places [K, 2], [N] in m^2.

    Infinite if there are no places.
    """
    squared = np.full(len(points), np.inf)
    few = max(1, DISTANCES // max(1, len(places)))
    for begin in range(0, len(points), few):
        part = slice(begin, begin + few)
        east, north = (np.subtract.outer(points[part, k], places[:, k]) for k in (0, 1))
        squared[part] = (east * east + north * north).min(1, initial=np.inf)
    return squared


@dataclass(frozen=True)
class Current:
    """A current, and a vehicle's speed in it.

    Attributes:
        x, y: velocity of the water in the map's axes, in m/s.
        speed: speed through water, in m/s.

    Raises:
        InputError: the vehicle is not faster than the current.
    """

    x: float
    y: float
    speed: float

    def __post_init__(self) -> None:
        if not math.hypot(self.x, self.y) < self.speed < math.inf:
            raise InputError(
                f"current: expected less than the vehicle's speed of {self.speed:g} m/s, got "
                f"{math.hypot(self.x, self.y):g} m/s"
            )

    @classmethod
    def at_most(cls, velocity: Sequence[float], speed: float) -> Current:
        """A current of this velocity [2], or as much of it as the vehicle can make way in."""
        x, y = velocity
        share = min(1.0, STRONGEST * speed / max(math.hypot(x, y), 1e-12))
        return cls(share * x, share * y, speed)

    def __str__(self) -> str:
        return f"{self.x:.2f} {self.y:.2f} m/s"

    @property
    def still(self) -> bool:
        """Whether there is no current."""
        return self.x == self.y == 0

    def speed_over_ground(self, angle: float) -> float:
        """Speed over ground in m/s along a direction, in rad from x to y."""
        if self.still:
            return self.speed
        along = self.x * math.cos(angle) + self.y * math.sin(angle)
        return along + math.sqrt(self.speed**2 - self._across(angle) ** 2)

    def heading(self, angle: float) -> float:
        """The heading in rad that makes the vehicle move along a direction."""
        return angle - math.asin(self._across(angle) / self.speed)

    def _across(self, angle: float) -> float:
        """Component of the current to the left of a direction, in m/s."""
        return self.y * math.cos(angle) - self.x * math.sin(angle)

    def seconds(self, path: np.ndarray) -> float:
        """Time in s along straight legs between places [K, 2] in m."""
        legs = np.diff(path, axis=0)
        angles = np.arctan2(legs[:, 1], legs[:, 0]).tolist()
        return float((np.hypot(*legs.T) / [*map(self.speed_over_ground, angles)]).sum())

    def mean_speed(self, path: np.ndarray) -> float:
        """Mean speed over ground in m/s along straight legs between places [K, 2] in m."""
        length = path_length(path)
        return self.speed if self.still or not length else length / self.seconds(path)
