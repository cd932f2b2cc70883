"""The current is learned from the track, and the vehicle is home in time in it."""

import math

import numpy as np
import pytest
from missions import PlannedMission

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.mission import itinerary as way_home
from poam_ros.mission.itinerary import VehicleTrack, learned_current
from poam_ros.mission.mission import Mission
from poam_ros.planning.pilots import PILOTS, start_pose
from poam_ros.simulation.vehicle import DubinsVehicle, Pose

WORKSPACE = Extent(-30, 30, -30, 30)
PERIOD = 0.2


def sail(
    mission: Mission, current: tuple[float, float], seconds: float, noise: float = 0.0
) -> float:
    """Drive until the mission is over and the vehicle home, or for so long; returns the time."""
    car = DubinsVehicle(Pose(*start_pose(WORKSPACE)), WORKSPACE.grown(10), current=current)
    time, rng = 0.0, np.random.default_rng(0)
    while time < seconds and (mission.state != "done" or time == 0):
        place = np.array([car.pose.x, car.pose.y])
        mission.update_position(place + noise * rng.standard_normal(2), time)
        car.set_goal(mission.goal)
        car.advance(PERIOD)
        time += PERIOD
    return time


def pilot(name: str = "bezier", seed: int = 0, **options) -> Mission:
    return PlannedMission(
        PILOTS[name](WORKSPACE, np.random.default_rng(seed)), WORKSPACE, **options
    )


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("current", [(0.3, 0.0), (-0.21, 0.21)])
@pytest.mark.parametrize("name", ["bezier", "lawnmower"])
def test_a_current_of_0_3_of_the_speed_is_learned_within_a_tenth_in_the_pilot_survey(
    name, current, noise
):
    mission = pilot(name)
    sail(mission, current, 290.0, noise)
    found = learned_current(mission.track.newest, 1.0)
    assert math.dist((found.x, found.y), current) < 0.03
    assert found.speed == pytest.approx(1.0, abs=0.03)


def test_pauses_and_a_wrong_stated_speed_do_not_matter():
    mission = pilot()
    sail(mission, (0.3, 0.0), 200.0)
    track = mission.track.newest
    for begin in (100, 250, 400):
        track[begin:, 0] += 60.0
    for speed in (0.7, 2.0):
        found = learned_current(track, speed)
        assert math.dist((found.x, found.y), (0.3, 0.0)) < 0.03


def test_without_a_current_none_is_learned_and_a_short_track_teaches_nothing():
    mission = pilot()
    sail(mission, (0.0, 0.0), 200.0)
    found = learned_current(mission.track.newest, 1.0)
    assert math.hypot(found.x, found.y) < 0.01
    assert learned_current(mission.track.newest[:20], 1.0) is None
    assert learned_current(np.empty((0, 3)), 1.0) is None


def test_one_direction_is_explained_by_current_and_speed_together():
    along = np.arange(0, 100, 0.5)
    found = learned_current(np.column_stack((along / 1.4, along, 0 * along)), 1.0)
    assert found.y == pytest.approx(0.0, abs=1e-9)
    assert found.x + found.speed == pytest.approx(1.4, abs=0.01)
    assert 0.2 < found.x < 0.35


def survey(**options) -> Mission:
    """15 minutes, and back to where it began."""
    mission = pilot(max_duration=900.0, on_done="home", **options)
    rng = np.random.default_rng(1)
    mission.set_planner(lambda position: WORKSPACE.sample(1, rng))
    return mission


def test_with_a_reserve_it_is_home_in_time_against_a_current_that_it_has_learned(monkeypatch):
    current = (-0.5, 0.2)  # home is to the south-east
    late = sail(survey(), current, 2000.0)
    mission = survey(home_reserve=10.0)
    assert 885.0 < sail(mission, current, 2000.0) <= 900.0
    assert mission.reason == "the way home takes the rest of max_duration (900 s)"
    assert math.dist(mission.position, mission.home) < 0.2
    x, y, unit = mission.diagnostics()["current"].split()
    assert math.dist((float(x), float(y)), current) < 0.03 and unit == "m/s"
    monkeypatch.setattr(way_home, "learned_current", lambda *_: None)
    assert 905.0 < sail(survey(home_reserve=10.0), current, 2000.0) < late


