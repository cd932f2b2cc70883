"""Messages to arrays and back. Pure functions; no node, no topic, no state."""

from __future__ import annotations

import array
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import Point, PoseStamped, Quaternion
from nav_msgs.msg import OccupancyGrid, Odometry, Path
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import PointCloud2, PointField, Range
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from ..clock import SECOND
from ..errors import InputError
from ..geometry import Grid
from ..survey.gate import RawPing
from ..survey.odometry import VehicleState

if TYPE_CHECKING:
    from ..maps import ElevationMap

# Maps, terrain and the mission's state: whoever comes late gets the last one.
LATCHED = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.TRANSIENT_LOCAL,
)
# What a sensor driver uses.
SENSOR_PUBLISH = QoSProfile(
    depth=10,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE,
)
# How we read one: deep enough for 20 s of odometry at 100 Hz beside a busy model.
SENSOR_READ = QoSProfile(
    depth=2000,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.BEST_EFFORT,
    durability=DurabilityPolicy.VOLATILE,
)
# A goal is repeated, never latched: no stale goal moves a vehicle that comes up.
GOAL = QoSProfile(
    depth=1,
    history=HistoryPolicy.KEEP_LAST,
    reliability=ReliabilityPolicy.RELIABLE,
    durability=DurabilityPolicy.VOLATILE,
)

MAP_FIELDS = ("x", "y", "z", "variance", "lengthscale")


def stamp_to_ns(stamp: Time) -> int:
    """A message's stamp in nanoseconds."""
    return stamp.sec * SECOND + stamp.nanosec


