"""Of `poam drive`, beside ``test_scenarios``: starts, checks, late messages and stalls."""

from dataclasses import replace

import pytest

from poam_ros.frontend.events import PositionsShifted
from poam_ros.mavlink.simulated_boat import PARAMETERS


def test_nothing_starts_before_the_map_has_an_origin(voyage):
    v = voyage()
    v.boat.muted |= {"EKF_STATUS_REPORT", "HEARTBEAT"}
    v.boat.mode, v.boat.armed = "GUIDED", True
    v.run(3)
    silent = f"no heartbeat on {v.values['mavlink.url']}"
    assert v.command("start") == f"start: refused, as the map has no origin yet: {silent}"
    v.boat.muted.remove("HEARTBEAT")
    v.run(3)
    refused = "start: refused, as the map has no origin yet: no EKF_STATUS_REPORT yet"
    v.drive.command("start")
    v.step()
    assert v.said[-1] == refused and v.drive.session is None and not v.boat.targets
    v.boat.muted.clear()
    v.start()


def test_nothing_starts_while_no_ping_can_be_mapped(voyage):
    """As a planner of ROS 2; a mission that would start by itself waits."""
    v = voyage({"autostart": True, "sonar.max_range": 1.0})
    v.boat.muted.add("DISTANCE_SENSOR")
    v.until(lambda: v.state == "waiting", 20)
    v.boat.mode, v.boat.armed = "GUIDED", True
    assert v.run(3).command("start").startswith("start: refused, as no ping has come")
    v.boat.muted.clear()
    v.run(12)
    assert v.command("start").startswith("start: refused, as every ping is refused as out_of_range")
    assert v.state == "waiting" and not v.boat.targets
    v.session.front_end.settings = replace(v.session.front_end.settings, max_range=0.0)
    v.until(lambda: v.state == "pilot", 12)


def test_a_warning_tells_of_a_map_in_two_pieces(voyage, caplog):
    v = voyage().explore().run(2)
    v.boat.jump_ekf(9.0, 12.0)
    v.until(lambda: v.state == "paused", 20)
    assert v.command("resume") == "resume: exploring again"
    said = [r.getMessage() for r in caplog.records if "may not fit the map so far" in r.message]
    assert len(said) == 1
    v.command("pause")
    v.command("resume")
    assert sum("may not fit the map so far" in r.message for r in caplog.records) == 1


@pytest.mark.parametrize(
    ("speed", "muted", "said"),
    [
        (1.0, set(), "checked: the autopilot's parameters suit the mission"),
        (2.0, set(), "check: WP_SPEED is 2 m/s, and max_speed 1 m/s: set max_speed to match"),
        (1.0, {"PARAM_VALUE"}, "check: the autopilot does not answer"),
    ],
)
def test_the_result_of_the_parameter_check_is_reported(voyage, speed, muted, said):
    v = voyage({"capture_radius": 2.0}, {"speed": speed})
    v.boat.muted |= muted
    v.until(lambda: any("check" in text for text in v.said), 30)
    assert [text[: len(said)] for text in v.said if text.startswith("check")] == [said]


def test_the_boats_stopping_place_is_not_a_foreign_target(voyage, monkeypatch):
    """Within WP_RADIUS, ArduPilot's boat reports the place where it can stop as its target."""
    monkeypatch.setitem(PARAMETERS, "WP_RADIUS", 3.0)
    v = voyage({"goal_radius": 0.5}).explore().run(40)
    assert v.mission.goals.results.total() > 2
    assert v.state == "exploring" and "NO TARGETS" not in "".join(v.said)
    x, y = v.boat.position
    v.boat.command_from_elsewhere(-9 if x > 0 else 9, -9 if y > 0 else 9)
    v.until(lambda: v.state == "paused", 5)
    assert v.mission.reason == "another ground station has sent a target"


def test_a_paused_boat_may_be_sent_elsewhere_in_guided(voyage):
    v = voyage().explore()
    v.drive.command("pause")
    v.run(6)
    v.boat.command_from_elsewhere(0, 9)
    assert v.sent_within(30) == 0
    assert abs(v.boat.position - (0, 9)).max() < 1


def test_late_messages_do_not_steer(voyage):
    v = voyage().explore()
    before = v.drive.session.ledger.rejected["no_odometry"]  # when the frame was new
    v.boat.delay_s = 20.0
    v.until(lambda: v.state == "paused", 40)
    assert "no odometry" in v.mission.reason
    v.run(30)
    assert "positions arrive 20 s late" in v.mission.reason
    v.boat.delay_s = 0.0
    v.until(lambda: v.state == "exploring", 60)
    # What was measured at its own time is mapped at its own place.
    assert v.drive.session.ledger.rejected["no_odometry"] == before


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


def stalled(v):
    """Nobody has read the boat's messages for a while."""
    for _ in range(45):
        v.boat.step()
    return v


def test_after_a_stall_heartbeats_of_the_queue_do_not_count(voyage):
    """The queue was full: it has the heartbeats before the take-over, but not the one of it."""
    v = stalled(voyage({"goal_period": 0.5}).explore())
    v.boat.muted.add("HEARTBEAT")
    v.boat.mode = "MANUAL"
    for _ in range(20):
        v.boat.step()
    v.drive.command("pause")  # a target to hold station is due
    assert v.sent_within(1) == 0 and v.state == "paused"
    v.boat.muted.clear()
    assert v.sent_within(3) == 0


def test_after_a_stall_the_mission_continues_with_the_next_heartbeat(voyage):
    v = stalled(voyage().explore())
    v.drive.command("pause")
    v.heartbeat()
    assert v.sent_within(1) and v.mission.reason == "requested"


def taken(v):
    v.boat.mode = "MANUAL"
    return v.heartbeat()


@pytest.mark.parametrize("happened", [stalled, taken])
def test_a_process_that_ends_after_a_stall_or_a_take_over_sends_nothing(voyage, happened):
    v = happened(voyage().explore())
    sent = v.drive.vehicle.sent
    v.close()  # which reads what has arrived
    assert v.drive.vehicle.sent == sent
