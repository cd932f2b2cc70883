"""Layouts for RViz and Foxglove: fitted to a survey, opened, and of topics that nodes publish."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.ros.rviz import CELLS, DEFAULT, HEIGHT, PANELS, Shown, fitted

CONFIG = Path(__file__).parents[2] / "config"
SURVEYS = {
    "jacksboro": Shown(Extent(-30, 30, -30, 30), 1.0, 12.0, 232.0, 0.18),
    "documented": Shown(Extent(0, 60, 0, 60), 0.5, -12.0, -1.0),
    "large lake": Shown(Extent(-100, 400, 50, 350), 5.0, -40.0, -2.0),
    "bay": Shown(Extent(0, 300, 0, 380), 2.0, -9.0, 0.5),
    "river": Shown(Extent(0, 900, -15, 15), 1.0, -3.0, 2.0),
}


def rviz():
    return yaml.safe_load((CONFIG / "view.rviz").read_text(encoding="utf-8"))


def foxglove():
    return json.loads((CONFIG / "foxglove.json").read_text(encoding="utf-8"))


def displays(layout, kind):
    found = layout["Visualization Manager"]["Displays"]
    return [display for display in found if display["Class"].endswith(f"/{kind}")]


def test_the_layouts_as_they_are_fit_what_they_say():
    assert fitted(rviz(), DEFAULT) == rviz()
    assert fitted(foxglove(), DEFAULT) == foxglove()
    assert rviz()["Window Geometry"]["QMainWindow State"]  # without it, panels take the window


@pytest.mark.parametrize("shown", SURVEYS.values(), ids=SURVEYS)
def test_the_first_view_has_the_whole_map_and_little_else(shown):
    layout = fitted(rviz(), shown)
    view = layout["Visualization Manager"]["Views"]["Current"]
    assert view["Class"].endswith("/TopDownOrtho")
    width, height = shown.extent.size * view["Scale"]
    window = layout["Window Geometry"]
    across = window["Width"] - PANELS
    assert width <= across and height <= HEIGHT
    assert width > 0.95 * across or height > 0.95 * HEIGHT
    if 0.75 < width / height < 1.6:
        assert width * height > 0.5 * window["Width"] * window["Height"]
    assert (view["X"], view["Y"]) == tuple(shown.extent.centre)


@pytest.mark.parametrize("shown", SURVEYS.values(), ids=SURVEYS)
def test_the_perspective_has_the_whole_map(shown):
    *_, view = fitted(rviz(), shown)["Visualization Manager"]["Views"]["Saved"]
    focus = [view["Focal Point"][axis] for axis in "XYZ"]
    width, height = shown.extent.size
    corners = [
        (shown.extent.xmin + i * width, shown.extent.ymin + j * height, z)
        for i in (0, 1) for j in (0, 1) for z in (shown.low, shown.high)
    ]  # fmt: skip
    # Where the camera stands, and what it sees of each corner.
    pitch, yaw, far = view["Pitch"], view["Yaw"], view["Distance"]
    back = np.array([math.cos(yaw) * math.cos(pitch), math.sin(yaw) * math.cos(pitch),
                     math.sin(pitch)])  # fmt: skip
    right = np.cross([0, 0, 1], back) / math.cos(pitch)
    axes = np.array([right, np.cross(back, right), back])
    across, up, behind = axes @ (np.array(corners) - focus - far * back).T
    assert (behind < 0).all()
    half = math.tan(math.radians(45 / 2))  # RViz's angle of view, from top to bottom
    high, wide = np.abs(up / behind).max() / half, np.abs(across / behind).max() / half
    wide *= HEIGHT / shown.width
    assert 0.9 < max(high, wide) < 1


@pytest.mark.parametrize("shown", SURVEYS.values(), ids=SURVEYS)
def test_sizes_fit_cells_and_extent(shown):
    layout, larger = fitted(rviz(), shown), DEFAULT.pixels / shown.pixels
    for display in displays(layout, "PointCloud2"):
        truth = display["Topic"]["Value"] == "terrain"
        wanted = CELLS * (shown.terrain_cell if truth else shown.cell)
        assert display["Size (m)"] == pytest.approx(wanted)
    for kind, name in (("Path", "Line Width"), ("Pose", "Shaft Length"), ("TF", "Marker Scale")):
        (before,), (after,) = displays(rviz(), kind), displays(layout, kind)
        assert after[name] == pytest.approx(larger * before[name], abs=1e-4)
    trail, vehicle = displays(layout, "Odometry")
    assert trail["Shape"]["Shaft Length"] == pytest.approx(trail["Position Tolerance"])
    assert vehicle["Shape"]["Head Radius"] > trail["Shape"]["Shaft Radius"]
    (grid,) = displays(layout, "Grid")
    assert grid["Name"] == f"Grid of {grid['Cell Size']:g} m"
    assert grid["Cell Size"] * grid["Plane Cell Count"] >= max(shown.extent.size)
    assert 6 <= grid["Plane Cell Count"] <= 60


def test_what_lies_above_the_camera_is_shown_in_perspective():
    """RViz's camera from above is at z = 500 m."""
    mountain = Shown(Extent(0, 60, 0, 60), 1.0, 1850.0, 1890.0)
    view = fitted(rviz(), mountain)["Visualization Manager"]["Views"]["Current"]
    assert view["Class"].endswith("/Orbit") and view["Focal Point"]["Z"] == 1870.0


