"""Refused pings in the journal: their places, their bounded number, their recovery."""

import math
import threading

import numpy as np
import pytest
from kept import DEPTH, Kept, full, rows, surveys

from poam_ros.core.clock import SECOND
from poam_ros.frontend.front_end import RawPing
from poam_ros.journal import tables as log_file
from poam_ros.journal.database import JournalDatabase
from poam_ros.journal.folder import read_mission
from poam_ros.outputs.run import read_unmapped

REFUSED = "SELECT * FROM refused ORDER BY reason, number"


class Refusing(Kept):
    """Some of whose pings are refused, on purpose."""

    def refuse(self, count, distance=math.nan):
        """Pings at the last place that was driven to; they are a microsecond apart."""
        at = self.stamp * SECOND // 10
        for n in range(count):
            self.session.ping(RawPing(at - 1000 * n, distance, 1.0, 1000.0), self.now)
        self.session.tick(self.now)


@pytest.fixture
def kept(tmp_path):
    yield from surveys(tmp_path, Refusing)


def test_refused_pings_are_stored_with_place_time_and_reason(kept, tmp_path):
    s = kept()
    s.drive(5)
    s.refuse(2)
    s.refuse(1, math.inf)
    s.session.mission("paused", s.now)
    s.ping()
    s.written()
    x, y, _ = s.place(5)
    found = rows(tmp_path / "m", REFUSED)
    assert [row[:3] for row in found] == [
        ("nan", 0, SECOND // 2), ("nan", 1, SECOND // 2 - 1000), ("no_return", 0, SECOND // 2),
        ("paused", 0, 6 * SECOND // 10),
    ]  # fmt: skip
    np.testing.assert_allclose([row[3:5] for row in found[:3]], [(x, y)] * 3, atol=1e-4)
    np.testing.assert_allclose(found[3][3:5], s.place(6)[:2])
    assert [row[5] for row in found[:3]] == [None] * 3 and 0 < found[3][5] < DEPTH
    assert len(rows(tmp_path / "m")) == 5
    # As somebody reads them while the mapper has the log, for a page or another map.
    seen = read_unmapped(tmp_path / "m").refused
    assert seen.counts == s.session.ledger.rejected == {"nan": 2, "no_return": 1, "paused": 1}
    assert repr(seen.rows) == repr(read_mission(tmp_path / "m").logged.refused.rows)


def test_refused_pings_alone_are_committed_from_time_to_time(
    kept, tmp_path, monkeypatch, eventually
):
    """A vehicle that waits for days refuses every ping; each is not worth a commit."""
    monkeypatch.setattr("poam_ros.journal.writer.RETRY_S", 0.05)
    s, commits, append = kept(), [], JournalDatabase.append
    monkeypatch.setattr(JournalDatabase, "append", lambda *a: commits.append(1) or append(*a))
    s.drive(1)
    before = len(commits)
    s.refuse(3)
    eventually(lambda: len(rows(tmp_path / "m", REFUSED)) >= 3)
    assert len(commits) == before + 1


def test_the_newest_refused_pings_of_each_reason_are_kept(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "MAX_PER_REASON", 5)
    s = kept()
    s.drive(5)
    s.refuse(1, math.inf)
    for _ in range(4):
        s.refuse(9)
        s.written()
        assert len(rows(tmp_path / "m", REFUSED)) == 6
    assert [row[1] for row in rows(tmp_path / "m", REFUSED)] == [*range(31, 36), 0]
    assert read_unmapped(tmp_path / "m").refused.counts == {"nan": 36, "no_return": 1}


@pytest.mark.parametrize("screening", [True, False])
def test_after_a_restart_refused_pings_are_there_and_numbers_continue(kept, tmp_path, screening):
    s = kept(**{"screening.enabled": screening})
    for _ in range(5):
        s.ping()
    s.refuse(3)
    s.close()
    again = kept(**{"screening.enabled": screening})
    again.stamp = s.stamp
    before = again.session.ledger.refused
    assert before.counts == {"nan": 3} and len(before.placed) == 3
    assert not again.session.ledger.rejected, "of this process"
    again.ping()
    again.refuse(1)
    again.written()
    assert [row[1] for row in rows(tmp_path / "m", REFUSED)] == [0, 1, 2, 3]


def test_pings_before_a_reset_are_in_the_ended_mission(kept, tmp_path):
    s = kept(**{"screening.enabled": True})
    for _ in range(5):
        s.ping()
    s.refuse(2)
    s.session.reset(s.now.ros_ns)
    s.ping()
    s.refuse(1)
    s.close()
    assert read_unmapped(tmp_path / "m").refused.counts == {"nan": 2}
    ended = rows(tmp_path / "m", "SELECT stamp_ns FROM pings ORDER BY number")
    assert ended == [(n * SECOND // 10,) for n in range(1, 6)]
    assert rows(tmp_path / "m" / "reset-001", "SELECT stamp_ns FROM pings") == [(6 * SECOND // 10,)]
    found = rows(tmp_path / "m" / "reset-001", REFUSED)
    assert [row[:2] for row in found] == [("nan", 0)]


def test_while_the_disk_fails_refused_pings_are_only_counted(kept, tmp_path, monkeypatch):
    s = kept()
    s.drive(5)
    s.refuse(1)
    s.written()

    failed = threading.Event()

    def fails(*_):
        failed.set()
        full()

    monkeypatch.setattr("poam_ros.journal.writer.RETRY_S", 0.05)
    with monkeypatch.context() as broken:
        broken.setattr(JournalDatabase, "append", fails)
        s.refuse(7)
        s.drive(3)  # whose pings count meanwhile
        assert failed.is_set()
    s.drive(1)
    s.refuse(1)
    s.close()
    assert len(rows(tmp_path / "m")) == 9, "no accepted ping is lost by that"
    assert [row[1] for row in rows(tmp_path / "m", REFUSED)] == [0, 8]
    assert read_unmapped(tmp_path / "m").refused.counts == {"nan": 9}


def test_refused_pings_that_wait_for_a_slow_disk_are_bounded(kept, tmp_path, monkeypatch):
    monkeypatch.setattr("poam_ros.journal.writer.MAX_QUEUED_PINGS", 10)
    s, gate, append = kept(), threading.Event(), JournalDatabase.append
    begun = threading.Event()

    def slow(*given):
        begun.set()
        assert gate.wait(300)
        append(*given)

    monkeypatch.setattr(JournalDatabase, "append", slow)
    s.ping()
    assert begun.wait(300)
    for _ in range(6):
        s.refuse(30)
    assert len(s.session.journal._refused) == 10
    gate.set()
    s.close()
    assert [row[1] for row in rows(tmp_path / "m", REFUSED)] == list(range(170, 180))
