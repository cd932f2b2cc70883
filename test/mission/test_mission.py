"""The mission's states and goals, step by step."""

import math

import numpy as np
import pytest
from missions import PlannedMission

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.mission.itinerary import CAPTURE_RADIUS
from poam_ros.mission.mission import Mission
from poam_ros.mission.states import Budget
from poam_ros.planning.areas import NavigableArea

WORKSPACE = Extent(-10, 10, -10, 10)
PILOT = np.array([[0.0, 0.0], [5.0, 0.0], [99.0, 0.0]])


def make(**limits: float) -> Mission:
    return PlannedMission(PILOT, WORKSPACE, **limits)


class Chooser:
    """Returns one path after the other, then repeats the last; stores its calls."""

    def __init__(self, *paths: list) -> None:
        self.paths, self.asked = list(paths), []

    def __call__(self, position: np.ndarray) -> np.ndarray:
        self.asked.append(position.tolist())
        return np.array(self.paths.pop(0) if len(self.paths) > 1 else self.paths[0], dtype=float)


def drive(mission: Mission, *places: tuple[float, float], start: float = 0.0) -> None:
    for i, place in enumerate(places):
        mission.update_position(np.array(place), start + float(i))


def finish_pilot(mission: Mission) -> None:
    drive(mission, (0, 0), (0, 0), (5, 0), (10, 0))


def test_a_mission_starts_with_the_first_position():
    mission = make()
    assert mission.state == "pilot"
    assert mission.goal is None
    mission.tick(3.0)
    assert mission.goal is None and mission.budget.start_time_s is None
    mission.update_position(np.array([-3.0, 0.0]), 4.0)
    assert mission.budget.start_time_s == 4.0
    assert mission.goal.tolist() == [0, 0]
    assert mission.plan.tolist() == [[-3, 0], [0, 0], [5, 0], [10, 0]]  # clipped


def test_after_the_pilot_survey_it_waits_for_a_map_then_explores():
    mission = make()
    finish_pilot(mission)
    assert mission.state == "exploring"
    assert mission.goal is None and len(mission.plan) == 0
    assert mission.needs_goal
    choose = Chooser([(0.0, 8.0)])
    mission.set_planner(choose)
    assert choose.asked == [[10.0, 0.0]]
    assert mission.goal.tolist() == [0, 8] and not mission.needs_goal
    drive(mission, (0, 8), start=20.0)
    assert choose.asked == [[10.0, 0.0], [0.0, 8.0]]
    assert mission.goals.results == {"reached": 4}


def test_a_path_is_driven_to_its_end_before_another_is_chosen():
    mission, choose = make(), Chooser([(1, 1), (2, 2), (3, 3)], [(4, 4)])
    finish_pilot(mission)
    mission.set_planner(choose)
    assert mission.plan.tolist() == [[10, 0], [1, 1], [2, 2], [3, 3]]
    mission.set_planner(choose)  # a newer map does not disturb the path
    drive(mission, (1, 1), start=20.0)
    assert mission.plan.tolist() == [[1, 1], [2, 2], [3, 3]]
    mission.pause()
    assert len(mission.plan) == 0
    mission.resume()
    drive(mission, (2, 2), start=30.0)
    assert mission.goal.tolist() == [3, 3] and len(choose.asked) == 1
    drive(mission, (3, 3), start=40.0)
    assert mission.plan.tolist() == [[3, 3], [4, 4]]
    assert choose.asked == [[10, 0], [3, 3]]


def test_a_planner_may_end_the_mission():
    """In lock-step the model learns while a path is chosen, and counts what it learnt."""
    mission = make(max_samples=10)

    def learn_and_choose(position: np.ndarray) -> np.ndarray:
        mission.count_samples(10)
        return np.array([[1.0, 1.0]])

    mission.set_planner(learn_and_choose)
    finish_pilot(mission)
    assert mission.state == "done" and mission.goal is None and len(mission.plan) == 0


@pytest.mark.parametrize("path", [[(np.nan, 0.0)], [(0.0, np.inf)], [0.0, 1.0], [(0.0, 1.0, 2.0)]])
def test_invalid_paths_are_refused(path):
    with pytest.raises(InputError, match=r"waypoints: expected finite numbers \[K, 2\]"):
        PlannedMission(np.array(path), WORKSPACE)
    mission = make()
    finish_pilot(mission)
    with pytest.raises(InputError, match="waypoints"):
        mission.set_planner(Chooser(path))


def test_a_goals_time_starts_with_the_position_after_it_was_chosen():
    """As in lock-step, where the model learns between the two and no time passes for the vehicle.

    The way from where it was chosen does not count: here it leads through the next goal.
    """
    mission = PlannedMission(np.array([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0]]), WORKSPACE)
    drive(mission, (-3, 0), (0, 0), (2, 0))
    assert mission.goal.tolist() == [1, 0] and mission.goals.results == {"reached": 1}
    mission = make(arrival={"max_speed": 1.0})
    mission.update_position(np.array([-3.0, 0.0]), 0.0)
    # Limits of 36 s: counted from 1000 s, when the next position comes.
    mission.update_position(np.array([-3.0, 0.0]), 1000.0)
    assert mission.update_position(np.array([-3.0, 0.0]), 1035.9) is None
    assert mission.update_position(np.array([-3.0, 0.0]), 1036.1) == "timeout"


