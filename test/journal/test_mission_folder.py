"""The mission folder: what it refuses, without changing it."""

import hashlib
import math
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from kept import SMALL, Kept, rebuilt, rows, settings
from read_only import read_only

from poam_ros.core.clock import Moment
from poam_ros.core.errors import InputError
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import MissionFolder, identity, read_mission
from poam_ros.learning.create import open_mission


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


def test_an_interrupted_reset_continues_in_the_folder_that_it_named(mission, tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    for file in mission.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    log = JournalDatabase(folder / "pings.sqlite", {}).begin()
    log.end(0, "reset-001")
    log.close()
    s = Kept(folder)
    assert s.session.samples == 0
    s.close()
    assert rows(folder / "reset-001") == []


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


FILLS = """
import resource, signal, sys
sys.path.insert(0, {test!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from kept import Kept
from poam_ros.core.clock import Moment
from poam_ros.core.errors import InputError
from poam_ros.journal.database import JournalDatabase
try:
    s = Kept({folder!r})
except InputError as error:
    sys.exit(f"refused: {{error}}")
full = pings = 0
while not full and pings < 4000:
    s.drive(10)
    pings += 10
    s.work()
    full += bool(s.session.journal.failing)
s.drive(100)
s.work()
print(full, pings + 100 - s.session.samples, s.session.samples - s.session.mapper.samples)
print(pings + 100)
s.close()
"""


def limited(folder, limit, python, ros_env, request):
    test = str(request.config.rootpath / "test")
    script = FILLS.format(test=test, folder=str(folder), limit=limit)
    return subprocess.run(
        [python, "-c", script], env=ros_env, capture_output=True, text=True, timeout=400
    )


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_journal_but_not_the_survey(
    tmp_path, python, ros_env, request
):
    done = limited(tmp_path, 60_000, python, ros_env, request)
    failed, lost, waiting, driven = (int(word) for word in done.stdout.split())
    assert (failed, lost, waiting) == (1, 0, 0), done.stderr
    kept = len(rows(tmp_path))
    assert 0 < kept < driven
    (whole, count), (alone, _) = rebuilt(tmp_path)  # what is there is whole
    assert count <= kept and abs(whole - alone).max() < 1e-6


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
