"""Every state of a mission and every event: what happens is what the table says."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent
from poam_ros.frontend.events import DONE, EXPLORING, HOME, PAUSED, RETURNING, STATES, WAITING
from poam_ros.mission import states
from poam_ros.mission.mission import Mission
from poam_ros.mission.states import (
    DISPLACED,
    FAULT,
    GUARD,
    INPUT,
    INTERRUPTED,
    MET,
    OPERATOR,
    OVER,
    PASSING,
    PAUSE,
    RECOVERED,
    RESTART,
    RESUME,
    SPENT,
    START,
    STOP,
    SURVEYED,
    TABLE,
    TAKEN_OVER,
)

SQUARE = Extent(-10, 10, -10, 10)
EVENTS = START, STOP, PAUSE, RESUME, FAULT, RECOVERED, SURVEYED, SPENT, MET, HOME
CAUSES = OPERATOR, RESTART, INPUT, GUARD, TAKEN_OVER, DISPLACED


def at(mission, x, y, now=0.0):
    mission.update_position(np.array([x, y], dtype=float), now)


def in_place(place, on_done="home"):
    """A mission there: it began at (-3, 0), and the vehicle is at (5, 0)."""
    mission = Mission(np.array([[5.0, 0.0]]), SQUARE, autostart=False, on_done=on_done)
    at(mission, -3, 0)
    if place == WAITING:
        return mission
    mission.start(0.0)
    at(mission, -3, 0, 1.0)
    state = place.rpartition(" ")[2]
    if state in (EXPLORING, RETURNING, DONE):
        at(mission, 5, 0, 2.0)
    if state in (RETURNING, DONE):
        mission.end("enough")
        at(mission, 5, 0, 3.0)
    if state == DONE and on_done == "home":
        at(mission, -3, 0, 4.0)
    if place.startswith(PAUSED):
        mission.pause("no odometry", INPUT)
    return mission


def happen(mission, event, cause=OPERATOR):
    """Let an event happen as it does on a vehicle; a fault's cause is a passing one."""
    if event in (START, STOP, RESUME):
        {START: lambda: mission.start(9.0), STOP: mission.stop, RESUME: mission.resume}[event]()
    elif event == PAUSE:
        mission.pause("requested")
    elif event == FAULT:
        mission.pause("no ping", INPUT)
    elif event == RECOVERED:
        mission.recover()
    elif event in (SPENT, MET):
        mission.end("time is over", event)
    elif event == SURVEYED:
        at(mission, 5, 0, 9.0)
    elif event == HOME:
        at(mission, -3, 0, 9.0)


@pytest.mark.parametrize("on_done", ["home", "hold"])
@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("place", TABLE)
def test_every_event_in_every_state_leads_to_where_the_table_says(place, event, on_done):
    if on_done == "hold" and RETURNING in place:
        return
    mission = in_place(place, on_done)
    assert mission.status.place == place
    before, to = mission.status, TABLE[place].get(event)
    happen(mission, event)
    if to is None:
        assert mission.status == before  # refused: not even the reason is another
        return
    over = RETURNING if on_done == "home" else DONE
    assert mission.state == {INTERRUPTED: before.interrupted, OVER: over}.get(to, to)
    driven, held = mission.state in states.DRIVEN, mission.station
    # It is held where it was, and drifts from there.
    assert driven or (mission.goal is None and held.tolist() == mission.position.tolist())
    at(mission, 4, 0, 10.0)
    assert (mission.goal is not None) == (driven and mission.state != EXPLORING)
    assert mission.station is held


def test_the_table_has_all_states_and_events():
    assert {event for row in TABLE.values() for event in row} == set(EVENTS)
    assert {place.partition(" ")[0] for place in TABLE} == set(STATES)
    assert all(STOP in row for row in TABLE.values())


@pytest.mark.parametrize("first", CAUSES)
@pytest.mark.parametrize("second", CAUSES)
@pytest.mark.parametrize("interrupted", states.DRIVEN)
def test_only_an_operator_ends_a_pause_with_a_cause_that_does_not_pass(first, second, interrupted):
    mission = in_place(interrupted)
    mission.pause("one", first)
    mission.pause("another", second)
    passes = {first, second} <= PASSING
    assert mission.causes == {first, second}
    assert mission.reason == ("another" if passes else "one; another")
    mission.recover()
    assert mission.state == (interrupted if passes else PAUSED)
    if not passes:
        assert mission.resume() == (True, f"{interrupted} again")
    assert mission.state == interrupted and not mission.causes


@pytest.mark.parametrize("place", TABLE)
@pytest.mark.parametrize("resume", [False, True])
def test_a_restart_keeps_every_state_and_drives_nothing_unless_asked_to(place, resume):
    before, after = in_place(place), Mission(np.array([[5.0, 0.0]]), SQUARE, on_done="home")
    after.restore(before.to_dict(), resume)
    under_way = before.state in states.DRIVEN
    if under_way and not resume:
        assert (after.state, after.status.interrupted) == (PAUSED, place)
        assert after.reason == f"the planner was restarted while {place}"
    else:
        assert after.state == before.state
    at(after, 5, 0, 20.0)
    at(after, 4, 0, 21.0)
    assert (after.goal is not None) == (under_way and resume and place != EXPLORING)
    assert after.state != PAUSED or after.station.tolist() == [5, 0]
    if after.state == PAUSED:
        assert after.resume()[0] and after.state == before.status.place.rpartition(" ")[2]
        at(after, 4, 0, 22.0)
        if after.state == RETURNING:
            assert after.goal.tolist() == [-3, 0]


def test_what_ended_a_mission_is_its_reason_again_when_the_vehicle_is_home():
    mission = in_place(RETURNING)
    mission.remark = "3 % are far from every ping"
    assert mission.reason == "enough; 3 % are far from every ping"
    mission.pause()
    mission.resume()
    assert mission.reason.startswith("resumed: requested")
    at(mission, 5, 0, 8.0)
    at(mission, -3, 0, 9.0)
    assert (mission.state, mission.reason) == (DONE, "enough; 3 % are far from every ping")
