"""Markers at a map's height: its surface in the colours of a layer, and points and lines on it.

They are triangles, which need no cell size to be set in a viewer. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from geometry_msgs.msg import Point
from std_msgs.msg import ColorRGBA
from visualization_msgs.msg import Marker, MarkerArray

from ...core.geometry import Grid
from ...core.maps import ElevationMap
from ...frontend.odometry import VehicleState
from ...planning import tvu
from ..common import markers
from ..common.markers import blank, spheres
from ..common.messages import yaw_to_quaternion
from ..common.parameters import DrapeSettings

MAX_LINE_POINTS = 20_000
#: The vehicle's colour.
VEHICLE = (0.1, 0.65, 1.0)
#: The names of the levels of ``tvu.strictest``, in the order of ``markers.LEVELS``.
NAMES = ("none", *tvu.LEVELS)


@dataclass(frozen=True)
class SurfaceLayer:
    """Values [rows, columns], the colours [K, 3], the index of each value's colour, a legend."""

    values: np.ndarray
    palette: np.ndarray
    shade: np.ndarray
    legend: str


@dataclass(frozen=True, eq=False)
class DrapedMap:
    """A map that is drawn as a surface at its mean."""

    map: ElevationMap
    settings: DrapeSettings
    frame_id: str

    @property
    def grid(self) -> Grid:
        return self.map.grid

    @cached_property
    def lifted(self) -> np.ndarray:
        """The heights at which cells are drawn [rows, columns], m."""
        return lift(self.map.mean, self.settings)

    @property
    def step(self) -> float:
        """Distance between columns, m."""
        return float(self.grid.x[1] - self.grid.x[0])

    def under(self, xy: np.ndarray) -> np.ndarray:
        """The height of the surface at xy [N, 2], m; its minimum where it has none."""
        known = self.lifted[np.isfinite(self.lifted)]
        lowest = known.min() if known.size else self.settings.water_level
        return self.grid.interpolate(np.nan_to_num(self.lifted, nan=lowest), xy)

    @cached_property
    def _points(self) -> list[Point]:
        """The centres of the cells as messages, shared by all layers."""
        places = np.column_stack((self.grid.points, self.lifted.ravel())).tolist()
        return [Point(x=x, y=y, z=z) for x, y, z in places]

    @cached_property
    def _hillshade(self) -> np.ndarray:
        return markers.hillshade_levels(self.lifted, self.grid.x, self.grid.y)

    def layers(self) -> dict[str, SurfaceLayer]:
        """The layers of the map, by name of their topic."""
        drawn, deviation = self.map, np.sqrt(np.maximum(self.map.variance, 0))
        within = tvu.strictest(self.settings.water_level - drawn.mean, deviation)
        wet = within[np.isfinite(within)]
        legend = "TVU: no water"
        if wet.size:
            shares = [f"{name} {np.mean(wet == level):.0%}" for level, name in enumerate(NAMES)]
            legend = "within TVU: " + ", ".join(shares)
        return {
            "mean": self.elevations("elevation"),
            "uncertainty": _ramped(tvu.CONFIDENCE_95 * deviation, "doubt", "uncertainty (95 %)"),
            "lengthscale": _ramped(drawn.lengthscale, "length", "lengthscale"),
            "tvu": SurfaceLayer(within, markers.LEVELS, np.nan_to_num(within).astype(int), legend),
        }

    def elevations(self, name: str) -> SurfaceLayer:
        """The elevations, in the colours of depths if all are under water, else of land."""
        highest = np.max(self.map.mean, initial=-np.inf, where=np.isfinite(self.map.mean))
        wet = highest <= self.settings.water_level
        return _ramped(self.map.mean, "depth" if wet else "land", name)

    def drape(self, layer: SurfaceLayer) -> MarkerArray:
        """A layer at the surface's height, and its legend."""
        # Viewers shade only markers of a single colour: these colours include the hillshade.
        surface = self._marker(Marker.TRIANGLE_LIST, "surface")
        corners = _triangles(np.isfinite(layer.values) & np.isfinite(self.map.mean))
        key = layer.shade * (markers.SHADE_LEVELS + 1) + self._hillshade
        made: dict[int, ColorRGBA] = {}
        for one in np.unique(key).tolist():
            shade, light = divmod(one, markers.SHADE_LEVELS + 1)
            made[one] = _colour(markers.shaded(layer.palette[shade], light))
        keys, points = key.ravel()[corners].tolist(), self._points
        surface.points = [points[k] for k in corners.tolist()]
        surface.colors = [made[k] for k in keys]
        if not surface.points:
            surface.action = Marker.DELETE
        return MarkerArray(markers=[surface, self._legend(layer.legend)])

    def _legend(self, text: str) -> Marker:
        marker = self._marker(Marker.TEXT_VIEW_FACING, "legend")
        x, y = self.grid.x, self.grid.y
        size = float(np.hypot(np.ptp(x), np.ptp(y))) / 40
        marker.pose.position.x, marker.pose.position.y = float(x.mean()), float(y[-1] + 2 * size)
        marker.pose.position.z = float(np.nanmax(self.lifted, initial=self.settings.water_level))
        marker.scale.z = size
        marker.color = _colour(np.ones(3))
        marker.text = text
        return marker

    def spheres(
        self, points: np.ndarray, name: str, colour: tuple[float, float, float], size: float
    ) -> MarkerArray:
        """Points [N, 3] as spheres with this diameter (m), at their own heights."""
        return spheres(points, name, colour, size, self.map.stamp_ns, self.frame_id)

    def lines(self, borders: Iterable[Marker]) -> MarkerArray:
        """Lines, on the surface; earlier ones are deleted."""
        drawn = [self._marker(Marker.LINE_STRIP, "")]
        drawn[0].action = Marker.DELETEALL
        for border in borders:
            corners = np.array([(p.x, p.y) for p in border.points]).reshape(-1, 2)
            if len(corners) < 2 or not np.isfinite(corners).all():
                continue
            marker = self._marker(Marker.LINE_STRIP, border.ns, border.id)
            marker.scale.x, marker.color = self.step / 3, border.color
            places = _densified(corners, self.step)
            z = self.under(places) + self.step / 3  # not half inside the surface
            marker.points = [
                Point(x=x, y=y, z=up)
                for (x, y), up in zip(places.tolist(), z.tolist(), strict=True)
            ]
            drawn.append(marker)
        return MarkerArray(markers=drawn)

    def _marker(self, kind: int, name: str, number: int = 0) -> Marker:
        return blank(kind, name, self.map.stamp_ns, self.frame_id, number)


