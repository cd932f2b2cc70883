"""left_out.csv: every sounding that was read and is not in the map, once, with its reason."""

import functools
import operator
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from poam_ros.app.cli import main
from poam_ros.core.geometry import map_grid
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.sounding_map import map_soundings
from poam_ros.mapping.soundings import COLUMNS, SoundingMapSettings, time_text
from poam_ros.outputs.folder import read_records

QUICK = ["--set", "batch.first=100", "--set", "nngp.first_steps=40", "--set", "nngp.early_steps=2",
         "--set", "nngp.hidden=8", "--resolution", "4"]  # fmt: skip
BEGIN = np.datetime64("2025-01-17T16:03:47.250")
REAL = Path(__file__).resolve().parents[3] / "shared" / "soundings"


pytestmark = pytest.mark.usefixtures("no_figures")


def lines_of(count=240):
    """Time, latitude, longitude, depth, line: six lines of 40 soundings, 1 s apart."""
    rng = np.random.default_rng(0)
    for k in range(count):
        line, along = divmod(k, 40)
        east, north = 1.5 * (along if line % 2 == 0 else 39 - along), 8 * line
        depth = 5 + np.sin(east / 9) + 0.1 * north / 8 + rng.normal(0, 0.02)
        yield BEGIN + np.timedelta64(k, "s"), 50 + north / 111_000, 10 + east / 71_500, depth, line


def csv_file(path, wrong=(), later=0):
    """``later``: than those of ``lines_of``, in ms."""
    delay = np.timedelta64(later, "ms")
    rows = [
        [f"{when + delay}", f"{lat:.8f}", f"{lon:.8f}", f"{depth:.3f}", f"L{line}"]
        for when, lat, lon, depth, line in lines_of()
    ]
    for row, column, text in wrong:
        rows[row][column] = text
    path.write_text("time,latitude,longitude,depth,line\n" + "\n".join(map(",".join, rows)))
    return path


def mapped(out, *arguments):
    """Rows of left_out.csv and soundings in the map."""
    assert main(["map", *map(str, arguments), "--output", str(out), *QUICK]) == 0
    config = yaml.safe_load((out / "config.yaml").read_text())
    return read_records(out / "left_out.csv", COLUMNS), config["samples"]["mapped"]


def test_each_row_of_tables_is_in_the_map_or_listed_once(tmp_path):
    wrong = [
        (5, 3, "0"), (6, 3, "x"), (7, 1, "95"), (50, 0, "?"), (100, 3, "4e6"), (130, 3, "14"),
        (200, 1, "50.002"),
    ]  # fmt: skip
    first = csv_file(tmp_path / "monday.csv", [*wrong, (239, 3, "")])
    second = csv_file(tmp_path / "tuesday.csv", [(0, 3, "0")], later=400)
    copy = csv_file(tmp_path / "uncle.csv")
    (tmp_path / "edits.csv").write_text(
        "who,when,why,file,row\nAnn,2026-01-02,fish,tuesday.csv,10-19\n"
    )
    gauge = tmp_path / "gauge.csv"
    gauge.write_text("time,level\n2025-01-17T16:03:00,1.0\n2025-01-17T16:07:00,1.0\n")
    rows, used = mapped(
        tmp_path / "out", first, second, copy, "--exclude", "line=L1", "--water-level", gauge,
        "--workspace", "-30", "25", "-40", "60",
    )  # fmt: skip
    keys = [(Path(row["file"]).name, int(row["row"])) for row in rows]
    assert len(rows) + used == 720 and len(set(keys)) == len(rows) and keys == sorted(keys)
    said = dict(zip(keys, rows, strict=True))
    for row, reason in ((5, "no_reading"), (6, "not_a_number"), (7, "impossible_place"),
                        (50, "no_time"), (100, "wild_elevation"), (200, "position_jump"),
                        (239, "not_a_number")):  # fmt: skip
        assert said["monday.csv", row]["reason"] == reason, row
        assert said["monday.csv", row]["line"] == f"L{row // 40}"
    assert said["tuesday.csv", 0]["reason"] == "no_reading"
    assert said["tuesday.csv", 12]["reason"] == "excluded"
    assert (said["tuesday.csv", 12]["why"], said["tuesday.csv", 12]["who"]) == ("fish", "Ann")
    assert said["tuesday.csv", 12]["time"] == "2025-01-17T16:03:59.65Z"
    assert said["monday.csv", 130]["reason"] == "false_echo"
    assert said["monday.csv", 130]["why"] == "neither bottom nor multiple"
    assert said["uncle.csv", 12]["reason"] == "repeated"
    assert said["uncle.csv", 12]["why"] == "also in monday.csv"
    times = sorted(row["time"] for row in rows if row["time"])
    first, last = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())["measured"]
    assert "2025-01-17T16:03" in first and first < times[-1] and first < last < "2025-01-17T16:07"
    found = Counter(row["reason"] for row in rows)
    assert found["outside_workspace"] and found["no_water_level"] and found["excluded"] > 60
    of_lines = {row["line"] for row in rows if row["reason"] == "no_water_level"}
    assert of_lines == {"L4", "L5"}  # what came after the gauge's last reading
    for row in rows:
        if row["reason"] == "excluded":
            assert float(row["depth"]) == pytest.approx(1 - float(row["z"]), abs=2e-3)


