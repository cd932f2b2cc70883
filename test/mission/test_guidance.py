"""Guidance: an operator's commands, and a mission that is given goals where it needs them."""

import numpy as np

from poam_ros.core.clock import Moment
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.frontend.odometry import VehicleState
from poam_ros.mission.guidance import Guidance
from poam_ros.ros.common.parameters import PLANNER

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
