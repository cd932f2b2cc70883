"""Where a map ends: at an outline of polygons with islands, read from the usual formats, or where
its soundings say nothing of the bottom.

And what its shore says of the depth: a bay that nobody sounded is as shallow as what is as near to
the shore elsewhere. How far this is believed, the trust, is learned from the soundings, as of any
prior (``models.prior``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import shapely

from ..core.errors import InputError
from ..core.geodesy import WGS84, GeoReference, is_in_feet, transformed
from ..core.geometry import Extent, Grid, Land
from ..core.maps import ElevationMap
from ..core.reading import parse_json
from ..core.vectors import MALFORMED, Rings, VectorLayer, geojson_layer, read_layer, shown_error
from ..models.prior import PriorMap
from ..outputs.folder import OUTLINE as FILE
from ..outputs.folder import OUTLINE_COLUMNS as COLUMNS
from ..outputs.folder import millimetres, write_table
from ..planning.area_files import read_areas

#: Cells along the longer side of the raster of its land.
LAND_CELLS = 1024
#: Number of directions in which soundings are searched around a cell, and how far: in units of the
#: 90 % quantile of the cells' distance to the nearest sounding.
DIRECTIONS, REACH = 16, 2.0
#: Maximum number of cells in the search; of a larger grid, every Nth.
CELLS = 40_000
#: Classes of distances, with the same number of soundings each; and the fewest soundings of one.
CLASSES, FEWEST = 8, 16
#: Standard deviation of the smoothing, in the median distance of soundings from land. Midway
#: between two shores distances have ridges, which a bottom has not: unsmoothed, what dense lines
#: predict between them gets worse.
SMOOTH = 0.5


@dataclass(frozen=True)
class Outline:
    """Polygons with islands, in the coordinates of the map in m. ``islands``: how many of the
    islands were polygons of their own in the file."""

    polygons: tuple[Rings, ...]
    file: str = ""
    islands: int = 0

    @property
    def described(self) -> dict[str, Any]:
        """The outline as recorded in config.yaml, with its area in m^2."""
        return {"file": self.file, "polygons": len(self.polygons), "area": round(self.area, 1)}

    @property
    def box(self) -> Extent:
        """The rectangle around all polygons."""
        corners = np.concatenate([rings[0] for rings in self.polygons])
        return Extent(*np.column_stack((corners.min(0), corners.max(0))).ravel().tolist())

    @property
    def area(self) -> float:
        """Area of all polygons without their islands, in m^2."""
        return sum(shapely.Polygon(rings[0], rings[1:]).area for rings in self.polygons)

    def write(self, folder: Path) -> None:
        """Write outline.csv: a row per corner, in m of the map."""
        rows = (
            (polygon, ring, *map(millimetres, corner))
            for polygon, rings in enumerate(self.polygons)
            for ring, corners in enumerate(rings)
            for corner in corners.tolist()
        )
        write_table(folder / FILE, COLUMNS, rows)

    @property
    def land(self) -> Land:
        """The land outside, as a raster of square cells; ``LAND_CELLS`` of them along the
        longer side."""
        box = self.box
        side = float(box.size.max()) / LAND_CELLS
        grid = Grid.cells(box.grown(2 * side), side)
        return Land(grid, self.covers(grid))

    def holds(self, xy: np.ndarray) -> np.ndarray:
        """Which of the points xy [N, 2] lie inside; boolean [N]."""
        return np.logical_or.reduce([_holds(rings, xy) for rings in self.polygons])

    def covers(self, grid: Grid) -> np.ndarray:
        """Which cells of a grid have their centre inside; boolean [rows, columns]."""
        return self.holds(grid.points).reshape(grid.shape)


def _holds(rings: Rings, xy: np.ndarray) -> np.ndarray:
    """Which of the points xy [N, 2] lie inside a border and outside its islands; boolean [N]."""
    if not all(np.isfinite(ring).all() for ring in rings):  # beyond the projection
        return np.zeros(len(xy), dtype=bool)
    polygon = shapely.Polygon(rings[0], rings[1:])
    shapely.prepare(polygon)
    held: np.ndarray = shapely.contains_xy(polygon, *xy.T)
    return held


def read_outline(path: Path, projection: GeoReference | None, xy: np.ndarray) -> Outline:
    """The polygons of a file that contain a sounding. Closed lines count as polygons. A polygon
    without a sounding that lies inside another one is an island.

    Args:
        path: GeoJSON, GeoPackage, Shapefile, KML, the fence or the surveys of a QGroundControl
            .plan, or another format that pyogrio reads.
        projection: that of the soundings; None: soundings and file share coordinates in m.
        xy: places of the soundings [N, 2], in m.

    Raises:
        InputError: the file cannot be read, has no polygon, or none with a sounding in it.
    """
    found: list[tuple[np.ndarray, ...]]
    if path.suffix.lower() == ".plan":
        found, crs = [(corners,) for _, corners in read_areas(path)[0]], None
    else:
        layer = _geojson(path) if path.suffix.lower() in (".geojson", ".json") else None
        layer = layer or read_layer(path, "an outline in this format")
        closed = (each for each, _ in layer.places if len(each) > 3 and (each[0] == each[-1]).all())
        found = [*layer.polygons, *((line,) for line in closed)]
        crs = layer.crs
        if projection is None and crs is not None and is_in_feet(str(path), crs):
            raise InputError(
                f"{path}: is in feet ({crs}), and the soundings are in no known coordinate system. "
                f"If they are in this one: --crs {crs}"
            )
    polygons = [tuple(_in_metres(ring, crs, projection, path) for ring in rings) for rings in found]
    if not polygons:
        raise InputError(f"{path}: expected polygons or closed lines of an outline, got none")
    sounded = [bool(_holds(rings, xy).any()) for rings in polygons]
    kept, islands = [rings for rings, yes in zip(polygons, sounded, strict=True) if yes], 0
    if not kept:
        raise InputError(
            f"{path}: expected soundings inside its polygons, got none "
            f"({_elsewhere(found, polygons, crs, projection, xy)})"
        )
    for border in (rings[0] for rings, yes in zip(polygons, sounded, strict=True) if not yes):
        around = next((i for i, rings in enumerate(kept) if _holds(rings, border).all()), None)
        if around is not None:
            kept[around], islands = (*kept[around], border), islands + 1
    return Outline(tuple(kept), str(path.resolve()), islands)


def _elsewhere(
    found: Sequence[Rings], polygons: Sequence[Rings], crs: str | None,
    projection: GeoReference | None, xy: np.ndarray,
) -> str:  # fmt: skip
    """Where polygons without any sounding lie, and what may be wrong."""
    corners = np.concatenate([rings[0] for rings in polygons])
    if projection is not None:
        written = np.concatenate([rings[0] for rings in found])
        turned = written[:, ::-1]
        if crs is None and (np.abs(turned) <= (180.0, 90.0)).all():
            swapped = projection.local_metres(turned[:, 1], turned[:, 0])
            meet = (swapped.min(0) <= xy.max(0)).all() and (xy.min(0) <= swapped.max(0)).all()
            if np.isfinite(swapped).all() and meet:
                return "they are inside if its longitudes and latitudes are swapped: correct them"
        away = np.hypot(*(corners - np.median(xy, axis=0)).T)
        if not np.isfinite(away).any():
            return "it is on another side of the Earth"
        return f"its nearest corner is {np.nanmin(away) / 1000:.3g} km from their middle"
    (low, high), (least, most) = ((each.min(0), each.max(0)) for each in (corners, xy))
    text = (
        f"polygons: x {low[0]:.6g} to {high[0]:.6g} m, y {low[1]:.6g} to {high[1]:.6g} m; "
        f"soundings: x {least[0]:.6g} to {most[0]:.6g} m, y {least[1]:.6g} to {most[1]:.6g} m"
    )
    if (np.abs(corners) <= (180.0, 90.0)).all():
        text += "; if it is in degrees, the soundings need --crs"
    return text


def _in_metres(
    ring: np.ndarray, crs: str | None, projection: GeoReference | None, path: Path
) -> np.ndarray:
    """Corners of a file [K, 2] in the map's metres."""
    if len(ring) < 3 or not np.isfinite(ring).all():
        raise InputError(f"{path}: expected rings of three corners or more, all of them numbers")
    if projection is None:
        return ring
    if crs is not None:
        ring = transformed(crs, WGS84, ring)
    if not (np.abs(ring) <= (180.0, 90.0)).all():
        raise InputError(
            f"{path}: expected degrees, longitude before latitude, got {ring[0, 0]:.9g} "
            f"{ring[0, 1]:.9g}"
        )
    return projection.local_metres(ring[:, 1], ring[:, 0])


