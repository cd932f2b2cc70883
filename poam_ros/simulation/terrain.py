"""Ground truth: real or generated elevation, prepared and placed on the environment.

Row 0 of a raster is south, voids are NaN; row 0 of a file, but .npy and .npz, is the north edge.
"""

from __future__ import annotations

import gzip
import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..core.errors import InputError, TerrainError, needs_extra
from ..core.geometry import Extent, Grid, filled
from ..core.reading import open_geotiff, read_arrays, refuse_larger

#: What suits a terrain, in m: standard deviation of a range, height above the highest place.
SONAR_DEFAULTS = {"": (1.0, 5.0), "lake": (0.1, 2.5)}
#: The paper's environment, and its workspace: the vehicle needs 1 m to turn.
ENVIRONMENT = Extent(-31.0, 31.0, -31.0, 31.0)
WORKSPACE = Extent(-30.0, 30.0, -30.0, 30.0)
#: Cells per side of a generated terrain, and half the side of ``lake``, in m.
SIDE, HALF = 360, 31.0
TILE_NAME = re.compile(r"([NS])(\d{2})([EW])(\d{3})", re.IGNORECASE)
#: The public copy of the Mapzen terrain tiles: SRTM and better, one .hgt per degree, no login.
TILE_ADDRESS = "https://s3.amazonaws.com/elevation-tiles-prod/skadi/{row}/{tile}.hgt.gz"
HGT_SIZES, HGT_NO_DATA = (3601, 1201), -32768  # samples along each side of SRTM1 and SRTM3
MAX_HGT_BYTES = 2 * HGT_SIZES[0] ** 2 + 1  # nothing larger is unpacked
VALUE_BYTES = 16  # of memory for a value of a raster, while it becomes float64
IMAGES = (".png", ".jpg", ".jpeg", ".bmp")
FORMATS = (".hgt", ".hgt.zip", ".hgt.gz", ".tif", ".npy", ".npz", ".png", ".jpg")
#: A raster with a larger share of voids than this is refused; fewer are filled.
MAX_VOID_SHARE = 0.2
#: Rows and columns of the paper's terrains, and the largest of their grey values.
PAPER_SIDE, WHITE = 360, 255


@dataclass(frozen=True)
class Terrain:
    """Elevation [rows, columns] in m on an extent: row 0 south, column 0 west.

    The extent is that of the cells' outer borders; a value is that of its cell's centre.
    ``source``: what it was loaded from. ``sonar_defaults``: for settings that a sonar leaves open,
    the standard deviation of a range and the height above the highest place, in m.

    Raises:
        TerrainError: the elevation is not a matrix of at least 2 x 2 finite numbers.
    """

    name: str
    elevation: np.ndarray
    extent: Extent = ENVIRONMENT
    source: str = ""
    sonar_defaults: tuple[float, float] = SONAR_DEFAULTS[""]

    def __post_init__(self) -> None:
        shape = self.elevation.shape
        if len(shape) != 2 or min(shape) < 2:
            raise TerrainError(
                f"terrain {self.name}: expected a raster of at least 2 x 2 cells, got {shape}"
            )
        if not np.isfinite(self.elevation).all():
            raise TerrainError(f"terrain {self.name}: expected finite elevations")

    @cached_property
    def _centres(self) -> Grid:
        return Grid.dividing(self.extent, self.elevation.shape)

    def elevation_at(self, xy: np.ndarray) -> np.ndarray:
        """Elevation [N] in m at xy [N, 2]: bilinear between the cells' centres."""
        return self._centres.interpolate(self.elevation, np.asarray(xy, dtype=float))

    @cached_property
    def highest(self) -> float:
        """The highest elevation, in m."""
        return float(self.elevation.max())

    @cached_property
    def lowest(self) -> float:
        """The lowest elevation, in m."""
        return float(self.elevation.min())


