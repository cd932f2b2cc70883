"""Durations and their quantiles."""

import math

from poam_ros.learning.updater import MAX_DURATIONS, Durations


def test_no_durations_have_no_quantile():
    assert math.isnan(Durations().last) and math.isnan(Durations().quantile(0.99))


def test_quantiles_are_measured_durations_and_old_ones_are_dropped():
    times = Durations()
    for seconds in range(1, 101):
        times.add(seconds)
    assert (times.last, times.quantile(0.5), times.quantile(0.99)) == (100, 50, 99)
    for _ in range(MAX_DURATIONS):
        times.add(1)
    assert times.quantile(1.0) == 1
