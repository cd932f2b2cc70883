"""Support points and areas as markers and back, and colours. Pure functions."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Point
from visualization_msgs.msg import Marker, MarkerArray

from ...outputs.view.layers import hillshade
from ...planning.areas import NavigableArea
from .messages import header

#: Colours from low to high (red, green, blue of 255), linear between them.
RAMPS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "depth": (
        (14, 22, 84), (24, 74, 150), (32, 130, 182), (80, 184, 190), (166, 220, 176),
        (234, 238, 182), (255, 250, 224),
    ),
    "land": (
        (38, 92, 86), (92, 140, 84), (176, 184, 110), (206, 168, 116), (158, 116, 92),
        (250, 248, 246),
    ),
    "doubt": ((52, 16, 84), (54, 78, 140), (34, 142, 138), (112, 200, 92), (250, 230, 46)),
    "length": ((12, 8, 34), (88, 24, 112), (186, 52, 104), (244, 134, 84), (252, 240, 196)),
}  # fmt: skip
#: Colours of the orders of ``planning.tvu``, 0..1: within none, 2, 1b, special, exclusive.
LEVELS = np.array(
    ((166, 36, 44), (236, 142, 62), (248, 224, 116), (122, 192, 122), (40, 120, 178))
) / 255  # fmt: skip
#: Number of colours of a ramp and of shades: few enough that each colour is made once.
RAMP_STEPS, SHADE_LEVELS = 100, 24
MIN_BRIGHTNESS = 0.45  # of 1


def ramp(name: str) -> np.ndarray:
    """The colours of a ramp [STEPS + 1, 3], 0..1."""
    stops = np.array(RAMPS[name]) / 255
    at = np.linspace(0, len(stops) - 1, RAMP_STEPS + 1)
    return np.column_stack([np.interp(at, np.arange(len(stops)), band) for band in stops.T])


def steps(values: np.ndarray, low: float, high: float) -> np.ndarray:
    """The index of each value's colour in a ramp; 0 for NaN."""
    share = (np.nan_to_num(values, nan=low) - low) / ((high - low) or 1.0)
    return np.rint(RAMP_STEPS * np.clip(share, 0, 1)).astype(int)


def hillshade_levels(heights: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The hillshade of heights [rows, columns] at x, y, as integers 0..SHADE_LEVELS."""
    with np.errstate(invalid="ignore"):  # beside infinite heights
        rise_y, rise_x = np.gradient(heights, y, x)
    return np.rint(SHADE_LEVELS * np.nan_to_num(hillshade(rise_x, rise_y))).astype(int)


def shaded(colour: np.ndarray, light: int) -> np.ndarray:
    """A colour [3] at a level of hillshade."""
    return colour * (MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * light / SHADE_LEVELS)


#: Of support points, wherever they are drawn.
SUPPORT = (1.0, 0.55, 0.0)
#: Colours of the borders: of the rectangle, of a polygon in it, of what may not be entered.
BORDERS = {
    "workspace": (0.8, 0.8, 0.8), "polygon": (0.2, 0.8, 0.3), "keep_out": (0.95, 0.15, 0.1),
}  # fmt: skip


def blank(kind: int, name: str, stamp_ns: int, frame_id: str, number: int = 0) -> Marker:
    """A marker of a kind that is as large as it says, and opaque."""
    marker = Marker(header=header(stamp_ns, frame_id), ns=name, id=number, type=kind)
    marker.pose.orientation.w = 1.0
    marker.scale.x = marker.scale.y = marker.scale.z = 1.0
    marker.color.a = 1.0
    return marker


def spheres(
    points: np.ndarray,
    name: str,
    colour: tuple[float, float, float],
    size: float,
    stamp_ns: int,
    frame_id: str,
) -> MarkerArray:
    """Points [N, 3] as one marker of spheres with this diameter (m)."""
    marker = blank(Marker.SPHERE_LIST, name, stamp_ns, frame_id)
    marker.scale.x = marker.scale.y = marker.scale.z = float(size)
    marker.color.r, marker.color.g, marker.color.b = colour
    marker.points = [Point(x=x, y=y, z=z) for x, y, z in points.tolist()]
    if not marker.points:  # viewers report an error for an empty list
        marker.action = Marker.DELETE
    return MarkerArray(markers=[marker])


def write_support(
    points: np.ndarray, z: float, size: float, stamp_ns: int, frame_id: str
) -> MarkerArray:
    """Support points [M, 2] as one marker of spheres at height z with this diameter (m)."""
    places = np.column_stack((points, np.full(len(points), float(z))))
    return spheres(places, "inducing_points", SUPPORT, size, stamp_ns, frame_id)


def write_areas(areas: NavigableArea, stamp_ns: int, frame_id: str) -> MarkerArray:
    """The navigable area as closed lines at height 0: ``workspace``, ``polygon``, ``keep_out``."""
    left, right, lower, upper = areas.workspace.bounds
    rings = [
        ("workspace", np.array([(left, lower), (right, lower), (right, upper), (left, upper)]))
    ]
    rings += [] if areas.polygon is None else [("polygon", areas.polygon)]
    rings += [("keep_out", corners) for corners in areas.keep_outs]
    # Deletes an earlier mission's. With a frame, as Lichtblick reports markers without one.
    markers = [Marker(header=header(stamp_ns, frame_id), action=Marker.DELETEALL)]
    for number, (name, corners) in enumerate(rings):
        marker = blank(Marker.LINE_STRIP, name, stamp_ns, frame_id, number)
        marker.scale.x = 0.2
        marker.color.r, marker.color.g, marker.color.b = BORDERS[name]
        closed = [*corners.tolist(), corners[0].tolist()]
        marker.points = [Point(x=float(x), y=float(y), z=0.0) for x, y in closed]
        markers.append(marker)
    return MarkerArray(markers=markers)


def read_support(message: MarkerArray) -> np.ndarray:
    """The support points of ``write_support`` [M, 2]."""
    drawn = (marker for marker in message.markers if marker.action == Marker.ADD)
    places = [(point.x, point.y) for marker in drawn for point in marker.points]
    return np.array(places).reshape(-1, 2)
