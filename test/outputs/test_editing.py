"""Soundings left out and taken back on the page, and the file that `poam map` applies."""

import numpy as np
import pytest
from view_folders import write_run

pytest.importorskip("bokeh")

from bokeh.document import Document
from bokeh.events import SelectionGeometry, Tap

from poam_ros.core.errors import InputError
from poam_ros.mapping.exclusions import Edits, exclude, read_edits
from poam_ros.mapping.soundings import Soundings
from poam_ros.outputs import folder as files
from poam_ros.outputs.chart import ExportSettings
from poam_ros.outputs.page import Page, document
from poam_ros.outputs.scene import FolderView


@pytest.fixture
def run(tmp_path):
    """A run of `poam map` over two lines of 20 soundings; the log is in a folder of its own."""
    (tmp_path / "logs").mkdir()
    log = tmp_path / "logs" / "lake.csv"
    log.write_text("")
    folder = write_run(tmp_path / "lake")
    place = np.linspace((1.0, 1.0), (29.0, 19.0), 40)
    line = np.repeat(["=A", "B"], 20)
    files.write_samples(folder / "samples.csv", place, np.full(40, -30.0), line)
    command = f"poam map {log} --output {folder}"
    files.write_config(folder / "config.yaml", {"log": str(log), "command": command})
    return folder


@pytest.fixture
def page(run):
    made = Page(Edits(run))
    made.show(FolderView(run, ExportSettings()).scene())
    document(made, "lake", Document())
    return made


def choose(page, **geometry):
    figure = page.picture.figure
    figure._trigger_event(
        SelectionGeometry(figure, geometry={"type": "rect", **geometry}, final=True)
    )


def press(button):
    from bokeh.events import ButtonClick

    button._trigger_event(ButtonClick(button))


def leave_out(page):
    page.editing.who.value, page.editing.why.value = "Ann", "a school\nof fish"
    press(page.editing.out)


def test_a_box_becomes_a_row_that_the_next_map_applies(page, run):
    choose(page, x0=0.0, x1=6.0, y0=0.0, y1=6.0)
    leave_out(page)
    (row,) = read_edits(run.parent / "logs" / "edits.csv")
    assert (row.who, row.why) == ("Ann", "a school of fish") and row.when.endswith("Z")
    table = files.read_table(run / "samples.csv")
    xy = np.column_stack((table["x"], table["y"]))
    log = run.parent / "logs" / "lake.csv"
    left = exclude(Soundings(np.arange(40), xy, table["z"], np.arange(40)), [row], [log])
    assert len(left) == (~(xy < 6).all(1)).sum() < 40
    assert "poam map " in page.editing.root.children[0].text


def test_a_tap_selects_the_whole_line(page, run):
    source = page.picture.drawn["pings"].data_source
    source.selected.indices = [3]
    page.picture.figure._trigger_event(Tap(page.picture.figure))
    assert source.selected.indices == list(range(20)) and "=A" in page.editing.out.label
    leave_out(page)
    (row,) = read_edits(run.parent / "logs" / "edits.csv")
    assert dict(row.which) == {"line": "=A", "file": "lake.csv"}, (
        "as it was, whatever a spreadsheet would make of it"
    )
    assert not source.selected.indices and page.editing.out.disabled


def test_a_row_is_taken_back_and_the_others_stay(page, run):
    path = run.parent / "logs" / "edits.csv"
    path.write_text("who,when,why,line,row\nBo,2026-01-03,noise,,3-5\n")
    choose(page, x0=0.0, x1=6.0, y0=0.0, y1=6.0)
    leave_out(page)
    assert len(page.editing.listed.options) == 2
    page.editing.listed.value = page.editing.listed.options[-1]
    press(page.editing.back)
    (row,) = read_edits(path)
    assert (row.who, row.which) == ("Bo", (("row", "3-5"),))


def test_without_a_reason_nothing_is_written(page, run):
    choose(page, x0=0.0, x1=6.0, y0=0.0, y1=6.0)
    page.editing.why.value = " "
    press(page.editing.out)
    assert "enter who" in page.editing.root.children[0].text
    assert not (run.parent / "logs" / "edits.csv").exists()


def test_a_broken_file_is_said_and_kept(page, run):
    path = run.parent / "logs" / "edits.csv"
    path.write_text("who,when\nBo,2026\n")
    choose(page, x0=0.0, x1=6.0, y0=0.0, y1=6.0)
    leave_out(page)
    assert "not done" in page.editing.root.children[0].text
    assert path.read_text() == "who,when\nBo,2026\n"


def test_a_full_disk_keeps_the_file_and_the_selection(page, run, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = run.parent / "logs" / "edits.csv"
    path.write_text("who,when,why,line,row\nBo,2026-01-03,noise,,3-5\n")
    before = path.read_text()
    choose(page, x0=0.0, x1=6.0, y0=0.0, y1=6.0)
    with monkeypatch.context() as disk:
        disk.setattr("os.fsync", full)
        leave_out(page)
    said = page.editing.root.children[0].text
    assert "No space left on device" in said and path.name in said
    assert path.read_text() == before and len(list(path.parent.iterdir())) == 2
    assert not page.editing.out.disabled
    leave_out(page)
    assert len(read_edits(path)) == 2


def test_only_a_map_of_a_log_can_be_edited(tmp_path):
    with pytest.raises(InputError, match="expected the log of `poam map`"):
        Edits(write_run(tmp_path / "lake"))
    assert Page().editing is None


def test_a_recorded_command_is_of_poam_map_and_quoted(run):
    config = {"log": "/no/such/log.csv"}
    for command, shown in {
        "poam map a.csv --output 'my lake'": "poam map a.csv --output 'my lake'",
        "poam map a.csv; rm -r ~": "poam map 'a.csv;' rm -r '~'",
        "curl example.org | sh": "poam map",
        "poam map 'a": "poam map",
    }.items():
        files.write_config(run / "config.yaml", config | {"command": command})
        assert Edits(run).command == shown
    assert Edits(run).path == run / "edits.csv"  # the log is gone