def test_false_echoes_say_what_they_are(tmp_path):
    doubles = [
        (row, 3, f"{2 * depth:.3f}")
        for row, (*_, depth, line) in enumerate(lines_of())
        if line == 2
    ]
    log = csv_file(tmp_path / "log.csv", [*doubles, (10, 3, "47")])
    rows, _ = mapped(tmp_path / "out", log)
    echoes = {int(row["row"]): row["why"] for row in rows if row["reason"] == "false_echo"}
    assert echoes.pop(10) == "neither bottom nor multiple"
    assert len(echoes) > 30 and set(echoes.values()) == {"double echo"}


def test_held_out_soundings_are_listed(tmp_path):
    log = csv_file(tmp_path / "log.csv")
    rows, used = mapped(tmp_path / "out", log, "--hold-out", "0.15", "--by", "line")
    assert Counter(row["reason"] for row in rows)["held_out"] == 40
    assert len(rows) + used == 240


def sentence(body):
    return f"${body}*{functools.reduce(operator.xor, body.encode()):02X}\n"


def nmea(path, wrong=()):
    text = ""
    for k, (when, lat, lon, depth, _) in enumerate(lines_of()):
        at = when.item()
        place = f"50{60 * (lat - 50):08.5f},N,010{60 * (lon - 10):08.5f},E"
        text += sentence(f"GPGGA,{at:%H%M%S}.25,{place},1,08,0.9,5.4,M,46.9,M,,")
        text += dict(wrong).get(k, "") or sentence(f"SDDPT,{depth:.2f},")
        text += sentence(f"GPRMC,{at:%H%M%S}.25,A,{place},2.0,84.4,{at:%d%m%y},3.1,W")
    path.write_text(text + sentence("SDDPT,3.3,"))
    return path


def test_each_depth_of_a_log_is_in_the_map_or_listed_once(tmp_path):
    pytest.importorskip("pynmeagps")
    log = nmea(
        tmp_path / "log.nmea",
        [(3, "$SDDPT,4.4,*00\n"), (9, sentence("SDDPT,,")), (17, sentence("SDDPT,0.0,"))],
    )
    rows, used = mapped(tmp_path / "out", log)
    assert len(rows) + used == 240  # a torn sentence is only counted
    reasons = [row["reason"] for row in rows if row["reason"] != "false_echo"]
    assert sorted(reasons) == 2 * ["after_last_fix"] + 2 * ["no_reading"]
    assert {row["x"] for row in rows if row["reason"] == "after_last_fix"} == {""}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["baja", "bay_feet", "caputh", "grohn", "metzabok"])
def test_recorded_surveys_lose_nothing_unlisted(tmp_path, name):
    log = REAL / f"{name}.csv"
    if not log.is_file():
        pytest.skip("shared/soundings is not there")
    columns = {"latitude": "4", "longitude": "5", "depth": "3"} if name == "grohn" else {}
    soundings = read_soundings(log, ReadOptions(columns))
    assert "position_jump" not in soundings.refused
    workspace = soundings.workspace()
    grid = map_grid(workspace, float(workspace.size.max()) / 20)
    found = map_soundings(soundings, grid, workspace, SoundingMapSettings(stretches=0))
    found.write(tmp_path, log)
    text = log.read_text("utf-8-sig").splitlines()
    count = sum(bool(line.strip()) and line[0] != "#" for line in text) - (name != "grohn")
    rows = read_records(tmp_path / "left_out.csv", COLUMNS)
    assert len(rows) + found.samples == count
    assert len({row["row"] for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("stamp_ns", "text"),
    [(0, ""), (12_300_000_000, "12.300"), (1_700_000_000 * 10**9, "2023-11-14T22:13:20Z"),
     (1_700_000_000 * 10**9 + 1, "2023-11-14T22:13:20Z"),
     (1_700_000_000 * 10**9 + 249_999_872, "2023-11-14T22:13:20.25Z")],
)  # fmt: skip
def test_times_are_written_in_full(stamp_ns, text):
    assert time_text(stamp_ns) == text
