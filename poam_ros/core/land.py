"""Land between two places: a sounding on one side says nothing about the bottom on the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .geometry import Grid


@dataclass(frozen=True)
class Land:
    """A raster of land and water.

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

        if self.water.all():
            return np.full(self.water.shape, np.inf)
        return distance_transform_edt(self.water, self.side)

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
        cells = self._cells(xy)
        ashore = np.flatnonzero(~self.water[cells])
        row, column = self.nearest_water[:, cells[0][ashore], cells[1][ashore]]
        moved = xy.copy()
        moved[ashore] = np.column_stack((self.grid.x[column], self.grid.y[row]))
        return moved

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
