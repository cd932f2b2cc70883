"""A mission folder with a flipped bit or a truncated file: nothing is lost, all is reported."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("torch")

from kept import Echoing, rows, settings

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.files import read_json, write_json
from poam_ros.core.geometry import Extent
from poam_ros.frontend.events import Problem
from poam_ros.journal.checkpoint import read_checkpoint
from poam_ros.journal.folder import MissionFolder
from poam_ros.journal.reader import read_mission
from poam_ros.learning.create import open_mission
from poam_ros.mission.mission import Mission
from poam_ros.mission.store import MissionStore, MissionStoreSettings

LOG, JOURNAL = "pings.sqlite", "pings.journal"
SIDE = ("checkpoint.npz", "mission.json", "track.json")


def until(done):
    end = time.monotonic() + 200
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def planned():
    return Mission(np.array([[10.0, 10.0], [50.0, 10.0]]), Extent(0, 60, 0, 60), max_samples=999)


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """What the disk holds of a mission, mapper and planner, when the power goes."""
    folder = tmp_path_factory.mktemp("live") / "m"
    survey, mission = Echoing(folder), planned()
    survey.drive(60)
    survey.work()
    for _ in range(8):
        survey.drive(20)
        survey.settle()
        survey.work()
    memory = MissionStore(MissionStoreSettings(str(folder)))
    for t in range(9):
        mission.update_position(np.array([float(t), 10.0]), float(t))
    mission.count_samples(survey.session.samples)
    memory.save(mission, 100.0)
    survey.drive(13)  # ahead of SQLite's own checkpoint
    survey.session.journal._next_checkpoint = -1.0
    assert survey.session.journal.checkpoint_due(survey.now).reached.wait(20)
    until(lambda: not (folder / f"{LOG}-wal").stat().st_size)
    survey.drive(9)
    # The tables commit after the journal.
    until(lambda: len(rows(folder, "SELECT * FROM waiting")) == 13 + 9)
    at = tmp_path_factory.mktemp("image") / "m"
    shutil.copytree(folder, at)
    memory.close()
    survey.close()
    assert (at / f"{LOG}-wal").stat().st_size
    return at


def copied(image, tmp_path):
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(image, folder)
    return folder


def content(logged):
    """All that a log holds, to be compared."""
    screening_state, refused = logged.screening_state, logged.refused
    samples = [a.tobytes() for each in (logged.samples, screening_state.held, logged.unscreened)
               for a in each.arrays]  # fmt: skip
    return (
        samples,
        logged.steps,
        screening_state.screened,
        screening_state.screener,
        refused.rows.__repr__(),
    )


def opened(folder):
    """What a mapper finds there, and what it reports."""
    mission = MissionFolder(folder, {})
    mission.close()
    return content(mission.log.logged), mission.notes


def held(folder):
    """The non-empty files of a folder, without SQLite's shared memory."""
    files = [p for p in folder.iterdir() if not p.name.endswith("-shm")]
    return {p.name: p.read_bytes() for p in files if p.stat().st_size}


def flip(file, draw):
    data = bytearray(file.read_bytes())
    data[draw.integers(len(data))] ^= 1 << draw.integers(8)
    file.write_bytes(data)


def cut(file, draw):
    file.write_bytes(file.read_bytes()[: draw.integers(file.stat().st_size)])


def trials(image, tmp_path, count, seed):
    """Damage one file at a time, and look what a mapper and a planner make of it."""
    draw = np.random.default_rng(seed)
    whole, notes = opened(copied(image, tmp_path))
    assert not notes
    checkpoint = read_checkpoint(image)
    names = sorted(p.name for p in image.iterdir() if p.stat().st_size)
    assert {LOG, JOURNAL, f"{LOG}-wal", *SIDE} <= set(names)
    seen = {"harmless": 0, "detected": 0}
    for trial in range(count):
        folder = copied(image, tmp_path)
        name = names[draw.integers(len(names))]
        damage = (flip, flip, cut)[draw.integers(3)]
        damage(folder / name, draw)
        damaged = (folder / name).read_bytes()
        told = (seed, trial, name, damage.__name__)
        content_read = content(read_mission(folder).logged)
        found, notes = opened(folder)
        assert content_read == found == whole, told
        if notes:  # there was a copy before anything was written
            [aside] = folder.glob("damaged-*")
            assert (aside / name).read_bytes() == damaged, told
        again, anew = opened(folder)
        assert again == whole and not anew, told
        try:
            kept = read_checkpoint(folder)
            assert kept.steps == checkpoint.steps, told
            for array, there in checkpoint.arrays.items():
                np.testing.assert_array_equal(kept.arrays[array], there, err_msg=str(told))
            memory, mission = MissionStore(MissionStoreSettings(str(folder))), planned()
            try:
                memory.restore(mission)
            finally:
                memory.close()
            assert mission.budget.samples > 0, told
            assert mission.track.length == 8.0, told
        except InputError as error:
            assert name in SIDE and name in str(error), told
            notes.append(error)
        seen["detected" if notes else "harmless"] += 1
    return seen


