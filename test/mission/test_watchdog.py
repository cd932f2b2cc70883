"""What makes the watchdog pause a mission, and when it resumes."""

import math

import numpy as np
import pytest

from poam_ros.core.geometry import Extent
from poam_ros.frontend.odometry import largest_std
from poam_ros.mission.mission import Mission
from poam_ros.mission.states import (
    MAP,
    OPERATOR,
    RECOVERY_S,
    SONAR,
    TAKEN_OVER,
    Autopilot,
    Watchdog,
    WatchdogSettings,
)
from poam_ros.planning.areas import NavigableArea

WORKSPACE = Extent(-10, 10, -10, 10)
FAR = np.array([[9.0, 9.0]])


class Watched:
    """A mission that has begun, with a clock set by the test."""

    def __init__(self, speed: float = 1.0, **settings) -> None:
        self.areas = NavigableArea(WORKSPACE)
        self.mission = Mission(FAR, WORKSPACE)
        self.dog = Watchdog(WatchdogSettings(**{"progress_timeout": 0.0} | settings), self.areas)
        self.wall, self.ros, self.speed = 100.0, 5000.0, speed
        self.be_at(0, 0)
        self.dog.check(self.mission, self.wall, self.ros)

    def be_at(self, x: float, y: float, std: float = 0.0) -> None:
        self.mission.update_position(np.array([x, y], dtype=float), self.ros)
        self.dog.position_received(self.mission, std)

    def wait(self, seconds: float, *heard: str, odometry: bool = True, std: float = 0.0) -> None:
        """Let wall time pass, with a check every second."""
        for _ in range(round(seconds)):
            self.wall, self.ros = self.wall + 1, self.ros + self.speed
            if odometry:
                self.be_at(0.0, 0.0, std)
            for source in heard:
                self.dog.received(source)
            self.dog.check(self.mission, self.wall, self.ros)


def test_silence_of_odometry_pauses_and_its_return_resumes():
    watched = Watched()
    watched.wait(5, SONAR, odometry=False)
    assert watched.mission.state == "pilot"
    watched.wait(1, SONAR, odometry=False)
    assert watched.mission.state == "paused"
    assert watched.mission.reason == "no odometry for 5 s"
    assert watched.mission.station.tolist() == [0, 0]
    watched.wait(RECOVERY_S - 1, SONAR)
    assert watched.mission.state == "paused"
    watched.wait(2, SONAR)
    assert watched.mission.state == "pilot"
    assert watched.mission.reason == "resumed: recovered from: no odometry for 5 s"


def test_the_reason_of_a_pause_is_what_is_missing_now():
    watched = Watched(max_position_std=2.0, sonar_timeout=5.0)
    watched.wait(8, odometry=False)
    assert watched.mission.reason == "no odometry for 5 s"
    watched.wait(60)  # the sonar is still silent
    assert (watched.mission.state, watched.mission.reason) == ("paused", "no ping for 5 s")
    watched.wait(1, SONAR, std=2.5)
    told = watched.mission.reason
    assert told == "the position is only known to 2.5 m, expected 2 m"
    watched.wait(9, SONAR, std=2.6)
    assert watched.mission.reason == told, "the digits alone are no news"
    watched.wait(5, SONAR, std=1.9)
    assert watched.mission.state == "pilot"
    watched.wait(1, SONAR, std=math.nan)
    assert watched.mission.state == "paused"


def test_an_old_map_pauses_only_an_exploration():
    watched = Watched(map_timeout=20.0)
    watched.wait(30, SONAR)
    assert watched.mission.state == "pilot"
    watched.be_at(9, 9)
    assert watched.mission.state == "exploring"
    watched.wait(15, SONAR)
    watched.wait(1, SONAR, MAP)
    watched.wait(20, SONAR)
    assert watched.mission.state == "exploring"
    watched.wait(1, SONAR)
    assert (watched.mission.state, watched.mission.reason) == ("paused", "no new map for 20 s")
    watched.wait(1, SONAR, MAP)
    watched.wait(4, SONAR)
    assert watched.mission.state == "exploring"
    watched.wait(15, SONAR)  # new timeouts
    assert watched.mission.state == "exploring"


def test_timeouts_count_on_the_slower_of_both_clocks():
    """A fast or stopped simulation, or a clock that is set, does not count as silence."""
    quick = Watched(speed=20.0)
    quick.wait(5, SONAR, odometry=False)
    assert quick.mission.state == "pilot"
    slow = Watched(speed=0.1)
    slow.wait(49, SONAR, odometry=False)
    assert slow.mission.state == "pilot"
    slow.wait(3, SONAR, odometry=False)
    assert slow.mission.state == "paused"
    standing = Watched(speed=0.0)
    standing.wait(1000, odometry=False)
    assert standing.mission.state == "pilot"
    jumped = Watched()
    jumped.ros += 1e6
    jumped.wait(2, SONAR, odometry=False)
    jumped.ros -= 2e6
    jumped.wait(2, SONAR, odometry=False)
    assert jumped.mission.state == "pilot"


def test_without_auto_resume_it_does_not_resume():
    watched = Watched(auto_resume=False)
    watched.wait(6, SONAR, odometry=False)
    watched.wait(60, SONAR)
    assert watched.mission.state == "paused"
    assert watched.mission.resume()[0]
    watched.wait(5, SONAR)
    assert watched.mission.state == "pilot"


