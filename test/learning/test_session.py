"""The front end, event by event: what is refused, what becomes a sample, a batch, a map."""

import pytest
from sessions import DEPTH

from poam_ros.core.clock import SECOND, Moment
from poam_ros.core.errors import CholeskyError, InputError
from poam_ros.core.samples import LiveBatches, TimedBatches, WaypointBatches
from poam_ros.frontend.front_end import FrontEndSettings
from poam_ros.frontend.odometry import VehicleState
from poam_ros.learning.updater import MAX_DURATIONS, Durations

LEARNED = ["BatchLearned", "MapDrawn"]


def counts(s):
    """received = accepted + pending + rejected, always."""
    ledger = s.session.ledger
    assert ledger.received == ledger.accepted + ledger.pending + sum(ledger.rejected.values())
    return dict(ledger.rejected)


def test_the_pilot_survey_ends_when_the_mission_explores(survey):
    s = survey(pilot_samples=30)
    s.mission("pilot")
    s.drive(50)  # more than pilot_samples: where there is a planner, its word counts
    assert not s.session.due(s.now)
    s.mission("exploring")
    assert s.kinds() == LEARNED
    assert s.mapper.batches == [50]


def test_without_a_mission_state_enough_pings_end_the_pilot_survey(survey):
    s = survey(pilot_samples=30)
    s.front_end.mission_source(True)
    s.drive(40)
    assert s.work() == []
    s.front_end.mission_source(False)
    assert s.kinds() == LEARNED
    assert s.mapper.batches == [40]


def test_a_batch_is_due_by_number_or_age_and_takes_all_samples(survey):
    s = survey(pilot_samples=5, policy=TimedBatches(batch_size=20, batch_period=5.0))
    s.drive(19)
    assert not s.session.due(s.now)
    s.drive(1)
    assert s.session.due(s.now)
    s.learn(7)  # while the model is busy
    s.drive(3)
    assert not s.session.due(s.now)
    s.wait(4.5)
    assert not s.session.due(s.now)
    s.wait(0.6)
    s.work()
    assert s.mapper.batches == [27, 3]


def test_the_age_of_a_batch_survives_a_clock_that_is_set_back(survey):
    s = survey(pilot_samples=5, policy=TimedBatches(batch_size=20, batch_period=5.0))
    s.learn(20)
    s.drive(3)
    s.now = Moment(SECOND, s.now.steady_s)
    assert not s.session.due(s.now)
    s.wait(5.1)
    assert s.session.due(s.now)


@pytest.mark.parametrize("step_s", [-3600, 3600])
def test_setting_the_system_clock_does_not_change_the_age_of_a_batch(survey, step_s):
    s = survey(pilot_samples=5, policy=TimedBatches(batch_size=20, batch_period=5.0))

    def after(seconds, set_s=0):
        unadjusted_clock_s = s.now.unadjusted_s + seconds
        s.wait(seconds + set_s)
        s.now = Moment(s.now.ros_ns, unadjusted_clock_s, 0.0)

    s.learn(20)
    s.drive(3)
    after(4.5, step_s)
    assert not s.session.due(s.now)
    after(0.6)
    assert s.session.due(s.now)


def test_the_papers_batches_are_due_at_waypoints_with_new_samples(survey):
    s = survey(policy=WaypointBatches(), grid=None)
    s.mission("exploring")
    s.drive(50)
    assert not s.session.due(s.now)
    s.session.waypoint_reached()
    assert s.kinds() == ["BatchLearned"]  # and no map, where none is asked for
    s.session.waypoint_reached()  # nothing was measured on the way
    s.drive(10)
    assert not s.session.due(s.now)
    s.session.waypoint_reached()
    s.work()
    assert s.mapper.batches == [50, 10]


def test_a_flat_bottom_waits_for_more(survey):
    s = survey()
    s.mission("exploring")
    s.drive(25, distance=80.0)
    assert s.kinds() == ["Problem"]
    assert s.mapper.batches == [] and len(s.session.sample_queue) == 25
    assert not s.session.due(s.now)  # not again without new pings
    s.drive(20)
    assert s.kinds() == LEARNED
    assert s.mapper.batches == [45]


def test_a_batch_is_retried_after_a_numerical_failure(survey):
    s = survey(pilot_samples=5)
    s.mapper.failures = [CholeskyError("Kuu is not positive definite")]
    s.drive(20)
    (trouble,) = s.work()
    assert trouble.error and "retried with the next batch" in trouble.text
    assert s.session.status.failing.startswith("CholeskyError")
    assert len(s.session.sample_queue) == 20 and not s.session.due(s.now)
    s.drive(19)
    assert not s.session.due(s.now)
    s.drive(1)
    assert s.kinds() == LEARNED
    assert s.mapper.batches == [20, 40]
    assert s.mapper.data.number.tolist() == list(range(40))
    assert s.session.status.failing == "" and s.session.status.errors == {"CholeskyError": 1}


