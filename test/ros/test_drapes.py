"""Drapes: surfaces at the map's height, what lies on them, and the node that publishes them."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from nav_msgs.msg import Odometry
from rclpy.node import Node
from rclpy.parameter import Parameter
from sensor_msgs.msg import PointCloud2
from visualization_msgs.msg import Marker, MarkerArray

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.planning.areas import NavigableArea
from poam_ros.ros.common import clouds, markers
from poam_ros.ros.common import markers as colours
from poam_ros.ros.common.parameters import DrapeSettings
from poam_ros.ros.common.qos import LATCHED, SENSOR_PUBLISH
from poam_ros.ros.viewers.drapes import DrapedMap, thinned
from poam_ros.ros.viewers.node import DrapesNode

PLACES = np.array([(-4.0, 3.0), (5.5, -2.0)])


def bottom(resolution=1.0):
    """A map of 20 m by 12 m, which falls from -3 m in the west to -22 m in the east."""
    grid = Grid.cells(Extent(-10, 10, -6, 6), resolution)
    mean = np.broadcast_to(-12.5 - 0.95 * grid.x, grid.shape).copy()
    deviation = np.linspace(0.05, 2.0, mean.size).reshape(mean.shape)
    fields = {"lengthscale": np.full(grid.shape, 4.0)}
    return ElevationMap(grid, mean, deviation**2, fields, PLACES, stamp_ns=7)


def ground(resolution=1.0, **settings):
    return DrapedMap(bottom(resolution), DrapeSettings(**settings), "map")


def corners(marker):
    return np.array([(p.x, p.y, p.z) for p in marker.points]).reshape(-1, 3, 3)


@pytest.mark.parametrize(("resolution", "exaggeration"), [(1.0, 1.0), (0.5, 3.0)])
def test_a_surface_lies_at_the_map_s_height_with_cells_of_its_resolution(resolution, exaggeration):
    over = ground(resolution, exaggeration=exaggeration, water_level=-1.0)
    for name, layer in over.layers().items():
        surface, legend = over.drape(layer).markers
        assert (surface.type, surface.header.frame_id) == (Marker.TRIANGLE_LIST, "map"), name
        triangles = corners(surface)
        rows, columns = over.grid.shape
        assert len(triangles) == 2 * (rows - 1) * (columns - 1)
        assert len(surface.colors) == len(surface.points)
        sides = np.ptp(triangles[..., :2], axis=1)
        np.testing.assert_allclose(sides, resolution, rtol=1e-12)
        x, z = triangles[..., 0], triangles[..., 2]
        np.testing.assert_allclose(z, -1.0 + exaggeration * (-12.5 - 0.95 * x + 1.0), rtol=1e-9)
        # Seen from above, so that a viewer lights the right side.
        u, v = np.diff(triangles, axis=1).transpose(1, 0, 2)
        assert (np.cross(u, v)[:, 2] > 0).all()
        assert legend.type == Marker.TEXT_VIEW_FACING and legend.text


def test_layers_have_a_legend_with_their_range_and_colours():
    over = ground()
    texts = {name: over.drape(layer).markers[1].text for name, layer in over.layers().items()}
    assert texts["mean"] == "elevation -21.5 to -3.47 m"
    assert texts["uncertainty"] == "uncertainty (95 %) 0.098 to 3.92 m"
    assert texts["lengthscale"] == "lengthscale 4 to 4 m"
    assert texts["tvu"].startswith("within TVU: none 7") and "exclusive" in texts["tvu"]
    within = over.layers()["tvu"]
    assert within.shade[0, 0] == 4 and within.shade[-1, -1] == 0  # 0.05 m, and 2 m
    surface = over.drape(within).markers[0]
    first, last = (surface.colors[k] for k in (0, -1))
    assert first.b > first.r and last.r > last.b  # blue: exclusive; red: none


def test_land_is_not_drawn_as_sea_and_has_no_tvu():
    drawn = bottom()
    hills = ElevationMap(drawn.grid, drawn.mean + 40, drawn.variance, drawn.fields)
    over = DrapedMap(hills, DrapeSettings(), "map")
    layers = over.layers()
    assert layers["tvu"].legend == "TVU: no water"
    assert over.drape(layers["tvu"]).markers[0].action == Marker.DELETE
    np.testing.assert_array_equal(layers["mean"].palette, colours.ramp("land"))
    np.testing.assert_array_equal(ground().layers()["mean"].palette, colours.ramp("depth"))


def test_cells_without_a_value_are_not_drawn():
    drawn = bottom()
    drawn.mean[5, 5] = np.nan
    drawn.fields["lengthscale"][:] = np.nan
    over = DrapedMap(drawn, DrapeSettings(), "map")
    surface = over.drape(over.layers()["mean"]).markers[0]
    rows, columns = drawn.grid.shape
    assert len(surface.points) == 6 * ((rows - 1) * (columns - 1) - 4)
    assert np.isfinite(corners(surface)).all()
    assert over.drape(over.layers()["lengthscale"]).markers[0].action == Marker.DELETE


def test_a_slope_that_faces_the_light_is_brighter():
    x = np.linspace(-5, 5, 11)
    west, east = (colours.hillshade_levels(np.tile(s * x, (11, 1)), x, x).mean() for s in (1, -1))
    assert west > 1.5 * east


def test_only_large_maps_are_thinned():
    drawn = bottom(0.05)
    assert drawn.mean.size == 96_000
    few = thinned(drawn, 1000)
    assert 700 < few.mean.size < 1500 and few.mean.shape == few.grid.shape == few.variance.shape
    np.testing.assert_allclose(few.mean, -12.5 - 0.95 * np.tile(few.grid.x, (len(few.grid.y), 1)))
    assert thinned(bottom(), 1000).mean.size == 240


def test_keep_outs_are_drawn_on_the_bottom():
    keep_out = np.array([(0.0, 0.0), (6.0, 0.0), (6.0, 4.0)])
    areas = NavigableArea(Extent(-10, 10, -6, 6), None, (keep_out,), 0.5)
    borders = markers.write_areas(areas, 1, "map").markers
    assert [m.ns for m in borders[1:]] == ["workspace", "keep_out"]
    assert borders[2].points[0] == borders[2].points[-1] and borders[2].color.r > 0.9
    drawn = ground(exaggeration=2.0).lines(borders[1:]).markers
    assert drawn[0].action == Marker.DELETEALL
    assert {m.header.frame_id for m in [*borders, *drawn]} == {"map"}  # viewers report others
    line = np.array([(p.x, p.y, p.z) for p in drawn[2].points])
    assert len(line) > 15  # of 17 m
    inside = np.abs(line[:, 0]) < 9
    on_it = 2 * (-12.5 - 0.95 * line[inside, 0])
    np.testing.assert_allclose(line[inside, 2], on_it + 1 / 3, rtol=1e-9)


def test_points_round_trip():
    points = np.array([(1.0, 2.0, -3.5), (4.0, 5.0, np.nan)])
    np.testing.assert_array_equal(clouds.read_points(clouds.write_points(points, 0, "map")), points)
    assert clouds.read_points(clouds.write_points(np.empty((0, 3)), 0, "map")).shape == (0, 3)
    broken = clouds.write_points(points, 0, "map")
    broken.width = 3
    with pytest.raises(InputError, match="expected 1 x 3 points of 12 bytes"):
        clouds.read_points(broken)
    broken.width, broken.point_step = 2, 8
    with pytest.raises(InputError, match="expected fields within 8 bytes"):
        clouds.read_points(broken)


@pytest.fixture
def heard(ros, eventually):
    """A drapes node, who publishes what it hears, and the last markers of each of its topics."""
    node, other = ros(DrapesNode), ros(lambda: Node("vehicle"))
    last = {}
    names = ("mean", "uncertainty", "lengthscale", "tvu", "truth", "support", "held", "refused")
    for name in (*names, "areas", "vehicle"):
        other.create_subscription(
            MarkerArray, f"drapes/{name}", lambda m, name=name: last.update({name: m}), LATCHED
        )
    return node, other, last


@pytest.mark.ros
def test_the_node_drapes_what_it_receives(heard, eventually):
    node, other, last = heard

    def say(kind, topic, message, qos=LATCHED):
        other.create_publisher(kind, topic, qos).publish(message)

    drawn = bottom()
    areas = NavigableArea(Extent(-10, 10, -6, 6), None, (), 0.5)
    support = markers.write_support(PLACES, 99.0, 1.0, 7, "map")
    say(MarkerArray, "map/inducing_points", support)
    held = np.array([(0.0, 0.0, -5.0), (1.0, 1.0, np.inf)])
    say(PointCloud2, "pings/held", clouds.write_points(held, 7, "map"))
    places = np.array([(2.0, 1.0, -3.0), (3.0, 1.0, np.nan), (np.nan,) * 3])
    echoes = RefusedPings.none().more("false_echo", np.zeros(3, dtype=int), places)
    say(PointCloud2, "pings/refused", clouds.write_refused(echoes, 7, "map"))
    say(MarkerArray, "mission/areas", markers.write_areas(areas, 7, "map"))
    say(PointCloud2, "map/points", clouds.write_map_cloud(drawn, "map"))
    say(PointCloud2, "terrain", clouds.write_cloud(drawn.grid, {"z": drawn.mean}, 7, "map"))

    def all_there():
        names = ("mean", "uncertainty", "lengthscale", "tvu", "truth", "areas")
        return set(names) < set(last) and all(map(points, ("support", "held", "refused")))

    def points(name):
        return last[name].markers[0].points if name in last else []

    eventually(all_there)
    np.testing.assert_allclose([(p.x, p.y) for p in points("support")], PLACES)
    # What has no elevation of its own lies on the ground, once the map is there.
    on_it = -12.5 - 0.95 * PLACES[:, 0] + 0.25
    eventually(lambda: np.allclose([p.z for p in points("support")], on_it, rtol=1e-5))
    (ping,) = points("held")
    assert ping.z == -5.0
    echo, other = points("refused")
    assert (echo.x, echo.y, echo.z) == (2.0, 1.0, -3.0)
    eventually(lambda: points("refused")[1].z == pytest.approx(-12.5 - 0.95 * 3 + 0.25, rel=1e-5))
    # What is set while it runs draws everything anew.
    (done,) = node.set_parameters([Parameter("exaggeration", value=2.0)])
    assert done.successful
    eventually(lambda: points("held")[0].z == -10.0)
    lowest = pytest.approx(2 * drawn.mean.min(), rel=1e-5)
    for name in ("mean", "truth"):
        eventually(lambda name=name: corners(last[name].markers[0])[..., 2].min() == lowest)


@pytest.mark.ros
def test_the_node_follows_the_vehicle_in_the_frame_of_its_odometry(heard, eventually):
    _, other, last = heard
    publisher = other.create_publisher(Odometry, "odom", SENSOR_PUBLISH)
    message = Odometry()
    message.header.frame_id, message.pose.pose.orientation.w = "odom", 1.0

    def moved():
        message.pose.pose.position.x += 1.0
        publisher.publish(message)
        return len(last["vehicle"].markers) == 2 if "vehicle" in last else False

    eventually(moved)
    arrow, trail = last["vehicle"].markers
    assert arrow.header.frame_id == trail.header.frame_id == "odom"
    assert arrow.type == Marker.ARROW and len(trail.points) >= 2


@pytest.mark.ros
def test_the_node_survives_odd_messages(heard, eventually):
    node, other, last = heard
    nan = float("nan")
    odd = clouds.write_map_cloud(bottom(), "map")
    odd.width += 1
    empty = PointCloud2(width=5, height=1)  # says five points, has none
    other.create_publisher(PointCloud2, "map/points", LATCHED).publish(odd)
    other.create_publisher(PointCloud2, "pings/held", LATCHED).publish(empty)
    eventually(lambda: node.warnings.counts["unreadable"] >= 2)
    flat = bottom()
    flat.mean[:], flat.variance[:] = np.inf, -1.0
    far = markers.write_support(np.array([(nan, 0.0), (1e300, -1e300)]), 0.0, 1.0, 0, "map")
    border = markers.write_areas(NavigableArea(Extent(-1e9, 1e9, -1e9, 1e9)), 0, "map")
    broken = markers.write_areas(NavigableArea(Extent(-1, 1, -1, 1)), 0, "map")
    broken.markers[1].points[0].x = nan
    sent = (
        ("map/inducing_points", MarkerArray, far), ("mission/areas", MarkerArray, border),
        ("mission/areas", MarkerArray, broken), ("odom", Odometry, Odometry()),
        ("map/points", PointCloud2, clouds.write_map_cloud(flat, "map")),
    )  # fmt: skip
    for topic, kind, message in sent:
        other.create_publisher(kind, topic, LATCHED).publish(message)
    eventually(lambda: "mean" in last and last["mean"].markers[0].action == Marker.DELETE)
    other.create_publisher(PointCloud2, "map/points", LATCHED).publish(
        clouds.write_map_cloud(bottom(), "map")
    )
    eventually(lambda: last["mean"].markers[0].points)
