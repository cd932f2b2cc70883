"""A survey with a journal: what is on the disk when, and what a restart recovers."""

import json
import os
import shutil
import threading

import numpy as np
import pytest
from kept import POAM, full, rebuilt, rows, surveys

from poam_ros.core.errors import InputError
from poam_ros.frontend.events import Problem
from poam_ros.journal.database import JournalDatabase, Transactions, read_lines


@pytest.fixture
def kept(tmp_path):
    yield from surveys(tmp_path)


def crashed(survey, to):
    """What the disk holds when the power goes now."""
    survey.written()
    shutil.copytree(survey.session.journal.folder, to)
    return to


def test_every_accepted_ping_is_a_complete_row(kept, tmp_path):
    s = kept()
    s.drive(50)
    everything = s.session.all_samples()
    found = rows(tmp_path / "m")
    assert len(found) == 50 == s.session.samples
    for row, number, stamp, (x, y), z in zip(found, *everything.arrays[:4], strict=True):
        assert row[:5] == (number, stamp, x, y, z)
    assert np.isfinite(everything.range).all() and np.isnan(everything.noise_std).all()
    s.close()
    again = kept().session.all_samples()
    for ours, theirs in zip(again.arrays, everything.arrays, strict=True):
        np.testing.assert_array_equal(ours, theirs)  # to the last bit
        assert ours.dtype == theirs.dtype


def test_a_ping_counts_and_enters_the_model_once_it_is_stored(kept, monkeypatch):
    s, gate = kept(pilot_samples=5), threading.Event()
    append = JournalDatabase.append

    def slow(*given):
        assert gate.wait(300)
        append(*given)

    monkeypatch.setattr(JournalDatabase, "append", slow)
    for _ in range(20):
        s.ping()
    assert s.session.ledger.accepted == 20
    assert s.session.samples == 0 and not s.session.due(s.now)
    assert len(s.session.all_samples()) == 20
    gate.set()
    s.settle()
    assert s.session.samples == 20 and s.session.due(s.now)


def test_the_last_batch_waits_for_unstored_pings(kept):
    s = kept(pilot_samples=5)
    s.drive(20)
    s.work()
    for _ in range(7):
        s.ping()
    s.session.mission("done", s.now)
    s.settle()
    s.work()
    assert s.session.status.finished and s.session.mapper.samples == 27


def test_screened_pings_are_stored_before_they_count_or_are_learned(kept, tmp_path):
    s = kept(**{"screening.enabled": True})

    def turn():
        s.work()
        assert s.session.mapper.samples <= len(rows(tmp_path / "m"))
        s.settle()  # kept
        s.work()  # learned

    s.drive(60)
    turn()
    for _ in range(5):
        s.drive(20)
        turn()
    counts = s.session.ledger.counts()
    accepted = counts["accepted"]
    assert counts["received"] == 160 == sum(counts.values()) - counts["received"]
    assert accepted == 160 and 100 < s.session.samples == s.session.mapper.samples
    assert [row[0] for row in rows(tmp_path / "m")] == list(range(accepted))
    crashed(s, tmp_path / "crashed")
    again = kept("crashed", **{"screening.enabled": True}).work()
    assert (again.session.stored, again.session.samples) == (160, s.session.samples)
    np.testing.assert_allclose(again.map, s.map, rtol=0, atol=1e-6)
    s.drive(9)
    s.session.mission("done", s.now)
    turn()
    counts = s.session.ledger.counts()
    assert s.session.status.finished and counts["pending"] == 0
    believed = rows(tmp_path / "m", "SELECT * FROM pings WHERE verdict = 1")
    assert len(believed) == s.session.mapper.samples == s.session.samples
    assert counts["accepted"] == len(rows(tmp_path / "m"))


@pytest.mark.parametrize("model", [{}, POAM], ids=["nngp", "poam"])
def test_a_restart_recovers_the_same_map(kept, tmp_path, model):
    s = kept(**model).mapped()
    s.drive(7)  # accepted, but in no batch
    at = crashed(s, tmp_path / "crashed")
    again = kept("crashed", **model)
    assert again.session.samples == s.session.samples  # before anything is repeated
    again.work()
    np.testing.assert_allclose(again.map, s.map, rtol=0, atol=1e-6)
    assert again.session.status.updates == s.session.status.updates
    assert again.session.map.stamp_ns == s.session.map.stamp_ns
    assert len(again.session.sample_queue) == 7
    # And with the same next one: the optimiser and the generators go on too.
    again.stamp = s.stamp
    for survey in (s, again):
        survey.drive(20)
        survey.work()
    np.testing.assert_allclose(again.map, s.map, rtol=0, atol=1e-6)
    again.close()
    (whole, count), (alone, _) = rebuilt(at, **model)
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6)
    assert count == again.session.mapper.samples


