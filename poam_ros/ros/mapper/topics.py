"""The mapper's topics: maps, their support points, held and refused pings."""

from __future__ import annotations

import numpy as np
from nav_msgs.msg import OccupancyGrid
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import MarkerArray

from ...core.geometry import Grid
from ...core.maps import ElevationMap
from ...core.samples import Samples
from ...learning.session import SurveySession
from ...planning.tvu import tvu_ratio
from ..common.clouds import write_map_cloud, write_occupancy, write_points, write_refused, write_tvu
from ..common.markers import write_support
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
        self._held = node.create_publisher(PointCloud2, "pings/held", LATCHED)
        self._refused = node.create_publisher(PointCloud2, "pings/refused", LATCHED)
        self._known: tuple[int, Samples] | None = None  # the refused version, and the withdrawn
        self.bounds: dict[str, tuple[float, float]] = {}

    def publish_unknown(self, stamp_ns: int) -> None:
        """Publish that there is no map yet."""
        self.bounds = {}
        nothing = write_support(np.empty((0, 2)), 0.0, 1.0, stamp_ns, self._frame_id)
        self._support.publish(nothing)
        self.publish_held(Samples.empty(), stamp_ns)
        for publisher in self._pictures.values():
            publisher.publish(write_occupancy(self._grid, None, stamp_ns, self._frame_id)[0])
        self._tvu.publish(write_tvu(self._grid, None, stamp_ns, self._frame_id))

    def publish_held(self, held: Samples, stamp_ns: int) -> None:
        """Publish all held pings."""
        self._held.publish(write_points(held.xyz, stamp_ns, self._frame_id))

    def publish_refused(self, session: SurveySession, stamp_ns: int) -> None:
        """Publish the newest refused pings and the withdrawn ones, if they changed. The caller
        limits the rate."""
        known, self._known = self._known, (session.ledger.refused.version, session.withdrawn)
        if known is None or known[0] != self._known[0] or known[1] is not self._known[1]:
            self._refused.publish(
                write_refused(session.refused_and_withdrawn, stamp_ns, self._frame_id)
            )

    def publish(self, drawn: ElevationMap, order: str = "", level: float | None = None) -> None:
        """Publish a map on every topic, with its stamp.

        Args:
            drawn: the map.
            order: S-44 order for `map/tvu`; empty: all cells are unknown.
            level: water level above the datum, in m; None if unknown.
        """
        self._points.publish(write_map_cloud(drawn, self._frame_id))
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
        # Above the highest cell, so that viewers show them.
        height = float(drawn.mean.max())
        size = float(self._grid.x[1] - self._grid.x[0]) / 2 if len(self._grid.x) > 1 else 0.5
        self._support.publish(
            write_support(drawn.support, height, size, drawn.stamp_ns, self._frame_id)
        )
