"""`poam plan`: the forecast of a survey, from an earlier run or from what is stated."""

import math
import re

import numpy as np
import pytest
from voyages import polygons

from poam_ros.app.cli import main
from poam_ros.core.geodesy import GeoReference
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.mavlink.plans import FORMATS, Plan
from poam_ros.outputs import folder as files

STATED = ["plan", "--deviation", "0.1", "0.2", "--depth", "15", "--workspace", "0", "60", "0", "40"]


def number(text, pattern):
    return float(re.search(pattern, text).group(1))


@pytest.fixture
def run(tmp_path):
    """The folder of a run with pings on lines 8 m apart, 10 m deep at a water level of 2 m."""
    grid = Grid.cells(Extent(0, 60, 0, 40), 1.0)
    lines = np.arange(4, 40, 8)
    x = np.arange(0.5, 60.0, 0.5)
    xy = np.concatenate([np.column_stack((x, np.full_like(x, y))) for y in lines])
    variance = 0.01 + 0.02 * np.abs(grid.points[:, 1, None] - lines).min(1)
    mean = np.full(grid.shape, -8.0)
    files.write_map(tmp_path / "map.npz", ElevationMap(grid, mean, variance.reshape(grid.shape)))
    files.write_samples(tmp_path / "samples.csv", xy, np.full(len(xy), -8.0))
    files.write_config(tmp_path / "config.yaml", {"water": {"level": 2.0}})
    return tmp_path


def test_a_stated_bottom_gives_a_survey_with_its_time(capsys, tmp_path):
    table = tmp_path / "lines.csv"
    assert main([*STATED, "--speed", "2", "--to", str(table)]) == 0
    out = capsys.readouterr().out
    lines, length = number(out, r"survey: +(\d+) lines"), number(out, r"length: +(\d+) m")
    assert number(out, r"time: +(\d+) min at 2 m/s") == pytest.approx(length / 120, abs=1)
    ends = files.read_table(table, ("x", "y"))
    assert len(ends["x"]) == 2 * lines
    spacing = number(out, r"--set boustrophedon.spacing=([\d.]+)")
    assert spacing == pytest.approx(40 / lines, rel=0.01)
    main([*STATED, "--speed", "2", "--target-tvu", "special"])
    assert number(capsys.readouterr().out, r"survey: +(\d+) lines") > lines


def test_a_current_along_the_lines_takes_time(capsys):
    length = r"length: +(\d+) m"
    assert main(STATED) == 0
    still = number(capsys.readouterr().out, length)
    assert main([*STATED, "--current", "0.6", "0", "--pilot", "lawnmower"]) == 0
    out = capsys.readouterr().out
    time, speed = number(out, r"time: +(\d+) min"), number(out, r"min at ([\d.]+) m/s")
    assert time == pytest.approx(number(out, length) / speed / 60, abs=1)
    assert number(out, length) == pytest.approx(still, rel=0.1)
    assert 0.64 < speed < 0.7  # along and against it 0.64; a little across it, 0.8
    assert main([*STATED, "--current", "0.8", "0.6"]) == 2
    assert "current: expected less than the vehicle's speed" in capsys.readouterr().err


def test_a_vehicle_s_file_gives_its_pilot_survey_and_current_alone(capsys, tmp_path):
    file, said = tmp_path / "mine.yaml", []
    given = "pilot: diagonal, current: [0.5, 0.0], speed: 20.0, max_duration: 0.0"
    file.write_text(f"/**: {{ros__parameters: {{{given}}}}}")
    for words in (["--params-file", str(file)], ["--pilot", "diagonal", "--current", "0.5", "0"]):
        assert main([*STATED, *words]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and "min at 1 m/s" not in said[0]


def test_a_survey_of_days_is_refused_by_default(capsys, tmp_path):
    far = [*STATED[:-4], "0", "3000", "0", "1200"]
    table = tmp_path / "lines.csv"
    assert main([*far, "--to", str(table)]) == 2
    told = capsys.readouterr().err
    assert "expected at most 1 day;" in told and not table.exists()
    days = number(told, r": ([\d.]+) days at 1 m/s")
    allowed = re.search(r"--max-duration (\d+)$", told.strip()).group(1)
    assert days <= float(allowed) < days + 1
    assert main([*far, "--max-duration", allowed]) == 0
    assert number(capsys.readouterr().out, r"time: +(\d+) min") == pytest.approx(
        days * 1440, rel=0.05
    )


def test_a_workspace_in_degrees(capsys):
    """Across the antimeridian, as one of the same sides in metres."""
    fiji = GeoReference(-17.5, 179.9999)
    (south, west), (north, east) = fiji.to_degrees((-30, -20)), fiji.to_degrees((30, 20))
    at = STATED.index("--workspace")
    degrees = "--workspace-degrees", *(repr(side) for side in (south, west, north, east))
    said = []
    for words in (STATED, [*STATED[:at], *degrees, *STATED[at + 5 :]]):
        assert main(words) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] and west > 0 > east


