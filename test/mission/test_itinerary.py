"""Legs between goals, with their routes, the vehicle's track, and when a waypoint is reached."""

import math

import numpy as np
import pytest

from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.mission.itinerary import GoalQueue, Leg, VehicleTrack
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.routes import ClearanceSettings, DeepRoutes, Routes
from poam_ros.simulation.vehicle import DubinsVehicle, Pose

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


def test_a_waypoint_in_shallow_water_is_moved_to_where_it_is_deep():
    deep = DeepRoutes(NavigableArea(SQUARE), ClearanceSettings(min_depth=2.0))
    grid = Grid.cells(SQUARE, 1.0)
    bottom = np.where(grid.x > 10, -0.5, -10.0) * np.ones(grid.shape)
    for x in range(-20, -10):
        deep.sounded(at(x, 0), 10.0)
    sure = np.full(grid.shape, 1e-4)
    deep.learn(ElevationMap(grid, bottom, sure, {"lengthscale": np.ones(grid.shape)}))
    goals = GoalQueue(deep, ARRIVAL)
    goals.add(at(15, 0)[None])
    goals.next(at(-10, 0))
    assert 5 < goals.waypoint[0] < 10 and abs(goals.waypoint[1]) < 1


def travel(track, places, begin=0.0):
    for k, place in enumerate(places):
        track.add(begin + k, np.array(place, dtype=float))


def test_length_is_the_distance_travelled_and_noise_of_positions_adds_little():
    track = VehicleTrack(SQUARE)
    travel(track, [(0.01 * k, 0.05 * (-1) ** k) for k in range(2001)])
    assert track.length == pytest.approx(20, rel=0.15)


def test_the_newest_places_are_bounded_and_visited_cells_are_kept():
    track, rng = VehicleTrack(SQUARE), np.random.default_rng(0)
    travel(track, rng.uniform(-30, 30, (30_000, 2)))
    assert len(track.since(-np.inf)) == VehicleTrack.NEWEST
    assert 9000 < len(track.visited()) <= 100**2
    travel(track, [(-29.9, 29.9)] * 3, begin=1e6)
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


# --- When a waypoint counts as reached ---


def follow(watch, positions, period=1.0, start=0.0):
    """Feeds positions [K, 2] to the watch; the first outcome and its index, or (None, None)."""
    for k, position in enumerate(positions):
        outcome = watch.update(position, start + k * period)
        if outcome is not None:
            return outcome, k
    return None, None


def straight_line(goal, heading, before, offset, count, step=2.0):
    """Positions on a line that passes the goal at a lateral offset, from ``before`` metres off."""
    along = np.array([math.cos(heading), math.sin(heading)])
    across = np.array([-along[1], along[0]])
    travel = step * np.arange(count)[:, None] - before
    return goal + travel * along + offset * across


@pytest.mark.parametrize(
    ("wanted", "least", "most"), [("reached", 0, 0.099), ("passed", 0.101, 1.33)]
)
def test_goals_are_reached_or_passed_between_sparse_positions(wanted, least, most):
    """2 m/s, one position a second: none of them need lie near the goal, nor in the capture
    radius."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        goal = rng.uniform(-30, 30, 2)
        before, offset = rng.uniform(5, 25), rng.uniform(least, most) * rng.choice([-1, 1])
        line = straight_line(goal, rng.uniform(-4, 4), before, offset, 40)
        outcome, index = follow(Leg(goal), line)
        assert outcome == wanted
        if wanted == "reached":  # told at the first position within the radius or beyond it
            assert index == math.ceil((before - math.sqrt(0.1**2 - offset**2)) / 2 - 1e-9)
        else:  # soon after the closest approach, not before
            assert before / 2 <= index <= before / 2 + 2


def test_the_goal_radius_decides():
    line = straight_line(np.zeros(2), 0.0, before=9, offset=0.4, count=12)
    assert follow(Leg([0, 0], goal_radius=0.5), line)[0] == "reached"
    assert follow(Leg([0, 0], goal_radius=0.3), line)[0] == "passed"
    far = Leg([0, 0], goal_radius=0.3, capture_radius=0.35)
    assert follow(far, line)[0] is None


def test_leaving_the_capture_radius_is_no_arrival():
    """A goal inside the turning circle: nearer at first, then out, and only then back to it."""
    watch = Leg([0.0, 0.0])
    out = [(0.8, 0), (0.5, 0), (0.3, 0), (0.5, 0), (0.9, 0), (1.6, 0)]
    assert follow(watch, out)[0] is None
    back = [(1.0, 0.2), (0.3, 0.2), (0, 0.2), (-0.4, 0.2)]
    assert follow(watch, back, start=6.0) == ("passed", 3)


def test_an_approach_counts_once_the_vehicle_has_come_out_or_turned():
    left_first = [(0.8, 0), (1.6, 0), (0.9, 0.2), (0.2, 0.2), (-0.4, 0.2), (-0.9, 0.2)]
    assert follow(Leg([0.0, 0.0]), left_first) == ("passed", 4)
    turned_within = [(0.9, 0), (0.3, 0), (0.6, 0), (0.2, 0), (0.5, 0), (0.8, 0)]
    assert follow(Leg([0.0, 0.0]), turned_within) == ("passed", 4)


def test_jitter_is_no_approach():
    """Noise below the goal radius, on the way to the goal within the capture radius."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        distances = np.arange(10.0, 0.2, -0.05)
        positions = np.column_stack((distances, np.zeros_like(distances)))
        positions[:, 0] += rng.uniform(-0.045, 0.045, len(distances))
        assert follow(Leg([0, 0]), positions, period=0.05)[0] is None


