"""Each placed ping has a row with its present verdict, also after a crash."""

import random
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest
from kept import Echoing, rows, surveys

from poam_ros.core.errors import InputError
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import read_mission

END = 200  # pings
REFUSED = "SELECT * FROM refused ORDER BY reason, number"
OUT = "SELECT number FROM pings WHERE verdict != 1 ORDER BY number"


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


def out(folder):
    """Numbers of the pings whose verdict is not bottom."""
    return [number for (number,) in rows(folder, OUT)]


def test_after_a_crash_at_any_moment_the_verdicts_are_the_same(screened, image, tmp_path):
    whole = screened().until(END)
    whole.written()
    everything = whole.session.all_samples()
    assert len(whole.session.withdrawn) > 10 and whole.balanced
    images = image()
    assert len(images) > 1
    for at in images:
        placed = len(rows(at))
        known = [row[1] for row in rows(at)] + [row[2] for row in rows(at, REFUSED)]
        assert len(set(known)) == len(known), at
        assert out(at) == sorted(number for number, what in enumerate(verdicts(at)) if what != 1), (
            at
        )
        again = screened(at.name)
        again.stamp = placed
        assert again.balanced and again.session.samples == placed - len(out(at)), at
        again.turn()
        again.until(END)
        for ours, theirs in zip(again.session.all_samples().arrays, everything.arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs, err_msg=str(at))
        np.testing.assert_allclose(again.map, whole.map, rtol=0, atol=1e-6, err_msg=str(at))
        again.written()
        assert rows(at) == rows(tmp_path / "m"), at
        assert rows(at, REFUSED) == rows(tmp_path / "m", REFUSED), at
        assert again.balanced


def verdicts(folder):
    """The verdict on each ping by the steps."""
    found = [1] * len(rows(folder))
    steps = rows(folder, "SELECT kind, first, last, steps FROM updates ORDER BY id")
    for kind, first, last, what in steps:
        if kind in ("withdraw", "reinstate"):
            found[first : last + 1] = [what if kind == "withdraw" else 1] * (last + 1 - first)
    return found


def test_dropped_steps_take_their_verdicts_along(screened, tmp_path):
    s = screened().until(END)
    s.close()
    assert out(tmp_path / "m")
    journal = JournalDatabase(tmp_path / "m" / "pings.sqlite", {}).begin()
    journal.truncate_steps(0)
    journal.close()
    assert not out(tmp_path / "m")
    assert not JournalDatabase(tmp_path / "m" / "pings.sqlite", {}).damage


def test_a_reset_leaves_the_verdicts_to_the_old_journal(screened, tmp_path):
    s = screened().until(END)
    before = len(s.session.withdrawn)
    s.session.reset(s.now.ros_ns)
    s.drive(9)
    s.close()
    assert len(out(tmp_path / "m")) == before > 0
    again = screened()
    assert len(rows(tmp_path / "m" / "reset-001")) == 9 == again.session.samples
    assert again.balanced


def test_a_journal_of_another_layout_is_refused_and_left_unchanged(screened, tmp_path):
    screened().until(60).close()
    path = tmp_path / "m" / "pings.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 4")
    before = path.read_bytes()
    (tmp_path / "m" / "pings.journal").unlink()
    with pytest.raises(InputError, match="layout 4 of another version, not 5"):
        read_mission(tmp_path / "m")
    assert path.read_bytes() == before