def test_a_retried_batch_ages_with_the_pings_that_came_after_it(survey):
    s = survey(pilot_samples=5, policy=TimedBatches(batch_size=20, batch_period=5.0))
    s.mapper.failures = [CholeskyError("no")]
    s.learn(20)
    s.wait(60.0)
    assert not s.session.due(s.now)  # not again without new pings
    s.drive(1)
    s.wait(4.5)
    assert not s.session.due(s.now)
    s.wait(0.6)
    assert s.kinds() == LEARNED and s.mapper.batches == [20, 21]


def test_after_three_other_failures_a_batch_is_dropped(survey):
    s = survey(pilot_samples=5, policy=TimedBatches(batch_size=5, batch_period=3600.0))
    s.learn(20)
    s.mapper.failures = [RuntimeError("out of memory")] * 3
    for _ in range(3):
        s.drive(6)
        assert s.kinds() == ["Problem"]
    assert s.mapper.batches == [20, 6, 12, 18]
    assert s.session.status.dropped == {"RuntimeError": 18} and len(s.session.sample_queue) == 0
    s.drive(6)
    assert s.kinds() == LEARNED
    assert s.session.status.samples + 18 == s.session.ledger.accepted == 44


def test_a_batch_refused_by_the_model_is_dropped_at_once(survey):
    s = survey(pilot_samples=5)
    s.mapper.failures = [InputError("update: expected finite pings")]
    s.learn(20)
    assert s.session.status.dropped == {"InputError": 20}


def test_the_last_batch_is_retried_and_the_mission_finishes_in_any_case(survey):
    s = survey(pilot_samples=5)
    s.learn(20)
    s.drive(7)
    s.mapper.failures = [CholeskyError("no"), CholeskyError("no")]
    s.mission("done")
    assert s.kinds() == ["Problem", "Problem", *LEARNED, "MissionFinished"]
    assert s.session.status.finished and s.session.status.samples == 27
    assert not s.session.due(s.now)


def test_at_the_end_pings_are_placed_or_refused(survey):
    s = survey()
    s.drive(30)
    s.wait(0.1)
    s.ping()  # no odometry for it yet
    s.mission("done")
    assert counts(s) == {"after_mission": 1}
    *_, finished = s.work()
    assert len(finished.samples) == 30 == finished.map.samples
    s.drive(4)
    assert counts(s) == {"after_mission": 5}
    s.mission("pilot")  # another mission
    s.drive(1)
    assert s.session.samples == 31


def test_a_mission_without_a_map_finishes_too(survey):
    s = survey()
    s.drive(3)
    s.mission("done")
    *_, finished = s.work()
    assert finished.map is None and len(finished.samples) == 0
    assert len(s.session.all_samples()) == 3


def test_a_new_mission_continues_the_map_and_its_numbers(survey):
    s = survey()
    s.mission("exploring")
    s.drive(30)
    s.mission("done")
    assert s.kinds()[-1] == "MissionFinished"
    s.mission("waiting")
    s.drive(4)
    s.mission("pilot")
    s.drive(20)
    assert s.kinds() == LEARNED and len(s.mapper.data) == 50
    assert counts(s) == {"waiting": 4}
    s.mission("exploring")
    s.mission("done")
    assert s.kinds()[-1] == "MissionFinished"


def test_a_stop_after_the_end_still_processes_the_last_batch(survey):
    s = survey()
    s.mission("exploring")
    s.drive(7)
    s.mission("done")
    s.mission("waiting")
    assert s.kinds() == [*LEARNED, "MissionFinished"]


@pytest.mark.parametrize("state", ["paused", "waiting"])
def test_a_pause_ends_if_no_planner_is_left(survey, state):
    s = survey()
    s.mission(state)
    s.front_end.mission_source(True)
    s.drive(2)
    assert not s.notes
    s.front_end.mission_source(False)
    assert s.notes == ["states_gone"]
    s.front_end.mission_source(False)
    s.drive(3)
    assert counts(s) == {state: 2} and s.session.samples == 3
    s.mission(state)  # somebody came back
    s.drive(1)
    assert counts(s) == {state: 3} and s.notes == ["states_gone"]


def test_the_end_of_a_mission_outlasts_its_planner(survey):
    s = survey()
    s.mission("done")
    s.front_end.mission_source(False)
    s.drive(2)
    assert counts(s) == {"after_mission": 2} and not s.notes


def test_a_reset_keeps_only_what_came_after_it(survey):
    s = survey(pilot_samples=20)
    s.mission("exploring")
    s.learn(20)
    s.drive(5)
    s.reset()
    s.drive(7)
    assert s.session.samples == 7
    # Also before the model's reset:
    assert s.session.all_samples().number.tolist() == list(range(7))
    assert s.kinds() == ["ModelReset"]
    assert not s.mapper.initialised and s.session.map is None
    assert [n for part in s.samples[-7:] for n in part.number] == list(range(7))
    # During a mission no pilot survey is announced again.
    s.drive(12)
    assert not s.session.due(s.now)
    s.drive(1)
    assert s.kinds() == LEARNED
    assert s.mapper.samples == 20


