"""A whole simulated mission: simulator, mapper, planner and monitor, and RViz if asked.

    ros2 launch poam_ros sim.launch.py terrain:=jacksboro speed:=20 max_samples:=1500 output:=runs/a

It ends by itself 10 s after the mission is done, unless keep:=true.
"""

from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.action import Action
from launch.actions import OpaqueFunction
from launch_ros.actions import Node

from poam_ros.app.launching import (
    NAMESPACE,
    PARAMS_FILE,
    SIMULATED_REMAPPINGS,
    Arguments,
    required_node,
)
from poam_ros.ros.declaring import Parameter
from poam_ros.ros.parameters import NODES

ROWS = {row.name: row for table in NODES.values() for row in table}
FORWARDED = (
    "terrain", "speed", "max_samples", "method", "planner", "pilot", "sonar_rate", "seed", "output",
)  # fmt: skip
# At 20 times real time, minutes of the mission would pass while the mapper still loads torch.
BEFORE_FILE = {"simulator": [{"wait_for_mission": True}]}
RVIZ = Parameter("rviz", False, "Show the mission in RViz (the rviz2 package)")
RVIZ_LAYOUT = Path(__file__).parent.parent / "config" / "sim.rviz"


def generate_launch_description() -> LaunchDescription:
    arguments = Arguments(
        rows=[ROWS[name] for name in (*FORWARDED, "keep")],
        others=[PARAMS_FILE, NAMESPACE, RVIZ],
    )

    def nodes(context: LaunchContext) -> list[Action]:
        namespace = str(arguments.value(context, "namespace")).strip("/")
        place = {
            "namespace": namespace,
            "remappings": SIMULATED_REMAPPINGS if namespace else [],
        }
        actions: list[Action] = [
            required_node(
                name,
                parameters=[
                    *BEFORE_FILE.get(name, []),
                    *arguments.parameters(context, name),
                    # The monitor lives on wall time, and is spared the clock's messages.
                    {"use_sim_time": name != "monitor"},
                ],
                **place,
            )
            for name in NODES
        ]
        if arguments.value(context, "rviz"):
            rviz = Node(
                package="rviz2",
                executable="rviz2",
                name="rviz2",
                arguments=["-d", str(RVIZ_LAYOUT)],
                parameters=[{"use_sim_time": True}],
                **place,
            )
            actions.append(rviz)
        return actions

    return LaunchDescription([*arguments.actions(), OpaqueFunction(function=nodes)])
