"""What may happen to a boat that `poam drive` drives.

No target is sent after the heartbeat that reports a take-over, every ping that arrived is known,
and the reason is said in words.
"""

import math
import re

import numpy as np
import pytest
from toy import Toy, ToyOptions
from voyages import Voyage

from poam_ros.mavlink.simulated_boat import GOOD_EKF
from poam_ros.mavlink.telemetry import GLITCHING
from poam_ros.models.registry import MODELS, ModelEntry

SMALL = {"workspace": (-6.0, 6.0, -6.0, 6.0), "pilot": "diagonal"}


def sets(**fields):
    """The boat is so, and says it in its next heartbeat."""

    def act(v):
        for name, value in fields.items():
            setattr(v.boat, name, value)
        v.heartbeat()

    return act


def after(act, **fields):
    """The same after something else has happened."""
    return lambda v: (act(v), sets(**fields)(v))


def cut_for_10_s(v):
    v.boat.cut = True
    v.run(10)
    assert not v.vehicle.granted
    v.boat.cut = False


def cut_for_10_min(v):
    v.boat.cut = True
    v.skip(600)
    v.boat.cut = False


def reboot(v):
    v.run(70)  # so that the time since boot jumps back by more than its delays
    v.boat.reboot()
    v.heartbeat()


def to_goal(v):
    """Distance of the boat from the mission's goal, in m."""
    pose = v.boat.simulation.pose
    return math.dist((pose.x, pose.y), v.mission.goal)


def other_station(v):
    """On the way to a goal: the autopilot never reports a target that our next one replaces."""
    v.run(3)
    v.until(lambda: v.mission.goal is not None and to_goal(v) > 2.5, 60)
    v.run(0.5)
    v.boat.command_from_elsewhere(5, 5)
    v.run(1)


def half_lost_and_manual(v):
    v.boat.loss, v.boat.mode = 0.5, "MANUAL"
    v.until(lambda: not v.vehicle.granted, 20)


def late(v):
    """The heartbeat will overtake positions that are 1 s late."""
    v.boat.delay_s = 1.0
    v.run(2)


MANUAL, LINK = "the mode is MANUAL, not GUIDED", "the link is lost: no heartbeat for"
CRITICAL, by_hand = r"the autopilot reports a failsafe \(CRITICAL\)", sets(mode="MANUAL")
#: When, what takes the vehicle, and what the reason says.
TAKEN = [
    ("pilot", by_hand, MANUAL),
    ("exploring", by_hand, MANUAL),
    ("paused", by_hand, MANUAL),
    ("without positions", by_hand, MANUAL),
    ("exploring", sets(mode="LOITER"), "the mode is LOITER, not GUIDED"),
    ("exploring", sets(mode="AUTO"), "the mode is AUTO, not GUIDED"),
    ("exploring", sets(armed=False), "the vehicle is disarmed"),
    ("exploring", after(lambda v: v.boat.fail("Radio Failsafe")), f"{CRITICAL}: Radio Failsafe"),
    ("pilot", sets(failsafe=True), CRITICAL),
    ("exploring", after(lambda v: v.boat.say("Battery 1 low"), mode="RTL", failsafe=True),
     f"{CRITICAL}: Battery 1 low"),
    ("exploring", lambda v: (by_hand(v), setattr(v.boat, "mode", "GUIDED")), MANUAL),
    ("exploring", cut_for_10_s, LINK),
    ("exploring", cut_for_10_min, LINK),
    ("exploring", lambda v: (v.boat.muted.add("HEARTBEAT"), v.run(7)), LINK),
    ("exploring", reboot, "the vehicle is disarmed|the autopilot has started again"),
    ("exploring", other_station, "another ground station has sent a target"),
    ("exploring", half_lost_and_manual, MANUAL),
    ("exploring", after(late, mode="MANUAL"), MANUAL),
]  # fmt: skip


def mute(*kinds):
    return lambda v: v.boat.muted.update(kinds)


def ekf_follows_a_receiver_that_jumps(v):
    """As ArduPilot's simulation did it: the step is one that the boat could have driven."""
    v.boat.ekf_flags = GOOD_EKF + GLITCHING
    v.run(2)
    v.boat.ekf_flags = 1 + 128
    v.run(6)
    v.boat.ekf_flags, v.boat.ekf_offset = GOOD_EKF, np.array([8.0, 0.0])


#: What happens to a vehicle that the mission keeps: it holds station. Whether it resumes by itself.
HELD = [
    (mute("GLOBAL_POSITION_INT"), "^no odometry for 5 s$", True),
    (mute("ATTITUDE"), "^no odometry for 5 s: ATTITUDE arrives too rarely, or has stopped", True),
    (mute("DISTANCE_SENSOR"), "^no ping for 30 s$", True),
    (sets(ekf_flags=1 + 128), "^no odometry for 5 s: the autopilot's EKF does not know its", True),
    (ekf_follows_a_receiver_that_jumps, "the EKF lost its position after the receiver's", False),
    (lambda v: v.boat.jump_ekf(9.0, 12.0), r"the position jumped by 1\d", False),
]


@pytest.fixture(scope="module")
def fleet():
    """`fleet()`: a voyage under way, which serves many tests; `fleet.begin(values, **boat)`."""
    pytest.importorskip("pymavlink")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(MODELS, "toy", ModelEntry(Toy, ToyOptions))
        ready, begun = [], []

        def begin(values=None, **boat):
            begun.append(Voyage({**SMALL, **(values or {})}, boat))
            return begun[-1]

        def take():
            return ready.pop() if ready else begin().explore()

        take.begin, take.ready = begin, ready
        yield take
        for v in begun:
            if not v.closed:
                v.close()


