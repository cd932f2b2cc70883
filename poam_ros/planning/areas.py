"""The navigable area: a rectangle, a polygon within it, keep-outs. By shapely.

All tests use distances: a leg that stays at least ``margin`` from a border cannot cross it, even
with rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import shapely

from ..core.errors import InputError
from ..core.geodesy import HEADING, ORIGIN, GeoReference
from ..core.geometry import MAX_COORDINATE, Extent
from ..core.settings import Settings, field_of, setting
from .area_files import WORKSPACE, read_areas, read_goals

SLACK = 1e-6  # m: rounding may put a place on the border just beyond it
RASTER = 48  # places per side of the grid of places
MAX_CORNERS = 200  # the time for a route grows with their square
MIN_AREA = 1e-9  # m^2
MAX_DISTANCE_M = 200e3  # m; farther from the origin, the origin or a coordinate is wrong


def ring(corners: np.ndarray, name: str) -> np.ndarray:
    """The corners of a simple polygon, counter-clockwise, without repeats [K, 2].

    Raises:
        InputError: ``name`` is not a polygon, or crosses itself.
    """
    points = np.asarray(corners, dtype=float)
    if points.ndim != 2 or points.shape[1] != 2 or not (np.abs(points) <= MAX_COORDINATE).all():
        raise InputError(f"{name}: expected corners x y in metres, got {np.shape(corners)}")
    points = points[(points != np.roll(points, 1, axis=0)).any(axis=1)]  # the closing one, too
    if len(points) < 3:
        raise InputError(f"{name}: expected at least 3 different corners, got {len(points)}")
    if len(points) > MAX_CORNERS:
        raise InputError(f"{name}: expected at most {MAX_CORNERS} corners, got {len(points)}")
    polygon = shapely.Polygon(points)
    if not shapely.minimum_rotated_rectangle(polygon).area > MIN_AREA:
        raise InputError(f"{name}: expected an area, got corners in a line")
    fault, _, where = shapely.is_valid_reason(polygon).partition("[")
    if fault == "Self-intersection":  # as a ring, it may touch itself
        raise InputError(f"{name}: its sides cross each other at {where.rstrip(']')}")
    return points if polygon.exterior.is_ccw else points[::-1]


def inside(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Which points [N, 2] lie in a simple polygon [K, 2]; boolean [N]."""
    polygon = shapely.Polygon(corners)
    shapely.prepare(polygon)
    found: np.ndarray = shapely.contains_xy(polygon, *points.T)
    return found


