"""Grids as point clouds and occupancy grids, and back. Pure functions."""

from __future__ import annotations

import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from nav_msgs.msg import OccupancyGrid
from sensor_msgs.msg import PointCloud2, PointField

from ...core.clock import SECOND
from ...core.errors import InputError, shown
from ...core.geometry import Grid
from ...core.maps import ElevationMap
from ...frontend.refused_pings import REASONS, RefusedPings
from ...outputs.layers import LEVEL, RELIEF, mixed, scaled_hillshade
from .messages import header, stamp_to_ns

MAP_FIELDS = ("x", "y", "z", "variance", "lengthscale")
REFUSED_FIELDS = ("x", "y", "z", "reason", "age")
#: Colours from low to high: of a map that is all under water, and of others.
WATER, LAND = (
    np.array([[int(text[i : i + 2], 16) for i in (1, 3, 5)] for text in mixed(ramp)])
    for ramp in (RELIEF, ("#265c56", "#5c8c54", "#b0b86e", "#cea874", "#9e745c", "#faf8f6"))
)
MIN_BRIGHTNESS = 0.45  # of 1, on a slope that faces away from the light
MAX_FIELDS = 32  # of a cloud: fields may overlap, and each one read takes twice the cloud's memory


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
        InputError: the cloud is empty or not a regular grid, or a field is missing.
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
        InputError: the cloud is empty, lacks one of them, has too many, or too few bytes.
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
    return {name: points[name].astype(float) for name in offsets}


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
    """The ratio of uncertainty to allowed uncertainty [rows, cols], of ``planning.tvu.used``.

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
