"""S-44's total vertical uncertainty, against its table by hand."""

import numpy as np
import pytest

from poam_ros.planning.tvu import CONFIDENCE_95, LEVELS, ORDERS, allowed, shares, strictest, within


@pytest.mark.parametrize(
    ("order", "at_the_top", "at_100_m"),
    [
        ("exclusive", 0.15, 0.7648529),
        ("special", 0.25, 0.7905694),
        ("1a", 0.5, 1.3928388),
        ("1b", 0.5, 1.3928388),
        ("2", 1.0, 2.5079872),
    ],
)
def test_allowed_is_the_root_of_the_sum_of_squares(order, at_the_top, at_100_m):
    np.testing.assert_allclose(allowed(order, np.array([0.0, 100.0])), (at_the_top, at_100_m))


def test_within_is_at_95_percent_and_under_water():
    depth = np.array([10.0, 10.0, 0.0, -5.0, np.nan])
    limit = allowed("1b", np.array(10.0))
    just, over = limit / CONFIDENCE_95 * np.array([0.999, 1.001])
    deviation = np.array([just, over, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(within("1b", depth, deviation), [True] + [False] * 4)


def test_strictest_counts_the_orders_a_place_is_within():
    depth = np.full(5, 20.0)
    limits = [float(allowed(name, np.array(20.0))) for name in LEVELS]
    assert limits == sorted(limits, reverse=True)  # so that within one is within those before
    deviation = np.array([limits[0] * 1.01, *(limit * 0.99 for limit in limits)]) / CONFIDENCE_95
    np.testing.assert_array_equal(strictest(depth, deviation), [0, 1, 2, 3, 4])
    assert np.isnan(strictest(np.array([-1.0, np.nan]), np.zeros(2))).all()


def test_shares_are_of_the_cells_under_water():
    depth, deviation = np.array([20.0, 20.0, 20.0, -1.0]), np.array([0.01, 0.2, 9.0, 0.01])
    found = shares(depth, deviation, list(ORDERS))
    third = 1 / 3
    assert found == pytest.approx(
        {"exclusive": third, "special": third, "1a": 2 * third, "1b": 2 * third, "2": 2 * third}
    )
    assert np.isnan(shares(np.array([-1.0]), np.zeros(1), ["2"])["2"])
