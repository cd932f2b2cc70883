"""How nodes end: signals, failures, exit statuses."""

import functools
import signal
import subprocess
import sys

import pytest

from poam_ros.app.nodes import MODULES

pytest.importorskip("rclpy")

from rclpy.node import Node

LIMIT = 300.0  # s, for a process to end
NODE = """
import sys
from rclpy.qos import QoSProfile
from std_msgs.msg import String
from poam_ros.app.nodes import MODULES
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
        if "fail" in sys.argv:
            raise ValueError("broken")
        self.finished = "end" in sys.argv
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


@pytest.mark.parametrize(
    ("name", "count", "topic"),
    [
        ("planner", "count_publishers", "mission/state"),
        pytest.param("mapper", "count_publishers", "map/points", marks=pytest.mark.slow),
        pytest.param("simulator", "count_publishers", "odom", marks=pytest.mark.slow),
        pytest.param("monitor", "count_subscribers", "map/report", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_of_every_node_prints_nothing(start, ros, eventually, name, count, topic):
    outside = ros(Node, node_name="outside")
    there = functools.partial(getattr(outside, count), topic)
    process = start("-m", MODULES[name])
    eventually(there)
    process.send_signal(signal.SIGINT)
    _, heard = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, heard
    assert "rosout" not in heard and "Traceback" not in heard
    eventually(lambda: not there())


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