def load_terrain(
    source: str,
    extent: Extent = ENVIRONMENT,
    *,
    elevation_range: tuple[float, float] | None = None,
    preparation: str | None = None,
    seed: int = 0,
) -> Terrain:
    """A terrain by its name or from a file, placed on the extent.

    Voids are filled first, then the elevation is prepared, and finally scaled.

    Args:
        source: ``jacksboro`` (real), ``seamounts``, ``corner`` and ``lake`` (generated), an SRTM
            tile such as ``N17E073`` (fetched once, then cached), or the path of a raster.
        extent: where the raster's outer borders lie, in m.
        elevation_range: (lowest, highest) in m to scale the elevation to, linearly.
        preparation: ``paper`` for the paper's grey values; None: the elevation is unchanged.
        seed: of a generated terrain.

    Raises:
        TerrainError: it cannot be found or read, has too many voids, or is flat and cannot be
            scaled.
        InputError: the elevation range is empty, or the preparation unknown.
    """
    if preparation not in (None, "paper"):
        raise InputError(f"preparation: expected paper, got {preparation!r}")
    path = Path(source).expanduser()
    if source in BUILT_IN:
        name, elevation = source, BUILT_IN[source](seed)
    elif path.exists():
        name, elevation = path.name.split(".")[0], read_raster(path)
    elif TILE_NAME.fullmatch(source):
        name, elevation = source.upper(), read_raster(_fetch_tile(source.upper()))
    else:
        raise TerrainError(
            f"terrain {source}: no such file; expected {', '.join(BUILT_IN)}, an SRTM tile such as "
            f"N17E073, or a file ({' '.join(FORMATS)})"
        )
    elevation = without_voids(name, elevation)
    unchanged = preparation is None and elevation_range is None
    if preparation is not None:
        if TILE_NAME.fullmatch(source) or ".hgt" in path.name.lower():
            # The public copy of the tiles has depths from charts in the sea, which would take up a
            # part of the grey values; the mission measured 0 m there.
            elevation = np.maximum(elevation, 0.0)
        elevation = paper_grey(name, elevation)
    if elevation_range is not None:
        elevation = scaled(name, elevation, elevation_range)
    # The defaults of a lake do not suit its shape at another scale.
    of = source if unchanged and source in SONAR_DEFAULTS else ""
    return Terrain(name, elevation, extent, source, SONAR_DEFAULTS[of])


def _fetch_tile(tile: str) -> Path:
    """The path of an SRTM tile in the user's cache, after fetching it if needed."""
    parts = TILE_NAME.fullmatch(tile)
    assert parts
    if int(parts[2]) > 90 or int(parts[4]) > 180:
        raise TerrainError(f"terrain {tile}: no such tile, expected N/S 00..90 and E/W 000..180")
    address = TILE_ADDRESS.format(row=tile[:3], tile=tile)
    by_hand = f"give a file instead, such as --terrain {tile}.hgt"
    try:
        import pooch
    except ImportError:
        needed = needs_extra(f"fetching {address}", "pooch", "download")
        raise TerrainError(f"terrain {tile}: {needed}; {by_hand}") from None
    pooch.get_logger().setLevel("WARNING")  # one line is enough if it fails
    cache = Path(os.environ.get("POAM_CACHE") or pooch.os_cache("poam_ros"))
    try:
        # No hash is known: the mirror publishes none. A broken file is found when it is read.
        path = pooch.retrieve(address, None, fname=f"{tile}.hgt.gz", path=cache, progressbar=False)
    except Exception as error:  # of any type, by transport: offline, refused, not found
        missing = f"not in {cache} and not available from {address} ({_reason(error)[:120]})"
        raise TerrainError(f"terrain {tile}: {missing}; {by_hand}") from None
    return Path(path)


def _north_up(raster: np.ndarray) -> np.ndarray:
    """A raster whose row 0 is the north edge, as float64 with row 0 south."""
    return np.ascontiguousarray(raster[::-1], dtype=float)


