"""Pilot paths."""

from itertools import pairwise

import numpy as np
import pytest

from poam_ros.core.geometry import path_length
from poam_ros.planning.pilots import (
    BEZIER_CONTROL_POINTS,
    PILOTS,
    bezier_pilot,
    lawnmower_pilot,
    random_pilot,
    start_pose,
)

CONTROL_POINTS = [
    (1, 0), (0, 0), (0, 0.25), (0, 0.5), (0, 0.75), (0, 1), (0.25, 1), (0.5, 1), (0.75, 1), (1, 1),
    (1, 0.75), (1, 0.5), (1, 0.25), (0.5, 0.25), (0.5, 0.5),
]  # fmt: skip


def de_casteljau(points, t):
    """The point of a Bezier curve at t, by repeated linear interpolation."""
    points = [tuple(map(float, point)) for point in points]
    while len(points) > 1:
        points = [
            ((1 - t) * ax + t * bx, (1 - t) * ay + t * by)
            for (ax, ay), (bx, by) in pairwise(points)
        ]
    return points[0]


def test_bezier_pilot_is_the_published_curve(workspace):
    np.testing.assert_array_equal(BEZIER_CONTROL_POINTS, CONTROL_POINTS)
    corners = [
        (workspace.xmin + u * workspace.size[0], workspace.ymin + v * workspace.size[1])
        for u, v in CONTROL_POINTS
    ]
    expected = [de_casteljau(corners, k / 49) for k in range(50)]
    path = bezier_pilot(workspace, np.random.default_rng(0))
    assert path.shape == (50, 2)
    np.testing.assert_allclose(path, expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(path[0], start_pose(workspace)[:2])
    np.testing.assert_allclose(path[-1], workspace.centre)


@pytest.mark.parametrize("name", PILOTS)
def test_pilots_stay_in_the_workspace_and_follow_their_generator(name, workspace):
    first, again, other = (PILOTS[name](workspace, np.random.default_rng(s)) for s in (5, 5, 6))
    for path in (first, other):
        assert len(path) >= 2 and path.shape[1:] == (2,)
        # Borders are met; rounding may put a point a last digit beyond.
        assert workspace.contains(path, slack=1e-9).all()
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) == (name != "random")


def test_lawnmower_drives_lanes_from_border_to_border(workspace):
    path, lanes = lawnmower_pilot(workspace, np.random.default_rng(0)), 3
    assert path.shape == (2 * lanes, 2)
    np.testing.assert_allclose(path[0], start_pose(workspace)[:2])
    ends = path.reshape(lanes, 2, 2)
    np.testing.assert_allclose(ends[:, 0, 1], ends[:, 1, 1])  # lanes run east and west
    np.testing.assert_allclose(np.abs(ends[:, 1, 0] - ends[:, 0, 0]), workspace.size[0])
    # Each lane begins on the side where the one before it ended.
    np.testing.assert_allclose(ends[1:, 0, 0], ends[:-1, 1, 0])
    heights = ends[:, 0, 1]
    np.testing.assert_allclose(heights, np.linspace(workspace.ymin, workspace.ymax, lanes))
    length = lanes * workspace.size[0] + workspace.size[1]
    assert path_length(path) == pytest.approx(length)


def test_random_pilot_is_about_as_long_as_the_bezier_pilot(workspace):
    wanted = path_length(bezier_pilot(workspace, np.random.default_rng(0)))
    for seed in range(10):
        driven = np.vstack(
            (start_pose(workspace)[:2], random_pilot(workspace, np.random.default_rng(seed)))
        )
        assert path_length(driven[:-1]) < wanted <= path_length(driven)
