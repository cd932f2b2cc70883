"""The nodes' console scripts, with and without ROS 2."""

import subprocess
import sys

import pytest

from poam_ros.app.cli import MODULES

SCRIPTS = sorted(MODULES)
#: As pip's script does; ``missing`` is not installed.
SCRIPT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from poam_ros.app.cli import {node}
sys.argv = [{node!r}, *{words!r}]
sys.exit({node}())
"""


def run(node, env, missing="", words=()):
    script = SCRIPT.format(node=node, missing=missing, words=list(words))
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("node", SCRIPTS)
def test_missing_ros_gives_one_line(node, ros_env):
    done = run(node, ros_env, "rclpy")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith(f"{node} needs rclpy of ROS 2 (pip install 'poam_ros[ros]'), or")


@pytest.mark.parametrize("node", ["mapper", "simulator"])
def test_help_is_shown_and_nothing_starts(node, ros_env):
    done = run(node, ros_env, "rclpy", ["--help"])
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith(f"usage: {node} [") and "--params-file FILE" in done.stdout


@pytest.mark.ros
@pytest.mark.parametrize("missing", ["nav_msgs", "std_srvs"])
def test_a_missing_message_package_is_named(missing, ros_env):
    pytest.importorskip("rclpy")
    done = run("planner", ros_env, missing)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert f"needs {missing} of ROS 2 (" in done.stderr


@pytest.mark.ros
def test_other_missing_modules_raise_an_error(ros_env):
    pytest.importorskip("rclpy")
    done = run("planner", ros_env, "numpy")
    assert done.returncode == 1 and "No module named 'numpy'" in done.stderr


@pytest.mark.ros
@pytest.mark.parametrize(
    "node",
    ["planner", *(pytest.param(name, marks=pytest.mark.slow)
                  for name in ("mapper", "simulator", "monitor"))],
)  # fmt: skip
def test_with_ros_the_node_runs(node, ros_env):
    """It reads its arguments, and refuses a wrong one by itself."""
    pytest.importorskip("rclpy")
    done = run(node, ros_env, words=["--ros-args", "-p", "use_sim_time:=17"])
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "use_sim_time" in done.stderr
