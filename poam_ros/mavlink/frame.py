"""The local frame of a mission: metres around an origin in degrees, and back; that of a recovered
mission, and the workspace in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError, requires_extra
from ..core.geodesy import WGS84, GeoReference
from ..core.geometry import Extent
from ..core.settings import Settings, instance, setting
from ..journal.folder import is_journal, read_mission
from ..planning.areas import AreaSettings

#: Places farther from the origin belong to another mission or are mistyped, in m.
MAX_DISTANCE = 200e3


@dataclass(frozen=True)
class PlaceSettings(Settings):
    """Places of the mission in degrees; all 0: not given."""

    workspace: tuple[float, ...] = setting(
        (0.0, 0.0, 0.0, 0.0), "Rectangle to be mapped in degrees, instead of workspace: south, "
        "west, north, east", "deg", minimum=-180.0, maximum=180.0, name="workspace_degrees",
    )  # fmt: skip


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
        xy = np.array([self.to_map(at, on) for at in (south, north) for on in (west, half, east)])
        if not (np.abs(xy) <= MAX_DISTANCE).all():
            origin = [self.place.latitude, self.place.longitude]
            raise InputError(
                f"{where}: expected a rectangle within {MAX_DISTANCE / 1e3:g} km of the origin "
                f"{origin}, got {list(bounds)}"
            )
        return Extent.of(np.column_stack((xy.min(axis=0), xy.max(axis=0))).ravel().tolist())


def recorded_frame(mission_dir: str) -> LocalFrame | None:
    """The frame of the mission in a folder; None: there is no mission yet.

    Raises:
        InputError: the journal cannot be read, or the mission has no origin.
    """
    folder = Path(mission_dir).expanduser()
    if not mission_dir or not is_journal(folder):
        return None
    known = read_mission(folder).mapper
    if len(origin := tuple(known.get("origin", ()))) == 2 and any(origin):
        return LocalFrame(origin[0], origin[1], known.get("heading", 0.0))
    raise InputError(
        f"mission_dir: {folder} holds a mission without an origin in degrees: expected one that "
        "poam drive made, or another folder"
    )


def given_frame(values: Mapping[str, Any]) -> LocalFrame | None:
    """The frame around ``origin``, or else around the middle of the workspace or the areas' polygon
    in degrees; None if nothing is given in degrees.

    Raises:
        InputError: the file of areas cannot be read.
    """
    origin, degrees = values["origin"], instance(PlaceSettings, values).workspace
    if any(degrees) and not any(origin):
        south, west, north, east = degrees
        middle = west + (east - west) % 360 / 2
        origin = (south + north) / 2, (middle + 180) % 360 - 180
    if not any(origin):
        origin = instance(AreaSettings, values).middle()
    return None if origin is None else LocalFrame(origin[0], origin[1], values["heading"])


def workspace_of(values: Mapping[str, Any], frame: LocalFrame | None) -> Extent:
    """The rectangle to be mapped: the one in degrees, which needs a frame; or else ``workspace``;
    or else (four zeros) the one around the workspace polygon of the areas.

    Raises:
        InputError: there is none, or it is far from the frame's origin.
    """
    degrees = instance(PlaceSettings, values).workspace
    if any(degrees):
        assert frame is not None
        return frame.extent(degrees, "workspace_degrees")
    if any(values["workspace"]):
        return Extent.of(values["workspace"])
    corners, _ = instance(AreaSettings, values).borders()
    if corners is None:
        raise InputError(
            f"areas.file: expected a polygon of kind workspace in {values['areas.file']}"
        )
    return Extent.of(np.column_stack((corners.min(axis=0), corners.max(axis=0))).ravel().tolist())
