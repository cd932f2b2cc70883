"""RViz's layout and Foxglove's ask for what nodes offer, by its name, kind and durability."""

import json
from pathlib import Path

import pytest
import yaml

CONFIG = Path(__file__).parents[2] / "config"
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


def rviz():
    return yaml.safe_load((CONFIG / "view.rviz").read_text(encoding="utf-8"))[
        "Visualization Manager"
    ]


def foxglove():
    return json.loads((CONFIG / "foxglove.json").read_text(encoding="utf-8"))


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
    asked = [d for d in rviz()["Displays"] if "Topic" in d]
    assert len(asked) > 12
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


def test_rviz_shows_one_surface_and_what_lies_on_it():
    manager = rviz()
    assert manager["Global Options"]["Fixed Frame"] == "map"
    on = [d for d in manager["Displays"] if "Topic" in d and d["Enabled"]]
    clouds = [d for d in on if d["Class"].endswith("/PointCloud2")]
    (elevation,) = clouds  # two at the same height would flicker
    assert (elevation["Topic"]["Value"], elevation["Color Transformer"]) == ("map/points", "RGB8")
    assert {d["Topic"]["Value"] for d in on} >= {
        "map/inducing_points", "pings/refused_markers", "mission/areas", "odom", "plan",
    }  # fmt: skip
    channels = {d["Channel Name"]: d for d in manager["Displays"] if "Channel Name" in d}
    assert channels.keys() == {"variance", "lengthscale"}
    assert channels["variance"]["Invert Rainbow"]  # red where the map is uncertain
    with_views = manager["Views"]
    assert with_views["Current"]["Class"].endswith("/TopDownOrtho")
    assert [view["Class"].rpartition("/")[2] for view in with_views["Saved"]] == [
        "TopDownOrtho", "Orbit",
    ]  # fmt: skip
    for display in manager["Displays"]:
        assert display["Enabled"] == display["Value"], display["Name"]


@pytest.mark.ros
def test_foxglove_shows_the_same_and_moves_nothing(offered):
    panels = foxglove()["configById"]
    (scene,) = (panel for name, panel in panels.items() if name.startswith("3D!"))
    visible = {name.lstrip("/") for name, topic in scene["topics"].items() if topic["visible"]}
    assert {name.lstrip("/") for name in scene["topics"]} <= set(offered)
    on = {d["Topic"]["Value"] for d in rviz()["Displays"] if "Topic" in d and d["Enabled"]}
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
