"""Processing of elevation rasters into terrains: row 0 south, voids are NaN."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.errors import InputError, TerrainError

#: A raster with a larger share of voids than this is refused; fewer are filled from their border.
MAX_VOID_SHARE = 0.2
#: Rows and columns of the paper's terrains, and the largest of their grey values.
PAPER_SIDE = 360
WHITE = 255


def scaled(name: str, elevation: np.ndarray, to: tuple[float, float]) -> np.ndarray:
    """Elevation of any shape, scaled linearly to reach from ``to[0]`` to ``to[1]``.

    Raises:
        InputError: if that range is empty.
        TerrainError: if the elevation is flat.
    """
    low, high = to
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise InputError(f"elevation_range: expected two numbers, low < high, got {low} {high}")
    lowest, highest = elevation.min(), elevation.max()
    if not lowest < highest:
        raise TerrainError(f"terrain {name}: flat at {lowest:g} m, cannot be scaled to a range")
    return low + (elevation - lowest) * ((high - low) / (highest - lowest))


def filled(name: str, elevation: np.ndarray) -> np.ndarray:
    """Fill voids (NaN) from their border inwards, each by the mean of its known neighbours.

    Raises:
        TerrainError: there are too many.
    """
    if elevation.ndim != 2:
        return elevation  # Terrain raises the error
    rows, columns = np.nonzero(~np.isfinite(elevation))
    if not len(rows):
        return elevation
    share = len(rows) / elevation.size
    if share > MAX_VOID_SHARE:
        raise TerrainError(
            f"terrain {name}: expected at most {MAX_VOID_SHARE:.0%} of voids, got "
            f"{share:.0%}; give a raster with filled voids"
        )
    padded = np.pad(np.where(np.isfinite(elevation), elevation, np.nan), 1, constant_values=np.nan)
    rows, columns = rows + 1, columns + 1
    while len(rows):
        neighbours = np.stack(
            [padded[rows + dr, columns + dc] for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0))]
        )
        known = np.isfinite(neighbours)
        border = known.any(0)
        total = np.where(known, neighbours, 0.0).sum(0)[border]
        padded[rows[border], columns[border]] = total / known.sum(0)[border]
        rows, columns = rows[~border], columns[~border]
    return padded[1:-1, 1:-1]


def without_sea_depths(elevation: np.ndarray) -> np.ndarray:
    """An SRTM tile's elevation with the sea at 0 m, as the mission measured it.

    The public copy of the tiles has depths from charts in the sea, which would take up a part of
    the grey values. Land below sea level (in a few tiles) is raised to 0 m as well.
    """
    return np.maximum(elevation, 0.0)


def paper_grey(name: str, elevation: np.ndarray) -> np.ndarray:
    """The paper's terrain: 360 x 360 whole grey values from 0 to 255, [360, 360].

    A raster of that size and range stays unchanged. Any other is resampled, scaled linearly and
    rounded, as in an 8-bit image.

    Raises:
        TerrainError: if the elevation is flat.
    """
    if elevation.ndim != 2 or min(elevation.shape) < 2:
        return elevation  # Terrain raises the error
    side = (PAPER_SIDE, PAPER_SIDE)
    if elevation.shape == side and elevation.min() >= 0 and elevation.max() <= WHITE:
        return elevation
    grey = (0.0, float(WHITE))
    # Scaled before resampling too: flat rasters are refused, their rounding is not enlarged.
    return np.rint(scaled(name, resampled(scaled(name, elevation, grey), side), grey))


def resampled(raster: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A raster [rows, columns] resampled to ``shape`` on the same extent.

    Bicubic (Keys, a = -1/2). For fewer cells the kernel is wider by the ratio of cell sizes: no
    value is skipped, and fine relief is not aliased.
    """
    along_rows = _resampled_rows(raster, shape[0])
    return _resampled_rows(along_rows.T, shape[1]).T


def _resampled_rows(raster: np.ndarray, count: int) -> np.ndarray:
    """The raster with ``count`` rows."""
    step = len(raster) / count  # old rows in a new one
    stretch = max(step, 1.0)
    rows = np.empty((count, raster.shape[1]))
    for row in range(count):
        centre = (row + 0.5) * step
        first = max(0, int(np.floor(centre - 2 * stretch)))
        near = raster[first : int(np.ceil(centre + 2 * stretch))]
        # The kernel is cut at the border, and its weights normalised.
        weights = _keys((first + np.arange(len(near)) + 0.5 - centre) / stretch)
        rows[row] = weights @ near / weights.sum()
    return rows


def _keys(at: np.ndarray) -> np.ndarray:
    """Keys' cubic convolution kernel with a = -1/2 (IEEE ASSP 29, 1981), zero beyond 2."""
    x = np.abs(at)
    inner = 1 + x**2 * (1.5 * x - 2.5)
    outer = 2 + x * (-4 + x * (2.5 - 0.5 * x))
    return np.where(x < 1, inner, np.where(x < 2, outer, 0.0))


#: Name -> (name of the terrain, elevation without voids) -> elevation.
PREPARATIONS: dict[str, Callable[[str, np.ndarray], np.ndarray]] = {"paper": paper_grey}
