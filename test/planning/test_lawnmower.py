"""The lanes of the planner that needs no map."""

from __future__ import annotations

import numpy as np
import pytest

from poam_ros.core.geometry import Extent
from poam_ros.planning.planners import LawnmowerOptions, lawnmower
from poam_ros.planning.situation import Situation

SQUARE = Extent(-30, 30, -30, 30)


def lanes(position=(0.0, 0.0), workspace=SQUARE, **options):
    situation = Situation(np.array(position, dtype=float), workspace)
    path = lawnmower(None, situation, LawnmowerOptions(**options), None)
    return path.reshape(-1, 2, 2)


def test_every_sweep_halves_the_gaps():
    found = lanes(lanes=2, sweeps=3)
    heights = found[:, 0, 1]
    np.testing.assert_array_equal(heights, found[:, 1, 1])
    assert sorted(heights[:3]) == [-30, 0, 30]
    assert sorted(heights[3:5]) == [-15, 15]
    assert sorted(heights[5:]) == [-22.5, -7.5, 7.5, 22.5]


def test_lanes_run_from_border_to_border_there_and_back():
    found = lanes(lanes=4, sweeps=4)
    np.testing.assert_array_equal(np.abs(found[:, :, 0]), 30)
    np.testing.assert_array_equal(found[1:, 0, 0], found[:-1, 1, 0])
    np.testing.assert_array_equal(found[:, 0, 0], -found[:, 1, 0])


@pytest.mark.parametrize("corner", [(-1, -1), (-1, 1), (1, -1), (1, 1)])
def test_the_first_lane_begins_at_the_nearest_corner(corner):
    wide = Extent(100, 300, -20, 20)
    position = wide.centre + 0.3 * wide.size * corner
    first = lanes(position, wide)[0, 0]
    np.testing.assert_array_equal(first, wide.centre + wide.size / 2 * corner)
