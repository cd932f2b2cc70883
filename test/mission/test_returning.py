"""The way home is guarded like the survey: by a guidance with all that watches a mission."""

from __future__ import annotations

import numpy as np
import pytest

from poam_ros.core.clock import Moment
from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.ranges import RawPing
from poam_ros.mission.guidance import Guidance
from poam_ros.ros.parameters import PLANNER

VALUES = {row.name: row.default for row in PLANNER} | {
    "workspace": (0.0, 50.0, 0.0, 50.0), "goals.metres": "40 40", "on_done": "home",
    "max_duration": 60.0, "autostart": True,
}  # fmt: skip


class Homeward:
    """A vehicle that starts at (5, 5) and is on its way home at (40, 40) after a minute."""

    def __init__(self, **values) -> None:
        self.time_s = 0.0
        self.values = {**VALUES, **values}
        self.guidance = Guidance(self.values, lambda *_: None)
        self.mission = self.guidance.mission
        for place in np.linspace(5, 40, 51):
            self.be_at(place, place)
        self.wait(12)
        assert self.guidance.mission.goal.tolist() == [5, 5]

    @property
    def now(self) -> Moment:
        return Moment(round(self.time_s * 1e9), self.time_s)

    def be_at(self, x, y, seconds=1.0) -> None:
        self.time_s += seconds
        state = VehicleState(self.now.ros_ns, (x, y, 0.0))
        self.guidance.locate(state, 0.0, self.now)
        if self.mission.state != "returning":  # the sonar may be off on the way home
            self.guidance.ping(RawPing(self.now.ros_ns, 9.0, 0.1, 99.0))
        self.guidance.tick(self.now)

    def wait(self, seconds, odometry=True) -> None:
        for _ in range(seconds):
            if odometry:
                self.be_at(40.0, 40.0)
            else:
                self.time_s += 1
                self.guidance.tick(self.now)

    @property
    def paused(self) -> bool:
        mission = self.guidance.mission
        return mission.state == "paused" and mission.goal is None and mission.station is not None


@pytest.fixture
def homeward():
    return Homeward()


@pytest.mark.parametrize("told", [("MANUAL", True, True), ("GUIDED", True, False)])
def test_somebody_takes_over_or_the_link_is_lost(homeward, told):
    homeward.guidance.autopilot.update(homeward.mission, "GUIDED", True, True)
    homeward.guidance.autopilot.update(homeward.mission, *told)
    assert homeward.paused
    homeward.wait(60)
    assert homeward.paused
    assert homeward.guidance.taken_over == ""  # the way home is not mapped, whoever drives
    assert homeward.guidance.command("resume", homeward.time_s)[0]
    homeward.wait(2)
    assert homeward.mission.goal.tolist() == [5, 5]


def test_no_odometry_pauses_and_its_return_resumes(homeward):
    homeward.wait(300, odometry=False)
    assert homeward.paused and homeward.mission.reason == "no odometry for 5 s"
    homeward.wait(10)
    assert homeward.mission.state == "returning" and homeward.mission.goal.tolist() == [5, 5]


def test_a_silent_sonar_and_mapper_do_not_strand_it(homeward):
    for step in range(100):
        homeward.be_at(40 - 0.3 * step, 40 - 0.3 * step)
    assert homeward.mission.state == "returning"


def test_the_fence_holds(homeward):
    for metre in range(300):
        homeward.be_at(40.0 + metre, 40.0)
    assert homeward.paused and homeward.mission.reason.endswith("m outside the workspace")


def test_a_vehicle_that_comes_no_nearer_to_home_is_paused(homeward):
    homeward.wait(70)
    assert homeward.paused and "stands still" in homeward.mission.reason


def test_a_home_that_no_route_leads_to_pauses():
    wall = "20 -9, 22 -9, 22 60, 20 60"
    homeward = Guidance({**VALUES, "areas.keep_outs": wall, "home_degrees": (47.3, 8.55),
        "origin": (47.3, 8.55)}, lambda *_: None)  # fmt: skip
    for second in range(1, 70):
        moment = Moment(second * 10**9, float(second))
        homeward.locate(VehicleState(moment.ros_ns, (40.0, 40.0, 0.0)), 0.0, moment)
    assert homeward.mission.state == "paused"
    assert homeward.mission.reason == "no route leads home"


def test_home_is_not_moved_for_room_to_turn():
    block = "0 0, 3.5 0, 3.5 3.5, 0 3.5"
    homeward = Homeward(**{"areas.keep_outs": block, "capture_radius": 4.0})
    goals = homeward.mission.goals
    assert homeward.mission.state == "returning" and goals.waypoint.tolist() == [5, 5]
    assert goals.routes.waypoint(goals.waypoint).tolist() != [5, 5]
