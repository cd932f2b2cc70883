"""The mission's states and goals, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from poam_ros.geometry import Extent
from poam_ros.survey.mission import Mission

WORKSPACE = Extent(-10, 10, -10, 10)
PILOT = np.array([[0.0, 0.0], [5.0, 0.0], [99.0, 0.0]])


def make(**limits: float) -> Mission:
    return Mission(PILOT, WORKSPACE, **limits)


def drive(mission: Mission, *places: tuple[float, float], start: float = 0.0) -> None:
    for i, place in enumerate(places):
        mission.locate(np.array(place), start + float(i))


def finish_pilot(mission: Mission) -> None:
    drive(mission, (0, 0), (0, 0), (5, 0), (10, 0))


def test_starts_with_the_first_position():
    mission = make()
    assert mission.state == "pilot"
    assert mission.goal is None
    mission.tick(3.0)
    assert mission.goal is None and mission.began is None
    mission.locate(np.array([-3.0, 0.0]), 4.0)
    assert mission.began == 4.0
    assert mission.goal.tolist() == [0, 0]
    assert mission.plan.tolist() == [[-3, 0], [0, 0], [5, 0], [10, 0]]  # clipped


def test_pilot_then_waits_for_a_map_then_explores():
    mission = make()
    finish_pilot(mission)
    assert mission.state == "exploring"
    assert mission.goal is None and len(mission.plan) == 0
    asked = []

    def choose(position: np.ndarray) -> np.ndarray:
        asked.append(position.tolist())
        return np.array([0.0, 50.0])

    mission.explore_with(choose)
    assert asked == [[10.0, 0.0]]
    assert mission.goal.tolist() == [0, 10]  # inside the workspace
    drive(mission, (0, 10), start=20.0)
    assert len(asked) == 2
    assert mission.arrivals == {"reached": 4}


def test_a_map_during_the_pilot_changes_nothing_until_its_end():
    mission = make()
    mission.explore_with(lambda position: np.array([1.0, 1.0]))
    drive(mission, (-3, 0))
    assert mission.goal.tolist() == [0, 0]
    finish_pilot(mission)
    assert mission.goal.tolist() == [1, 1]


def test_holds_station_while_the_map_allows_no_choice():
    mission = make()
    finish_pilot(mission)
    mission.explore_with(lambda position: None)
    assert mission.state == "exploring" and mission.goal is None
    mission.explore_with(lambda position: np.array([1.0, 1.0]))
    assert mission.goal.tolist() == [1, 1]


def test_gives_up_a_goal_that_takes_too_long():
    mission = make()
    for now in range(100):
        mission.locate(np.array([-3.0, 0.01 * (now % 2)]), float(now))
    assert mission.arrivals["timeout"] >= 1
    assert mission.goal.tolist() != [0, 0]


def test_positions_that_waited_in_a_queue_are_judged_by_their_stamps():
    mission = make()
    mission.locate(np.array([-3.0, 0.0]), 0.0, measured=0.0)
    for i in range(1, 4):
        mission.locate(np.array([-3.0 + i, 0.0]), 500.0, measured=float(i))
    assert mission.arrivals == {"reached": 1}


@pytest.mark.parametrize("paused", [False, True])
def test_done_at_max_samples_also_in_the_pilot(paused: bool):
    mission = make(max_samples=10)
    drive(mission, (-3, 0))
    if paused:
        mission.pause()
    mission.count_samples(9)
    assert mission.state == ("paused" if paused else "pilot")
    mission.count_samples(10)
    assert mission.state == "done" and mission.goal is None
    drive(mission, (0, 0), start=9.0)
    assert mission.goal is None
    mission.count_samples(0)  # the mapper was reset
    assert mission.state == "done"


def test_done_after_max_duration_counted_from_the_first_position():
    mission = make(max_duration=10.0)
    drive(mission, (-3, 0), start=100.0)
    mission.tick(109.9)
    assert mission.state == "pilot"
    mission.pause()
    mission.tick(110.0)
    assert mission.state == "done"


def test_no_limits_by_default():
    mission = make()
    drive(mission, (-3, 0))
    mission.count_samples(10**9)
    mission.tick(1e9)
    assert mission.state != "done"


def test_pause_and_resume_answer_sensibly():
    mission = make(max_samples=10)
    assert mission.resume() == (False, "the mission is not paused, but pilot")
    drive(mission, (-3, 0))
    goal = mission.goal
    assert mission.pause()[0]
    assert mission.state == "paused" and mission.goal is None
    assert not mission.pause()[0]
    drive(mission, (0, 0), start=5.0)  # a position moves nothing on
    assert mission.resume()[0]
    assert mission.state == "pilot" and mission.goal is goal
    mission.count_samples(10)
    assert mission.pause() == (False, "the mission is done")
    assert not mission.resume()[0]


def test_a_pause_does_not_use_up_the_goals_time():
    mission = make()
    drive(mission, (-3, 0))
    mission.pause()
    mission.tick(1000.0)
    mission.resume()
    mission.locate(np.array([-3.0, 0.0]), 1001.0)
    assert mission.arrivals["timeout"] == 0
