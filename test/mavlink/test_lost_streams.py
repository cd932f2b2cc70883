"""Links that are cut, streams that stop or come late, an EKF that starts again elsewhere."""

import math

import pytest

from poam_ros.frontend.events import PositionsShifted


@pytest.mark.parametrize("seconds", [10, pytest.param(600, marks=pytest.mark.slow)])
def test_a_cut_link(voyage, seconds):
    v = voyage().explore()
    v.boat.cut = True
    v.run(7)
    assert v.state == "paused" and "the link is lost: no heartbeat for 5 s" in v.mission.reason
    sent = v.drive.steering.sent
    v.run(seconds - 7)
    v.boat.cut = False
    v.run(10)
    assert v.state == "paused" and v.drive.steering.sent == sent
    before = v.drive.session.samples
    v.boat.mode = "MANUAL"
    v.boat.drive_to(-9, 9)
    v.run(10)
    assert v.drive.session.samples > before  # mapped on
    v.boat.mode = "GUIDED"
    v.run(2).resume()
    assert v.state == "exploring" and v.sent_within(3)
    sent, known = v.balance()
    assert sent == known


@pytest.mark.parametrize(
    ("muted", "words"),
    [
        ("GLOBAL_POSITION_INT", "no odometry for 5 s"),
        ("ATTITUDE", "no odometry for 5 s: ATTITUDE does not come often enough, or has stopped"),
        ("DISTANCE_SENSOR", "no ping for 30 s"),
    ],
)
def test_half_a_stream_pauses_and_resumes_by_itself(voyage, muted, words):
    v = voyage().explore()
    v.boat.muted.add(muted)
    v.until(lambda: v.state == "paused", 45)
    v.run(1)
    assert v.mission.reason == words
    v.run(6)  # holds station, and is not heard on that
    assert v.sent_within(5) == 0
    v.boat.muted.clear()
    v.until(lambda: v.state == "exploring", 20)
    assert v.sent_within(3)


def test_heartbeats_alone_are_lost(voyage):
    v = voyage().explore()
    v.boat.muted.add("HEARTBEAT")
    v.until(lambda: v.state == "paused", 10)
    assert "no heartbeat" in v.mission.reason and v.sent_within(5) == 0
    v.boat.muted.clear()
    assert v.run(5).state == "paused" and v.sent_within(5) == 0  # only a person resumes


def test_messages_that_come_late_do_not_steer(voyage):
    v = voyage().explore()
    v.boat.delay_s = 20.0
    v.until(lambda: v.state == "paused", 40)
    assert "no odometry" in v.mission.reason
    v.run(30)
    assert "positions arrive 20 s late" in v.mission.reason
    v.boat.delay_s = 0.0
    v.until(lambda: v.state == "exploring", 60)
    # What was measured at its own time is mapped at its own place.
    assert not v.drive.session.ledger.rejected["no_odometry"]


def test_an_ekf_that_does_not_know_its_position(voyage):
    v = voyage().explore()
    v.boat.ekf_flags = 1 + 128
    v.until(lambda: v.state == "paused", 10)
    v.run(1)
    assert v.mission.reason.endswith("the autopilot's EKF does not know its position")


def test_a_shift_of_positions_that_crossings_show_pauses(voyage):
    v = voyage().explore()
    v.drive._learn(PositionsShifted("positions have drifted by about 9 m"), v.drive._now)
    v.run(1)
    assert v.state == "paused" and v.mission.reason == "positions have drifted by about 9 m"
    held = v.drive.session.samples
    v.run(20)
    assert v.state == "paused" and v.drive.session.samples == held


@pytest.mark.parametrize("told", [True, False], ids=["with its origin", "without a word"])
def test_an_ekf_that_starts_again_elsewhere(voyage, told):
    v = voyage().explore()
    if not told:
        v.boat.muted.add("GPS_GLOBAL_ORIGIN")
    v.run(2)
    v.boat.jump_ekf(9.0, 12.0)
    v.until(lambda: v.state == "paused", 5).run(1)
    moved = "the EKF's origin has moved by 15.0 m" in v.mission.reason
    assert moved == told and (told or "the position jumped by 1" in v.mission.reason)
    v.run(4)
    held = v.drive.session.samples
    v.run(30)  # nobody knows where the pings are: refused by name, and the boat stays
    assert v.state == "paused" and v.drive.session.samples == held
    assert v.drive.session.ledger.rejected["paused"] > 60
    place = v.boat.position
    v.run(5)
    assert math.dist(place, v.boat.position) < 0.5
    sent, known = v.balance()
    assert sent == known


def test_a_reboot_of_the_autopilot(voyage):
    v = voyage().explore()
    v.boat.reboot()
    v.run(3)
    assert v.state == "paused" and v.sent_within(5) == 0
    v.boat.mode, v.boat.armed = "GUIDED", True
    v.run(5).resume()
    assert v.state == "exploring" and v.sent_within(3)
    before = v.drive.session.samples
    assert v.run(20).drive.session.samples > before + 30


def test_a_link_that_loses_every_fourth_message(voyage):
    v = voyage()
    v.boat.loss = 0.25
    v.explore().run(60)
    assert not any("NO TARGETS" in text for text in v.said)
    assert 0.15 < v.drive.link.lost_share < 0.35
    assert v.mission.goals.results["timeout"] == 0
    sent, known = v.balance()
    assert sent == known > 200