def test_a_text_that_is_no_utf_8_any_more_is_restored_from_the_journal(image, tmp_path):
    whole, _ = opened(copied(image, tmp_path))
    folder = copied(image, tmp_path)
    with closing(sqlite3.connect(folder / LOG)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = (folder / LOG).read_bytes()
    assert b'{"Memory"' in data
    (folder / LOG).write_bytes(data.replace(b'{"Memory"', b'{"\xcdemory"'))
    assert content(read_mission(folder).logged) == whole
    found, notes = opened(folder)
    assert found == whole and notes


def test_a_flipped_bit_or_a_cut_loses_nothing_and_is_reported(image, tmp_path):
    seen = trials(image, tmp_path, 30, seed=23)
    assert seen["detected"] > 10


@pytest.mark.soak
def test_three_hundred_flipped_bits_and_cuts(image, tmp_path):
    print(trials(image, tmp_path, 300, 22))


def test_a_mapper_reports_damage_and_recovers(image, tmp_path):
    folder = copied(image, tmp_path)
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b"0", b"1", 1)
    (folder / JOURNAL).write_bytes(b"".join(lines))
    survey = Echoing(folder)
    survey.work()
    told = [o.message.text for o in survey.outcomes if isinstance(o, Problem)]
    assert len(told) == 1 and "pings.journal was damaged" in told[0] and "damaged-" in told[0]
    survey.close()


def both_damaged(folder):
    """The fifth transaction of the journal, and the pages of the tables."""
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if i > 3 and b'"pings"' in line)
    lost = len(json.loads(lines[at][33:])["pings"])
    lines[at] = lines[at].replace(b"0", b"1", 1)
    (folder / JOURNAL).write_bytes(b"".join(lines))
    (folder / f"{LOG}-wal").unlink()
    (folder / LOG).write_bytes((folder / LOG).read_bytes()[:5000])
    return lost


def test_lost_pings_are_refused_and_cost_only_their_transaction(image, tmp_path, capsys):
    folder = copied(image, tmp_path)
    pings = len(read_mission(folder).logged.samples)
    lost = both_damaged(folder)
    before = held(folder)
    for opening in (read_mission, lambda at: open_mission(settings(at, screening=True))):
        with pytest.raises(InputError, match=f"pings are lost.*poam repair {folder}"):
            opening(folder)
    assert held(folder) == before
    assert main(["repair", str(folder)]) == 0
    assert f"{pings - lost} pings, repaired" in capsys.readouterr().out
    survey = Echoing(folder)
    assert survey.session.samples == pings - lost > 0
    survey.work()
    survey.drive(30)
    survey.work()
    assert survey.session.samples == survey.session.mapper.samples > pings - lost
    survey.close()
    assert main(["repair", str(folder)]) == 0
    assert "nothing is damaged" in capsys.readouterr().out


@pytest.mark.parametrize("counts", ["checkpoint.npz", "mission.json"])
def test_a_journal_that_lacks_counted_pings_is_refused(image, tmp_path, counts):
    """Both files of the log are whole, and older than what stands beside them."""
    folder = copied(image, tmp_path)
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(b"".join(lines[:4]))
    for name in (LOG, f"{LOG}-wal", f"{LOG}-shm"):
        (folder / name).unlink()
    if counts == "mission.json":
        (folder / "checkpoint.npz").unlink()
    with pytest.raises(InputError, match=rf"pings are lost: {counts} .* poam repair {folder}"):
        open_mission(settings(folder, screening=True))
    assert main(["repair", str(folder)]) == 0
    open_mission(settings(folder, screening=True))[1]()


def test_repair_sets_a_damaged_planner_file_aside(image, tmp_path):
    folder = copied(image, tmp_path)
    text = (folder / "mission.json").read_text()
    (folder / "mission.json").write_text(text.replace('"clipped": 0', '"clipped": 1'))
    memory = MissionStore(MissionStoreSettings(str(folder)))
    with pytest.raises(InputError, match=f"checksum.*poam repair {folder}"):
        memory.restore(planned())
    memory.close()
    assert main(["repair", str(folder)]) == 0
    memory = MissionStore(MissionStoreSettings(str(folder)))
    assert memory.restore(planned()) == ""
    memory.close()


def test_each_checkpoint_flushes_the_tables(image, tmp_path):
    """The main file alone has what was there at the last one."""
    folder = copied(image, tmp_path)
    (folder / f"{LOG}-wal").unlink()
    with closing(sqlite3.connect(folder / LOG)) as db:
        [[count]] = db.execute("SELECT count(*) FROM updates")
    assert count >= read_checkpoint(folder).steps > 0


def test_a_file_of_json_that_is_none(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path, "anything") is None
    write_json(path, {"a": [1.5, float("inf")]})
    assert read_json(path, "anything") == {"a": [1.5, float("inf")]}
    for text in ("[1]", "[" * 100_000, "{", "\xff", '{"a": 2, "checksum": "0"}'):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match="expected a thing"):
            read_json(path, "a thing")


@pytest.mark.parametrize("name", ["../out", "/tmp/poam-out", ".", "reset-002", "reset-001/..", ""])
def test_a_journal_names_only_the_next_folder(tmp_path, name):
    folder = tmp_path / "a" / "m"
    survey = Echoing(folder)
    survey.drive(3)
    survey.session.journal._disk.folder.log.end(0, name)
    survey.close()
    for opening in (read_mission, lambda at: open_mission(settings(at, screening=True))):
        with pytest.raises(InputError, match="expected it to continue in reset-001"):
            opening(folder)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["m"]
    assert not [p for p in folder.iterdir() if p.is_dir()]


def test_a_link_instead_of_the_next_folder_is_not_followed(tmp_path):
    folder = tmp_path / "m"
    survey = Echoing(folder)
    survey.session.journal._disk.folder.log.end(0, "reset-001")
    survey.close()
    (tmp_path / "elsewhere").mkdir()
    (folder / "reset-001").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="continue in reset-001"):
        open_mission(settings(folder, screening=True))
    assert not list((tmp_path / "elsewhere").iterdir())
