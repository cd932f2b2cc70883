"""The page as a document: built from a folder, then updated with changes."""

import json
import os
import re
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
from view_folders import drawn, write_run

pytest.importorskip("bokeh")

from poam_ros.core.errors import InputError
from poam_ros.core.samples import Samples
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.journal.database import JournalDatabase
from poam_ros.mapping.soundings import time_text
from poam_ros.mission.states import Status
from poam_ros.outputs import folder as files
from poam_ros.outputs import scene as scenes
from poam_ros.outputs.chart import ExportSettings, clock_time
from poam_ros.outputs.crossings import CrossingTable
from poam_ros.outputs.folder import save
from poam_ros.outputs.page import Page, document, standalone
from poam_ros.outputs.run import Run, write_refused
from poam_ros.outputs.scene import BAD, FolderView, Notice, Scene

#: What every journal knows of its mission.
MISSION = {"settings": {"method": "nngp", "workspace": [0, 9, 0, 9]}}


@pytest.fixture
def page():
    return Page()


def said(page, name):
    part = page.root.select_one({"name": name})
    return part.text if part.visible else ""


def test_a_folder_becomes_a_page(page, tmp_path):
    view = FolderView(write_run(tmp_path / "lake"), ExportSettings())
    page.show(view.scene())
    cells = page.picture.cells.data
    np.testing.assert_array_equal(cells["height"][0], drawn().mean.astype("f4"))
    np.testing.assert_array_equal(cells["sigma"][0], np.float32(0.25))
    assert (cells["x"][0], cells["y"][0], cells["width"][0], cells["height_m"][0]) == (0, 0, 30, 20)
    assert page.picture.buttons.labels[0] == "Elevation (m)" and page.picture.buttons.active == 0
    assert len(page.picture.drawn["pings"].data_source.data["x"]) == 40
    assert "Bathymetry of lake" in said(page, "head") and "map of 40 pings" in said(page, "head")
    assert "-60.00 to -0.10 m" in said(page, "numbers")
    assert "Order 1b 100.0 %" in said(page, "numbers")
    assert "&lt;i&gt;steep&lt;/i&gt;" in said(page, "provenance") and not said(page, "waiting")


def test_a_new_map_changes_the_data_and_nothing_else(page, tmp_path):
    view = FolderView(write_run(tmp_path), ExportSettings())
    page.show(view.scene())
    changed = []
    document(page, "lake").on_change(lambda event: changed.append(event))
    assert view.scene() is view.scene()
    page.show(view.scene())
    page.picture.show(view.scene())  # as where only the state of the mission is new
    assert not changed, "nothing is sent while nothing is new"
    page.picture.buttons.active = 1
    files.write_map(tmp_path / "map.npz", drawn(offset=500.0))
    page.show(view.scene())
    assert page.picture.cells.data["height"][0][0, 0] == 440.0
    assert page.picture.buttons.active == 1, "the layer that somebody chose stays"


def test_before_the_first_map_the_pings_are_shown(page, tmp_path):
    """A mission with a journal and no map yet."""
    view = FolderView(tmp_path, ExportSettings())
    page.show(view.scene())
    assert "waiting for the first map: no map.npz in" in said(page, "waiting")
    assert not page.picture.figure.visible
    log = JournalDatabase(tmp_path / "pings.sqlite", MISSION).begin()
    accepted = Samples.of(np.array([[1.5, 1.0], [2.5, 1.0]]), np.full(2, -3.0))
    log.append([accepted], [], 0)
    log.close()
    page.show(view.scene())
    assert "2 pings so far" in said(page, "waiting") and page.picture.figure.visible
    assert page.picture.drawn["pings"].data_source.data["x"].tolist() == [1.5, 2.5]
    write_run(tmp_path)
    page.show(view.scene())
    assert not said(page, "waiting") and page.picture.buttons.labels


