"""A session's state as a level, a text and numbers."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from diagnostic_msgs.msg import DiagnosticStatus
from sessions import Survey

from poam_ros.core.maps import ElevationMap
from poam_ros.core.samples import Samples
from poam_ros.frontend.odometry import OdometryRefused
from poam_ros.frontend.refused_pings import Lately
from poam_ros.journal.tables import WITHDRAW, JournalStep
from poam_ros.ros.mapper import mapper_status
from poam_ros.screening.crossings import Crossings
from poam_ros.screening.judge import Shift

ROOT = Path(__file__).parents[2]
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


def look(s, alive=True, lost=0, lately=None):
    if lately is None:
        lately = Lately()
        lately.take(s.session.front_end, Counter(odom=lost), s.now.steady_s)
    return mapper_status(s.session, s.now, alive, {"mean": (1.0, 2.0)}, lately)


@pytest.fixture
def mapped(monkeypatch):
    """A survey with a map whose lengthscales are known."""
    s = Survey(pilot_samples=10)

    def draw(grid, stamp_ns):
        flat = np.ones(grid.shape)
        fields = {"lengthscale": flat * np.linspace(2, 7, grid.shape[1])}
        return ElevationMap(grid, flat, flat, fields, samples=s.mapper.samples, stamp_ns=stamp_ns)

    monkeypatch.setattr(s.mapper, "map", draw)
    s.mission("exploring")
    s.drive(30, distance=None)
    s.work()
    return s


def crossed(session, late, early, difference):
    """Crossings of 10 m deep pings that the session has."""
    pings = Samples.of(np.zeros((256, 2)), np.zeros(256))
    session.verdicts._blocks.add(replace(pings, range=np.full(256, 10.0)))
    pair, count = np.zeros((len(late), 2)), np.zeros(len(late))
    session.verdicts.watch.crossings = Crossings(late, early, pair, difference, count, pair)


def test_values_of_a_running_survey(mapped):
    mapped.ping(float("nan"))
    mapped.wait(2.0)
    level, text, values = look(mapped)
    assert (level, text) == (OK, "mapping")
    assert values["received"] == 31 and values["rejected nan"] == 1
    assert (values["lengthscale_min"], values["lengthscale_max"]) == (2.0, 7.0)
    assert values["map_age_s"] == pytest.approx(2.0)
    assert 0 < values["cycle_p50_s"] <= values["cycle_p99_s"]
    assert values["cycle_s"] > 0 and values["backlog"] == 0
    assert values["map/mean at 100"] == 2.0


def test_every_value_is_in_the_manual_and_every_value_of_the_manual_is_reported(mapped):
    session, (late, early) = mapped.session, np.array([[130, 140], [10, 20]])
    crossed(session, late, early, np.array([0.5, 1.5]))
    session.verdicts._updater.change([(JournalStep(WITHDRAW, 0, 11), session.mapper.data[:12])])
    session.verdicts._find_withdrawn_lines()
    for counts in (
        session.ledger.rejected, session.ledger.odometry_rejected, session.ledger.suspect,
        session.status.dropped, session.status.errors,
    ):  # fmt: skip
        counts["anything"] += 1
    lately = Lately()
    lately.refused = lately.odometry = {"anything": 0.1}
    manual = (ROOT / "docs/operating.md").read_text().partition("| value | meaning |")[2]
    table = manual.partition("\n\n")[0].splitlines()[2:]
    names = [name for row in table for name in re.findall("`([^`]+)`", row.split("|")[1])]
    patterns = {re.sub("<[a-z]+>", ".+", name) for name in names}
    values = set(look(mapped, lately=lately)[2])
    assert {v for v in values if not any(re.fullmatch(p, v) for p in patterns)} == set()
    assert {p for p in patterns if not any(re.fullmatch(p, v) for v in values)} == set()


def test_crossings_of_the_track_are_summed_up_and_a_shift_is_said(mapped):
    watch = mapped.session.verdicts.watch
    values = look(mapped)[2]
    assert values["crossings"] == 0 and values["shift"] == "none"
    late, early = np.array([130, 140, 200]), np.array([10, 20, 30])
    crossed(mapped.session, late, early, np.array([0.5, 1.5, -0.1]))
    values = look(mapped)[2]
    assert (values["crossings"], values["crossings_median"]) == (3, 0.5)
    assert values["crossings_95"] == pytest.approx(1.4)
    assert values["crossings_within_1a"] == pytest.approx(2 / 3)  # sqrt(2) of 0.52 m
    watch.found = Shift(130, 200, 1.2, 0.1, 9)
    level, text, values = look(mapped)
    assert level == WARN and values["shift"] == watch.found.sentence
    assert text.startswith(values["shift"])


def test_the_most_severe_problem_is_reported(mapped):
    assert look(mapped, lost=3)[:2] == (WARN, "3 messages lost in the last second")
    mapped.session.status.dropped["ValueError"] = 5
    assert look(mapped, lost=3)[1].startswith("5 accepted pings")
    mapped.session.status.failing = "CholeskyError: no"
    assert look(mapped)[:2] == (ERROR, "CholeskyError: no")
    assert look(mapped, alive=False)[1].startswith("the model's thread has ended")


def test_slow_updates_are_reported(mapped):
    mapped.session.status.times.add(2.5)  # not the first, which trains from nothing
    assert look(mapped)[:2] == (OK, "mapping")
    for _ in range(100):
        mapped.session.status.times.add(2.5)
    assert look(mapped)[0] == WARN and "2.5 s" in look(mapped)[1]


def test_pings_refused_by_a_slow_model_are_reported():
    s = Survey(pilot_samples=10)
    s.session.sample_queue.capacity = 25
    s.drive(40)
    ledger = s.session.ledger
    assert len(s.session.sample_queue) == 25 and ledger.rejected == {"overload": 15}
    assert look(s)[0] == ERROR and "cannot keep up" in look(s)[1]
    s.work()
    s.drive(3)
    assert ledger.accepted == 28
    assert look(s)[:2] == (OK, "mapping")
    assert ledger.received == ledger.accepted + ledger.pending + ledger.rejected.total()


class Watched:
    """A survey whose diagnostics are looked at every second."""

    def __init__(self) -> None:
        self.survey, self.lately = Survey(pilot_samples=10), Lately()
        self.look()

    def look(self):
        self.lately.take(self.survey.session.front_end, Counter(), self.survey.now.steady_s)
        return look(self.survey, lately=self.lately)

    def second(self, odometry=True, distance=None):
        s = self.survey
        for _ in range(10):
            s.wait(0.1)
            if odometry is True:
                s.odometry()
            elif odometry:
                s.odometry(OdometryRefused(odometry))
            s.ping(distance)
            s.tick()
        return self.look()


@pytest.mark.parametrize(
    ("odometry", "reason"), [(False, "no_odometry"), ("wrong_frame", "wrong_frame")]
)
def test_odometry_that_stops_or_changes_its_frame_is_an_error_and_its_return_none(odometry, reason):
    """Once any odometry was there, the level was OK while every ping was refused."""
    watched = Watched()
    for _ in range(20):
        assert watched.second()[0] == OK
    assert not watched.lately.fault
    level, text, values = max((watched.second(odometry) for _ in range(25)), key=lambda s: s[0])
    assert level == ERROR and f"the last 10 s refused as {reason}" in text
    assert watched.lately.fault == reason
    assert f"lately {reason}" in values or f"lately odometry {reason}" in values
    for _ in range(25):
        level, text, _ = watched.second()
    assert (level, text) == (OK, "waiting for the pilot survey") or level == OK


def test_silence_is_a_fault_and_so_are_several_reasons_together():
    watched = Watched()
    assert watched.lately.fault == "no_ping"
    for second in range(20):
        watched.second(distance=(float("nan"), 1e9, -1.0)[second % 3])
    assert watched.lately.fault in ("nan", "out_of_range", "too_close")
    assert watched.look()[0] == ERROR
    watched.second()
    assert not watched.lately.fault


@pytest.mark.parametrize(("share", "expected"), [(0.05, OK), (0.5, WARN), (1.0, ERROR)])
def test_the_level_is_that_of_the_share_refused(share, expected):
    watched = Watched()
    for second in range(30):
        nan = (second % 20) < 20 * share
        level, text, _ = watched.second(distance=float("nan") if nan else None)
        if share == 0.5 and second % 20 == 11:
            assert level == WARN and "refused as nan" in text
    assert share == 0.5 or level == expected
