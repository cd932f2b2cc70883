"""Child processes: started, watched, and ended in order."""

from __future__ import annotations

import sys

import pytest

from poam_ros.app.commands.sim import ProcessGroup

#: Says that it is up, and then ends at the signals of the second argument alone.
DEAF = """
import signal, sys, time
for name in sys.argv[1].split():
    signal.signal(getattr(signal, name), signal.SIG_IGN)
print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, flush=True)
time.sleep(600)
"""


@pytest.fixture
def group(tmp_path):
    group = ProcessGroup(tmp_path)
    yield group
    group.stop(0.0)


@pytest.mark.parametrize(("ignored", "ended_by"), [("", None), ("SIGINT", -15)])
def test_processes_are_interrupted_and_then_terminated(
    group, tmp_path, eventually, ignored, ended_by
):
    group.start("node", [sys.executable, "-c", DEAF, ignored])
    eventually((tmp_path / "node.log").read_text)
    group.stop(0.1 if ignored else 60.0)
    name, status, last = group.ended()
    assert name == "node" and (status == ended_by if ended_by else "KeyboardInterrupt" in last)


def test_the_end_of_a_vital_process_is_reported_with_its_last_line(group, eventually):
    group.start("window", [sys.executable, "-c", ""], vital=False)
    group.start("deaf", [sys.executable, "-c", DEAF, ""])
    assert group.ended() is None
    code = "import os, sys; print(f'{os.getsid(0) == os.getpid()}\\n'); sys.exit(3)"
    group.start("planner", [sys.executable, "-c", code])
    assert eventually(group.ended) == ("planner", 3, "True")


def test_output_goes_to_a_log_and_warnings_to_the_display(group, tmp_path, eventually):
    text = "[INFO] a\n[WARN] b\nc\n[ERROR] d\n"
    group.start("mapper", [sys.executable, "-c", f"print({text!r}, end='')"])
    eventually(group.ended)
    assert [*group.warnings()] == ["mapper: [WARN] b", "mapper: [ERROR] d"]
    assert [*group.warnings()] == []
    assert (tmp_path / "mapper.log").read_text() == text
