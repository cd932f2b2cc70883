"""Whole missions: every node a process of its own, by the command a newcomer types."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from itertools import groupby

import numpy as np
import pytest
import yaml

pytest.importorskip("rclpy")

from heard import Listener
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import String

from poam_ros.app.cli import main
from poam_ros.outputs.folder import EPOCH_COLUMNS, read_map, read_table
from poam_ros.ros import messages

LATCHED = QoSProfile(depth=20, durability=DurabilityPolicy.TRANSIENT_LOCAL)
# A small workspace, so that the pilot is short; a small model.
PARAMETERS = """\
/**:
  ros__parameters:
    workspace: [-8.0, 8.0, -8.0, 8.0]
/**/mapper:
  ros__parameters:
    sparse:
      num_inducing: 60
      steps: 2
    nngp:
      first_steps: 20
      hidden: 8
      lattice: 8
/**/monitor:
  ros__parameters:
    linger: 1.0
"""
SAMPLES = 150
LIMIT = 400.0  # s, for a process to end


STATES = ["pilot", "exploring", "done"]


class Shore(Listener):
    """Hears the states and maps of one namespace."""

    def __init__(self, namespace: str = "") -> None:
        super().__init__("shore", namespace=namespace)
        self.listen(String, "mission/state", LATCHED)
        self.listen(PointCloud2, "map/points", LATCHED)

    @property
    def maps(self) -> list[PointCloud2]:
        return self.heard["map/points"]


@pytest.fixture
def sim(python, ros_env, tmp_path):
    """Starts `poam sim` with these options; whatever still runs at the end is ended."""
    file = tmp_path / "parameters.yaml"
    file.write_text(PARAMETERS)
    started = []

    def start(name, *options, within=()):
        command = [*within, python, "-m", "poam_ros.app.cli", "sim", "--speed", "30"]
        command += ["--pilot", "diagonal", "--max-samples", str(SAMPLES)]
        command += ["--params-file", str(file)]
        process = subprocess.Popen(
            [*command, "--output", str(tmp_path / name), *options],
            env=ros_env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process, tmp_path / name

    yield start
    for process in started:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=LIMIT)


def check_run(folder, output):
    """The run's folder is complete and consistent."""
    snapshot = read_map(folder / "map.npz")
    samples = read_table(folder / "samples.csv")
    epochs = read_table(folder / "epochs.csv")
    assert tuple(epochs) == EPOCH_COLUMNS
    assert len(samples["x"]) == snapshot.samples >= SAMPLES
    assert epochs["samples"][-1] == snapshot.samples, output
    assert (np.diff(epochs["samples"]) > 0).all()
    assert (np.diff(epochs["time_s"]) > 0).all()
    assert all(np.isfinite(column).all() for column in epochs.values())
    # No more than 3 Hz from the mission's begin on.
    assert epochs["time_s"][-1] > 0.9 * snapshot.samples / 3
    nodes = yaml.safe_load((folder / "config.yaml").read_text())["nodes"]
    assert set(nodes) == {"simulator", "mapper", "planner"}
    assert (folder / "maps.png").stat().st_size > 0
    return snapshot


def check_states(folder, shore):
    """A mission's states; a late subscriber receives only the last one."""
    log = (folder / "log" / "planner.log").read_text()
    said = re.findall(r"(\w+) at \d+ samples", log)
    assert [state for state, _ in groupby(said)] == STATES
    assert shore.states and shore.states == STATES[-len(shore.states) :]


def check_published(snapshot, listener, eventually):
    """The last map that was published is the one that was kept."""

    def last_map():
        drawn = messages.read_map_cloud(listener.maps[-1])
        return drawn.stamp_ns == snapshot.stamp_ns and drawn

    received = eventually(last_map)
    for layer in ("mean", "variance", "lengthscale"):
        kept = getattr(snapshot, layer).astype(np.float32)
        np.testing.assert_array_equal(kept, getattr(received, layer).astype(np.float32))


@pytest.mark.slow
def test_a_mission_ends_by_its_map(sim):
    """With a share that few pings reach."""
    given = ["--speed", "10", "--terrain", "lake", "--method", "nngp", "--planner", "path-entropy"]
    given += ["--set", "target.distance=25"]
    easy = ["--set", "target.tvu=2", "--set", "target.share=0.1", "--max-samples", "100000"]
    process, folder = sim("known", *given, *easy)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output
    said = (folder / "log" / "planner.log").read_text()
    assert re.search(r"done at \d+ samples: TVU within 2 in [\d.]+ % of the workspace; every", said)
    nodes = yaml.safe_load((folder / "config.yaml").read_text())["nodes"]
    assert nodes["mapper"]["target.tvu"] == nodes["planner"]["target.tvu"] == "2"
    assert nodes["planner"]["target.distance"] == 25.0


