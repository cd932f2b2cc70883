"""The live graph behind a page: real messages of a real node change the document's data."""

from dataclasses import replace

import numpy as np
import pytest
from view_folders import drawn

pytest.importorskip("rclpy")
pytest.importorskip("bokeh")

from poam_ros.app.commands.view import LiveView
from poam_ros.core.errors import PoamError
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.outputs.exports.chart import ExportSettings
from poam_ros.outputs.scoring import MapReport
from poam_ros.outputs.view.page import Page

pytestmark = pytest.mark.ros

PATIENCE = 300.0


@pytest.fixture
def sender(ros):
    """A node that says what a survey's nodes say, in the namespace of a vehicle."""
    import rclpy

    return ros(lambda: rclpy.create_node("sender", namespace="auv"))


@pytest.fixture
def followed(eventually):
    """`followed(condition)`: a page that follows the graph, once the condition of it is true."""
    page = Page()
    with LiveView("auv", ExportSettings()) as graph:

        def wait(condition, what=""):
            def look():
                page.show(graph.scene())
                return condition(page)

            return eventually(look, PATIENCE, what)

        wait.graph = graph
        yield wait


def text(page, name):
    part = page.root.select_one({"name": name})
    return part.text if part.visible else ""


def test_maps_of_a_live_graph_arrive_in_the_page(sender, followed):
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
    from geometry_msgs.msg import PoseStamped
    from nav_msgs.msg import Odometry, Path
    from sensor_msgs.msg import PointCloud2
    from std_msgs.msg import Float64, Float64MultiArray, String, UInt64
    from visualization_msgs.msg import MarkerArray

    from poam_ros.frontend.odometry import VehicleState
    from poam_ros.ros.common import clouds, markers, messages, qos

    def send(kind, topic, message, how=qos.LATCHED):
        if topic not in sent:
            sent[topic] = sender.create_publisher(kind, topic, how)
        sent[topic].publish(message)

    sent: dict = {}
    followed(
        lambda page: "no mapper, planner, simulator or monitor is found" in text(page, "waiting")
    )
    send(String, "mission/state", String(data="pilot"))
    send(String, "mission/reason", String(data="started by <operator>"))
    send(UInt64, "map/samples", UInt64(data=12))
    status = DiagnosticStatus(level=DiagnosticStatus.OK, name="auv/mapper", message="mapping")
    other = DiagnosticStatus(level=DiagnosticStatus.ERROR, name="mapper", message="of others")
    told = DiagnosticArray(status=[status, other])
    followed(
        lambda page: (
            send(DiagnosticArray, "/diagnostics", told, 10)
            or ("auv/mapper: mapping" in text(page, "remarks"))
        )
    )
    followed(lambda page: "12 pings so far" in text(page, "waiting"))
    page = followed(lambda page: ">pilot<" in text(page, "head") and page)
    assert "&lt;operator&gt;" in text(page, "head") and "of others" not in text(page, "remarks")

    def send_map(offset, samples, **more):
        there = replace(drawn(offset, samples), **more)
        send(PointCloud2, "map/points", clouds.write_map_cloud(there, "map"))
        where = there.support, -3.0, 0.5, there.stamp_ns, "map"
        send(MarkerArray, "map/inducing_points", markers.write_support(*where))
        report = MapReport(there.stamp_ns, samples, -30.0, 4.0, 0.2, 0.05)
        send(Float64MultiArray, "map/report", messages.write_report(report), qos.KEPT)

    def first(page):
        cells = page.picture.cells.data["height"]
        return cells[0][0, 0] if len(cells) else None

    send_map(0.0, 40)
    followed(lambda page: first(page) == -60.0 and "map of 40 pings" in text(page, "head"))
    assert not text(page, "waiting") and "tvu" in page.picture.buttons.tags
    assert "density" not in page.picture.buttons.tags, "nobody says where pings were"
    followed(lambda page: len(page.picture.marks["support"].data["x"]) == 2)
    send_map(5.0, 50, density=np.ones((20, 30)))
    followed(lambda page: first(page) == -55.0 and "map of 50 pings" in text(page, "head"))
    assert "density" in page.picture.buttons.tags
    times = page.curves.source.data
    assert times["samples"].tolist() == [40, 50] and times["update"].tolist() == [0.2, 0.2]
    np.testing.assert_allclose(times["95 %, median (m)"], 0.49, atol=0.001)

    held = np.array([[3.0, 4.0, -9.0]])
    send(PointCloud2, "pings/held", clouds.write_points(held, 1, "map"))
    places = np.array([[5.0, 6.0, -11.25], [7.0, 8.0, np.nan], [np.nan] * 3])
    echoes = RefusedPings.none().more("false_echo", np.array([10**9] * 3), places)
    send(PointCloud2, "pings/refused", clouds.write_refused(echoes, 3 * 10**9, "map"))
    send(PoseStamped, "goal_pose", messages.write_pose((7.0, 8.0), 1, "map"), qos.LATCHED)
    send(Path, "plan", messages.write_path(np.array([[1.0, 2.0], [3.0, 4.0]]), 1, "map"), qos.KEPT)
    send(Float64, "water_level", Float64(data=-100.0))
    marks = page.picture.marks
    followed(lambda _: list(marks["held"].data["x"]) == [3.0])
    followed(lambda _: list(marks["refused"].data["x"]) == [5.0, 7.0])
    refused = marks["refused"].data
    assert list(refused["reason"]) == ["false_echo"] * 2
    assert refused["height"] == ["elevation -11.25 m", "no elevation"]
    assert refused["time"] == ["1.000 s of the run's clock"] * 2
    followed(lambda _: list(marks["goal"].data["y"]) == [8.0])
    followed(lambda _: list(marks["plan"].data["x"]) == [1.0, 3.0])
    followed(lambda page: "a water level of -100 m" in text(page, "numbers"))

    pose = VehicleState(1, (9.0, 5.0, -1.0), (0.0, 0.0, 0.0, 1.0), 0.0, 0.0, "map")
    followed(
        lambda _: (
            send(Odometry, "odom", messages.write_odometry(pose), qos.SENSOR_PUBLISH)
            or len(marks["track"].data["x"]) == 1
        )
    )
    assert marks["vehicle"].data["x"] == [9.0]
    adrift = VehicleState(2, (9.0, 6.0, -1.0), (0.0, 0.0, 0.0, 1.0), 0.0, 0.0, "odom")
    followed(
        lambda page: (
            send(Odometry, "odom", messages.write_odometry(adrift), qos.SENSOR_PUBLISH)
            or "odometry is in the frame odom, the map in map" in text(page, "remarks")
        )
    )
    assert len(marks["track"].data["x"]) == 0

    send(PointCloud2, "map/points", PointCloud2())
    followed(lambda page: "map/points: cloud: expected points" in text(page, "remarks"))
    send(UInt64, "map/samples", UInt64(data=0))  # ~/reset
    followed(lambda page: "waiting for the first map" in text(page, "waiting"))
    assert first(page) is None and not page.picture.buttons.labels


