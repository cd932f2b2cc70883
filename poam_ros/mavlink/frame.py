"""Where a mission lies on the Earth, given or recovered, and its workspace there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.geodesy import GeoReference
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


def extent_of(place: GeoReference, bounds: Sequence[float], where: str) -> Extent:
    """The rectangle of a map around one in degrees: south, west, north, east.

    West may be larger than east, across the antimeridian.

    Args:
        place: of the map.
        bounds: the four numbers.
        where: the setting's name.

    Raises:
        InputError: it is empty, or far from the origin.
    """
    south, west, north, east = bounds
    if not (-90 <= south < north <= 90 and (east - west) % 360 > 0):
        raise InputError(f"{where}: expected south west north east in degrees, got {list(bounds)}")
    # A parallel bends away from the chord between its ends, by millimetres over 2 km.
    half = west + (east - west) % 360 / 2
    xy = np.array([place.metres(at, on) for at in (south, north) for on in (west, half, east)])
    if not (np.abs(xy) <= MAX_DISTANCE).all():
        raise InputError(
            f"{where}: expected a rectangle within {MAX_DISTANCE / 1e3:g} km of the origin "
            f"{[place.latitude, place.longitude]}, got {list(bounds)}"
        )
    return Extent.of(np.column_stack((xy.min(axis=0), xy.max(axis=0))).ravel().tolist())


def recorded_frame(mission_dir: str) -> GeoReference | None:
    """The frame of the mission in a folder; None: there is no mission yet.

    Raises:
        InputError: the journal cannot be read, or the mission has no origin.
    """
    folder = Path(mission_dir).expanduser()
    if not mission_dir or not is_journal(folder):
        return None
    known = read_mission(folder).mapper
    if place := GeoReference.given(known.get("origin"), known.get("heading")):
        return place
    raise InputError(
        f"mission_dir: {folder} holds a mission without an origin in degrees: expected one that "
        "poam drive made, or another folder"
    )


def given_frame(values: Mapping[str, Any]) -> GeoReference | None:
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
    return GeoReference.given(origin, values["heading"])


def workspace_of(values: Mapping[str, Any], frame: GeoReference | None) -> Extent:
    """The rectangle to be mapped: the one in degrees, which needs a frame; or else ``workspace``;
    or else (four zeros) the one around the workspace polygon of the areas.

    Raises:
        InputError: there is none, or it is far from the frame's origin.
    """
    degrees = instance(PlaceSettings, values).workspace
    if any(degrees):
        assert frame is not None
        return extent_of(frame, degrees, "workspace_degrees")
    if any(values["workspace"]):
        return Extent.of(values["workspace"])
    corners, _ = instance(AreaSettings, values).borders()
    if corners is None:
        raise InputError(
            f"areas.file: expected a polygon of kind workspace in {values['areas.file']}"
        )
    return Extent.of(np.column_stack((corners.min(axis=0), corners.max(axis=0))).ravel().tolist())
