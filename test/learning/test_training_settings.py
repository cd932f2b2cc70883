"""Training time: the budget of an update, the duty between updates, and measured durations."""

import math

import pytest

from poam_ros.core.errors import CholeskyError, InputError
from poam_ros.frontend.batching import TimedBatches, TrainingSettings
from poam_ros.frontend.events import MapDrawn, MissionStateChanged, ModelTrained, SettingsChanged
from poam_ros.frontend.front_end import FrontEndSettings
from poam_ros.learning.updater import MAX_DURATIONS, REDRAW_S, RETRY_S, Durations


def use(s):
    """One slice, if it is time for one."""
    return (
        list(s.session.idle_training.train_slice(s.now))
        if s.session.idle_training.seconds_until_due(s.now) <= 0
        else []
    )


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


def test_without_a_duty_nothing_is_trained_between_updates(survey):
    s = after_a_batch(survey)
    assert s.session.idle_training.seconds_until_due(s.now) == math.inf


def test_no_training_before_the_map_or_after_the_end(survey):
    s = survey(training=TrainingSettings(training_duty=1.0))
    s.drive(5)
    assert s.session.idle_training.seconds_until_due(s.now) == math.inf
    s.handle(MissionStateChanged("exploring"))
    s.learn(20)
    assert s.session.idle_training.seconds_until_due(s.now) == 0.0
    s.handle(MissionStateChanged("done"))
    s.work()
    assert s.session.idle_training.seconds_until_due(s.now) == math.inf


def test_the_pause_after_a_slice_follows_from_the_duty(survey, monkeypatch):
    """By a clock that stands still but for the training: 10 ms a step."""
    s = after_a_batch(survey, training_duty=0.25)
    clock, train = [0.0], s.mapper.train

    def slow(steps):
        clock[0] += 0.01 * steps
        return train(steps)

    s.mapper.train = slow
    monkeypatch.setattr("poam_ros.learning.updater.perf_counter", lambda: clock[0])
    begun = s.now.steady_s
    while s.now.steady_s - begun < 20.0:
        use(s)
        s.wait(max(s.session.idle_training.seconds_until_due(s.now), 1e-6))
    assert sum(s.mapper.steps) * 0.01 == pytest.approx(0.25 * 20.0, abs=0.05)
    assert max(s.mapper.steps) == 2  # as many as fit into 30 ms, the longest wait of a batch
    assert s.session.status.trained == sum(s.mapper.steps)


def test_the_map_follows_training_every_few_seconds_and_keeps_its_stamp(survey):
    s = after_a_batch(survey, training_duty=1.0)
    stamp, drawn = s.session.map.stamp_ns, []
    for _ in range(101):
        s.wait(0.1 * REDRAW_S)
        drawn += [o for o in use(s) if isinstance(o, MapDrawn)]
    assert len(drawn) == 11
    assert {d.map.stamp_ns for d in drawn} == {stamp}  # no ping in it is newer
    assert list(s.session._updater.draw(s.now.ros_ns)) == []  # nothing has changed since


def test_a_batch_that_is_due_comes_before_more_training(survey):
    s = after_a_batch(survey, training_duty=1.0)
    s.drive(20)
    assert s.session.due(s.now)
    assert s.kinds() == ["BatchLearned", "MapDrawn"]
    assert type(use(s)[0]) is ModelTrained


def test_failed_training_is_reported_and_retried_later(survey):
    s = after_a_batch(survey, training_duty=1.0)
    s.mapper.failures = [CholeskyError("K")]
    (trouble,) = use(s)
    assert trouble.message.reason == "CholeskyError"
    assert s.session.idle_training.seconds_until_due(s.now) == RETRY_S
    s.wait(RETRY_S)
    assert use(s)


def test_training_settings_can_change_at_run_time(survey):
    s = after_a_batch(survey)
    changed = TrainingSettings(update_budget=2.0, training_duty=0.5)
    s.handle(SettingsChanged(FrontEndSettings(), TimedBatches(batch_size=5), 5, changed))
    assert s.session.idle_training.seconds_until_due(s.now) == 0.0
    s.learn(5)
    assert s.mapper.enough[-1] is not None


def test_settings_out_of_range():
    for wrong in ({"update_budget": -1.0}, {"training_duty": 1.5}, {"training_duty": math.nan}):
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
