"""How nodes end: signals, failures, exit statuses; and that none uses shared memory, where a
killed process leaves a port behind."""

import os
import signal
import subprocess
import sys

import pytest

pytest.importorskip("rclpy")

from poam_ros.ros.node import PROFILES, RANGE, TRANSPORTS, avoid_shared_memory

LIMIT = 300.0  # s, for a process to end
NODE = """
import sys
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from poam_ros.core.errors import InputError
from poam_ros.ros.node import run_node
from poam_ros.ros.node import BaseNode

class Talker(BaseNode):
    def __init__(self):
        super().__init__("talker", ())

    def open(self):
        super().open()
        self.on_exit.callback(self.get_logger().info, "last words")
        if "refuse" in sys.argv:
            raise InputError("refused:\\n  expected better")
        self.create_timer(0.001, self.talk)

    def talk(self):
        self.get_logger().info("up", once=True)
        if "maps" in sys.argv:
            print(sum("/dev/shm/fast" in line for line in open("/proc/self/maps")))
        if "fail" in sys.argv:
            raise ValueError("broken")
        self.finished = "end" in sys.argv or "maps" in sys.argv
        self.get_logger().info("still here")

sys.exit(run_node(Talker, []))
"""


@pytest.fixture
def start(ros_env):
    started = []

    def start(*command):
        process = subprocess.Popen(
            [sys.executable, *command],
            env=ros_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def read_until(stream, text):
    """Lines of a stream up to one that holds the text."""
    lines = []
    for line in stream:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"expected {text!r}, got {''.join(lines)}")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_a_signal_ends_a_logging_node_without_further_output(start, number):
    for _ in range(2):
        process = start("-c", NODE)
        read_until(process.stderr, "still here")
        process.send_signal(number)
        _, heard = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, heard
        assert heard.rstrip().endswith("last words")
        assert "rosout" not in heard and "Traceback" not in heard


def test_a_signal_ends_a_node_that_is_still_starting(start):
    """After some seconds, however long the start would have taken."""
    slow = NODE.replace("        super().open()\n", "        super().open()\n        wait()\n")
    slow = slow.replace("import sys\n", "import sys, time\ndef wait():\n"
        "    print('starting', file=sys.stderr, flush=True)\n    time.sleep(600)\n", 1)  # fmt: skip
    process = start("-c", slow)
    read_until(process.stderr, "starting")
    process.send_signal(signal.SIGINT)
    _, heard = process.communicate(timeout=LIMIT)
    assert process.returncode == 0 and "Traceback" not in heard


def test_exit_statuses_of_finished_failed_and_refused_nodes(start):
    for word, status in (("end", 0), ("fail", 1), ("refuse", 2)):
        process = start("-c", NODE, word)
        _, heard = process.communicate(timeout=LIMIT)
        assert process.returncode == status, heard
        assert "last words" in heard
        assert ("ValueError: broken" in heard) == (word == "fail")
        assert "rosout" not in heard
    assert "refused: expected better\n" in heard


def unset(env):
    return {name: value for name, value in env.items() if name not in (TRANSPORTS, *PROFILES)}


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="not Linux")
@pytest.mark.parametrize("found", ["LOCALHOST", "OFF"])
def test_a_node_maps_no_shared_memory(found, ros_env, other_domain):
    env = {**unset(ros_env), RANGE: found, "ROS_DOMAIN_ID": str(other_domain)}
    command = [sys.executable, "-c", NODE, "maps"]
    ran = subprocess.run(command, env=env, capture_output=True, text=True)
    assert ran.stdout.strip() == "0", ran.stderr


def test_settings_of_the_user_stay_and_discovery_stays_on_this_machine(monkeypatch):
    for name in (TRANSPORTS, *PROFILES):
        environ = {**unset(os.environ), name: "mine"}
        monkeypatch.setattr(os, "environ", dict(environ))
        avoid_shared_memory()
        assert os.environ == environ
    monkeypatch.setattr(os, "environ", {**unset(os.environ), RANGE: "LOCALHOST"})
    avoid_shared_memory()
    assert os.environ[PROFILES[0]].endswith("loopback.xml") and TRANSPORTS not in os.environ
