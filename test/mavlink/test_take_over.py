"""Take-overs: after one no target is sent, the mission says why, and pings are mapped on."""

import pytest


def manual(boat):
    boat.mode = "MANUAL"


def hold(boat):
    boat.mode = "HOLD"


def disarm(boat):
    boat.armed = False


def failsafe(boat):
    boat.fail("Radio Failsafe")


def critical(boat):
    boat.failsafe = True  # the boat goes on in GUIDED


def home_by_itself(boat):
    boat.say("Battery 1 low")
    boat.mode, boat.failsafe = "RTL", True


#: How the vehicle is taken, and what the reason says.
TAKEN = [
    (manual, "the mode is MANUAL, not GUIDED"),
    (hold, "the mode is HOLD, not GUIDED"),
    (disarm, "the vehicle is disarmed"),
    (failsafe, "a failsafe (CRITICAL): Radio Failsafe"),
    (critical, "a failsafe (CRITICAL)"),
    (home_by_itself, "a failsafe (CRITICAL): Battery 1 low"),
]


def give_back(voyage):
    voyage.boat.mode, voyage.boat.armed, voyage.boat.failsafe = "GUIDED", True, False


@pytest.mark.parametrize("under_way", ["start", "explore"])
@pytest.mark.parametrize(("take", "words"), TAKEN, ids=lambda part: getattr(part, "__name__", ""))
def test_the_vehicle_is_not_taken_back(voyage, under_way, take, words):
    v = getattr(voyage(), under_way)()
    state = v.state
    take(v.boat)
    v.heartbeat()
    assert v.sent_within(5) == 0
    assert v.state == "paused" and words in v.mission.reason
    give_back(v)  # by the pilot: not a word to the mission
    v.heartbeat()
    assert v.sent_within(5) == 0 and v.state == "paused"
    v.resume()
    assert v.state == state and v.sent_within(3)
    sent, known = v.balance()
    assert sent == known


def test_what_the_pilot_drives_over_is_mapped(voyage):
    v = voyage().explore()
    v.boat.mode = "MANUAL"
    v.boat.drive_to(9, -9)
    v.heartbeat().run(2)
    before = v.drive.session.samples
    v.run(15)
    assert v.state == "paused" and v.drive.session.samples - before > 35
    assert not v.drive.session.ledger.rejected
    sent, known = v.balance()
    assert sent == known


def test_a_person_cannot_resume_in_another_mode(voyage):
    v = voyage().start()
    for take, words in TAKEN[:4]:
        take(v.boat)
        v.heartbeat().run(1)
        v.resume()
        assert words.partition(":")[0] in v.said[-1] and "refused" in v.said[-1]
        assert v.state == "paused" and v.sent_within(3) == 0
        give_back(v)
        v.heartbeat().run(1)
        v.resume()
        assert v.state == "pilot"


def test_a_mission_starts_in_guided_and_armed_alone(voyage):
    v = voyage()
    v.until(lambda: v.state == "waiting", 20).run(2)
    v.drive.command("start")
    v.step()
    assert v.said[-1] == "start: refused, as the vehicle is disarmed"
    v.boat.armed = True
    v.heartbeat().run(1)
    v.drive.command("start")
    v.step()
    assert v.said[-1] == "start: refused, as the mode is MANUAL, not GUIDED"
    assert v.state == "waiting" and not v.boat.targets and not v.boat.refused


def test_a_take_over_during_a_persons_pause(voyage):
    v = voyage().start()
    v.drive.command("pause")
    v.run(1)
    assert v.drive.steering.sent and v.mission.reason == "requested"
    v.boat.mode = "MANUAL"
    v.heartbeat()
    assert v.sent_within(5) == 0
    give_back(v)
    v.heartbeat()
    assert v.sent_within(5) == 0 and v.state == "paused"
    v.resume()
    assert v.state == "pilot" and v.sent_within(2)


