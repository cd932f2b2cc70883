"""The area covered by soundings: where a map without an outline ends."""

from __future__ import annotations

import numpy as np

from ..core.geometry import Grid
from ..core.maps import ElevationMap

#: Number of directions in which soundings are searched around a cell, and how far: in units of the
#: 90 % quantile of the cells' distance to the nearest sounding.
DIRECTIONS, REACH = 16, 2.0
#: Maximum number of cells in the search; of a larger grid, every Nth.
CELLS = 40_000


def surveyed(
    drawn: ElevationMap, xy: np.ndarray, z: np.ndarray, surface: float
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of a map about which its soundings say something.

    Excluded are cells that ``ElevationMap.known`` excludes; cells farther beyond the outermost
    soundings than cells between soundings usually are from these; and, if all soundings are under
    water, land and what lies behind it, where no boat has been.

    Args:
        drawn: the map.
        xy: places of the soundings [N, 2], in m.
        z: their elevations [N], in m.
        surface: elevation of the water's surface, in m.

    Returns:
        The cells, and the same with those left out as land; boolean [rows, columns].
    """
    from scipy.ndimage import distance_transform_edt, label

    grid, known = drawn.grid, np.isfinite(drawn.mean) & drawn.known(xy, z)
    land = (drawn.mean > surface) & bool((z < surface).all())
    sounded, side = grid.counted(xy) > 0, float(np.diff(grid.x[:2])[0])
    part, _ = label(known & ~land, np.ones((3, 3)))
    water = np.isin(part, np.unique(part[sounded & (part > 0)]))
    step = int(np.ceil(np.sqrt(water.size / CELLS)))
    coarse = slice(step // 2, None, step)
    found = between_soundings(Grid(grid.x[coarse], grid.y[coarse]), water[coarse, coarse], xy)
    nearest = (
        np.minimum(np.arange(size) // step, most - 1)
        for size, most in zip(water.shape, found.shape, strict=True)
    )
    between = found[np.ix_(*nearest)] & water
    far = distance_transform_edt(~sounded, side)[between]
    reach = float(np.quantile(far, 0.9)) if far.any() else np.inf  # a single line
    near = known & (distance_transform_edt(~between, side) <= reach)
    return near & water, near & (water | land)


def between_soundings(grid: Grid, water: np.ndarray, track: np.ndarray) -> np.ndarray:
    """The cells of the water that contain soundings or lie between them: straight paths over the
    water lead to soundings, in directions that leave no gap of more than half a turn.

    Args:
        grid: of square cells.
        water: [rows, columns], boolean.
        track: places of the soundings [N, 2], in m.

    Returns:
        Boolean [rows, columns].
    """
    from scipy.ndimage import distance_transform_edt
    from scipy.spatial import cKDTree

    side, sounded = float(np.diff(grid.x[:2])[0]), grid.counted(track) > 0
    if not (sounded & water).any():
        return np.zeros(grid.shape, dtype=bool)
    far = distance_transform_edt(~sounded, side)
    reach = REACH * max(float(np.quantile(far[water], 0.9)), side)
    places = np.unique(track, axis=0)
    if len(places) > 1:  # soundings on a line may be farther apart than cells
        apart = float(np.quantile(cKDTree(places).query(places, 2)[0][:, 1], 0.9))
        # Their cells may be farther apart than they are, by the side of a cell.
        sounded = far <= min((apart + side) / 2, reach / REACH)
    rows, columns = np.nonzero(water)
    run = gap = np.zeros(len(rows), dtype=np.int64)
    met = []
    for angle in 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS:
        # In steps of half a cell: no path skips land that is a cell wide.
        up, right = np.sin(angle) / 2, np.cos(angle) / 2
        going, found = np.arange(len(rows)), np.zeros(len(rows), dtype=bool)
        for step in range(1, int(2 * reach / side) + 1):
            row = np.rint(rows[going] + step * up).astype(np.int64)
            column = np.rint(columns[going] + step * right).astype(np.int64)
            afloat = (row >= 0) & (row < grid.shape[0]) & (column >= 0) & (column < grid.shape[1])
            afloat[afloat] = water[row[afloat], column[afloat]]
            going, row, column = going[afloat], row[afloat], column[afloat]
            hit = sounded[row, column]
            found[going[hit]] = True
            going = going[~hit]
        met.append(found)
    for found in (*met, *met):
        run = np.where(found, 0, run + 1)
        gap = np.maximum(gap, run)
    between = sounded & water
    between[rows, columns] |= gap < DIRECTIONS / 2
    return between