def ns_to_stamp(stamp_ns: int) -> Time:
    """Nanoseconds as a message's stamp."""
    return Time(sec=int(stamp_ns // SECOND), nanosec=int(stamp_ns % SECOND))


def header(stamp_ns: int, frame_id: str) -> Header:
    """A header; frame ids carry no leading slash."""
    return Header(stamp=ns_to_stamp(stamp_ns), frame_id=bare_frame(frame_id))


def bare_frame(frame_id: str) -> str:
    """A frame id without the leading slash of old days, so that it compares."""
    return frame_id.lstrip("/")


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
        # An array of the right type is taken as it is; bytes are checked one by one.
        data=array.array("B", values.tobytes()),
        is_dense=bool(np.isfinite(values).all()),
    )


def read_cloud(message: PointCloud2) -> tuple[Grid, dict[str, np.ndarray]]:
    """The grid and the layers (without x, y) of an organised cloud of FLOAT32, as float64.

    Raises:
        InputError: the cloud is empty, not a regular grid, or not of FLOAT32 fields x, y, z, ...
    """
    wanted = [f for f in message.fields if f.datatype == PointField.FLOAT32]
    names = [f.name for f in wanted]
    rows, columns = message.height, message.width
    if not {"x", "y", "z"} <= set(names) or rows * columns == 0:
        raise InputError(
            f"cloud: expected points with FLOAT32 x, y, z; got {rows} x {columns} with {names}"
        )
    if len(message.data) < rows * message.row_step or message.row_step < columns * (
        message.point_step
    ):
        raise InputError(
            f"cloud: expected {rows} rows of {message.row_step} bytes, got {len(message.data)}"
        )
    raw = np.frombuffer(message.data, dtype=np.uint8)[: rows * message.row_step]
    points = raw.reshape(rows, message.row_step)[:, : columns * message.point_step]
    points = points.reshape(rows, columns, message.point_step)
    kind = ">f4" if message.is_bigendian else "<f4"
    layers = {
        f.name: np.ascontiguousarray(points[..., f.offset : f.offset + 4])
        .view(kind)[..., 0]
        .astype(float)
        for f in wanted
    }
    x, y = layers.pop("x"), layers.pop("y")
    if (x != x[:1]).any() or (y != y[:, :1]).any():
        raise InputError("cloud: expected a regular grid, row-major from the lower left")
    return Grid(x[0], y[:, 0]), layers


@dataclass(frozen=True)
class ReceivedMap:
    """A map as it came over the wire: mean [m], variance [m^2], lengthscale [m], [rows, cols]."""

    grid: Grid
    mean: np.ndarray
    variance: np.ndarray
    lengthscale: np.ndarray
    stamp_ns: int


def write_map_cloud(snapshot: ElevationMap, stamp_ns: int, frame_id: str) -> PointCloud2:
    """The full-precision map, `map/points`."""
    layers = {
        "z": snapshot.mean,
        "variance": snapshot.variance,
        "lengthscale": snapshot.lengthscale,
    }
    return write_cloud(snapshot.grid, layers, stamp_ns, frame_id)


def read_map_cloud(message: PointCloud2) -> ReceivedMap:
    """`map/points` as arrays.

    Raises:
        InputError: as `read_cloud`, or a layer is missing.
    """
    grid, layers = read_cloud(message)
    missing = [name for name in MAP_FIELDS[2:] if name not in layers]
    if missing:
        raise InputError(f"map/points: expected the fields {MAP_FIELDS}, {missing} missing")
    return ReceivedMap(
        grid,
        layers["z"],
        layers["variance"],
        layers["lengthscale"],
        stamp_to_ns(message.header.stamp),
    )


def write_terrain_cloud(
    grid: Grid, elevation: np.ndarray, stamp_ns: int, frame_id: str
) -> PointCloud2:
    """The ground truth, elevation [rows, cols] at the points of the grid."""
    return write_cloud(grid, {"z": elevation}, stamp_ns, frame_id)


def write_occupancy(
    grid: Grid, values: np.ndarray | None, stamp_ns: int, frame_id: str
) -> tuple[OccupancyGrid, tuple[float, float] | None]:
    """A picture for people's eyes, and the values at its 0 and 100.

    0..100 is the affine image of the finite values [rows, cols]; -1 where there is none, and
    everywhere (bounds None) before there is a map.
    """
    rows, columns = grid.shape
    resolution = float(grid.x[1] - grid.x[0]) if columns > 1 else float(grid.y[1] - grid.y[0])
    message = OccupancyGrid(header=header(stamp_ns, frame_id))
    message.info.map_load_time = message.header.stamp
    message.info.resolution = resolution
    message.info.width, message.info.height = columns, rows
    message.info.origin.position.x = float(grid.x[0] - resolution / 2)
    message.info.origin.position.y = float(grid.y[0] - resolution / 2)
    message.info.origin.orientation.w = 1.0
    shown = np.full((rows, columns), -1, dtype=np.int8)
    bounds = None
    finite = np.zeros(0, dtype=bool) if values is None else np.isfinite(values)
    if values is not None and finite.any():
        low, high = float(values[finite].min()), float(values[finite].max())
        span = high - low or 1.0
        shown[finite] = np.rint(100 * (values[finite] - low) / span).astype(np.int8)
        bounds = (low, high)
    message.data = array.array("b", shown.tobytes())
    return message, bounds


def write_inducing_points(
    points: np.ndarray, z: float, size: float, stamp_ns: int, frame_id: str
) -> MarkerArray:
    """The inducing points [M, 2] as one marker at height z, each a sphere of this size [m]."""
    marker = Marker(header=header(stamp_ns, frame_id), ns="inducing_points", id=0)
    marker.type, marker.action = Marker.SPHERE_LIST, Marker.ADD
    marker.pose.orientation.w = 1.0
    marker.scale.x = marker.scale.y = marker.scale.z = float(size)
    marker.color.r, marker.color.g, marker.color.b, marker.color.a = 1.0, 0.55, 0.0, 1.0
    marker.points = [Point(x=float(x), y=float(y), z=float(z)) for x, y in points]
    if not marker.points:  # viewers complain of an empty list
        marker.action = Marker.DELETE
    return MarkerArray(markers=[marker])


def yaw_to_quaternion(yaw: float) -> tuple[float, float, float, float]:
    """A level attitude with this heading, as (x, y, z, w)."""
    return 0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2)


