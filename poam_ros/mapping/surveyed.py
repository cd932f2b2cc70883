"""Where a map without an outline ends: beside the soundings, on their side of the shore."""

from __future__ import annotations

import numpy as np

from ..core.geometry import Grid
from ..core.maps import ElevationMap

#: Directions in which soundings are looked for around a cell, and how far, in distances that nine
#: tenths of the cells have from the nearest sounding.
DIRECTIONS, REACH = 16, 2.0
#: Cells among which the surveyed area is looked for, at most.
CELLS = 40_000


def surveyed(
    drawn: ElevationMap, xy: np.ndarray, z: np.ndarray, surface: float
) -> tuple[np.ndarray, np.ndarray]:
    """The cells of a map that its soundings say something of.

    Not those that ``ElevationMap.known`` leaves out; nor what is farther beyond the outermost
    soundings than cells between the soundings are from these; nor, if all soundings are below the
    water, land, and what lies behind it: no boat was there.

    Args:
        drawn: the map.
        xy: places of the soundings [N, 2], in m.
        z: their elevations [N], in m.
        surface: elevation of the water's surface, in m.

    Returns:
        The cells, and the same with those left out as land; boolean [rows, columns].
    """
    from scipy.ndimage import distance_transform_edt, label

    known = np.isfinite(drawn.mean) & drawn.known(xy, z)
    land = (drawn.mean > surface) & bool((z < surface).all())
    sounded = drawn.grid.counted(xy) > 0
    part, _ = label(known & ~land, np.ones((3, 3)))
    water = np.isin(part, np.unique(part[sounded & (part > 0)]))
    near = known
    side = float(np.diff(drawn.grid.x[:2])[0])
    between = _between(drawn.grid, water, xy)
    far = distance_transform_edt(~sounded, side)[between]
    reach = float(np.quantile(far, 0.9)) if far.any() else np.inf  # nobody knows of a single line
    near = known & (distance_transform_edt(~between, side) <= reach)
    return near & water, near & (water | land)


def _between(grid: Grid, water: np.ndarray, track: np.ndarray) -> np.ndarray:
    """As ``between_soundings``, of every so many cells of a large grid."""
    step = int(np.ceil(np.sqrt(water.size / CELLS)))
    rows, columns = (slice(step // 2, None, step) for _ in range(2))
    coarse = Grid(grid.x[columns], grid.y[rows])
    found = between_soundings(coarse, water[rows, columns], track)
    row, column = (
        np.minimum(np.arange(size) // step, most - 1)
        for size, most in zip(water.shape, found.shape, strict=True)
    )
    return found[np.ix_(row, column)] & water


def between_soundings(grid: Grid, water: np.ndarray, track: np.ndarray) -> np.ndarray:
    """The cells of the water that hold soundings or lie between some: straight ways over the water
    lead from them to soundings, in directions that leave no gap of more than half a turn.

    Args:
        grid: of square cells.
        water: [rows, columns], boolean.
        track: places of the soundings [N, 2], in m.

    Returns:
        Boolean [rows, columns].
    """
    from scipy.ndimage import distance_transform_edt
    from scipy.spatial import cKDTree

    side = float(np.diff(grid.x[:2])[0])
    sounded = grid.counted(track) > 0
    if not (sounded & water).any():
        return np.zeros(grid.shape, dtype=bool)
    far = distance_transform_edt(~sounded, side)
    reach = REACH * max(float(np.quantile(far[water], 0.9)), side)
    places = np.unique(track, axis=0)
    if len(places) > 1:  # soundings farther apart than cells are a line, too
        apart = cKDTree(places).query(places, 2)[0][:, 1]
        sounded = far <= min(float(np.quantile(apart, 0.9)) / 2, reach / REACH)
    rows, columns = np.nonzero(water)
    met = np.zeros((DIRECTIONS, len(rows)), dtype=bool)
    for angle, found in zip(2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS, met, strict=True):
        # Half cells at a time: a way misses no land that is a cell wide.
        up, right = np.sin(angle) / 2, np.cos(angle) / 2
        going = np.arange(len(rows))
        for step in range(1, int(2 * reach / side) + 1):
            row = np.rint(rows[going] + step * up).astype(np.int64)
            column = np.rint(columns[going] + step * right).astype(np.int64)
            inside = (row >= 0) & (row < grid.shape[0]) & (column >= 0) & (column < grid.shape[1])
            going, row, column = going[inside], row[inside], column[inside]
            afloat = water[row, column]
            going, row, column = going[afloat], row[afloat], column[afloat]
            hit = sounded[row, column]
            found[going[hit]] = True
            going = going[~hit]
    run = gap = np.zeros(len(rows), dtype=np.int64)
    for found in (*met, *met):
        run = np.where(found, 0, run + 1)
        gap = np.maximum(gap, run)
    between = sounded & water
    between[rows, columns] |= gap < DIRECTIONS / 2
    return between
