"""A whole simulated mission: simulator, mapper, planner, monitor and, with rviz:=true, RViz.

    ros2 launch poam_ros sim.launch.py terrain:=jacksboro speed:=20 max_samples:=1500 output:=runs/a

It ends 10 s after the mission is done, unless keep:=true.
"""

from launch import LaunchContext, LaunchDescription
from launch.action import Action

from poam_ros.app import graph
from poam_ros.app.launching import LaunchArguments, required_node, viewer
from poam_ros.ros.parameters import NODES


def generate_launch_description() -> LaunchDescription:
    arguments = LaunchArguments([*(graph.SIM_ROWS[name] for name in graph.FORWARDED), *graph.OWN])

    def nodes(context: LaunchContext) -> list[Action]:
        namespace = arguments.namespace(context)
        place = {"namespace": namespace, "remappings": graph.remappings(namespace)}
        actions: list[Action] = [
            required_node(
                name,
                parameters=[*graph.base_file("sim.yaml"), *arguments.parameters(context, name)],
                **place,
            )
            for name in NODES
        ]
        if arguments.value(context, "rviz"):
            command = graph.rviz_command(str(arguments.value(context, "output")))
            actions.append(viewer(command, True, place))
        return actions

    return arguments.description(nodes)