def test_a_stated_current_brings_it_home_in_time_before_one_is_learned(monkeypatch):
    monkeypatch.setattr(way_home, "learned_current", lambda *_: None)
    mission = survey(home_reserve=10.0, arrival={"current": (-0.5, 0.2)})
    assert 885.0 < sail(mission, (-0.5, 0.2), 2000.0) <= 900.0
    assert mission.diagnostics()["current"] == "-0.50 0.20 m/s"


def test_a_stated_current_tells_current_from_speed_where_the_track_has_one_direction():
    along = np.arange(0, 100, 0.5)
    track = np.column_stack((along / 1.4, along, 0 * along))
    found = learned_current(track, 1.0, (0.4, 0.1))
    assert found.x == pytest.approx(0.4, abs=0.01) and found.y == pytest.approx(0.1, abs=0.01)
    mission = pilot()
    sail(mission, (0.3, 0.0), 200.0)
    wrong = learned_current(mission.track.newest, 1.0, (-0.3, 0.3))  # the track corrects it
    assert math.dist((wrong.x, wrong.y), (0.3, 0.0)) < 0.03


@pytest.mark.parametrize(("stated", "ended"), [((0.0, 0.0), "timeout"), ((0.7, 0.0), "reached")])
def test_a_goal_up_a_strong_stated_current_is_not_given_up(stated, ended):
    mission = Mission(np.array([[-25.0, -30.0]]), WORKSPACE, arrival={"current": stated})
    sail(mission, (0.7, 0.0), 300.0)
    assert dict(mission.goals.results) == {ended: 1}


def test_after_a_restart_the_same_current_is_known():
    mission = pilot()
    sail(mission, (0.3, 0.0), 200.0)
    track = VehicleTrack(WORKSPACE)
    track.restore(**mission.track.to_dict())
    assert learned_current(track.newest, 1.0) == learned_current(mission.track.newest, 1.0)


def test_planners_are_told_how_much_of_the_distance_left_current_and_way_home_take():
    mission = survey(home_reserve=10.0)
    sail(mission, (-0.5, 0.0), 250.0)
    pace = mission.budget.pace(mission.track.length, 250.0 - PERIOD, 1.0)
    west, east = (mission.home + np.array([step, 0.0]) for step in (-30.0, 0.0))
    extra = mission.situation(math.nan, 1.0).extra
    there_and_back = extra(np.array([east, west, east])) - extra(np.array([east]))
    assert there_and_back == pytest.approx(pace * (30 / 1.5 + 30 / 0.5) - 60, abs=2)
    there = extra(np.array([east, west])) - extra(np.array([east]))
    assert there == pytest.approx(pace * (30 / 1.5 + 30 / 0.5) - 30, abs=2)
    for other in (survey(), pilot(home_reserve=10.0, on_done="home", max_samples=9)):
        sail(other, (-0.5, 0.0), 20.0)
        assert other.situation(math.nan, 1.0).extra(west[None]) == 0.0


def test_what_is_left_does_not_depend_on_how_long_the_vehicle_waited_for_its_start():
    found = []
    for waited in (0.0, 600.0):
        mission = survey(home_reserve=10.0, autostart=False)
        for time in np.arange(0.0, waited, 10.0).tolist():
            mission.update_position(np.array(start_pose(WORKSPACE)[:2]), time)
        mission.start(waited)
        for step in range(250):
            place = np.array([-25 + 0.2 * min(step, 250 - step), 0.2 * step - 25.0])
            mission.update_position(place, waited + 0.3 * step)
        found.append(mission.situation(math.nan, 1.0).extra(np.array([[0.0, 0.0], [9.0, 0.0]])))
    assert found[0] == pytest.approx(found[1], rel=0.02)


def test_a_mission_has_time_before_its_way_home():
    with pytest.raises(InputError, match="home_reserve: expected less than max_duration"):
        survey(home_reserve=900.0)
    pilot(max_duration=900.0, home_reserve=900.0)  # it does not go home
