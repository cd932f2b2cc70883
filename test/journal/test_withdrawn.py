"""Each placed ping has its present verdict, also after a crash, a restart and in a replay."""

import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from kept import POAM, Crossed, Echoing, Reinstated, Shifted, rows, surveys

from poam_ros.core.clock import SECOND
from poam_ros.core.errors import CholeskyError, InputError
from poam_ros.core.geometry import map_grid
from poam_ros.frontend.events import PositionsShifted, Problem
from poam_ros.importers.journals import read_journal
from poam_ros.importers.raw import ReadOptions
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import read_mission
from poam_ros.mapping.sounding_map import learn, map_soundings
from poam_ros.mapping.soundings import SoundingMapSettings
from poam_ros.outputs.crossings import CrossingTable
from poam_ros.outputs.folder import read_records
from poam_ros.outputs.run import read_unmapped
from poam_ros.screening import ScreeningSettings
from poam_ros.screening.judge import BLOCK, Judge

REFUSED = "SELECT * FROM refused ORDER BY reason, number"
CHANGES = "SELECT kind, first, last FROM updates WHERE kind IN ('withdraw', 'reinstate', 'shift')"


@pytest.fixture
def crossed(tmp_path):
    yield from surveys(tmp_path, Crossed)


def out(folder):
    """Numbers of the pings whose verdict is not bottom."""
    query = "SELECT number FROM pings WHERE verdict != 1 ORDER BY number"
    return [number for (number,) in rows(folder, query)]


def said(survey):
    """What was said of crossings."""
    messages = [o for o in survey.outcomes if isinstance(o, Problem) and not o.error]
    return [message.text for message in messages if message.reason == "crossings"]


def test_a_line_of_double_echoes_is_withdrawn_when_another_crosses_it(crossed, tmp_path):
    s = crossed().until()
    session, false = s.session, int((s.LINES == s.FALSE).sum())
    assert set(s.withdrawn_lines) == {s.FALSE} and len(session.withdrawn) == false
    assert session.status.withdrawn == false
    assert f"double echoes, {false} pings withdrawn" in said(s)[0]
    # They stay accepted and keep their numbers, but are in neither the map nor the results.
    assert session.ledger.accepted == session.mapper.samples + len(session.sample_queue) + false
    number = session.all_samples().number
    np.testing.assert_array_equal(
        number, np.setdiff1d(np.arange(session.ledger.samples), session.withdrawn.number)
    )
    at = s.PLACES[s.LINES == s.FALSE]
    depth = 6 + np.sin(at[:, 0] / 9) + np.cos(at[:, 1] / 7)
    assert np.abs(session.mapper.predict(at).mean + depth).max() < 1.5
    s.close()
    changes = rows(tmp_path / "m", CHANGES)
    assert ("withdraw", *session.withdrawn.number[[0, -1]].tolist()) in changes


@pytest.fixture
def images(monkeypatch, tmp_path):
    """Pictures of the disk, as the power might leave it: after some commits, drawn at random."""
    seed, made, append = random.randrange(10**6), [], JournalDatabase.append
    draw = random.Random(seed)

    def pictured(journal, *given):
        append(journal, *given)
        if len(made) < 2 or draw.random() < 0.3:
            made.append(tmp_path / f"image-{seed}-{len(made)}")
            shutil.copytree(journal.path.parent, made[-1], ignore=shutil.ignore_patterns(".*"))

    with monkeypatch.context() as patch:
        patch.setattr(JournalDatabase, "append", pictured)
        yield lambda: patch.undo() or draw.sample(made, min(4, len(made)))


def verdicts(folder):
    """The verdict on each ping by the steps."""
    found = [1] * len(rows(folder))
    steps = rows(folder, "SELECT kind, first, last, steps FROM updates ORDER BY id")
    for kind, first, last, what in steps:
        if kind in ("withdraw", "reinstate"):
            found[first : last + 1] = [what if kind == "withdraw" else 1] * (last + 1 - first)
    return found