def write_odometry(state: VehicleState, child_frame_id: str = "base_link") -> Odometry:
    """The state as a message; speed and yaw rate in the child's frame."""
    message = Odometry(header=header(state.stamp_ns, state.frame_id))
    message.child_frame_id = bare_frame(child_frame_id)
    _fill_pose(message.pose.pose, state.position, state.quaternion)
    message.twist.twist.linear.x = float(state.speed)
    message.twist.twist.angular.z = float(state.yaw_rate)
    return message


def read_odometry(message: Odometry) -> VehicleState:
    """The message as a state; whether its attitude is one is for the buffer to judge."""
    pose, twist = message.pose.pose, message.twist.twist
    p, q = pose.position, pose.orientation
    return VehicleState(
        stamp_to_ns(message.header.stamp),
        (p.x, p.y, p.z),
        (q.x, q.y, q.z, q.w),
        twist.linear.x,
        twist.angular.z,
        bare_frame(message.header.frame_id),
    )


def write_range(ping: RawPing, frame_id: str = "sonar_link", field_of_view: float = 0.05) -> Range:
    """A ping as a message: an acoustic range along the x axis of its frame."""
    return Range(
        header=header(ping.stamp_ns, frame_id),
        radiation_type=Range.ULTRASOUND,
        field_of_view=float(field_of_view),
        min_range=float(ping.min_range),
        max_range=float(ping.max_range),
        range=float(ping.range),
    )


def read_range(message: Range) -> RawPing:
    """The message as a ping."""
    return RawPing(
        stamp_to_ns(message.header.stamp), message.range, message.min_range, message.max_range
    )


def write_pose(
    xy: Sequence[float], stamp_ns: int, frame_id: str, z: float = 0.0, yaw: float = 0.0
) -> PoseStamped:
    """A level pose, as a goal or a point of a path."""
    message = PoseStamped(header=header(stamp_ns, frame_id))
    _fill_pose(message.pose, (xy[0], xy[1], z), yaw_to_quaternion(yaw))
    return message


def read_pose(message: PoseStamped) -> np.ndarray:
    """The place of a goal, [2]."""
    return np.array((message.pose.position.x, message.pose.position.y))


def write_path(points: np.ndarray, stamp_ns: int, frame_id: str, z: float = 0.0) -> Path:
    """The points [K, 2] as a path."""
    poses = [write_pose(xy, stamp_ns, frame_id, z) for xy in points]
    return Path(header=header(stamp_ns, frame_id), poses=poses)


def write_diagnostics(
    name: str,
    level: bytes,
    text: str,
    values: Mapping[str, object],
    stamp_ns: int,
    hardware_id: str = "",
) -> DiagnosticArray:
    """One status; numbers are shown with six digits."""
    status = DiagnosticStatus(level=level, name=name, message=text, hardware_id=hardware_id)
    status.values = [
        KeyValue(key=key, value=f"{value:.6g}" if isinstance(value, float) else str(value))
        for key, value in values.items()
    ]
    return DiagnosticArray(header=header(stamp_ns, ""), status=[status])


def read_diagnostics(message: DiagnosticArray, name: str) -> dict[str, str]:
    """The values of the status whose name ends with ``name``; empty where there is none."""
    for status in message.status:
        if status.name.endswith(name):
            return {item.key: item.value for item in status.values}
    return {}


def _fill_pose(pose: object, position: Sequence[float], quaternion: Sequence[float]) -> None:
    x, y, z = (float(value) for value in position)
    pose.position = Point(x=x, y=y, z=z)  # type: ignore[attr-defined]
    qx, qy, qz, qw = (float(value) for value in quaternion)
    pose.orientation = Quaternion(x=qx, y=qy, z=qz, w=qw)  # type: ignore[attr-defined]
