"""Where a map lies on the Earth: its origin, its heading, its projection and its vertical datum.

North-up coordinates are x east and y north, in metres. Without a choice they are those of a
transverse Mercator projection around the map's origin, in which the map's metres are metres and a
map that looks north keeps its cells as they are. UTM has an EPSG code, and stretches and turns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import InputError, requires_extra

_WGS84 = (
    'GEOGCS["WGS 84",DATUM["WGS_1984",SPHEROID["WGS 84",6378137,298.257223563,'
    'AUTHORITY["EPSG","7030"]],AUTHORITY["EPSG","6326"]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.0174532925199433],AUTHORITY["EPSG","4326"]]'
)
#: Of a map without an origin: metres in a frame that is nowhere in particular.
LOCAL = 'LOCAL_CS["poam_ros map frame",UNIT["metre",1],AXIS["x",EAST],AXIS["y",NORTH]]'


@dataclass(frozen=True)
class TransverseMercator:
    """A transverse Mercator projection on WGS 84: angles in degrees, false origin in m."""

    name: str
    latitude: float
    longitude: float
    scale: float = 1.0
    easting: float = 0.0
    northing: float = 0.0
    epsg: int | None = None

    @property
    def wkt(self) -> str:
        """As well-known text (version 1, which every reader knows)."""
        parameters = {
            "latitude_of_origin": self.latitude, "central_meridian": self.longitude,
            "scale_factor": self.scale, "false_easting": self.easting,
            "false_northing": self.northing,
        }  # fmt: skip
        listed = ",".join(f'PARAMETER["{key}",{value!r}]' for key, value in parameters.items())
        code = "" if self.epsg is None else f',AUTHORITY["EPSG","{self.epsg}"]'
        return (
            f'PROJCS["{self.name}",{_WGS84},PROJECTION["Transverse_Mercator"],{listed},'
            f'UNIT["metre",1,AUTHORITY["EPSG","9001"]],AXIS["Easting",EAST],'
            f'AXIS["Northing",NORTH]{code}]'
        )


@dataclass(frozen=True)
class GeoReference:
    """The map's point (0, 0) on WGS 84, and how the map is turned there; all in degrees.

    Attributes:
        latitude: north is positive.
        longitude: east is positive.
        heading: direction of the map's +y, clockwise from north.
        utm: whether north-up coordinates are those of the origin's UTM zone.

    Raises:
        InputError: if the origin is not on the Earth, or not where UTM is.
    """

    latitude: float
    longitude: float
    heading: float = 0.0
    utm: bool = False

    def __post_init__(self) -> None:
        # At a pole a map has no north.
        if not (abs(self.latitude) < 89.9 and abs(self.longitude) <= 180):
            raise InputError(
                f"origin: expected a latitude between -89.9 and 89.9 and a longitude from -180 to "
                f"180 degrees, got {self.latitude:g} {self.longitude:g}"
            )
        if self.utm and not -80 <= self.latitude <= 84:
            raise InputError(f"utm: expected a latitude from -80 to 84, got {self.latitude:g}")

    @property
    def as_it_is(self) -> bool:
        """Whether the map's own coordinates are north-up already."""
        return self.heading % 360 == 0 and not self.utm

    @property
    def around(self) -> TransverseMercator:
        """The projection around the origin."""
        name = f"poam_ros map at {self.latitude:.12g} {self.longitude:.12g}"
        return TransverseMercator(name, float(self.latitude), float(self.longitude))

    @property
    def projection(self) -> TransverseMercator:
        """That of the north-up coordinates."""
        if not self.utm:
            return self.around
        zone = min(int((self.longitude + 180) // 6) + 1, 60)
        south = self.latitude < 0
        return TransverseMercator(
            f"WGS 84 / UTM zone {zone}{'S' if south else 'N'}", 0.0, zone * 6.0 - 183, 0.9996,
            500_000.0, 10_000_000.0 if south else 0.0, (32700 if south else 32600) + zone,
        )  # fmt: skip

    def outwards(self, xy: np.ndarray) -> np.ndarray:
        """Points of the map [N, 2] in north-up coordinates [N, 2]."""
        sine, cosine = _sine_cosine(self.heading)
        x, y = xy[:, 0], xy[:, 1]
        turned = np.column_stack((x * cosine + y * sine, y * cosine - x * sine))
        return _projected(self.around, self.projection, turned) if self.utm else turned

    def inwards(self, xy: np.ndarray) -> np.ndarray:
        """North-up points [N, 2] in coordinates of the map [N, 2]."""
        if self.utm:
            xy = _projected(self.projection, self.around, xy)
        sine, cosine = _sine_cosine(self.heading)
        x, y = xy[:, 0], xy[:, 1]
        return np.column_stack((x * cosine - y * sine, y * cosine + x * sine))

    def degrees(self, xy: np.ndarray) -> np.ndarray:
        """North-up points [N, 2] as longitude and latitude [N, 2]."""
        return _projected(self.projection, None, xy)


def _sine_cosine(degrees: float) -> tuple[float, float]:
    """Exact for quarter turns: a map that is turned by one keeps its cells."""
    quarters = {0.0: (0.0, 1.0), 90.0: (1.0, 0.0), 180.0: (0.0, -1.0), 270.0: (-1.0, 0.0)}
    angle = np.radians(degrees)
    return quarters.get(degrees % 360, (float(np.sin(angle)), float(np.cos(angle))))


def _projected(
    source: TransverseMercator, target: TransverseMercator | None, xy: np.ndarray
) -> np.ndarray:
    """Points [N, 2] from one projection to another, or to degrees."""
    with requires_extra("export: coordinates on the Earth", "rasterio"):
        from rasterio.warp import transform
    into = "EPSG:4326" if target is None else target.wkt
    return np.column_stack(transform(source.wkt, into, *xy.T))


@dataclass(frozen=True)
class VerticalDatum:
    """What heights or depths are measured from: an EPSG code, its name, and its text."""

    code: int
    name: str
    wkt: str

    @property
    def is_water(self) -> bool:
        """Whether it is the water's level at the time, wherever that was."""
        return self.name.startswith("Instantaneous Water Level")


def vertical_datum(code: int, depth: bool) -> VerticalDatum:
    """The vertical reference system of an EPSG code.

    Args:
        code: such as 5703 (NAVD88 height), 3855 (EGM2008 height) or 5831 (depth below the water).
        depth: whether it must count downwards.

    Raises:
        InputError: if there is no such one, or it counts the other way or in other units.
    """
    with requires_extra("export: a vertical datum", "rasterio"):
        from rasterio.crs import CRS
        from rasterio.errors import CRSError
    try:
        found: Any = CRS.from_epsg(code)
        text = found.to_wkt(version="WKT2_2019")
    except CRSError:
        raise InputError(f"vertical_datum: there is no EPSG:{code}") from None
    if not text.startswith("VERTCRS["):
        raise InputError(f"vertical_datum: EPSG:{code} is not a vertical reference system")
    name = text.split('"')[1]
    way = "down" if depth else "up"
    if not re.search(rf'AXIS\["[^"]*",{way}[,\]]', text) or 'LENGTHUNIT["metre",1]' not in text:
        raise InputError(
            f"vertical_datum: expected {'depths' if depth else 'heights'} in metres, got "
            f"EPSG:{code} ({name})"
        )
    return VerticalDatum(code, name, found.to_wkt(version="WKT1_GDAL"))
