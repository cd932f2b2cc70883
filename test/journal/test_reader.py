"""A mission's journal: after resets, on disks that cannot be written, and while it grows."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from kept import Kept
from read_only import read_only

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.importers.journals import soundings_of_mission
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import is_journal, read_mission
from poam_ros.journal.tables import create_tables, read_pings
from poam_ros.learning.create import recovery_message
from poam_ros.outputs.view.scene import _pings


class Mission:
    """A folder, and the samples of its mission."""

    def __init__(self, folder):
        kept = Kept(folder).mapped(steps=3)
        self.folder, self.samples = folder, kept.session.all_samples()
        kept.close()


@pytest.fixture(scope="module")
def mission(tmp_path_factory):
    return Mission(tmp_path_factory.mktemp("mission") / "m")


def test_after_a_reset_the_newest_is_meant(tmp_path):
    kept = Kept(tmp_path / "m").mapped(steps=0)
    kept.session.reset(kept.now.ros_ns)
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
        kept.session.reset(kept.now.ros_ns)
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


@pytest.mark.parametrize("name", ["none.sqlite", "empty.sqlite", "other.sqlite"])
def test_what_is_no_log_is_said(tmp_path, name):
    path = tmp_path / name
    if name != "none.sqlite":
        path.write_bytes(b"" if name == "empty.sqlite" else b"something else, and long enough" * 9)
    assert is_journal(path)
    with pytest.raises(InputError, match=f"{name}: expected a mission's (journal|tables)"):
        read_mission(path)


def write_tables(folder, settings, mapper):
    """Tables as another program may write them, without a journal beside them."""
    with closing(sqlite3.connect(folder / "pings.sqlite")) as db:
        create_tables(db)
        db.execute("INSERT INTO chain VALUES (1, '')")
        for name, values in (("settings", settings), ("mapper", mapper)):
            text = values if isinstance(values, str) else json.dumps(values)
            db.execute("INSERT INTO mission VALUES (?, ?)", (name, text))
        db.commit()
    return folder / "pings.sqlite"


@pytest.mark.parametrize(
    ("settings", "mapper", "words"),
    [
        ("x", {}, "expected the settings of a mission"),
        ("[" * 200_000, {}, "nested too deep"),
        ([], {}, "no values in settings"),
        ({"method": "nngp"}, {}, "got no workspace"),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path, capsys, settings, mapper, words):
    path = write_tables(tmp_path, settings, mapper)
    with pytest.raises(InputError, match=words):
        read_mission(tmp_path)
    if not isinstance(settings, dict):
        with pytest.raises(InputError, match=words):
            JournalDatabase(path, {})
    assert main(["map", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
