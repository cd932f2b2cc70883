"""Messages to arrays and back."""

from __future__ import annotations

import array
import math
from dataclasses import replace

import numpy as np
import pytest
from driver_messages import write_odometry, write_range

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid

pytest.importorskip("rclpy")
messages = pytest.importorskip("poam_ros.ros.messages")

from heard import read_refused  # noqa: E402
from nav_msgs.msg import OccupancyGrid  # noqa: E402
from sensor_msgs.msg import PointCloud2, PointField  # noqa: E402
from visualization_msgs.msg import Marker  # noqa: E402

from poam_ros.core.maps import ElevationMap  # noqa: E402
from poam_ros.frontend.front_end import RawPing  # noqa: E402
from poam_ros.frontend.odometry import (  # noqa: E402
    LONGEST_FRAME,
    VehicleState,
    read_odometry,
)
from poam_ros.frontend.pings import read_range  # noqa: E402
from poam_ros.frontend.refused_pings import REASONS, RefusedPings  # noqa: E402
from poam_ros.outputs.recorder import MapReport  # noqa: E402
from poam_ros.planning.areas import NavigableArea  # noqa: E402

STAMP = 12_345_678_901_234


@pytest.fixture
def snapshot():
    grid = Grid.cells(Extent(-3, 1, 10, 12), 0.5)  # 4 rows, 8 columns
    rng = np.random.default_rng(0)
    mean, variance, lengthscale = rng.normal(size=(3, *grid.shape))
    return ElevationMap(
        grid, mean, variance, {"lengthscale": lengthscale}, rng.normal(size=(7, 2)), 3, STAMP
    )


def test_map_cloud_is_float32_of_the_map(snapshot):
    cloud = messages.write_map_cloud(snapshot, "/map")
    assert (cloud.height, cloud.width) == (4, 8)
    assert [f.name for f in cloud.fields] == ["x", "y", "z", "variance", "lengthscale", "rgb"]
    assert {f.datatype for f in cloud.fields} == {PointField.FLOAT32}
    assert cloud.header.frame_id == "map"
    assert cloud.is_dense
    received = messages.read_map_cloud(cloud)
    assert received.stamp_ns == STAMP
    for layer in ("mean", "variance", "lengthscale"):
        sent = getattr(snapshot, layer).astype(np.float32)
        np.testing.assert_array_equal(getattr(received, layer), sent)
    np.testing.assert_array_equal(received.grid.x, snapshot.grid.x)
    np.testing.assert_array_equal(received.grid.y, snapshot.grid.y)


def test_tvu_is_50_at_ratio_1_and_never_rounded_across():
    grid = Grid.cells(Extent(0, 4, 0, 2), 1.0)
    used = np.array([[0.0, 0.501, 1.0, 1.0001], [1.5, 2.0, 9.0, np.nan]])
    shown = messages.write_tvu(grid, used, STAMP, "map")
    assert list(shown.data) == [0, 25, 50, 51, 75, 100, 100, -1]
    assert (shown.info.width, shown.info.height, shown.info.resolution) == (4, 2, 1.0)
    assert set(messages.write_tvu(grid, None, STAMP, "map").data) == {-1}


def test_cloud_of_another_producer_is_read():
    """Padded points and rows, big-endian, an extra field of another type."""
    rows, columns, step, row_step = 2, 3, 24, 80
    raw = bytearray(rows * row_step)
    for r in range(rows):
        for c in range(columns):
            at = r * row_step + c * step
            raw[at + 4 : at + 16] = np.array([c, r, 10 * r + c], dtype=">f4").tobytes()
    fields = [
        PointField(name=n, offset=4 * i + 4, datatype=PointField.FLOAT32, count=1)
        for i, n in enumerate("xyz")
    ]
    fields.append(PointField(name="ring", offset=16, datatype=PointField.UINT16, count=1))
    cloud = PointCloud2(
        height=rows, width=columns, fields=fields, is_bigendian=True,
        point_step=step, row_step=row_step, data=array.array("B", bytes(raw)),
    )  # fmt: skip
    grid, layers = messages.read_cloud(cloud)
    assert grid.shape == (2, 3)
    np.testing.assert_array_equal(layers["z"], [[0, 1, 2], [10, 11, 12]])


