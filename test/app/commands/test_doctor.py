"""`poam doctor`: its findings and exit status."""

import subprocess

import pytest
from launched import PARAMS

from poam_ros.app.cli import main
from poam_ros.app.commands.doctor import (
    ERROR,
    OK,
    WARN,
    NodeStatus,
    graph_findings,
    machine_findings,
    middleware_findings,
    statuses,
)

GOOD = {"received": "1000", "accepted": "990", "rejected": "10", "rejected nan": "10",
        "lost odom": "0", "samples": "980", "cycle_p99_s": "0.4"}  # fmt: skip


def mapper(level=OK, text="mapping", age=0.1, **values):
    return NodeStatus(level, text, {**GOOD, **values}, age)


def any_problem(findings):
    return any(finding.problem for finding in findings)


def words(**heard):
    return [str(finding) for finding in graph_findings(heard)]


def test_a_healthy_graph_has_no_problem():
    heard = {
        "mapper": mapper(),
        "planner": NodeStatus(OK, "exploring", {"goals_timed_out": "0"}, 0.2),
    }
    assert not any_problem(graph_findings(heard))
    assert any("980 samples" in line for line in words(**heard))


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        (mapper(ERROR, "failed"), "log"),
        (mapper(**{"lost sonar/range": "200"}), "rmem_max"),
        (mapper(age=None), "/clock"),
    ],
)
def test_problems_come_with_advice(heard, said):
    found = [f for f in graph_findings({"mapper": heard}) if f.problem]
    assert any(said in f.advice for f in found)


def test_clocks_that_differ_between_nodes_are_a_problem():
    heard = {"mapper": mapper(), "planner": NodeStatus(OK, "pilot", {}, 3600.0)}
    assert any("use_sim_time" in line for line in words(**heard) if line.startswith("PROBLEM"))
    simulated = {"mapper": mapper(age=1e9), "planner": NodeStatus(OK, "pilot", {}, 1e9 + 220)}
    assert not any_problem(graph_findings(simulated))
    assert any_problem(graph_findings({**simulated, "monitor": mapper(), "simulator": mapper()}))
    assert any_problem(graph_findings({"mapper": mapper(age=None), "planner": mapper()}))


def test_a_status_without_a_time_has_no_age():
    messages = pytest.importorskip("diagnostic_msgs.msg")
    message = messages.DiagnosticArray()
    message.status = [messages.DiagnosticStatus(name="mapper"), messages.DiagnosticStatus(name="x")]
    assert {name: status.age_s for name, status in statuses(message).items()} == {"mapper": None}
    message.header.stamp.sec = 1
    assert statuses(message)["mapper"].age_s > 1e9


def test_a_simulation_that_has_not_started_is_no_problem():
    simulator = NodeStatus(OK, "waiting for a mission", {}, 1e9)
    heard = {"planner": NodeStatus(WARN, "no odometry", {}, None), "simulator": simulator}
    assert not any_problem(graph_findings(heard))
    assert sum("is starting" in line for line in words(**heard)) == 2
    running = simulator._replace(text="running", values={"time_s": "100"})
    assert any_problem(graph_findings({**heard, "simulator": running}))


@pytest.mark.slow
@pytest.mark.ros
def test_a_fast_simulation_is_healthy(python, ros_env, eventually, capsys, monkeypatch, tmp_path):
    pytest.importorskip("rclpy")
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    (tmp_path / "small.yaml").write_text(PARAMS)
    command = ["-m", "poam_ros.app.cli", "sim", "--speed", "20", "--output", str(tmp_path / "run")]
    command += ["--params-file", str(tmp_path / "small.yaml"), "--pilot", "lawnmower"]
    sim = subprocess.Popen([python, *command], env=ros_env, stdout=subprocess.DEVNULL)
    # A machine that is busy otherwise is a problem, whatever the simulation does.
    busy = ("too slow", " lost")

    def healthy():
        assert sim.poll() is None, "the simulation has ended"
        status = main(["doctor", "--seconds", "3"])
        out = capsys.readouterr().out
        problems = [line for line in out.splitlines() if line.startswith("PROBLEM")]
        others = [line for line in problems if not any(words in line for words in busy)]
        assert problems or status == 0
        return "samples in the map" in out and not others  # the first training is over

    try:
        eventually(healthy)
    finally:
        sim.terminate()
        sim.wait(300)


def test_unreadable_values_are_ignored():
    assert words(mapper=mapper(received="many", samples="\u00e4"))


def test_a_disk_that_cannot_be_written_or_is_full(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert any(f.problem and "written" in f.text for f in machine_findings(tmp_path / "file" / "x"))
    assert not any("written" in f.text for f in machine_findings(tmp_path / "new" / "folder"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 2**20}))
    assert any("1 MiB left" in f.text for f in machine_findings(tmp_path) if f.problem)


def test_harmful_environment_variables_are_problems(monkeypatch):
    monkeypatch.setenv("POAM_NATIVE", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "OFF")
    found = [f.text for f in [*machine_findings(None), *middleware_findings()] if f.problem]
    for name in ("POAM_NATIVE", "OMP_NUM_THREADS", "ROS_AUTOMATIC_DISCOVERY_RANGE"):
        assert any(name in what for what in found)


def test_missing_ros_is_reported(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    status = main(["doctor", "--mission-dir", str(tmp_path)])
    out = capsys.readouterr().out
    assert "rclpy" in out and status == ("PROBLEM" in out)
    assert out.splitlines()[-1] == "healthy" or status == 1


def test_a_wrong_number_gives_one_line_and_status_2(capsys):
    assert main(["doctor", "--seconds", "nan"]) == 2
    assert "--seconds" in capsys.readouterr().err


@pytest.mark.ros
def test_it_receives_the_status_of_a_live_node(python, ros_env, eventually, capsys):
    pytest.importorskip("rclpy")
    node = subprocess.Popen(
        [python, "-m", "poam_ros.ros.planner", "--ros-args", "-r", "__ns:=/boat"], env=ros_env
    )

    def heard():
        main(["doctor", "--seconds", "4"])
        out = capsys.readouterr().out
        return "boat/planner: waiting" in out or "boat/planner: no odometry" in out

    try:
        eventually(heard)
    finally:
        node.terminate()
        node.wait(300)
