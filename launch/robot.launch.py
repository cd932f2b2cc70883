"""Mapper and planner for a real vehicle (or another simulator).

    ros2 launch poam_ros robot.launch.py range_topic:=/auv/sonar odom_topic:=/auv/odometry \
        goal_topic:=/auv/goal workspace:='0 120 -40 40'
    ros2 service call /planner/start std_srvs/srv/Trigger

Nothing moves before the second command. The nodes keep running when the mission is done, so that
the latched maps remain. A node that dies is started again. With mission_dir:=DIR the mission is
stored there and recovered: the planner is paused until /planner/resume, unless
watchdog.resume_after_restart is true. Without it the map starts empty, and the planner waits for
/planner/start. Other parameters, and a workspace in degrees:
params_file:=mine.yaml, a copy of config/robot.yaml. rviz:=true
shows the mission on this machine; view.launch.py does so on another one.
"""

from functools import partial
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.action import Action

from poam_ros.app import graph
from poam_ros.app.launching import LaunchArguments, required_node, viewer


def generate_launch_description() -> LaunchDescription:
    arguments = LaunchArguments(graph.ROBOT_ARGUMENTS, required=("workspace",))

    def nodes(context: LaunchContext) -> list[Action]:
        file = str(arguments.value(context, "params_file"))

        in_file = graph.in_files(file, "planner")
        values: dict[str, Any] = graph.DEFAULTS | in_file
        if arguments.given("mission_dir"):
            values["mission_dir"] = arguments.value(context, "mission_dir")
        degrees = any(values["workspace_degrees"])
        metres = arguments.given("workspace") or ("workspace" in in_file and not degrees)
        places = {} if metres else graph.place_in_metres(values)
        graph.require_workspace(bool(places) or arguments.given("workspace"), file)
        autostart, mission_dir = values["autostart"], values["mission_dir"]
        place = {
            "namespace": arguments.namespace(context),
            "remappings": graph.robot_remappings(partial(arguments.value, context)),
        }
        started: list[Action] = [
            required_node(
                name,
                # Never a planner that would start by itself without knowing the earlier mission.
                respawn=name != "planner" or bool(mission_dir) or not autostart,
                parameters=[
                    *graph.base_file("robot.yaml"),
                    *arguments.parameters(context, name, places),
                ],
                **place,
            )
            for name in graph.ROBOT_NODES
        ]
        if arguments.value(context, "rviz"):
            sim_time = bool(arguments.value(context, "use_sim_time"))
            folder = values["output"] or mission_dir
            started.append(viewer(graph.rviz_command(str(folder or "")), sim_time, place))
        return started

    return arguments.description(nodes)
