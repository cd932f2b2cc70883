"""The command `poam map`."""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from kept import Crossed
from nmea_sentences import sentence
from shapes import geojson, square
from soundings import write_survey

from poam_ros.app.cli import main
from poam_ros.app.command import log_name
from poam_ros.mapping import crossed
from poam_ros.mapping.resurvey import Survey
from poam_ros.outputs.chart import ExportSettings
from poam_ros.outputs.crossings import Bias
from poam_ros.outputs.folder import read_map, read_records, read_table
from poam_ros.outputs.scene import FolderView
from poam_ros.outputs.volume import read_water

QUICK = [
    "--set", "batch.first=100", "--set", "nngp.first_steps=40", "--set", "nngp.early_steps=2",
    "--set", "nngp.hidden=8",
]  # fmt: skip


@pytest.fixture
def log(tmp_path):
    return write_survey(tmp_path / "log.csv")


def refused(arguments, capsys):
    """The one line of an exit with status 2."""
    try:
        status = main(arguments)
    except SystemExit as ended:
        status = ended.code
    error = capsys.readouterr().err
    assert status == 2 and error.count("\n") == 1
    return error


@pytest.mark.usefixtures("no_figures")
def test_a_line_is_held_out(log, tmp_path, capsys):
    out = tmp_path / "out"
    by = ["--hold-out", "0.15", "--by", "line", "--resolution", "4"]
    assert main(["map", str(log), "--output", str(out), *by, *QUICK]) == 0
    said = capsys.readouterr().out
    assert "240 soundings on 58.5 x 40 m in 6 groups" in said and "40 soundings held out" in said
    assert "so these results are too good" not in said
    scores = json.loads((out / "validation.json").read_text())
    assert scores["count"] == 40 and 0 < scores["rmse"] < 3
    held = read_table(out / "held_out.csv", ("row", "z"))
    assert len(set(held["row"] // 40)) == 1  # a whole line


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("kind", [("--folds", "3"), ("--hold-out", "0.5")])
def test_validation_is_of_what_the_map_accepts(kind, tmp_path, capsys):
    """In folds and with a share held out; the false echoes are named beside it."""
    log, out = write_survey(tmp_path / "log.csv", echoes=8), tmp_path / "out"
    by = [*kind, "--by", "line", "--resolution", "4"]
    assert main(["map", str(log), "--output", str(out), *by, *QUICK]) == 0
    said = capsys.readouterr().out
    scores = json.loads((out / "validation.json").read_text())
    left_out = scores["all"]["count"] - scores["count"]
    assert left_out >= 7 if kind[0] == "--folds" else left_out >= 1
    assert scores["mae"] < 0.6 * scores["all"]["mae"] and scores["rmse"] < 2
    assert f"{scores['count']} soundings held out" in said
    beside = f"with the {left_out} that the screening leaves out of the map among them"
    assert said.count(beside) == 1
    held = read_table(out / "held_out.csv", ("z", "accepted"))
    assert (held["accepted"] == 0).sum() == left_out
    assert held["z"][held["accepted"] == 1].min() > -20


@pytest.mark.usefixtures("no_figures")
def test_several_days_are_mapped_at_once(log, tmp_path, capsys):
    header, *rows = log.read_text().splitlines(keepends=True)
    days = [tmp_path / "monday.csv", tmp_path / "tuesday.csv"]
    for day, part in zip(days, (rows[:120], rows[120:]), strict=True):
        day.write_text("".join([header, *part]))
    out = tmp_path / "out"
    by = ["--hold-out", "0.3", "--by", "line", "--resolution", "4"]
    assert main(["map", *map(str, days), "--output", str(out), *by, *QUICK]) == 0
    said = capsys.readouterr().out
    assert f"{days[1]}: x = x, y = y (m, as nothing says" in said and "240 soundings" in said
    with (out / "held_out.csv").open() as file:
        assert file.readline().startswith("file,row,x,y,z,")
    for held in read_records(out / "held_out.csv", ("file", "row", "x")):
        row = Path(held["file"]).read_text().splitlines()[1 + int(held["row"])]
        assert float(row.split(",")[0]) == pytest.approx(float(held["x"]))
    assert len(read_table(out / "held_out.csv", ("row",))["row"]) >= 80
    assert (out / "validation.json").exists()
    (tmp_path / "bag").mkdir()
    line = refused(["map", str(tmp_path / "bag"), str(days[0])], capsys)
    assert "monday.csv: a rosbag2 recording" in line


@pytest.mark.usefixtures("no_figures")
def test_refused_soundings_are_in_the_folder_with_their_places(tmp_path, capsys):
    log, out = write_survey(tmp_path / "log.csv", echoes=8), tmp_path / "out"
    with log.open("a") as file:
        file.write("7.5,3.5,nan,L0\n,3.5,-9,L0\n")
    assert main(["map", str(log), "--output", str(out), "--resolution", "4", *QUICK]) == 0
    said = int(re.search(r"(\d+) refused as false echoes", capsys.readouterr().out)[1])
    rows = read_records(out / "left_out.csv", ("reason", "x", "y", "z"))
    assert said >= 7 and [row["reason"] for row in rows].count("false_echo") == said
    odd = [row for row in rows if row["reason"] == "not_a_number"]
    assert [(row["x"], row["y"], row["z"]) for row in odd] == [("7.500", "3.500", ""), ("", "", "")]
    soundings = read_table(tmp_path / "out" / "samples.csv")
    taken = set(zip(soundings["x"], soundings["y"], strict=True))
    echoes = {(float(r["x"]), float(r["y"])) for r in rows if r["reason"] == "false_echo"}
    assert len(echoes) == said and not echoes & taken
    scene = FolderView(out, ExportSettings()).scene()
    assert set(scene.refused.placed.reason) == {"false_echo", "not_a_number"}
    # An older run's in the same folder are gone.
    clean = write_survey(tmp_path / "log.csv")
    assert main(["map", str(clean), "--output", str(out), "--resolution", "4", *QUICK]) == 0
    assert not read_records(out / "left_out.csv", ("reason",))


@pytest.mark.slow
def test_holding_out_single_soundings_gives_a_warning(log, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    out = tmp_path / "out"
    given = ["--output", str(out), "--hold-out", "0.1", *QUICK, "--resolution", "4"]
    assert main(["map", str(log), *given]) == 0
    said = capsys.readouterr().out
    assert "so these results are too good. Give --by line" in said
    for name in ("maps.png", "validation.png"):
        assert (out / name).stat().st_size > 10_000 and f"figure:  {out / name}" in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "line"], "--by needs --hold-out or --folds"),
        (["--folds", "1"], "--folds: expected at least 2, got 1"),
        (["--folds", "7", "--by", "line"], "--folds: expected 2 to 6 (as many as groups), got 7"),
        (["--hold-out", "1.5"], "--hold-out: expected a number from 1e-06 to 0.999999, got 1.5"),
        (["--hold-out", "0.1", "--folds", "3"], "not allowed with argument"),
        (["--set", "sonar.max_range=20"], "--set sonar.max_range: does not apply to a table"),
        (["--odom-topic", "/a"], "--odom-topic: does not apply to a table"),
        (["--stop", "5"], "expected a column of times (--columns time=NAME), got none"),
        (["--workspace", "0", "1", "500", "600"], "--workspace: no soundings of"),
        (["--method", "kriging"], "--method: expected one of poam"),
        (["--contour-interval", "0.001"], "contour_interval: expected at most 1000 levels, got"),
    ],
)
def test_wrong_options_give_one_line(log, tmp_path, options, words, capsys):
    line = refused(["map", str(log), "--output", str(tmp_path / "out"), *options], capsys)
    assert line.startswith("poam map: ") and words in line
    assert not (tmp_path / "out").exists()


