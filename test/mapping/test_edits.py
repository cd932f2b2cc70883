"""Edits hold for the file that they were made of, whatever it is mapped with."""

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import map_grid
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings
from poam_ros.mapping.exclusions import Edits, exclude, read_edits, with_lines
from poam_ros.mapping.sounding_map import map_soundings
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.outputs.folder import read_table


def log(path, east=0.0, named=True):
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
    soundings = with_lines(read_soundings(list(logs)))
    workspace = soundings.workspace()
    grid = map_grid(workspace, 10.0)
    found = map_soundings(soundings, grid, workspace, SoundingMapSettings(stretches=0))
    found.write(out, logs[0])
    return soundings


def left(edits, *logs):
    """What is left out of each file: rows by its name."""
    soundings = with_lines(read_soundings(list(logs)))
    out = np.concatenate([part.row for part in exclude(soundings, edits, logs).left_out])
    begins = [first for _, first in soundings.files] or [0]
    ends = [*begins[1:], np.inf]
    return {
        path.name: sorted((out[(out >= begin) & (out < end)] - begin).tolist())
        for path, begin, end in zip(logs, begins, ends, strict=True)
    }


def test_an_area_is_stored_in_degrees_and_by_file(tmp_path):
    first, second = log(tmp_path / "monday.csv"), log(tmp_path / "tuesday.csv", 300.0)
    soundings = mapped(tmp_path / "out", first, second)
    edits = Edits(tmp_path / "out")
    lower = soundings.xy[:160].min(0)
    (x0, y0), (x1, y1) = lower - 1, lower + (10, 10)
    edits.leave_out("polygon", f"{x0} {y0} {x1} {y0} {x1} {y1} {x0} {y1}", "Ann", "fish")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert {name for name, _ in row.which} == {"polygon_degrees", "file"}
    assert dict(row.which)["file"] == "monday.csv"
    both = left([row], first, second)
    assert len(both["monday.csv"]) == 14 and not both["tuesday.csv"]
    # Alone, and with another file, the map has another origin.
    assert left([row], first)["monday.csv"] == both["monday.csv"]
    third = log(tmp_path / "there.csv", -900.0)
    assert left([row], third, second, first)["monday.csv"] == both["monday.csv"]


def test_an_area_of_several_files_is_a_row_for_each(tmp_path):
    first, second = log(tmp_path / "monday.csv"), log(tmp_path / "tuesday.csv", 3.0)
    soundings = mapped(tmp_path / "out", first, second)
    x, y = soundings.xy.mean(0)
    polygon = f"{x - 9} {y - 9} {x + 9} {y - 9} {x + 9} {y + 9} {x - 9} {y + 9}"
    Edits(tmp_path / "out").leave_out("polygon", polygon, "Ann", "fish")
    rows = read_edits(tmp_path / "edits.csv")
    assert {dict(row.which)["file"] for row in rows} == {"monday.csv", "tuesday.csv"}


def test_a_line_of_a_column_belongs_to_its_file(tmp_path):
    first = log(tmp_path / "monday.csv")
    mapped(tmp_path / "out", first)
    Edits(tmp_path / "out").leave_out("line", "L2", "Ann", "double echoes")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert dict(row.which) == {"line": "L2", "file": "monday.csv"}
    second = log(tmp_path / "tuesday.csv", 3.0)
    assert left([row], second, first) == {"tuesday.csv": [], "monday.csv": list(range(80, 120))}


def test_an_edit_of_files_of_one_name_names_the_path(tmp_path):
    (tmp_path / "boat2").mkdir()
    first = log(tmp_path / "log.csv")
    second = log(tmp_path / "boat2" / "log.csv", 300.0)
    mapped(tmp_path / "out", first, second)
    Edits(tmp_path / "out").leave_out("line", "L2", "Ann", "double echoes")
    rows = read_edits(tmp_path / "edits.csv")
    assert [dict(row.which)["file"] for row in rows] == [str(first), str(second)]
    assert left(rows[1:], second)["log.csv"] == list(range(80, 120))
    soundings = with_lines(read_soundings([first, second]))
    (part,) = exclude(soundings, rows[1:], [first, second]).left_out
    assert part.row.tolist() == list(range(240, 280))


