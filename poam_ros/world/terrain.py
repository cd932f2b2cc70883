"""Ground truth: real or generated elevation, placed on the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..errors import InputError, TerrainError
from ..geometry import Extent, Grid
from .preparation import PREPARATIONS, filled, scaled, without_depths
from .rasters import FORMATS, needing, north_up, read_raster

#: The paper's environment, and the workspace in it: the vehicle needs 1 m to turn.
ENVIRONMENT = Extent(-31.0, 31.0, -31.0, 31.0)
WORKSPACE = Extent(-30.0, 30.0, -30.0, 30.0)

TILE_NAME = re.compile(r"([NS])(\d{2})([EW])(\d{3})", re.IGNORECASE)
#: The public copy of the Mapzen terrain tiles: SRTM and better, one .hgt per degree, no login.
TILE_ADDRESS = "https://s3.amazonaws.com/elevation-tiles-prod/skadi/{row}/{tile}.hgt.gz"


@dataclass(frozen=True)
class Terrain:
    """Elevation [rows, columns] in m on an extent: row 0 south, column 0 west.

    The extent is that of the cells' outer borders; a value belongs to the centre of its cell.
    ``source`` is what it was loaded from.

    Raises:
        TerrainError: if the elevation is not a matrix of at least 2 x 2 finite numbers.
    """

    name: str
    elevation: np.ndarray
    extent: Extent = ENVIRONMENT
    source: str = ""

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

    Voids are filled first, then the elevation is prepared, then scaled.

    Args:
        source: ``jacksboro`` (real), ``seamounts`` and ``corner`` (generated), an SRTM tile such as
            ``N17E073`` (fetched once, then cached), or the path of a raster.
        extent: where the raster's outer borders lie, in m.
        elevation_range: (lowest, highest) in m to scale the elevation to, linearly.
        preparation: a name of ``PREPARATIONS``, such as ``paper`` for the paper's grey values;
            None: the elevation as it is.
        seed: of a generated terrain.

    Raises:
        TerrainError: if it cannot be found or read, holds too many voids, or is flat where it is to
            be scaled.
        InputError: if the elevation range is empty or the preparation unknown.
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
    if preparation is not None:
        if TILE_NAME.fullmatch(source) or ".hgt" in path.name.lower():
            elevation = without_depths(elevation)
        elevation = PREPARATIONS[preparation](name, elevation)
    if elevation_range is not None:
        elevation = scaled(name, elevation, elevation_range)
    return Terrain(name, elevation, extent, source)


def _fetch_tile(tile: str) -> Path:
    """The path of an SRTM tile in the user's cache; fetched there if it is not in it yet."""
    found = TILE_NAME.fullmatch(tile)
    assert found
    if int(found[2]) > 90 or int(found[4]) > 180:
        raise TerrainError(f"terrain {tile}: no such tile, expected N/S 00..90 and E/W 000..180")
    address = TILE_ADDRESS.format(row=tile[:3], tile=tile)
    by_hand = f"give a file instead, such as --terrain {tile}.hgt"
    extra = "needs pooch (pip install 'poam_ros[download]')"
    with needing(tile, f": fetching {address} {extra}; {by_hand}"):
        import pooch
    pooch.get_logger().setLevel("WARNING")  # one line is enough if it fails
    cache = Path(os.environ.get("POAM_CACHE") or pooch.os_cache("poam_ros"))
    try:
        # No hash is known: the mirror publishes none. A broken file is found when it is read.
        path = pooch.retrieve(address, None, fname=f"{tile}.hgt.gz", path=cache, progressbar=False)
    except Exception as error:  # whatever the transport raises: offline, refused, not there
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        missing = f"not in {cache} and not to be had from {address} ({reason[:120]})"
        raise TerrainError(f"terrain {tile}: {missing}; {by_hand}") from None
    return Path(path)


def _jacksboro(seed: int) -> np.ndarray:
    """The Jacksboro fault, Tennessee: SRTM elevation that matplotlib ships as sample data."""
    missing = "comes with matplotlib, which is not installed (pip install 'poam_ros[sim]')"
    with needing("jacksboro", f" {missing}"):
        from matplotlib.cbook import get_sample_data
    with np.load(get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)) as data:
        elevation = data["elevation"]
    # Its `ymin` is the larger latitude: row 0 is the north edge.
    square = north_up(elevation[:, : elevation.shape[0]])
    return scaled("jacksboro", square, (0.0, 255.0))


def _seamounts(seed: int) -> np.ndarray:
    """A smooth plain in the west that turns into rough ridges and seamounts in the east."""
    rng = np.random.default_rng(seed)
    count = 360
    x, y = np.meshgrid(np.linspace(-1, 1, count), np.linspace(-1, 1, count))
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


def _corner(seed: int) -> np.ndarray:
    """A gentle swell, and one small rugged corner of which it says nothing."""
    rng = np.random.default_rng(seed)
    count = 360
    x, y = np.meshgrid(np.linspace(-1, 1, count), np.linspace(-1, 1, count))
    swell = 0.5 * np.sin(1.3 * x + rng.uniform(0, 6)) * np.cos(1.1 * y + rng.uniform(0, 6))
    # Fractal ground: a spectrum that falls with the wave number, and no wave longer than 15 m.
    waves = np.hypot(*np.meshgrid(np.fft.fftfreq(count), np.fft.fftfreq(count)))
    spectrum = np.where(waves < 4 / count, 0.0, np.maximum(waves, 1 / count) ** -1.8)
    rugged = np.fft.ifft2(np.fft.fft2(rng.standard_normal((count, count))) * spectrum).real
    far = np.hypot(x - rng.choice([-0.7, 0.7]), y - rng.choice([-0.7, 0.7]))
    corner = 1 / (1 + np.exp(30 * (far - 0.28)))
    return scaled("corner", swell + 0.5 * corner * rugged / rugged.std(), (0.0, 255.0))


BUILT_IN = {"jacksboro": _jacksboro, "seamounts": _seamounts, "corner": _corner}