def test_the_newest_map_saved_during_a_mission_is_shown(page, tmp_path):
    """Among a journal that goes on, and the results of an earlier life of the mission."""
    write_run(tmp_path)
    earlier = tmp_path / "map.npz"
    os.utime(earlier, ns=(0, 0))
    view = FolderView(tmp_path, ExportSettings())
    page.show(view.scene())
    log = JournalDatabase(tmp_path / "pings.sqlite", MISSION).begin()
    places = np.column_stack((np.linspace(1, 9, 90), np.full(90, 2.0)))
    pings = Samples.of(places, np.full(90, -3.0))
    log.append([pings], [], 0)
    config = {"nodes": {"mapper": {"water.level": 2.5}}}
    for offset, count in ((100.0, 30), (300.0, 60)):
        later = replace(drawn(offset=offset), samples=count)
        save(tmp_path, later, pings, config)
        page.show(view.scene())
        assert page.picture.cells.data["height"][0][0, 0] == offset - 60
        assert len(page.picture.drawn["pings"].data_source.data["x"]) == 90, (
            "also those after the map"
        )
    assert f"Bathymetry of {tmp_path.name}" in said(page, "head")
    run = Run.open(tmp_path, live=True)
    assert len(run.xy) == 60 and run.home.name == "map-002-60-samples"
    assert Run.open(tmp_path).drawn.mean[0, 0] == -60.0, "exports have the results"
    log.close()
    files.write_map(earlier, drawn(offset=500.0))  # the mission ends
    page.show(view.scene())
    assert page.picture.cells.data["height"][0][0, 0] == 440.0
    assert len(page.picture.drawn["pings"].data_source.data["x"]) == 40


def test_settings_of_a_saved_map_hold_until_the_mission_has_its_own(tmp_path):
    save(tmp_path, drawn(), Samples.of(np.zeros((40, 2)), np.zeros(40)),
        {"nodes": {"mapper": {"water.level": 2.5}}})  # fmt: skip
    assert Run.open(tmp_path, live=True).water_level == 2.5


def echoes():
    """Two false echoes, one of them without elevation, and a ping without a place."""
    nan, later = np.nan, 1_700_000_000 * 10**9
    known = RefusedPings.none().more(
        "false_echo", np.array([later, later + 10**9]), np.array([[3.0, 4.0, -9.125], [5, 6, nan]])
    )
    return known.more("no_odometry", np.array([0]), np.full((1, 3), nan))


def test_refused_pings_of_a_journal_are_drawn_with_their_reasons(page, tmp_path):
    log = JournalDatabase(tmp_path / "pings.sqlite", MISSION).begin()
    log.append([], [], 0, refused=echoes().rows)
    log.close()
    for folder in (tmp_path, write_run(tmp_path)):  # before the first map, and with one
        page.show(FolderView(folder, ExportSettings()).scene())
        found = page.picture.drawn["refused"].data_source.data
        assert list(found["x"]) == [3.0, 5.0] and list(found["y"]) == [4.0, 6.0]
        assert list(found["reason"]) == ["false_echo", "false_echo"]
        assert found["height"] == ["elevation -9.12 m", "no elevation"]
        assert found["time"] == ["2023-11-14T22:13:20Z", "2023-11-14T22:13:21Z"]
        assert "3 pings refused: 2 false_echo, 1 no_odometry" in said(page, "remarks")
        assert "2 of them are drawn" in said(page, "remarks")
    item = next(i for i in page.picture.figure.legend[0].items if i.label.value == "pings refused")
    assert item.visible and page.picture.figure.legend[0].click_policy == "hide"
    assert item.renderers[0].visible
    # However far away they are, the map is what is shown at first.
    assert item.renderers[0] not in page.picture.figure.x_range.renderers
    assert item.renderers[0] not in page.picture.figure.y_range.renderers
    view = FolderView(tmp_path, ExportSettings(depth=True, water_level=2.0))
    page.show(view.scene())
    assert page.picture.drawn["refused"].data_source.data["height"] == ["depth 11.12 m", "no depth"]


def test_pings_that_were_all_refused_are_shown_alone(page, tmp_path):
    """Their places are still of interest."""
    view = FolderView(tmp_path, ExportSettings())
    page.show(view.scene())
    write_refused(tmp_path, echoes())
    figure, drawn = page.picture.figure, page.picture.drawn["refused"].data_source
    page.show(view.scene())
    item = next(i for i in figure.legend[0].items if i.label.value == "pings refused")
    assert figure.visible and len(drawn.data["x"]) == 2
    for side in (figure.x_range, figure.y_range):
        assert item.renderers[0] in side.renderers
    page.show(FolderView(write_run(tmp_path), ExportSettings()).scene())
    assert item.renderers[0] not in figure.x_range.renderers


