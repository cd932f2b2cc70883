"""Training time: the budget of an update, and measured durations."""

import math

import pytest

from poam_ros.core.errors import InputError
from poam_ros.frontend.batching import TimedBatches, TrainingSettings
from poam_ros.learning.updater import MAX_DURATIONS, Durations


def after_a_batch(survey, **training):
    s = survey(pilot_samples=5, training=TrainingSettings(**training))
    s.learn(20)
    return s


def test_without_a_budget_an_update_ends_by_its_own_steps(survey):
    assert after_a_batch(survey).mapper.enough == [None]


def test_an_exhausted_time_budget_ends_the_training(survey):
    s = after_a_batch(survey, update_budget=1e-9)
    assert s.mapper.enough[0](0) is True  # before the first step: the data are in all the same
    assert after_a_batch(survey, update_budget=3600.0).mapper.enough[0](100) is False


def test_training_settings_can_change_at_run_time(survey):
    s = after_a_batch(survey)
    changed = TrainingSettings(update_budget=2.0)
    s.session.change(TimedBatches(batch_size=5), changed)
    s.learn(5)
    assert s.mapper.enough[-1] is not None


def test_settings_out_of_range():
    for wrong in ({"update_budget": -1.0}, {"update_budget": math.nan}):
        with pytest.raises(InputError):
            TrainingSettings(**wrong)


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