def test_a_workspace_of_a_file(tmp_path, capsys):
    """A rectangle in degrees, as the same one in metres; its corner is where a fix would be."""
    fiji = GeoReference(-17.5, 179.9999)
    file = polygons(tmp_path / "lake.geojson", fiji, workspace=(-30, 30, -20, 20))
    at = STATED.index("--workspace")
    words = [*STATED[:at], "--set", f"areas.file={file}", "--set", "areas.coordinates=degrees"]
    said = []
    for given in (STATED, words):
        assert main(given) == 0
        said.append(number(capsys.readouterr().out, r"spacing=([\d.]+)"))
    assert said[1] == pytest.approx(said[0], rel=0.01)


def test_goals_instead_of_the_pilot_survey(tmp_path, capsys):
    """They count as far as they lead; the survey begins where they end."""
    frame, table = GeoReference(-17.5, 179.9999), tmp_path / "lines.csv"
    goals = (5, 5), (45, 5), (59, 39)
    file = tmp_path / "lake.plan"
    file.write_text(FORMATS[".plan"](Plan("goals", [frame.to_degrees(goal) for goal in goals])))
    origin = ["--origin", "-17.5", "179.9999"]
    said, begins = [], []
    for words in (
        ["--set", "goals.metres=" + ", ".join(f"{x} {y}" for x, y in goals)],
        [*origin, "--set", f"goals.file={file}"],
        ["--set", "goals.metres=5 5, 45 5, 59 39, 1 1"],
    ):
        assert main([*STATED, *words, "--to", str(table)]) == 0
        said.append(number(capsys.readouterr().out, r"length: +(\d+) m"))
        ends = files.read_table(table, ("x", "y"))
        begins.append((ends["x"][0], ends["y"][0]))
    assert said[0] == said[1] < said[2]
    assert begins[0] == begins[1] and math.dist(begins[0], goals[-1]) < 20
    assert math.dist(begins[2], (1, 1)) < 20
    assert main([*STATED, "--set", "goals.degrees=-17.5 179.9999"]) == 2
    assert "goals.degrees: expected origin as well" in capsys.readouterr().err


def test_lines_end_at_the_borders_of_areas(tmp_path, capsys):
    table = tmp_path / "lines.csv"
    at = STATED.index("--workspace")
    areas = "--set", "areas.polygon=0 0, 60 0, 60 40", "--set", "areas.margin=2", "--to", str(table)
    assert main([*STATED[:at], *areas]) == 0
    triangle = number(capsys.readouterr().out, r"length: +(\d+) m")
    ends = files.read_table(table, ("x", "y"))
    assert (ends["y"] < 2 / 3 * ends["x"]).all()
    assert main(STATED) == 0
    assert triangle < 0.8 * number(capsys.readouterr().out, r"length: +(\d+) m")
    assert main([*STATED[:at], "--workspace", "0", "60", "0", "40"]) == 0  # in one word


def test_an_earlier_run_gives_bottom_workspace_and_water_level(capsys, run):
    assert main(["plan", "--like", str(run)]) == 0
    out = capsys.readouterr().out
    assert "24 parts, depth 10.0 m;" in out and "1b in 95% of the workspace" in out
    assert main(["plan", "--like", str(run), "--water-level", "3"]) == 0
    assert "depth 11.0 m;" in capsys.readouterr().out


def test_a_smooth_bottom_needs_one_line_at_most(capsys, tmp_path):
    table = tmp_path / "lines.csv"
    stated = ["plan", "--deviation", "0.001", "0.002", *STATED[4:], "--to", str(table)]
    assert main(stated) == 0
    out = capsys.readouterr().out
    assert "1 line along the middle, after the pilot survey, which may meet it alone\n" in out
    ends = files.read_table(table, ("x", "y"))
    assert ends["y"].tolist() == [20.0, 20.0]


@pytest.mark.parametrize("command", ["plan", "waypoints", "export"])
def test_another_origin_than_the_run_s_is_a_warning(caplog, run, command):
    files.write_config(run / "config.yaml", {"origin": [47.0, 8.0], "heading": 0.0})
    words = {
        "plan": ["plan", "--like", str(run)],
        "waypoints": ["waypoints", str(run / "next.gpx"), "--after", str(run), "--duration", "9"],
        "export": ["export", str(run), "--to", str(run / "map.geojson")],
    }[command]
    assert main([*words, "--origin", "47", "8"]) == 0 and not caplog.messages
    assert main([*words, "--origin", "47.00000001", "8"]) == 0 and not caplog.messages  # 1 mm
    assert main([*words, "--origin", "47.00001", "8"]) == 0
    assert "its origin is 47 8; --origin 47.00001 8 places the map elsewhere" in caplog.text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (STATED[:4], "expected --depth and --workspace (or"),
        ([*STATED, "--workspace-degrees", *"0011"], "metres or in degrees, got both"),
        ([*STATED, "--noise", "2"], "standard deviation of 2 m"),
        (["plan", "--like", "nowhere"], "RUN: expected the folder of a run"),
    ],
)
def test_errors_are_reported(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--pilot", "zigzag", "expected one of bezier"),
        ("--target-share", "1.5", "expected a number from 1e-06 to 1, got 1.5"),
    ],
)
def test_options_are_checked(option, value, said, capsys):
    with pytest.raises(SystemExit):
        main([*STATED, option, value])
    assert f"argument {option}: {said}" in capsys.readouterr().err
