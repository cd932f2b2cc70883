"""The offset between two surveys is distinguished from a change of a part of the area."""

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.outputs.change import sampled_offset

GRID = Grid.cells(Extent(0, 60, 0, 40), 2.0)
BOTH = np.ones(GRID.shape, dtype=bool)
X, Y = GRID.points.T
OFFSET, NOISE, DRAWS = 0.1, 0.05, 200


def found(seed, change, both=BOTH, common=0.0):
    """Samples of the offset of a pair with a true change per cell; ``common``: the standard
    deviation of an error of all cells."""
    rng = np.random.default_rng(seed)
    cells = int(both.sum())
    difference = OFFSET + change[both.ravel()] + NOISE * rng.standard_normal(cells)
    draws = NOISE * rng.standard_normal((DRAWS, cells))
    return sampled_offset(both, difference, draws + common * rng.standard_normal((DRAWS, 1)))


@pytest.mark.parametrize(
    ("changed", "height"),
    [
        (np.hypot(X - 20, Y - 20) < 4, -0.3),
        (X < 18, 0.15),
        ((X > 10) & (X < 16), 0.3),
        (np.hypot(X - 40, Y - 12) < 11, -0.15),
        (X < 18, -3.0),
        ((X < 20) & (Y < 6), 40.0),
    ],
)
def test_a_change_does_not_pull_the_offset(changed, height):
    offset = found(1, np.where(changed, height, 0.0))
    low, high = np.quantile(offset, [0.025, 0.975])
    assert low < OFFSET < high
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.006)  # the mean is off by up to 0.05
    assert offset.std() < 0.012


def test_where_half_of_the_area_changed_it_is_that_of_one_half():
    offset = found(6, np.where(X < 30, 3.0, 0.0))
    assert min(abs(np.median(offset) - OFFSET), abs(np.median(offset) - OFFSET - 3.0)) < 0.1


def test_without_change_it_is_the_mean():
    offset = found(2, np.zeros(len(X)))
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.004)
    assert NOISE / np.sqrt(len(X)) * 0.8 < offset.std() < 0.006


def test_cells_with_gaps_and_few_cells():
    few = np.zeros(GRID.shape, dtype=bool)
    few[3, 4:6] = True
    assert np.median(found(3, np.zeros(len(X)), few)) == pytest.approx(OFFSET, abs=0.2)
    gaps = BOTH.copy()
    gaps[4:9, 3:20] = False
    offset = found(4, np.where(X > 44, -0.3, 0.0), gaps)
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.01)


def test_an_error_of_all_cells_is_one_of_the_offset():
    """It neither hides a change nor makes one."""
    change = np.where(np.hypot(X - 20, Y - 20) < 8, -0.15, 0.0)
    alone, offset = found(5, change), found(5, change, common=0.3)
    assert 0.25 < offset.std() < 0.35 and alone.std() < 0.01
    assert np.median(offset) == pytest.approx(OFFSET, abs=0.07)