def test_a_situation_has_what_planners_need():
    mission = make(max_samples=10)
    drive(mission, (-3, 0), (-2, 0), (-1, 0))
    assert mission.budget.samples_left == 10
    assert mission.situation(0.0, 1.0).distance_left == math.inf
    mission.count_samples(4)
    situation = mission.situation(yaw=0.5, speed=2.0)
    assert situation.position.tolist() == [-1, 0]
    assert (situation.yaw, mission.budget.samples_left) == (0.5, 6)
    assert situation.distance_left == pytest.approx(6 * mission.track.length / 4)
    assert situation.turning_radius == pytest.approx(CAPTURE_RADIUS / 2)
    assert situation.workspace is WORKSPACE
    assert situation.visited.tolist() == [[-3, 0], [-2, 0], [-1, 0]]
    mission.count_samples(12)
    assert mission.budget.samples_left == 0
    assert make().budget.samples_left is None and make().budget.distance_left(9.0) == math.inf


def test_delayed_positions_are_timed_by_their_stamps():
    mission = make()
    mission.update_position(np.array([-3.0, 0.0]), 0.0, measured=0.0)
    for i in range(1, 4):
        mission.update_position(np.array([-3.0 + i, 0.0]), 500.0, measured=float(i))
    assert mission.goals.results == {"reached": 1}


def test_a_pause_does_not_use_up_the_goals_time():
    mission = make()
    drive(mission, (-3, 0))
    mission.pause()
    mission.tick(1000.0)
    mission.resume()
    mission.update_position(np.array([-3.0, 0.0]), 1001.0)
    assert mission.goals.results["timeout"] == 0


def test_a_planner_knows_what_the_time_leaves():
    mission = make(max_duration=100.0)
    drive(mission, *[(x, 0.0) for x in range(-10, 11)])
    now = mission.budget.start_time_s + 20.0
    mission.update_position(np.array([10.0, 0.0]), now)
    pace = mission.track.length / 20.0
    assert mission.situation(0.0, 9.0).distance_left == pytest.approx(80 * pace)
    assert mission.situation(0.0, pace / 2).distance_left == pytest.approx(40 * pace)
    assert mission.budget.time_left(now) == pytest.approx(80.0)
    mission.stop()
    mission.start(now + 200.0)  # again: what was driven before says nothing of its pace
    before = mission.track.length
    mission.update_position(np.array([10.0, 3.0]), now + 210.0)
    pace = (mission.track.length - before) / 10.0
    assert mission.situation(0.0, 9.0).distance_left == pytest.approx(90 * pace)
    again = Budget(max_duration=100.0)
    again.restore(mission.budget.to_dict())
    assert again.distance_left(mission.track.length, now + 210.0) == pytest.approx(90 * pace)


# --- Started, stopped, held ---


def waiting(**options) -> Mission:
    return PlannedMission(PILOT, WORKSPACE, autostart=False, **options)


def test_a_start_begins_the_pilot_and_the_budget():
    mission = waiting(max_samples=10, max_duration=50.0)
    drive(mission, (-3, 0), start=100.0)
    mission.count_samples(50)  # of an earlier mission
    assert mission.start(1000.0) == (True, "started")
    assert not mission.start(1000.0)[0]
    assert mission.state == "pilot" and mission.goal is None  # until it is known to be there
    drive(mission, (-3, 0), start=1001.0)
    assert mission.goal.tolist() == [0, 0]
    mission.count_samples(59)
    assert mission.budget.samples_left == 1
    assert str(mission.budget) == "9 samples (59 in the map)"
    mission.tick(1049.9)
    assert mission.state == "pilot"
    mission.tick(1050.0)
    assert (mission.state, mission.reason) == ("done", "max_duration of 50 s has passed")


def test_a_reset_of_the_mapper_restores_the_budget():
    mission = waiting(max_samples=10)
    mission.count_samples(50)
    mission.start(0.0)
    mission.count_samples(0)
    assert mission.budget.samples_left == 10
    mission.learn(None)  # and its map is no more
    finish_pilot(mission)
    assert mission.needs_goal


def test_a_home_outside_the_navigable_area_is_moved_into_it_and_counted():
    mission = PlannedMission(np.array([[8.0, 0.0]]), WORKSPACE, max_samples=10, on_done="home")
    drive(mission, (WORKSPACE.xmin - 20, 0))
    before = mission.goals.clipped
    mission.count_samples(10)
    assert mission.state == "returning" and mission.goals.clipped == before + 1
    drive(mission, (0, 0), start=30.0)
    assert mission.goal.tolist() == [WORKSPACE.xmin, 0]


def test_after_a_pause_the_route_is_planned_from_the_vehicle():
    block = np.array([(-2.0, -2.0), (2.0, -2.0), (2.0, 2.0), (-2.0, 2.0)])
    areas = NavigableArea(WORKSPACE, keep_outs=[block], margin=0.5)
    mission = PlannedMission(np.array([[8.0, 4.0]]), WORKSPACE, areas=areas)
    drive(mission, (-8, 4))
    assert mission.goal.tolist() == [8, 4]
    mission.pause()
    drive(mission, (-4, -4), start=9.0)  # drifted
    mission.resume()
    assert areas.leg_allowed(mission.position, mission.goal[None])[0]
    assert mission.plan[-1].tolist() == [8, 4] and len(mission.plan) > 2


@pytest.mark.parametrize("leap", [-3600.0, -1.0, 3600.0])
def test_a_jump_of_the_stamps_does_not_change_a_goal_s_time_limit(leap):
    mission = make(arrival={"max_speed": 1.0})
    mission.update_position(np.array([-3.0, 0.0]), 0.0, 5000.0)
    mission.update_position(np.array([-3.0, 0.0]), 0.0, 5000.0)  # a limit of 36 s from here
    assert mission.update_position(np.array([-3.0, 0.0]), 10.0, 5010.0 + leap) is None
    assert mission.update_position(np.array([-3.0, 0.0]), 35.9, 5035.9 + leap) is None
    assert mission.update_position(np.array([-3.0, 0.0]), 36.1, 5036.1 + leap) == "timeout"