def test_clouds_that_are_not_maps_are_refused(snapshot):
    with pytest.raises(InputError, match="expected points"):
        messages.read_cloud(PointCloud2())
    terrain = messages.write_cloud(snapshot.grid, {"z": snapshot.mean}, STAMP, "map")
    assert messages.read_cloud(terrain)[1].keys() == {"z"}
    with pytest.raises(InputError, match="variance"):
        messages.read_map_cloud(terrain)
    grid = Grid(np.arange(5.0), np.zeros(1))  # cells without a size
    with pytest.raises(InputError, match="2 x 2 cells"):
        messages.read_map_cloud(messages.write_cloud(grid, {"z": np.zeros((1, 5))}, STAMP, "map"))
    terrain.data = terrain.data[:-4]
    with pytest.raises(InputError, match="bytes"):
        messages.read_cloud(terrain)
    layers = {f"z{i}": snapshot.mean for i in range(messages.MAX_FIELDS)}
    with pytest.raises(InputError, match=f"at most {messages.MAX_FIELDS} fields"):
        messages.read_cloud(
            messages.write_cloud(snapshot.grid, {"z": snapshot.mean} | layers, 0, "")
        )
    crooked = messages.write_cloud(snapshot.grid, {"z": snapshot.mean}, STAMP, "map")
    crooked.data[12] ^= 0x7F
    with pytest.raises(InputError, match="regular grid"):
        messages.read_cloud(crooked)


def test_refused_pings_with_a_place_round_trip():
    places = np.array([[1.0, 2.0, -3.5], [4.0, 5.0, np.nan], [np.nan] * 3])
    pings = RefusedPings.none()
    for reason in REASONS:
        pings = pings.more(reason, 10**18 + np.array([0, 500_000_000, 0]), places)
    message = messages.write_refused(pings, 10**18 + 2 * 10**9, "map")
    assert [field.name for field in message.fields] == ["x", "y", "z", "reason", "age"]
    assert not message.is_dense and message.header.frame_id == "map"
    found = read_refused(message)
    assert found.reason.tolist() == pings.placed.reason.tolist()
    np.testing.assert_array_equal(found.xyz, pings.placed.xyz)
    np.testing.assert_array_equal(found.stamp_ns, pings.placed.stamp_ns)
    assert len(read_refused(messages.write_refused(RefusedPings.none(), 0, "map"))) == 0
    later = pings.more("of a later version", np.array([10**18]), places[:1])  # from its log
    assert messages.write_refused(later, 10**18 + 2 * 10**9, "map") == message


def test_occupancy_is_an_affine_image_with_its_bounds(snapshot):
    values = np.linspace(-5, 20, 32).reshape(4, 8)
    values[2, 3] = np.nan
    grid, bounds = messages.write_occupancy(snapshot.grid, values, STAMP, "map")
    assert bounds == (-5, 20)
    shown = np.array(grid.data).reshape(4, 8)
    assert shown[0, 0] == 0
    assert shown[3, 7] == 100
    assert shown[2, 3] == -1
    known = np.isfinite(values)
    np.testing.assert_allclose(shown[known], 100 * (values[known] + 5) / 25, atol=0.5)
    assert (grid.info.width, grid.info.height, grid.info.resolution) == (8, 4, 0.5)
    assert (grid.info.origin.position.x, grid.info.origin.position.y) == (-3.0, 10.0)


def test_occupancy_before_a_map_and_of_a_flat_one(snapshot):
    grid, bounds = messages.write_occupancy(snapshot.grid, None, STAMP, "map")
    assert isinstance(grid, OccupancyGrid)
    assert bounds is None
    assert set(grid.data) == {-1}
    flat, bounds = messages.write_occupancy(snapshot.grid, np.full((4, 8), 3.0), STAMP, "map")
    assert set(flat.data) == {0}
    assert bounds == (3.0, 3.0)


def test_support_points(snapshot):
    places = np.column_stack((snapshot.support, np.arange(7.0)))
    (marker,) = messages.write_support(places, 0.5, STAMP, "map").markers
    assert [(p.x, p.y, p.z) for p in marker.points] == [tuple(place) for place in places]
    assert marker.pose.orientation.w == 1.0


def colours_of(cloud):
    """The field rgb [rows, columns, 3], read as RViz does: as the bits of an integer."""
    (field,) = (f for f in cloud.fields if f.name == "rgb")
    assert field.datatype == PointField.FLOAT32  # readers of one datatype still read the cloud
    raw = np.frombuffer(cloud.data, np.uint8).reshape(cloud.height, cloud.width, -1)
    bits = np.ascontiguousarray(raw[..., field.offset : field.offset + 4]).view("<u4")[..., 0]
    assert (bits >> 24 == 0).all()
    return np.stack([bits >> shift & 255 for shift in (16, 8, 0)], axis=-1).astype(int)