def test_a_mission_that_has_not_begun_is_not_watched():
    mission = Mission(FAR, WORKSPACE, autostart=False)
    dog = Watchdog(WatchdogSettings(), NavigableArea(WORKSPACE))
    for second in range(60):
        dog.check(mission, float(second), float(second))
    assert mission.state == "waiting"
    assert mission.start(60.0)[0]
    for second in range(60, 67):
        dog.check(mission, float(second), float(second))
    assert (mission.state, mission.reason) == ("paused", "no odometry for 5 s")


@pytest.mark.parametrize("margin", [0.0, 2.0])
def test_the_geofence_is_armed_inside_and_triggers_once(margin):
    watched = Watched(geofence_margin=margin)
    out = 10 + margin
    watched.be_at(out - 0.1 if margin else 10, 0)
    assert watched.mission.state == "pilot"
    watched.be_at(out + 1.5, 0)
    assert watched.mission.state == "paused"
    assert watched.mission.reason == f"the vehicle is {margin + 1.5:.1f} m outside the workspace"
    assert watched.mission.station.tolist() == [out + 1.5, 0]
    watched.be_at(0, 0)
    for _ in range(60):
        watched.wall, watched.ros = watched.wall + 1, watched.ros + 1
        watched.dog.check(watched.mission, watched.wall, watched.ros)
    assert watched.mission.state == "paused"  # a person lets it go on
    watched.be_at(out + 3, 0)
    watched.mission.resume()
    watched.be_at(0, 0)
    watched.be_at(out + 3, 0)
    assert watched.mission.state == "paused"
    assert watched.mission.station.tolist() == [out + 3, 0]  # of this pause


def test_an_operator_may_resume_outside_and_drive_back():
    watched = Watched(geofence_margin=2.0)
    watched.be_at(15, 0)
    watched.mission.resume()
    for x in (15, 14, 13, 12.5):
        watched.be_at(x, 0)
        assert watched.mission.state == "pilot"
    watched.be_at(9, 0)
    watched.be_at(13, 0)
    assert watched.mission.state == "paused"


def test_the_largest_standard_deviation_of_a_covariance():
    assert largest_std(4.0, 0.0, 1.0) == 2.0
    assert largest_std(0.0, 0.0, 0.0) == 0.0  # unknown, as MAVROS sends it
    assert largest_std(-1.0, 0.0, 9.0) == 0.0
    c = np.array([[3.0, 1.2], [1.2, 2.0]])
    expected = math.sqrt(np.linalg.eigvalsh(c)[-1])
    assert largest_std(3.0, 1.2, 2.0) == pytest.approx(expected)
    assert math.isnan(largest_std(math.nan, 0.0, 1.0)) and largest_std(*[1e308] * 3) == math.inf
    assert math.isnan(largest_std(math.inf, 0.0, math.inf))


def test_a_stationary_vehicle_pauses_the_mission_over_several_goals():
    watched = Watched(progress_timeout=40.0)
    goals = watched.mission.goals
    goals.add(np.array([[9.0, -9.0], [-9.0, -9.0], [-9.0, 9.0]]))
    goals.max_speed = 10.0  # a goal is given up after 33 s
    goals.replan(watched.mission.position)
    watched.wait(40, SONAR)
    assert watched.mission.state == "pilot" and goals.results == {"timeout": 1}
    watched.wait(1, SONAR)
    words = "the vehicle stands still: it came no nearer to its goal for 40 s"
    assert (watched.mission.state, watched.mission.reason) == ("paused", words)
    watched.wait(60, SONAR)
    assert watched.mission.state == "paused"  # a person lets it go on
    assert watched.mission.resume()[0]
    watched.wait(40, SONAR)
    assert watched.mission.state == "pilot"  # new timeouts


def test_a_vehicle_that_moves_away_from_its_goal_pauses_the_mission():
    watched = Watched(progress_timeout=20.0)
    for second in range(22):
        watched.wait(1, SONAR, odometry=False)
        watched.be_at(-0.4 * second, 0.0)
    words = r"the vehicle moved 8 m but came no nearer to its goal for 20 s"
    assert (watched.mission.state, watched.mission.reason) == ("paused", words)


def test_a_slow_vehicle_that_comes_nearer_to_its_goal_does_not_pause():
    watched = Watched(progress_timeout=20.0)
    for second in range(120):
        watched.wait(1, SONAR, odometry=False)
        watched.be_at(0.06 * second, 0.06 * second)
        assert watched.mission.state != "paused"


def test_a_takeover_during_an_operator_s_pause_is_added_to_its_reason():
    watched, pilot = Watched(), Autopilot()
    watched.mission.pause()
    pilot.take_over(watched.mission, "the mode is MANUAL")
    pilot.take_over(watched.mission, "the vehicle is disarmed")
    assert watched.mission.reason == "requested; the mode is MANUAL"
    assert watched.mission.causes == {OPERATOR, TAKEN_OVER}
    watched.mission.resume()
    assert not watched.mission.causes


def test_a_takeover_that_lasts_pauses_again_until_an_operator_agrees():
    watched, pilot = Watched(), Autopilot()
    pilot.take_over(watched.mission, "the mode is MANUAL")
    assert watched.mission.resume()[0]  # asked for in another way
    pilot.take_over(watched.mission, "the mode is MANUAL")
    watched.wait(60, SONAR)
    assert (watched.mission.state, watched.mission.causes) == ("paused", {TAKEN_OVER})