def test_a_line_found_in_the_track_is_stored_as_rows(tmp_path):
    first = log(tmp_path / "monday.csv", named=False)
    second = log(tmp_path / "tuesday.csv", 3.0, named=False)
    soundings = mapped(tmp_path / "out", first, second)
    code, names = soundings.labels["line"]
    Edits(tmp_path / "out").leave_out("line", names[code[-1]], "Ann", "double echoes")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert {name for name, _ in row.which} == {"row", "file"}
    own = left([row], second)["tuesday.csv"]
    assert own[-1] == 159 and len(own) == (code == code[-1]).sum() > 20
    assert left([row], first, second) == {"monday.csv": [], "tuesday.csv": own}


def test_an_edit_of_another_file_does_not_stop_a_map(tmp_path, caplog):
    """Whatever columns it has that this one lacks."""
    (tmp_path / "edits.csv").write_text(
        "who,when,why,file,boat\nAnn,,fish,other.csv,Dory\nBo,,fish,monday.csv,Dory\n"
    )
    other, own = read_edits(tmp_path / "edits.csv")
    first = log(tmp_path / "monday.csv")
    soundings = with_lines(read_soundings(first))
    assert len(exclude(soundings, [other], [first])) == 160 and "got 'other.csv'" in caplog.text
    with pytest.raises(InputError, match="expected a column of the log"):
        exclude(soundings, [own], [first])


@pytest.mark.parametrize("polygon", ["50 10 51 10", "50 10 51 x 50 11"])
def test_a_polygon_in_degrees_has_three_corners(tmp_path, polygon):
    (tmp_path / "edits.csv").write_text(f"who,when,why,polygon_degrees\nAnn,,fish,{polygon}\n")
    soundings = read_soundings(log(tmp_path / "monday.csv"))
    with pytest.raises(InputError, match="expected a polygon_degrees as latitude1 longitude1"):
        exclude(soundings, read_edits(tmp_path / "edits.csv"), [tmp_path / "monday.csv"])


def test_degrees_need_a_place_on_the_earth(tmp_path):
    path = tmp_path / "metres.csv"
    path.write_text("x,y,z\n0,0,-5\n1,0,-5\n")
    (tmp_path / "edits.csv").write_text(
        "who,when,why,polygon_degrees\nAnn,,fish,50 10 51 10 50 11\n"
    )
    with pytest.raises(InputError, match="place on the Earth is known, got metres"):
        exclude(read_soundings(path), read_edits(tmp_path / "edits.csv"), [path])


def test_areas_of_a_survey_in_metres_are_in_metres(tmp_path):
    path = tmp_path / "metres.csv"
    path.write_text("x,y,z\n" + "".join(f"{k % 40},{8 * (k // 40)},-{5 + k % 3}\n"
                                        for k in range(160)))  # fmt: skip
    soundings = with_lines(read_soundings(path, ReadOptions()))
    workspace = soundings.workspace()
    settings = SoundingMapSettings(stretches=0)
    found = map_soundings(soundings, map_grid(workspace, 10.0), workspace, settings)
    found.write(tmp_path / "o", path)
    Edits(tmp_path / "o").leave_out("polygon", "-1 -1 3.5 -1 3.5 1 -1 1", "Ann", "fish")
    (row,) = read_edits(tmp_path / "edits.csv")
    assert dict(row.which) == {"polygon": "-1 -1 3.5 -1 3.5 1 -1 1", "file": "metres.csv"}
    assert left([row], path)["metres.csv"] == [0, 1, 2, 3]
    assert read_table(tmp_path / "o" / "samples.csv")["row"][:3].tolist() == [0, 1, 2]
