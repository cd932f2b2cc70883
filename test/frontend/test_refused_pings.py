"""Refused pings: which have a place, how many are stored, and that all are counted."""

import math
from dataclasses import replace

import numpy as np
import pytest

from poam_ros.core.clock import SECOND
from poam_ros.core.geometry import Extent
from poam_ros.core.samples import Samples
from poam_ros.frontend.odometry import OdometryRefused, VehicleState
from poam_ros.frontend.pings import FrontEndSettings, RawPing
from poam_ros.frontend.refused_pings import MAX_PER_REASON, Ledger, RefusedPing, RefusedPings

SMALL = Extent(-5, 5, -5, 5)
FRONT_END = FrontEndSettings(workspace=SMALL, max_outside=0.0)


class Straight:
    """A session whose vehicle goes along x at 1 m/s, 100 m high; one ping after the other."""

    def __init__(self, survey, **front_end):
        self.s = survey(front_end=replace(FRONT_END, **front_end), grid=None)
        self.at(0.0)

    def at(self, t, **more):
        """The vehicle is at x = t, at the time t."""
        self.s.wait(t - self.s.now.ros_ns / SECOND)
        self.s.odometry(VehicleState(self.s.now.ros_ns, (t, 0.0, 100.0), **more))

    def ping(self, t, distance, **more):
        self.s.ping(RawPing(round(t * SECOND), distance, 1.0, 150.0, **more))
        self.s.tick()

    @property
    def rows(self):
        return self.s.session.ledger.refused.rows

    def only(self):
        """The one refused ping: reason, time and place."""
        (row,) = self.rows
        assert self.s.session.ledger.rejected == {row.reason: 1} and row.number == 0
        return row.reason, row.stamp_ns / SECOND, *row[3:]


def same(found, expected):
    assert found[0] == expected[0]
    np.testing.assert_allclose(found[1:], expected[1:], atol=1e-9)


nan = math.nan


@pytest.mark.parametrize(
    ("distance", "reason"),
    [(nan, "nan"), (math.inf, "no_return"), (0.5, "too_close"), (151.0, "out_of_range")],
)
def test_a_refused_ping_without_a_range_is_at_the_sonar(survey, distance, reason):
    """Between two odometries: it waits for the second, as an accepted ping does."""
    v = Straight(survey, sonar_offset=(0.0, 0.25, 0.0))
    v.ping(0.3, distance)
    assert v.s.session.ledger.rejected == {reason: 1} and not v.rows
    v.at(1.0)
    v.s.tick()
    same(v.only(), (reason, 0.3, 0.3, 0.25, nan))


@pytest.mark.parametrize(
    ("front_end", "more", "expected"),
    [
        ({"min_confidence": 0.5}, {"confidence": 0.1}, ("low_confidence", 1.0, 1.0, 0.0, 60.0)),
        ({"max_noise_std": 0.5}, {"variance": 1.0}, ("too_noisy", 1.0, 1.0, 0.0, 60.0)),
        ({"workspace": Extent(4, 9, -5, 5)}, {}, ("outside_workspace", 1.0, 1.0, 0.0, 60.0)),
        ({"base_frame": "base_link"}, {"frame_id": "sonar"}, ("no_mount", 1.0, 1.0, 0.0, nan)),
        ({"await_water_level": True}, {}, ("water_level_stale", 1.0, 1.0, 0.0, nan)),
        # The time of measurement, and the bottom as it lies by the true sound speed.
        (
            {"range_time_offset": -0.5, "sound_speed": 1650.0, "workspace": Extent(4, 9, -5, 5)},
            {}, ("outside_workspace", 0.5, 0.5, 0.0, 56.0),
        ),
    ],
)  # fmt: skip
def test_a_refused_ping_with_a_range_is_at_the_end_of_its_beam(survey, front_end, more, expected):
    v = Straight(survey, **front_end)
    v.at(1.0)
    v.ping(1.0, 40.0, **more)
    same(v.only(), expected)


