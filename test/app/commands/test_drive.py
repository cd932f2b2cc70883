"""`poam drive`: its settings, and a mission on the simulated boat."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from toy import Toy, ToyOptions

from poam_ros.app import graph
from poam_ros.app.cli import main
from poam_ros.app.command import Parser
from poam_ros.app.commands import drive
from poam_ros.core.errors import InputError
from poam_ros.journal.folder import read_mission
from poam_ros.mavlink.simulated_boat import EVENTS, SimulatedBoat
from poam_ros.models.registry import MODELS, ModelEntry
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.run import Run
from poam_ros.simulation.terrain import load_terrain

ROOT = Path(__file__).resolve().parents[3]


def settings(*words):
    parser = Parser()
    drive.add_arguments(parser)
    return drive.settings(parser.parse_args(words))


def test_options_go_before_the_file_and_the_file_before_defaults(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        "/**/mapper:\n  ros__parameters:\n    workspace: [0.0, 9.0, 0.0, 9.0]\n"
        "    resolution: 2.0\n    use_sim_time: false\n    nngp: {neighbours: 12}\n"
        "/**/planner:\n  ros__parameters:\n    workspace: [0.0, 9.0, 0.0, 9.0]\n"
        "    max_speed: 0.5\n    max_duration: 60\n"
    )
    found = settings(
        "--params-file", str(path), "--max-speed", "0.7", "--mavlink", "tcp:10.0.0.2:5760"
    )
    assert found["workspace"] == (0.0, 9.0, 0.0, 9.0) and found["resolution"] == 2.0
    assert found["max_speed"] == 0.7 and found["max_duration"] == 60.0
    assert found["nngp.neighbours"] == 12 and found["mavlink.url"] == "tcp:10.0.0.2:5760"
    # A vehicle's defaults, as robot.launch.py has them.
    assert found["method"] == "nngp" and found["screening.enabled"] and not found["autostart"]
    assert found["mission_dir"].startswith("missions/")


def test_each_argument_of_robot_launch_is_a_setting_with_its_default():
    """But those that mean nothing without ROS 2."""
    parser = Parser()
    drive.add_arguments(parser)
    graph_alone = {"namespace", "rviz", "use_sim_time"}
    graph_alone |= {row.name for row in graph.ROBOT_TOPICS}
    arguments = {row.name: row for row in graph.ROBOT_ARGUMENTS}
    assert graph_alone < arguments.keys()
    defaults = settings("--workspace", "0", "9", "0", "9")
    for name in arguments.keys() - graph_alone:
        if name in drive.ROWS.keys() - {"workspace"}:
            assert parser.settings[name] == arguments[name]
        if name in defaults.keys() - {"workspace", "mission_dir"}:
            assert defaults[name] == arguments[name].default
    assert not graph_alone & parser.settings.keys()


def test_a_workspace_is_needed_once():
    with pytest.raises(
        InputError, match=r"expected --workspace .*, --workspace-degrees .*, --set areas.file"
    ):
        settings()
    with pytest.raises(InputError, match="in metres or in degrees, got both"):
        settings(
            "--workspace", "0", "9", "0", "9", "--workspace-degrees", "47", "8", "47.001", "8.001"
        )


def test_a_mission_on_the_simulated_boat(tmp_path, monkeypatch, no_figures, capsys):
    pytest.importorskip("pymavlink")
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
    folder = tmp_path / "mission"
    common = [
        *("drive", "--practice", "20", "--method", "toy", "--pilot", "diagonal"),
        *("--workspace", "-8", "8", "-8", "8", "--mission-dir", str(folder)),
        *("--set", "checkpoint_period=1", "--no-screening"),
    ]
    # A key of another alphabet, in another encoding, does not end what listens to the person.
    reading, writing = os.pipe()
    os.write(writing, b"s\n\xe9\nwhat\n")
    with os.fdopen(reading) as typed:
        monkeypatch.setattr(sys, "stdin", typed)
        assert main([*common, "--max-samples", "60", "--autostart"]) == 0
        os.close(writing)
    said = capsys.readouterr().out
    assert f"figure:  {folder / 'maps.png'}" in said and (folder / "report.html").exists()
    assert f"next:    poam view {folder}" in said and "go on:" not in said
    assert "origin of the map: 47.30000000 8.55000000" in said and "what: not a command" in said
    assert "end: done: max_samples of 60 reached" in said
    first = read_mission(folder)
    assert len(first.logged.samples) >= 60 and first.mapper["origin"] == [47.3, 8.55]
    place = Run.open(folder).recorded
    assert place["origin"] == (47.3, 8.55)
    mapped = tmp_path / "mapped"
    quick = ["--method", "nngp", "--set", "nngp.first_steps=5", "--set", "nngp.hidden=8"]
    assert main(["map", str(folder), *quick, "--output", str(mapped)]) == 0
    assert Run.open(mapped).recorded == {"water_level": 0.0, **place}
    chart = read_chart(folder, ExportSettings(**place))
    assert np.isfinite(chart.elevation).all()
    assert "&" not in (folder / "config.yaml").read_text()  # nor references of YAML
    # It says everywhere that no boat was there, and has each setting and each count once.
    assert Run.open(folder).simulated and Run.open(mapped).simulated
    for texts in (chart.provenance, read_chart(mapped, ExportSettings()).provenance):
        assert texts["title"].startswith("SIMULATED") and texts["simulated"].startswith("yes")
    assert chart.provenance["settings"].count('"pilot_samples"') == 1
    assert chart.provenance["map_time"].endswith("(simulated time)")
    report = (folder / "report.html").read_text()
    assert "<h1>SIMULATED" in report and "<table></table>" not in report
    assert re.search(rf"<th>in the map</th><td>{len(chart.track)}</td>", report)
    assert re.search(r"<th>measured</th><td>20\S+Z to 20\S+Z \(simulated time\)</td>", report)
    assert re.search(r"<th>refused: waiting</th><td>\d+</td>", report)


def test_the_pictures_of_the_display_are_those_of_today(monkeypatch):
    """`make generate` draws them; the numbers may differ."""
    pytest.importorskip("pymavlink")
    pytest.importorskip("rich")
    monkeypatch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
    monkeypatch.syspath_prepend(ROOT / "tools")
    from display_pictures import pictures, words

    found = pictures("--method", "toy")
    assert "control the vehicle holds station for the mission" in words(found["paused"])
    assert "reason the mode is MANUAL, not GUIDED" in words(found["taken-over"])
    for state, svg in found.items():
        if (file := ROOT / "docs" / f"display-{state}.svg").exists():
            assert words(svg) == words(file.read_text(encoding="utf-8"))
    assert len(list((ROOT / "docs").glob("display-*.svg"))) == 3


@pytest.mark.parametrize(
    ("words", "extent"),
    [
        ([], (-31, 31, -31, 31)),  # the lake as it is
        (["--workspace", "0", "120", "-40", "40"], (-5, 125, -45, 45)),
        (
            ["--workspace-degrees", "-17.5005", "179.9995", "-17.4995", "-179.9995"],
            (-58, 58, -60, 60),
        ),
        (
            ["--set", "areas.polygon_degrees=0 9, 0.001 9, 0 9.001", "--origin", "0", "9"],
            (-5, 116) * 2,
        ),
        (
            ["--set", "areas.polygon_degrees=0 9, 0.001 9, 0 9.001"],
            (-60, 60) * 2,
        ),  # around its middle
    ],
)
def test_the_lake_of_practice_covers_the_workspace(words, extent):
    pytest.importorskip("pymavlink")
    parser = Parser()
    drive.add_arguments(parser)
    args = parser.parse_args(["--practice", *words])
    values = drive.settings(args)
    boat = drive.launch(args, values)
    boat.close()
    assert boat.simulation.terrain.extent.bounds == pytest.approx(extent, abs=1)
    place = boat.frame
    if "--workspace-degrees" in words:
        assert (place.latitude, abs(place.longitude)) == pytest.approx((-17.5, 180.0))


def test_practice_never_shares_the_link_of_a_boat(tmp_path, capsys):
    pytest.importorskip("pymavlink")
    common = ["drive", "--practice", "--mission-dir", str(tmp_path / "m")]
    assert main([*common, "--mavlink", "udpin:127.0.0.1:14550"]) == 2
    assert "practice: not with --mavlink" in capsys.readouterr().err
    parser = Parser()
    drive.add_arguments(parser)
    args = parser.parse_args(common[1:])
    values = drive.settings(args)
    drive.launch(args, values).close()
    assert values["mavlink.url"] != drive.settings(args)["mavlink.url"]


def test_in_practice_time_is_slower_on_a_machine_that_is_too_slow(monkeypatch):
    read = iter([5.0, 5.1, 6.1, 6.2])
    monkeypatch.setattr("time.monotonic", lambda: next(read))
    now = drive._clock(20.0, drive.LONGEST_STEP_S)
    assert [round(now().steady_s, 6) for _ in range(3)] == [1.0, 2.0, 3.0]
    read = iter([5.0, 5.1, 65.1])
    now = drive._clock(1.0)  # of a boat: whatever has passed
    assert [round(now().steady_s, 6) for _ in range(2)] == [0.1, 60.1]


@pytest.mark.slow
def test_a_mission_ends_by_itself_while_a_person_could_type(tmp_path):
    """The thread that reads holds no lock that the end of the process needs."""
    pytest.importorskip("pymavlink")
    words = [
        *("drive", "--practice", "20", "--autostart", "--workspace", "-8", "8", "-8", "8"),
        *("--max-samples", "30", "--pilot", "diagonal", "--mission-dir", str(tmp_path / "m")),
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "poam_ros.app.cli", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    said = process.stdout.read()  # till its end; nobody types, and nobody hangs up
    assert process.wait() == 0, said
    assert "end: done" in said


def test_events_of_the_boat_in_practice():
    """Each word changes what the boat does or reports, and `guided` makes it well again."""
    pytest.importorskip("pymavlink")

    def state():
        kept = ("mode", "armed", "failsafe", "ekf_flags", "loss", "cut", "delay_s", "_boot_ms")
        here = boat._target, *boat.ekf_offset
        return *(getattr(boat, name) for name in kept), set(boat.muted), *here

    boat = SimulatedBoat(load_terrain("lake"), 9)
    try:
        boat.recover()
        for word, happen in EVENTS.items():
            before = state()
            happen(boat)
            assert (state() != before) == (word != "guided")
            boat.recover()
            assert state()[:7] == before[:7] and not boat.muted
    finally:
        boat.close()


def test_a_level_that_never_comes_is_not_waited_for(capsys):
    """There is no topic of the water level."""
    assert {"water.await_level", "water.level_timeout", "water.level"} & {*drive.ROWS} == {
        "water.level"
    }
    with pytest.raises(SystemExit):
        main(["drive", "--set", "water.await_level=1", "--workspace", "0", "10", "0", "10"])
    assert "water.await_level" in capsys.readouterr().err
