"""Mapper and planner for a real vehicle (or another simulator).

    ros2 launch poam_ros robot.launch.py range_topic:=/auv/sonar odom_topic:=/auv/odometry \
        goal_topic:=/auv/goal workspace:='0 120 -40 40'
    ros2 service call /planner/start std_srvs/srv/Trigger

Nothing moves before the second. The nodes stay up when the mission is done, so that the latched
maps remain. A node that dies is started again. With mission_dir:=DIR the mission is kept there and
goes on then, the planner paused until /planner/resume, unless autoresume:=true. Without it the map
begins anew, and the planner waits for /planner/start. rviz:=true shows it here; on another machine,
view.launch.py does.
"""

from functools import partial

from launch import LaunchContext, LaunchDescription
from launch.action import Action

from poam_ros.app import graph, robot
from poam_ros.app.launching import LaunchArguments, required_node, viewers


def generate_launch_description() -> LaunchDescription:
    own = (*robot.TOPICS, robot.USE_SIM_TIME, graph.ROWS["exaggeration"], *graph.OWN)
    arguments = LaunchArguments([*robot.ROWS.values(), *own], required=("workspace",))

    def nodes(context: LaunchContext) -> list[Action]:
        file = str(arguments.value(context, "params_file"))
        robot.require_workspace(arguments.given("workspace"), file)
        autostart, mission_dir = (
            arguments.value(context, name)
            if arguments.given(name)
            else robot.in_file(file, "planner", name)
            for name in ("autostart", "mission_dir")
        )
        place = {
            "namespace": arguments.namespace(context),
            "remappings": robot.remappings(partial(arguments.value, context)),
        }
        started: list[Action] = [
            required_node(
                name,
                # Never a planner that would set off by itself, and knows of no mission before.
                respawn=name != "planner" or bool(mission_dir) or not autostart,
                parameters=[robot.defaults(name), *arguments.parameters(context, name)],
                **place,
            )
            for name in robot.NODES
        ]
        if arguments.value(context, "managed"):
            where = place["namespace"]
            started.append(required_node("bring_up", namespace=where, arguments=[*robot.NODES]))
        if arguments.value(context, "rviz"):
            sim_time = bool(arguments.value(context, "use_sim_time"))
            started += viewers(context, arguments, sim_time, place)
        return started

    return arguments.description(nodes)
