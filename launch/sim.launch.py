"""A whole simulated mission: simulator, mapper, planner and monitor, and RViz if asked.

    ros2 launch poam_ros sim.launch.py terrain:=jacksboro speed:=20 max_samples:=1500 output:=runs/a

It ends by itself 10 s after the mission is done, unless keep:=true.
"""

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from poam_ros.app import graph
from poam_ros.app.launching import Arguments, required_node
from poam_ros.ros.parameters import NODES


def generate_launch_description() -> LaunchDescription:
    arguments = Arguments(
        rows=[graph.ROWS[name] for name in graph.FORWARDED],
        others=[graph.PARAMS_FILE, graph.NAMESPACE, graph.RVIZ],
    )

    def nodes(context: LaunchContext) -> list[Action]:
        namespace = str(arguments.value(context, "namespace")).strip("/")
        place = {"namespace": namespace, "remappings": graph.remappings(namespace)}
        actions: list[Action] = [
            required_node(
                name,
                parameters=[*arguments.parameters(context, name), graph.fixed(name)],
                **place,
            )
            for name in NODES
        ]
        if arguments.value(context, "rviz"):
            rviz = Node(
                package="rviz2",
                executable="rviz2",
                name="rviz2",
                arguments=["-d", str(graph.rviz_layout())],
                parameters=[{"use_sim_time": True}],
                **place,
            )
            actions.append(rviz)
        return actions

    return LaunchDescription([*arguments.actions(), OpaqueFunction(function=nodes)])