def read_raster(path: Path) -> np.ndarray:
    """Elevation [rows, columns] from a file, by its ending.

    Raises:
        TerrainError: the file cannot be read, or has other contents.
    """
    if (ending := path.suffix.lower()) not in _READERS:
        raise TerrainError(f"terrain {path}: expected one of {' '.join(FORMATS)}")
    try:
        return _READERS[ending](path)
    except ImportError as error:
        extra = "geotiff" if error.name == "rasterio" else "sim"
        needed = needs_extra(f"reading {ending}", str(error.name), extra)
        raise TerrainError(f"terrain {path}: {needed}") from None
    except TerrainError as error:
        raise TerrainError(f"terrain {path}: {error}") from None
    except Exception as error:  # of any type, by format
        raise TerrainError(f"terrain {path}: cannot be read ({_reason(error)})") from None


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _read_hgt(path: Path) -> np.ndarray:
    ending = path.suffix.lower()
    if ending == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".hgt")]
            if len(names) != 1:
                raise TerrainError(f"expected one .hgt in it, got {len(names)}")
            with archive.open(names[0]) as member:
                content = member.read(MAX_HGT_BYTES)
    else:
        with gzip.open(path) if ending == ".gz" else path.open("rb") as file:
            content = file.read(MAX_HGT_BYTES)
    sizes = {2 * side * side: side for side in HGT_SIZES}
    if len(content) not in sizes:
        expected = " or ".join(f"{size} bytes ({side} x {side})" for size, side in sizes.items())
        raise TerrainError(f"expected {expected} of .hgt, got {len(content)}")
    side = sizes[len(content)]
    elevation = _north_up(np.frombuffer(content, dtype=">i2").reshape(side, side))
    elevation[elevation == HGT_NO_DATA] = np.nan
    return elevation


def _read_numpy(path: Path) -> np.ndarray:
    loaded = read_arrays(path)
    raster = loaded.get("", loaded.get("elevation"))
    if raster is None:
        raise TerrainError(
            f"expected an array `elevation`, got arrays: {', '.join(loaded) or 'none'}"
        )
    if raster.dtype.kind not in "iuf":
        raise TerrainError(f"expected real numbers, got {raster.dtype}")
    refuse_larger("its elevation", raster.size, VALUE_BYTES)
    return raster.astype(float)


def _read_geotiff(path: Path) -> np.ndarray:
    with open_geotiff(path, VALUE_BYTES) as source:
        return _north_up(source.read(1, masked=True).astype(float).filled(np.nan))


def _read_image(path: Path) -> np.ndarray:
    """Grey values: 0..255, or the values of images with 16 bits or floats."""
    from PIL import Image

    with Image.open(path) as image:
        refuse_larger("its raster", image.width * image.height, VALUE_BYTES)
        deep = image.mode.startswith(("I", "F"))
        return _north_up(np.asarray(image if deep else image.convert("L")))


_READERS: dict[str, Callable[[Path], np.ndarray]] = {
    **dict.fromkeys((".hgt", ".zip", ".gz"), _read_hgt),
    **dict.fromkeys((".npy", ".npz"), _read_numpy),
    **dict.fromkeys((".tif", ".tiff"), _read_geotiff),
    **dict.fromkeys(IMAGES, _read_image),
}


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


def without_voids(name: str, elevation: np.ndarray) -> np.ndarray:
    """Fill voids (NaN) by the nearest elevation.

    Raises:
        TerrainError: there are too many.
    """
    void = ~np.isfinite(elevation)
    if elevation.ndim != 2 or not void.any():
        return elevation  # of other shapes, Terrain raises the error
    if (share := void.mean()) > MAX_VOID_SHARE:
        raise TerrainError(
            f"terrain {name}: expected at most {MAX_VOID_SHARE:.0%} of voids, got "
            f"{share:.0%}; give a raster with filled voids"
        )
    return filled(elevation, ~void)