def test_refused_pings_of_a_run_without_a_journal_are_drawn(page, tmp_path):
    """With a georeference, in its coordinates."""
    write_refused(write_run(tmp_path), echoes())
    page.show(FolderView(tmp_path, ExportSettings()).scene())
    found = page.picture.drawn["refused"].data_source.data
    assert list(found["x"]) == [3.0, 5.0] and list(found["reason"]) == ["false_echo"] * 2
    turned = ExportSettings(origin=(17.5, -91.2), heading=90.0)
    page.show(FolderView(tmp_path, turned).scene())
    found = page.picture.drawn["refused"].data_source.data
    np.testing.assert_allclose(found["x"], [4.0, 6.0], atol=0.01)
    np.testing.assert_allclose(found["y"], [-3.0, -5.0], atol=0.01)
    # Odometry was wild, and the ping out of the workspace: the rest is where it is all the same.
    wild = np.array([(1e9, 0.0, -3.0), (0.0, 1e12, -3.0)])
    write_refused(tmp_path, echoes().more("outside_workspace", np.array([7, 8]), wild))
    page.show(FolderView(tmp_path, replace(turned, crs="UTM")).scene())
    found = page.picture.drawn["refused"].data_source.data
    assert len(found["x"]) == 2 and (np.abs(found["x"] - 691_110) < 50).all()
    (tmp_path / "refused.csv").write_text("torn\n")
    page.show(FolderView(tmp_path, ExportSettings()).scene())
    assert "refused.csv: expected a table with columns reason" in said(page, "remarks")


def test_a_journal_that_is_being_written_is_followed(tmp_path, monkeypatch):
    """Commits stay in the write-ahead log for long, while the database file does not change."""
    monkeypatch.setattr(scenes, "AHEAD_S", 0.0)
    log, known = JournalDatabase(tmp_path / "pings.sqlite", MISSION).begin(), echoes()
    view = FolderView(tmp_path, ExportSettings())
    for count in (1, 2, 3):
        log.append([], [], 0, refused=known.rows[count - 1 : count])
        scene = view.scene()
        assert len(scene.refused) == count
        assert view.scene() is scene, "nothing is read while nothing is new"
    log.close()
    assert view.scene().refused.counts == known.counts


@pytest.mark.parametrize("row", ["nan,none,1,1,2,3", "nan,0,1e99,1,2,3", f"nan,0,{10**19},1,2,3"])
def test_a_broken_list_of_refused_pings_is_reported(page, tmp_path, row):
    write_run(tmp_path)
    (tmp_path / "refused.csv").write_text(f"reason,number,stamp_ns,x,y,z\n{row}\n")
    page.show(FolderView(tmp_path, ExportSettings()).scene())
    assert "refused.csv: expected numbers in all columns but reason" in said(page, "remarks")


def test_a_broken_map_is_reported_and_the_last_good_one_stays(page, tmp_path):
    view = FolderView(write_run(tmp_path), ExportSettings())
    page.show(view.scene())
    (tmp_path / "map.npz").write_bytes(b"torn")
    page.show(view.scene())
    assert "expected a map.npz" in said(page, "remarks")
    assert page.picture.cells.data["height"][0].shape == (20, 30) and not said(page, "waiting")
    shutil.rmtree(tmp_path)
    with pytest.raises(InputError, match="expected the folder of a run or mission"):
        FolderView(tmp_path, ExportSettings())


@pytest.mark.parametrize("before", [True, False])
def test_a_broken_configuration_is_reported(page, tmp_path, before):
    """It has the title: the last one stays, or the folder's name is one."""
    folder = write_run(tmp_path / "map-lake")
    files.write_config(folder / "config.yaml", {"title": "Lake One"})
    view = FolderView(folder, ExportSettings())
    if before:
        assert view.scene().title == "Lake One"
    (folder / "config.yaml").write_text("title: [")
    scene = view.scene()
    assert scene.title == ("Lake One" if before else "Bathymetry of lake")
    page.show(scene)
    assert "config.yaml" in said(page, "remarks")


def test_external_text_is_escaped(page):
    """Titles and remarks come from files."""
    evil = "<img src=x onerror=alert(1)>"
    remark = Notice(evil, evil, BAD)
    scene = Scene(evil, waiting=evil, remarks=(remark,))
    page.show(scene)
    for name in ("head", "waiting", "remarks"):
        assert "<img" not in said(page, name) and "&lt;img" in said(page, name)
    text = standalone(scene)
    assert "<img" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("depth", [False, True])
