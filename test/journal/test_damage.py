"""A mission folder with a flipped bit or a truncated file: nothing is lost, all is reported."""

import json
import os
import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import numpy as np
import pytest
from kept import Echoing, rows, settings

from poam_ros.app.cli import main
from poam_ros.core.errors import InputError
from poam_ros.core.files import CHECKSUMS, read_json, write_json
from poam_ros.core.geometry import Extent
from poam_ros.frontend.events import Problem
from poam_ros.journal.folder import MissionFolder, read_checkpoint, read_mission
from poam_ros.learning.create import open_mission
from poam_ros.mission.guidance import MissionStore, MissionStoreSettings
from poam_ros.mission.mission import Mission
from poam_ros.outputs.chart import ExportSettings, read_chart
from poam_ros.outputs.folder import save
from poam_ros.outputs.run import write_results

LOG, JOURNAL = "pings.sqlite", "pings.journal"
# Of each folder, and what they are drawn by.
FLIPS, SEED = (int(os.environ.get(f"POAM_SOAK_{name}", value)) for name, value in
               (("FLIPS", 300), ("SEED", 22)))  # fmt: skip
#: Files of which there is one copy: they are refused if they are damaged.
SIDE = {"checkpoint.npz", "mission.json", "track.json"}
RESULTS = {"samples.csv", "refused.csv", "map.npz"}


def planned():
    return Mission(np.array([[10.0, 10.0], [50.0, 10.0]]), Extent(0, 60, 0, 60), max_samples=999)


