"""Legs between goals: where they lead along, and when they are planned anew."""

from __future__ import annotations

import numpy as np

from poam_ros.core.geometry import Extent
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
    legs = make(BLOCK)
    legs.add(np.array([(20, 0), (20, 20)]))
    legs.head_on(at(-20, 0))
    assert len(legs.queue) >= 3 and legs.queue[-1].tolist() == [20, 20]
    driven, position = [], at(-20, 0)
    while legs.target is not None:
        assert legs.routes.areas.leg_allowed(position, legs.target[None])[0]
        position, before = legs.target, position
        legs.follow(before, float(len(driven)))  # the time limit begins
        assert legs.follow(position, len(driven) + 0.5) == "reached"
        driven.append(position.tolist())
        legs.head_on(position)
    assert driven[-2:] == [[20, 0], [20, 20]]
    assert legs.counts()["goals_reached"] == len(driven)


def test_waypoints_in_a_keep_out_are_moved_out_of_it_and_counted():
    legs = make(BLOCK, margin=1.0)
    legs.add(np.array([(0, 4), (0, 20), (0, 99)]))
    assert legs.clipped == 2
    np.testing.assert_allclose(legs.queue[0], (0, 6), atol=1e-5)
    assert legs.queue[2].tolist() == [0, 30]


def test_waypoints_that_no_way_leads_to_are_given_up_and_counted():
    wall = np.array([(-1, -40), (1, -40), (1, 40), (-1, 40)], dtype=float)
    legs = make(wall)
    legs.add(np.array([(20, 0), (-20, 0), (20, 5)]))
    legs.head_on(at(-10, 0))
    assert legs.target.tolist() == [-20, 0] and legs.unreachable == 1
    legs.head_on(at(-20, 0))
    assert legs.target is None and legs.unreachable == 2


def test_a_vehicle_that_drifts_towards_a_keep_out_gets_a_new_leg():
    legs = make(BLOCK, margin=1.0)
    legs.add(np.array([(-20, 0), (-20, 20), (20, 6.2)]))
    legs.target = None
    legs.queue.clear()
    legs.add(np.array([(20, 6.2)]))
    legs.head_on(at(-20, 6.2))
    assert legs.target.tolist() == [20, 6.2] and not legs.queue
    legs.follow(at(-18, 6.2), 0.0)
    legs.follow(at(-12, 3.0), 1.0)  # from here it would lead across
    assert legs.queue[-1].tolist() == [20, 6.2]
    assert legs.routes.areas.leg_allowed(at(-12, 3.0), legs.target[None])[0]


def test_out_of_a_keep_out_one_leg_leads_and_is_not_changed_on_the_way():
    legs = make(BLOCK, margin=1.0)
    legs.add(np.array([(20, 0)]))
    legs.head_on(at(0, 4))
    first = legs.target
    np.testing.assert_allclose(first, (0, 6), atol=1e-5)
    for k, y in enumerate((4.0, 4.5, 5.0, 5.5)):
        legs.follow(at(0.1, y), float(k))
        assert legs.target is first
    assert legs.follow(at(0, 6), 9.0) == "reached"


def test_setting_out_again_plans_from_where_the_vehicle_is():
    legs = make(BLOCK)
    legs.add(np.array([(20, 20)]))
    legs.head_on(at(-20, 20))
    goal = legs.target
    legs.set_out(at(-20, 20))
    assert legs.target is goal
    legs.set_out(at(-20, -20))
    assert legs.target is not goal and legs.queue[-1] is goal
    legs.set_out(None)


def test_a_rectangle_alone_changes_nothing_of_a_path():
    legs, path = make(), np.array([(20.0, 0.0), (-20.0, 3.0)])
    legs.add(path)
    legs.head_on(at(-99, 0))
    assert legs.target.tolist() == [20, 0] and [q.tolist() for q in legs.queue] == [[-20, 3]]
    assert (legs.clipped, legs.unreachable) == (0, 0)
