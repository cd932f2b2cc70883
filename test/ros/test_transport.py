"""Messages do not go through shared memory, where a killed process leaves a port behind."""

import inspect
import os
import subprocess
import sys

import pytest

pytest.importorskip("rclpy")

from poam_ros.ros.node import PROFILES, RANGE, TRANSPORTS, avoid_shared_memory, run_node

NODE = """
import rclpy
import poam_ros
from poam_ros.ros.node import avoid_shared_memory
avoid_shared_memory()
rclpy.init()
node = rclpy.create_node("quiet")
print(sum("/dev/shm/fast" in line for line in open("/proc/self/maps")))
"""


def unset(env):
    return {name: value for name, value in env.items() if name not in (TRANSPORTS, *PROFILES)}


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="not Linux")
@pytest.mark.parametrize("found", ["LOCALHOST", "OFF"])
def test_a_node_maps_no_shared_memory(found, ros_env, other_domain):
    env = {**unset(ros_env), RANGE: found, "ROS_DOMAIN_ID": str(other_domain)}
    ran = subprocess.run([sys.executable, "-c", NODE], env=env, capture_output=True, text=True)
    assert ran.stdout.strip() == "0", ran.stderr


@pytest.fixture
def environ(monkeypatch):
    """A copy of the environment without settings of Fast DDS, in place of it."""
    copy = unset(os.environ)
    monkeypatch.setattr(os, "environ", copy)
    return copy


@pytest.mark.parametrize("name", [TRANSPORTS, *PROFILES])
def test_the_transports_of_the_user_stay(name, environ):
    environ[name] = "mine"
    before = dict(environ)
    avoid_shared_memory()
    assert environ == before


def test_discovery_stays_on_this_machine(environ):
    environ[RANGE] = "LOCALHOST"
    avoid_shared_memory()
    assert environ[PROFILES[0]].endswith("loopback.xml")
    assert TRANSPORTS not in environ


def test_the_entry_of_all_nodes_avoids_shared_memory():
    source = inspect.getsource(run_node)
    assert 0 < source.index("avoid_shared_memory()") < source.index("rclpy.init(")