@dataclass(frozen=True, eq=False)
class NavigableArea:
    """The workspace inside a polygon and outside keep-outs, ``margin`` m from their borders.

    The workspace itself has no margin: legs between goals inside the rectangle stay inside it.

    Attributes:
        workspace: the rectangle.
        polygon: corners of the area within it, in order [K, 2] in m; None: all of it.
        keep_outs: corners of each keep-out, in order [K, 2] in m.
        margin: distance of goals and legs from borders, in m.

    Raises:
        InputError: a polygon is invalid, the margin is not positive, or no place is allowed.
    """

    workspace: Extent
    polygon: np.ndarray | None = None
    keep_outs: Sequence[np.ndarray] = ()
    margin: float = 1.0
    _rings: tuple[np.ndarray, ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.margin < math.inf:
            raise InputError(f"margin: expected a positive number of metres, got {self.margin}")
        outer = () if self.polygon is None else (ring(self.polygon, "polygon"),)
        inner = tuple(ring(c, f"keep-out {k}") for k, c in enumerate(self.keep_outs, 1))
        if sum(map(len, (*outer, *inner))) > MAX_CORNERS:
            raise InputError(f"areas: expected at most {MAX_CORNERS} corners in all; simplify them")
        # The forbidden side is on the left of every border.
        rings = (*(corners[::-1] for corners in outer), *inner)
        values = {"polygon": outer[0] if outer else None, "keep_outs": inner, "_rings": rings}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if rings and not len(self._candidates(self.workspace.centre)):
            raise InputError("areas: polygon and keep-outs leave no place in the workspace")

    @property
    def unrestricted(self) -> bool:
        """Whether all of the rectangle is allowed."""
        return not self._rings

    def allowed(self, points: np.ndarray) -> np.ndarray:
        """Which of the points [N, 2] are allowed as goals; boolean [N]."""
        points = np.asarray(points, dtype=float)
        good = self.workspace.contains(points, SLACK)
        if self.unrestricted or not good.any():
            return good
        good &= self._open(points)
        good[good] = self._gap(points[good]) >= self.margin
        return good

    def leg_allowed(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Which straight legs from starts [N, 2] or [2] to ends [N, 2] are allowed; boolean [N].

        A leg may start outside the rectangle, but not outside the polygon or in a keep-out.
        """
        ends = np.asarray(ends, dtype=float)
        good = self.allowed(ends)
        if self.unrestricted or not good.any():
            return good
        starts = np.broadcast_to(np.asarray(starts, dtype=float), ends.shape)
        good[good] = self.visible(starts[good], ends[good])
        return good

    def visible(
        self, starts: np.ndarray, ends: np.ndarray, margin: float | None = None
    ) -> np.ndarray:
        """As ``leg_allowed``, for ends that are known to be allowed; ``margin``: another one."""
        starts, ends = np.broadcast_arrays(starts, ends)
        return self._gap(starts, ends) >= (self.margin if margin is None else margin)

    def gap(self, place: np.ndarray) -> float:
        """Distance of a place [2] from the nearest border, in m; 0 on its wrong side."""
        if self.unrestricted:
            return math.inf
        return float(self._gap(place[None])[0]) if self._open(place[None])[0] else 0.0

    def too_close(self, position: np.ndarray, goal: np.ndarray) -> bool:
        """Whether the rest of the leg to a goal [2] comes nearer to a border than half the margin
        (a vehicle never follows its leg exactly), and nearer than the position is now."""
        if self.unrestricted:
            return False
        rest = float(self._gap(position[None], goal[None])[0])
        return rest < self.margin / 2 and (rest == 0.0 or rest < self.gap(position) - SLACK)

    def outside(self, position: np.ndarray) -> float:
        """How far the position [2] is outside rectangle and polygon, in m; ignores keep-outs."""
        position = np.asarray(position, dtype=float)
        beyond = math.dist(position, self.workspace.clip(position))
        if self.polygon is None or inside(self.polygon, position[None])[0]:
            return beyond
        return max(beyond, float(self._gap(position[None], border=self.polygon)[0]))

    def nearest(self, point: np.ndarray) -> np.ndarray:
        """The allowed place nearest to the point [2]; the point itself if it is allowed.

        If possible, the leg to it crosses no border except those that the point is on the wrong
        side of.
        """
        point = np.asarray(point, dtype=float)
        if self.unrestricted or self.allowed(point[None])[0]:
            return self.workspace.clip(point)
        places = self._candidates(point)
        places = places[np.argsort(np.linalg.norm(places - point, axis=1), kind="stable")]
        legs = np.broadcast_to(point, places.shape)
        free = np.ones(len(places), dtype=bool)
        for border in self._rings:
            wrong = inside(border, point[None])[0] == shapely.LinearRing(border).is_ccw
            if not wrong and self._gap(point[None], border=border)[0] >= self.margin:
                free &= self._gap(legs, places, border) >= self.margin
        return places[np.argmax(free)]  # the nearest, where none is free

    @cached_property
    def corners(self) -> np.ndarray:
        """Allowed places around the corners of all borders, where routes turn [M, 2]."""
        return self.corners_at(self.margin)

    def corners_at(self, reach: float) -> np.ndarray:
        """Allowed places around the corners of all borders [M, 2]. Legs between neighbouring ones
        keep ``reach`` m from the corner."""
        found = [np.empty((0, 2))]
        for border in self._rings:
            normals = _outward(border) @ (1, 1j)
            before = np.roll(normals, 1)
            turns = np.angle(normals / before)
            for corner, first, turn in zip(border, np.angle(before), turns, strict=True):
                if turn > 0:  # convex on the right side
                    steps = max(1, math.ceil(turn / (math.pi / 4)))
                    angles = first + turn / steps * np.arange(steps + 1)
                    radius = (reach + SLACK) / math.cos(turn / steps / 2)
                    around = np.column_stack((np.cos(angles), np.sin(angles)))
                    found.append(corner + radius * around)
        places = np.concatenate(found)
        return places[self.allowed(places)]

    def _open(self, points: np.ndarray) -> np.ndarray:
        """Which points [N, 2] are on the right side of every border."""
        good = np.ones(len(points), dtype=bool)
        if self.polygon is not None:
            good &= inside(self.polygon, points)
        for corners in self.keep_outs:
            good &= ~inside(corners, points)
        return good

    def _gap(
        self, starts: np.ndarray, ends: np.ndarray | None = None, border: np.ndarray | None = None
    ) -> np.ndarray:
        """Distances of legs from all borders or one, [N] in m; without ends, of their starts."""
        lines = self._borders if border is None else shapely.LinearRing(border)
        if ends is None:
            legs = shapely.points(starts)
        else:
            legs = shapely.linestrings(np.stack((starts, ends), axis=1))
        gap: np.ndarray = shapely.distance(legs, lines)
        return gap

    @cached_property
    def _borders(self) -> shapely.MultiLineString:
        return shapely.MultiLineString([shapely.LinearRing(ring) for ring in self._rings])

    def _candidates(self, point: np.ndarray) -> np.ndarray:
        """Allowed places that may be the nearest to a point [K, 2]."""
        places = [self.workspace.clip(point)[None]]
        for border in self._rings:
            along = np.roll(border, -1, axis=0) - border
            share = np.clip(((point - border) * along).sum(1) / (along**2).sum(1), 0, 1)[:, None]
            away = (self.margin + SLACK) * _outward(border)
            places.append(self.workspace.clip(border + share * along + away))
        found = np.concatenate((*places, self.corners))
        found = found[self.allowed(found)]
        return found if len(found) else self.raster

    @cached_property
    def raster(self) -> np.ndarray:
        """The allowed ones of even places in the rectangle [K, 2]."""
        w = self.workspace
        x, y = np.linspace(w.xmin, w.xmax, RASTER), np.linspace(w.ymin, w.ymax, RASTER)
        points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        return points[self.allowed(points)]


def _outward(border: np.ndarray) -> np.ndarray:
    """The unit normals to the right of each side [K, 2]."""
    along = np.roll(border, -1, axis=0) - border
    return np.column_stack((along[:, 1], -along[:, 0])) / np.linalg.norm(along, axis=1)[:, None]


def read_polygons(text: str) -> list[np.ndarray]:
    """The polygons in a text such as ``0 0, 9 0, 9 9; 20 20, 30 20, 30 30`` [K, 2] each.

    Raises:
        InputError: the text is malformed.
    """
    try:
        found = [
            [[float(number) for number in corner.split()] for corner in part.split(",")]
            for part in text.split(";")
            if part.strip()
        ]
        polygons = [np.array(corners, dtype=float) for corners in found]
    except ValueError:
        polygons = [np.empty(0)]
    if not all(p.ndim == 2 and p.shape[1] == 2 and np.isfinite(p).all() for p in polygons):
        raise InputError(
            f"expected corners as in '0 0, 9 0, 9 9' and ';' between polygons, got {text[:80]!r}"
        )
    return polygons


def in_metres(
    where: str, places: np.ndarray, origin: tuple[float, ...], heading: float
) -> np.ndarray:
    """Places on the map [K, 2] in m, from latitude and longitude [K, 2] in degrees.

    Args:
        where: name of their parameter.
        places: in degrees, also across the antimeridian.
        origin: latitude and longitude of the map's (0, 0); 0, 0: not given.
        heading: of the map's y axis, in degrees.

    Raises:
        InputError: there is no origin, or the places are not near it.
    """
    if not any(origin):
        raise InputError(
            f"{where}: expected origin as well, the latitude and longitude of the map's (0, 0)"
        )
    latitude, longitude = places.T
    if not (np.abs(latitude) <= 90).all() or not (np.abs(longitude) <= 360).all():
        raise InputError(f"{where}: expected latitude longitude in deg, got {places[0].tolist()}")
    place = GeoReference(origin[0], origin[1], heading)
    xy = place.to_map(place.local_metres(latitude, longitude))
    near = (np.abs(xy) <= MAX_DISTANCE_M).all(axis=1)
    if not near.all():
        raise InputError(
            f"{where}: expected a place within {MAX_DISTANCE_M / 1e3:g} km of the origin "
            f"{list(origin)}, got {places[~near][0].tolist()}"
        )
    return xy


def one_polygon(text: str) -> None:
    """Raise an ``InputError`` if a text has several polygons, or is malformed."""
    if len(read_polygons(text)) > 1:
        raise InputError("expected one polygon, got several")


@dataclass(frozen=True)
class AreaSettings(Settings):
    """Where goals and legs may lie within the workspace."""

    prefix = "areas"

    polygon: str = setting(
        "", "Corners of the area within the workspace, as in '0 0, 9 0, 9 9'. Empty: all of it",
        "m", check=one_polygon,
    )  # fmt: skip
    keep_outs: str = setting(
        "", "Corners of the keep-outs, ';' between polygons", "m", check=read_polygons
    )
    polygon_degrees: str = setting(
        "", "As polygon, with latitude and longitude of each corner, as in '47.1 8.5, 47.2 8.5, "
        "47.1 8.6'. Needs origin", "deg", check=one_polygon,
    )  # fmt: skip
    keep_outs_degrees: str = setting(
        "", "As keep_outs, with latitude and longitude of each corner. Needs origin", "deg",
        check=read_polygons,
    )  # fmt: skip
    file: str = setting(
        "", "File of polygons: GeoJSON (property kind: workspace, or keep_out, the default), "
        "GeoPackage or Shapefile (column kind), the fence of a QGroundControl .plan, or KML (a "
        "polygon named workspace)",
    )  # fmt: skip
    coordinates: str = setting(
        "metres", "Coordinates in GeoJSON files of areas and goals: x y of the map (metres), or "
        "longitude latitude (degrees)", choices=("metres", "degrees"),
    )  # fmt: skip
    origin: tuple[float, ...] = field_of(ORIGIN)
    heading: float = field_of(HEADING)
    margin: float = setting(
        1.0, "Minimum distance of goals and legs from keep-outs and the polygon's border; "
        "capture_radius, the turning diameter, is kept as well where there is room", "m",
        minimum=0.01, maximum=1e4,
    )  # fmt: skip

    def open(self, workspace: Extent) -> NavigableArea:
        """The navigable area of these settings in a workspace.

        Raises:
            InputError: a polygon or the file is wrong, or no place is allowed.
        """
        return NavigableArea(workspace, *self.borders(), self.margin)

    def borders(self) -> tuple[np.ndarray | None, tuple[np.ndarray, ...]]:
        """Corners of the workspace polygon, if there is one, and of the keep-outs [K, 2] in m.

        Raises:
            InputError: a polygon or the file is wrong.
        """
        outer = read_polygons(self.polygon) + self._of_degrees("polygon_degrees")
        inner = read_polygons(self.keep_outs) + self._of_degrees("keep_outs_degrees")
        shapes, degrees = read_areas(Path(self.file).expanduser()) if self.file else ((), False)
        for kind, corners in shapes:
            placed = self._in_metres("areas.file", corners, degrees)
            (outer if kind == WORKSPACE else inner).append(placed)
        if len(outer) > 1:
            raise InputError(f"areas: expected one workspace polygon, got {len(outer)}")
        return outer[0] if outer else None, tuple(inner)

    def goals(self, file: str) -> tuple[np.ndarray, np.ndarray | None]:
        """The goals in a file [K, 2] and its home [2], or None, in m.

        Raises:
            InputError: the file cannot be read, or its places are not near the origin.
        """
        goals, home, degrees = read_goals(Path(file).expanduser())
        homes = np.empty((0, 2)) if home is None else home[None]
        placed = self._in_metres("goals.file", np.vstack((goals, homes)), degrees)
        return placed[: len(goals)], None if home is None else placed[-1]

    @property
    def has_polygon(self) -> bool:
        """Whether a polygon or a file is given."""
        return bool(self.polygon or self.polygon_degrees or self.file)

    def middle(self) -> tuple[float, float] | None:
        """Latitude and longitude of the middle of the workspace polygon; None if there is no
        polygon in degrees.

        Raises:
            InputError: the file cannot be read.
        """
        found = read_polygons(self.polygon_degrees)
        if self.file:
            shapes, degrees = read_areas(Path(self.file).expanduser())
            if degrees or self.coordinates == "degrees":
                found += [corners[:, ::-1] for kind, corners in shapes if kind == WORKSPACE]
        if not found:
            return None
        first = found[0][0]
        beside = found[0] - first
        beside[:, 1] = (beside[:, 1] + 180) % 360 - 180  # perhaps across the antimeridian
        latitude, longitude = first + (beside.min(axis=0) + beside.max(axis=0)) / 2
        return float(latitude), float((longitude + 180) % 360 - 180)

    def _of_degrees(self, name: str) -> list[np.ndarray]:
        found = read_polygons(getattr(self, name))
        return [in_metres(f"areas.{name}", p, self.origin, self.heading) for p in found]

    def _in_metres(self, where: str, places: np.ndarray, degrees: bool) -> np.ndarray:
        """Places of a file on the map [K, 2] in m; ``degrees``: they are longitude, latitude."""
        if not degrees and self.coordinates == "metres":
            return places
        return in_metres(where, places[:, ::-1], self.origin, self.heading)
