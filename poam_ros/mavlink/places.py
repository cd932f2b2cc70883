"""The frame of a recovered mission, and the workspace in a frame."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.geometry import Extent
from ..core.settings import instance
from ..journal.folder import is_journal
from ..journal.reader import read_mission
from ..planning.areas import AreaSettings
from .frame import LocalFrame
from .settings import PlaceSettings


def recorded_frame(mission_dir: str) -> LocalFrame | None:
    """The frame of the mission in a folder; None: there is no mission yet.

    Raises:
        InputError: the journal cannot be read, or the mission has no origin.
    """
    folder = Path(mission_dir).expanduser()
    if not mission_dir or not is_journal(folder):
        return None
    known = read_mission(folder).mapper
    origin = tuple(known.get("origin", ()))
    if len(origin) != 2 or not any(origin):
        raise InputError(
            f"mission_dir: {folder} holds a mission without an origin in degrees: expected one "
            "that poam drive made, or another folder"
        )
    latitude, longitude = origin
    return LocalFrame(latitude, longitude, known.get("heading", 0.0))


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
    if origin is None:
        return None
    latitude, longitude = origin
    return LocalFrame(latitude, longitude, values["heading"])


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
    (xmin, ymin), (xmax, ymax) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return Extent(xmin, xmax, ymin, ymax)
