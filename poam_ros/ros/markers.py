"""Support points, and where the vehicle may go, as markers and back. Pure functions."""

from __future__ import annotations

import numpy as np
from geometry_msgs.msg import Point
from visualization_msgs.msg import Marker, MarkerArray

from ..planning.areas import Areas
from .messages import header

#: Colours of the borders: of the rectangle, of a polygon in it, of what may not be entered.
BORDERS = {
    "workspace": (0.8, 0.8, 0.8), "polygon": (0.2, 0.8, 0.3), "keep_out": (0.95, 0.15, 0.1),
}  # fmt: skip


def write_support(
    points: np.ndarray, z: float, size: float, stamp_ns: int, frame_id: str
) -> MarkerArray:
    """The support points [M, 2] as one marker at height z, each a sphere of this size [m]."""
    marker = Marker(header=header(stamp_ns, frame_id), ns="inducing_points", id=0)
    marker.type, marker.action = Marker.SPHERE_LIST, Marker.ADD
    marker.pose.orientation.w = 1.0
    marker.scale.x = marker.scale.y = marker.scale.z = float(size)
    marker.color.r, marker.color.g, marker.color.b, marker.color.a = 1.0, 0.55, 0.0, 1.0
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y in points]
    if not marker.points:  # viewers complain of an empty list
        marker.action = Marker.DELETE
    return MarkerArray(markers=[marker])


def write_areas(areas: Areas, stamp_ns: int, frame_id: str) -> MarkerArray:
    """Where the vehicle may go, as closed lines at height 0: ``workspace``, ``polygon``, and each
    ``keep_out``."""
    left, right, lower, upper = areas.workspace.bounds
    rings = [
        ("workspace", np.array([(left, lower), (right, lower), (right, upper), (left, upper)]))
    ]
    rings += [] if areas.polygon is None else [("polygon", areas.polygon)]
    rings += [("keep_out", corners) for corners in areas.keep_outs]
    markers = [Marker(action=Marker.DELETEALL)]  # those of an earlier mission
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