@pytest.mark.parametrize(
    ("kind", "end", "changes"),
    [
        (Echoing, 200, {"withdraw"}),
        pytest.param(Crossed, None, {"withdraw"}, marks=pytest.mark.slow),
        pytest.param(Reinstated, None, {"withdraw", "reinstate"}, marks=pytest.mark.slow),
    ],
)
def test_after_a_crash_at_any_moment_the_verdicts_are_the_same(
    kind, end, changes, crossed, images, tmp_path
):
    """Also with a checkpoint from before or after the verdict, or without any."""
    end = end or len(kind.PLACES)
    whole = crossed(kind=kind).until(end)
    whole.written()
    everything, folder = whole.session.all_samples(), tmp_path / "m"
    assert whole.balanced and changes <= {change for change, *_ in rows(folder, CHANGES)}
    some = images()
    assert len(some) > 1
    shutil.copytree(some[-1], bare := tmp_path / "bare")
    (bare / "checkpoint.npz").unlink(missing_ok=True)
    for at in [*some, bare]:
        known = [row[1] for row in rows(at)] + [row[2] for row in rows(at, REFUSED)]
        assert len(set(known)) == len(known), at
        assert out(at) == [number for number, what in enumerate(verdicts(at)) if what != 1], at
        [(last_ns,)] = rows(at, "SELECT COALESCE(MAX(stamp_ns), 0) FROM pings")
        again = crossed(at.name, kind)
        again.stamp = last_ns * 10 // SECOND
        assert again.balanced and again.session.samples == len(rows(at)) - len(out(at)), at
        again.turn()
        again.until(end)
        np.testing.assert_array_equal(
            again.session.withdrawn.number, whole.session.withdrawn.number, err_msg=str(at)
        )
        for ours, theirs in zip(again.session.all_samples().arrays, everything.arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=str(at))
        np.testing.assert_allclose(again.map, whole.map, rtol=0, atol=1e-6, err_msg=str(at))
        assert again.session.status.withdrawn == whole.session.status.withdrawn and again.balanced
        again.written()
        for query in ("SELECT * FROM pings ORDER BY number", REFUSED, CHANGES):
            assert rows(at, query) == rows(folder, query), (at, query)


@pytest.mark.parametrize("kind", [Crossed, pytest.param(Reinstated, marks=pytest.mark.slow)])
def test_a_replay_gives_the_same_verdicts_and_map(kind, crossed, tmp_path):
    s = crossed(kind=kind).until()
    s.session.mission("done", s.now)
    s.turn()
    s.close()
    left_out = read_unmapped(tmp_path / "m")
    assert left_out.refused.counts.get("withdrawn", 0) == len(s.session.withdrawn)
    assert left_out.logged == s.session.mapper.samples  # so that the map counts as complete
    soundings = read_journal(tmp_path / "m", ReadOptions())
    past = read_mission(tmp_path / "m").settings
    settings = SoundingMapSettings(seed=past["seed"], model=s.session.mapper.settings)
    mapper, refused, withdrawn = learn(soundings, s.session.mapper.workspace, settings)
    np.testing.assert_array_equal(mapper.data.number, s.session.mapper.data.number)
    assert not len(refused)
    np.testing.assert_array_equal(withdrawn.number, s.session.withdrawn.number)
    at = np.random.default_rng(0).uniform(-25, 25, (50, 2))
    np.testing.assert_array_equal(mapper.predict(at).mean, s.session.mapper.predict(at).mean)