def test_duplicates_and_late_pings_have_a_place(survey):
    v = Straight(survey, repeat_window=5.0)
    v.at(1.0)
    v.ping(1.0, 40.0)
    v.ping(1.0, 40.0)
    v.at(2.0)
    v.ping(2.0, 40.0)
    for state in ("paused", "waiting", "done"):
        v.s.mission(state)
        v.ping(2.0, 41.0)
    found = [(row.reason, row.x, row.z) for row in v.rows]
    assert found == [
        ("duplicate", 1.0, 60.0), ("repeat", 2.0, 60.0), ("paused", 2.0, 59.0),
        ("waiting", 2.0, 59.0), ("after_mission", 2.0, 59.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "distance", "frame", "expected"),
    [
        ("waiting", 40.0, "map", "waiting"), ("waiting", nan, "map", "nan"),
        ("waiting", 40.0, "odom", "wrong_frame"), ("paused", nan, "map", "paused"),
    ],
)  # fmt: skip
def test_before_the_start_a_fault_of_a_ping_counts_more_than_the_state(
    survey, state, distance, frame, expected
):
    """Else nobody would know before the start that no ping can be mapped."""
    v = Straight(survey)
    v.s.mission(state)
    if frame == "map":
        v.at(1.0)
    else:
        v.s.odometry(OdometryRefused("wrong_frame"))
    v.ping(1.0, distance)
    v.s.wait(60.0)
    v.s.tick()
    assert v.s.session.ledger.rejected == {expected: 1}


def test_the_end_of_a_mission_refuses_waiting_pings_with_their_places(survey):
    v = Straight(survey)
    v.ping(0.5, 40.0)
    v.s.mission("done")
    assert not v.rows and v.s.session.ledger.rejected == {"after_mission": 1}
    v.at(1.0)
    v.s.tick()
    same(v.only(), ("after_mission", 0.5, 0.5, 0.0, 60.0))


def test_a_refused_ping_without_odometry_has_no_place(survey):
    v = Straight(survey)
    v.ping(0.5, 40.0)  # no odometry comes for it
    v.ping(0.6, nan)
    v.s.wait(6.0)
    v.s.tick()
    assert {row.reason for row in v.rows} == {"no_odometry", "nan"}
    v.at(9.0)
    v.ping(-1.0, 40.0)  # from before there was any: of another clock
    v.ping(9.5, math.inf)
    v.s.front_end.clock_set_back()
    ledger = v.s.session.ledger
    found = ledger.refused
    refused = {"no_odometry": 1, "other_clock": 1, "nan": 1, "no_return": 1}
    assert found.counts == ledger.rejected == refused
    assert np.isnan(found.xyz).all() and not len(found.placed)


def test_many_pings_of_one_reason_do_not_displace_those_of_another(survey):
    v = Straight(survey)
    v.at(1.0)
    v.ping(1.0, 151.0)
    total = MAX_PER_REASON + 700
    for n in range(total):
        v.ping(1.0 - n * 1e-6, nan)
    found = v.s.session.ledger.refused
    assert found.counts == {"nan": total, "out_of_range": 1} and len(found) == MAX_PER_REASON + 1
    last = found[found.reason == "nan"]
    assert last.number.tolist() == list(range(700, total))
    assert last.stamp_ns[-1] == SECOND - 1000 * (total - 1)


def test_pings_that_wait_for_their_place_are_bounded(survey):
    v = Straight(survey, capacity=10)
    for n in range(25):
        v.ping(0.5 + n * 1e-3, nan)
    assert len(v.rows) == 15 and v.s.session.ledger.rejected == {"nan": 25}
    v.at(1.0)
    v.s.tick()
    found = v.s.session.ledger.refused
    assert len(found) == 25
    np.testing.assert_allclose(found.placed.xyz[:, 0], 0.5 + np.arange(15, 25) * 1e-3)


