"""`poam diff` as people call it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from soundings import write_survey

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.mapping.resurvey import Survey, change_between
from poam_ros.mapping.soundings import Labels
from poam_ros.outputs.folder import read_table

QUICK = ["--set", "batch.first=100", "--set", "nngp.first_steps=40", "--set", "nngp.hidden=8"]


def refused(arguments, capsys):
    """The one line of an exit with status 2."""
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.fixture(scope="module")
def surveys(tmp_path_factory):
    """Two runs' folders: the second survey is 0.4 m higher, and found a hole in the east."""
    folder = tmp_path_factory.mktemp("surveys")
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(
        "poam_ros.app.commands.map.draw_figures", lambda folder, validated=False: None
    )
    rows = np.genfromtxt(write_survey(folder / "log.csv"), delimiter=",", skip_header=1)[:, :3]
    again = rows + (0.0, 0.0, 0.4)
    again[:, 2] -= 3.0 * (np.hypot(rows[:, 0] - 45, rows[:, 1] - 20) < 9)
    for name, table in (("first", rows), ("second", again)):
        log = folder / f"{name}.csv"
        np.savetxt(log, table, "%.3f", ",", header="x,y,z", comments="")
        more = ["--resolution", "2", "--no-screening", "--set", "nngp.early_steps=2", *QUICK]
        assert main(["map", str(log), "--output", str(folder / name), *more]) == 0
    monkeypatch.undo()
    return folder


def test_a_hole_is_found_and_the_offset_is_not(surveys, tmp_path, capsys):
    pytest.importorskip("rasterio")
    both = [str(surveys / name) for name in ("first", "second")]
    assert main(["diff", *both, "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "not compared: " in said and "% of what both maps show" in said
    offset = float(said.split("offset: ")[1].split(" m")[0])
    assert offset == pytest.approx(0.4, abs=0.05)
    table = read_table(tmp_path / "out" / "change.csv")
    found = table["significant"] == 1
    away = np.hypot(table["x"] - 45, table["y"] - 20)
    assert found[away < 6].mean() > 0.5 and not found[away > 18].any()
    assert table["change"][found].min() < -2
    for name in ("change.tif", "change.png"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    report = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert report.count("data:image/png") == 1 and "<th>not compared</th>" in report
    assert main(["diff", *both, "--extrapolate", "--output", str(tmp_path / "all")]) == 0
    assert "not compared" not in capsys.readouterr().out
    assert len(read_table(tmp_path / "all" / "change.csv")["x"]) > len(table["x"])


def test_a_log_is_mapped_first(surveys, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "poam_ros.app.commands.map.draw_figures", lambda folder, validated=False: None
    )
    monkeypatch.setattr("poam_ros.app.commands.map.print_summary", lambda *_: None)
    given = [str(surveys / "first"), str(surveys / "first.csv")]
    assert main(["diff", *given, "--output", str(tmp_path / "out")]) == 0
    assert "offset: " in capsys.readouterr().out
    log = (tmp_path / "out" / "after" / "config.yaml").read_text()
    assert f"command: poam map {given[1]} --output" in log


def test_surveys_that_cannot_be_compared(surveys, tmp_path, capsys):
    first = str(surveys / "first")
    to = ["--output", str(tmp_path / "out")]
    assert "but there is nothing" in refused(["diff", first, str(tmp_path / "no"), *to], capsys)
    finest = [first, first, "--resolution", "0.1", *to]
    assert "at most 20000 cells" in refused(["diff", *finest], capsys)


def test_an_error_of_level_is_in_the_offset_and_not_in_the_change(surveys):
    first, second = (Survey.read(surveys / name) for name in ("first", "second"))
    unsure = replace(second, settings=replace(second.settings, level_error=0.3))
    sure, change = (change_between(first, after, 4.0) for after in (second, unsure))
    assert np.ptp(sure.offset[1:]) < 0.5
    assert np.ptp(change.offset[1:]) == pytest.approx(2 * 1.96 * 0.3, rel=0.2)
    assert np.nanmax(np.abs(change.deviation - sure.deviation)) < 0.02
    same_datum = change_between(first, unsure, 4.0, offset=0.0)
    assert np.nanmin(same_datum.deviation) > 0.25


def test_errors_of_level_of_days_are_in_the_change_unless_their_difference_is_known(surveys):
    """The second survey took two days, one of which had the lines in the north."""
    first, second = (Survey.read(surveys / name) for name in ("first", "second"))
    north = (second.soundings.xy[:, 1] > 20).astype(np.int64)
    unsure = replace(
        second, day=Labels(north, ("1", "2")), settings=replace(second.settings, level_error=0.3)
    )
    known = replace(unsure, levels={"1": (0.0, 0.0), "2": (0.0, 0.02)})
    own, told = (
        float(np.nanmedian(change_between(first, after, 4.0).deviation))
        for after in (unsure, known)
    )
    assert own == pytest.approx(np.hypot(told, 0.3 / np.sqrt(2)), rel=0.1)


def test_days_and_their_levels_are_read(surveys, tmp_path):
    shutil.copytree(surveys / "first", tmp_path / "days")
    header, *rows = (tmp_path / "days" / "samples.csv").read_text().splitlines()
    rows = [f"{row},2024-05-0{1 + (k > 90)}" for k, row in enumerate(rows)]
    (tmp_path / "days" / "samples.csv").write_text("\n".join([f"{header},day", *rows]) + "\n")
    config = (tmp_path / "days" / "config.yaml").read_text()

    def read(levels):
        text = f"{config}calibrated_levels: {levels}\n"
        (tmp_path / "days" / "config.yaml").write_text(text)
        return Survey.read(tmp_path / "days")

    found = read("{'2024-05-01': [0, 0], '2024-05-02': [0.1, 0.02]}")
    assert (
        found.day.names == ("2024-05-01", "2024-05-02") and found.day.code.sum() == len(rows) - 91
    )
    assert found.levels["2024-05-02"] == (0.1, 0.02)
    for damaged in ("5", "{a: 1}", "{a: [1, b]}"):
        with pytest.raises(InputError, match="calibrated_levels"):
            read(damaged)
