"""The chooser of waypoints, for the planner node and lock-step missions."""

import numpy as np
import pytest
from missions import judge

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, map_grid
from poam_ros.core.maps import ElevationMap, Predicted
from poam_ros.mission.chooser import WaypointChooser
from poam_ros.mission.mission import Mission
from poam_ros.mission.target import GAPS, MapTarget, TargetSettings
from poam_ros.planning.planners import PLANNERS

WORKSPACE = Extent(0, 40, 0, 40)
OPTIONS = PLANNERS["max-entropy"].options(distance_weight=0.0)


def drawn(variance=None):
    """A map of one ping in a corner; its variance rises to the east."""
    grid = map_grid(WORKSPACE, 2.0)
    east = np.broadcast_to(1.0 + grid.x, grid.shape)
    density = np.zeros(grid.shape)
    density[0, 0] = 1.0
    fields = {"lengthscale": np.full(grid.shape, 5.0), "density": density}
    variance = east if variance is None else variance
    return ElevationMap(grid, np.full(grid.shape, -9.0), variance, fields, samples=1, stamp_ns=0)


@pytest.fixture
def chooser():
    """`chooser(**target)`: of a mission that explores, at (1, 1)."""

    def make(**target):
        mission = Mission(np.empty((0, 2)), WORKSPACE)
        mission.update_position(np.array([1.0, 1.0]), 0.0)
        aim = MapTarget(TargetSettings(**target))
        judge(aim, mission, drawn(), 1.0)
        return WaypointChooser(mission, aim, "max-entropy", np.random.default_rng(0))

    return make


def test_the_planner_sees_the_latest_map(chooser):
    (goal,), purpose = chooser().path(drawn(), 1.0, 0.0, 1.0, OPTIONS)
    assert goal[0] > 38 and not purpose


def test_a_given_view_replaces_the_map(chooser):
    class West:
        def predict(self, xy):
            return Predicted(np.zeros(len(xy)), 41.0 - xy[:, 0])

    (goal,), purpose = chooser().path(None, 1.0, 0.0, 1.0, OPTIONS, West())
    assert goal[0] < 2 and not purpose


def test_coverage_gaps_that_are_due_come_first(chooser):
    """Nothing else ends this mission, so the nearest gap is the first goal."""
    (goal,), purpose = chooser(distance=10.0).path(drawn(), 1.0, 0.0, 1.0, OPTIONS)
    assert np.hypot(*(goal - 1.0)) < 20 and purpose == GAPS


def test_a_map_in_which_no_waypoint_is_found_is_reported(chooser):
    nothing = drawn(np.full((21, 21), np.nan)[: len(drawn().grid.y), : len(drawn().grid.x)])
    with pytest.raises(InputError, match="no"):
        chooser().path(nothing, 1.0, 0.0, 1.0, OPTIONS)
