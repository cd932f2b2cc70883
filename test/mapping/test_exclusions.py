"""What a person leaves out: --exclude, and edits.csv beside the log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.exclusions import exclude, needed, read_edits, read_option, with_lines
from poam_ros.mapping.soundings import Soundings

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
    return exclude(with_lines(read_soundings(log, options)), exclusions, [log])


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
    assert len(found.refused_pings) == len(rows)


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
    edits = (
        "who,when,why,line,row,file\n"
        'Ann,2026-01-02,"fish, a school",L1,12-25,log.csv\n'
        "Bo,2026-01-03,another survey,,5,other.csv\n"
    )
    found = left(log, edits=edits)
    assert set(found.left_out[0].row) == set(range(12, 20)) and "got 'other.csv'" in caplog.text
    fish, other = found.excluded
    assert fish.endswith("(edits.csv: fish, a school, Ann, 2026-01-02)") and other[:2] == "0 "


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
    ],
)
def test_invalid_edits_are_refused(log, edits, said):
    with pytest.raises(InputError, match=said):
        left(log, edits=edits)


def test_lines_found_in_the_track_keep_their_numbers(log):
    """What is left out does not renumber the lines that remain."""
    rows = [f"{x},{y},{-5 - x / 60}\n" for y in (0, 9, 18) for x in range(60)]
    log.write_text("x,y,z\n" + "".join(rows))
    whole = with_lines(read_soundings(log))
    names = whole.labels["line"].names
    rest = exclude(whole, [read_option(f"line={names[0]}")], [log])
    assert set(np.array(names)[rest.labels["line"].code]) == set(names[1:])


def test_rows_count_in_each_of_several_files(log):
    second = log.parent / "second.csv"
    second.write_text(TABLE.replace("2025-01", "2025-02"))
    exclusion = [read_option("row=39")]
    both = with_lines(read_soundings([log, second]))
    assert set(exclude(both, exclusion, [log, second]).left_out[0].row) == {39, 79}
    assert set(exclude(both, [read_option("file=second.csv")], [log, second]).row) == set(range(40))


def test_files_of_one_name_are_told_apart_by_more_of_their_paths(log):
    second = log.parent / "boat2" / log.name
    second.parent.mkdir()
    second.write_text(log.read_text().replace("2025-01", "2025-02"))
    both = with_lines(read_soundings([log, second]))
    with pytest.raises(InputError, match=r"expected one file, got 'log.csv', which may be any of"):
        exclude(both, [read_option("file=log.csv")], [log, second])
    rest = exclude(both, [read_option("file=boat2/log.csv")], [log, second])
    assert set(rest.row) == set(range(40))
