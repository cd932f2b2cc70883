"""Grids as messages and back: organised clouds, pictures. Pure functions."""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence

import numpy as np
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import PointCloud2, PointField

from ...core.clock import SECOND
from ...core.errors import InputError, shown
from ...core.geometry import Grid
from ...core.maps import ElevationMap
from ...frontend.refused_pings import REASONS, RefusedPings
from .messages import header, stamp_to_ns

MAP_FIELDS = ("x", "y", "z", "variance", "lengthscale")
REFUSED_FIELDS = ("x", "y", "z", "reason", "age")
MOST_AGE = 1e9  # s; of a ping that is older nobody knows its time


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
        # An array of the right type is taken as it is; bytes are checked one by one.
        data=array.array("B", values.tobytes()),
        is_dense=bool(np.isfinite(values).all()),
    )


def write_points(points: np.ndarray, stamp_ns: int, frame_id: str) -> PointCloud2:
    """Points [N, 3] in no order, N = 0 included."""
    values = np.ascontiguousarray(points, dtype="<f4")
    return _cloud(values.reshape(1, -1, 3), ("x", "y", "z"), stamp_ns, frame_id)


def write_refused(refused: RefusedPings, stamp_ns: int, frame_id: str) -> PointCloud2:
    """Refused pings whose place is known, N = 0 included: `pings/refused`.

    ``reason``: its place in ``survey.refused.REASONS``; ``age``: s from its time to the stamp; z is
    NaN where no elevation is known. A reason that is none of these, of a log that a later version
    wrote, has no number there.
    """
    pings = refused.placed
    pings = pings[np.isin(pings.reason, REASONS)]
    values = np.empty((1, len(pings), 5), dtype="<f4")
    values[0, :, :3] = pings.xyz
    values[0, :, 3] = [REASONS.index(reason) for reason in pings.reason.tolist()]
    values[0, :, 4] = (stamp_ns - pings.stamp_ns.astype(float)) / SECOND
    return _cloud(values, REFUSED_FIELDS, stamp_ns, frame_id)


def read_refused(message: PointCloud2) -> RefusedPings:
    """What ``write_refused`` wrote; numbered anew.

    Raises:
        InputError: the points are not of FLOAT32 fields x, y, z, reason, age, or a reason is none.
    """
    if message.height * message.width == 0:
        return RefusedPings.none()
    layers = _layers(message)
    if missing := set(REFUSED_FIELDS) - set(layers):
        raise InputError(f"cloud: expected the fields {REFUSED_FIELDS}, {missing} missing")
    *xyz, code, age = (layers[name].ravel() for name in REFUSED_FIELDS)
    if not np.isin(code, np.arange(len(REASONS))).all():
        raise InputError(f"cloud: expected reasons from 0 to {len(REASONS) - 1}, got others")
    known = np.isfinite(age) & (np.abs(age) < MOST_AGE)
    since_ns = np.round(np.where(known, age, 0.0) * SECOND).astype(np.int64)
    stamp_ns = np.where(known, stamp_to_ns(message.header.stamp) - since_ns, 0)
    reason = np.array(REASONS)[code.astype(int)]
    return RefusedPings(reason, np.arange(len(reason)), stamp_ns, np.column_stack(xyz))


def read_points(message: PointCloud2) -> np.ndarray:
    """Points [N, 3] in no order, N = 0 included.

    Raises:
        InputError: the points are not of FLOAT32 fields x, y, z.
    """
    if message.height * message.width == 0:
        return np.empty((0, 3))
    layers = _layers(message)
    return np.column_stack([layers[name].ravel() for name in ("x", "y", "z")])


def read_cloud(message: PointCloud2) -> tuple[Grid, dict[str, np.ndarray]]:
    """The grid and the layers (without x, y) of an organised cloud of FLOAT32, as float64.

    Raises:
        InputError: the cloud is empty, not a regular grid, or not of FLOAT32 fields x, y, z, ...
    """
    layers = _layers(message)
    x, y = layers.pop("x"), layers.pop("y")
    regular = (x == x[:1]).all() and (y == y[:, :1]).all()
    if not (regular and np.isfinite(x).all() and np.isfinite(y).all()) or (
        (np.diff(x[0]) <= 0).any() or (np.diff(y[:, 0]) <= 0).any()
    ):
        raise InputError("cloud: expected a regular grid, row-major from the lower left")
    return Grid(x[0], y[:, 0]), layers


def _layers(message: PointCloud2) -> dict[str, np.ndarray]:
    """Every FLOAT32 field of a cloud with x, y and z, by name [rows, columns], as float64.

    Raises:
        InputError: the cloud is empty, lacks one of them, or has fewer bytes than it says.
    """
    wanted = [f for f in message.fields if f.datatype == PointField.FLOAT32]
    names = [f.name for f in wanted]
    rows, columns = message.height, message.width
    if not {"x", "y", "z"} <= set(names) or rows * columns == 0:
        raise InputError(
            f"cloud: expected points with FLOAT32 x, y, z; got {rows} x {columns} with "
            f"{shown(str(names))}"
        )
    step, row_step, size = message.point_step, message.row_step, len(message.data)
    if size < rows * row_step or row_step < columns * step:
        raise InputError(
            f"cloud: expected {rows} x {columns} points of {step} bytes, got {size} bytes, "
            f"{row_step} a row"
        )
    if any(f.offset + 4 > step for f in wanted):
        raise InputError(f"cloud: expected fields within {step} bytes of a point")
    raw = np.frombuffer(message.data, dtype=np.uint8)[: rows * row_step]
    points = raw.reshape(rows, row_step)[:, : columns * step].reshape(rows, columns, step)
    kind = ">f4" if message.is_bigendian else "<f4"
    return {
        f.name: np.ascontiguousarray(points[..., f.offset : f.offset + 4])
        .view(kind)[..., 0]
        .astype(float)
        for f in wanted
    }


def write_map_cloud(drawn: ElevationMap, frame_id: str) -> PointCloud2:
    """The full-precision map, `map/points`, with the map's stamp; ``density`` where it is known."""
    layers = {"z": drawn.mean, "variance": drawn.variance, "lengthscale": drawn.lengthscale}
    if drawn.density is not None:
        layers["density"] = drawn.density
    return write_cloud(drawn.grid, layers, drawn.stamp_ns, frame_id)


def read_map_cloud(message: PointCloud2) -> ElevationMap:
    """`map/points` as a map; how many samples it was made from does not travel with it.

    Raises:
        InputError: as `read_cloud`, or a layer is missing, or it is a single row or column.
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
    """A picture for people's eyes, and the values at its 0 and 100.

    0..100 is the affine image of the finite values [rows, cols]; -1 where there is none, and
    everywhere (bounds None) before there is a map.
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
    """What a map uses of an allowed uncertainty [rows, cols], as ``planning.tvu.used`` has it.

    0..50 is within it (50: all of it is used), 51..100 is not (100: twice as much or more); -1
    where that is not known.
    """
    shown = np.full(grid.shape, -1, dtype=np.int8)
    if used is not None:
        known = np.isfinite(used)
        half = 50 * used[known]
        beyond = np.clip(np.ceil(half), 51, 100)
        shown[known] = np.where(used[known] <= 1, np.floor(half), beyond).astype(np.int8)
    return _picture(grid, shown, stamp_ns, frame_id)


def _picture(grid: Grid, shown: np.ndarray, stamp_ns: int, frame_id: str) -> OccupancyGrid:
    """A grid of what is shown of each cell, -1..100 [rows, cols]."""
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