def test_foxglove_s_points_are_as_large_as_cells():
    layout = fitted(foxglove(), SURVEYS["large lake"])
    scene = layout["configById"]["3D!map"]
    camera, before = scene["cameraState"], foxglove()["configById"]["3D!map"]
    assert camera["distance"] >= 500 and camera["targetOffset"] == [150.0, 200.0, -21.0]
    ratio = (
        scene["topics"]["/map/points"]["pointSize"] / before["topics"]["/map/points"]["pointSize"]
    )
    assert ratio == pytest.approx(5 * 60 / 500, abs=0.05)
    axes = layout["configById"]["3D!map"]["scene"]["transforms"]["axisScale"]
    assert axes == pytest.approx(4 * SURVEYS["large lake"].larger, abs=1e-3)


# What follows needs ROS 2.

FRAME = "lake"


@pytest.fixture
def opened(tmp_path, ros_env):
    """Opens a stand-in for rviz2; returns its layout and its arguments, and the status."""
    stand_in = tmp_path / "bin" / "rviz2"
    stand_in.parent.mkdir()
    stand_in.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$0.arguments"\n')
    stand_in.chmod(0o755)

    def run(*words, path=f"{stand_in.parent}:{os.environ['PATH']}"):
        command = [sys.executable, "-m", "poam_ros.ros.rviz", *words]
        env = {**ros_env, "PATH": path}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        said = Path(f"{stand_in}.arguments")
        arguments = said.read_text().splitlines() if said.exists() else []
        layout = None
        if "-d" in arguments:
            layout = yaml.safe_load(Path(arguments[arguments.index("-d") + 1]).read_text())
        return layout, arguments, done

    return run


@pytest.mark.ros
def test_rviz_is_opened_on_the_running_map(opened, ros, tmp_path):
    pytest.importorskip("rclpy")
    from nav_msgs.msg import OccupancyGrid
    from rclpy.node import Node
    from sensor_msgs.msg import PointCloud2

    from poam_ros.ros import messages
    from poam_ros.ros.node import LATCHED

    grid = Grid.cells(Extent(100, 300, -50, 50), 2.0)
    drawn = ElevationMap(grid, -20 - grid.x / 100 + 0 * grid.y[:, None], np.ones(grid.shape))
    node = ros(lambda: Node("mapper", namespace="auv"))
    picture = messages.write_occupancy(grid, None, 1, FRAME)[0]
    node.create_publisher(OccupancyGrid, "map/mean", LATCHED).publish(picture)
    node.create_publisher(PointCloud2, "map/points", LATCHED).publish(
        messages.write_map_cloud(drawn, FRAME)
    )
    words = ["--ros-args", "-r", "__ns:=/auv", "-p", "use_sim_time:=true"]
    layout, arguments, done = opened("--folder", str(tmp_path / "run"), *words)
    assert done.returncode == 0, done.stderr
    assert arguments[-5:] == words
    assert arguments[1] == str(tmp_path / "run" / "view.rviz")
    low, high = np.float32(drawn.mean.min()), np.float32(drawn.mean.max())
    shown = Shown(Extent(100, 300, -50, 50), 2.0, float(low), float(high), frame=FRAME)
    assert layout == fitted(rviz(), shown)
    words = ["--no-rviz", "--folder", str(tmp_path), *words]  # for Foxglove, without RViz
    done = opened(*words, path="/nowhere")[2]
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((tmp_path / "view.rviz").read_text()) == layout
    assert json.loads((tmp_path / "foxglove.json").read_text()) == fitted(foxglove(), shown)