def test_curves_keep_the_latest_reports_after_the_clock_is_set_back(sender, followed, monkeypatch):
    from std_msgs.msg import Float64MultiArray

    from poam_ros.ros.common import messages, qos

    monkeypatch.setattr("poam_ros.ros.viewers.graph_monitor.MAX_REPORTS", 2)
    reports = sender.create_publisher(Float64MultiArray, "map/report", qos.KEPT)
    for samples, second in ((10, 9), (20, 8), (30, 7)):
        report = MapReport(second * 10**9, samples, -30.0, 4.0, 0.2, 0.05)
        reports.publish(messages.write_report(report))
    followed(lambda page: list(page.curves.source.data["samples"]) == [20, 30])


def test_a_node_without_status_is_a_problem(followed, monkeypatch):
    from poam_ros.app.commands import view
    from poam_ros.app.commands.doctor import OK, NodeStatus

    monkeypatch.setattr(view, "STATUS_TIMEOUT_S", -1.0)
    followed.graph._statuses["auv/mapper"] = NodeStatus(OK, "mapping", {}, 0.1), 0.0
    followed(lambda page: "auv/mapper: silent for" in text(page, "remarks"))


def test_a_middleware_that_does_not_start_gives_one_line(monkeypatch):
    def fail(**_):
        raise RuntimeError("no\nmiddleware")

    monkeypatch.setattr("rclpy.init", fail)
    with (
        pytest.raises(PoamError, match=r"ROS 2 does not start .no middleware."),
        LiveView("", ExportSettings()),
    ):
        pass
