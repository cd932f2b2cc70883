"""Depths are placed between the positions of their log."""

import numpy as np
import pytest

from poam_ros.importers.faults import no_position, spread
from poam_ros.importers.track import Track, over_midnight

SECONDS = np.arange(60.0)
PLACE = np.column_stack((2 * SECONDS, np.sin(SECONDS)))


def degrees(seconds):
    seconds = np.asarray(seconds, float)
    return Track("log", seconds, np.column_stack((58 + 1e-5 * seconds, 11 + 2e-5 * seconds)))


def refused(track, at):
    """The indices of the depths that are refused, by reason."""
    found = track.refused(np.asarray(at, float))
    return {name: np.flatnonzero(these).tolist() for name, these in found.items() if these.any()}


def test_a_depth_lies_between_the_positions_before_and_after():
    found = degrees([0, 1, 2, 3]).places(np.array([0.0, 0.25, 2.5]))
    np.testing.assert_allclose(found, [[58, 11], [58.0000025, 11.000005], [58.000025, 11.00005]])
    assert refused(degrees([10, 20, 31]), [9, 10, 15, 20, 25, 31, 32]) == {
        "before_first_fix": [0], "after_last_fix": [6], "position_gap": [4],
    }  # fmt: skip
    # Across the antimeridian places stay there.
    place = np.array([[-17.0, 179.9999], [-17.0, -179.9999]])
    found = Track("log", np.array([0.0, 4.0]), place).places(np.array([1.0, 3.0]))
    np.testing.assert_allclose(found[:, 1], [179.99995, -179.99995])


def test_unknown_positions_and_zeros_are_none():
    place = np.array([[58, 11], [0, 0], [np.nan, 11], [58.00003, 11]])
    assert len(Track("log", SECONDS[:4], place)) == 2
    none = Track("log", SECONDS[:4], 0 * place)
    assert not len(none) and refused(none, [1, 2]) == {"before_first_fix": [0, 1]}
    assert np.isnan(none.places(SECONDS)).all()
    # In metres zero is a position, unless the survey lies elsewhere.
    near, far = np.array([[0, 0], [5, 5], [10, 0.0]]), np.array([[0, 0], [652e3, 6453e3]])
    assert not no_position(near, degrees=False).any()
    assert no_position(far, degrees=False).tolist() == [True, False]


@pytest.mark.parametrize("timed", [True, False])
def test_positions_may_be_interpolated_by_the_numbers_of_rows(timed):
    at, place = np.array([0.0, 10.0, 20.0, 200.0]), np.array([[0, 1], [10, 1], [20, 1], [200, 1.0]])
    seconds = at / 10 if timed else np.full(4, np.nan)
    found = Track("log", seconds, place, degrees=False, at=at)
    assert found.places(np.array([5.0]))[0].tolist() == [5, 1]
    assert refused(found, [5, 100]) == {"position_gap": [1]}


def test_depths_placed_by_a_false_position_are_refused():
    place = PLACE.copy()
    place[30] = 5000, 5000
    found = Track("log", SECONDS, place, degrees=False)
    assert refused(found, [10.5, 29.5, 30, 32.5]) == {"position_jump": [1, 2]}


def test_a_receiver_that_repeats_a_position_and_then_leaps_knew_none():
    place = PLACE.copy()
    place[20:40] = place[20]
    found = Track("log", SECONDS, place, degrees=False)
    assert refused(found, SECONDS[:-1] + 0.5) == {"position_jump": list(range(20, 40))}
    place[40:] = place[20] + np.column_stack((SECONDS[40:] - 39, np.zeros(20)))  # it was at rest
    assert not refused(Track("log", SECONDS, place, degrees=False), SECONDS[:-1] + 0.5)


def test_clocks_go_on_after_midnight_and_within_a_second():
    clock = np.array([86_398.0, np.nan, 86_399, 0, 1, 86_399, 0, 86_399.5, 1])
    found = over_midnight(clock) - 86_400
    assert found[[0, 2, 3, 4]].tolist() == [-2, -1, 0, 1]
    assert found[5:7].tolist() == [-1, 0]  # a row out of order is of its own day
    assert spread(np.array([0, 0, 1, 1, 1, 1, 2.0])).tolist() == [0, 0.5, 1, 1.25, 1.5, 1.75, 2]
