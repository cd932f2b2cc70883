"""sim.launch.py with the real nodes, as separate processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import launched
import pytest
import yaml

from poam_ros.outputs.folder import read_map, read_table

# Not `launch`: from the checkout, that name also finds the folder of the launch files.
pytest.importorskip("rclpy", reason="ROS 2 is not installed")
pytest.importorskip("launch_ros.actions", reason=launched.REASON)


pytestmark = pytest.mark.ros

HERE = Path(__file__).parent


@pytest.fixture
def environment(tmp_path, other_domain):
    """An ament prefix with this checkout's nodes, on a ROS domain of its own."""
    return launched.prefix(tmp_path, other_domain)


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
        timeout=launched.LIMIT,
    )


def test_mission_under_launch_testing(environment, tmp_path):
    pytest.importorskip("launch_testing.launch_test", reason="launch_testing is not installed")
    script = str(HERE / "sim_launch_testing.py")
    done = run(["-m", "launch_testing.launch_test", script], environment, tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]


def test_mission_in_a_namespace_ends_by_itself(environment, tmp_path):
    done = run(
        launched.launch(
            "sim",
            namespace="auv1",
            speed="20",
            max_samples="200",
            output="run",
            params_file=environment["POAM_TEST_PARAMS"],
        ),
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
    assert (nodes["mapper"]["sparse.num_inducing"], nodes["planner"]["max_samples"]) == (40, 200)
    assert (nodes["simulator"]["speed"], nodes["mapper"]["output"]) == (20.0, "run")


def test_failing_node_fails_the_launch(environment, tmp_path):
    done = run(launched.launch("sim", terrain="no_such_terrain"), environment, tmp_path)
    assert done.returncode == 1, done.stdout[-4000:]
    assert "simulator ended with exit status 2" in done.stdout
    assert "no_such_terrain" in done.stdout
