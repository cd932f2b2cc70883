"""Elevation rasters: reading and processing. Row 0 is south in every format, voids are NaN."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...core.errors import InputError, TerrainError, needs_extra
from ...core.reading import open_geotiff, read_arrays, refuse_larger

HGT_SIZES = (3601, 1201)  # samples along each side of SRTM1 and SRTM3
HGT_NO_DATA = -32768
MAX_HGT_BYTES = 2 * HGT_SIZES[0] ** 2 + 1  # bytes; nothing larger is unpacked
VALUE_BYTES = 16  # of memory for a value of a raster, while it becomes float64
IMAGES = (".png", ".jpg", ".jpeg", ".bmp")
FORMATS = (".hgt", ".hgt.zip", ".hgt.gz", ".tif", ".npy", ".npz", ".png", ".jpg")


@contextmanager
def requires_package(terrain: object, what: str) -> Iterator[None]:
    """Import an optional package in this context; raises a ``TerrainError`` if it is missing."""
    try:
        yield
    except ImportError:
        raise TerrainError(f"terrain {terrain}{what}") from None


def north_up(raster: np.ndarray) -> np.ndarray:
    """A raster whose row 0 is the north edge, as float64 with row 0 south."""
    return np.ascontiguousarray(raster[::-1], dtype=float)


def read_raster(path: Path) -> np.ndarray:
    """Elevation [rows, columns] from a file, by its ending: row 0 south, voids NaN.

    Row 0 of a file is the north edge, except in .npy and .npz, where it is the south edge.

    Raises:
        TerrainError: the file cannot be read, or has other contents.
    """
    ending = path.suffix.lower()
    try:
        if ending in (".hgt", ".zip", ".gz"):
            return _read_hgt(path, _unpacked(path))
        if ending in (".npy", ".npz"):
            return _read_numpy(path)
        if ending in (".tif", ".tiff"):
            return _read_geotiff(path)
        if ending in IMAGES:
            return _read_image(path)
    except TerrainError:
        raise
    except Exception as error:  # of any type, by format
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TerrainError(f"terrain {path}: cannot be read ({reason})") from None
    raise TerrainError(f"terrain {path}: expected one of {' '.join(FORMATS)}")


def _unpacked(path: Path) -> bytes:
    if path.suffix.lower() == ".gz":
        with gzip.open(path) as file:
            return file.read(MAX_HGT_BYTES)
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".hgt")]
            if len(names) != 1:
                raise TerrainError(f"terrain {path}: expected one .hgt in it, got {len(names)}")
            with archive.open(names[0]) as file:
                return file.read(MAX_HGT_BYTES)
    with path.open("rb") as file:
        return file.read(MAX_HGT_BYTES)


def _read_hgt(path: Path, content: bytes) -> np.ndarray:
    sizes = {2 * side * side: side for side in HGT_SIZES}
    if len(content) not in sizes:
        expected = " or ".join(f"{size} bytes ({side} x {side})" for size, side in sizes.items())
        raise TerrainError(f"terrain {path}: expected {expected} of .hgt, got {len(content)}")
    side = sizes[len(content)]
    raster = np.frombuffer(content, dtype=">i2").reshape(side, side)
    elevation = north_up(raster)
    elevation[elevation == HGT_NO_DATA] = np.nan
    return elevation


def _read_numpy(path: Path) -> np.ndarray:
    loaded = read_arrays(path)
    raster = loaded.get("", loaded.get("elevation"))
    if raster is None:
        there = ", ".join(loaded) or "none"
        raise TerrainError(f"terrain {path}: expected an array `elevation`, got arrays: {there}")
    if not (np.issubdtype(raster.dtype, np.integer) or np.issubdtype(raster.dtype, np.floating)):
        raise TerrainError(f"terrain {path}: expected real numbers, got {raster.dtype}")
    refuse_larger("its elevation", raster.size, VALUE_BYTES)
    return raster.astype(float)


def _read_geotiff(path: Path) -> np.ndarray:
    with (
        requires_package(path, needs_extra(": GeoTIFF", "rasterio", "geotiff")),
        open_geotiff(path, VALUE_BYTES) as source,
    ):
        return north_up(source.read(1, masked=True).astype(float).filled(np.nan))


def _read_image(path: Path) -> np.ndarray:
    """Grey values: 0..255, or the values of images with 16 bits or floats."""
    with requires_package(path, needs_extra(": an image", "Pillow", "sim")):
        from PIL import Image
    with Image.open(path) as image:
        refuse_larger("its raster", image.width * image.height, VALUE_BYTES)
        deep = image.mode.startswith(("I", "F"))
        return north_up(np.asarray(image if deep else image.convert("L")))


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