def test_the_deepest_is_at_the_bottom_of_the_colour_bar(page, tmp_path, depth):
    settings = ExportSettings(depth=depth)
    page.show(FolderView(write_run(tmp_path / "lake"), settings).scene())
    bar = page.picture._bars["height"].color_mapper
    image = page.picture._images["height"].glyph.color_mapper
    assert (bar.low, bar.high) == pytest.approx((-60.0, -0.1))
    assert bar.palette == (image.palette[::-1] if depth else image.palette)
    assert (image.high == 60.0) is depth


def test_many_marks_are_small(page, tmp_path):
    folder = write_run(tmp_path / "lake")
    places = np.full((900, 3), 5.0)
    sizes = []
    for count in (9, 900):
        refused = echoes().more("too_close", np.arange(1, 1 + count), places[:count])
        write_refused(folder, refused)
        page.show(FolderView(folder, ExportSettings()).scene())
        sizes.append(page.picture.drawn["refused"].glyph.size)
    assert sizes == [8.0, 4.0]


def test_crossings_are_a_layer_that_is_off_at_first(page, tmp_path):
    names = np.array([["L1", "L7"]], dtype=object)
    where, depth = np.array([[2.0, 3.0]]), np.array([[4.0, 4.25]])
    table = CrossingTable(names, names, where, np.array([0.25]), depth, np.array([False]))
    table.write(write_run(tmp_path))
    page.show(FolderView(tmp_path, ExportSettings()).scene())
    data = page.picture.drawn["crossings"].data_source.data
    assert (list(data["x"]), list(data["y"])) == ([2.0], [3.0])
    assert (data["lines"], data["difference"]) == (["L1 across L7"], ["+0.25"])
    item = next(i for i in page.picture.figure.legend[0].items if i.label.value == "crossings")
    assert item.visible and not item.renderers[0].visible
    (tmp_path / "crossings.csv").unlink()
    page.show(FolderView(tmp_path, ExportSettings()).scene())
    assert not len(page.picture.drawn["crossings"].data_source.data["x"]) and not item.visible


@pytest.mark.parametrize(("count", "drawn"), [(1500, 1500), (45_000, 15_000)])
def test_all_refused_soundings_of_a_log_are_drawn_or_every_nth(page, tmp_path, count, drawn):
    folder = write_run(tmp_path / "lake")
    places = np.column_stack((np.linspace(0, 30, count), np.full((count, 2), 5.0)))
    stamps = 10**18 + 10**9 * np.arange(1, count + 1)
    rows = [(time_text(int(t)), *xyz, "too_close") for t, xyz in zip(stamps, places, strict=True)]
    rows.append(("", 1.0, 2.0, 3.0, "held_out"))
    files.write_table(folder / files.LEFT_OUT, ("time", "x", "y", "z", "reason"), rows)
    page.show(FolderView(folder, ExportSettings()).scene())
    found = page.picture.drawn["refused"].data_source.data
    own = np.asarray(found["reason"]) == "too_close"
    assert abs(own.sum() - drawn) <= 1 and not (np.asarray(found["reason"]) == "held_out").any()
    assert found["x"][own].min() < 0.1 and found["x"][own].max() > 29.9
    own_times = np.asarray(found["time"])[own]
    assert set(own_times) <= set(map(clock_time, stamps.tolist())) and len(set(own_times)) > 1400
    assert f"{count:,} too_close" in said(page, "remarks")
    assert "newest" not in said(page, "remarks")


def test_a_mission_s_state_is_told(tmp_path):
    """As the planner writes it into the same folder; anything else there is not."""
    view = FolderView(write_run(tmp_path), ExportSettings())
    before = view.scene()
    for text in ("none", "{}", '{"status": {"state": "flying"}}'):
        (tmp_path / "mission.json").write_text(text)
        assert view.scene() is before
    for status, mark in (
        (Status("returning", "enough", ended=("spent", "enough")), "good"),
        (Status("paused", "", (("guard", "the fence"),), "returning"), "note"),
    ):
        (tmp_path / "mission.json").write_text(json.dumps({"status": asdict(status)}))
        scene = view.scene()
        first, *others = scene.remarks
        assert (first.text, first.mark) == (f"the mission is {status.state}", mark)
        assert first.advice == status.text and others == list(before.remarks)
        assert view.scene() is scene
