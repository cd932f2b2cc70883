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


def stamps(mission, table="pings"):
    with closing(sqlite3.connect(mission / "pings.sqlite")) as log:
        return [stamp for (stamp,) in log.execute(f"SELECT stamp_ns FROM {table} ORDER BY rowid")]


def test_a_killed_mapper_is_restarted_and_recovers(tmp_path, other_domain):
    environment = launched.prefix(tmp_path, other_domain)
    mission, params = tmp_path / "mission", environment["POAM_TEST_PARAMS"]
    robot = launched.launch(
        "robot",
        params_file=params,
        mission_dir=str(mission),
        autostart="true",
        pilot="diagonal",
        max_samples="200",
        use_sim_time="true",
        odom_topic=VEHICLE["odom"],
        range_topic=VEHICLE["sonar/range"],
        goal_topic=VEHICLE["goal_pose"],
    )
    simulator = ["-m", "poam_ros.ros.simulator.node", "--ros-args", "--params-file", params]
    for setting in ("use_sim_time:=true", "wait_for_mission:=true", "speed:=10.0"):
        simulator += ["-p", setting]
    for topic, name in VEHICLE.items():
        simulator += ["-r", f"{topic}:={name}"]
    with (
        launched.started(robot, environment, tmp_path / "robot.txt") as nodes,
        launched.started(simulator, environment, tmp_path / "simulator.txt"),
    ):
        said = nodes.wait_for("exploring at")
        # Screened pings wait to be judged, until the first batch is; they are kept all the same.
        nodes.wait_until(lambda: stamps(mission, "waiting") or stamps(mission), "ping is kept")
        (process,) = re.findall(r"\[mapper-\d+\]: process started with pid \[(\d+)\]", said)
        os.kill(int(process), signal.SIGKILL)
        said = nodes.wait_for("recovering ")
        kept = int(re.search(r"recovering (\d+) pings from", said)[1])
        assert kept > 0 and "exit code -9" in said
        said = nodes.wait_for("the mission is done: ")
        mapped = int(re.search(r"the mission is done: (\d+) pings", said)[1])
        assert nodes.interrupt() == 0, nodes.said[-4000:]
    assert nodes.said.count("process has finished cleanly") == 2, nodes.said[-4000:]
    log = stamps(mission)
    assert len(log) == mapped >= 200 and mapped > kept
    assert all(later > earlier for earlier, later in pairwise(log))
