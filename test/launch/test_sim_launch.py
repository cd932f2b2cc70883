"""sim.launch.py with the real nodes, as separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from poam_ros.runs.folder import read_map, read_table

# Not `launch`: from the checkout, that name also finds the folder of the launch files.
REASON = "the launch tools of ROS 2 are not installed"
pytest.importorskip("rclpy", reason="ROS 2 is not installed")
pytest.importorskip("launch_ros.actions", reason=REASON)


pytestmark = [pytest.mark.ros, pytest.mark.slow]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODES = ("mapper", "planner", "simulator", "monitor")
LIMIT = 300.0  # s
PARAMS = """
/**/simulator:
  ros__parameters: {terrain: seamounts, environment: [-7.0, 7.0, -7.0, 7.0],
                    workspace: [-6.0, 6.0, -6.0, 6.0]}
/**/mapper:
  ros__parameters: {workspace: [-6.0, 6.0, -6.0, 6.0], num_inducing: 40}
/**/planner:
  ros__parameters: {workspace: [-6.0, 6.0, -6.0, 6.0]}
/**/monitor:
  ros__parameters: {workspace: [-6.0, 6.0, -6.0, 6.0], linger: 1.0}
"""
# What `ros2 launch` does with a file and its arguments, exit status included.
LAUNCH = """
import sys
from launch import LaunchDescription, LaunchService
from launch.actions import IncludeLaunchDescription
from launch.launch_description_sources import PythonLaunchDescriptionSource

source = PythonLaunchDescriptionSource(sys.argv[1])
given = dict(word.split(":=") for word in sys.argv[2:])
service = LaunchService()
service.include_launch_description(
    LaunchDescription([IncludeLaunchDescription(source, launch_arguments=given.items())])
)
sys.exit(service.run())
"""


@pytest.fixture
def environment(tmp_path):
    """An ament prefix with this checkout's nodes, on a ROS domain of its own."""
    index = tmp_path / "share" / "ament_index" / "resource_index" / "packages"
    executables = tmp_path / "lib" / "poam_ros"
    for folder in (index, executables):
        folder.mkdir(parents=True)
    (index / "poam_ros").touch()
    for name in NODES:
        script = executables / name
        script.write_text(
            f"#!{sys.executable}\nimport sys\nfrom poam_ros.ros.nodes.{name} import main\n"
            "sys.exit(main())\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
    (tmp_path / "mission.yaml").write_text(PARAMS, encoding="utf-8")

    def path(name: str, first: Path) -> str:
        return os.pathsep.join([str(first), *filter(None, [os.environ.get(name)])])

    return {
        **os.environ,
        "AMENT_PREFIX_PATH": path("AMENT_PREFIX_PATH", tmp_path),
        "PYTHONPATH": path("PYTHONPATH", ROOT),
        "POAM_TEST_PARAMS": str(tmp_path / "mission.yaml"),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "ROS_DOMAIN_ID": "87",
        "ROS_LOG_DIR": str(tmp_path / "log"),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "Agg",
    }


def run(
    command: list[str], environment: dict[str, str], folder: Path
) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=LIMIT,
    )


def test_mission_under_launch_testing(environment, tmp_path):
    pytest.importorskip("launch_testing.launch_test", reason="launch_testing is not installed")
    script = str(HERE / "sim_launch_testing.py")
    done = run(["-m", "launch_testing.launch_test", script], environment, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]


def test_mission_in_a_namespace_ends_by_itself(environment, tmp_path):
    done = run(
        [
            *("-c", LAUNCH, str(ROOT / "launch" / "sim.launch.py")),
            *("namespace:=auv1", "speed:=20", "max_samples:=200", "output:=run"),
            f"params_file:={environment['POAM_TEST_PARAMS']}",
        ],
        environment,
        tmp_path,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Traceback" not in done.stdout
    assert "has died" not in done.stdout
    folder = tmp_path / "run"
    samples, epochs = (read_table(folder / name) for name in ("samples.csv", "epochs.csv"))
    count = len(samples["z"])
    assert count >= 200 and len(epochs["samples"]), done.stdout[-4000:]
    assert read_map(folder / "map.npz").samples == epochs["samples"][-1] == count
    nodes = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))["nodes"]
    # What the file and the arguments said has reached the nodes, in their namespace.
    assert (nodes["mapper"]["num_inducing"], nodes["planner"]["max_samples"]) == (40, 200)
    assert (nodes["simulator"]["speed"], nodes["mapper"]["output"]) == (20.0, "run")


def test_failing_node_fails_the_launch(environment, tmp_path):
    done = run(
        ["-c", LAUNCH, str(ROOT / "launch" / "sim.launch.py"), "terrain:=no_such_terrain"],
        environment,
        tmp_path,
    )
    assert done.returncode == 1, done.stdout[-4000:]
    assert "simulator ended with exit status 2" in done.stdout
    assert "no_such_terrain" in done.stdout
