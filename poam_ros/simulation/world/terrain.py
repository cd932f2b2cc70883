"""Ground truth: real or generated elevation, placed on the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from ...core.errors import InputError, TerrainError, needs_extra
from ...core.geometry import Extent, Grid
from .rasters import (
    FORMATS,
    PREPARATIONS,
    filled,
    north_up,
    read_raster,
    requires_package,
    scaled,
    without_sea_depths,
)

#: Cells per side.
SIDE = 360
#: Scale of ``lake``: half the side of the paper's environment, in m.
HALF = 31.0


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


#: The paper's environment, and its workspace: the vehicle needs 1 m to turn.
ENVIRONMENT = Extent(-31.0, 31.0, -31.0, 31.0)
WORKSPACE = Extent(-30.0, 30.0, -30.0, 30.0)

TILE_NAME = re.compile(r"([NS])(\d{2})([EW])(\d{3})", re.IGNORECASE)
#: The public copy of the Mapzen terrain tiles: SRTM and better, one .hgt per degree, no login.
TILE_ADDRESS = "https://s3.amazonaws.com/elevation-tiles-prod/skadi/{row}/{tile}.hgt.gz"


@dataclass(frozen=True)
class SonarDefaults:
    """Sonar settings that suit a terrain: noise of a range (standard deviation), and height of the
    sonar above the highest place, both in m."""

    noise_std: float = 1.0
    clearance: float = 5.0


@dataclass(frozen=True)
class Terrain:
    """Elevation [rows, columns] in m on an extent: row 0 south, column 0 west.

    The extent is that of the cells' outer borders; a value is that of its cell's centre.
    ``source``: what it was loaded from. ``sonar_defaults``: for settings that a sonar leaves open.

    Raises:
        TerrainError: the elevation is not a matrix of at least 2 x 2 finite numbers.
    """

    name: str
    elevation: np.ndarray
    extent: Extent = ENVIRONMENT
    source: str = ""
    sonar_defaults: SonarDefaults = field(default_factory=SonarDefaults)

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
        preparation: a name of ``PREPARATIONS``, such as ``paper`` for the paper's grey values;
            None: the elevation is unchanged.
        seed: of a generated terrain.

    Raises:
        TerrainError: it cannot be found or read, has too many voids, or is flat and cannot be
            scaled.
        InputError: the elevation range is empty, or the preparation unknown.
    """
    if preparation is not None and preparation not in PREPARATIONS:
        raise InputError(
            f"preparation: expected one of {', '.join(PREPARATIONS)}, got {preparation!r}"
        )
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
    elevation = filled(name, elevation)
    unchanged = preparation is None and elevation_range is None
    if preparation is not None:
        if TILE_NAME.fullmatch(source) or ".hgt" in path.name.lower():
            elevation = without_sea_depths(elevation)
        elevation = PREPARATIONS[preparation](name, elevation)
    if elevation_range is not None:
        elevation = scaled(name, elevation, elevation_range)
    # The defaults of a lake do not suit its shape at another scale.
    defaults = SONAR_DEFAULTS.get(source, SonarDefaults()) if unchanged else SonarDefaults()
    return Terrain(name, elevation, extent, source, defaults)


def _fetch_tile(tile: str) -> Path:
    """The path of an SRTM tile in the user's cache, after fetching it if needed."""
    parts = TILE_NAME.fullmatch(tile)
    assert parts
    if int(parts[2]) > 90 or int(parts[4]) > 180:
        raise TerrainError(f"terrain {tile}: no such tile, expected N/S 00..90 and E/W 000..180")
    address = TILE_ADDRESS.format(row=tile[:3], tile=tile)
    by_hand = f"give a file instead, such as --terrain {tile}.hgt"
    needed = needs_extra(f"fetching {address}", "pooch", "download")
    with requires_package(tile, f": {needed}; {by_hand}"):
        import pooch
    pooch.get_logger().setLevel("WARNING")  # one line is enough if it fails
    cache = Path(os.environ.get("POAM_CACHE") or pooch.os_cache("poam_ros"))
    try:
        # No hash is known: the mirror publishes none. A broken file is found when it is read.
        path = pooch.retrieve(address, None, fname=f"{tile}.hgt.gz", path=cache, progressbar=False)
    except Exception as error:  # of any type, by transport: offline, refused, not found
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        missing = f"not in {cache} and not available from {address} ({reason[:120]})"
        raise TerrainError(f"terrain {tile}: {missing}; {by_hand}") from None
    return Path(path)


def _jacksboro(seed: int) -> np.ndarray:
    """The Jacksboro fault, Tennessee: SRTM elevation that matplotlib ships as sample data."""
    with requires_package("jacksboro", needs_extra("", "matplotlib", "sim")):
        from matplotlib.cbook import get_sample_data
    with np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)) as data:
        elevation = data["elevation"]
    # Its `ymin` is the larger latitude: row 0 is the north edge.
    square = north_up(elevation[:, : elevation.shape[0]])
    return scaled("jacksboro", square, (0.0, 255.0))


#: Terrains by name: functions of a seed.
BUILT_IN = {"jacksboro": _jacksboro, "seamounts": seamounts, "corner": corner, "lake": lake}
#: Defaults of the sonar, where they are not ``SonarDefaults()``.
SONAR_DEFAULTS = {"lake": SonarDefaults(noise_std=0.1, clearance=2.5)}
