"""Values as messages and back: poses, maps and clouds, reports, markers. Pure functions.

``frontend/odometry.py`` and ``frontend/pings.py`` read what recordings have as well.
"""

from __future__ import annotations

import array
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import shapely
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Point, PoseStamped, Quaternion
from nav_msgs.msg import OccupancyGrid, Odometry, Path
from sensor_msgs.msg import PointCloud2, PointField
from std_msgs.msg import ColorRGBA, Header, String
from visualization_msgs.msg import Marker, MarkerArray

from ..core.clock import SECOND
from ..core.errors import InputError, shown
from ..core.geometry import Grid
from ..core.maps import ElevationMap
from ..frontend.odometry import bare_frame, largest_std, stamp_to_ns
from ..frontend.refused_pings import REASONS, RefusedPings
from ..outputs.chart import LEVEL, RELIEF, mixed, scaled_hillshade
from ..outputs.recorder import MapReport
from ..planning.areas import NavigableArea

MAP_FIELDS = ("x", "y", "z", "variance", "lengthscale")
REFUSED_FIELDS = ("x", "y", "z", "reason", "age")
#: Colours from low to high: of a map that is all under water, and of others.
WATER, LAND = (
    np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in mixed(ramp)])
    for ramp in (RELIEF, ("#265c56", "#5c8c54", "#b0b86e", "#cea874", "#9e745c", "#faf8f6"))
)
MIN_BRIGHTNESS = 0.45  # of 1, on a slope that faces away from the light
MAX_FIELDS = 32  # of a cloud: fields may overlap, and each one read takes twice the cloud's memory
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