def paper_grey(name: str, elevation: np.ndarray) -> np.ndarray:
    """The paper's terrain: 360 x 360 whole grey values from 0 to 255, [360, 360].

    A raster of that size and range stays unchanged. Any other is resampled, scaled linearly and
    rounded, as in an 8-bit image.

    Raises:
        TerrainError: if the elevation is flat.
    """
    if elevation.ndim != 2 or min(elevation.shape) < 2:
        return elevation  # Terrain raises the error
    side, grey = (PAPER_SIDE, PAPER_SIDE), (0.0, float(WHITE))
    if elevation.shape == side and elevation.min() >= 0 and elevation.max() <= WHITE:
        return elevation
    # Scaled before resampling too: flat rasters are refused, their rounding is not enlarged.
    return np.rint(scaled(name, resampled(scaled(name, elevation, grey), side), grey))


def resampled(raster: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """A raster [rows, columns] resampled to ``shape`` on the same extent, bicubic: without aliases.

    Raises:
        TerrainError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise TerrainError(needs_extra("resampling", "Pillow", "sim")) from None
    image = Image.fromarray(raster.astype(np.float32))
    return np.asarray(image.resize(shape[::-1], Image.Resampling.BICUBIC), dtype=float)


def seamounts(seed: int) -> np.ndarray:
    """A smooth plain in the west that becomes rough ridges and seamounts in the east."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    plain = 0.25 * np.sin(1.5 * x + rng.uniform(0, 6)) * np.cos(1.2 * y + rng.uniform(0, 6))
    border = 0.25 * np.sin(3 * y + rng.uniform(0, 6))
    roughness = 1 / (1 + np.exp(-14 * (x - border)))
    hills = np.zeros_like(x)
    for _ in range(70):
        cx, cy = rng.uniform(-0.3, 1.1), rng.uniform(-1.1, 1.1)
        width, height = rng.uniform(0.04, 0.16), rng.uniform(0.2, 1.0)
        hills += height * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * width**2))
    ridges = 1 - np.abs(np.sin(9 * x + 4 * y + 2 * np.sin(3 * y) + rng.uniform(0, 6)))
    return scaled("seamounts", plain + roughness * (hills + 0.5 * ridges), (0.0, 255.0))


def corner(seed: int) -> np.ndarray:
    """Gentle undulations, and one small rugged corner that nothing around it indicates."""
    rng = np.random.default_rng(seed)
    x, y = np.meshgrid(np.linspace(-1, 1, SIDE), np.linspace(-1, 1, SIDE))
    swell = 0.5 * np.sin(1.3 * x + rng.uniform(0, 6)) * np.cos(1.1 * y + rng.uniform(0, 6))
    rugged = _fractal(rng, 4, 1.8)  # no wave longer than 15 m
    far = np.hypot(x - rng.choice([-0.7, 0.7]), y - rng.choice([-0.7, 0.7]))
    inside = 1 / (1 + np.exp(30 * (far - 0.28)))
    return scaled("corner", swell + 0.5 * inside * rugged, (0.0, 255.0))


