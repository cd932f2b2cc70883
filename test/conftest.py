"""ROS for the tests of the nodes: a domain of one's own, this machine only."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest


def free_domain() -> int:
    """A ROS domain that no other run of the suite on this machine has: held as long as we live.

    The claim is a socket without a file, so that neither another TMPDIR nor a cleaned /tmp shares a
    domain. If all are taken, it is one that we have had for longest.
    """
    for domain in range(1, 91):
        claim = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError):
            claim.bind(f"\0poam-test-domain-{domain}")
            CLAIMS[domain] = claim
            return domain
        claim.close()
    own = next(iter(list(CLAIMS)[1:]), None)  # not the first one, which the whole process uses
    assert own is not None, "all ROS domains from 1 to 90 are taken by other runs of the tests"
    CLAIMS[own] = CLAIMS.pop(own)
    return own


CLAIMS: dict[int, socket.socket] = {}


# Before rclpy is loaded, and inherited by every process a test starts.
os.environ["ROS_DOMAIN_ID"] = os.environ.get("POAM_TEST_DOMAIN") or str(free_domain())
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# A shell's background job ignores Ctrl-C, and so would every process that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
# pymavlink chooses its dialect once for a process, whoever loads it first.
os.environ.setdefault("MAVLINK20", "1")

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 300.0  # s of wall time for what must happen, on a slow and busy machine


def pytest_collection_modifyitems(config, items):
    """Leave out the slow tests and those of `make soak`, unless -m names them.

    Tests that wait for processes come first, so that in the end no core waits for the last of them.
    """
    items.sort(key=lambda item: not {"ros", "mavlink", "app"} & set(item.path.parts))
    named = config.option.markexpr
    left_out = [] if "soak" in named else ["soak"] if "slow" in named else ["slow", "soak"]
    out = {item for item in items if any(map(item.get_closest_marker, left_out))}
    config.hook.pytest_deselected(items=list(out))
    items[:] = [item for item in items if item not in out]


@pytest.fixture
def ros_env():
    """The environment of a child process that runs a node from this checkout."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


@pytest.fixture
def other_domain():
    """A ROS domain for nodes that no other test shall hear of, nor of those that are killed."""
    return free_domain()


def called_by(thread, executor, function, *arguments):
    """What a function returns that an executor's thread calls, if that runs; or raises it."""
    if threading.current_thread() is thread or not thread.is_alive():
        return function(*arguments)
    found = []
    called = threading.Event()

    def call():
        try:
            found.append((function(*arguments), None))
        except BaseException as error:
            found.append((None, error))
        called.set()

    executor.create_task(call)
    assert called.wait(LIMIT), f"{function} was not called"
    ((returned, error),) = found
    if error is not None:
        raise error
    return returned


@pytest.fixture
def ros():
    """rclpy's default context; `ros(factory)` makes a node that spins on a thread of its own.

    One of ours is opened, unless ``up`` is false. ``parameters``: by name. ``ros.end(node)`` ends
    one before the others. ``node.in_turn(function)`` calls a function between its callbacks.
    """
    rclpy = pytest.importorskip("rclpy")
    from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
    from rclpy.parameter import Parameter

    from poam_ros.ros.node import avoid_shared_memory

    avoid_shared_memory()
    rclpy.init()
    spun = []

    def spin(executor, ended):
        # Not `spin`: what ends it takes away what the thread is waiting for.
        with contextlib.suppress(ExternalShutdownException):
            while not ended.is_set():
                executor.spin_once(timeout_sec=0.05)

    def start(factory, up=True, parameters=None, **options):
        if parameters:
            given = [Parameter(name, value=value) for name, value in parameters.items()]
            options["parameter_overrides"] = given
        node = factory(**options)
        if up and hasattr(node, "open"):
            node.open()
        executor, ended = SingleThreadedExecutor(), threading.Event()
        executor.add_node(node)
        thread = threading.Thread(target=spin, args=(executor, ended), daemon=True)
        node.in_turn = partial(called_by, thread, executor)
        for name in ("open", "set_parameters"):
            if hasattr(node, name):
                setattr(node, name, partial(node.in_turn, getattr(node, name)))
        thread.start()
        spun.append((node, executor, thread, ended))
        return node

    def end(*nodes):
        """Destroy them, or all."""
        ending = [entry for entry in spun if entry[0] in nodes or not nodes]
        for *_, ended in ending:
            ended.set()
        for _, _, thread, _ in ending:  # nothing is taken from a thread that still spins
            thread.join(LIMIT)
            assert not thread.is_alive(), "a callback does not end"
        for node, executor, _, _ in ending:
            executor.shutdown()
            node.destroy_node()
        spun[:] = [entry for entry in spun if entry not in ending]

    start.end = end
    yield start
    end()
    rclpy.try_shutdown()


@pytest.fixture
def refusal(capfd):
    """`refusal(main, *arguments)`: the line that a node's main ends with, with status 2."""
    pytest.importorskip("rclpy")

    def end(main, *arguments):
        capfd.readouterr()
        assert main(["node", "--ros-args", *arguments]) == 2
        said = capfd.readouterr().err
        lines = [line for line in said.splitlines() if not line.startswith("[")]  # of rcl
        assert len(lines) == 1, said
        return lines[0]

    return end


@pytest.fixture(scope="session")
def eventually():
    """`eventually(condition)`: its first true value, or an assertion after the timeout.

    A condition may look at the last message of a topic before there is one.
    """

    def wait(condition, timeout=LIMIT, what=""):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            with contextlib.suppress(IndexError):
                if value := condition():
                    return value
            time.sleep(0.02)
        raise AssertionError(what or f"not true within {timeout} s")

    return wait


@pytest.fixture
def python():
    """The interpreter that runs the tests."""
    return sys.executable


@pytest.fixture
def no_figures(monkeypatch):
    """`poam map` draws nothing: most of its time, for tests that look at its map alone."""
    monkeypatch.setattr(
        "poam_ros.app.commands.map.draw_figures", lambda folder, validated=False: None
    )


@pytest.fixture
def survey():
    """`survey(**options)`: a new session that is fed by hand."""
    from sessions import Survey

    return Survey
