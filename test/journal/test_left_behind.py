"""The last map of a mission is that of its journal, however the mission ends."""

import signal
import subprocess

import pytest
from kept import Kept, compare, of_log

from poam_ros.app.cli import main
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.folder import read_map
from poam_ros.outputs.run import write_results

pytestmark = pytest.mark.usefixtures("no_figures")

LIMIT = 300.0  # s, for a process to end


def left(survey, folder):
    """The map of a folder, as the node leaves it when it is taken down."""
    session = survey.session
    if not session.status.finished:
        list(session.wrap_up(survey.now))
    kept = session.map, session.all_samples(), session.ledger.refused
    write_results(folder, *kept)
    survey.close()
    return read_map(folder / "map.npz")


@pytest.mark.parametrize(
    ("end", "waiting"),
    [
        ("interrupted", 7),
        ("restarted", 7),
        pytest.param("interrupted", 0, marks=pytest.mark.slow),
        pytest.param("done", 7, marks=pytest.mark.slow),
    ],
)
def test_the_last_map_is_that_of_the_journal(tmp_path, end, waiting):
    survey = Kept(tmp_path / "m").mapped(steps=3)
    for _ in range(waiting):
        survey.ping()  # in no batch yet, and maybe on its way to the disk
    if end == "restarted":
        survey.settle()
        survey.close()  # as if it had been killed: nothing is drawn
        survey = Kept(tmp_path / "m").work()
    if end == "done":
        survey.session.mission("done", survey.now)
        survey.settle()
        survey.work()
        assert survey.session.status.finished
    found = left(survey, tmp_path / "m")
    assert found.samples == 40 + 20 + 21 + 22 + waiting
    compare(found, of_log(tmp_path / "m", tmp_path))


def test_a_map_from_before_a_restart_says_which_pings_it_lacks(tmp_path, caplog):
    survey = Kept(tmp_path / "m").mapped(steps=1)
    earlier = left(survey, tmp_path / "m").samples
    survey = Kept(tmp_path / "m").work()
    for _ in range(9):
        survey.ping()
    survey.settle()
    survey.close()  # as if it had been killed: what is there is the earlier life's
    assert read_map(tmp_path / "m" / "map.npz").samples == earlier == 60
    for live in (False, True):
        said = read_chart(tmp_path / "m", ExportSettings(), live).provenance["missing"]
        assert said.startswith("9 of the journal's 69 pings")
        assert said.endswith(f"the map of the whole journal: poam map {tmp_path / 'm'}")
    assert main(["export", str(tmp_path / "m"), "--to", str(tmp_path / "map.csv")]) == 0
    assert said in caplog.text
    assert "the whole journal" in (tmp_path / "map.csv.yaml").read_text()
    found = of_log(tmp_path / "m", tmp_path)
    assert found.samples == earlier + 9
    left(Kept(tmp_path / "m").work(), tmp_path / "m")
    assert "missing" not in read_chart(tmp_path / "m", ExportSettings()).provenance


def transactions(folder):
    """Number of them with a step of the model in its journal; 0 before there is one."""
    path = folder / "pings.journal"
    return path.read_bytes().count(b'"updates"') if path.exists() else 0


@pytest.mark.soak
@pytest.mark.parametrize("end", ["SIGINT", "SIGTERM", "SIGKILL", "q", "x", "budget"])
def test_the_map_that_a_mission_of_poam_drive_leaves(tmp_path, python, ros_env, eventually, end):
    pytest.importorskip("pymavlink")
    folder = tmp_path / "m"
    most = "700" if end == "budget" else "100000"
    words = (
        f"--practice 20 --autostart --set watchdog.resume_after_restart=true --pilot diagonal "
        f"--max-samples {most} "
        f"--set nngp.hidden=8 --set nngp.lattice=8 --set nngp.first_steps=40 "
        f"--mission-dir {folder}"
    )
    command = [python, "-m", "poam_ros.app.cli", "drive", *words.split()]
    pipe = {"env": ros_env, "stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}

    def mapped(process, before=0):
        """Until the model has learned some batches more."""
        eventually(lambda: process.poll() is not None or transactions(folder) > before + 3)
        assert process.poll() is None
        return transactions(folder)

    process = subprocess.Popen(command, **pipe)
    if end != "budget":
        count = mapped(process)
    if end == "SIGKILL":
        process.kill()
        process.communicate()
        process = subprocess.Popen(command, **pipe)
        mapped(process, count)
    if len(end) > 1:
        if end != "budget":
            process.send_signal(signal.SIGTERM if end == "SIGTERM" else signal.SIGINT)
        process.communicate(timeout=LIMIT)
    else:
        process.communicate(f"{end}\nq\n".encode(), timeout=LIMIT)
    found = read_map(folder / "map.npz")
    compare(found, of_log(folder, tmp_path))
    print(f"{end}: {found.samples} pings")
