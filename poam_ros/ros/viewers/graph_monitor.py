"""The live graph as a scene for `poam view`, from its topics. Publishes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from threading import Lock
from typing import Any

import numpy as np
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from nav_msgs.msg import Path as Plan
from rclpy.node import Node
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import Float64, Float64MultiArray, String, UInt64
from visualization_msgs.msg import MarkerArray

from ...core.errors import InputError, quantity
from ...core.maps import ElevationMap
from ...importers.messages import bare_frame, read_odometry
from ...outputs.exports.chart import Chart, ExportSettings
from ...outputs.scoring import MapReport
from ...outputs.view.scene import BAD, NOTE, Curves, Notice, Scene, ThinnedTrack
from ...planning.tvu import CONFIDENCE_95
from ..common import clouds, markers, messages, qos
from ..common.executor import subscribe

MAX_REPORTS = 5000  # for the curves
MIN_LEVEL_CHANGE = 0.01  # m, to draw the map again
#: Titles of the curves.
UNCERTAINTY, UPDATE, PREDICTION = "95 %, median (m)", "update", "prediction"


class GraphMonitor:
    """Subscribes with a node. Callbacks run on the node's thread, ``scene`` on any.

    Args:
        node: in the namespace to watch.
        settings: how maps are shown; the topic water_level overrides their water level.

    Attributes:
        version: increases with every message.
    """

    def __init__(self, node: Node, settings: ExportSettings) -> None:
        self.version = 0
        self._lock, self._settings = Lock(), settings
        place = node.get_namespace().strip("/")
        self._scene = Scene(f"Live survey {place}".strip())
        self._track, self._frames, self._fault = ThinnedTrack(), {"odom": "", "map": ""}, ""
        self._map: ElevationMap | None = None
        self._support = np.empty((0, 2))
        self._reports: dict[int, MapReport] = {}
        self._medians: dict[int, float] = {}
        # Whether chart and curves are out of date.
        self._chart_old = self._curves_old = False
        for kind, topic, callback, how in (
            (PointCloud2, "map/points", self._on_map, qos.KEPT),
            (MarkerArray, "map/inducing_points", self._on_support, qos.LATCHED),
            (UInt64, "map/samples", self._on_samples, qos.LATCHED),
            (Float64MultiArray, "map/report", self._on_report, qos.KEPT),
            (Float64, "water_level", self._on_level, qos.SENSOR_READ),
        ):
            node.create_subscription(kind, topic, self._safely(topic, callback), how)
        data = attrgetter("data")
        for field, kind, topic, read, how in (
            ("state", String, "mission/state", data, qos.LATCHED),
            ("reason", String, "mission/reason", data, qos.LATCHED),
            ("goal", PoseStamped, "goal_pose", lambda m: messages.read_pose(m)[None], qos.GOAL),
            ("plan", Plan, "plan", messages.read_path, qos.KEPT),
            ("held", PointCloud2, "pings/held", _read_xy, qos.LATCHED),
            ("refused", PointCloud2, "pings/refused", clouds.read_refused, qos.LATCHED),
        ):
            callback = self._safely(topic, partial(self._on_field, field, read))
            node.create_subscription(kind, topic, callback, how)
        on_odometry = self._safely("odom", self._on_odometry)
        subscribe(node, Odometry, "odom", on_odometry, qos.SENSOR_READ)

    def scene(self, remarks: Sequence[Notice]) -> Scene:
        """The present scene, with these remarks and its own."""
        with self._lock:
            self._redraw()
            odometry, ours = self._frames["odom"], self._frames["map"]
            elsewhere = bool(odometry and ours and odometry != ours)
            notices = [*remarks]
            if elsewhere:
                text = f"odometry is in the frame {odometry}, the map in {ours}"
                notices.append(
                    Notice(text, "the track is not shown, as this page does not use tf", NOTE)
                )
            if self._fault:
                notices.append(Notice(self._fault, "its publisher has another version", BAD))
            track = np.empty((0, 2)) if elsewhere else self._track.places
            vehicle = None if elsewhere else self._scene.vehicle
            return replace(
                self._scene, track=track, vehicle=vehicle, remarks=tuple(notices),
                waiting=self._waiting(remarks),
            )  # fmt: skip

    def _waiting(self, remarks: Sequence[Notice]) -> str:
        scene = self._scene
        if self._map is not None:
            return ""
        known = [f"mission {scene.state}" if scene.state else "", scene.reason]
        known.append(f"{quantity(scene.samples, 'ping')} so far" if scene.samples else "")
        found = ", ".join(filter(None, known))
        if not found and not self._track.places.size and remarks:
            found = "; ".join(filter(None, (remarks[0].text, remarks[0].advice)))
        return f"waiting for the first map: {found or 'nothing received from the mission yet'}"

    def _redraw(self) -> None:
        """Make chart and curves again if they are out of date."""
        if self._chart_old:
            self._set(chart=self._chart())
        if self._curves_old:
            self._set(curves=self._curves())
        self._chart_old = self._curves_old = False

    def _chart(self) -> Chart | None:
        drawn = self._map
        if drawn is None:
            return None
        report = self._reports.get(drawn.stamp_ns)
        texts = {} if report is None else {"samples": str(report.samples)}
        unknown = np.full(drawn.grid.shape, np.nan)
        density = unknown if drawn.density is None else drawn.density
        with np.errstate(invalid="ignore"):
            deviation = np.sqrt(drawn.variance)
        return Chart(
            drawn.grid, drawn.mean, deviation, density, np.empty((0, 2)), self._settings, None,
            texts, drawn.lengthscale, self._support,
        )  # fmt: skip

    def _curves(self) -> Curves:
        reports = sorted(self._reports.values(), key=lambda report: report.samples)
        medians = [self._medians.get(report.stamp_ns, np.nan) for report in reports]
        return Curves(
            np.array([report.samples for report in reports], float),
            {UNCERTAINTY: np.array(medians)} if np.isfinite(medians).any() else {},
            {UPDATE: np.array([report.update_s for report in reports]),
             PREDICTION: np.array([report.predict_s for report in reports])},
        )  # fmt: skip

    def _safely(self, topic: str, callback: Any) -> Any:
        """A callback with a lock that shows an InputError as a remark."""

        def receive(message: Any) -> None:
            with self._lock:
                try:
                    callback(message)
                except InputError as error:
                    text = str(error)
                    self._fault = text if text.startswith(topic) else f"{topic}: {text}"
                self.version += 1

        return receive

    def _set(self, **values: Any) -> None:
        self._scene = replace(self._scene, **values)

    def _on_map(self, message: PointCloud2) -> None:
        drawn = clouds.read_map_cloud(message)
        self._map, self._fault = drawn, ""
        self._frames["map"] = bare_frame(message.header.frame_id)
        known = drawn.variance[drawn.variance >= 0]
        if len(known):
            self._medians[drawn.stamp_ns] = float(CONFIDENCE_95 * np.sqrt(np.median(known)))
        _bound(self._medians)
        self._chart_old = self._curves_old = True

    def _on_support(self, message: MarkerArray) -> None:
        self._support, self._chart_old = markers.read_support(message), True

    def _on_samples(self, message: UInt64) -> None:
        if message.data < self._scene.samples:  # the mapper was reset
            self._map, self._track = None, ThinnedTrack()
            self._reports, self._medians = {}, {}
            self._chart_old = self._curves_old = True
        self._set(samples=message.data)

    def _on_report(self, message: Float64MultiArray) -> None:
        report = messages.read_report(message)
        self._reports[report.stamp_ns] = report
        _bound(self._reports)
        self._chart_old = self._curves_old = True

    def _on_field(self, field: str, read: Callable[[Any], Any], message: Any) -> None:
        self._set(**{field: read(message)})

    def _on_level(self, message: Float64) -> None:
        if (
            np.isfinite(message.data)
            and abs(message.data - self._settings.water_level) >= MIN_LEVEL_CHANGE
        ):
            self._settings = replace(self._settings, water_level=message.data)
            self._chart_old = True

    def _on_odometry(self, message: Odometry) -> None:
        state = read_odometry(message)
        x, y, _ = state.position
        if np.isfinite((x, y, state.yaw)).all():
            self._frames["odom"] = state.frame_id
            self._track.add(x, y)
            self._set(vehicle=(x, y, state.yaw))


def _read_xy(message: PointCloud2) -> np.ndarray:
    return clouds.read_points(message)[:, :2]


def _bound(kept: dict[int, Any]) -> None:
    while len(kept) > MAX_REPORTS:
        del kept[next(iter(kept))]  # the first that came; a clock may have been set back since
