"""What a person leaves out: --exclude, and edits.csv beside the log, which the page changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import map_grid
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.exclusions import (
    Edits,
    exclude,
    needed,
    read_edits,
    read_option,
)
from poam_ros.mapping.sounding_map import map_soundings
from poam_ros.mapping.soundings import SoundingMapSettings, Soundings
from poam_ros.outputs.folder import read_table

TABLE = "x,y,z,line,boat,time\n" + "".join(
    f"{k % 10},{k // 10},{-5 - k % 3},L{k // 10},{'Ann' if k < 20 else 'Bo'},"
    f"2025-01-{12 + k // 20}T10:00:{k % 60:02d}\n"
    for k in range(40)
)


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(TABLE)
    return path


def left(log: Path, *texts: str, edits: str = "") -> Soundings:
    """What is left of a log after exclusions of the command line and of edits.csv."""
    exclusions = [read_option(text) for text in texts]
    if edits:
        (log.parent / "edits.csv").write_text(edits)
        exclusions += read_edits(log.parent / "edits.csv")
    options = ReadOptions(labels=needed(exclusions), times=True)
    return exclude(read_soundings(log, options).with_lines(), exclusions, [log])


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("line=L2", range(20, 30)),
        ("boat=Bo", range(20, 40)),
        ("day=2025-01-13", range(20, 40)),
        ("row=3", [3]),
        ("row=30-39", range(30, 40)),
        ("polygon=-1 -1 3.5 -1 3.5 0.5 -1 0.5", range(4)),
    ],
)
def test_soundings_named_by_an_option_are_left_out(log, text, rows):
    found = left(log, text)
    assert set(found.row) == set(range(40)) - set(rows)
    assert found.refused["excluded"] == len(rows) and set(found.left_out[0].row) == set(rows)


def test_several_options_count_each_sounding_once(log):
    found = left(log, "line=L2", "boat=Bo")
    assert [each.partition(":")[0] for each in found.excluded] == 2 * ["10 soundings excluded"]
    assert found.refused["excluded"] == 20 and len(found) == 20


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("line=L9", r"--exclude: expected a line of the log \(L0, L1, L2, L3\), got 'L9'"),
        ("file=other.csv", r"expected a file of the log \(.*log.csv\), got 'other.csv'"),
        ("colour=red", r"a column of the log \(line, file, row, polygon, polygon_degrees, or day"),
        ("L2", "expected COLUMN=VALUE, as in line=L7, got L2"),
        ("row=a-b", "expected a row as 120, or rows as 120-164, got 'a-b'"),
        ("polygon=1 2 3", "expected a polygon as x1 y1 x2 y2 x3 y3"),
        ("file=log.csv", "all soundings are excluded"),
    ],
)
def test_unknown_columns_and_values_are_refused_by_name(log, text, said):
    with pytest.raises(InputError, match=said):
        left(log, text)


def test_edits_apply_where_all_their_conditions_hold(log, caplog):
    """One of another file does not stop a map, whatever columns it has that this one lacks."""
    edits = (
        "who,when,why,line,row,file,ship,action\n"
        'Ann,2026-01-02,"fish, a school",L1,12-25,log.csv,,exclude\n'
        "Bo,2026-01-03,another survey,,5,other.csv,Dory,\n"
        "Ann,2026-01-04,bottom after all,,11-14,log.csv,,Restore\n"
    )
    found = left(log, edits=edits)
    assert set(found.left_out[0].row) == set(range(15, 20)) and "got 'other.csv'" in caplog.text
    fish, other, back = found.excluded
    assert fish.endswith("(edits.csv: fish, a school, Ann, 2026-01-02)") and other[:2] == "0 "
    assert back.startswith("3 soundings restored: ") and found.refused["excluded"] == 5


@pytest.mark.parametrize("separator", ",;\t")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252"])
def test_edits_written_by_spreadsheets_are_read(log, tmp_path, separator, encoding):
    text = "Line,Who,When,Why\r\nL1,J\u00f6rg,2026-01-02,fish\r\n,,,\r\n\r\n"
    (tmp_path / "edits.csv").write_bytes(text.replace(",", separator).encode(encoding))
    [found] = read_edits(tmp_path / "edits.csv")
    assert found.which == (("line", "L1"),)
    assert (found.who, found.when, found.why) == ("J\u00f6rg", "2026-01-02", "fish")


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ("who,when,why,line\nAnn,,,\n", "expected a condition in row 2"),
        ("who,why,line\nAnn,,L1\n", "expected columns who, when, why"),
        ("who,when,why,line\nAnn,,\n", "expected 4 values in row 2, got 3"),
        ("who,when,why,line,line\nAnn,,,L1,L2\n", "conditions, each once"),
        ("who,when,why,row\nAnn,,,9-5\n", "expected a row as 120"),
        ("who,when,why,row,action\nAnn,,,9,drop\n", "exclude or restore in row 2, got 'drop'"),
        ("who,when,why,file,ship\nBo,,fish,log.csv,Dory\n", "expected a column of the log"),
        *(
            (f"who,when,why,polygon_degrees\nAnn,,fish,{polygon}\n", said)
            for polygon, said in (
                ("50 10 51 10", "expected a polygon_degrees as latitude1 longitude1"),
                ("50 10 51 x 50 11", "expected a polygon_degrees as latitude1 longitude1"),
                ("50 10 51 10 50 11", "place on the Earth is known, got metres"),
            )
        ),
    ],
)
def test_invalid_edits_are_refused(log, edits, said):
    with pytest.raises(InputError, match=said):
        left(log, edits=edits)


def test_lines_found_in_the_track_keep_their_numbers(log):
    """What is left out does not renumber the lines that remain."""
    rows = [f"{x},{y},{-5 - x / 60}\n" for y in (0, 9, 18) for x in range(60)]
    log.write_text("x,y,z\n" + "".join(rows))
    whole = read_soundings(log).with_lines()
    names = whole.labels["line"].names
    rest = exclude(whole, [read_option(f"line={names[0]}")], [log])
    assert set(np.array(names)[rest.labels["line"].code]) == set(names[1:])


def test_rows_count_in_each_of_several_files(log):
    second = log.parent / "second.csv"
    second.write_text(TABLE.replace("2025-01", "2025-02"))
    exclusion = [read_option("row=39")]
    both = read_soundings([log, second]).with_lines()
    assert set(exclude(both, exclusion, [log, second]).left_out[0].row) == {39, 79}
    assert set(exclude(both, [read_option("file=second.csv")], [log, second]).row) == set(range(40))


def write_log(path, east=0.0, named=True):
    """Four lines of 40 soundings, 8 m apart."""
    head = "latitude,longitude,depth" + (",line" if named else "")
    rows = []
    for k in range(160):
        line, along = divmod(k, 40)
        x = east + 1.5 * (along if line % 2 == 0 else 39 - along)
        row = f"{50 + 8 * line / 111_229:.8f},{10 + x / 71_696:.8f},{5 + np.sin(k / 9):.2f}"
        rows.append(row + (f",L{line}" if named else ""))
    path.write_text("\n".join([head, *rows]))
    return path


def mapped(out, *logs):
    soundings = read_soundings(list(logs)).with_lines()
    workspace = soundings.workspace()
    grid = map_grid(workspace, 10.0)
    found = map_soundings(soundings, grid, workspace, SoundingMapSettings(stretches=0))
    found.write(out, logs[0])
    return soundings


def left_of_each(edits, *logs):
    """What is left out of each file: rows by its name."""
    soundings = read_soundings(list(logs)).with_lines()
    out = np.concatenate([part.row for part in exclude(soundings, edits, logs).left_out])
    begins = [first for _, first in soundings.files] or [0]
    ends = [*begins[1:], np.inf]
    return {
        path.name: sorted((out[(out >= begin) & (out < end)] - begin).tolist())
        for path, begin, end in zip(logs, begins, ends, strict=True)
    }


def test_an_area_is_stored_in_degrees_and_by_file(tmp_path):
    first, second = write_log(tmp_path / "monday.csv"), write_log(tmp_path / "tuesday.csv", 300.0)
    soundings = mapped(tmp_path / "out", first, second)
    edits = Edits(tmp_path / "out")
    lower = soundings.xy[:160].min(0)
    (x0, y0), (x1, y1) = lower - 1, lower + (10, 10)
    edits.leave_out("polygon", f"{x0} {y0} {x1} {y0} {x1} {y1} {x0} {y1}", "Ann", "fish")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert {name for name, _ in row.which} == {"polygon_degrees", "file"}
    assert dict(row.which)["file"] == "monday.csv"
    both = left_of_each([row], first, second)
    assert len(both["monday.csv"]) == 14 and not both["tuesday.csv"]
    # Alone, and with another file, the map has another origin.
    assert left_of_each([row], first)["monday.csv"] == both["monday.csv"]
    third = write_log(tmp_path / "there.csv", -900.0)
    assert left_of_each([row], third, second, first)["monday.csv"] == both["monday.csv"]
    # One with soundings of several files is a row for each.
    (x0, y0), (x1, y1) = lower - 1, soundings.xy.max(0)
    edits.leave_out("polygon", f"{x0} {y0} {x1} {y0} {x1} {y1} {x0} {y1}", "Ann", "fish")
    rows = read_edits(tmp_path / "edits.csv")[1:]
    assert {dict(row.which)["file"] for row in rows} == {"monday.csv", "tuesday.csv"}


def test_a_line_of_a_column_belongs_to_its_file(tmp_path):
    first = write_log(tmp_path / "monday.csv")
    mapped(tmp_path / "out", first)
    Edits(tmp_path / "out").leave_out("line", "L2", "Ann", "double echoes")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert dict(row.which) == {"line": "L2", "file": "monday.csv"}
    second = write_log(tmp_path / "tuesday.csv", 3.0)
    assert left_of_each([row], second, first) == {
        "tuesday.csv": [],
        "monday.csv": list(range(80, 120)),
    }


def test_an_edit_of_files_of_one_name_names_the_path(tmp_path):
    (tmp_path / "boat2").mkdir()
    first = write_log(tmp_path / "log.csv")
    second = write_log(tmp_path / "boat2" / "log.csv", 300.0)
    mapped(tmp_path / "out", first, second)
    Edits(tmp_path / "out").leave_out("line", "L2", "Ann", "double echoes")
    rows = read_edits(tmp_path / "edits.csv")
    assert [dict(row.which)["file"] for row in rows] == [str(first), str(second)]
    assert left_of_each(rows[1:], second)["log.csv"] == list(range(80, 120))
    soundings = read_soundings([first, second]).with_lines()
    (part,) = exclude(soundings, rows[1:], [first, second]).left_out
    assert part.row.tolist() == list(range(240, 280))
    with pytest.raises(InputError, match=r"expected one file, got 'log.csv', which may be any of"):
        exclude(soundings, [read_option("file=log.csv")], [first, second])
    rest = exclude(soundings, [read_option("file=boat2/log.csv")], [first, second])
    assert set(rest.row) == set(range(160))


def test_a_line_found_in_the_track_is_stored_as_rows(tmp_path):
    first = write_log(tmp_path / "monday.csv", named=False)
    second = write_log(tmp_path / "tuesday.csv", 3.0, named=False)
    soundings = mapped(tmp_path / "out", first, second)
    code, names = soundings.labels["line"]
    Edits(tmp_path / "out").leave_out("line", names[code[-1]], "Ann", "double echoes")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert {name for name, _ in row.which} == {"row", "file"}
    own = left_of_each([row], second)["tuesday.csv"]
    assert own[-1] == 159 and len(own) == (code == code[-1]).sum() > 20
    assert left_of_each([row], first, second) == {"monday.csv": [], "tuesday.csv": own}


def test_areas_of_a_survey_in_metres_are_in_metres(tmp_path):
    path = tmp_path / "metres.csv"
    path.write_text("x,y,z\n" + "".join(f"{k % 40},{8 * (k // 40)},-{5 + k % 3}\n"
                                        for k in range(160)))  # fmt: skip
    mapped(tmp_path / "o", path)
    Edits(tmp_path / "o").leave_out("polygon", "-1 -1 3.5 -1 3.5 1 -1 1", "Ann", "fish")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert dict(row.which) == {"polygon": "-1 -1 3.5 -1 3.5 1 -1 1", "file": "metres.csv"}
    assert left_of_each([row], path)["metres.csv"] == [0, 1, 2, 3]
    assert read_table(tmp_path / "o" / "samples.csv")["row"][:3].tolist() == [0, 1, 2]
