"""The vehicle's track."""

from __future__ import annotations

import numpy as np
import pytest

from poam_ros.core.geometry import Extent
from poam_ros.mission.itinerary import VehicleTrack

SQUARE = Extent(-30, 30, -30, 30)


def drive(track, places, begin=0.0):
    for k, place in enumerate(places):
        track.add(begin + k, np.array(place, dtype=float))


def test_length_is_the_distance_travelled_and_noise_of_positions_adds_little():
    track = VehicleTrack(SQUARE)
    drive(track, [(0.01 * k, 0.05 * (-1) ** k) for k in range(2001)])
    assert track.length == pytest.approx(20, rel=0.15)


def test_the_newest_places_are_bounded_and_visited_cells_are_kept():
    track, rng = VehicleTrack(SQUARE), np.random.default_rng(0)
    drive(track, rng.uniform(-30, 30, (30_000, 2)))
    assert len(track.since(-np.inf)) == VehicleTrack.NEWEST
    assert 9000 < len(track.visited()) <= 100**2
    drive(track, [(-29.9, 29.9)] * 3, begin=1e6)
    squares = {tuple(place) for place in np.floor((track.visited() + 30) / 0.6).tolist()}
    assert len(squares) == len(track.visited())


def test_places_far_outside_are_not_stored_for_long():
    track = VehicleTrack(SQUARE)
    drive(track, [(1e6 + k, 0) for k in range(50)])
    assert len(track.visited()) == 0
    assert len(track.since(-np.inf)) == 50


def test_places_since_a_time_are_thinned_to_a_spacing():
    track = VehicleTrack(SQUARE)
    assert track.since(0.0).shape == (0, 2)
    for k in range(9):
        track.add(float(k), np.array([0.1 * k, 0.0]))
    np.testing.assert_allclose(track.since(-1.0), [(0.0, 0), (0.3, 0), (0.6, 0)])
    np.testing.assert_allclose(track.since(3.0), [(0.6, 0)])


def test_a_track_forgets_its_oldest_places():
    track = VehicleTrack(SQUARE)
    for k in range(VehicleTrack.NEWEST + 10):
        track.add(float(k), np.array([k, 0.0]))
    assert len(track.since(-1.0)) == VehicleTrack.NEWEST
    assert track.since(-1.0)[0].tolist() == [10, 0]


def test_a_clock_set_back_removes_later_places():
    """They would look newer than every map that comes, for as long as the clock was set back."""
    track = VehicleTrack(SQUARE)
    for k in range(5):
        track.add(100.0 + k, np.array([k, 0.0]))
    track.add(1.0, np.array([7.0, 0.0]))
    track.add(2.0, np.array([8.0, 0.0]))
    assert track.since(1.5).tolist() == [[8, 0]]


def test_places_are_split_at_a_time():
    track = VehicleTrack(SQUARE)
    drive(track, [(k, 0) for k in range(10)])
    since, before = track.split_at(3.5)
    np.testing.assert_array_equal(since[:, 0], range(4, 10))
    np.testing.assert_array_equal(before[:, 0], range(4))