@pytest.mark.slow
def test_a_map_of_a_part_of_the_mission_lacks_what_was_withdrawn(crossed, tmp_path):
    """As after --exclude, --calibrate or --start, where the mission's steps cannot be repeated."""
    s = crossed().until()
    s.close()
    false, model = s.session.withdrawn.number, s.session.mapper.settings
    whole = read_journal(tmp_path / "m", ReadOptions())
    settings = SoundingMapSettings(model=model, screening=ScreeningSettings(), stretches=0)
    workspace = s.session.mapper.workspace
    for name, soundings in (("whole", whole), ("part", whole[np.arange(5, len(whole))])):
        out = tmp_path / name
        mapped = map_soundings(soundings, map_grid(workspace, 4.0), workspace, settings)
        mapped.write(out, s.session.journal.folder)
        assert mapped.samples + len(mapped.withdrawn) == len(soundings)
        assert (len(mapped.echoes), len(mapped.withdrawn)) == (0, len(false))
        np.testing.assert_array_equal(mapped.accepted, ~np.isin(soundings.row, false))
        left_out = read_records(out / "left_out.csv", ("row", "reason", "why"))
        assert [int(row["row"]) for row in left_out] == false.tolist()
        assert {(row["reason"], row["why"]) for row in left_out} == {
            ("withdrawn", "crossing lines")
        }
        assert read_unmapped(out).refused.counts == {"withdrawn": len(false)}
        # Nor do they count in the figures of the crossings.
        table = CrossingTable.read(out / "crossings.csv")
        assert table.left_out.any() and np.abs(table.difference[~table.left_out]).max() < 2
        assert any("double echoes, " in each for each in mapped.sentences())
    # Nor in the headline of a validation, though nothing that is held out is withdrawn by itself.
    held = np.arange(len(whole)) % 2 == 0
    mapped = map_soundings(whole, map_grid(workspace, 4.0), workspace, settings, held)
    assert np.isin(false, whole.row[held]).any()
    np.testing.assert_array_equal(mapped.accepted, ~np.isin(whole.row, false))


@pytest.mark.slow
def test_pings_withdrawn_from_a_recording_s_map_do_not_count_at_crossings(crossed, tmp_path):
    s = crossed().until()
    s.close()
    pings = replace(read_journal(tmp_path / "m", ReadOptions()), steps=None, multiple=None)
    screening = ScreeningSettings(enabled=True)
    settings = SoundingMapSettings(
        model=s.session.mapper.settings, screening=screening, stretches=0
    )
    workspace, out = s.session.mapper.workspace, tmp_path / "out"
    mapped = map_soundings(pings, map_grid(workspace, 4.0), workspace, settings)
    mapped.write(out, s.session.journal.folder)
    assert len(mapped.withdrawn) > 50 and read_unmapped(out).refused.counts["withdrawn"] > 50
    assert mapped.accepted.sum() == mapped.samples
    held, grid, everything = np.arange(len(pings)) < 30, map_grid(workspace, 4.0), mapped.accepted
    mapped = map_soundings(pings, grid, workspace, settings, held)
    np.testing.assert_array_equal(mapped.accepted, everything)
    table = CrossingTable.read(out / "crossings.csv")
    assert table.left_out.any() and np.abs(table.difference[~table.left_out]).max() < 2


def test_a_model_that_fails_to_forget_keeps_the_pings(crossed, tmp_path, monkeypatch):
    def fail(*_):
        raise CholeskyError("no factor")

    s = crossed()
    monkeypatch.setattr(s.session.mapper, "withdraw", fail)
    s.until()
    errors = [o.text for o in s.outcomes if isinstance(o, Problem) and o.error]
    assert any("no more pings are withdrawn or reinstated" in text for text in errors)
    session = s.session
    assert session.status.withdrawn == len(session.withdrawn) == 0 and not said(s)
    assert session.ledger.accepted == session.mapper.samples + len(session.sample_queue)
    s.close()
    assert rows(tmp_path / "m", CHANGES) == []