def lake(seed: int) -> np.ndarray:
    """A flooded valley below a water level of 0: bottom from -30 to -3 m, for 62 m per side.

    An old stream has cut a shallow shelf with shoals. It winds down a slope of loose rock to a flat
    of mud with a hollow, the deepest place, and a wreck 14 m long.
    """
    rng = np.random.default_rng(seed)
    middles = HALF * (2 * np.arange(SIDE) + 1 - SIDE) / SIDE
    x, y = np.meshgrid(middles, middles)
    facing = np.pi / 4 + rng.uniform(-0.25, 0.25) + np.pi / 2 * rng.integers(4)
    phases = rng.uniform(0, 2 * np.pi, 4)
    down, along = _turned(x, y, facing)
    rugged, crooked = _fractal(rng, 3, 2.6), _fractal(rng, 2, 2.8)
    side = rng.choice([-1, 1])

    def stream(down: np.ndarray | float) -> np.ndarray | float:
        """Position of the stream along the shore."""
        return 5 * np.sin(down / 8 + phases[2]) + 1.5 * np.sin(down / 4.1 + phases[3])

    shore = 3 * np.sin(along / 9 + phases[0]) + 1.5 * np.sin(along / 4.3 + phases[1])
    out = down + shore
    z = -23 * _ramp((out + 19) / 42) - 0.06 * np.clip(out + 20, -20, 0)
    z += rugged * (0.12 + 0.45 * np.exp(-((out / 14) ** 2)))

    beside = np.abs(along - stream(down))
    bed, levees = np.exp(-((beside / 2.2) ** 4)), np.exp(-(((beside - 4) / 1.6) ** 2))
    z += (1 - _ramp((out - 10) / 12)) * (0.5 * levees - 2.6 * bed)
    z += np.exp(-(((down - 20) / 5) ** 2) - (beside / 7) ** 2)  # sediment of the stream

    for depth, across, height, width in ((-24, 11, 2.2, 4), (-12, -14, 3.5, 3.2), (-2, 13, 3, 2.6)):
        far = (down - depth) ** 2 + 1.7 * (along - side * across) ** 2
        z += height * np.exp(-((far / width**2 * np.exp(0.5 * crooked)) ** 1.2))

    free = -np.sign(stream(22.0))  # the side of the stream's mouth with more space
    far = (down - 24) ** 2 + 0.4 * (along - stream(24.0) + 12 * free) ** 2
    z -= 1.8 * np.exp(-far / 25 * np.exp(0.4 * crooked))
    hull = down - 22, along - stream(22.0) - 9 * free
    return scaled("lake", z, (-30.0, -3.0)) + _wreck(*_turned(*hull, rng.uniform(0, np.pi)))


def _wreck(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Height of a barge of 14 m by 4 m above the bottom, a along it: hull, hold and wheelhouse."""
    beam = 2 * np.sqrt(np.clip(1 - np.abs(a / 7) ** 2.5, 0, None))
    hull, hold = np.abs(b) < beam, (np.abs(b) < 0.65 * beam) & (a > -1.5) & (a < 4)
    house = (np.abs(b) < 0.6 * beam) & (a > -5.5) & (a < -2.5)
    return 2.0 * hull - 0.8 * hold + 1.4 * house


def _turned(x: np.ndarray, y: np.ndarray, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """x, y in axes turned by an angle."""
    cos, sin = np.cos(angle), np.sin(angle)
    return x * cos + y * sin, y * cos - x * sin


def _ramp(share: np.ndarray) -> np.ndarray:
    """From 0 to 1, smooth at both ends."""
    share = np.clip(share, 0, 1)
    return share**2 * (3 - 2 * share)


def _fractal(rng: np.random.Generator, longest: float, fall: float) -> np.ndarray:
    """Fractal terrain with standard deviation 1, whose spectrum falls with the wave number.

    Without waves that fit less than ``longest`` times into the side.
    """
    waves = np.hypot(*np.meshgrid(np.fft.fftfreq(SIDE), np.fft.fftfreq(SIDE)))
    spectrum = np.where(waves < longest / SIDE, 0.0, np.maximum(waves, 1 / SIDE) ** -fall)
    ground = np.fft.ifft2(np.fft.fft2(rng.standard_normal((SIDE, SIDE))) * spectrum).real
    return ground / ground.std()


def _jacksboro(seed: int) -> np.ndarray:
    """The Jacksboro fault, Tennessee: SRTM elevation that matplotlib ships as sample data."""
    try:
        from matplotlib.cbook import get_sample_data
    except ImportError:
        raise TerrainError(needs_extra("terrain jacksboro", "matplotlib", "sim")) from None
    with np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)) as data:
        elevation = data["elevation"]
    # Its `ymin` is the larger latitude: row 0 is the north edge.
    square = _north_up(elevation[:, : elevation.shape[0]])
    return scaled("jacksboro", square, (0.0, 255.0))


#: Terrains by name: functions of a seed.
BUILT_IN = {"jacksboro": _jacksboro, "seamounts": seamounts, "corner": corner, "lake": lake}