def test_a_take_over_during_the_watchdogs_pause(voyage):
    v = voyage().start()
    v.boat.muted.add("GLOBAL_POSITION_INT")
    v.until(lambda: v.state == "paused", 10)
    v.boat.mode = "MANUAL"
    v.heartbeat()
    assert v.sent_within(1) == 0
    v.boat.muted.clear()
    give_back(v)
    v.heartbeat()
    assert v.sent_within(20) == 0 and v.state == "paused"
    assert "the mode is MANUAL" in v.mission.reason and "no odometry" in v.mission.reason


def test_a_take_over_on_the_way_home(voyage):
    v = voyage({"on_done": "home", "max_samples": 90}).start()
    v.until(lambda: v.state == "done", 400)
    assert v.mission.returning
    v.boat.mode = "LOITER"
    v.heartbeat()
    assert v.sent_within(3) == 0
    assert not v.mission.returning and v.drive.finished
    give_back(v)
    v.heartbeat()
    assert v.sent_within(10) == 0


def test_guided_lost_and_found_within_a_second(voyage):
    """A switch that was touched: one heartbeat is enough."""
    v = voyage().explore()
    v.boat.mode = "MANUAL"
    v.heartbeat()
    v.boat.mode = "GUIDED"
    assert v.sent_within(10) == 0
    assert v.state == "paused" and "MANUAL" in v.mission.reason


def test_a_target_of_another_ground_station(voyage):
    v = voyage().explore().run(3)
    v.boat.command_from_elsewhere(5, 5)
    v.run(1)
    assert v.state == "paused"
    assert "another ground station has sent a target" in v.mission.reason
    assert v.sent_within(10) == 0
    v.resume()
    assert v.state == "exploring" and v.sent_within(3)
    v.run(20)
    assert v.state == "exploring"


def test_a_paused_boat_may_be_sent_elsewhere_in_guided(voyage):
    v = voyage().explore()
    v.drive.command("pause")
    v.run(6)
    v.boat.command_from_elsewhere(0, 9)
    assert v.sent_within(30) == 0
    assert abs(v.boat.position - (0, 9)).max() < 1


def speak_as(boat, system, component, kind):
    """Another device on the link sends a heartbeat, disarmed and without an autopilot."""
    other = boat._speaker(system, component)
    boat._transmit(other.heartbeat_encode(kind, 8, 0, 0, 4).pack(other))


def test_others_on_the_link_are_not_the_vehicle(voyage):
    v = voyage().explore()
    for _ in range(20):
        speak_as(v.boat, 255, 190, 6)  # a ground station
        speak_as(v.boat, 1, 154, 26)  # a gimbal of the same system
        speak_as(v.boat, 2, 1, 10)  # another boat, without an autopilot's heartbeat
        v.run(0.5)
    assert v.state == "exploring" and v.drive.link.left_out["of others"] == 60


def test_after_a_stall_heartbeats_of_the_queue_do_not_count(voyage):
    """The queue was full: it has the heartbeats before the take-over, but not the one of it."""
    v = voyage({"goal_period": 0.5}).explore()
    for _ in range(45):  # nobody reads them yet
        v.boat.step()
    v.boat.muted.add("HEARTBEAT")
    v.boat.mode = "MANUAL"
    for _ in range(20):
        v.boat.step()
    v.drive.command("pause")  # a target to hold station is due
    assert v.sent_within(1) == 0 and v.state == "paused"
    v.boat.muted.clear()
    assert v.sent_within(3) == 0


def test_after_a_stall_the_mission_goes_on_with_the_next_heartbeat(voyage):
    v = voyage().explore()
    for _ in range(45):
        v.boat.step()
    v.drive.command("pause")
    v.heartbeat()
    assert v.sent_within(1) and v.mission.reason == "requested"


def test_a_process_that_ends_after_a_stall_sends_nothing(voyage):
    v = voyage().explore()
    for _ in range(45):
        v.boat.step()
    sent = v.drive.steering.sent
    v.close()
    assert v.drive.steering.sent == sent
