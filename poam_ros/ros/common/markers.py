"""Support points, areas and refused pings as markers. Pure functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import shapely
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ...core.maps import ElevationMap
from ...frontend.refused_pings import RefusedPings
from ...planning.areas import NavigableArea
from .messages import header

#: Elevations at places [N, 2] as [N], both in m: where something is drawn.
Heights = Callable[[np.ndarray], np.ndarray]

#: Colour of support points.
SUPPORT = (1.0, 0.55, 0.0)
#: Colours of the borders: of the rectangle, of a polygon in it, of what may not be entered.
BORDERS = {
    "workspace": (0.9, 0.9, 0.9), "polygon": (0.2, 0.8, 0.3), "keep_out": (0.95, 0.15, 0.1),
}  # fmt: skip
#: Colours of refused pings by reason: white where the mission wanted none, red and magenta where
#: the elevation is not believed. Of all other reasons yellow: no valid range, or no place.
REFUSED = {
    **dict.fromkeys(("waiting", "paused", "after_mission", "overload", "log_full", "standing"),
                    (1.0, 1.0, 1.0)),
    **dict.fromkeys(("false_echo", "wild_elevation"), (1.0, 0.1, 0.1)),
    "withdrawn": (1.0, 0.1, 1.0),
}  # fmt: skip
UNUSABLE = (1.0, 1.0, 0.0)
#: Widths and heights as shares of the diagonal of what is shown.
BORDER_WIDTH, PING_SIZE, STALK_WIDTH, TEXT_SIZE = 1 / 250, 1 / 90, 1 / 600, 1 / 30
#: Points of a border, about: it follows the ground where that is land.
BORDER_POINTS = 200


def blank(kind: int, name: str, stamp_ns: int, frame_id: str, number: int = 0) -> Marker:
    """A marker of a kind that is as large as it says, and opaque."""
    marker = Marker(header=header(stamp_ns, frame_id), ns=name, id=number, type=kind)
    marker.pose.orientation.w = 1.0
    marker.scale.x = marker.scale.y = marker.scale.z = 1.0
    marker.color.a = 1.0
    return marker


def surface(drawn: ElevationMap) -> Heights:
    """Heights at which the map hides no border: a viewer's squares are larger than cells."""
    from scipy.ndimage import maximum_filter

    highest = maximum_filter(np.nan_to_num(drawn.mean, nan=-np.inf), 3)
    highest[np.isinf(highest)] = np.nan
    above = BORDER_WIDTH * float(np.hypot(*drawn.grid.borders.size))
    return lambda xy: drawn.grid.interpolate(highest, xy) + above


def write_support(points: np.ndarray, size: float, stamp_ns: int, frame_id: str) -> MarkerArray:
    """Support points [M, 3] as one marker of spheres with this diameter (m)."""
    marker = blank(Marker.SPHERE_LIST, "inducing_points", stamp_ns, frame_id)
    marker.scale.x = marker.scale.y = marker.scale.z = float(size)
    marker.color = _colour(SUPPORT)
    marker.points = _points(points)
    if not marker.points:  # viewers report an error for an empty list
        marker.action = Marker.DELETE
    return MarkerArray(markers=[marker])


def write_areas(
    areas: NavigableArea, heights: Heights, stamp_ns: int, frame_id: str, state: str = ""
) -> MarkerArray:
    """The navigable area as closed lines: ``workspace``, ``polygon``, ``keep_out``; and the
    mission's ``state`` as a text inside its upper left corner."""
    left, right, lower, upper = areas.workspace.bounds
    rings = [
        ("workspace", np.array([(left, lower), (right, lower), (right, upper), (left, upper)]))
    ]
    rings += [] if areas.polygon is None else [("polygon", areas.polygon)]
    rings += [("keep_out", corners) for corners in areas.keep_outs]
    size = float(np.hypot(*areas.workspace.size))
    markers = [_erase(stamp_ns, frame_id)]
    for number, (name, corners) in enumerate(rings):
        marker = blank(Marker.LINE_STRIP, name, stamp_ns, frame_id, number)
        marker.scale.x = BORDER_WIDTH * size
        marker.color = _colour(BORDERS[name])
        line = _densified(np.vstack((corners, corners[:1])))
        marker.points = _points(np.column_stack((line, heights(line))))
        markers.append(marker)
    if state:
        text = blank(Marker.TEXT_VIEW_FACING, "state", stamp_ns, frame_id)
        text.text, text.scale.z, text.color = state, TEXT_SIZE * size, _colour(BORDERS["workspace"])
        # Inside, where every view shows it, and as high as the highest ground at the border.
        x, y = left + 3 * TEXT_SIZE * size, upper - TEXT_SIZE * size
        text.pose.position = Point(x=x, y=y, z=max(point.z for point in markers[1].points))
        markers.append(text)
    return MarkerArray(markers=markers)


def write_refused_pings(
    refused: RefusedPings, heights: Heights, size: float, stamp_ns: int, frame_id: str
) -> MarkerArray:
    """Refused pings with a known place as spheres, a namespace for each reason.

    A viewer hides what is under a map. So a sphere is at its elevation, or on the map above it with
    a line down to its elevation.

    Args:
        refused: the pings; where z is NaN, that of the map is taken.
        heights: of the map; NaN where there is none.
        size: diagonal of what is shown, in m.
        stamp_ns: of the markers.
        frame_id: of the places.
    """
    pings, markers = refused.placed, [_erase(stamp_ns, frame_id)]
    ground = heights(pings.xyz[:, :2]) + PING_SIZE * size  # clear of the squares of the map
    tops = np.column_stack((pings.xyz[:, :2], np.fmax(pings.xyz[:, 2], ground)))
    somewhere = np.isfinite(tops[:, 2])
    for reason in np.unique(pings.reason).tolist():
        own = somewhere & (pings.reason == reason)
        spheres = blank(Marker.SPHERE_LIST, reason, stamp_ns, frame_id)
        spheres.scale.x = spheres.scale.y = spheres.scale.z = PING_SIZE * size
        spheres.points = _points(tops[own])
        markers += [spheres] if spheres.points else []
        hidden = own & (pings.xyz[:, 2] < ground)
        if hidden.any():
            stalks = blank(Marker.LINE_LIST, reason, stamp_ns, frame_id, 1)
            stalks.scale.x = STALK_WIDTH * size
            ends = np.stack((tops[hidden], pings.xyz[hidden]), axis=1)
            stalks.points = _points(ends.reshape(-1, 3))
            markers.append(stalks)
    for marker in markers[1:]:
        marker.color = _colour(REFUSED.get(marker.ns, UNUSABLE))
    return MarkerArray(markers=markers)


def _erase(stamp_ns: int, frame_id: str) -> Marker:
    """Deletes what was drawn before. With a frame, as Lichtblick reports markers without one."""
    return Marker(header=header(stamp_ns, frame_id), action=Marker.DELETEALL)


def _densified(corners: np.ndarray) -> np.ndarray:
    """A line through corners [K, 2], with about ``BORDER_POINTS`` points between them."""
    line = shapely.LineString(corners)
    found: np.ndarray = shapely.get_coordinates(line.segmentize(line.length / BORDER_POINTS))
    return found


def _points(places: np.ndarray) -> list[Point]:
    return [Point(x=x, y=y, z=z) for x, y, z in places.tolist()]


def _colour(rgb: tuple[float, float, float]) -> ColorRGBA:
    red, green, blue = rgb
    return ColorRGBA(r=red, g=green, b=blue, a=1.0)
