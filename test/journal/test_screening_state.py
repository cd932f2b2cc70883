"""Held and unscreened pings are stored, and screened as without a restart."""

import json
import random
import shutil
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from kept import Echoing, rows, surveys

from poam_ros.frontend.events import MissionStateChanged, Problem, ResetRequested
from poam_ros.frontend.front_end import RawPing
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.reader import read_mission

END = 200  # pings
REFUSED = "SELECT * FROM refused ORDER BY reason, number"
HELD, WAITING = "SELECT * FROM held ORDER BY 1", "SELECT * FROM waiting ORDER BY 1"


@pytest.fixture
def screened(tmp_path):
    yield from surveys(tmp_path, Echoing)


@pytest.fixture
def image(monkeypatch, tmp_path):
    """Pictures of the disk, as the power might leave it: after some commits, drawn at random."""
    seed, made, append = random.randrange(10**6), [], JournalDatabase.append
    draw = random.Random(seed)

    def pictured(log, *given):
        append(log, *given)
        if len(made) < 2 or draw.random() < 0.3:
            made.append(tmp_path / f"image-{seed}-{len(made)}")
            shutil.copytree(log.path.parent, made[-1], ignore=shutil.ignore_patterns(".*"))

    with monkeypatch.context() as patch:
        patch.setattr(JournalDatabase, "append", pictured)
        yield lambda: patch.undo() or draw.sample(made, min(4, len(made)))


def test_refused_pings_of_a_pilot_survey_do_not_delay_the_first_map(screened):
    """Where no mission state ends it: its accepted pings are fewer than those that were enough."""
    survey = screened()
    survey.drive(40)
    survey.turn()
    counts = survey.session.ledger.counts()
    assert counts["held"] + counts["rejected"] > 0 and counts["pending"] == 0
    assert survey.session.mapper.samples == counts["accepted"] > 0


def test_after_a_crash_at_any_moment_screening_gives_the_same_result(screened, image, tmp_path):
    whole = screened().until(END)
    whole.written()
    everything, counts = whole.session.all_samples(), whole.session.ledger.counts()
    assert counts["held"] > 0 and counts["rejected"] > 0 and whole.balanced
    images = image()
    assert len(images) > 1
    for at in images:
        screening_state, waiting = rows(at, HELD), rows(at, WAITING)
        [(judged,)] = rows(at, "SELECT judged FROM screen") or [(0,)]
        refused = rows(at, REFUSED)
        known = [row[1] for row in (*rows(at), *screening_state, *waiting)]
        known += [row[2] for row in refused]
        assert len(set(known)) == len(known), (at, "all or nothing of a judgement is there")
        again = screened(at.name)
        # All pings placed before are accepted, refused, held or unscreened.
        again.stamp = judged + len(waiting)
        assert again.balanced
        first = again.session.ledger.counts()
        assert (first["held"], first["pending"]) == (len(screening_state), len(waiting)), at
        assert again.session.undecided == len(screening_state) + len(waiting), at
        again.turn()
        again.until(END)
        for ours, theirs in zip(again.session.all_samples().arrays, everything.arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=str(at))
        np.testing.assert_allclose(again.map, whole.map, rtol=0, atol=1e-6, err_msg=str(at))
        states = [each.session._screen.dump_state() for each in (again, whole)]
        assert states[0] == states[1], at
        again.written()
        assert rows(at, REFUSED) == rows(tmp_path / "m", REFUSED), at
        assert again.balanced


def test_the_journal_has_held_and_unscreened_pings(screened, tmp_path):
    s = screened().until(END)
    s.drive(3)
    s.written()
    held, waiting = s.session.held, s.session.queue.samples
    assert len(held) and len(waiting) >= 3
    for query, pings in ((HELD, held), (WAITING, waiting)):
        found = rows(tmp_path / "m", query)
        assert [row[:5] for row in found] == [
            (number, stamp, x, y, z)
            for number, stamp, (x, y), z in zip(*pings.arrays[:4], strict=True)
        ]
        assert [row[6] for row in found] == pings.range.tolist()
    accepted = {row[1] for row in rows(tmp_path / "m")}
    assert accepted.isdisjoint(held.stamp_ns.tolist())
    s.session.handle(MissionStateChanged("done"), s.now)
    s.turn()
    assert s.session.status.finished and s.balanced
    assert rows(tmp_path / "m", HELD) == rows(tmp_path / "m", WAITING) == []
    assert len(rows(tmp_path / "m")) == s.session.mapper.samples


