"""The metrics against their definitions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from poam_ros.core.errors import InputError
from poam_ros.outputs.scoring import average_over_samples, evaluate


def log_density(x, mean, variance):
    return -0.5 * np.log(2 * np.pi * variance) - (x - mean) ** 2 / (2 * variance)


def test_metrics_equal_their_definitions():
    rng = np.random.default_rng(0)
    truth, mean, variance = rng.normal(size=50), rng.normal(size=50), rng.uniform(0.5, 2, size=50)
    metrics = evaluate(mean, variance, truth, 0.3, 1.7)
    assert_allclose(metrics.smse, np.mean((mean - truth) ** 2) / np.var(truth))
    assert_allclose(metrics.rmse, np.sqrt(np.mean((mean - truth) ** 2)))
    assert_allclose(metrics.mae, np.mean(np.abs(mean - truth)))
    assert_allclose(metrics.nlpd, -np.mean(log_density(truth, mean, variance)))
    naive = -np.mean(log_density(truth, 0.3, 1.7))
    assert_allclose(metrics.msll, metrics.nlpd - naive)


def test_inputs_without_metrics_are_refused():
    one = np.ones(3)
    with pytest.raises(InputError, match="one shape"):
        evaluate(one, np.ones(4), one, 0.0, 1.0)
    with pytest.raises(InputError, match="positive variances"):
        evaluate(one, np.zeros(3), one, 0.0, 1.0)


def test_average_is_of_the_interpolated_curve():
    samples = np.array([500.0, 1500.0, 2500.0, 6000.0])
    assert_allclose(average_over_samples(samples, 2 * samples), 6000.0)
    # 1000..1500 rises from 0.5 to 1, then 1
    values = np.array([0.0, 1.0, 1.0, 1.0])
    assert_allclose(average_over_samples(samples, values), (500 * 0.75 + 3500) / 4000)


def test_average_of_a_run_that_ends_early_or_starts_late():
    samples = np.array([500.0, 2000.0])
    assert_allclose(average_over_samples(samples, samples), 1500.0)
    with pytest.raises(InputError, match="1000"):
        average_over_samples(np.array([1200.0, 2000.0]), np.zeros(2))
    with pytest.raises(InputError, match="1000"):
        average_over_samples(np.array([500.0, 900.0]), np.zeros(2))
