"""Guidance: an operator's commands, and a mission that is given goals where it needs them."""

import numpy as np

from poam_ros.core.clock import Moment
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.frontend.odometry import VehicleState
from poam_ros.mission.guidance import Guidance
from poam_ros.ros.parameters import PLANNER

WORKSPACE = Extent(0, 20, 0, 20)
VALUES = {row.name: row.default for row in PLANNER} | {
    "workspace": WORKSPACE.bounds, "planner": "max-entropy", "target.distance": 30.0,
    "goals.metres": "1 1", "max_samples": 1000,
}  # fmt: skip


def chart():
    grid = Grid.cells(WORKSPACE, 1.0)
    fields = {"lengthscale": np.full(grid.shape, 5.0)}
    drawn = ElevationMap(grid, np.full(grid.shape, -9.0), np.ones(grid.shape), fields, samples=9)
    return drawn.with_pings(np.array([[1.0, 1.0]]))


def test_a_mission_is_given_goals_from_the_first_map_on_and_a_start_begins_anew():
    guidance, now = Guidance(VALUES, lambda *_: None), 0
    mission = guidance.mission

    def locate(x, y):
        nonlocal now
        now += 1
        guidance.locate(VehicleState(now * 10**9, (x, y, 0.0)), 0.0, Moment(now * 10**9, now))

    assert guidance.command("start", 0.5) == (True, "started; no odometry yet")
    assert not guidance.command("start", 0.5)[0] and not guidance.command("resume", 0.5)[0]
    for _ in range(3):
        locate(1.0, 1.0)
    assert mission.needs_goal and mission.goal is None
    guidance.draw(chart(), Moment(now * 10**9, now))
    assert not mission.needs_goal and mission.goal is not None
    assert guidance.target.status is not None
    assert guidance.command("pause", now) == (True, "paused while exploring")
    assert guidance.command("resume", now)[0] and guidance.command("stop", now)[0]
    assert guidance.target.status is not None
    assert guidance.command("start", now)[0] and guidance.target.status is None


def sunk(drawn=None, **values):
    """A guidance at (1, 1) at z = -2 whose goal is (15, 1); ``at(z)`` moves the vehicle there."""
    given = {**VALUES, "goals.metres": "15 1", "watchdog.max_jump": 0.0, **values}
    guidance, now = Guidance(given, lambda *_: None), 0
    if drawn is not None:
        guidance.map = drawn

    def at(z):
        nonlocal now
        now += 1
        moment = Moment(now * 10**9, now)
        guidance.locate(VehicleState(now * 10**9, (1.0, 1.0, z)), 0.0, moment)
        return guidance.goal_z

    at(-2.0)
    guidance.command("start", now)
    at(-2.0)
    assert guidance.mission.goal.tolist() == [15, 1]
    return guidance, at


def test_the_depth_of_a_goal_is_not_that_of_a_vehicle_that_drifts():
    guidance, at = sunk()
    assert [at(z) for z in (-2.1, -2.5, -3.0, -9.0)] == [-2.0] * 4
    guidance.mission.goals.clear()
    guidance.mission.goals.add(np.array([[1.0, 15.0]]))
    assert at(-9.0) == -2.0  # nor that of the next one
    guidance.command("pause", 9)
    guidance.command("resume", 9)  # an operator let it dive
    guidance.mission.goals.clear()
    guidance.mission.goals.add(np.array([[3.0, 15.0]]))
    assert at(-9.5) == -9.0


def test_goals_are_as_deep_as_is_asked_for():
    assert sunk(**{"goals.depth": 4.5})[0].goal_z == -4.5
    raised = {"goals.depth": 4.5, "odometry.vertical": "datum", "water.level": 400.0}
    assert sunk(**raised)[0].goal_z == 395.5


def test_goals_are_as_high_above_the_bottom_as_is_asked_for_but_never_above_the_water():
    bottom = chart()  # at -9 m, with a standard deviation of 1 m
    assert sunk(bottom, **{"goals.altitude": 3.0})[0].goal_z == -9 + 1.96 + 3
    assert sunk(bottom, **{"goals.altitude": 30.0})[0].goal_z == 0.0
    level = {"goals.altitude": 3.0, "water.level": 2.0}  # z counts from the water, 2 m up
    assert sunk(bottom, **level)[0].goal_z == -11 + 1.96 + 3
    assert sunk(None, **{"goals.altitude": 3.0, "goals.depth": 1.0})[0].goal_z == -1.0
