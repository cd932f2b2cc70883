"""Which pings are from the bottom, by those before and after them."""

import numpy as np
import pytest

from poam_ros.screening.viterbi import PredictedRanges, follow

KNOWN = np.array([[-0.4, 0.0, 20.0]])
RATIO = 1.35


def along(ranges, step=0.4):
    """Places of a straight track, and the ranges."""
    ranges = np.asarray(ranges, dtype=float)
    return np.column_stack([step * np.arange(len(ranges)), np.zeros(len(ranges))]), ranges


def test_a_late_echo_is_not_bottom():
    xy, ranges = along([20, 20.2, 31, 20.1, 19.9, 55, 20])
    found = follow(KNOWN, xy, ranges, None, RATIO, 0.4)
    assert found.is_bottom.tolist() == [True, True, False, True, True, False, True]
    assert found.origin[[0, 1, 3, 4, 6]].tolist() == [-1, 0, 1, 3, 4]
    assert not found.jumped[found.is_bottom].any()


def test_a_jump_on_a_smooth_bottom_is_normal_on_a_rough_one():
    rng = np.random.default_rng(0)
    ranges = 60 + np.cumsum(rng.choice([-9, 9], 60))  # 9 m from ping to ping
    ranges = np.abs(ranges - 30.0) + 30
    spike, echo = ranges.copy(), np.zeros(60, dtype=bool)
    echo[[20, 40]] = True
    spike[echo] *= 2.5
    xy, _ = along(ranges)
    known = np.array([[-0.4, 0.0, ranges[0]]])
    assert follow(known, xy, ranges, None, RATIO, 0.4).is_bottom.all()
    assert (follow(known, xy, spike, None, RATIO, 0.4).is_bottom == ~echo).all()


def test_jumps_of_the_bottom_are_marked():
    xy, ranges = along([20] * 10 + [45] * 30)
    found = follow(KNOWN, xy, ranges, None, RATIO, 0.4)
    assert found.is_bottom.all() and np.flatnonzero(found.jumped).tolist() == [10]


def test_a_map_of_the_bottom_beyond_confirms_it():
    xy, ranges = along([20, 20, 45, 20, 20])
    known = np.array([20.0, 20, 45, 20, 20])
    sure, elsewhere = (PredictedRanges(mean, np.full(5, 0.5)) for mean in (known, np.full(5, 20.0)))
    assert follow(KNOWN, xy, ranges, sure, RATIO, 0.4).is_bottom.all()
    assert not follow(KNOWN, xy, ranges, elsewhere, RATIO, 0.4).is_bottom[2]


def test_the_first_ping_may_be_an_echo():
    xy, ranges = along([52, 20, 20.1, 19.9, 20, 20.2, 20, 19.8, 20, 20.1])
    found = follow(np.empty((0, 3)), xy, ranges, None, RATIO, 0.4)
    assert found.is_bottom.tolist() == [False] + [True] * 9


@pytest.mark.parametrize("ranges", [[0.0, 0.0, 0.0], [1e6, 0.0, 1e6], [5.0]])
def test_a_path_exists_for_any_ranges(ranges):
    xy, ranges = along(ranges, step=0.0)
    with np.errstate(all="raise", under="ignore"):
        assert len(follow(np.empty((0, 3)), xy, ranges, None, RATIO, 0.4).is_bottom) == len(ranges)