@pytest.mark.slow
def test_missions_end_by_themselves_and_namespaces_keep_them_apart(ros, sim, eventually):
    """Two at once, one of them outside of any namespace; each keeps what it published."""
    listeners = [ros(Shore), ros(Shore, namespace="b")]
    # Slower: two at once on few cores leave a planner little wall time to repeat its goals in.
    runs = [sim("a", "--speed", "10"), sim("b", "--speed", "10", "--namespace", "b", "--seed", "1")]
    outputs = [process.communicate(timeout=LIMIT)[0] for process, _ in runs]
    snapshots = []
    for (process, folder), output, listener in zip(runs, outputs, listeners, strict=True):
        assert process.returncode == 0, output
        check_states(folder, listener)
        assert "Traceback" not in output and "[INFO]" not in output
        snapshots.append(check_run(folder, output))
        check_published(snapshots[-1], listener, eventually)
        assert "Traceback" not in _logged(folder)
    first, second = snapshots
    assert not np.array_equal(first.mean, second.mean)


def _logged(folder):
    return "".join(log.read_text() for log in (folder / "log").glob("*.log"))


def test_ctrl_c_after_the_first_map_writes_partial_results(ros, sim, eventually):
    listener = ros(Shore)
    process, folder = sim("kept", "--max-samples", "5000")
    eventually(lambda: len(listener.maps) > 3, timeout=LIMIT)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130, output
    snapshot = read_map(folder / "map.npz")
    assert 0 < snapshot.samples <= len(read_table(folder / "samples.csv")["z"]) < 5000
    epochs = read_table(folder / "epochs.csv")["samples"]
    assert len(epochs) > 1 and epochs[-1] <= snapshot.samples
    names = [
        "SHA256SUMS",
        "config.yaml",
        "epochs.csv",
        "map.npz",
        "maps.png",
        "metrics.png",
        "refused.csv",
    ]
    listed = ", ".join([*names, "samples.csv", "truth.npz"])
    assert f"interrupted; partial results in {folder}: {listed}" in output
    assert all((folder / name).stat().st_size > 0 for name in names)
    assert "Traceback" not in output + _logged(folder) and "rosout" not in _logged(folder)
    eventually(lambda: not _running(str(folder)), what="a process of it is left")


def test_ctrl_c_before_the_first_map_says_what_there_is(ros, sim, eventually):
    listener = ros(Shore)
    process, folder = sim("early", "--speed", "1")  # its pilot survey takes a minute
    topics = ("mission/state", "map/samples")  # of planner and mapper, which are up then
    eventually(lambda: all(map(listener.count_publishers, topics)), timeout=LIMIT)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 130 and not listener.maps, output
    written = sorted(path.name for path in folder.iterdir() if path.is_file())  # by pings, if any
    said = (
        f"; partial results in {folder}: {', '.join(written)}" if written else " before there were"
    )
    assert f"interrupted{said}" in output and "map.npz" not in written
    assert "Traceback" not in output + _logged(folder)
    eventually(lambda: not _running(str(folder)), what="a process of it is left")


#: Runs a command in a terminal, closes it once the pilot survey is shown, and prints the status.
TERMINAL = """
import os, pty, sys
process, screen = pty.fork()
if not process:
    os.execv(sys.argv[1], sys.argv[1:])
said = b""
while b"pilot" not in said:
    said += os.read(screen, 4096)
os.close(screen)
print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
"""


def test_a_closed_terminal_ends_it_with_its_nodes(python, sim, eventually):
    process, folder = sim("closed", "--speed", "1", within=(python, "-c", TERMINAL))
    output, _ = process.communicate(timeout=LIMIT)
    assert output == f"{128 + signal.SIGHUP}\n"
    eventually(lambda: not _running(str(folder)), what="a process of it is left")


def test_a_wrong_parameter_of_one_node_ends_all_with_status_2(sim, tmp_path):
    (tmp_path / "parameters.yaml").write_text(
        "/**/planner:\n  ros__parameters:\n    goal_radius: -1.0"
    )
    process, folder = sim("refused")
    output, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 2, output
    assert "planner" in output and "goal_radius" in output
    assert not _running(str(folder))


def test_a_log_that_cannot_be_written_ends_it_with_one_line(sim, tmp_path):
    (tmp_path / "unwritable" / "log" / "mapper.log").mkdir(parents=True)
    output, _ = sim("unwritable")[0].communicate(timeout=LIMIT)
    assert re.fullmatch(r"(state starting.*\n)?poam sim: .*mapper.log: Is a directory\n", output)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--terrain", "/no/such/file.npy"], "/no/such/file.npy"),
        (["--output", "/proc/nothing"], "/proc/nothing"),
        (["--planner", "clever"], "planner"),
        (["--speed", "-3"], "speed"),
        (["--params-file", "/no/such/file.yaml"], "/no/such/file.yaml"),
    ],
)
def test_wrong_options_end_with_status_2_before_anything_starts(options, named, tmp_path, capsys):
    folder = tmp_path / "wrong"
    try:
        status = main(["sim", "--output", str(folder), *options])
    except SystemExit as refused:
        status = refused.code
    assert status == 2
    assert named in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "log").exists()


def _running(text: str) -> list[str]:
    """Command lines of running processes that hold a text."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found
