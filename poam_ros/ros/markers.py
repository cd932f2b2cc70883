"""Support points, and where the vehicle may go, as markers and back. Pure functions."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Point
from visualization_msgs.msg import Marker, MarkerArray

from ..planning.areas import Areas
from .messages import header

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
    """Places [N, 3] as one marker, each a sphere of this size [m]."""
    marker = blank(Marker.SPHERE_LIST, name, stamp_ns, frame_id)
    marker.scale.x = marker.scale.y = marker.scale.z = float(size)
    marker.color.r, marker.color.g, marker.color.b = colour
    marker.points = [Point(x=x, y=y, z=z) for x, y, z in points.tolist()]
    if not marker.points:  # viewers complain of an empty list
        marker.action = Marker.DELETE
    return MarkerArray(markers=[marker])


def write_support(
    points: np.ndarray, z: float, size: float, stamp_ns: int, frame_id: str
) -> MarkerArray:
    """The support points [M, 2] as one marker at height z, each a sphere of this size [m]."""
    places = np.column_stack((points, np.full(len(points), float(z))))
    return spheres(places, "inducing_points", SUPPORT, size, stamp_ns, frame_id)


def write_areas(areas: Areas, stamp_ns: int, frame_id: str) -> MarkerArray:
    """Where the vehicle may go, as closed lines at height 0: ``workspace``, ``polygon``, and each
    ``keep_out``."""
    left, right, lower, upper = areas.workspace.bounds
    rings = [
        ("workspace", np.array([(left, lower), (right, lower), (right, upper), (left, upper)]))
    ]
    rings += [] if areas.polygon is None else [("polygon", areas.polygon)]
    rings += [("keep_out", corners) for corners in areas.keep_outs]
    # Those of an earlier mission; in a frame, since Lichtblick reports a marker without one.
    markers = [Marker(header=header(stamp_ns, frame_id), action=Marker.DELETEALL)]
    for number, (name, corners) in enumerate(rings):
        marker = Marker(header=header(stamp_ns, frame_id), ns=name, id=number)
        marker.type, marker.action = Marker.LINE_STRIP, Marker.ADD
        marker.pose.orientation.w, marker.scale.x = 1.0, 0.2
        marker.color.r, marker.color.g, marker.color.b = BORDERS[name]
        marker.color.a = 1.0
        closed = [*corners.tolist(), corners[0].tolist()]
        marker.points = [Point(x=float(x), y=float(y), z=0.0) for x, y in closed]
        markers.append(marker)
    return MarkerArray(markers=markers)


def read_support(message: MarkerArray) -> np.ndarray:
    """The support points of ``write_support`` [M, 2]."""
    drawn = (marker for marker in message.markers if marker.action == Marker.ADD)
    places = [(point.x, point.y) for marker in drawn for point in marker.points]
    return np.array(places).reshape(-1, 2)