def test_a_reader_names_the_options_that_it_heeds(log, tmp_path, capsys):
    nmea = tmp_path / "log.nmea"
    nmea.write_text(20 * sentence("GPGGA,100000.00,5306.0,N,00836.0,W,1,08,0.9,5,M,46,M,,"))
    given = ["--output", str(tmp_path / "out"), "--columns", "z=height"]
    line = refused(["map", str(nmea), *given], capsys)
    assert f"{nmea}: expected depths" in line  # --columns may name a sounder there
    assert "--crs: does not apply to a log" in refused(["map", str(nmea), "--crs", "x"], capsys)
    # As it is an option of one of the files, the other is no reason to refuse it.
    assert "expected depths" in refused(["map", str(nmea), str(log), *given], capsys)
    assert "expected a column 'height'" in refused(["map", str(log), str(nmea), *given], capsys)


@pytest.mark.usefixtures("no_figures")
def test_a_truncated_recording_is_mapped_up_to_its_end(tmp_path, capsys):
    pytest.importorskip("rosbags", reason="recordings need the extra `bags`")
    pytest.importorskip("mcap", reason="recordings need the extra `bags`")
    from ros_bag import write_bag

    folder = write_bag(tmp_path / "dive", "mcap", seconds=1200)
    (file,) = folder.glob("*.mcap")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    options = ["--output", str(tmp_path / "out"), "--workspace", "0", "200", "0", "10"]
    options += ["--set", "batch.first=200", "--set", "batch.size=500"]
    assert main(["map", str(file), *options, *QUICK[2:]]) == 2
    assert "on 205 x 0 m, without an area" in capsys.readouterr().err
    assert main(["map", str(file), *options, *QUICK[2:], "--trust-columns"]) == 0
    said = capsys.readouterr().out
    assert "dive.mcap is cut short" in said
    x = read_table(tmp_path / "out" / "samples.csv", ("x", "y", "z"))["x"]
    assert len(x) == 411 and x.max() == 205  # a vehicle's margin is 5 m


