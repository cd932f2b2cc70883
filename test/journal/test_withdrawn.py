"""Multiples that other lines show are withdrawn; so they are after a restart and in a replay."""

import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
from kept import POAM, Crossed, Reinstated, Shifted, rows, surveys

from poam_ros.core.clock import SECOND
from poam_ros.core.errors import CholeskyError
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
from poam_ros.outputs.results import read_unmapped
from poam_ros.screening import ScreeningSettings
from poam_ros.screening.judge import BLOCK, Judge

CHANGES = "SELECT kind, first, last FROM updates WHERE kind IN ('withdraw', 'reinstate', 'shift')"


@pytest.fixture
def crossed(tmp_path):
    yield from surveys(tmp_path, Crossed)


def said(survey):
    """What was said of crossings."""
    messages = [o.message for o in survey.outcomes if isinstance(o, Problem) and not o.error]
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind, changes", [(Crossed, ["withdraw"]), (Reinstated, ["withdraw", "reinstate"])]
)
def test_after_a_crash_at_any_moment_the_verdicts_are_the_same(
    kind, changes, crossed, tmp_path, monkeypatch
):
    """Also with a checkpoint from before or after the verdict, or without any."""
    draw, images, append = random.Random(5), [], JournalDatabase.append

    def pictured(journal, *given):
        append(journal, *given)
        if draw.random() < 0.4:
            images.append(tmp_path / f"image-{len(images)}")
            shutil.copytree(journal.path.parent, images[-1], ignore=shutil.ignore_patterns(".*"))

    with monkeypatch.context() as patch:
        patch.setattr(JournalDatabase, "append", pictured)
        whole = crossed(kind=kind).until()
        whole.close()
    assert set(changes) <= {change for change, *_ in rows(tmp_path / "m", CHANGES)}
    everything, last = whole.session.all_samples(), images[-1]
    # On a busy machine the disk takes many pings at a time: there are fewer moments then.
    some = draw.sample(images[:-1], min(4, len(images) - 1)) + [last]
    shutil.copytree(last, bare := tmp_path / "bare")
    (bare / "checkpoint.npz").unlink(missing_ok=True)
    for at in [*some, bare]:
        [(last_ns,)] = rows(at, "SELECT COALESCE(MAX(stamp_ns), 0) FROM pings")
        again = crossed(at.name, kind)
        again.stamp = last_ns * 10 // SECOND
        again.turn()
        again.until()
        np.testing.assert_array_equal(
            again.session.withdrawn.number, whole.session.withdrawn.number, err_msg=str(at)
        )
        for ours, theirs in zip(again.session.all_samples().arrays, everything.arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=str(at))
        np.testing.assert_allclose(again.map, whole.map, rtol=0, atol=1e-6, err_msg=str(at))
        assert again.session.status.withdrawn == whole.session.status.withdrawn
        again.close()
        assert rows(at, CHANGES) == rows(tmp_path / "m", CHANGES), at


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
    errors = [o.message.text for o in s.outcomes if isinstance(o, Problem) and o.error]
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
