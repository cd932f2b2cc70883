"""A vehicle's drivers, as `poam doctor` finds them before there is a mapper."""

from __future__ import annotations

import shlex

import pytest

from poam_ros.app.commands.doctor import Topic, driver_findings

pytest.importorskip("rclpy")

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from sensor_msgs.msg import BatteryState, Range

RANGE, ODOMETRY = "sensor_msgs/msg/Range", "nav_msgs/msg/Odometry"


def odometry(name, frame="map", z=0.0, child="base_link"):
    message = Odometry(child_frame_id=child)
    message.header.frame_id, message.pose.pose.position.z = frame, z
    message.pose.pose.orientation.w = 1.0
    return Topic(name, ODOMETRY, 1, 0, 40, 10.0, 0.0, message)


def pings(name, kind=RANGE, high=50.0):
    newest = Range(max_range=high) if kind == RANGE else None
    return Topic(name, kind, 1, 0, 20, 5.0, 0.0, newest)


def goal(name):
    return Topic(name, "geometry_msgs/msg/PoseStamped", 0, 1)


def found(*topics):
    """The problems, and the arguments of the launch line."""
    remarks = list(driver_findings(topics))
    lines = [remark.advice for remark in remarks if remark.advice.startswith("ros2 launch")]
    given = dict(part.split(":=", 1) for part in shlex.split(lines[0])[4:]) if lines else {}
    return [remark.text for remark in remarks if remark.problem], given


def test_a_line_that_cannot_work_yet_says_so():
    for z, begin in ((0.0, "start mapper"), (5.0, "once these problems are solved, start mapper")):
        remarks = driver_findings((odometry("/odom", z=z), pings("/sonar")))
        (text,) = (each.text for each in remarks if each.advice.startswith("ros2 launch"))
        assert text.startswith(begin)


def test_mavros():
    """It listens to poses that are no goals, and publishes an altitude as odometry."""
    topics = (
        odometry("/mavros/global_position/local", z=431.0),
        odometry("/mavros/local_position/odom"),
        pings("/mavros/rangefinder/rangefinder"),
        *(goal(f"/mavros/{name}/pose") for name in ("landing_target", "mocap", "vision_pose")),
        goal("/mavros/setpoint_position/local"),
        Topic("/mavros/state", "mavros_msgs/msg/State", 1),
    )
    problems, given = found(*topics)
    assert not problems
    assert any("ardupilot.yaml,ping2.yaml" in each.advice for each in driver_findings(topics))
    assert given == {
        "workspace": "-50 50 -50 50", "odom_topic": "/mavros/local_position/odom",
        "range_topic": "/mavros/rangefinder/rangefinder",
        "goal_topic": "/mavros/setpoint_position/local", "mavros": "/mavros",
    }  # fmt: skip


def test_axes_north_east_down_need_a_transform():
    """As Stonefish publishes them: the map's frame is never theirs."""
    problems, given = found(
        odometry("/girona500/odometry", "world_ned", 3.0), pings("/girona500/dvl/altitude"),
        goal("/girona500/reference_pose"),
    )  # fmt: skip
    assert problems == ["/girona500/odometry: 'world_ned' has axes north, east, down"]
    assert "frame_id" not in given


def test_a_simulator_with_nav2():
    clock = Topic("/clock", "rosgraph_msgs/msg/Clock", 1)
    status = Topic("/navigate_to_pose/_action/status", "action_msgs/msg/GoalStatusArray", 1)
    behind = odometry("/odom")
    behind.offset_s = -1e9
    problems, given = found(behind, pings("/sonar"), goal("/goal_pose"), clock, status)
    assert not problems and "goal_topic" not in given
    assert (given["params_file"], given["use_sim_time"]) == ("nav2.yaml", "true")


def test_a_simulated_vehicle_in_the_frame_world_with_a_dvl():
    problems, given = found(
        odometry("/rexrov/pose_gt", "world", -3.0),
        pings("/rexrov/dvl", "marine_acoustic_msgs/msg/Dvl"),
        goal("/rexrov/cmd_pose"),
    )
    assert not problems and given["frame_id"] == "world"
    assert (given["range_type"], given["range_field"]) == (
        "marine_acoustic_msgs/msg/Dvl", "altitude"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("topics", "words"),
    [
        ((), "nobody publishes nav_msgs/Odometry"),
        ((odometry("/odom"),), "nobody publishes a sensor_msgs/Range"),
        ((odometry("/odom", z=5.0), pings("/sonar")), "above the water"),
        ((odometry("/odom", "base_link"), pings("/sonar")), "moves with the vehicle"),
        ((odometry("/odom"), pings("/sonar")), "nobody listens to a goal"),
        ((odometry("/odom"), pings("/sonar"), goal("/auv/pose")), "nobody listens to a goal"),
        ((odometry("/odom"), Topic("/sonar", RANGE, 1)), "/sonar: nothing is heard"),
    ],
)
def test_what_is_missing_or_wrong_is_a_problem(topics, words):
    problems, given = found(*topics)
    assert any(words in problem for problem in problems) and "goal_topic" not in given


def test_a_number_that_is_no_range_is_none():
    battery = Topic("/battery", "std_msgs/msg/Float32", 1, 0, 4)
    assert not found(odometry("/odom"), battery)[1]
    _, given = found(
        odometry("/odom"), battery, Topic("/altimeter", "std_msgs/msg/Float32", 1, 0, 4)
    )
    assert given["range_field"] == "data" and given["range_topic"] == "/altimeter"


@pytest.mark.ros
def test_the_graph_of_drivers_alone_is_read(ros, ros_env, monkeypatch, capsys):
    import rclpy
    from rclpy.node import Node

    from poam_ros.app.commands import doctor

    class Boat(Node):
        def __init__(self):
            super().__init__("boat")
            self.odometry = self.create_publisher(Odometry, "boat/odometry", 10)
            self.sonar = self.create_publisher(Range, "boat/echo", 10)
            self.create_subscription(PoseStamped, "boat/goal", print, 10)
            self.create_timer(0.1, self.play)

        def play(self):
            message = Odometry(child_frame_id="base_link")
            message.header.frame_id = "odom"
            message.header.stamp = self.get_clock().now().to_msg()
            message.pose.pose.orientation.w = 1.0
            self.odometry.publish(message)
            self.sonar.publish(Range(range=9.0, header=message.header))

    ros(Boat)
    context = rclpy.Context()  # a participant has one type for a topic
    rclpy.init(context=context)
    other = Node("other", context=context)
    other.create_publisher(BatteryState, "boat/echo", 10)
    heard, topics = doctor.listen(6.0)
    other.destroy_node()
    context.shutdown()
    assert not heard
    (line,) = [r.advice for r in driver_findings(topics) if "robot.launch.py" in r.advice]
    assert "odom_topic:=/boat/odometry" in line and "frame_id:=odom" in line
    assert "range_topic:=/boat/echo" in line and "goal_topic:=/boat/goal" in line
    texts = [str(remark.text) for remark in driver_findings(topics)]
    assert any("/boat/echo: no limits of range" in text for text in texts)
    assert any("/boat/echo has several types: sensor_msgs/msg/BatteryState, " in t for t in texts)