def _geojson(path: Path) -> VectorLayer | None:
    """The shapes of a GeoJSON file in degrees; None if it names another coordinate system, as it
    could before RFC 7946."""
    try:
        tree = parse_json(path)
        named = tree.get("crs")
        if named and not any(name in json.dumps(named) for name in ("CRS84", "4326")):
            return None
        return geojson_layer(tree)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except MALFORMED as error:
        raise InputError(f"{path}: expected GeoJSON ({shown_error(error)})") from None


def shore_prior(land: Land | None, xy: np.ndarray, z: np.ndarray) -> PriorMap | None:
    """The median elevation of soundings at xy [N, 2], z [N] (m) by distance from land, between
    classes of distances by interpolation, and smoothed (a Gaussian); None without land or with too
    few soundings.

    Nothing is assumed of the edge itself: nearer than the first class its elevation is kept.
    """
    if land is None or land.water.all() or len(z) < CLASSES * FEWEST:
        return None
    from scipy.ndimage import gaussian_filter

    distance = land.grid.interpolate(land.to_land, xy)
    classes = np.array_split(np.argsort(distance, kind="stable"), CLASSES)
    middle, usual = ([np.median(of[rows]) for rows in classes] for of in (distance, z))
    mean = np.interp(land.to_land, middle, usual)
    width = SMOOTH * float(np.median(distance)) / land.side
    mean = gaussian_filter(mean, width, mode="nearest")
    return PriorMap(land.grid, mean, np.zeros_like(mean), "depth by distance from the shore")


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
    step, (rows, columns) = int(np.ceil(np.sqrt(water.size / CELLS))), water.shape
    coarse = slice(step // 2, None, step)
    found = between_soundings(Grid(grid.x[coarse], grid.y[coarse]), water[coarse, coarse], xy)
    found = np.pad(found.repeat(step, 0).repeat(step, 1), (0, step), mode="edge")
    between = found[:rows, :columns] & water
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
    most = int(2 * reach / side)
    state = np.pad(np.where(water, 1 + sounded, 0), most)  # land 0, water 1, soundings 2
    cells, turns = np.array(np.nonzero(water)), 2 * np.pi * np.arange(DIRECTIONS) / DIRECTIONS
    met = np.zeros((DIRECTIONS, cells.shape[1]), dtype=bool)
    for found, angle in zip(met, turns, strict=True):
        going, way = np.arange(cells.shape[1]), np.array([[np.sin(angle)], [np.cos(angle)]]) / 2
        for step in range(1, most + 1):  # of half a cell: no path skips land that is a cell wide
            row, column = np.rint(cells[:, going] + step * way).astype(np.int64) + most
            there = state[row, column]
            found[going[there == 2]] = True
            going = going[there == 1]
    half = (np.roll(met, turn, axis=0)[: DIRECTIONS // 2] for turn in range(DIRECTIONS))
    between = sounded & water
    between[water] |= np.all([seen.any(0) for seen in half], axis=0)
    return between
