"""`poam export`: the examples of its page run, a run's own place is used, what is wrong is said."""

import re
import shlex
from pathlib import Path

import pytest
from view_folders import write_slope

from poam_ros.app.cli import main
from poam_ros.outputs import folder as files
from poam_ros.outputs.exports import export_settings

PAGE = Path(__file__).parents[3] / "docs" / "export.md"
LINES = re.findall(r"^poam export .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A folder runs/lake, from where the commands of the page are given."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "runs" / "lake"
    folder.mkdir(parents=True)
    return write_slope(folder)


@pytest.mark.parametrize("line", LINES)
def test_the_examples_of_the_docs_run(line, run, tmp_path, capsys):
    words = shlex.split(line)
    target = Path(words[4])
    if "--origin" in words or target.suffix in (".tif", ".bag"):
        pytest.importorskip("rasterio")
    needed = {".png": "matplotlib", ".html": "bokeh"}
    if target.suffix in needed:
        pytest.importorskip(needed[target.suffix])
    assert main(words[1:]) == 0
    said = capsys.readouterr().out.split()
    assert said[-1] == str(target) and all((tmp_path / name).stat().st_size for name in said)


def test_the_run_s_georeference_and_water_level_are_used(run):
    """As mapped logs and planners record them, and as they are overruled."""
    to = Path("lake.tif")
    assert export_settings(run, to, {}).origin is None
    config = {"origin": [60.0, 25.0], "heading": 12.0, "water": {"level": 1.5}}
    files.write_config(run / "config.yaml", config)
    found = export_settings(run, to, {"depth": True})
    assert (found.origin, found.heading, found.water_level) == ((60.0, 25.0), 12.0, 1.5)
    found = export_settings(run, to, {"origin": (1.0, 2.0), "water_level": 0.0})
    assert (found.origin, found.heading, found.water_level) == ((1.0, 2.0), 0.0, 0.0)
    found = export_settings(run, Path("lake.yaml"), {})
    assert (found.origin, found.heading, found.water_level) == (None, 0.0, 1.5)
    nodes = {"planner": {"origin": [60.0, 25.0], "heading": 90.0}, "mapper": {"water.level": 2.0}}
    files.write_config(run / "config.yaml", {"nodes": nodes})
    found = export_settings(run, to, {})
    assert (found.origin, found.heading, found.water_level) == ((60.0, 25.0), 90.0, 2.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--to", "lake.xyz"], "to: expected a file that ends with .tif, .bag"),
        (["--to", "lake.csv", "--heading", "30"], "heading: needs --origin LAT LON"),
        (["--to", "lake.csv", "--origin", "91", "0"], "origin: expected a latitude"),
        (["--to", "/proc/nothing/lake.csv"], "cannot write to /proc/nothing"),
    ],
)
def test_wrong_input_gives_one_line_and_status_2(options, words, run, capsys):
    assert main(["export", str(run), *options]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


@pytest.mark.parametrize("command", [["export", "--to", "map.csv"], ["view"]])
def test_a_missing_folder_has_one_message(command, tmp_path, capsys):
    assert main([command[0], str(tmp_path / "nothere"), *command[1:]]) == 2
    said = capsys.readouterr().err
    assert f"RUN: expected the folder of a run or mission, got {tmp_path / 'nothere'}" in said
    assert "Errno" not in said


def test_the_log_of_a_map_is_not_written_over(run, tmp_path, capsys):
    log = tmp_path / "lake.csv"
    log.write_text("x,y,z\n")
    config = run / "config.yaml"
    config.write_text(f"{config.read_text()}log: {log}\n")
    assert main(["export", str(run), "--to", "lake.csv"]) == 2
    assert "is the log that this map is of" in capsys.readouterr().err
    assert log.read_text() == "x,y,z\n"