def hill(sign=1.0, height=-20.0):
    """A ridge from north to south at x = 0, 10 m high."""
    grid = Grid.cells(Extent(-10, 10, -6, 6), 1.0)
    mean = np.broadcast_to(height - sign * np.abs(grid.x), grid.shape).copy()
    return ElevationMap(grid, mean, np.ones(grid.shape), {"lengthscale": mean}, stamp_ns=STAMP)


def test_a_map_has_colours_of_depth_with_hillshade():
    drawn = colours_of(messages.write_map_cloud(hill(), "map"))
    deep, shallow = drawn[6, [0, 19]].mean(axis=0), drawn[6, [9, 10]].mean(axis=0)
    assert shallow.sum() > 1.5 * deep.sum() and deep[2] > 2 * deep[0]  # the deep is blue
    west, east = drawn[6, 5].sum(), drawn[6, 14].sum()  # equal depths, lit from the north-west
    assert west > 1.3 * east
    land = colours_of(messages.write_map_cloud(hill(height=20.0), "map"))
    assert (land != drawn).any(axis=-1).mean() > 0.9
    under = colours_of(messages.write_map_cloud(hill(height=20.0), "map", water_level=25.0))
    np.testing.assert_array_equal(under, drawn)


def test_colours_of_maps_with_holes_and_without_relief():
    holes = hill()
    holes.mean[3, 4:9] = np.nan
    assert messages.read_map_cloud(messages.write_map_cloud(holes, "map")).mean[0, 0] == -29.5
    for mean in (np.full((12, 20), np.nan), np.full((12, 20), -3.0), np.full((12, 20), np.inf)):
        drawn = colours_of(messages.write_map_cloud(replace(hill(), mean=mean), "map"))
        assert (drawn == drawn[0, 0]).all()


def points_of(marker):
    return np.array([(p.x, p.y, p.z) for p in marker.points])


def test_borders_are_at_the_water_level_and_on_land_above_it():
    keep_out = np.array([(0.0, 0.0), (6.0, 0.0), (6.0, 4.0)])
    areas = NavigableArea(Extent(-10, 10, -6, 6), None, (keep_out,), 0.5)
    shore = lambda xy: np.maximum(1.0, xy[:, 0])  # noqa: E731
    drawn = messages.write_areas(areas, shore, STAMP, "map", "returning").markers
    erase, workspace, out, state = drawn
    at = state.pose.position
    assert state.text == "returning" and areas.workspace.contains(np.array([at.x, at.y]))
    assert at.z == max(point.z for point in workspace.points)
    assert erase.action == Marker.DELETEALL and erase.header.frame_id == "map"
    assert (workspace.ns, out.ns) == ("workspace", "keep_out")
    for marker in (workspace, out):
        line = points_of(marker)
        np.testing.assert_array_equal(line[0], line[-1])
        np.testing.assert_allclose(line[:, 2], shore(line))
        assert np.hypot(*np.diff(line[:, :2], axis=0).T).max() < 1  # no straight line over a hill
    assert {(0.0, 0.0), (6.0, 4.0)} <= {tuple(p) for p in points_of(out)[:, :2]}
    assert out.color.r > 0.9 and workspace.scale.x == pytest.approx(np.hypot(20, 12) / 250)
    ten_times = NavigableArea(Extent(-100, 100, -60, 60))
    wide = messages.write_areas(ten_times, shore, STAMP, "map").markers[1]
    assert wide.scale.x == pytest.approx(10 * workspace.scale.x)


def test_what_lies_on_a_map_is_above_all_squares_around_it():
    drawn = hill(height=3.0)
    drawn.mean[3, 4] = np.nan
    places = np.column_stack((np.linspace(-9.9, 9.9, 100), np.linspace(-5.9, 5.9, 100)))
    above = messages.surface(drawn)(places)
    # A square of 1.4 cells reaches 0.7 m from the centre of its cell.
    near = np.abs(places[:, None] - drawn.grid.points).max(axis=2) < 0.7
    highest = np.where(near, np.nan_to_num(drawn.mean.ravel(), nan=-np.inf), -np.inf).max(axis=1)
    assert (above > highest).all() and (above < highest + 2.5).all()
    drawn.mean[:] = np.nan
    assert np.isnan(messages.surface(drawn)(places)).all()