def test_a_model_that_cannot_forget_leaves_out_what_it_has_not_learned(crossed, monkeypatch):
    judge = Judge.judge

    def late(self, batch):
        """As if nothing showed it before."""
        enough = len(self._blocks.data) > 400
        return judge(self, batch) if enough else (np.empty(0, int), np.empty(0, int))

    with monkeypatch.context() as patch:
        patch.setattr(Judge, "judge", late)
        s = crossed(**POAM).until()
    false = int((s.LINES == s.FALSE).sum())
    assert len(s.session.withdrawn) == false
    assert f"({false} stay in the map: this model cannot forget pings)" in said(s)[0]

    class Late(Crossed):
        FALSE = 3

    late = Late(s.session.journal.folder.parent / "late", **POAM).until()
    assert set(late.withdrawn_lines) == {3}
    assert np.isin(late.session.withdrawn.number, late.session.mapper.data.number).sum() == 0
    assert "cannot forget" not in " ".join(said(late))
    late.close()


def test_withdrawn_lines_are_told_also_without_screening(crossed):
    s = crossed()
    while not said(s):
        s.until(s.stamp + 20)
    (line,) = s.session.verdicts.withdrawn_lines
    assert line.sentence.rpartition(": ")[2] in said(s)[0]  # at once
    s.until()
    told = s.session.verdicts.withdrawn_lines
    assert told and told is s.session.verdicts.withdrawn_lines  # not found anew for each reader
    assert "double echoes" in told[0].sentence
    s.close()
    again = crossed(**{"screening.enabled": False}).work()
    lines = again.session.verdicts.withdrawn_lines
    assert [line.sentence for line in lines] == [line.sentence for line in told]


@pytest.mark.slow
def test_a_shift_is_found_again_after_a_restart_and_in_a_replay(crossed, tmp_path, caplog):
    s = crossed(kind=Shifted).until()
    (said,) = [each.text for each in s.outcomes if isinstance(each, PositionsShifted)]
    found = s.session.verdicts.watch.found
    assert said == found.sentence and found.since > 3 * found.before
    assert abs(found.first - np.flatnonzero(s.LINES > 9)[0]) <= BLOCK // 8  # pings of a leg
    s.close()
    again = crossed(kind=Shifted)
    again.turn()
    assert again.session.verdicts.watch.found == found
    assert not any(isinstance(each, PositionsShifted) for each in again.outcomes)
    again.close()
    past = read_mission(tmp_path / "m").settings
    settings = SoundingMapSettings(seed=past["seed"], model=s.session.mapper.settings)
    learn(read_journal(tmp_path / "m", ReadOptions()), s.session.mapper.workspace, settings)
    assert said in caplog.text


def test_dropped_steps_take_their_verdicts_along(crossed, tmp_path):
    s = crossed(kind=Echoing).until(200)
    s.close()
    assert out(tmp_path / "m")
    journal = JournalDatabase(tmp_path / "m" / "pings.sqlite", {}).begin()
    journal.truncate_steps(0)
    journal.close()
    assert not out(tmp_path / "m")
    assert not JournalDatabase(tmp_path / "m" / "pings.sqlite", {}).damage


def test_a_reset_leaves_the_verdicts_to_the_old_journal(crossed, tmp_path):
    s = crossed(kind=Echoing).until(200)
    before = len(s.session.withdrawn)
    s.session.reset(s.now.ros_ns)
    s.drive(9)
    s.close()
    assert len(out(tmp_path / "m")) == before > 0
    again = crossed(kind=Echoing)
    assert len(rows(tmp_path / "m" / "reset-001")) == 9 == again.session.samples
    assert again.balanced


def test_a_journal_of_another_layout_is_refused_and_left_unchanged(crossed, tmp_path):
    crossed(kind=Echoing).until(60).close()
    path = tmp_path / "m" / "pings.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 4")
    before = path.read_bytes()
    (tmp_path / "m" / "pings.journal").unlink()
    with pytest.raises(InputError, match="layout 4 of another version, not 5"):
        read_mission(tmp_path / "m")
    assert path.read_bytes() == before
