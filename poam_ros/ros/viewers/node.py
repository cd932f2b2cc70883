"""The node drapes: draws the map for RViz and Foxglove, on the viewer's machine."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from nav_msgs.msg import Odometry
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import Marker, MarkerArray

from ...core.errors import InputError
from ...core.maps import ElevationMap
from ...core.settings import instance
from ...frontend.odometry import VehicleState
from ..common import clouds
from ..common.executor import run_node
from ..common.markers import SUPPORT, read_support
from ..common.messages import bare_frame, read_odometry, stamp_to_ns
from ..common.node import ManagedNode
from ..common.parameters import DRAPES, DrapeSettings
from ..common.qos import LATCHED, SENSOR_READ
from .drapes import DrapedMap, lift, thinned, vehicle

LAYERS = ("mean", "uncertainty", "lengthscale", "tvu")
HELD, REFUSED = (0.95, 0.1, 0.3), (0.35, 0.05, 0.1)
MAX_TRACK_POINTS, TRACK_SPACING = 5000, 0.25  # points, and m between them
VEHICLE_PERIOD_S = 0.5  # wall time


class DrapesNode(ManagedNode):
    """Publishes maps and what belongs to them as surfaces at their own height.

    The other nodes do not depend on it.

    Raises:
        InputError: a parameter is wrong.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("drapes", DRAPES, **options)

    def configure(self) -> None:
        """Create latched publishers, and subscribe."""
        super().configure()
        self._map: tuple[ElevationMap, str] | None = None
        self._truth: tuple[ElevationMap, str] | None = None
        self._support = np.empty((0, 2))
        self._held = self._refused = np.empty((0, 3))
        self._borders: list[Marker] = []
        self._track: deque[tuple[float, float, float]] = deque(maxlen=MAX_TRACK_POINTS)
        self._vehicle: VehicleState | None = None
        names = (*LAYERS, "truth", "support", "held", "refused", "areas", "vehicle")
        self._topics = {
            name: self.create_publisher(MarkerArray, f"drapes/{name}", LATCHED) for name in names
        }
        for kind, topic, take in (
            (PointCloud2, "map/points", self._take_map),
            (PointCloud2, "terrain", self._take_truth),
            (MarkerArray, "map/inducing_points", self._take_support),
            (PointCloud2, "pings/held", self._take_held),
            (PointCloud2, "pings/refused", self._take_refused),
            (MarkerArray, "mission/areas", self._take_areas),
        ):
            self.create_subscription(kind, topic, partial(self._receive, topic, take), LATCHED)

    def activate(self) -> None:
        """Draw the vehicle."""
        super().activate()
        self.create_subscription(Odometry, "odom", self._on_odometry, SENSOR_READ)
        self.create_timer(VEHICLE_PERIOD_S, self._draw_vehicle)

    def changed(self, names: frozenset[str]) -> None:
        """Draw everything again."""
        self._draw_map()
        self._draw_truth()

    def _receive(self, topic: str, take: Callable[[Any], None], message: Any) -> None:
        try:
            take(message)
        except InputError as error:
            self.warnings.add("unreadable", f"{topic}: {error}")

    def _take_map(self, message: PointCloud2) -> None:
        self._map = clouds.read_map_cloud(message), message.header.frame_id
        self._draw_map()

    def _take_truth(self, message: PointCloud2) -> None:
        grid, layers = clouds.read_cloud(message)
        stamp_ns, nothing = stamp_to_ns(message.header.stamp), np.zeros(grid.shape)
        truth = ElevationMap(grid, layers["z"], nothing, stamp_ns=stamp_ns)
        self._truth = truth, message.header.frame_id
        self._draw_truth()

    def _take_support(self, message: MarkerArray) -> None:
        self._support = _finite(read_support(message))
        self._draw_overlays()

    def _take_held(self, message: PointCloud2) -> None:
        self._held = _finite(clouds.read_points(message))
        self._draw_overlays()

    def _take_refused(self, message: PointCloud2) -> None:
        points = clouds.read_refused(message).xyz
        self._refused = points[np.isfinite(points[:, :2]).all(axis=1)]
        self._draw_refused()

    def _take_areas(self, message: MarkerArray) -> None:
        self._borders = [marker for marker in message.markers if marker.action == Marker.ADD]
        self._draw_overlays()

    def _on_odometry(self, message: Odometry) -> None:
        state = read_odometry(message)
        if not np.isfinite(state.position).all():
            return
        if not self._track or math.dist(self._track[-1], state.position) > TRACK_SPACING:
            self._track.append(state.position)
        self._vehicle = state

    def _surface(self, known: tuple[ElevationMap, str] | None) -> DrapedMap | None:
        """The surface to drape, thinned if it is large; None if unknown."""
        if known is None:
            return None
        settings = instance(DrapeSettings, vars(self.values))
        return DrapedMap(thinned(known[0], settings.max_cells), settings, bare_frame(known[1]))

    def _draw_map(self) -> None:
        surface = self._surface(self._map)
        if surface is None:
            return
        for name, layer in surface.layers().items():
            self._topics[name].publish(surface.drape(layer))
        self._draw_overlays()

    def _draw_truth(self) -> None:
        surface = self._surface(self._truth)
        if surface is not None:
            self._topics["truth"].publish(surface.drape(surface.elevations("truth")))

    def _draw_vehicle(self) -> None:
        """Draw the vehicle and its track, in the frame of the odometry."""
        state, self._vehicle = self._vehicle, None
        if state is not None:
            settings = instance(DrapeSettings, vars(self.values))
            self._topics["vehicle"].publish(vehicle(state, np.array(self._track), settings))

    def _draw_overlays(self) -> None:
        """Draw support points, borders and pings on the map, if there is one."""
        surface = self._surface(self._map)
        if surface is None:
            return
        size = surface.step / 2
        support = np.column_stack((self._support, surface.under(self._support) + size / 2))
        held = self._held.copy()
        held[:, 2] = lift(held[:, 2], surface.settings)
        self._topics["support"].publish(surface.spheres(support, "support", SUPPORT, size))
        self._topics["held"].publish(surface.spheres(held, "held", HELD, size))
        self._topics["areas"].publish(surface.lines(self._borders))
        self._draw_refused()

    def _draw_refused(self) -> None:
        """Draw refused pings; those of unknown elevation lie on the surface."""
        surface = self._surface(self._map)
        if surface is None:
            return
        points, size = self._refused.copy(), surface.step / 2
        z, under = lift(points[:, 2], surface.settings), surface.under(points[:, :2]) + size / 2
        points[:, 2] = np.where(np.isfinite(z), z, under)
        self._topics["refused"].publish(surface.spheres(points, "refused", REFUSED, size))


def _finite(points: np.ndarray) -> np.ndarray:
    """The finite ones of points [N, D]."""
    return points[np.isfinite(points).all(axis=1)]


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, DrapesNode)


if __name__ == "__main__":
    sys.exit(main())
