"""Depths are placed between the positions of their log."""

import numpy as np

from poam_ros.importers.faults import no_position, spread
from poam_ros.importers.track import Track, over_midnight


def track(seconds, **options):
    seconds = np.asarray(seconds, float)
    place = np.column_stack((58 + 1e-5 * seconds, 11 + 2e-5 * seconds))
    return Track("log", seconds, place, **options)


def test_a_depth_lies_between_the_positions_before_and_after():
    found = track([0, 1, 2, 3]).places(np.array([0.0, 0.25, 2.5]))
    np.testing.assert_allclose(found, [[58, 11], [58.0000025, 11.000005], [58.000025, 11.00005]])


def test_before_the_first_fix_after_the_last_and_in_a_gap_it_is_refused():
    refused = track([10, 20, 31]).refused(np.array([9.0, 10, 15, 20, 25, 31, 32]))
    assert {reason: np.flatnonzero(these).tolist() for reason, these in refused.items()} == {
        "before_first_fix": [0], "after_last_fix": [6], "position_gap": [4], "position_jump": [],
    }  # fmt: skip


def test_unknown_positions_and_zeros_are_none():
    seconds = np.arange(4.0)
    place = np.array([[58, 11], [0, 0], [np.nan, 11], [58.00003, 11]])
    assert len(Track("log", seconds, place)) == 2
    assert not len(Track("log", seconds, 0 * place))
    assert Track("log", seconds, 0 * place).refused(seconds)["before_first_fix"].all()
    assert np.isnan(Track("log", seconds, 0 * place).places(seconds)).all()


def test_zero_is_a_position_in_metres_unless_the_survey_lies_elsewhere():
    near, far = np.array([[0, 0], [5, 5], [10, 0.0]]), np.array([[0, 0], [652e3, 6453e3]])
    assert not no_position(near, degrees=False).any()
    assert no_position(far, degrees=False).tolist() == [True, False]


def test_across_the_antimeridian_places_stay_there():
    place = np.array([[-17.0, 179.9999], [-17.0, -179.9999]])
    found = Track("log", np.array([0.0, 4.0]), place).places(np.array([1.0, 3.0]))
    np.testing.assert_allclose(found[:, 1], [179.99995, -179.99995])


def test_positions_may_be_interpolated_by_the_numbers_of_rows():
    at, place = np.array([0.0, 10.0, 20.0, 200.0]), np.array([[0, 1], [10, 1], [20, 1], [200, 1.0]])
    found = Track("log", np.full(4, np.nan), place, degrees=False, at=at)
    assert found.places(np.array([5.0]))[0].tolist() == [5, 1]
    assert found.refused(np.array([5.0, 100.0]))["position_gap"].tolist() == [False, True]
    timed = Track("log", at / 10, place, degrees=False, at=at)
    assert timed.refused(np.array([5.0, 100.0]))["position_gap"].tolist() == [False, True]


def test_depths_placed_by_a_false_position_are_refused():
    seconds = np.arange(60.0)
    place = np.column_stack((seconds, np.sin(seconds)))
    place[30] = 5000, 5000
    found = Track("log", seconds, place, degrees=False).refused(np.array([10.5, 29.5, 30, 32.5]))
    assert found["position_jump"].tolist() == [False, True, True, False]


def test_a_receiver_that_repeats_a_position_and_then_leaps_knew_none():
    seconds = np.arange(60.0)
    place = np.column_stack((2 * seconds, np.sin(seconds)))
    place[20:40] = place[20]
    found = Track("log", seconds, place, degrees=False).refused(seconds + 0.5)
    assert np.flatnonzero(found["position_jump"]).tolist() == list(range(20, 40))
    place[40:] = place[20] + np.column_stack((seconds[40:] - 39, np.zeros(20)))  # it was at rest
    found = Track("log", seconds, place, degrees=False).refused(seconds + 0.5)
    assert not found["position_jump"].any()


def test_clocks_go_on_after_midnight():
    clock = np.array([86_398.0, np.nan, 86_399, 0, 1, 86_399, 0, 86_399.5, 1])
    found = over_midnight(clock)
    day = 86_400
    assert found[[0, 2, 3, 4]].tolist() == [day - 2, day - 1, day, day + 1]
    assert found[5:7].tolist() == [day - 1, day]  # a row out of order is of its own day


def test_rows_of_the_same_second_are_spread():
    assert spread(np.array([0, 0, 1, 1, 1, 1, 2.0])).tolist() == [0, 0.5, 1, 1.25, 1.5, 1.75, 2]
