"""robot.launch.py with the real nodes, and the simulator in the vehicle's place."""

import os
import re
import signal
import sqlite3
from contextlib import closing
from itertools import pairwise

import launched
import pytest

# Not `launch`: from the checkout, that name also finds the folder of the launch files.
pytest.importorskip("rclpy", reason="ROS 2 is not installed")
pytest.importorskip("launch_ros.actions", reason=launched.REASON)


pytestmark = pytest.mark.ros

VEHICLE = {
    "odom": "/auv/odometry", "sonar/range": "/auv/sonar/range", "goal_pose": "/auv/goal_pose",
}  # fmt: skip


def pings(mission):
    """The stamp of each ping of the journal, and whether the map has it."""
    with closing(sqlite3.connect(mission / "pings.sqlite")) as log:
        if not log.execute("SELECT 1 FROM sqlite_master WHERE name = 'pings'").fetchone():
            return []  # the mapper is just making it
        return log.execute("SELECT stamp_ns, verdict = 1 FROM pings ORDER BY number").fetchall()


def test_a_killed_mapper_is_restarted_and_recovers(tmp_path, other_domain):
    environment = launched.prefix(tmp_path, other_domain)
    mission, params = tmp_path / "mission", environment["POAM_TEST_PARAMS"]
    pilot = tmp_path / "pilot.yaml"  # combined with the other file; no argument of the launch file
    pilot.write_text(
        "/**:\n  ros__parameters: {pilot: diagonal, max_samples: 200, odometry.vertical: datum, "
        "autostart: true}\n",
        encoding="utf-8",
    )
    robot = launched.launch(
        "robot",
        params_file=f"{params},{pilot}",
        mission_dir=str(mission),
        use_sim_time="true",
        odom_topic=VEHICLE["odom"],
        range_topic=VEHICLE["sonar/range"],
        goal_topic=VEHICLE["goal_pose"],
    )
    simulator = ["-m", "poam_ros.ros.simulator", "--ros-args", "--params-file", params]
    for setting in ("use_sim_time:=true", "wait_for_mission:=true", "speed:=10.0"):
        simulator += ["-p", setting]
    for topic, name in VEHICLE.items():
        simulator += ["-r", f"{topic}:={name}"]
    with (
        launched.started(robot, environment, tmp_path / "robot.txt") as nodes,
        launched.started(simulator, environment, tmp_path / "simulator.txt"),
    ):
        said = nodes.wait_for("exploring at")
        nodes.wait_until(lambda: pings(mission), "ping is kept")
        (process,) = re.findall(r"\[mapper-\d+\]: process started with pid \[(\d+)\]", said)
        os.kill(int(process), signal.SIGKILL)
        said = nodes.wait_for("recovering ")
        kept = int(re.search(r"recovering (\d+) pings from", said)[1])
        assert kept > 0 and "exit code -9" in said
        said = nodes.wait_for("the mission is done: ")
        mapped = int(re.search(r"the mission is done: (\d+) pings", said)[1])
        assert nodes.interrupt() == 0, nodes.said[-4000:]
    assert nodes.said.count("process has finished cleanly") == 2, nodes.said[-4000:]
    stamps, in_map = zip(*pings(mission), strict=True)
    assert sum(in_map) == mapped and len(stamps) >= max(200, kept + 1)
    assert all(later > earlier for earlier, later in pairwise(stamps))