def ns_to_stamp(stamp_ns: int) -> Time:
    """Nanoseconds as a stamp."""
    return Time(sec=int(stamp_ns // SECOND), nanosec=int(stamp_ns % SECOND))


def header(stamp_ns: int, frame_id: str) -> Header:
    """A header; frame ids carry no leading slash."""
    return Header(stamp=ns_to_stamp(stamp_ns), frame_id=bare_frame(frame_id))


def yaw_to_quaternion(yaw: float) -> tuple[float, float, float, float]:
    """The quaternion (x, y, z, w) of a yaw in rad, without pitch and roll."""
    return 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)


def position_std(message: Odometry) -> float:
    """The largest horizontal standard deviation of the position, in m; 0 if unknown."""
    covariance = message.pose.covariance.tolist()  # numpy would warn of infinite ones
    return largest_std(covariance[0], covariance[1], covariance[7])


def write_pose(
    xy: Sequence[float], stamp_ns: int, frame_id: str, z: float = 0.0, yaw: float = 0.0
) -> PoseStamped:
    """A pose without pitch and roll, for a goal or a point of a path."""
    message, q = PoseStamped(header=header(stamp_ns, frame_id)), yaw_to_quaternion(yaw)
    message.pose.position = Point(x=float(xy[0]), y=float(xy[1]), z=float(z))
    message.pose.orientation = Quaternion(x=q[0], y=q[1], z=q[2], w=q[3])
    return message


def write_path(points: np.ndarray, stamp_ns: int, frame_id: str, z: float = 0.0) -> Path:
    """Points [K, 2] as a path."""
    poses = [write_pose(xy, stamp_ns, frame_id, z) for xy in points]
    return Path(header=header(stamp_ns, frame_id), poses=poses)


def write_report(report: MapReport) -> String:
    """A report as `map/report`: its values by name as JSON; null: unknown."""
    values = asdict(report).items()
    known = {name: None if value != value else value for name, value in values}
    return String(data=json.dumps(known, default=np.generic.item))


def read_report(message: String) -> MapReport:
    """`map/report` as a report; other names are ignored.

    Raises:
        InputError: it is no JSON, or a value is missing, or no number.
    """
    names = [field.name for field in fields(MapReport)]
    try:
        values = json.loads(message.data)
        stamp_ns, samples, *others, finished = (values[name] for name in names)
        mean, variance, update_s, predict_s = (math.nan if v is None else float(v) for v in others)
        numbers = mean, variance, update_s, predict_s
        return MapReport(int(stamp_ns), int(samples), *numbers, bool(finished))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise InputError(
            f"map/report: expected JSON with numbers by name ({', '.join(names)}), got "
            f"'{shown(message.data, 200)}'"
        ) from None


def write_cloud(
    grid: Grid, layers: Mapping[str, np.ndarray], stamp_ns: int, frame_id: str
) -> PointCloud2:
    """An organised cloud, row-major from the lower left: x, y and the layers [rows, cols]."""
    rows, columns = grid.shape
    names = ("x", "y", *layers)
    values = np.empty((rows, columns, len(names)), dtype="<f4")
    values[..., 0] = grid.x
    values[..., 1] = grid.y[:, None]
    for index, layer in enumerate(layers.values(), start=2):
        values[..., index] = layer
    return _cloud(values, names, stamp_ns, frame_id)


def _cloud(values: np.ndarray, names: Sequence[str], stamp_ns: int, frame_id: str) -> PointCloud2:
    """A cloud of values [rows, columns, fields]."""
    rows, columns, _ = values.shape
    step = 4 * len(names)
    return PointCloud2(
        header=header(stamp_ns, frame_id),
        height=rows,
        width=columns,
        fields=[
            PointField(name=name, offset=4 * i, datatype=PointField.FLOAT32, count=1)
            for i, name in enumerate(names)
        ],
        is_bigendian=False,
        point_step=step,
        row_step=step * columns,
        # An array of this type is used as it is; rclpy checks bytes one by one.
        data=array.array("B", values.tobytes()),
        is_dense=bool(np.isfinite(values).all()),
    )


def colours(grid: Grid, z: np.ndarray, water_level: float = 0.0) -> np.ndarray:
    """The colours of elevations [rows, columns], in m, under a light from the north-west.

    Returns:
        FLOAT32 [rows, columns] that hold the bits 0x00RRGGBB, as the field ``rgb`` of PCL.
    """
    known = z[np.isfinite(z)]
    low, high = (known.min(), known.max()) if known.size else (0.0, 0.0)
    ramp = WATER if high <= water_level else LAND
    light = np.full(z.shape, LEVEL)
    with np.errstate(invalid="ignore"):  # infinite elevations
        share = np.nan_to_num((z - low) / ((high - low) or 1.0))
        if min(z.shape) > 1 and known.size:
            x, y = grid.x, grid.y
            light = np.nan_to_num(scaled_hillshade(z, (x[1] - x[0], y[1] - y[0])), nan=LEVEL)
    bright = MIN_BRIGHTNESS + (1 - MIN_BRIGHTNESS) * light
    index = np.rint((len(ramp) - 1) * np.clip(share, 0, 1)).astype(int)
    red, green, blue = (ramp[index] * bright[..., None]).astype("<u4").transpose(2, 0, 1)
    return (red << 16 | green << 8 | blue).view("<f4")


def write_refused(refused: RefusedPings, stamp_ns: int, frame_id: str) -> PointCloud2:
    """Refused pings with a known place as `pings/refused`.

    ``reason``: index in ``frontend.refused_pings.REASONS``; ``age``: s from the ping to the stamp;
    z: NaN without an elevation. Pings with other reasons, from a later version's journal, are left
    out.
    """
    pings = refused.placed
    numbers = {reason: number for number, reason in enumerate(REASONS)}
    pings = pings[np.isin(pings.reason, list(numbers))]
    values = np.empty((1, len(pings), 5), dtype="<f4")
    values[0, :, :3] = pings.xyz
    values[0, :, 3] = [numbers[reason] for reason in pings.reason.tolist()]
    values[0, :, 4] = (stamp_ns - pings.stamp_ns.astype(float)) / SECOND
    return _cloud(values, REFUSED_FIELDS, stamp_ns, frame_id)


def read_cloud(message: PointCloud2) -> tuple[Grid, dict[str, np.ndarray]]:
    """The grid and the layers (without x, y) of an organised FLOAT32 cloud, as float64.

    Raises:
        InputError: the cloud is empty or not a regular grid; it lacks x, y or z, has too many
            fields, or too few bytes.
    """
    rows, columns, kind = message.height, message.width, ">f4" if message.is_bigendian else "<f4"
    offsets = {f.name: f.offset for f in message.fields if f.datatype == PointField.FLOAT32}
    if not ({"x", "y", "z"} <= set(offsets) and len(offsets) <= MAX_FIELDS and rows * columns):
        raise InputError(
            f"cloud: expected points with FLOAT32 x, y, z, and at most {MAX_FIELDS} fields; got "
            f"{rows} x {columns} with {shown(str(list(offsets)))}"
        )
    step, row_step, size = message.point_step, message.row_step, len(message.data)
    if size < rows * row_step or row_step < columns * step:
        raise InputError(
            f"cloud: expected {rows} x {columns} points of {step} bytes, got {size} bytes, "
            f"{row_step} a row"
        )
    try:
        point: Any = {"names": list(offsets), "formats": [kind] * len(offsets)}
        point |= {"offsets": list(offsets.values()), "itemsize": step}
        points = np.ndarray((rows, columns), np.dtype(point), message.data, 0, (row_step, step))
    except ValueError as error:
        raise InputError(
            f"cloud: expected fields within {step} bytes of a point ({error})"
        ) from None
    layers = {name: points[name].astype(float) for name in offsets}
    x, y = layers.pop("x"), layers.pop("y")
    regular = (x == x[:1]).all() and (y == y[:, :1]).all()
    if not (regular and np.isfinite(x).all() and np.isfinite(y).all()) or (
        (np.diff(x[0]) <= 0).any() or (np.diff(y[:, 0]) <= 0).any()
    ):
        raise InputError("cloud: expected a regular grid, row-major from the lower left")
    return Grid(x[0], y[:, 0]), layers


def write_map_cloud(drawn: ElevationMap, frame_id: str, water_level: float = 0.0) -> PointCloud2:
    """A map as `map/points`, in full precision, with its stamp; ``density`` if known.

    ``rgb`` is for eyes: other colours for land than for a map that is all below the water level.
    """
    layers = {"z": drawn.mean, "variance": drawn.variance, "lengthscale": drawn.lengthscale}
    layers["rgb"] = colours(drawn.grid, drawn.mean, water_level)
    if drawn.density is not None:
        layers["density"] = drawn.density
    return write_cloud(drawn.grid, layers, drawn.stamp_ns, frame_id)


def read_map_cloud(message: PointCloud2) -> ElevationMap:
    """`map/points` as a map, without its number of samples.

    Raises:
        InputError: as `read_cloud`, or a layer is missing, or there is one row or column.
    """
    grid, layers = read_cloud(message)
    if min(grid.shape) < 2:
        raise InputError(f"map/points: expected 2 x 2 cells or more, got {grid.shape}")
    missing = [name for name in MAP_FIELDS[2:] if name not in layers]
    if missing:
        raise InputError(f"map/points: expected the fields {MAP_FIELDS}, {missing} missing")
    return ElevationMap(
        grid,
        layers["z"],
        layers["variance"],
        {"lengthscale": layers["lengthscale"]},
        stamp_ns=stamp_to_ns(message.header.stamp),
        density=layers.get("density"),
    )


def write_occupancy(
    grid: Grid, values: np.ndarray | None, stamp_ns: int, frame_id: str
) -> tuple[OccupancyGrid, tuple[float, float] | None]:
    """A layer as a picture for people, and the values at its 0 and 100.

    0..100: finite values [rows, cols], scaled linearly; -1: no value. Before there is a map, all
    are -1 and the bounds None.
    """
    shown = np.full(grid.shape, -1, dtype=np.int8)
    bounds = None
    finite = np.zeros(0, dtype=bool) if values is None else np.isfinite(values)
    if values is not None and finite.any():
        low, high = float(values[finite].min()), float(values[finite].max())
        span = high - low or 1.0
        shown[finite] = np.rint(100 * (values[finite] - low) / span).astype(np.int8)
        bounds = (low, high)
    return _picture(grid, shown, stamp_ns, frame_id), bounds


def write_tvu(grid: Grid, used: np.ndarray | None, stamp_ns: int, frame_id: str) -> OccupancyGrid:
    """The ratio of uncertainty to allowed uncertainty [rows, cols], of ``planning.tvu.tvu_ratio``.

    0..50: within it (50: ratio 1); 51..100: above it (100: ratio 2 or more); -1: unknown.
    """
    shown = np.full(grid.shape, -1, dtype=np.int8)
    if used is not None:
        known = np.isfinite(used)
        half = 50 * used[known]
        beyond = np.clip(np.ceil(half), 51, 100)
        shown[known] = np.where(used[known] <= 1, np.floor(half), beyond).astype(np.int8)
    return _picture(grid, shown, stamp_ns, frame_id)


def _picture(grid: Grid, shown: np.ndarray, stamp_ns: int, frame_id: str) -> OccupancyGrid:
    """An occupancy grid of cell values -1..100 [rows, cols]."""
    rows, columns = grid.shape
    resolution = float(grid.x[1] - grid.x[0]) if columns > 1 else float(grid.y[1] - grid.y[0])
    message = OccupancyGrid(header=header(stamp_ns, frame_id))
    message.info.map_load_time = message.header.stamp
    message.info.resolution = resolution
    message.info.width, message.info.height = columns, rows
    message.info.origin.position.x = float(grid.x[0] - resolution / 2)
    message.info.origin.position.y = float(grid.y[0] - resolution / 2)
    message.info.origin.orientation.w = 1.0
    message.data = array.array("b", shown.tobytes())
    return message


def _marker(
    kind: int, name: str, points: np.ndarray, size: float, colour: tuple[float, float, float],
    head: Header, number: int = 0,
) -> Marker:  # fmt: skip
    """An opaque marker with points [K, 3]; ``size``: of its spheres, lines or letters, in m."""
    marker = Marker(header=head, ns=name, id=number, type=kind)
    marker.pose.orientation.w = 1.0
    marker.scale.x = marker.scale.y = marker.scale.z = float(size)
    marker.color = ColorRGBA(**dict(zip("rgb", colour, strict=True)), a=1.0)
    marker.points = [Point(x=x, y=y, z=z) for x, y, z in points.tolist()]
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
    head = header(stamp_ns, frame_id)
    marker = _marker(Marker.SPHERE_LIST, "inducing_points", points, size, SUPPORT, head)
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
    size, head = float(np.hypot(*areas.workspace.size)), header(stamp_ns, frame_id)
    markers = [Marker(header=head, action=Marker.DELETEALL)]
    for number, (name, corners) in enumerate(rings):
        line = _densified(np.vstack((corners, corners[:1])))
        line = np.column_stack((line, heights(line)))
        style = BORDER_WIDTH * size, BORDERS[name], head, number
        markers.append(_marker(Marker.LINE_STRIP, name, line, *style))
    if state:
        style = TEXT_SIZE * size, BORDERS["workspace"], head, 0
        text = _marker(Marker.TEXT_VIEW_FACING, "state", np.empty((0, 3)), *style)
        # Inside, where every view shows it, and as high as the highest ground at the border.
        x, y = left + 3 * TEXT_SIZE * size, upper - TEXT_SIZE * size
        text.pose.position = Point(x=x, y=y, z=max(point.z for point in markers[1].points))
        text.text = state
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
    pings, head = refused.placed, header(stamp_ns, frame_id)
    # With a frame, as Lichtblick reports markers without one.
    markers = [Marker(header=head, action=Marker.DELETEALL)]
    ground = heights(pings.xyz[:, :2]) + PING_SIZE * size  # clear of the squares of the map
    tops = np.column_stack((pings.xyz[:, :2], np.fmax(pings.xyz[:, 2], ground)))
    somewhere = np.isfinite(tops[:, 2])
    for reason in np.unique(pings.reason).tolist():
        own, colour = somewhere & (pings.reason == reason), REFUSED.get(reason, UNUSABLE)
        hidden = own & (pings.xyz[:, 2] < ground)
        stalks = np.stack((tops[hidden], pings.xyz[hidden]), axis=1).reshape(-1, 3)
        for number, (kind, points, width) in enumerate(
            ((Marker.SPHERE_LIST, tops[own], PING_SIZE), (Marker.LINE_LIST, stalks, STALK_WIDTH))
        ):
            if len(points):
                style = width * size, colour, head, number
                markers.append(_marker(kind, reason, points, *style))
    return MarkerArray(markers=markers)


def _densified(corners: np.ndarray) -> np.ndarray:
    """A line through corners [K, 2], with about ``BORDER_POINTS`` points between them."""
    line = shapely.LineString(corners)
    found: np.ndarray = shapely.get_coordinates(line.segmentize(line.length / BORDER_POINTS))
    return found
