"""Child processes: started, watched, and ended in order. With stand-ins, without waiting."""

from __future__ import annotations

import io
import signal
import subprocess
import sys

import pytest

from poam_ros.app.commands.sim import ProcessGroup


class Time:
    """A clock that advances only by waiting."""

    def __init__(self):
        self.now = 50.0

    def __call__(self):
        return self.now


class StandIn:
    """A process that ends some seconds after a signal, or when a test says so."""

    def __init__(self, time, lines="", ends_after=None):
        self._time, self._ends_after = time, ends_after or {}
        self.stdout = io.StringIO(lines)
        self.signals = []  # (number, when)
        self.status = self._end = None

    def poll(self):
        if self._end is not None and self._time.now >= self._end:
            self.status = -self.signals[-1][0]
        return self.status

    def send_signal(self, number):
        self.signals.append((number, self._time.now))
        if number in self._ends_after:
            self._end = self._time.now + self._ends_after[number]

    def wait(self, timeout):
        left = float("inf") if self._end is None else max(0.0, self._end - self._time.now)
        self._time.now += min(timeout, left)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("stand-in", timeout)


@pytest.fixture
def time():
    return Time()


@pytest.fixture
def alerts():
    return []


@pytest.fixture
def family(time, tmp_path, alerts):
    """Children of these names, each with its stand-in."""

    def start(others=(), **processes):
        children = ProcessGroup(
            tmp_path, alerts.append, spawn=lambda command, **_: processes[command[0]], clock=time
        )
        for name in processes:
            children.start(name, [name], vital=name not in others)
        return children

    return start


def numbers(process):
    return [number for number, _ in process.signals]


def test_all_processes_are_interrupted_before_waiting(family, time):
    quick, slow = (StandIn(time, ends_after={signal.SIGINT: s}) for s in (1, 4))
    children = family(slow=slow, quick=quick)
    children.stop()
    assert slow.signals == quick.signals == [(signal.SIGINT, 50.0)]
    assert time.now == 54


def test_processes_that_ignore_sigint_are_terminated_then_killed(family, time):
    deaf = StandIn(time, ends_after={signal.SIGKILL: 0.5})
    stubborn = StandIn(time, ends_after={signal.SIGTERM: 1})
    children = family(deaf=deaf, stubborn=stubborn)
    children.stop(grace=10)
    assert deaf.signals == [
        (signal.SIGINT, 50.0), (signal.SIGTERM, 60.0), (signal.SIGKILL, 63.0)
    ]  # fmt: skip
    assert numbers(stubborn) == [signal.SIGINT, signal.SIGTERM]
    children.stop()
    assert len(deaf.signals) == 3  # the dead are left alone


def test_the_end_of_a_vital_process_is_reported_with_its_last_line(family, time):
    planner = StandIn(time, lines="[INFO] up\n\nparameter goal_radius: too small\n\n")
    window = StandIn(time)
    children = family(others=("window",), planner=planner, window=window)
    assert children.ended() is None
    window.status = 0
    assert children.ended() is None
    planner.status = 2
    assert children.ended() == ("planner", 2, "parameter goal_radius: too small")


@pytest.mark.parametrize("disk", ["free", "full", "without inodes"])
def test_output_goes_to_a_log_and_warnings_to_the_display(disk, family, time, alerts, tmp_path):
    """On a full disk it is read all the same."""
    log = tmp_path / "mapper.log"
    if disk == "full":
        log.symlink_to("/dev/full")
    elif disk == "without inodes":
        log.symlink_to(tmp_path / "no such folder" / "mapper.log")  # so that none can be created
    lines = "[INFO] a\n[WARN] b\nc\n[ERROR] d\n"
    children = family(mapper=StandIn(time, lines=lines, ends_after={signal.SIGINT: 0}))
    children.stop()
    told = ["mapper: [WARN] b", "mapper: [ERROR] d"]
    if disk == "free":
        assert log.read_text() == lines and alerts == told
    else:
        assert alerts[0].startswith(f"{log} is incomplete: No s") and alerts[1:] == told


def test_a_real_process_has_a_session_of_its_own(tmp_path, alerts, eventually):
    children = ProcessGroup(tmp_path, alerts.append)
    code = "import os, sys; print(os.getsid(0) == os.getpid()); sys.exit(3)"
    children.start("real", [sys.executable, "-c", code])
    assert eventually(children.ended) == ("real", 3, "True")
    assert (tmp_path / "real.log").read_text() == "True\n"
