"""The mission folder: what is read of it, and what is refused without changing it."""

import hashlib
import json
import math
import os
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import gettempdir

import numpy as np
import pytest
from kept import SMALL, Kept, rows, settings
from read_only import read_only

from poam_ros.app.cli import main
from poam_ros.core.clock import Moment
from poam_ros.core.errors import InputError
from poam_ros.importers.journals import soundings_of_mission
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import MissionFolder, identity, is_journal, read_mission
from poam_ros.journal.tables import create_tables, read_pings
from poam_ros.learning.create import open_mission, recovery_message
from poam_ros.outputs.scene import _pings


def digest(folder):
    """Everything in a folder, by name, without the lock and SQLite's shared memory."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.stat().st_size]
    files = [p for p in files if p.name != "lock" and not p.name.endswith("-shm")]
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def mission(tmp_path_factory):
    """A folder with a mission that is over."""
    folder = tmp_path_factory.mktemp("mission") / "m"
    over = Kept(folder).mapped(steps=2)
    journal = over.session.journal  # on a slow disk none may have been due since the last step
    assert not journal.checkpoint(journal.checkpoint_due(Moment(0, math.inf)), over.session.mapper)
    over.close()
    return folder


def truncated(folder):
    file = folder / "pings.sqlite"
    file.write_bytes(file.read_bytes()[:5000])


def scrambled(folder):
    file = folder / "pings.sqlite"
    data = bytearray(file.read_bytes())
    data[4096:9000] = os.urandom(4904)
    file.write_bytes(data)


def text(folder):
    (folder / "pings.sqlite").write_text("x,y,z\n1,2,3\n" * 100)


def foreign(folder):
    (folder / "pings.sqlite").unlink()
    execute(folder, "CREATE TABLE pings (id INTEGER)")


def execute(folder, statement):
    with closing(sqlite3.connect(folder / "pings.sqlite")) as db, db:
        db.execute(statement)


DAMAGE = {
    "truncated": truncated, "scrambled": scrambled, "text": text, "foreign": foreign,
    "newer": "PRAGMA user_version = 99",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON pings BEGIN DELETE FROM pings; END",
    "hole": "DELETE FROM pings WHERE number = 17",
    "shortened": "DELETE FROM pings WHERE number > 50",
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("journal", [True, False])
def test_a_foreign_file_is_restored_from_the_journal_or_refused(mission, tmp_path, damage, journal):
    folder = tmp_path / "m"
    folder.mkdir()
    for file in mission.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    found = rows(folder)
    if callable(done := DAMAGE[damage]):
        done(folder)
    else:
        execute(folder, done)
    if journal:
        s = Kept(folder)
        s.close()
        assert rows(folder) == found
        assert "damaged" in str(list(folder.glob("damaged-*/pings.sqlite")))
        return
    (folder / "pings.journal").unlink()
    if damage == "shortened":  # whole rows, and nothing beside them but the checkpoint
        execute(folder, "DELETE FROM updates WHERE last > 50")
    before = digest(folder)
    with pytest.raises(InputError, match=r"pings\.sqlite: expected|pings are lost"):
        open_mission(settings(folder))
    assert digest(folder) == before


def test_an_empty_file_counts_as_no_journal(tmp_path):
    """Killed between the file's making and its first commit."""
    (tmp_path / "pings.sqlite").touch()
    s = Kept(tmp_path)
    s.drive(3)
    s.close()
    assert len(rows(tmp_path)) == 3


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"seed": 7}, "seed 0, not 7"),
        ({"workspace": (0.0, 9.0, 0.0, 9.0)}, "workspace"),
        ({"method": "poam"}, "method 'nngp', not 'poam'"),
        ({"nngp.hidden": 9}, "hidden 8, not 9"),
    ],
)
def test_a_mission_with_other_settings_is_refused(mission, changed, words):
    before = digest(mission)
    with pytest.raises(InputError, match=words):
        open_mission(settings(mission, **changed))
    assert digest(mission) == before


def test_one_mapper_at_a_time(tmp_path):
    first = Kept(tmp_path)
    with pytest.raises(InputError, match="in use by another mapper"):
        open_mission(settings(tmp_path))
    first.close()
    Kept(tmp_path).close()


def test_a_read_only_folder_is_refused(mission):
    with read_only(mission) as there:
        before = digest(there)
        with pytest.raises(InputError, match="mission_dir: cannot write to"):
            open_mission(settings(there))
        assert digest(there) == before


def test_settings_are_read_as_they_were_and_others_are_refused(tmp_path):
    model = identity({**SMALL, "seed": 3, "workspace": [0.0, 60.0, 0.0, 40.0]})
    MissionFolder(tmp_path, model, {**model, "screening.enabled": True, "water.level": 1.5}).close()
    MissionFolder(tmp_path, model).close()
    past = read_mission(tmp_path)
    assert past.settings == identity(past.settings) == model
    assert past.mapper["screening.enabled"] is True and past.mapper["water.level"] == 1.5
    with pytest.raises(InputError, match=r"nngp\.hidden 8, not 9"):
        MissionFolder(tmp_path, {**model, "nngp.hidden": 9})


def test_names_in_a_journal_load_no_file_and_no_module(tmp_path, monkeypatch, capsys):
    from poam_ros.app.cli import main

    (tmp_path / "trap.py").write_text(f"open({str(tmp_path / 'run')!r}, 'w')\nmodel = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    values = settings(tmp_path / "m")
    for name, method in (("other", values["method"]), ("module", "trap:model")):
        given = {"prior": str(tmp_path / "secret.tif"), "method": method}
        MissionFolder(tmp_path / name, {**identity(values), "method": method}, given).close()
        assert main(["map", str(tmp_path / name), "--output", str(tmp_path / "out")]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if "WARNING" not in line]
    assert "expected the prior of the mission" in said[0] and "secret" not in said[0]
    assert "to load it, give --method trap:model" in said[1]
    assert "trap" not in sys.modules and not (tmp_path / "run").exists()


@pytest.mark.parametrize("begun", ["nothing", "a folder", "a file", "a log"])
def test_a_reset_without_pings_says_where_those_before_are(mission, tmp_path, capsys, begun):
    """Cut short after the end of the old log and before the new one has begun; or just over."""
    folder = shutil.copytree(mission, tmp_path / "m")
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
    assert len(read_mission(before).logged.samples) == len(read_mission(mission).logged.samples)
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
    folder, samples = shutil.copytree(mission, tmp_path / "m"), read_mission(mission).logged.samples
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
        assert len(found.logged.samples) == len(samples)
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
    np.testing.assert_array_equal(soundings.z, samples.z)


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