def test_steps_ended_by_a_time_budget_are_repeated(kept, tmp_path):
    s = kept(**{"training.budget": 1e-9}).mapped(steps=3)
    crashed(s, tmp_path / "crashed")
    steps = rows(tmp_path / "m", "SELECT steps FROM updates WHERE kind = 'update'")
    assert steps == [(0,)] * len(steps)
    again = kept("crashed").work()  # no budget any more; what happened stays
    np.testing.assert_allclose(again.map, s.map, rtol=0, atol=1e-6)


def test_a_restart_leaves_a_dropped_batch_out(kept, tmp_path, monkeypatch):
    s = kept().mapped(steps=1)
    monkeypatch.setattr(
        s.session.mapper, "learn", lambda *_: (_ for _ in ()).throw(InputError("no"))
    )
    s.drive(20)
    s.work()
    monkeypatch.undo()
    s.drive(20)
    s.work()
    crashed(s, tmp_path / "crashed")
    again = kept("crashed").work()
    assert again.session.mapper.samples == s.session.mapper.samples == 80
    np.testing.assert_allclose(again.map, s.map, rtol=0, atol=1e-6)
    assert sum(again.session.status.dropped.values()) == 20


@pytest.mark.parametrize(
    "damage",
    [
        *("another model", "flipped"),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("torn", "foreign", "another layout")
        ),
    ],
)
def test_without_a_usable_checkpoint_all_steps_of_the_journal_are_repeated(kept, tmp_path, damage):
    s = kept().mapped(steps=3)
    at = crashed(s, tmp_path / "crashed")
    file = at / "checkpoint.npz"
    with np.load(file) as data:
        arrays = dict(data)
    facts = json.loads(str(arrays["facts.json"]))
    if damage == "torn":
        file.write_bytes(file.read_bytes()[:-400])
    elif damage == "foreign":
        file.write_text("elevations")
    else:
        facts["schema"] += damage == "another layout"
        if damage != "flipped":
            del facts["checksum"]
        arrays["learned.theta"][0] += damage == "flipped"
        if damage == "another model":
            del arrays["learned.theta"]
        arrays["facts.json"] = np.array(json.dumps(facts))
        np.savez(file, **arrays)
    again = kept("crashed").work()
    told = [o for o in again.outcomes if isinstance(o, Problem)]
    assert [o.reason for o in told] == ["checkpoint"] and not told[0].error
    np.testing.assert_allclose(again.map, s.map, rtol=0, atol=1e-6)


def test_a_step_that_cannot_be_repeated_costs_no_ping(kept, tmp_path, monkeypatch):
    s = kept().mapped(steps=3)
    at = crashed(s, tmp_path / "crashed")
    (at / "checkpoint.npz").unlink()
    again = kept("crashed")
    learn, calls = again.session.mapper.learn, []

    def fails_once(*given):
        calls.append(1)
        if len(calls) == 3:
            raise MemoryError("another machine")
        return learn(*given)

    monkeypatch.setattr(again.session.mapper, "learn", fails_once)
    again.work()
    assert [o.reason for o in again.outcomes if isinstance(o, Problem)] == ["MemoryError"]
    assert again.session.samples == len(again.session.all_samples()) == s.session.samples
    again.drive(20)
    again.work()
    assert again.session.mapper.samples == s.session.samples + 20
    again.close()
    (whole, _), (alone, _) = rebuilt(at)  # the log says what happened to this model
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6)


def test_a_reset_during_a_failing_recovery_keeps_the_new_journal_intact(
    kept, tmp_path, monkeypatch
):
    s = kept().mapped(steps=2)
    at = crashed(s, tmp_path / "crashed")
    (at / "checkpoint.npz").unlink()
    again = kept("crashed", pilot_samples=5)
    learn, calls = again.session.mapper.learn, []

    def fails_after_a_reset(*given):
        calls.append(1)
        if len(calls) == 2:
            again.session.reset(again.now.ros_ns)
            raise MemoryError("another machine")
        return learn(*given)

    monkeypatch.setattr(again.session.mapper, "learn", fails_after_a_reset)
    again.work()
    again.drive(40)
    again.work()
    again.close()
    found = rows(at / "reset-001", "SELECT id FROM updates ORDER BY id")
    assert found[0] == (1,)
    assert kept("crashed").work().session.samples == 40


def test_a_reset_opens_a_new_folder_and_leaves_the_old_one(kept, tmp_path):
    s = kept().mapped(steps=2)
    before = s.session.samples
    s.session.reset(s.now.ros_ns)
    assert s.session.samples == 0
    s.drive(15)
    s.work()
    s.close()
    assert len(rows(tmp_path / "m")) == before
    assert len(rows(tmp_path / "m" / "reset-001")) == 15
    again = kept().work()
    assert again.session.samples == 15 and len(again.session.sample_queue) == 15
    assert again.session.journal.folder == tmp_path / "m" / "reset-001"
    # During a mission no pilot survey is announced again: enough pings end it.
    again.stamp = s.stamp
    again.drive(25)
    assert again.session.due(again.now)


