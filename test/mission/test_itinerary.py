"""Legs between goals, with their routes, and the vehicle's track."""

from __future__ import annotations

import numpy as np
import pytest

from poam_ros.core.geometry import Extent
from poam_ros.mission.budget import VehicleTrack
from poam_ros.mission.itinerary import GoalQueue
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.routes import Routes

SQUARE = Extent(-30, 30, -30, 30)
BLOCK = np.array([(-5, -5), (5, -5), (5, 5), (-5, 5)], dtype=float)
ARRIVAL = {"goal_radius": 0.1, "capture_radius": 0.5}


def at(*xy: float) -> np.ndarray:
    return np.array(xy, dtype=float)


def make(*keep_outs: np.ndarray, **options) -> GoalQueue:
    return GoalQueue(Routes(NavigableArea(SQUARE, keep_outs=keep_outs, **options)), ARRIVAL)


def test_a_leg_across_a_keep_out_gets_turns_in_between():
    goals = make(BLOCK)
    goals.add(np.array([(20, 0), (20, 20)]))
    goals.next(at(-20, 0))
    assert len(goals.ahead) >= 3 and goals.ahead[-1].tolist() == [20, 20]
    driven, position = [], at(-20, 0)
    while goals.current is not None:
        assert goals.routes.areas.leg_allowed(position, goals.current[None])[0]
        position, before = goals.current, position
        goals.update(before, float(len(driven)))  # the time limit begins
        assert goals.update(position, len(driven) + 0.5) == "reached"
        driven.append(position.tolist())
        goals.next(position)
    assert driven[-2:] == [[20, 0], [20, 20]]
    assert goals.counts()["goals_reached"] == len(driven)


def test_a_vehicle_that_stops_a_little_within_the_margin_goes_on():
    """The leg out of the margin is over before it begins: once it was planned without end."""
    goals = make(BLOCK, margin=1.0)
    goals.add(np.array([(20, 0)]))
    position = at(-5.0, 5.997)
    goals.next(position)
    for count in range(20):
        if goals.current is None:
            break
        assert np.linalg.norm(goals.current - position) > 0.1
        inwards = goals.current / np.linalg.norm(goals.current)
        goals.update(position, float(count))
        position = goals.current - 0.003 * inwards
        assert goals.update(position, count + 0.5) == "reached"
        goals.next(position)
    assert goals.current is None and abs(position[0] - 20) < 0.01


def test_waypoints_in_a_keep_out_are_moved_out_of_it_and_counted():
    goals = make(BLOCK, margin=1.0)
    goals.add(np.array([(0, 4), (0, 20), (0, 99)]))
    assert goals.clipped == 2
    np.testing.assert_allclose(goals.queue[0], (0, 6), atol=1e-5)
    assert goals.queue[2].tolist() == [0, 30]


def test_unreachable_waypoints_are_dropped_and_counted():
    wall = np.array([(-1, -40), (1, -40), (1, 40), (-1, 40)], dtype=float)
    goals = make(wall)
    goals.add(np.array([(20, 0), (-20, 0), (20, 5)]))
    goals.next(at(-10, 0))
    assert goals.current.tolist() == [-20, 0] and goals.unreachable == 1
    goals.next(at(-20, 0))
    assert goals.current is None and goals.unreachable == 2


def test_a_vehicle_that_drifts_towards_a_keep_out_gets_a_new_leg():
    goals = make(BLOCK, margin=1.0)
    goals.add(np.array([(20, 6.2)]))
    goals.next(at(-20, 6.2))
    assert goals.current.tolist() == [20, 6.2] and not goals.queue
    goals.update(at(-18, 6.2), 0.0)
    goals.update(at(-12, 3.0), 1.0)  # from here it would lead across
    assert goals.ahead[-1].tolist() == [20, 6.2]
    assert goals.routes.areas.leg_allowed(at(-12, 3.0), goals.current[None])[0]


def test_the_leg_out_of_a_keep_out_is_not_replanned():
    goals = make(BLOCK, margin=1.0)
    goals.set_arrival({**ARRIVAL, "capture_radius": 1.5})
    goals.add(np.array([(20, 0), (6.1, 0)]))
    np.testing.assert_allclose(goals.queue[1], (6.5, 0), atol=1e-5)  # with room for the circle
    goals.next(at(0, 4))
    first = goals.current
    np.testing.assert_allclose(first, (0, 6.5), atol=1e-5)
    for k, y in enumerate((4.0, 4.5, 5.0, 5.5)):
        goals.update(at(0.1, y), float(k))
        assert goals.current is first
    assert goals.update(at(0, 6.5), 9.0) == "reached"


def test_replanning_starts_at_the_vehicle():
    goals = make(BLOCK)
    goals.add(np.array([(20, 20)]))
    goals.next(at(-20, 20))
    goal = goals.current
    goals.replan(at(-20, 20))
    assert goals.current is goal
    goals.replan(at(-20, -20))
    assert goals.current is not goal and goals.ahead[-1] is goal
    goals.replan(None)


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


def test_places_since_a_time_are_thinned_to_a_spacing():
    track = VehicleTrack(SQUARE)
    assert track.since(0.0).shape == (0, 2)
    for k in range(9):
        track.add(float(k), np.array([0.1 * k, 0.0]))
    np.testing.assert_allclose(track.since(-1.0), [(0.0, 0), (0.3, 0), (0.6, 0)])
    np.testing.assert_allclose(track.since(3.0), [(0.6, 0)])


def test_a_clock_set_back_removes_later_places():
    """They would look newer than every map that comes, for as long as the clock was set back."""
    track = VehicleTrack(SQUARE)
    for k in range(5):
        track.add(100.0 + k, np.array([k, 0.0]))
    track.add(1.0, np.array([7.0, 0.0]))
    track.add(2.0, np.array([8.0, 0.0]))
    assert track.since(1.5).tolist() == [[8, 0]]
