"""Places on the Earth and metres in a plane: the package's only projections, by pyproj; and rough
metres where these need not be exact.

By default, metres are those of a transverse Mercator projection around the map's own origin: near
it lengths are true, and a map that is north up keeps its cells. UTM and other systems have an EPSG
code, but they stretch and turn a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from .errors import InputError, requires_extra
from .settings import Setting

#: Maximum longitude from the central meridian, in degrees.
MAX_OFFSET = 30.0
#: Coordinate system of a map without an origin.
LOCAL = 'LOCAL_CS["poam_ros map frame",UNIT["metre",1],AXIS["x",EAST],AXIS["y",NORTH]]'
WGS84 = "EPSG:4326"
DEGREE_M = 111_320.0  # of latitude, about


def _latitude(origin: tuple[float, ...]) -> None:
    if abs(origin[0]) > 90:
        raise InputError(f"expected a latitude within 90 deg, got {origin[0]}")


#: The settings that place a map on the Earth.
ORIGIN = Setting(
    "origin", (0.0, 0.0), "Latitude and longitude of the map's origin, WGS 84. 0, 0: not given",
    "deg", minimum=-180.0, maximum=180.0, check=_latitude,
)  # fmt: skip
HEADING = Setting(
    "heading", 0.0, "Direction of the map's y axis, clockwise from true north", "deg",
    minimum=-360.0, maximum=360.0,
)  # fmt: skip


def rough_metres(degrees: np.ndarray) -> np.ndarray:
    """Places near each other [N, 2], latitude and longitude in degrees, in m east and north of
    their median [N, 2]; without pyproj, and to some parts in a thousand."""
    known = degrees[np.isfinite(degrees).all(1)]
    if not len(known):
        return degrees
    off = degrees - np.median(known, axis=0)
    east = _wrapped(off[:, 1]) * np.cos(np.radians(np.median(known[:, 0])))
    return DEGREE_M * np.column_stack((east, off[:, 0]))


def hemispheres(latitude: float, longitude: float) -> tuple[str, str]:
    """N or S, and E or W, of a place in degrees."""
    return ("S" if latitude < 0 else "N"), ("W" if longitude < 0 else "E")


def place_text(latitude: float, longitude: float) -> str:
    """A place on the Earth in words, with a link to a map, for a person to check."""
    north, east = hemispheres(latitude, longitude)
    link = f"https://www.openstreetmap.org/?mlat={latitude:.5f}&mlon={longitude:.5f}&zoom=13"
    return f"{abs(latitude):.4f}\u00b0 {north}, {abs(longitude):.4f}\u00b0 {east} ({link})"


@dataclass(frozen=True)
class GeoReference:
    """Where the map's point (0, 0) lies on WGS 84, and how the map is turned; in degrees.

    Projected coordinates are x east and y north, in m. Those of the local projection are a
    transverse Mercator with scale 1 on the origin's meridian: at distance d from it, lengths are
    too long by d^2 / (2 R^2), 1 cm per km at 30 km, 1.2 % at 1000 km.

    Attributes:
        latitude: north is positive.
        longitude: east is positive.
        heading: direction of the map's +y, clockwise from north.
        crs: projected coordinate system: ``EPSG:N``, ``UTM`` for the origin's zone; empty: the
            local projection around the origin.

    Raises:
        InputError: the origin is not on the Earth, or outside the latitudes of UTM.
    """

    latitude: float
    longitude: float
    heading: float = 0.0
    crs: str = ""

    def __post_init__(self) -> None:
        # At a pole a map has no north.
        if not (abs(self.latitude) < 89.9 and abs(self.longitude) <= 180):
            raise InputError(
                f"origin: expected a latitude between -89.9 and 89.9 and a longitude from -180 to "
                f"180 degrees, got {self.latitude:g} {self.longitude:g}"
            )
        if self.crs.upper() == "UTM":
            if not -80 <= self.latitude <= 84:
                raise InputError(f"utm: expected a latitude from -80 to 84, got {self.latitude:g}")
            zone = min(int((self.longitude + 180) // 6) + 1, 60)
            code = (32700 if self.latitude < 0 else 32600) + zone
            object.__setattr__(self, "crs", f"EPSG:{code}")

    @classmethod
    def given(cls, origin: Sequence[float] | None, heading: float | None) -> GeoReference | None:
        """That of the settings ``origin`` and ``heading``; None where no origin is given: 0, 0."""
        if origin is None or not any(origin):
            return None
        return cls(float(origin[0]), float(origin[1]), float(heading or 0.0))

    @classmethod
    def about(cls, latitude: np.ndarray, longitude: np.ndarray) -> GeoReference:
        """Centred on places in degrees [N], also across the antimeridian.

        Raises:
            InputError: there are none, or they are too far apart for one plane.
        """
        if not len(latitude):
            raise InputError("projection: expected at least one place, got none")
        angles = np.radians(longitude)
        rough = np.degrees(np.arctan2(np.sin(angles).mean(), np.cos(angles).mean()))
        offset = _wrapped(longitude - rough)
        middle = float(_wrapped(rough + (offset.min() + offset.max()) / 2))
        farthest = float(np.abs(_wrapped(longitude - middle)).max())
        if farthest > MAX_OFFSET:
            raise InputError(
                f"longitude: expected soundings within {2 * MAX_OFFSET:g} degrees of each other, "
                f"got {2 * farthest:.1f}"
            )
        return cls(float((latitude.min() + latitude.max()) / 2), middle)

    @property
    def values(self) -> dict[str, Any]:
        """``origin`` and ``heading`` by the names of their settings."""
        return {"origin": (self.latitude, self.longitude), "heading": self.heading}

    @property
    def north_up(self) -> bool:
        """Whether the map's own coordinates are the projected ones."""
        return self.heading % 360 == 0 and not self.crs

    @property
    def local_crs(self) -> str:
        """The local projection as PROJ spells it, for rasterio, pyproj and QGIS."""
        return (
            f"+proj=tmerc +lat_0={float(self.latitude)!r} +lon_0={float(self.longitude)!r} +k=1 "
            "+x_0=0 +y_0=0 +datum=WGS84 +units=m +no_defs"
        )

    def local_metres(self, latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
        """x east and y north of places in degrees [N] in the local projection [N, 2]; NaN beyond
        ``MAX_OFFSET`` from its meridian.

        Raises:
            InputError: pyproj is not installed.
        """
        xy = transformed(WGS84, self.local_crs, np.column_stack((longitude, latitude)))
        xy[~(np.abs(_wrapped(longitude - self.longitude)) <= MAX_OFFSET)] = np.nan
        return xy

    def system(self) -> Any:
        """The projected coordinate system, a ``pyproj.CRS``.

        Raises:
            InputError: there is none by this name, it is not projected in metres, or pyproj is not
                installed.
        """
        if self.crs:
            system = coordinate_system("crs", self.crs)
            units = {axis.unit_conversion_factor for axis in system.axis_info}
            if not system.is_projected or units != {1.0}:
                raise InputError(f"crs: expected a projected system in metres, got {self.crs}")
            return system
        with requires_extra("a map on the Earth", "pyproj"):
            from pyproj.crs import ProjectedCRS
            from pyproj.crs.coordinate_operation import TransverseMercatorConversion
        name = f"poam_ros map at {self.latitude:.12g} {self.longitude:.12g}"
        return ProjectedCRS(
            TransverseMercatorConversion(self.latitude, self.longitude), name, geodetic_crs=WGS84
        )

    def to_projected(self, xy: np.ndarray) -> np.ndarray:
        """Points of the map [N, 2] in projected coordinates [N, 2], in m; NaN where there are none.

        Raises:
            InputError: as of ``system``.
        """
        turned = _rotated(xy, -self.heading)
        return transformed(self.local_crs, self.system(), turned) if self.crs else turned

    def to_map(self, xy: np.ndarray) -> np.ndarray:
        """Projected points [N, 2] in coordinates of the map [N, 2]. Raises as ``to_projected``."""
        if self.crs:
            xy = transformed(self.system(), self.local_crs, xy)
        return _rotated(xy, self.heading)

    def metres(self, latitude: float, longitude: float) -> tuple[float, float]:
        """x, y in m of the map of a place in degrees, also across the antimeridian; NaN if it is no
        place. Raises as ``to_projected``."""
        degrees = np.array([[longitude, latitude]])
        ((x, y),) = self.to_map(transformed(WGS84, self.crs or self.local_crs, degrees)).tolist()
        return x, y

    def to_degrees(self, xy: Sequence[float] | np.ndarray) -> tuple[float, float]:
        """Latitude and longitude of a place of the map, x, y in m. Raises as ``to_projected``."""
        longitude, latitude = self.degrees(self.to_projected(np.array([xy])))[0].tolist()
        return latitude, (longitude + 180.0) % 360.0 - 180.0

    def moved(self, xy: np.ndarray, there: GeoReference) -> np.ndarray:
        """Points of the map [N, 2] in coordinates of another map [N, 2]. Raises as
        ``to_projected``."""
        if self == there:
            return xy
        projected = transformed(self.system(), there.system(), self.to_projected(xy))
        return there.to_map(projected)

    def degrees(self, xy: np.ndarray) -> np.ndarray:
        """Projected points [N, 2] as longitude, latitude [N, 2]. Raises as ``to_projected``."""
        return transformed(self.crs or self.local_crs, WGS84, xy)


def transformed(source: Any, target: Any, points: np.ndarray) -> np.ndarray:
    """Points [N, 2] in another coordinate system [N, 2]; NaN where that has none.

    Args:
        source: anything ``pyproj.CRS`` takes; x or longitude comes first, whatever its axes.
        target: likewise.
        points: in m, or in degrees.

    Raises:
        InputError: pyproj is not installed.
        pyproj.exceptions.CRSError: there is no such system.
    """
    found = _transformer(source, target).transform(*np.asarray(points, dtype=float).T)
    moved = np.column_stack(found)
    return np.where(np.isfinite(moved), moved, np.nan)


@lru_cache(maxsize=64)  # a vehicle's positions are converted one by one
def _transformer(source: Any, target: Any) -> Any:
    with requires_extra("coordinates on the Earth", "pyproj"):
        from pyproj import Transformer
    return Transformer.from_crs(source, target, always_xy=True)


def coordinate_system(where: str, name: str) -> Any:
    """A ``pyproj.CRS`` by its name, such as ``EPSG:25833``; ``where``: the setting's name.

    Raises:
        InputError: there is none by this name, or pyproj is not installed.
    """
    with requires_extra(where, "pyproj"):
        from pyproj import CRS
        from pyproj.exceptions import CRSError
    try:
        return CRS.from_user_input(name)
    except CRSError:
        raise InputError(f"{where}: expected a code such as EPSG:25833, got '{name}'") from None


def is_in_feet(where: str, name: str) -> bool:
    """Whether a coordinate system counts feet. Raises as ``coordinate_system``."""
    return "foot" in coordinate_system(where, name).axis_info[0].unit_name


def in_area_of_use(crs: str, place: np.ndarray) -> bool:
    """Whether a place in metres [2] is in the area that a coordinate system is for, or within a
    degree of it; True where the system names none. Raises as ``coordinate_system``."""
    area = coordinate_system("crs", crs).area_of_use
    if area is None:
        return True
    longitude, latitude = transformed(crs, WGS84, place[None])[0]
    east = (longitude - area.west) % 360.0
    width = (area.east - area.west) % 360.0
    near = east <= width + 1 or east >= 359
    return bool(near and area.south - 1 <= latitude <= area.north + 1)


def _wrapped(degrees: np.ndarray | float) -> np.ndarray:
    """The same angles from -180 to 180 degrees."""
    return (np.asarray(degrees) + 180.0) % 360.0 - 180.0


def _rotated(xy: np.ndarray, degrees: float) -> np.ndarray:
    """Points [N, 2] rotated counter-clockwise; by quarter turns exactly, so that cells stay."""
    quarters = {0.0: (0.0, 1.0), 90.0: (1.0, 0.0), 180.0: (0.0, -1.0), 270.0: (-1.0, 0.0)}
    angle = np.radians(degrees)
    s, c = quarters.get(degrees % 360, (float(np.sin(angle)), float(np.cos(angle))))
    x, y = xy[:, 0], xy[:, 1]
    return np.column_stack((x * c - y * s, y * c + x * s))


@dataclass(frozen=True)
class VerticalDatum:
    """The vertical reference of heights or depths: EPSG code, name, and well-known text."""

    code: int
    name: str
    wkt: str

    @property
    def is_water(self) -> bool:
        """Whether it is the water level at the time of measurement."""
        return self.name.startswith("Instantaneous Water Level")


def vertical_datum(code: int, depth: bool) -> VerticalDatum:
    """The vertical reference system of an EPSG code.

    Args:
        code: such as 5703 (NAVD88 height), 3855 (EGM2008 height) or 5831 (depth below the water).
        depth: whether it must count downwards.

    Raises:
        InputError: there is no such system, it counts the other way or in another unit, or pyproj
            is not installed.
    """
    system = coordinate_system("vertical_datum", f"EPSG:{code}")
    if not system.is_vertical or system.is_compound:
        raise InputError(f"vertical_datum: EPSG:{code} is not a vertical reference system")
    (axis,) = system.axis_info
    way = "down" if depth else "up"
    if axis.direction != way or axis.unit_conversion_factor != 1:
        raise InputError(
            f"vertical_datum: expected {'depths' if depth else 'heights'} in metres, got "
            f"EPSG:{code} ({system.name})"
        )
    return VerticalDatum(code, system.name, system.to_wkt("WKT1_GDAL"))
