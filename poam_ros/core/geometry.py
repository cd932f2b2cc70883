"""Axis-aligned rectangles and the regular grids inside them. Metres, x east, y north."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .errors import InputError

#: m; larger coordinates do not resolve a millimetre, and their squares may overflow.
MAX_COORDINATE = 1e12
#: Distances computed at a time, so that they stay in the processor's cache.
DISTANCES = 100_000


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
        bounds = (self.xmin, self.xmax, self.ymin, self.ymax)
        if not np.all(np.isfinite(bounds)) or self.xmin >= self.xmax or self.ymin >= self.ymax:
            raise InputError(f"extent: expected finite xmin < xmax and ymin < ymax, got {bounds}")

    @classmethod
    def of(cls, bounds: Sequence[float]) -> Extent:
        """From the four numbers (xmin, xmax, ymin, ymax)."""
        if len(bounds) != 4:
            raise InputError(f"extent: expected xmin xmax ymin ymax, got {list(bounds)}")
        try:
            numbers = [float(b) for b in bounds]
        except (TypeError, ValueError):
            raise InputError(f"extent: expected four numbers, got {list(bounds)}") from None
        return cls(*numbers)

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
        x, y = np.asarray(xy)[..., 0], np.asarray(xy)[..., 1]
        return (
            (x >= self.xmin - slack)
            & (x <= self.xmax + slack)
            & (y >= self.ymin - slack)
            & (y <= self.ymax + slack)
        )

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
        low, high = np.minimum(self.lower, other.lower), np.maximum(self.upper, other.upper)
        return Extent(*map(float, (low[0], high[0], low[1], high[1])))

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
        columns, rows = np.maximum(np.ceil(extent.size / resolution - 1e-9), 1).astype(int)
        return cls(
            extent.xmin + (np.arange(columns) + 0.5) * resolution,
            extent.ymin + (np.arange(rows) + 0.5) * resolution,
        )

    @classmethod
    def nodes(cls, extent: Extent, columns: int, rows: int) -> Grid:
        """Points from border to border, the corners included (the evaluation grid of the paper)."""
        return cls(
            np.linspace(extent.xmin, extent.xmax, columns),
            np.linspace(extent.ymin, extent.ymax, rows),
        )

    @classmethod
    def of_file(cls, x: np.ndarray, y: np.ndarray) -> Grid:
        """A grid with the coordinates in a file.

        Raises:
            InputError: x or y is not an ascending row of at least two finite numbers.
        """
        x, y = (np.asarray(values, dtype=float) for values in (x, y))
        for values in (x, y):
            if not (values.ndim == 1 and len(values) > 1 and np.isfinite(values).all()):
                raise InputError("expected at least two finite numbers in x and in y")
            if not (np.diff(values) > 0).all():
                raise InputError("expected ascending x and y")
        return cls(x, y)

    @classmethod
    def dividing(cls, extent: Extent, shape: tuple[int, ...]) -> Grid:
        """Centres of the cells of a raster (rows, columns) whose outer borders are the extent."""
        rows, columns = shape
        width, height = extent.size / (columns, rows)
        return cls(
            extent.xmin + width * (np.arange(columns) + 0.5),
            extent.ymin + height * (np.arange(rows) + 0.5),
        )

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
        return float(np.prod(self.borders.size / self.shape[::-1]))

    @cached_property
    def points(self) -> np.ndarray:
        """All points, row-major from the lower left, x fastest, [rows * columns, 2]."""
        xx, yy = np.meshgrid(self.x, self.y)
        return np.column_stack((xx.ravel(), yy.ravel()))

    def same(self, other: Grid) -> bool:
        """Whether both have the same points."""
        return np.array_equal(self.x, other.x) and np.array_equal(self.y, other.y)

    def counted(self, xy: np.ndarray) -> np.ndarray:
        """Number of the places xy [N, 2] in each cell [rows, columns], as floats."""
        borders, (rows, columns) = self.borders, self.shape
        inside = xy[borders.contains(xy)]
        cells = ((inside - borders.lower) / borders.size * (columns, rows)).astype(int)
        column, row = np.minimum(cells, (columns - 1, rows - 1)).T
        counts = np.bincount(row * columns + column, minlength=rows * columns)
        return counts.reshape(self.shape).astype(float)

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


def path_length(path: np.ndarray) -> float:
    """Length in metres of the polyline path [K, 2]."""
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def squared_distance_to(points: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Squared distance of points [N, 2] to the nearest of places [K, 2], [N] in m^2.

    Infinite if there are no places.
    """
    squared = np.full(len(points), np.inf)
    if not len(places):
        return squared
    few = max(1, DISTANCES // len(places))
    for begin in range(0, len(points), few):
        part = slice(begin, begin + few)
        east, north = (np.subtract.outer(points[part, k], places[:, k]) for k in (0, 1))
        squared[part] = (east * east + north * north).min(1)
    return squared