def test_a_reset_refuses_held_pings(screened, tmp_path):
    s = screened().until(END)
    s.session.handle(ResetRequested(), s.now)
    s.drive(9)
    s.close()
    assert rows(tmp_path / "m", HELD) == rows(tmp_path / "m", WAITING) == []
    again = screened()
    assert len(rows(tmp_path / "m" / "reset-001", WAITING)) == 9
    assert again.session.ledger.counts()["pending"] == 9 and again.balanced


def test_pings_held_by_other_rules_are_screened_again(screened, tmp_path):
    s = screened().until(END)
    s.close()
    held = rows(tmp_path / "m", HELD)
    with closing(sqlite3.connect(tmp_path / "m" / "pings.sqlite")) as db:
        [(text,)] = db.execute("SELECT memory FROM screen").fetchall()
        memory = json.loads(text)
        memory["Memory"]["of earlier rules"] = 1
    log = JournalDatabase(tmp_path / "m" / "pings.sqlite", {}).begin()
    screening_state = log.contents.screening_state
    log.append([], [], 0, screening_state=replace(screening_state, screener=json.dumps(memory)))
    log.close()
    again = screened()
    counts = again.session.ledger.counts()
    assert held and counts["held"] == 0 and counts["pending"] >= len(held)
    again.stamp = s.stamp
    again.until(END + 30)
    told = [o.message for o in again.outcomes if isinstance(o, Problem)]
    assert [note.reason for note in told] == ["screen"] and "other rules" in told[0].text
    assert again.balanced


@pytest.mark.parametrize(
    ("layout", "lacks"),
    [(1, ("held", "waiting", "screen", "refused")), (2, ("refused",)), (3, ())],
)
def test_a_journal_of_an_earlier_version_is_recovered(screened, tmp_path, layout, lacks):
    s = screened().until(100)
    s.close()
    accepted, held = s.session.samples, rows(tmp_path / "m", HELD)
    with closing(sqlite3.connect(tmp_path / "m" / "pings.sqlite")) as db:
        for table in (*lacks, "chain"):
            db.execute(f"DROP TABLE {table}")
        db.execute(f"PRAGMA user_version = {layout}")
        db.commit()
    (tmp_path / "m" / "pings.journal").unlink()
    past = read_mission(tmp_path / "m").logged
    assert len(past.samples) == accepted and (layout == 3) == (len(past.refused) > 0)
    assert len(past.screening_state.held) == (0 if layout == 1 else len(held)) and held
    again = screened()
    assert again.session.samples == accepted
    assert again.session.ledger.counts()["held"] == len(past.screening_state.held)
    again.stamp = s.stamp
    again.until(150)
    again.session.handle(RawPing(again.now.ros_ns, float("nan"), 1.0, 1000.0), again.now)
    again.ping()
    again.written()
    assert rows(tmp_path / "m", "PRAGMA user_version") == [(4,)]
    assert (tmp_path / "m" / "pings.journal").exists() and not [*(tmp_path / "m").glob("damaged*")]
    assert len(rows(tmp_path / "m", HELD)) == len(again.session.held)
    assert len(rows(tmp_path / "m", REFUSED)) == (
        len(past.refused) + again.session.ledger.rejected.total()
    )


def test_accepted_pings_enter_the_model_before_more_are_screened(screened, monkeypatch):
    """Else a sonar that is faster than the disk would keep the model from learning for ever."""
    s, gate, append = screened(), threading.Event(), JournalDatabase.append

    def slow(*given):
        assert gate.wait(300)
        append(*given)

    monkeypatch.setattr(JournalDatabase, "append", slow)
    for _ in range(45):
        s.ping()
    s.work()
    accepted = s.session.ledger.accepted
    assert accepted > 30 and s.session.mapper.samples == 0
    for _ in range(45):
        s.ping()
    assert not s.session.due(s.now)
    gate.set()
    s.settle()
    list(s.session.work(s.now))
    assert s.session.mapper.samples == accepted == s.session.ledger.accepted
    s.turn()
    assert s.session.mapper.samples > accepted
