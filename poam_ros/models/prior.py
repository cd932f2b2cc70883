"""A prior map: what is known of the bottom before a survey, as the mean of a map model.

The model learns z - b m(x), and b m(x) is added to its predictions: kriging with an external drift
(Wackernagel 2003, ch. 37) whose factor b, the trust, is estimated from the pings. The trust is 0
for a prior that says nothing about the bottom.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, requires_extra, shown
from ..core.files import UNREADABLE, atomic_write
from ..core.geodesy import GeoReference, transformed
from ..core.geometry import Extent, Grid, filled
from ..core.reading import open_geotiff, read_arrays, read_yaml
from ..core.settings import flat

#: The file of the prior in the folder of a mission or a run.
FILE = "prior.npz"
#: Number of cells along the longer side of the workspace.
CELLS = 512
#: Maximum number of pings to learn the trust from; places where gaps between pings are measured.
PINGS, PLACES = 1000, 256
#: The trust comes from pairs of pings whose distance is one to this many gaps; and the minimum
#: number of pairs.
REACH, FEWEST = 3.0, 64
#: The standard error of the trust comes from leaving out each of this many parts of the pings.
PARTS = 16
#: Descriptions of a band of standard deviations.
SIGMA = re.compile(r"sigma|std|standard deviation")
#: Only trenches are deeper than this, in m; values such as -9999 mean "unknown".
HIGHEST = 9_000.0
#: A trust below this many standard errors becomes 0.
SIGNIFICANT = 3.0


@dataclass(frozen=True)
class PriorMap:
    """Elevations that are expected before the first ping.

    Attributes:
        grid: over the workspace.
        mean: elevation [rows, columns], in m.
        deviation: its standard deviation [rows, columns], in m; 0 where it is unknown.
        name: in messages.
    """

    grid: Grid
    mean: np.ndarray
    deviation: np.ndarray
    name: str = "prior"

    @cached_property
    def _drift(self) -> np.ndarray:
        """m on the grid [rows, columns], in m, without its average; with known deviations the best
        linear estimate."""
        variance = self.mean.var()
        weight = variance / np.maximum(variance + self.deviation**2, 1e-12)
        return weight * (self.mean - np.average(self.mean, weights=weight + 1e-12))

    def at(self, xy: np.ndarray) -> np.ndarray:
        """m at places [N, 2], in m: [N]."""
        return self.grid.interpolate(self._drift, xy)

    def trust(self, xy: np.ndarray, z: np.ndarray, seed: int) -> float | None:
        """The factor b, from 0 to 1, by which m explains differences of elevations across gaps
        between pings.

        b minimises the mean square of dz - b dm over pairs of pings. It is reduced by its own
        uncertainty, and 0 where it is not significant.

        Args:
            xy: places of the pings [N, 2], in m.
            z: their elevations [N], in m.
            seed: of the choice of pings.

        Returns:
            The trust; None if too few pings are that far apart.
        """
        rng = np.random.default_rng(seed)
        chosen = rng.permutation(len(z))[:PINGS]
        extent = Extent(self.grid.x[0], self.grid.x[-1], self.grid.y[0], self.grid.y[-1])
        places = extent.lower + extent.size * rng.random((PLACES, 2))
        gap = np.median([np.hypot(*(xy - place).T).min() for place in places])
        xy, z, m = xy[chosen], z[chosen], self.at(xy[chosen])
        i, j = np.triu_indices(len(z), 1)
        distance = np.hypot(*(xy[i] - xy[j]).T)
        pairs = (distance >= gap) & (distance <= REACH * gap)
        i, j = i[pairs], j[pairs]
        if len(i) < FEWEST:
            return None
        dz, dm = z[i] - z[j], m[i] - m[j]
        # Parts of the area, so that those left out are independent of the rest.
        part = _cells(xy, extent)[i]
        products, squares = (np.bincount(part, d * dm, PARTS) for d in (dz, dm))
        used = squares > 0
        if used.sum() < 2:
            return 0.0
        product, square = products.sum(), squares.sum()
        b, rest = product / square, square - squares[used]
        if b <= 0 or not (rest > 0).all():
            return 0.0
        without, count = (product - products[used]) / rest, used.sum()
        error = math.sqrt((count - 1) / count * np.square(without - without.mean()).sum())
        return float(min(b * max(0.0, 1 - (SIGNIFICANT * error / b) ** 2), 1.0))

    def write(self, folder: Path) -> None:
        """Write prior.npz. Raises ``OSError`` if it cannot be written."""
        with atomic_write(folder / FILE) as file:
            np.savez_compressed(
                file, x=self.grid.x, y=self.grid.y, mean=self.mean, deviation=self.deviation
            )

    @classmethod
    def of_folder(cls, folder: Path) -> PriorMap | None:
        """The prior in the folder of a mission or a run; None if there is none.

        Raises:
            InputError: the file is damaged.
        """
        if not (folder / FILE).exists():
            return None
        try:
            arrays = read_arrays(folder / FILE)
            grid = Grid.of_file(arrays["x"], arrays["y"])
            mean, deviation = (np.asarray(arrays[n], dtype=float) for n in ("mean", "deviation"))
            fine = mean.shape == deviation.shape == grid.shape and np.isfinite(mean).all()
            if not (fine and (deviation >= 0).all()):
                raise ValueError("wrong shapes or values")
        except (*UNREADABLE, IndexError) as error:
            raise InputError(
                f"{folder / FILE}: expected the prior as it was written ({error})"
            ) from None
        return cls(grid, mean, deviation)


def _cells(xy: np.ndarray, extent: Extent) -> np.ndarray:
    """The part of the extent, of ``PARTS``, that each place [N, 2] lies in [N]."""
    side = math.isqrt(PARTS)
    column, row = np.clip((xy - extent.lower) / extent.size * side, 0, side - 1).astype(int).T
    return row * side + column


def read_prior(file: str, workspace: Extent, place: GeoReference | None) -> PriorMap | None:
    """The prior from a file, over a workspace, as in the setting ``prior``; None without a file.

    Args:
        file: GeoTIFF, or folder of an earlier run.
        workspace: of the map, in m.
        place: the map's georeference; None: unknown, so that the file must be in the map's metres.

    Raises:
        InputError: the file cannot be read, does not cover the workspace, or has a georeference
            while the map has none.
    """
    if not file:
        return None
    path = Path(file).expanduser()
    side = float(workspace.size.max()) / CELLS
    columns, rows = np.maximum(np.ceil(workspace.size / side), 1).astype(int) + 1
    grid = Grid.nodes(workspace, int(columns), int(rows))
    try:
        found = (_of_run if path.is_dir() else _of_geotiff)(path, grid.points, place)
    except InputError as error:
        raise InputError(f"prior: {path}: {error}") from None
    except OSError as error:
        raise InputError(f"prior: {path}: cannot be read ({error.strerror or error})") from None
    mean, deviation = (values.reshape(grid.shape) for values in found)
    known = np.isfinite(mean)
    if (np.abs(mean[known]) > HIGHEST).any():
        worst = float(mean[known][np.abs(mean[known]).argmax()])
        raise InputError(
            f"prior: {path}: expected elevations in m, got {worst:g}; if it stands for unknown "
            "places, declare it as the file's nodata value"
        )
    if known.mean() < 0.5:
        raise InputError(
            f"prior: {path}: expected elevations over the workspace, got them for "
            f"{100 * known.mean():.0f} % of it"
        )
    mean, deviation = (filled(values, known) for values in (mean, deviation))
    usable = np.isfinite(deviation) & (deviation >= 0)
    largest = float(deviation[usable].max()) if usable.any() else 0.0
    return PriorMap(grid, mean, np.where(usable, deviation, largest))


def _of_run(
    folder: Path, xy: np.ndarray, place: GeoReference | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation at places [N, 2] from map.npz of a run, [N] each."""
    try:
        arrays = read_arrays(folder / "map.npz")
        grid = Grid.of_file(arrays["x"], arrays["y"])
        mean, variance = (np.asarray(arrays[name], dtype=float) for name in ("mean", "variance"))
        with np.errstate(invalid="ignore"):
            layers = mean, np.sqrt(variance)  # negative variances become NaN: unknown
        if not layers[0].shape == layers[1].shape == grid.shape:
            raise ValueError("wrong shapes")
        there = _origin(read_yaml(folder / "config.yaml"))
    except (*UNREADABLE, IndexError) as error:
        text = shown(str(error), 200)
        raise InputError(f"expected the map.npz and config.yaml of a run ({text})") from None
    if there is not None and place is not None:
        xy = place.moved(xy, there)
    inside = grid.borders.contains(xy)
    mean, deviation = (np.where(inside, grid.interpolate(v, xy), np.nan) for v in layers)
    return mean, deviation