def test_missing_libraries_for_recordings_are_reported(tmp_path, capsys, monkeypatch):
    for name in ("rosbags", "rosbags.typesys", "mcap", "mcap.reader", "mcap.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "dive.mcap").write_bytes(b"anything")
    line = refused(["map", str(tmp_path / "dive.mcap")], capsys)
    assert "pip install 'poam_ros[bags]'" in line


@pytest.mark.usefixtures("no_figures")
def test_a_workspace_in_degrees_crosses_the_antimeridian(tmp_path, capsys):
    x, y = np.meshgrid(np.linspace(-60, 60, 13), np.linspace(-60, 60, 13))
    metres = 111_320.0  # of a degree of longitude at the equator
    rows = np.column_stack((y.ravel() / metres, (x.ravel() / metres + 360) % 360 - 180, y.ravel()))
    rows[:, 2] = 9 + np.sin(rows[:, 2] / 20)
    log, out = tmp_path / "lake.csv", tmp_path / "out"
    np.savetxt(log, rows, "%.8f", ",", header="latitude,longitude,depth", comments="")
    box = ["--workspace-degrees", *(str(v) for v in (-35 / metres, 180 - 35 / metres))]
    box += [str(v) for v in (35 / metres, 35 / metres - 180)]
    assert main(["map", str(log), "--output", str(out), *box, *QUICK]) == 0
    drawn = read_map(out / "map.npz")
    assert drawn.samples == 49
    np.testing.assert_allclose(drawn.grid.borders.bounds, (-35, 35, -35, 35), atol=0.5)
    capsys.readouterr()
    other = tmp_path / "metres.csv"
    np.savetxt(other, np.column_stack((x.ravel(), y.ravel(), -rows[:, 2])), header="x,y,z",
               delimiter=",", comments="")  # fmt: skip
    assert main(["map", str(other), *box]) == 2
    assert "expected soundings in degrees" in capsys.readouterr().err


@pytest.mark.usefixtures("no_figures")
def test_a_map_ends_at_its_outline(log, tmp_path, capsys):
    out, shore = tmp_path / "out", tmp_path / "shore.geojson"
    border = [[square(-10, -10, 75), square(21, 11, 12)]]
    shore.write_text(json.dumps(geojson(border)))
    given = ["--outline", str(shore), "--resolution", "4", *QUICK]
    assert main(["map", str(log), "--output", str(out), *given]) == 0
    said = capsys.readouterr().out
    assert "outline of 5,481 m²; " in said
    assert "of the area lies beyond the outermost soundings" in said
    drawn = read_map(out / "map.npz")
    x, y = drawn.grid.points.T
    expected = ~((x > 21) & (x < 33) & (y > 11) & (y < 23)) & (x < 65) & (y < 65)
    assert np.array_equal(np.isfinite(drawn.mean).ravel(), expected)
    assert np.array_equal(np.isfinite(drawn.variance), np.isfinite(drawn.mean))
    assert drawn.grid.borders.bounds == (-10, 66, -10, 66)  # the outline's box
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert config["outline"] == {"file": str(shore), "polygons": 1, "area": 5481.0}
    assert Survey.read(out).soundings.land is not None  # and `poam diff` learns with its land
    # Every reader of the folder lives with it.
    scene = FolderView(out, ExportSettings()).scene()
    assert scene.chart is not None and np.isfinite(scene.chart.height).sum() == expected.sum()


@pytest.mark.usefixtures("no_figures")
def test_cells_far_from_soundings_are_blank_without_extrapolate(log, tmp_path):
    out = tmp_path / "out"
    given = ["--workspace", "-200", "260", "0", "60", "--resolution", "4", *QUICK]
    near = {"--no-extrapolate": None, "--extrapolate": None}
    for option in near:
        assert main(["map", str(log), "--output", str(out), option, *given]) == 0
        near[option] = read_map(out / "map.npz")
    blank, whole = (np.isnan(drawn.mean) for drawn in near.values())
    assert not whole.any() and 0.3 < blank.mean() < 0.95
    x, y = near["--extrapolate"].grid.points.T
    inside = (x > 0) & (x < 58) & (y > 0) & (y < 40)
    assert not blank.ravel()[inside].any() and blank.ravel()[(x < -150) | (x > 210)].all()


@pytest.mark.usefixtures("no_figures")
def test_what_a_person_excludes_stays_out_and_is_listed(log, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "edits.csv").write_text("who,when,why,row\nAnn,2026-01-02,fish,0-9\n")
    (out / "edits.csv").write_text("who,when,why,row\nBo,,bubbles,230-239\n")
    command = ["map", str(log), "--output", str(out), "--resolution", "4", *QUICK]
    assert main([*command, "--exclude", "line=L2"]) == 0
    said = capsys.readouterr().out
    assert "40 soundings excluded: line=L2 (--exclude)" in said
    assert "10 soundings excluded: row=0-9 (edits.csv: fish, Ann, 2026-01-02)" in said
    rows = read_records(out / "left_out.csv", ("file", "row", "reason", "why", "who", "when"))
    taken = {int(row["row"]): row["why"] for row in rows if row["reason"] == "excluded"}
    assert taken == {
        **dict.fromkeys(range(80, 120), "line=L2"), **dict.fromkeys(range(10), "fish"),
        **dict.fromkeys(range(230, 240), "bubbles"),
    }  # fmt: skip
    config = yaml.safe_load((out / "config.yaml").read_text())
    assert config["samples"]["excluded"] == 60 and len(config["excluded"]) == 3
    assert config["samples"]["mapped"] + config["samples"]["false_echoes"] == 180
    assert "got 'L9'" in refused([*command, "--exclude", "line=L9"], capsys)


@pytest.mark.usefixtures("no_figures")
def test_calibration_is_printed_and_recorded(log, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--calibrate", "--resolution", "4", "--hold-out", "0.2", *QUICK]
    assert main(["map", str(log), "--output", str(out), *options]) == 0
    said, output = "too few crossings of lines to calibrate", capsys.readouterr().out  # parallel
    assert f"calibration: {said}" in output and "Held-out soundings took part in the" in output
    assert yaml.safe_load((out / "config.yaml").read_text())["calibration"] == [said]


@pytest.mark.usefixtures("no_figures")
def test_what_a_calibration_would_correct_names_its_command(log, tmp_path, capsys, monkeypatch):
    offsets = [("line", Bias(str(k), 9, 0.2, 0.1, 0.3, True)) for k in range(5)]
    monkeypatch.setattr(crossed.Crossed, "offsets", lambda *_: offsets)
    options = ["--output", str(tmp_path / "o u t"), "--resolution", "4", *QUICK]
    assert main(["map", str(log), *options]) == 0
    *_, told, command = capsys.readouterr().out.splitlines()
    assert told.endswith("an offset of line 2; and 2 more")
    assert shlex.split(command)[1:] == ["poam", "map", str(log), *options, "--calibrate"]
    assert main(["map", str(log), *options, "--calibrate"]) == 0
    assert "correct: " not in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_excluding_a_line_of_a_mission_does_not_renumber_the_others(tmp_path, capsys):
    survey = Crossed(tmp_path / "m", **{"nngp.first_steps": 1}).until()
    survey.close()
    found = []
    for more in ([], ["--exclude", "line=2"]):
        out = tmp_path / f"out{len(more)}"
        log = ["map", str(tmp_path / "m"), "--output", str(out), "--resolution", "5"]
        assert main([*log, *more]) == 0
        lines = read_records(out / "lines.csv", ("line", "crossings"))
        found.append({row["line"] for row in lines if row["line"]})
    assert "2" in found[0] and found[1] == found[0] - {"2"}
    assert "soundings excluded: line=2" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_land_is_blank_and_the_shore_counts(tmp_path):
    """A lake of 60 m, sounded to 2 m from the shore."""
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(-28.0, 29.0, 2), np.arange(-24, 25, 8)))
    bottom = 0.3 * (np.hypot(x, y) - 30)
    wet = bottom < -0.6
    path, out = tmp_path / "lake.csv", tmp_path / "out"
    table = np.column_stack((x, y, -bottom))[wet]
    np.savetxt(path, table, fmt="%.2f", delimiter=",", header="x,y,depth", comments="")
    options = ["--workspace", "-34", "34", "-34", "34", "--resolution", "1"]
    assert main(["map", str(path), "--output", str(out), *options]) == 0
    drawn = read_map(out / "map.npz")
    assert not (drawn.mean > 0).any() and np.isnan(drawn.mean).any()
    below = read_water(out).at(0.0)
    assert below["area"][2] > np.isfinite(drawn.mean).sum() > below["area"][1]
    assert main(["map", str(path), "--output", str(out), *options, "--extrapolate"]) == 0
    assert np.isfinite(read_map(out / "map.npz").mean).all()


def test_folders_of_missions_keep_the_dots_of_their_names(tmp_path):
    """So that the map of one day does not overwrite that of another."""
    names = "2025.01.17", "2025.01.18"
    for name in names:
        (tmp_path / name).mkdir()
    assert tuple(log_name(tmp_path / name) for name in names) == names
    assert log_name(tmp_path / "monday.csv") == "monday"
