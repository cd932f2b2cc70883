"""Streams of `poam drive` that stop or come late; the rest is in ``test_scenarios``."""

import pytest

from poam_ros.frontend.events import PositionsShifted


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda boat: boat.muted.add("ATTITUDE"), "ATTITUDE arrives too rarely, or has stopped"),
        (lambda boat: setattr(boat, "ekf_flags", 1 + 128), "the autopilot's EKF does not know its"),
    ],
)
def test_the_reason_names_what_the_autopilot_lacks(voyage, change, words):
    v = voyage().explore()
    change(v.boat)
    v.until(lambda: v.state == "paused", 10)
    v.run(1)
    assert v.mission.reason.startswith(f"no odometry for 5 s: {words}")


def test_late_messages_do_not_steer(voyage):
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


@pytest.mark.parametrize("asked", [False, True])
def test_a_shift_of_positions_that_crossings_show_pauses_if_asked(voyage, asked):
    v = voyage({"watchdog.pause_on_shift": asked}).explore()
    text = "positions may have shifted: crossings differ by 2 m"
    v.drive._learn(PositionsShifted(text), v.drive._now)
    v.run(1)
    if not asked:
        assert v.state == "exploring"
        return
    assert v.state == "paused" and v.mission.reason == text
    accepted = v.drive.session.samples
    v.run(20)
    assert v.state == "paused" and v.drive.session.samples == accepted


def test_a_link_that_loses_every_fourth_message(voyage):
    v = voyage()
    v.boat.loss = 0.25
    v.explore().run(60)
    assert not any("NO TARGETS" in text for text in v.said)
    assert 0.15 < v.drive.link.lost_share < 0.35
    assert v.mission.goals.results["timeout"] == 0
    sent, known = v.balance()
    assert sent == known > 200