def test_an_update_that_ends_after_a_reset_is_in_neither_journal(kept, tmp_path, monkeypatch):
    s = kept(pilot_samples=5).mapped(steps=1)
    learn = s.session.mapper.learn

    def reset_meanwhile(*given):
        s.session.reset(s.now.ros_ns)
        return learn(*given)

    monkeypatch.setattr(s.session.mapper, "learn", reset_meanwhile)
    known = len(s.session.mapper.data)
    s.drive(20)
    s.work()
    s.close()
    assert rows(tmp_path / "m" / "reset-001", "SELECT * FROM updates") == []
    [[last]] = rows(tmp_path / "m", "SELECT max(last) FROM updates WHERE kind = 'update'")
    assert last < known


def test_pings_during_recovery_wait_for_it(kept, tmp_path):
    s = kept().mapped(steps=2)
    crashed(s, tmp_path / "crashed")
    again = kept("crashed")
    again.stamp = s.stamp
    again.drive(5)
    assert again.session.samples == len(again.session.all_samples()) == s.session.samples + 5
    again.work()
    again.drive(20)
    again.work()
    assert again.session.mapper.data.number.tolist() == list(range(again.session.samples))


def test_a_disk_that_fails_for_a_while_loses_nothing(kept, tmp_path, monkeypatch, eventually):
    s = kept().mapped(steps=1)
    before = s.session.samples
    monkeypatch.setattr("poam_ros.journal.writer.RETRY_S", 0.2)
    with monkeypatch.context() as broken:
        broken.setattr(JournalDatabase, "append", full)
        s.drive(20)  # pings count without it, and are learned
        s.work()
        assert "full" in s.session.journal.failing
        assert s.session.samples == s.session.mapper.samples == before + 20
        assert len(rows(tmp_path / "m")) == before
    s.drive(1)
    eventually(lambda: not s.session.journal.failing)
    assert len(rows(tmp_path / "m")) == before + 21
    assert s.session.journal.lost == 0
    s.close()
    (whole, _), (alone, _) = rebuilt(tmp_path / "m")
    np.testing.assert_allclose(whole, alone, rtol=0, atol=1e-6)
    np.testing.assert_allclose(whole, s.map, rtol=0, atol=1e-6)


def test_a_failed_write_leaves_no_part_of_a_transaction(tmp_path, monkeypatch):
    journal = Transactions(tmp_path / "pings.journal")
    journal.append({"a": 1})
    whole, write = (tmp_path / "pings.journal").read_bytes(), os.pwrite

    def short(file, part, at):
        if at > len(whole):
            raise OSError(28, "No space left on device")
        return write(file, part[:9], at)

    with monkeypatch.context() as disk:
        disk.setattr(os, "pwrite", short)
        with pytest.raises(OSError, match="No space"):
            journal.append({"b": 2})
        assert (tmp_path / "pings.journal").read_bytes() == whole
    journal.append({"b": 2})
    journal.close()
    assert [line.parts for line in read_lines(tmp_path / "pings.journal")] == [{"a": 1}, {"b": 2}]


@pytest.mark.parametrize("fails", ["append", "end"])
def test_a_disk_that_fails_for_too_long_ends_the_journal(
    kept, tmp_path, monkeypatch, eventually, fails
):
    s = kept().mapped(steps=1)
    s.written()
    before, journal = s.session.samples, s.session.journal
    monkeypatch.setattr("poam_ros.journal.writer.RETRY_S", 0.05)
    monkeypatch.setattr("poam_ros.journal.writer.MAX_QUEUED_ON_FAILURE", 30)
    with monkeypatch.context() as broken:
        broken.setattr(JournalDatabase, fails, full)
        if fails == "end":
            s.session.reset(s.now.ros_ns)
        s.drive(60)
        eventually(lambda: journal.lost >= 60)
    s.drive(5)
    eventually(lambda: journal.lost >= 65 and not journal._unwritten)
    assert "ended" in journal.failing and s.session.samples == 65 + before * (fails == "append")
    assert len(rows(tmp_path / "m")) == before  # no hole in it
    assert "the journal lacks 65 of" in s.close()


def test_pings_are_refused_while_the_disk_is_too_slow(kept, monkeypatch):
    s, gate = kept(), threading.Event()
    append = JournalDatabase.append
    monkeypatch.setattr("poam_ros.journal.writer.MAX_QUEUED_PINGS", 10)
    monkeypatch.setattr(JournalDatabase, "append", lambda *given: gate.wait(300) and append(*given))
    for _ in range(25):
        s.ping()
    assert s.session.ledger.rejected == {"log_full": 15}
    gate.set()
    s.settle()
    s.drive(1)
    assert s.session.samples == 11