@pytest.mark.ros
def test_without_rviz_one_line_says_so(opened):
    pytest.importorskip("rclpy")
    _, arguments, done = opened(path="/nowhere")
    assert done.returncode == 2 and not arguments
    assert done.stderr.count("\n") == 1 and "rviz2: expected on the path" in done.stderr


#: What each of RViz's displays reads.
KINDS = {
    "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "Map": "nav_msgs/msg/OccupancyGrid",
    "PointCloud2": "sensor_msgs/msg/PointCloud2",
    "Path": "nav_msgs/msg/Path",
    "Pose": "geometry_msgs/msg/PoseStamped",
    "Odometry": "nav_msgs/msg/Odometry",
    "Range": "sensor_msgs/msg/Range",
}
#: What nobody of ours publishes: RViz asks for changes of a map beside the map.
OFFERED_BY_NOBODY = {"map/tvu_updates"}


@pytest.fixture(scope="module")
def offered():
    """Kind and QoS of every topic that the nodes publish, by name without the leading slash."""
    rclpy = pytest.importorskip("rclpy")
    from poam_ros.ros.mapper import MapperNode
    from poam_ros.ros.planner import PlannerNode
    from poam_ros.ros.simulator import SimulatorNode

    rclpy.init()
    found = {}
    try:
        for kind in (MapperNode, PlannerNode, SimulatorNode):
            node = kind()
            node.open()
            for publisher in node.publishers:
                module, name = publisher.msg_type.__module__, publisher.msg_type.__name__
                qos = publisher.qos_profile
                found[publisher.topic_name.lstrip("/")] = (
                    f"{module.split('.')[0]}/msg/{name}",
                    qos.durability.name,
                    qos.reliability.name,
                )
            node.destroy_node()
    finally:
        rclpy.try_shutdown()
    return found


@pytest.mark.ros
def test_every_topic_of_rviz_is_published_with_a_matching_qos(offered):
    asked = [d for d in rviz()["Visualization Manager"]["Displays"] if "Topic" in d]
    assert len(asked) > 12
    clouds = [d for d in asked if d["Enabled"] and d["Class"].endswith("/PointCloud2")]
    assert len(clouds) == 1, "two at the same height would flicker"
    for display in asked:
        topic, name = display["Topic"], display["Name"]
        kind, durability, reliability = offered[topic["Value"]]  # relative: namespaces move it
        assert KINDS[display["Class"].split("/")[1]] == kind, name
        # A latched map is had by whoever asks for it; nobody may ask for more than is offered.
        wanted = topic["Durability Policy"].upper().replace(" ", "_")
        assert wanted == durability, name
        if topic["Reliability Policy"] == "Reliable":
            assert reliability == "RELIABLE", name
        if "Update Topic" in display:
            assert display["Update Topic"]["Value"] in OFFERED_BY_NOBODY


@pytest.mark.ros
def test_foxglove_shows_the_same_and_moves_nothing(offered):
    panels = foxglove()["configById"]
    (scene,) = (panel for name, panel in panels.items() if name.startswith("3D!"))
    visible = {name.lstrip("/") for name, topic in scene["topics"].items() if topic["visible"]}
    assert {name.lstrip("/") for name in scene["topics"]} <= set(offered)
    on = {
        d["Topic"]["Value"]
        for d in rviz()["Visualization Manager"]["Displays"]
        if "Topic" in d and d["Enabled"]
    }
    assert visible == on - {"odom", "sonar/range"}  # which Foxglove does not draw
    for cloud in (scene["topics"]["/map/points"], scene["topics"]["/terrain"]):
        assert (cloud["colorMode"], cloud["colorField"]) == ("rgb", "rgb")
    assert not scene["cameraState"]["perspective"]
    paths = [p["value"] for panel in panels.values() for p in panel.get("paths", ())]
    paths += [panel["topicPath"] for panel in panels.values() if "topicPath" in panel]
    assert {path.removesuffix(".data").lstrip("/") for path in paths} <= set(offered)
    assert "/goal_pose" not in scene["publish"].values()  # a click in a viewer must not be a goal


def test_foxglove_s_panels_are_all_in_its_layout():
    layout = foxglove()

    def leaves(part):
        if isinstance(part, str):
            return [part]
        assert part["direction"] in ("row", "column") and 0 < part["splitPercentage"] < 100
        return [*leaves(part["first"]), *leaves(part["second"])]

    assert sorted(leaves(layout["layout"])) == sorted(layout["configById"])
    assert {"configById", "globalVariables", "userNodes", "playbackConfig", "layout"} == set(layout)