def test_a_reset_forgets_the_places_of_refused_pings(survey):
    s, written = survey(pilot_samples=30), []
    s.learn(30)
    s.session.journal.append = lambda samples, refused=(): written.extend(refused) or samples
    s.ping(nan)
    s.front_end.clock_set_back()  # it is refused now, and not in the journal yet
    assert not written
    s.reset()
    assert [row.reason for row in written] == ["nan"]
    ledger = s.session.ledger
    assert not len(ledger.refused), "what comes now is another mission's"
    s.odometry()
    s.ping(math.inf)
    s.tick()
    assert ledger.refused.counts == {"no_return": 1}


def test_numbers_continue_from_another_store():
    first = Ledger()
    for n in range(3):
        first.store("paused", n, (float(n), 0.0, nan))
    again = Ledger()
    again.recover(0, first.refused)
    version = again.version
    again.store("paused", 9)
    assert again.version != version
    assert [row.number for row in again.refused.rows] == [0, 1, 2, 3]
    assert [row.number for row in again.take_refused()] == [3] and again.take_refused() == []
    assert again.refused.counts == {"paused": 4}


def test_further_pings_of_a_reason_continue_its_numbers_and_are_bounded():
    first = RefusedPings.of(
        [RefusedPing("a", 4, 1, 0.0, 0.0, nan), RefusedPing("b", 0, 2, 1.0, 1.0, 1.0)]
    )
    many = np.arange(MAX_PER_REASON - 1), np.zeros((MAX_PER_REASON - 1, 3))
    assert first.more("a", many[0][:0], many[1][:0]).counts == first.counts
    found = first.more("a", *many)
    assert (
        found.counts == {"a": 5 + MAX_PER_REASON - 1, "b": 1} and len(found) == MAX_PER_REASON + 1
    )
    found = found.more("a", *many).more("c", *many)
    assert found.counts["a"] == 5 + 2 * (MAX_PER_REASON - 1) and len(found) == 2 * MAX_PER_REASON
    assert found[found.reason == "a"].number.tolist() == list(
        range(5 + 2 * (MAX_PER_REASON - 1) - MAX_PER_REASON, 5 + 2 * (MAX_PER_REASON - 1))
    )


def pings(count, first=0):
    return Samples.of(np.zeros((count, 2)), np.zeros(count), first)


def states(ledger):
    """Those that are not empty, and a check of their sum."""
    received, *parts = ledger.counts().values()
    assert received == sum(parts)
    return {name: count for name, count in ledger.counts().items() if count}


def test_a_ping_moves_from_state_to_state():
    ledger = Ledger()
    for _ in range(10):
        ledger.receive()
    ledger.refuse("nan")
    assert states(ledger) == {"received": 10, "pending": 9, "rejected": 1}
    ledger.refuse("no_odometry")
    assert ledger.accept(pings(5)).number.tolist() == [0, 1, 2, 3, 4]
    assert states(ledger) == {"received": 10, "accepted": 5, "pending": 3, "rejected": 2}
    ledger.restart()
    assert states(ledger) == {"received": 10, "accepted": 5, "pending": 3, "rejected": 2}
    assert ledger.samples == 0 and not len(ledger.refused)


def test_after_a_restart_numbers_continue():
    ledger = Ledger()
    ledger.recover(40, RefusedPings.none())
    assert states(ledger) == {} and ledger.samples == 40
    ledger.receive(5)
    assert ledger.accept(pings(5)).number.tolist() == [*range(40, 45)]


@pytest.mark.parametrize("numbering", [True, False])
def test_placed_pings_keep_their_numbers(numbering):
    ledger = Ledger(numbering)
    ledger.receive(3)
    accepted = ledger.accept(pings(3, first=70))
    assert accepted.number[0] == (0 if numbering else 70)
    assert states(ledger) == {"received": 3, "accepted": 3}