def test_after_a_reset_within_the_pilot_survey_its_end_starts_the_model(survey):
    s = survey()
    s.mission("pilot")
    s.drive(20)
    s.reset()
    s.drive(30)
    assert s.kinds() == ["ModelReset"]
    s.mission("exploring")
    assert s.kinds() == LEARNED
    assert s.mapper.samples == 30


def test_after_a_reset_a_vehicle_that_stands_and_waits_for_a_map_gets_one(survey):
    """As when a mapper restarts after the pilot survey of the mission that followed a reset."""
    s = survey(pilot_samples=500)
    s.mission("exploring")
    s.reset()
    assert s.learn(30)[1:] == []
    most = FrontEndSettings().pings_at_place
    stand(s, most)
    assert s.kinds() == []
    stand(s, 20)
    assert s.kinds() == LEARNED and 30 + most <= s.mapper.samples < 500


def test_a_reset_of_a_vehicle_that_stands_takes_pings_there_again(survey):
    s, most = survey(pilot_samples=500), FrontEndSettings().pings_at_place
    s.mission("exploring")
    stand(s, most + 20)
    s.reset()
    s.kinds()
    stand(s, most)
    assert s.kinds() == [] and s.mapper.samples == 0
    stand(s, 20)
    assert s.kinds() == LEARNED and s.mapper.samples == most


def stand(s, pings):
    for _ in range(pings):
        s.wait(0.1)
        s.odometry(VehicleState(s.now.ros_ns, (20.0, 20.0, DEPTH)))
        s.ping()
        s.tick()


def test_a_reset_during_an_update_drops_its_batch_even_if_it_fails(survey):
    for failures in ([], [CholeskyError("no")]):
        s = survey(pilot_samples=20)
        s.drive(20)
        s.mapper.failures = failures
        s.mapper.during = lambda s=s: s.reset()
        assert s.kinds()[-1] == "ModelReset"
        assert s.mapper.samples == 0 and len(s.session.sample_queue) == 0


def test_a_mission_done_before_its_pending_reset_finishes(survey):
    s = survey(pilot_samples=20)
    s.drive(20)
    s.mapper.during = lambda: s.reset()
    updates = s.session.work(s.now)
    next(updates)
    s.mapper.during = lambda: None
    s.drive(8)
    s.mission("done")
    assert list(updates) == []
    assert s.kinds() == ["ModelReset", *LEARNED, "MissionFinished"]
    assert s.session.status.finished and s.mapper.samples == 8


def test_time_set_back_leaves_waiting_pings_without_odometry(survey):
    s = survey()
    s.drive(2)
    s.wait(0.1)
    s.ping()
    s.front_end.clock_set_back()
    assert counts(s) == {"no_odometry": 1} and s.notes == ["clock"]


def test_odometry_set_back_is_reported(survey):
    s = survey()
    s.wait(60)
    s.drive(2)
    s.now = Moment(0, s.now.steady_s)
    s.drive(2)
    assert s.notes == ["odometry_set_back"]


def test_new_settings_place_the_pings_that_wait(survey):
    s = survey()
    s.drive(10)
    s.wait(0.05)
    s.ping()
    s.front_end.change(FrontEndSettings(range_time_offset=-0.5), 7)
    s.tick()
    assert s.session.pilot.samples == 7
    assert s.samples[-1].stamp_ns.tolist() == [s.now.ros_ns - SECOND // 2]


def test_an_unknown_state_changes_nothing(survey):
    s = survey()
    s.mission("exploring")
    s.mission("swimming")
    assert s.session.pilot.state == "exploring" and s.notes == ["unknown_state"]


@pytest.mark.parametrize("taker_fails", [False, True])
def test_a_map_is_the_latest_once_it_was_processed(survey, taker_fails):
    s = survey(pilot_samples=5)
    s.drive(20)
    outcomes = s.session.work(s.now)
    next(outcomes)
    drawn = next(outcomes)
    assert s.session.map is None
    if taker_fails:
        s.session.failed(RuntimeError("no middleware"), "not published")
        assert s.session.status.failing == "RuntimeError: no middleware"
    assert list(outcomes) == []
    assert s.session.map is drawn.map and drawn.map.stamp_ns == s.now.ros_ns


def test_a_time_budget_ends_the_training_and_can_change_at_run_time(survey):
    s = survey(pilot_samples=5)
    s.learn(20)
    assert s.mapper.enough == [None]  # an update ends by its own steps
    for budget, steps, over in ((1e-9, 0, True), (3600.0, 100, False)):
        s.session.sample_queue.policy = LiveBatches(batch_size=5, update_budget=budget)
        s.learn(5)  # with an exhausted budget before the first step: the data are in all the same
        assert s.mapper.enough[-1](steps) is over


def test_quantiles_are_measured_durations_and_old_ones_are_dropped():
    times = Durations()
    for seconds in range(1, 101):
        times.add(seconds)
    assert (times.last, times.quantile(0.5), times.quantile(0.99)) == (100, 50, 99)
    for _ in range(MAX_DURATIONS):
        times.add(1)
    assert times.quantile(1.0) == 1
