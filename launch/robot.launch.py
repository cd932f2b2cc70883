"""Mapper and planner for a real vehicle (or another simulator).

    ros2 launch poam_ros robot.launch.py range_topic:=/auv/sonar odom_topic:=/auv/odometry \
        goal_topic:=/auv/goal workspace:='0 120 -40 40'
    ros2 service call /planner/start std_srvs/srv/Trigger

Nothing moves before the second. The nodes stay up when the mission is done, so that the latched
maps remain. A node that dies is started again. With mission_dir:=DIR the mission is kept there and
goes on then, the planner paused until /planner/resume, unless autoresume:=true. Without it the map
begins anew, and the planner waits for /planner/start.
"""

from launch import LaunchContext, LaunchDescription
from launch.action import Action

from poam_ros.app import robot
from poam_ros.app.graph import NAMESPACE, PARAMS_FILE
from poam_ros.app.launching import Arguments, required_node
from poam_ros.settings import Setting

# The nodes' own names of the topics that a vehicle may call otherwise.
TOPICS = {
    "range_topic": Setting("range_topic", "sonar/range", "Pings: sensor_msgs/Range"),
    "odom_topic": Setting("odom_topic", "odom", "Odometry: nav_msgs/Odometry"),
    "goal_topic": Setting("goal_topic", "goal_pose", "Waypoints: geometry_msgs/PoseStamped"),
    "water_level_topic": Setting(
        "water_level_topic", "water_level", "Height of the water's surface: std_msgs/Float64"
    ),
}
USE_SIM_TIME = Setting("use_sim_time", False, "Take the time from /clock (a simulator, a bag)")


def generate_launch_description() -> LaunchDescription:
    own = (*TOPICS.values(), USE_SIM_TIME, PARAMS_FILE, NAMESPACE)
    arguments = Arguments([*robot.ROWS.values(), *own], required=("workspace",))

    def nodes(context: LaunchContext) -> list[Action]:
        file = str(arguments.value(context, "params_file"))
        robot.require_workspace(arguments.given("workspace"), file)
        autostart, mission_dir = (
            arguments.value(context, name)
            if arguments.given(name)
            else robot.in_file(file, "planner", name)
            for name in ("autostart", "mission_dir")
        )
        remappings = [(row.default, arguments.value(context, name)) for name, row in TOPICS.items()]
        namespace = arguments.namespace(context)
        started: list[Action] = [
            required_node(
                name,
                # Never a planner that would set off by itself, and knows of no mission before.
                respawn=name != "planner" or bool(mission_dir) or not autostart,
                namespace=namespace,
                parameters=[robot.defaults(name), *arguments.parameters(context, name)],
                remappings=remappings,
            )
            for name in robot.NODES
        ]
        if arguments.value(context, "managed"):
            started.append(required_node("bring_up", namespace=namespace, arguments=[*robot.NODES]))
        return started

    return arguments.description(nodes)
