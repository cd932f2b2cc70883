"""Places without a ping near them, and the goals that close them, against brute force."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.mission.target import (
    GAP,
    NO_GAPS,
    ReachableCells,
    diagonal,
    gap_closing_goals,
    to_nearest,
    tour_length,
)
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.routes import Routes

WORKSPACE = Extent(-10, 30, 0, 20)
GRID = Grid.cells(WORKSPACE, 1.0)
OPEN = Routes(NavigableArea(WORKSPACE))
#: A wall of 4 m with a margin of 1 m, all across but for a gate in the north; and a closed room.
WALL = np.array([[8.0, -1.0], [12.0, -1.0], [12.0, 14.0], [8.0, 14.0]])
ROOM = [
    np.array([[20.0, 2.0], [30.0, 2.0], [30.0, 4.0], [20.0, 4.0]]),
    np.array([[20.0, 2.0], [22.0, 2.0], [22.0, 12.0], [20.0, 12.0]]),
    np.array([[20.0, 10.0], [31.0, 10.0], [31.0, 12.0], [20.0, 12.0]]),
    np.array([[28.5, 2.0], [31.0, 2.0], [31.0, 12.0], [28.5, 12.0]]),
]
START = np.array([-5.0, 5.0])


def test_to_nearest_is_exact_and_returns_the_cell():
    rng = np.random.default_rng(0)
    grid = Grid(np.arange(12) * 2.0, np.arange(7) * 0.5)
    marked = rng.uniform(size=grid.shape) < 0.1
    apart = np.linalg.norm(grid.points[:, None] - grid.points[marked.ravel()], axis=2).min(1)
    distance, index = to_nearest(grid, marked)
    np.testing.assert_allclose(distance.ravel(), apart, atol=1e-12)
    found = np.linalg.norm(grid.points - grid.points[index.ravel()], axis=1)
    np.testing.assert_allclose(found, apart, atol=1e-12)
    assert np.isinf(to_nearest(grid, np.zeros(grid.shape, dtype=bool))[0]).all()


def test_reachable_cells_exclude_keep_outs_and_enclosed_areas():
    routes = Routes(NavigableArea(WORKSPACE, None, (WALL, *ROOM), 1.0))
    reach = ReachableCells(GRID, routes, START)
    at = {tuple(p): k for k, p in enumerate(GRID.points.tolist())}
    enterable, away = reach.enterable.ravel(), reach.away.ravel()
    assert enterable[at[14.5, 2.5]] and not enterable[at[10.5, 2.5]]  # beyond the wall; in it
    assert not enterable[at[25.5, 7.5]] and away[at[25.5, 7.5]] > 3  # the room
    assert reach.counted.all()
    entry = GRID.points[reach.entry.ravel()]
    np.testing.assert_allclose(np.linalg.norm(entry - GRID.points, axis=1), away, atol=1e-9)


def test_outside_the_polygon_nothing_is_counted():
    corners = np.array([[-10.0, 0.0], [10.0, 0.0], [10.0, 20.0], [-10.0, 20.0]])
    reach = ReachableCells(GRID, Routes(NavigableArea(WORKSPACE, corners)), START)
    np.testing.assert_array_equal(reach.counted, np.tile(GRID.x < 10, (20, 1)))


@pytest.mark.parametrize("limit", [2.5, 6.0, 50.0])
def test_closing_covers_every_gap_without_a_zigzag(limit):
    count = len(GRID.points)
    columns = GRID.points, np.full(count, limit), np.full(count, np.inf), GRID.points
    gaps = np.rec.fromarrays(columns, GAP)
    goals = gap_closing_goals(START, gaps)
    apart = np.linalg.norm(GRID.points[:, None] - goals, axis=2).min(1)
    assert apart.max() <= limit
    # A cover of discs needs area / (pi limit^2) at least; this one not many times as much.
    assert len(goals) <= 6 + 4 * 800 / (np.pi * limit**2)
    shuffled = np.random.default_rng(0).permutation(goals)
    assert tour_length(START, goals, OPEN) <= tour_length(START, shuffled, OPEN)
    assert len(gap_closing_goals(START, NO_GAPS)) == 0


def test_the_route_goes_around_keep_outs():
    goals = np.array([[15.0, 2.0]])
    routes = Routes(NavigableArea(WORKSPACE, None, (WALL,), 1.0))
    assert tour_length(START, goals, OPEN) == pytest.approx(np.hypot(20, 3))
    assert tour_length(START, goals, routes) > 30
    assert diagonal(GRID) == pytest.approx(np.sqrt(2))