def lift(z: np.ndarray, settings: DrapeSettings) -> np.ndarray:
    """The heights at which elevations are drawn, m."""
    return settings.water_level + settings.exaggeration * (z - settings.water_level)


def vehicle(state: VehicleState, track: np.ndarray, settings: DrapeSettings) -> MarkerArray:
    """The vehicle as an arrow, and its track [N, 3] as a line."""
    arrow, line = (
        blank(kind, name, state.stamp_ns, state.frame_id)
        for kind, name in ((Marker.ARROW, "vehicle"), (Marker.LINE_STRIP, "trail"))
    )
    place = arrow.pose.position
    place.x, place.y, z = state.position
    place.z = float(lift(np.array(z), settings))
    turn = arrow.pose.orientation
    turn.x, turn.y, turn.z, turn.w = yaw_to_quaternion(state.yaw)
    arrow.scale.x, arrow.scale.y, arrow.scale.z = 2.5, 0.8, 0.8
    line.scale.x = 0.25
    arrow.color, line.color = _colour(np.array(VEHICLE)), _colour(np.array(VEHICLE))
    heights = lift(track[:, 2], settings).tolist()
    line.points = [
        Point(x=x, y=y, z=z) for (x, y), z in zip(track[:, :2].tolist(), heights, strict=True)
    ]
    return MarkerArray(markers=[arrow, line] if len(track) > 1 else [arrow])


def thinned(drawn: ElevationMap, max_cells: int) -> ElevationMap:
    """The map with every k-th row and column, so that about ``max_cells`` cells are left."""
    rows, columns = drawn.grid.shape
    step = min(round(np.sqrt(rows * columns / max_cells)), rows - 1, columns - 1)
    every = slice(None, None, max(1, step))
    fields = {name: values[every, every] for name, values in drawn.fields.items()}
    grid = Grid(drawn.grid.x[every], drawn.grid.y[every])
    return ElevationMap(
        grid, drawn.mean[every, every], drawn.variance[every, every], fields, drawn.support,
        drawn.samples, drawn.stamp_ns,
    )  # fmt: skip


def _ramped(values: np.ndarray, ramp: str, name: str) -> SurfaceLayer:
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    legend = f"{name} {low:.3g} to {high:.3g} m" if finite.size else f"{name}: none"
    return SurfaceLayer(values, markers.ramp(ramp), markers.steps(values, low, high), legend)


def _triangles(exists: np.ndarray) -> np.ndarray:
    """Flat indices of the corners of two triangles for each 2 x 2 cells that exist."""
    rows, columns = exists.shape
    number = np.arange(rows * columns).reshape(rows, columns)
    a, b, c, d = number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]
    whole = exists[:-1, :-1] & exists[:-1, 1:] & exists[1:, :-1] & exists[1:, 1:]
    return np.stack([corner[whole] for corner in (a, b, d, a, d, c)], axis=1).ravel()


def _densified(corners: np.ndarray, step: float) -> np.ndarray:
    """A line through corners [K, 2], with a point about every ``step`` m."""
    far = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(corners, axis=0).T))])
    count = int(min(far[-1] / step, MAX_LINE_POINTS)) + 2
    at = np.unique(np.concatenate([far, np.linspace(0, far[-1], count)]))
    return np.column_stack([np.interp(at, far, axis) for axis in corners.T])


def _colour(rgb: np.ndarray) -> ColorRGBA:
    red, green, blue = rgb.tolist()
    return ColorRGBA(r=red, g=green, b=blue, a=1.0)
