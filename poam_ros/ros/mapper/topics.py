"""The mapper's topics: maps, their support points, refused pings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from nav_msgs.msg import OccupancyGrid
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from ...core.clock import Moment
from ...core.geometry import Grid
from ...core.maps import ElevationMap
from ...core.samples import Samples
from ...frontend.refused_pings import RefusedPings
from ...learning.session import SurveySession
from ...planning.tvu import tvu_ratio
from ..common.clouds import write_map_cloud, write_occupancy, write_refused, write_tvu
from ..common.markers import surface, write_refused_pings, write_support
from ..common.qos import LATCHED

LAYERS = ("mean", "variance", "lengthscale")


class MapTopics:
    """Publishes maps and pings on latched topics.

    Attributes:
        bounds: values at 0 and 100 of the occupancy grids, by layer.
    """

    def __init__(self, node: Node, frame_id: str, grid: Grid) -> None:
        self._frame_id = frame_id
        self._grid = grid
        self._points = node.create_publisher(PointCloud2, "map/points", LATCHED)
        # The name of the topic is fixed; it has the support of any model.
        self._support = node.create_publisher(MarkerArray, "map/inducing_points", LATCHED)
        self._pictures = {
            layer: node.create_publisher(OccupancyGrid, f"map/{layer}", LATCHED) for layer in LAYERS
        }
        self._tvu = node.create_publisher(OccupancyGrid, "map/tvu", LATCHED)
        self._refused = node.create_publisher(PointCloud2, "pings/refused", LATCHED)
        self._refused_markers = node.create_publisher(MarkerArray, "pings/refused_markers", LATCHED)
        self._shown: tuple[int, Samples, ElevationMap | None] | None = None
        self._map: ElevationMap | None = None
        self.bounds: dict[str, tuple[float, float]] = {}

    def publish_unknown(self, stamp_ns: int) -> None:
        """Publish that there is no map yet."""
        self.bounds, self._map = {}, None
        nothing = write_support(np.empty((0, 3)), 1.0, stamp_ns, self._frame_id)
        self._support.publish(nothing)
        for publisher in self._pictures.values():
            publisher.publish(write_occupancy(self._grid, None, stamp_ns, self._frame_id)[0])
        self._tvu.publish(write_tvu(self._grid, None, stamp_ns, self._frame_id))

    def publish_refused(self, session: SurveySession, now: Moment) -> None:
        """Publish the newest refused pings and the withdrawn ones, if they changed, or the map they
        are drawn on. The caller limits the rate."""
        version, withdrawn, drawn = session.ledger.version, session.withdrawn, self._map
        known, self._shown = self._shown, (version, withdrawn, drawn)
        if known and known[0] == version and known[1] is withdrawn and known[2] is drawn:
            return
        pings = located(session, now)
        self._refused.publish(write_refused(pings, now.ros_ns, self._frame_id))
        size = float(np.hypot(*self._grid.borders.size))
        how = self._heights, size, now.ros_ns, self._frame_id
        self._refused_markers.publish(write_refused_pings(pings, *how))

    def _heights(self, xy: np.ndarray) -> np.ndarray:
        """What the map hides is below these at xy [N, 2], [N] in m; NaN where there is none."""
        drawn = self._map
        return np.full(len(xy), np.nan) if drawn is None else surface(drawn)(xy)

    def publish(self, drawn: ElevationMap, order: str = "", level: float | None = None) -> None:
        """Publish a map on every topic, with its stamp.

        Args:
            drawn: the map.
            order: S-44 order for `map/tvu`; empty: all cells are unknown.
            level: water level above the datum, in m; None if unknown.
        """
        self._map = drawn
        self._points.publish(write_map_cloud(drawn, self._frame_id, level or 0.0))
        bounds = {}
        for layer, publisher in self._pictures.items():
            values = getattr(drawn, layer)
            picture, span = write_occupancy(drawn.grid, values, drawn.stamp_ns, self._frame_id)
            publisher.publish(picture)
            if span is not None:
                bounds[layer] = span
        self.bounds = bounds
        part = None
        if order and level is not None:
            part = tvu_ratio(order, level - drawn.mean, np.sqrt(drawn.variance))
        self._tvu.publish(write_tvu(drawn.grid, part, drawn.stamp_ns, self._frame_id))
        size = float(self._grid.x[1] - self._grid.x[0]) / 2 if len(self._grid.x) > 1 else 0.5
        # On the map, so that viewers show them.
        support = np.column_stack((drawn.support, self._heights(drawn.support) + size / 2))
        self._support.publish(write_support(support, size, drawn.stamp_ns, self._frame_id))


def located(session: SurveySession, now: Moment) -> RefusedPings:
    """The refused and the withdrawn pings; those without an elevation at that of the sonar."""
    refused = session.refused_and_withdrawn
    unknown, xyz = np.isnan(refused.xyz[:, 2]), refused.xyz.copy()
    xyz[unknown, 2] = session.front_end.sonar_heights(refused.stamp_ns[unknown], now)
    return replace(refused, xyz=xyz)
