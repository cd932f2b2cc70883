"""RViz, fitted to the survey that runs: a vehicle's mission or a simulation, from any machine.

    ros2 launch poam_ros view.launch.py
    ros2 launch poam_ros view.launch.py namespace:=auv1 odom_topic:=/auv1/odometry

It only listens to the running graph, and ends when RViz is closed. rviz:=false writes the layouts
for RViz, Foxglove and Lichtblick, and starts nothing.
"""

from functools import partial

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import RegisterEventHandler, Shutdown
from launch.event_handlers import OnProcessExit

from poam_ros.app import graph
from poam_ros.app.launching import LaunchArguments, viewer
from poam_ros.core.settings import Setting

RVIZ = Setting("rviz", True, "Start RViz. false: only write the layouts")
SIMULATED = Setting("simulated", False, "Use a simulator's clock and frames, in its namespace")
OUTPUT = Setting("output", "", "Folder for the fitted layouts. Empty: a new one")


def generate_launch_description() -> LaunchDescription:
    own = (*graph.ROBOT_TOPICS, graph.USE_SIM_TIME, graph.NAMESPACE, OUTPUT)
    arguments = LaunchArguments([*own, RVIZ, SIMULATED])

    def nodes(context: LaunchContext) -> list[Action]:
        namespace = arguments.namespace(context)
        remappings = graph.robot_remappings(partial(arguments.value, context))
        simulated = bool(arguments.value(context, "simulated"))
        remappings += graph.remappings(namespace) if simulated else []
        sim_time = simulated or bool(arguments.value(context, "use_sim_time"))
        folder, shown = (arguments.value(context, name) for name in ("output", "rviz"))
        command = graph.rviz_command(str(folder), bool(shown))
        rviz = viewer(command, sim_time, {"namespace": namespace, "remappings": remappings})
        closed = OnProcessExit(target_action=rviz, on_exit=[Shutdown(reason="RViz was closed")])
        return [rviz, RegisterEventHandler(closed)]

    return arguments.description(nodes)