@pytest.fixture(scope="module")
def image(tmp_path_factory, eventually):
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
    survey.written()
    eventually(lambda: not (folder / f"{LOG}-wal").stat().st_size)
    survey.drive(9)
    # The tables commit after the journal.
    eventually(lambda: len(rows(folder)) == survey.session.ledger.samples)
    at = tmp_path_factory.mktemp("image") / "m"
    shutil.copytree(folder, at)
    memory.close()
    survey.close()
    assert (at / f"{LOG}-wal").stat().st_size
    return at


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a mission with a reset, that ended, with its results and a saved map."""
    folder = tmp_path_factory.mktemp("finished") / "m"
    survey = Echoing(folder)
    survey.drive(60)
    survey.work()
    survey.session.reset(survey.now.ros_ns)
    survey.work()
    survey.drive(60)
    survey.work()
    for _ in range(3):
        survey.drive(20)
        survey.work()
    memory, mission = MissionStore(MissionStoreSettings(str(folder))), planned()
    for t in range(9):
        mission.update_position(np.array([float(t), 10.0]), float(t))
    memory.save(mission, 100.0)
    memory.close()
    survey.session.mission("done", survey.now)
    survey.settle()
    survey.work()
    session = survey.session
    now, samples = session.journal.folder, session.all_samples()
    write_results(now, session.map, samples, session.ledger.refused)
    save(now, session.map, samples, {"a": 1})
    survey.close()
    assert now.name == "reset-001" and session.map.samples > 60
    return folder


def copied(image, tmp_path):
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(image, folder)
    return folder


def content(logged):
    """All that a log holds, to be compared."""
    samples = [array.tobytes() for array in logged.samples.arrays]
    return samples, logged.steps, repr(logged.refused.rows)


def opened(folder):
    """What a mapper finds there, and what it reports."""
    mission = MissionFolder(folder, {})
    mission.close()
    return content(mission.journal.contents), mission.damage


def journals(folder):
    """The folders that have a journal."""
    return [path.parent for path in sorted(folder.rglob(JOURNAL)) if "damaged" not in str(path)]


def read_all(folder):
    """All that the readers of a folder's files find there, by what reads it; an ``InputError``
    where they refuse."""

    def planner():
        memory, mission = MissionStore(MissionStoreSettings(str(folder))), planned()
        try:
            memory.restore(mission)
        finally:
            memory.close()
        return mission.budget.samples, mission.track.length, mission.state

    def model(at):
        found = read_checkpoint(at)
        arrays = sorted((name, array.tobytes()) for name, array in found.arrays.items())
        return found.steps, found.pings, arrays

    def exported(at):
        chart = read_chart(at, ExportSettings())
        words = {k: v for k, v in chart.provenance.items() if k not in ("title", "export_time")}
        layers = chart.elevation, chart.deviation, chart.track
        return [layer.tobytes() for layer in layers], repr(chart.unmapped.refused.rows), words

    found = {"planner": planner}
    for at in journals(folder):
        name = at.relative_to(folder)
        found[f"{name} journal"] = lambda at=at: content(read_mission(at / LOG).logged)
        if (at / "checkpoint.npz").exists():
            found[f"{name} model"] = lambda at=at: model(at)
    for path in folder.rglob("map.npz"):
        found[f"{path.parent.relative_to(folder)} export"] = lambda at=path.parent: exported(at)
    read = {}
    for name, reader in found.items():
        try:
            read[name] = reader()
        except InputError as error:
            read[name] = error
    return read


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


def trials(image, tmp_path, count, seed, caplog, capsys):
    """Damage one file at a time, and look what everybody makes of it."""
    draw = np.random.default_rng(seed)
    folder = copied(image, tmp_path)
    whole = read_all(folder)
    assert opened(folder)[1] == []
    paths = sorted(p for p in image.rglob("*") if p.is_file() and p.stat().st_size)
    names = [path.relative_to(image) for path in paths]
    lists = [path for path in paths if path.name == CHECKSUMS]
    listed = {path.parent / name for path in lists for name in path.read_text().split()[1::2]}
    seen = Counter()
    for trial in range(count):
        folder = copied(image, tmp_path)
        name = names[draw.integers(len(names))]
        damage = (flip, flip, cut)[draw.integers(3)]
        damage(folder / name, draw)
        damaged = (folder / name).read_bytes()
        told = (seed, trial, str(name), damage.__name__)
        caplog.clear()
        found = read_all(folder)
        refused = {key for key in found if isinstance(found[key], InputError)}
        # One line that names the file, and only of files of which there is no other copy.
        assert not refused or name.name in SIDE | RESULTS | {CHECKSUMS, "config.yaml"}, told
        assert all(name.name in str(found[key]) or name.name == CHECKSUMS for key in refused), told
        assert all(found[key] == whole[key] for key in whole.keys() - refused), told
        noted = [*refused, *caplog.messages, *opened(folder)[1]]
        assert main(["repair", str(folder)]) == 0, told
        said = capsys.readouterr().out
        if noted or "nothing is damaged" not in said:
            seen["detected"] += 1
            if "damaged-" in said and name.name != CHECKSUMS:  # a damaged list accuses others
                [aside] = (folder / name).parent.glob("damaged-*")
                assert (aside / name.name).read_bytes() == damaged, told
        else:
            assert image / name not in listed, told
            seen["harmless"] += 1
        assert main(["repair", str(folder)]) == 0, told
        assert "nothing is damaged" in capsys.readouterr().out, told
        again = read_all(folder)
        assert all(again[key] == whole[key] for key in whole if "journal" in key), told
    return dict(seen)


def test_text_that_is_no_longer_utf_8_is_restored_from_the_journal(image, tmp_path):
    whole, _ = opened(copied(image, tmp_path))
    folder = copied(image, tmp_path)
    with closing(sqlite3.connect(folder / LOG)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = (folder / LOG).read_bytes()
    assert b"withdraw" in data
    (folder / LOG).write_bytes(data.replace(b"withdraw", b"\xcdithdraw"))
    assert content(read_mission(folder).logged) == whole
    found, damage = opened(folder)
    assert found == whole and damage


@pytest.mark.parametrize("name", [LOG, JOURNAL])
def test_another_value_in_one_file_is_restored_from_the_other(image, tmp_path, name):
    folder = copied(image, tmp_path)
    whole, before = content(read_mission(folder).logged), rows(folder)
    if name == LOG:
        with closing(sqlite3.connect(folder / LOG)) as db, db:
            db.execute("UPDATE pings SET z = z + 1 WHERE number = 3")
    else:
        lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
        at = next(i for i, line in enumerate(lines) if b'"pings"' in line)
        parts = json.loads(lines[at][33:])
        parts["pings"][0][-1] = 1.0
        lines[at] = lines[at][:33] + json.dumps(parts, separators=(",", ":")).encode() + b"\n"
        (folder / JOURNAL).write_bytes(b"".join(lines))
    found, [damage] = opened(folder)
    assert damage.startswith(f"{name} was damaged")
    assert found == whole and rows(folder) == before


@pytest.mark.parametrize("folder", ["image", "finished"])
def test_a_flipped_bit_or_a_truncation_loses_nothing_and_is_reported(
    request, tmp_path, folder, caplog, capsys
):
    seen = trials(request.getfixturevalue(folder), tmp_path, 8, 23, caplog, capsys)
    assert seen["detected"] > 2


@pytest.mark.soak
@pytest.mark.parametrize("folder", ["image", "finished"])
def test_many_flipped_bits_and_truncations(request, tmp_path, folder, caplog, capsys):
    seen = trials(request.getfixturevalue(folder), tmp_path, FLIPS, SEED, caplog, capsys)
    with capsys.disabled():
        print(f"{folder}: {FLIPS} flips and cuts by seed {SEED}, {seen}")


def test_a_mapper_reports_damage_and_recovers(image, tmp_path):
    folder = copied(image, tmp_path)
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    lines[5] = lines[5].replace(b"0", b"1", 1)
    (folder / JOURNAL).write_bytes(b"".join(lines))
    survey = Echoing(folder)
    survey.work()
    told = [o.text for o in survey.outcomes if isinstance(o, Problem)]
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
    assert survey.session.stored == pings - lost > 0
    survey.work()
    survey.drive(30)
    survey.work()
    mapped = survey.session.mapper.samples + len(survey.session.withdrawn)
    assert survey.session.stored == mapped > pings - lost
    survey.close()
    assert main(["repair", str(folder)]) == 0
    assert "nothing is damaged" in capsys.readouterr().out


@pytest.mark.parametrize("counts", ["checkpoint.npz", "mission.json"])
def test_a_journal_that_lacks_counted_pings_is_refused(image, tmp_path, counts):
    """Both files of the log are whole, and older than what stands beside them."""
    folder = copied(image, tmp_path)
    lines = (folder / JOURNAL).read_bytes().splitlines(keepends=True)
    (folder / JOURNAL).write_bytes(lines[0])  # when a checkpoint is due depends on the load
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


def test_a_damaged_json_file_is_refused(tmp_path):
    path = tmp_path / "x.json"
    assert read_json(path, "anything") is None
    write_json(path, {"a": [1.5, float("inf")]})
    assert read_json(path, "anything") == {"a": [1.5, float("inf")]}
    for text in ("[1]", "[" * 100_000, "{", "\xff", '{"a": 2, "checksum": "0"}'):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(InputError, match="expected a thing"):
            read_json(path, "a thing")


@pytest.mark.parametrize("name", ["../out", "/tmp/poam-out", ".", "reset-002", "reset-001/..", ""])
def test_a_journal_that_names_another_folder_than_the_next_is_refused(tmp_path, name):
    folder = tmp_path / "a" / "m"
    survey = Echoing(folder)
    survey.drive(3)
    survey.session.journal._folder.journal.end(0, name)
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
    survey.session.journal._folder.journal.end(0, "reset-001")
    survey.close()
    (tmp_path / "elsewhere").mkdir()
    (folder / "reset-001").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="continue in reset-001"):
        open_mission(settings(folder, screening=True))
    assert not list((tmp_path / "elsewhere").iterdir())
