"""The local frame of a mission: metres around an origin in degrees, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..core.errors import InputError, requires_extra
from ..core.geodesy import WGS84, GeoReference
from ..core.geometry import Extent

#: Places farther from the origin belong to another mission or are mistyped, in m.
MAX_DISTANCE = 200e3


class LocalFrame:
    """The map's plane around an origin on WGS 84, as ``core.geodesy`` has it.

    The projections are prepared once, because every position is converted.

    Args:
        latitude, longitude: of the map's (0, 0), in degrees.
        heading: direction of the map's +y, clockwise from north, in degrees.

    Raises:
        InputError: the origin is not on the Earth, or pyproj is not installed.
    """

    def __init__(self, latitude: float, longitude: float, heading: float = 0.0) -> None:
        self.place = GeoReference(latitude, longitude, heading)
        with requires_extra("places in degrees", "pyproj", "mavlink"):
            from pyproj import Transformer
        local = self.place.local_crs
        self._forward = Transformer.from_crs(WGS84, local, always_xy=True)

    @cached_property
    def _inverse(self) -> Any:
        from pyproj import Transformer

        return Transformer.from_crs(self.place.local_crs, WGS84, always_xy=True)

    @property
    def values(self) -> dict[str, Any]:
        """``origin`` and ``heading`` by the names of their settings."""
        place = self.place
        return {"origin": (place.latitude, place.longitude), "heading": place.heading}

    def to_map(self, latitude: float, longitude: float) -> tuple[float, float]:
        """x, y in m of a place in degrees, also across the antimeridian; NaN if it is no place."""
        x, y = self._forward.transform(longitude, latitude)
        if not (math.isfinite(x) and math.isfinite(y)):
            return math.nan, math.nan
        x, y = self.place.to_map(np.array([[x, y]]))[0].tolist()
        return x, y

    def to_degrees(self, xy: Sequence[float] | np.ndarray) -> tuple[float, float]:
        """Latitude and longitude of a place of the map, x, y in m."""
        ((x, y),) = self.place.to_projected(np.array([xy], dtype=float)).tolist()
        longitude, latitude = self._inverse.transform(x, y)
        return float(latitude), float((longitude + 180.0) % 360.0 - 180.0)

    def extent(self, bounds: Sequence[float], where: str) -> Extent:
        """The rectangle of the map around one in degrees: south, west, north, east.

        West may be larger than east, across the antimeridian.

        Args:
            bounds: the four numbers.
            where: the setting's name.

        Raises:
            InputError: it is empty, or far from the origin.
        """
        south, west, north, east = bounds
        if not (-90 <= south < north <= 90 and (east - west) % 360 > 0):
            raise InputError(
                f"{where}: expected south west north east in degrees, got {list(bounds)}"
            )
        # A parallel bends away from the chord between its ends, by millimetres over 2 km.
        half = west + (east - west) % 360 / 2
        corners = [self.to_map(at, on) for at in (south, north) for on in (west, half, east)]
        xy = np.array(corners)
        if not (np.abs(xy) <= MAX_DISTANCE).all():
            origin = [self.place.latitude, self.place.longitude]
            raise InputError(
                f"{where}: expected a rectangle within {MAX_DISTANCE / 1e3:g} km of the origin "
                f"{origin}, got {list(bounds)}"
            )
        (xmin, ymin), (xmax, ymax) = xy.min(axis=0).tolist(), xy.max(axis=0).tolist()
        return Extent(xmin, xmax, ymin, ymax)