def _origin(config: Any) -> GeoReference | None:
    """The georeference of a run's map, from its config.yaml; None: unknown. Nodes record their own
    settings: the planner has the origin."""
    known = flat(config.get("nodes", {}).get("planner", config))
    return GeoReference.given(known.get("origin"), known.get("heading"))


def _of_geotiff(
    path: Path, xy: np.ndarray, place: GeoReference | None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation at places [N, 2] from a GeoTIFF, [N] each."""
    with requires_extra("prior", "rasterio", "geotiff"):
        from rasterio.errors import RasterioError
    try:
        with open_geotiff(path, 32) as source:
            placed = source.crs is not None or not source.transform.is_identity
            if not placed or source.transform.is_degenerate:
                raise InputError("it does not say where it lies: no coordinates of its corners")
            names = [(name or "").lower() for name in source.descriptions]
            second = next((i for i, name in enumerate(names, 1) if SIGMA.search(name)), None)
            if second is None and source.count > 1 and not any(names):
                second = 2
            layers = source.read([1] if second is None else [1, second], masked=True)
            inverse, bounds, crs = ~source.transform, source.bounds, source.crs
    except RasterioError as error:
        raise InputError(f"expected a GeoTIFF or the folder of a run ({error})") from None
    if crs is not None and (crs.is_geographic or crs.is_projected):
        if place is None:
            raise InputError(
                "it lies on the Earth, and where the map does is unknown: set the map's `origin`"
            )
        xy = transformed(place.system(), crs.to_wkt(), place.to_projected(xy))
        if crs.is_geographic:  # a raster may continue beyond 180 degrees
            west = bounds.left
            xy[:, 0] = west + (xy[:, 0] - west) % 360
    rows, columns = layers.shape[1:]
    pixel = Grid(np.arange(columns) + 0.5, np.arange(rows) + 0.5)
    at = np.column_stack([
        inverse.a * xy[:, 0] + inverse.b * xy[:, 1] + inverse.c,
        inverse.d * xy[:, 0] + inverse.e * xy[:, 1] + inverse.f,
    ])  # fmt: skip
    inside = ((at >= 0) & (at <= (columns, rows))).all(1)
    found = [
        np.where(inside, pixel.interpolate(layer.astype(float).filled(np.nan), at), np.nan)
        for layer in layers
    ]
    mean = -found[0] if names[0].startswith("depth") else found[0]
    return mean, found[1] if len(found) > 1 else np.zeros(len(xy))