@pytest.fixture
def afloat(fleet):
    """A voyage that explores; one that a test has failed with is not used again."""
    v = fleet()
    yield v
    if v.state == "exploring" and not (v.boat.loss or v.boat.ekf_offset.any()):
        fleet.ready.append(v)
    else:
        v.close()


def bring(v, when):
    """Into a state of the mission."""
    if when == "pilot":
        v.command("stop")
        v.run(1)
        v.command("start")
        v.run(3)
    elif when == "paused":
        v.command("pause")
        v.run(2)
    elif when == "without positions":
        v.boat.muted.add("GLOBAL_POSITION_INT")
        v.until(lambda: v.state == "paused", 10)
    return v.mission.status.interrupted if v.state == "paused" else v.state


@pytest.mark.parametrize("when, act, words", TAKEN)
def test_after_a_take_over_the_mission_does_not_take_control_back(afloat, when, act, words):
    v, boat = afloat, afloat.boat
    state = bring(v, when)
    act(v)
    heard = len(boat.targets), boat.refused
    assert v.sent_within(5) == 0 and (len(boat.targets), boat.refused) == heard
    assert v.state == "paused" and re.search(words, v.mission.reason), v.mission.reason
    if when == "without positions":
        boat.muted.clear()
        v.run(2)
    before = v.session.samples
    boat.simulation.set_goal(np.array([4.0, -4.0]))
    v.run(10)  # by hand: mapped on
    if not (boat.loss or boat.delay_s):
        assert v.session.samples - before > 20
    boat.recover()  # by the pilot: not a word to the mission
    v.heartbeat()
    assert v.sent_within(5) == 0 and v.state == "paused"
    sent, answer = v.vehicle.sent, v.command("resume")
    assert v.state == state, answer
    assert v.run(3).vehicle.sent > sent
    assert not v.session.ledger.rejected.keys() - {"waiting", "paused", "no_odometry"}
    v.settled()
    v.until(lambda: v.state == "exploring")


@pytest.mark.parametrize("act, words, resumes", HELD)
def test_a_paused_vehicle_holds_station(afloat, act, words, resumes):
    v, boat = afloat, afloat.boat
    v.run(2)
    act(v)
    v.until(lambda: v.state == "paused", 45)
    v.run(2)
    assert re.search(words, v.mission.reason), v.mission.reason
    v.run(6)
    refused, samples = v.session.ledger.rejected["paused"], v.session.samples
    assert v.sent_within(10) == 0 and v.vehicle.granted  # it stays where it is
    if not boat.muted & {"DISTANCE_SENSOR"}:
        assert v.session.ledger.rejected["paused"] > refused  # by name
    assert v.session.samples == samples
    boat.recover()
    sent = v.vehicle.sent
    if not resumes:
        assert v.run(10).state == "paused"
        v.command("resume")
    v.until(lambda: v.state == "exploring", 30)
    assert v.run(5).vehicle.sent > sent
    v.settled()


def test_an_origin_that_moves_while_the_pilot_drives(afloat):
    """Then nobody knows where the pings are: they are refused by name."""
    v = afloat
    by_hand(v)
    v.run(5)
    before = v.session.samples
    v.run(5)
    assert v.session.samples > before
    v.boat.jump_ekf(9.0, 12.0)
    v.run(4)
    before, refused = v.session.samples, v.session.ledger.rejected["paused"]
    v.run(10)
    assert v.session.samples == before and v.session.ledger.rejected["paused"] > refused
    v.boat.recover()
    v.heartbeat().run(1)
    v.command("resume")
    assert v.state == "exploring"
    v.settled()


@pytest.mark.parametrize(("stop", "go"), [("stop", "start"), ("pause", "resume")])
def test_nothing_starts_in_another_mode(afloat, stop, go):
    v = afloat
    v.command(stop)
    state = v.run(1).state
    for act, words in (
        (sets(mode="HOLD"), "the mode is HOLD, not"),
        (sets(armed=False), "the vehicle is"),
    ):
        act(v)
        v.run(1)
        assert v.command(go).startswith(f"{go}: refused, as {words}") and v.state == state
        assert v.sent_within(5) == 0
        v.boat.recover()
        v.heartbeat().run(1)
    v.command(go)
    v.until(lambda: v.state == "exploring")
    v.settled()


def test_after_a_take_over_on_the_way_home_the_pilot_keeps_control(afloat):
    v = afloat
    v.until(lambda: abs(v.boat.position - v.mission.home).max() > 3)
    v.mission.on_done = "home"
    v.mission.end("over")
    v.run(1)
    assert v.state == "returning"
    sets(mode="LOITER")(v)
    assert v.sent_within(3) == 0 and v.state == "paused"
    v.boat.recover()
    v.heartbeat()
    assert v.sent_within(10) == 0 and v.state == "paused"
    v.command("resume")
    assert v.sent_within(2) > 0
    v.until(lambda: v.state == "done")


def test_a_link_that_loses_half_of_its_messages(afloat):
    """It goes on, or pauses and resumes by itself, with what arrives."""
    v = afloat
    v.boat.loss = 0.5
    arrived = v.boat.pings, v.session.ledger.counts()["received"]
    v.run(40)
    assert 0.2 < v.vehicle.link.lost_share < 0.7
    v.boat.loss = 0.0
    v.settled()
    assert v.session.ledger.counts()["received"] - arrived[1] == v.boat.pings - arrived[0] > 30
    if v.state == "paused":
        assert re.search("no odometry|the link is lost", v.mission.reason)
