"""A mission's own log, mapped again: as it was, as it was recorded, or by what is known today."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from kept import Kept, settings
from read_only import read_only

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.frontend.events import ResetRequested
from poam_ros.frontend.refused_pings import RefusedPings
from poam_ros.importers.journals import placed_as_recorded, soundings_of_mission
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import is_journal
from poam_ros.journal.interface import UPDATE
from poam_ros.journal.reader import read_mission
from poam_ros.journal.tables import read_pings
from poam_ros.learning.create import recovery_message
from poam_ros.mapping.drawing import predict
from poam_ros.mapping.sounding_map import learn
from poam_ros.mapping.soundings import SoundingMapSettings, Soundings
from poam_ros.models.registry import ModelSettings
from poam_ros.outputs.folder import read_map, read_table
from poam_ros.outputs.view.folders import _pings
from poam_ros.screening.settings import ScreeningSettings

AT = np.random.default_rng(0).uniform(-30, 30, (200, 2))


class Mission:
    """A folder, the map that its mapper had at the end, and its workspace and model."""

    def __init__(self, folder, **changed):
        kept = Kept(folder, **changed).mapped(steps=3)
        self.folder, self.lived, self.samples = folder, kept.map, kept.session.all_samples()
        kept.close()
        values = settings(folder, **changed)
        self.workspace = Extent.of(values["workspace"])
        screening = ScreeningSettings(enabled=False)
        self.how = SoundingMapSettings(model=ModelSettings.of(values), screening=screening)

    def map(self, soundings):
        found = predict(learn(soundings, self.workspace, self.how)[0], AT)
        return np.stack((found.mean, found.variance))


@pytest.fixture(scope="module")
def mission(tmp_path_factory):
    return Mission(tmp_path_factory.mktemp("mission") / "m")


@pytest.fixture(scope="module")
def past(mission):
    return read_mission(mission.folder)


def test_the_log_alone_gives_the_same_map(mission, past):
    soundings = soundings_of_mission(past)
    kinds = [step.kind for step in soundings.steps]
    assert kinds.count(UPDATE) == 4
    np.testing.assert_array_equal(soundings.z, mission.samples.z)
    np.testing.assert_allclose(mission.map(soundings), mission.lived, rtol=0, atol=1e-9)
    # Without what the log says of the training it would be another.
    other = mission.map(replace(soundings, steps=None))
    assert np.abs(other - mission.lived).max() > 1e-3


def test_a_recording_says_where_and_the_log_which(mission, past):
    """The recording lacks a ping, has some more, and has all of them 2 m higher, 0.05 s later."""
    taken = mission.samples[np.arange(1, len(mission.samples))]
    more = replace(taken[:4], stamp_ns=taken.stamp_ns[:4] - 10**12)
    heard = replace(taken, z=taken.z + 2, stamp_ns=taken.stamp_ns + 5 * 10**7)
    both = [more, heard]
    recorded = Soundings.of(type(taken).joined(both))
    found, agreed = placed_as_recorded(past, recorded, later_ns=5 * 10**7)
    assert (agreed.shared, agreed.missing, agreed.beyond) == (len(taken), 1, 4)
    assert agreed.farthest == pytest.approx(2) and found.refused == {"not_in_the_mission": 4}
    assert [row.stamp_ns for row in found.refused_pings.rows] == more.stamp_ns.tolist()
    np.testing.assert_array_equal(found.refused_pings.xyz, np.column_stack((more.xy, more.z)))
    np.testing.assert_allclose(found.z - mission.samples.z, [0, *[2] * len(taken)])
    np.testing.assert_array_equal(found.pings.number, mission.samples.number)
    with pytest.raises(InputError, match="expected the journal of the recorded mission; none of"):
        placed_as_recorded(past, recorded)


def test_refused_pings_of_the_log_come_with_it(past):
    """Whose elevations nobody can correct."""
    known = RefusedPings.none().more("paused", np.array([7]), np.array([[1.0, 2.0, -3.0]]))
    refusing = replace(past, logged=replace(past.logged, refused=known))
    assert soundings_of_mission(refusing).refused_pings is known
    (other,) = soundings_of_mission(refusing, water_level=1.0).refused_pings.rows
    assert other[:5] == ("paused", 0, 7, 1.0, 2.0) and np.isnan(other.z)


def test_water_and_sound_are_applied_anew(mission, past):
    higher = soundings_of_mission(past, water_level=2.0)
    np.testing.assert_allclose(higher.z, mission.samples.z + 2)
    moved = mission.map(higher) - mission.lived
    np.testing.assert_allclose(moved[0], 2.0, atol=1e-6)  # each step done again, on other heights
    np.testing.assert_allclose(moved[1], 0.0, atol=1e-6)
    slower = soundings_of_mission(past, sound_speed=1470.0)
    np.testing.assert_allclose(slower.z, mission.samples.z + 0.02 * mission.samples.range)
    unknown = replace(past.logged.samples, range=np.full(len(higher), np.nan))
    older = replace(past, logged=replace(past.logged, samples=unknown))
    with pytest.raises(InputError, match="cannot be corrected: ranges or corrections"):
        soundings_of_mission(older, sound_speed=1470.0)


def test_a_part_is_learned_anew_in_the_mission_s_batches(mission, past):
    soundings = soundings_of_mission(past)
    first = int(soundings.stamp_ns.min())
    part = soundings.between(0.0, (int(soundings.stamp_ns[-1]) - first) / 1e9 - 1.0)
    assert part.steps is None and len(part) == len(soundings) - 10
    assert [b.stop for b in part.batches(mission.how)] == [40, 60, 81, 93]
    assert mission.map(part).shape == (2, 200)


def test_after_a_reset_the_newest_is_meant(tmp_path):
    kept = Kept(tmp_path / "m").mapped(steps=0)
    kept.session.handle(ResetRequested(), kept.now)
    kept.work()
    kept.drive(45)
    kept.work().close()
    newest = read_mission(tmp_path / "m")
    assert newest.path.parent.name == "reset-001" and len(newest.logged.samples) == 45
    assert len(read_mission(tmp_path / "m" / "pings.sqlite").logged.samples) == 40


@pytest.mark.parametrize("begun", ["nothing", "a folder", "a file", "a log"])
def test_a_reset_without_pings_says_where_those_before_are(mission, tmp_path, capsys, begun):
    """Cut short after the end of the old log and before the new one has begun; or just over."""
    folder = shutil.copytree(mission.folder, tmp_path / "m")
    if begun == "a log":
        kept = Kept(folder)
        kept.session.handle(ResetRequested(), kept.now)
        kept.work().close()
    else:
        log = JournalDatabase(folder / "pings.sqlite", {}).begin()
        log.end(0, "reset-001")
        log.close()
        new = folder / "reset-001"
        if begun != "nothing":
            new.mkdir()
        if begun == "a file":
            with closing(sqlite3.connect(new / "pings.sqlite")) as log:
                log.execute("PRAGMA journal_mode = WAL")
    found = read_mission(folder)
    where = folder / "reset-001"
    assert found.path == where / "pings.sqlite" and found.successor is None
    assert not len(found.logged.samples) and found.settings["method"] == "nngp"
    assert main(["map", str(folder), "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "expected pings, got none since the reset" in error
    before = Path(error.rpartition("poam map ")[2].strip())
    assert len(read_mission(before).logged.samples) == len(mission.samples)
    kept = Kept(folder)
    assert recovery_message(kept.session) == f"recovering after a reset: no pings so far in {where}"
    kept.drive(3)
    kept.close()
    assert len(read_mission(folder).logged.samples) == 3
    kept = Kept(folder)
    assert recovery_message(kept.session) == f"recovering 3 pings from {where}"
    kept.close()


@pytest.mark.parametrize("cut", [False, True])
def test_a_log_on_a_disk_that_cannot_be_written_is_read(mission, tmp_path, cut):
    """Also where a mapper was killed, and left what it had written ahead beside the log."""
    folder = shutil.copytree(mission.folder, tmp_path / "m")
    log = folder / "pings.sqlite"
    if cut:
        with closing(sqlite3.connect(log, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("DELETE FROM updates")
            for file in folder.glob("pings.sqlite*"):
                shutil.copy(file, tmp_path / file.name)
        (folder / "pings.journal").unlink()  # as a version before left it
        for name in ("pings.sqlite", "pings.sqlite-wal"):
            shutil.copy(tmp_path / name, folder / name)
        assert (folder / "pings.sqlite-wal").stat().st_size
    with read_only(folder) as there:
        found, before = read_mission(there), sorted(there.iterdir())
        assert len(found.logged.samples) == len(mission.samples)
        assert bool(found.logged.steps) != cut
        soundings, names = soundings_of_mission(found), {path.name for path in before}
        assert len(_pings(there)) == len(soundings)
        assert {path.name for path in there.iterdir()} == names
        # What was written ahead lies beside the file, wherever the link to it is.
        (link := Path(gettempdir()) / f"{there.name}.sqlite").symlink_to(there / log.name)
        try:
            assert bool(read_mission(link).logged.steps) != cut
        finally:
            link.unlink()
    np.testing.assert_array_equal(soundings.z, mission.samples.z)


def test_a_log_that_is_written_meanwhile_is_read_as_it_was_at_one_moment(tmp_path, monkeypatch):
    kept = Kept(tmp_path / "m").mapped(steps=0)

    def read_while_it_is_written(db):
        found = read_pings(db)
        kept.drive(20)
        kept.work()
        kept.close()  # all is on the disk then
        return found

    monkeypatch.setattr("poam_ros.journal.tables.read_pings", read_while_it_is_written)
    past = read_mission(tmp_path / "m").logged
    monkeypatch.undo()
    assert len(past.samples) == 40 and past.steps[-1].last == 39
    later = read_mission(tmp_path / "m").logged
    assert len(later.samples) == 60 and later.steps[-1].last == 59


def test_pings_that_waited_when_it_was_cut_off_are_a_last_batch(tmp_path):
    kept = Kept(tmp_path / "m").mapped(steps=0)
    kept.drive(7)
    kept.close()
    soundings = soundings_of_mission(read_mission(tmp_path / "m"))
    how = SoundingMapSettings(model=ModelSettings.of(settings("")))
    mapper, *_ = learn(soundings, Extent.of(settings("")["workspace"]), how)
    assert mapper.samples == 47


@pytest.mark.parametrize("name", ["none.sqlite", "empty.sqlite", "other.sqlite"])
def test_what_is_no_log_is_said(tmp_path, name):
    path = tmp_path / name
    if name != "none.sqlite":
        path.write_bytes(b"" if name == "empty.sqlite" else b"something else, and long enough" * 9)
    assert is_journal(path)
    with pytest.raises(InputError, match=f"{name}: expected a mission's (journal|tables)"):
        read_mission(path)


@pytest.mark.usefixtures("no_figures")
def test_a_mission_s_folder_on_the_command_line(mission, tmp_path, capsys):
    """Model, workspace and cell size are the mission's; what is said anew makes another map."""
    log, out = str(mission.folder), tmp_path / "out"
    assert main(["map", log, "--output", str(out)]) == 0
    said = capsys.readouterr().out
    assert ": 103 accepted pings, " in said and "103 soundings in the map" in said
    drawn = read_map(out / "map.npz")
    assert drawn.grid.x[1] - drawn.grid.x[0] == 6.0
    assert drawn.grid.borders.bounds == pytest.approx(mission.workspace.bounds, abs=6.0)
    z = read_table(out / "samples.csv", ("z",))["z"]
    np.testing.assert_allclose(z, mission.samples.z, rtol=0, atol=5e-4)
    level = ["--water-level", "1", "--output", str(out)]
    assert main(["map", log, *level]) == 0
    np.testing.assert_allclose(read_map(out / "map.npz").mean, drawn.mean + 1, atol=1e-6)
    lines = ["--set", "nngp.first_steps=25", "--by", "line", "--hold-out", "0.2"]
    assert main(["map", log, *lines, *level]) == 0
    said = capsys.readouterr().out
    assert "so these results are too good" not in said and "lines found in the track" in said
    for options, words in (
        (["--set", "sonar.tilt=0.1 0"], "sonar.tilt: for recordings only"),
        (["--by", "leg", "--folds", "2"], "--by: expected line (lines found in the track), as "),
        (["--margin", "5"], "--margin: not allowed with a mission"),
    ):
        assert main(["map", log, *options]) == 2
        assert words in capsys.readouterr().err
