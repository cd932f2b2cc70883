"""Held pings confirmed by other passes: compared with all pairs, in linear memory."""

import tracemalloc

import numpy as np
import pytest

from poam_ros.screening.track import MIN_CONFIRMING, PASS_DISTANCE, confirmed_by_other_passes

RADIUS = 5.0


def lines(count, seed=0):
    """Pings of lines 3 m apart over two grounds, one 6 m above the other."""
    rng = np.random.default_rng(seed)
    way = np.sort(rng.uniform(0, 8.0 * count**0.5, count))
    xy = np.column_stack((way % 40, 3.0 * (way // 40))) + rng.normal(0, 0.5, (count, 2))
    z = rng.normal(-20, 0.3, count) + 6.0 * (rng.random(count) < 0.4)
    return xy, z, way, rng.uniform(0.5, 1.0, count)


def one_by_one(xy, z, way, tolerance):
    found = []
    for i in range(len(xy)):
        near = ((xy - xy[i]) ** 2).sum(1) <= RADIUS**2
        near &= np.abs(way - way[i]) > PASS_DISTANCE * RADIUS
        same = near & (np.abs(z - z[i]) <= tolerance[i])
        found.append(same.sum() >= MIN_CONFIRMING and 2 * same.sum() > near.sum())
    return np.array(found, dtype=bool)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 700])
def test_each_held_ping_is_compared_with_all_others(count):
    given = lines(count)
    found = confirmed_by_other_passes(*given, RADIUS)
    np.testing.assert_array_equal(found, one_by_one(*given))
    assert count < 700 or 0.1 < found.mean() < 0.9


def peak(count):
    """Bytes in use at once beside the pings themselves."""
    given = lines(count)
    tracemalloc.start()
    try:
        confirmed_by_other_passes(*given, RADIUS)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_linearly():
    assert peak(4000) < 5 * peak(1000)