def test_refused_pings_are_never_under_the_map():
    pings = RefusedPings.none()
    under, over = np.array([(1.0, 1.0, -9.0)]), np.array([(2.0, 1.0, 4.0)])
    pings = pings.more("false_echo", np.zeros(1, dtype=int), under)
    pings = pings.more("waiting", np.zeros(2, dtype=int), np.vstack((over, [(np.nan,) * 3])))
    pings = pings.more("no_return", np.zeros(1, dtype=int), np.array([(3.0, 1.0, np.nan)]))
    flat = lambda xy: np.zeros(len(xy))  # noqa: E731
    size = 90.0  # so that a ping is 1 m wide
    erase, *drawn = messages.write_refused_pings(pings, flat, size, STAMP, "map").markers
    assert erase.action == Marker.DELETEALL
    found = {(m.ns, m.type): points_of(m).tolist() for m in drawn}
    assert found == {
        ("false_echo", Marker.SPHERE_LIST): [[1.0, 1.0, 1.0]],
        ("false_echo", Marker.LINE_LIST): [[1.0, 1.0, 1.0], [1.0, 1.0, -9.0]],
        ("waiting", Marker.SPHERE_LIST): [[2.0, 1.0, 4.0]],
        ("no_return", Marker.SPHERE_LIST): [[3.0, 1.0, 1.0]],
    }
    colours = {m.ns: (m.color.r, m.color.g, m.color.b) for m in drawn}
    assert len(set(colours.values())) == 3
    assert all(max(colour) == 1.0 for colour in colours.values())
    assert len({(m.ns, m.id) for m in drawn}) == len(drawn)
    unknown = lambda xy: np.full(len(xy), np.nan)  # noqa: E731  # before there is a map
    erase, *drawn = messages.write_refused_pings(pings, unknown, size, STAMP, "map").markers
    assert {m.ns: points_of(m).tolist() for m in drawn} == {
        "false_echo": under.tolist(), "waiting": over.tolist(),
    }  # fmt: skip


def test_odometry_round_trip():
    sent = VehicleState(STAMP, (1.0, 2.0, 3.0), messages.yaw_to_quaternion(0.7), 0.9, "map")
    message = write_odometry(sent)
    assert message.child_frame_id == "base_link"
    assert read_odometry(message) == sent
    assert read_odometry(message).yaw == pytest.approx(0.7)
    message.header.frame_id, message.child_frame_id = "/odom", "/dvl_link"
    message.pose.covariance = np.arange(36.0) - 1
    read = read_odometry(message)
    assert (read.frame_id, read.child_frame_id) == ("odom", "dvl_link")
    assert read.variance == (-1.0, 6.0, 13.0)
    message.header.frame_id = "/" + "ß" * 100_000
    assert read_odometry(message).frame_id == "ß" * LONGEST_FRAME


@pytest.mark.parametrize("distance", [12.5, math.inf, -math.inf, math.nan])
def test_range_round_trip(distance):
    message = write_range(RawPing(STAMP, distance, 0.5, 100.0))
    assert message.header.frame_id == "sonar_link"
    ping = read_range(message)
    assert ping.range == distance or math.isnan(distance) == math.isnan(ping.range)
    assert (ping.stamp_ns, ping.min_range, ping.max_range) == (STAMP, 0.5, 100.0)
    message.header.frame_id, message.variance = "/dvl_link", 0.25
    ping = read_range(message)
    assert (ping.frame_id, ping.variance) == ("dvl_link", 0.25)
    assert ping.field_of_view == pytest.approx(0.05) and math.isnan(ping.confidence)


def test_reports_round_trip_to_the_last_bit_and_others_are_refused():
    # A wall clock's stamp, which no float64 holds.
    sent = MapReport(1_767_225_600_123_456_789, 123, -1.23456789012, 2.5, 0.25, math.nan, True)
    message = messages.write_report(sent)
    assert repr(messages.read_report(message)) == repr(sent)  # NaN does not equal itself
    text = message.data
    for wrong in ("", "[1]", "[" * 9999, text.replace("samples", "x"), text.replace("2.5", "[]"),
                  text.replace("123,", "Infinity,")):  # fmt: skip
        with pytest.raises(InputError, match="map/report: expected JSON with numbers by name"):
            messages.read_report(type(message)(data=wrong))
