"""Rasters of elevation from files. Whatever the format: row 0 south, voids are NaN."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ...core.errors import TerrainError
from ...core.reading import read_arrays, refuse_larger

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
    with requires_package(path, ": GeoTIFF needs rasterio (pip install 'poam_ros[geotiff]')"):
        import rasterio
    with rasterio.open(path, driver="GTiff") as source:  # no format that names other files
        refuse_larger("its raster", source.width * source.height, VALUE_BYTES)
        return north_up(source.read(1, masked=True).astype(float).filled(np.nan))


def _read_image(path: Path) -> np.ndarray:
    """Grey values: 0..255, or the values of images with 16 bits or floats."""
    with requires_package(path, ": images need Pillow (pip install 'poam_ros[sim]')"):
        from PIL import Image
    with Image.open(path) as image:
        refuse_larger("its raster", image.width * image.height, VALUE_BYTES)
        deep = image.mode.startswith(("I", "F"))
        return north_up(np.asarray(image if deep else image.convert("L")))