def under_way(goal, start=(0.0, 0.0), **arrival):
    """A queue on its way to a goal from a place."""
    goals = GoalQueue(Routes(NavigableArea(Extent(-60, 60, -60, 60))), arrival)
    goals.add(np.array([goal]))
    goals.next(at(*start))
    return goals


def test_orbiting_runs_out_of_time():
    angles = np.arange(2000) * 0.15
    orbit = np.column_stack((0.7 * np.cos(angles) + 0.04, 0.7 * np.sin(angles)))
    outcome, index = follow(under_way((0.0, 0.0), orbit[0]), orbit, period=0.1)
    assert outcome == "timeout"
    assert index == pytest.approx((30 + 2 * 0.74) / 0.1, abs=1)


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_timeout_after_twice_the_straight_way_and_half_a_minute(speed):
    goals = under_way((30.0, 40.0), max_speed=speed)
    limit = 2 * 50 / speed + 30
    assert goals.update(at(0, 0), 1000.0) is None
    assert goals.update(at(0, 0), 1000.0 + limit - 0.01) is None
    assert goals.update(at(0, 0), 1000.0 + limit + 0.01) == "timeout"


def test_rest_within_the_capture_radius_has_passed():
    for distance, expected in ((0.2, "passed"), (1.3, "passed"), (1.4, None)):
        line = [(x, 0.0) for x in np.arange(6.0, distance, -0.5)] + 10 * [(distance, 0.0)]
        outcome, index = follow(Leg([0, 0]), line, period=0.5)
        assert outcome == expected
        if expected:
            # Three seconds after it came to rest.
            assert index == len(line) - 10 + 6


def test_a_clock_that_jumps_back_restarts_detection():
    watch = Leg([10.0, 0.0])
    assert watch.update([0.0, 0.0], 500.0) is None
    assert watch.update([12.0, 1.0], 3.0) is None  # and what lies between is no way driven
    assert watch.update([10.0, 0.5], 4.0) is None
    assert watch.update([10.0, 0.05], 5.0) == "reached"


def drive(car, goal, watch, period=0.1):
    """Drives the car until the watch has judged; the outcome, and the distances on the way."""
    car.set_goal(goal)
    distances, outcome, time = [], None, 0.0
    while outcome is None:
        place = (car.pose.x, car.pose.y)
        distances.append(math.dist(place, goal))
        outcome = watch.update(place, time)
        car.advance(period)
        time += period
    return outcome, np.array(distances)


@pytest.mark.parametrize(
    ("speed", "half"),
    [
        (1.0, 3.0),
        *(pytest.param(*size, marks=pytest.mark.slow) for size in ((1.0, 6.0), (2.0, 8.0))),
    ],
)
def test_a_car_reaches_every_goal_and_passes_none(speed, half):
    """Hundreds of goals, half of them near the car: those inside its turning circle need a loop."""
    environment = Extent(-half, half, -half, half)
    goals = environment.grown(-1.0)
    capture = 2 * speed / 1.5 + 0.01
    car = DubinsVehicle(Pose(0.0, 0.0, 0.0), environment)
    rng = np.random.default_rng(7)
    loops = 0
    for k in range(300):
        near = np.array([car.pose.x, car.pose.y]) + rng.uniform(-capture, capture, 2)
        goal = goals.clip(near) if k % 2 else goals.sample(1, rng)[0]
        watch = Leg(goal, capture_radius=capture)
        outcome, distances = drive(car, goal, watch)
        assert outcome == "reached", f"goal {k}: {goal} from {distances[0]:.2f} m"
        # From within the capture radius nearer, then away again, before it came back.
        lowest = np.minimum.accumulate(distances)
        loops += bool(np.any((lowest <= capture) & (distances > lowest + 0.1)))
    assert loops > 30
