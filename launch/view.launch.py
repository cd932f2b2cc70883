"""RViz and the node drapes: show a vehicle's mission or a simulation on any machine.

    ros2 launch poam_ros view.launch.py
    ros2 launch poam_ros view.launch.py namespace:=auv1 exaggeration:=3 odom_topic:=/auv1/odometry

It only listens to the running graph. rviz:=false starts drapes alone, for Foxglove and Lichtblick
(config/foxglove.json). It ends when RViz is closed.
"""

from functools import partial

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import RegisterEventHandler, Shutdown
from launch.event_handlers import OnProcessExit

from poam_ros.app import graph
from poam_ros.app.launching import LaunchArguments, viewers
from poam_ros.core.settings import Setting

VIEW = [graph.ROWS[row] for row in ("exaggeration", "water.level", "max_cells")]
RVIZ = Setting("rviz", True, "Start RViz. false: only the node drapes, for another viewer")
SIMULATED = Setting("simulated", False, "Use a simulator's clock and frames, in its namespace")


def generate_launch_description() -> LaunchDescription:
    own = (*VIEW, *graph.ROBOT_TOPICS, graph.USE_SIM_TIME, graph.PARAMS_FILE, graph.NAMESPACE)
    arguments = LaunchArguments([*own, RVIZ, SIMULATED])

    def nodes(context: LaunchContext) -> list[Action]:
        namespace = arguments.namespace(context)
        remappings = graph.robot_remappings(partial(arguments.value, context))
        simulated = bool(arguments.value(context, "simulated"))
        remappings += graph.remappings(namespace) if simulated else []
        sim_time = simulated or bool(arguments.value(context, "use_sim_time"))
        place = {"namespace": namespace, "remappings": remappings}
        drapes, rviz = viewers(context, arguments, sim_time, place)
        if not arguments.value(context, "rviz"):
            return [drapes]
        closed = OnProcessExit(target_action=rviz, on_exit=[Shutdown(reason="RViz was closed")])
        return [drapes, rviz, RegisterEventHandler(closed)]

    return arguments.description(nodes)
