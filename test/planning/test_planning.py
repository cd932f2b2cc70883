"""Pilot paths, the choice of waypoints, and arrival."""

from __future__ import annotations

import logging
import math
from itertools import pairwise

import numpy as np
import pytest

from poam_ros.errors import InputError
from poam_ros.geometry import Extent
from poam_ros.planning.arrival import GoalWatch
from poam_ros.planning.pilots import (
    BEZIER_CONTROL_POINTS,
    PILOTS,
    bezier_pilot,
    lawnmower_pilot,
    path_length,
    random_pilot,
    start_pose,
)
from poam_ros.planning.planners import PLANNERS, discount_visited, max_entropy, random_waypoint
from poam_ros.world.vehicle import DubinsVehicle, Pose

SQUARE = Extent(-30, 30, -30, 30)
SHAPES = {
    "square": SQUARE,
    "wide": Extent(100, 500, -20, 20),
    "tall": Extent(-3, 4, 1000, 1900),
    "small": Extent(0.1, 0.4, -0.7, -0.2),
    "projected": Extent(437_100.5, 437_160.5, 3_745_900.25, 3_745_960.25),
}
CONTROL_POINTS = [
    (1, 0),
    (0, 0),
    (0, 0.25),
    (0, 0.5),
    (0, 0.75),
    (0, 1),
    (0.25, 1),
    (0.5, 1),
    (0.75, 1),
    (1, 1),
    (1, 0.75),
    (1, 0.5),
    (1, 0.25),
    (0.5, 0.25),
    (0.5, 0.5),
]


@pytest.fixture(params=SHAPES)
def workspace(request):
    return SHAPES[request.param]


def generator(seed=0):
    return np.random.default_rng(seed)


# --- Pilots ---


def de_casteljau(points, t):
    """The point of a Bezier curve at t, by repeated linear interpolation."""
    points = [tuple(map(float, point)) for point in points]
    while len(points) > 1:
        points = [
            ((1 - t) * ax + t * bx, (1 - t) * ay + t * by)
            for (ax, ay), (bx, by) in pairwise(points)
        ]
    return points[0]


def test_bezier_pilot_is_the_published_curve(workspace):
    np.testing.assert_array_equal(BEZIER_CONTROL_POINTS, CONTROL_POINTS)
    corners = [
        (workspace.xmin + u * workspace.size[0], workspace.ymin + v * workspace.size[1])
        for u, v in CONTROL_POINTS
    ]
    expected = [de_casteljau(corners, k / 49) for k in range(50)]
    path = bezier_pilot(workspace, generator())
    assert path.shape == (50, 2)
    np.testing.assert_allclose(path, expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(path[0], start_pose(workspace)[:2])
    np.testing.assert_allclose(path[-1], workspace.centre)


@pytest.mark.parametrize("name", PILOTS)
def test_pilots_stay_in_the_workspace(name, workspace):
    for seed in range(5):
        path = PILOTS[name](workspace, generator(seed))
        assert path.ndim == 2
        assert path.shape[1] == 2
        assert len(path) >= 2
        # Borders are met; rounding may put a point a last digit beyond.
        assert workspace.contains(path, slack=1e-9).all()


@pytest.mark.parametrize("name", PILOTS)
def test_pilots_follow_their_generator(name):
    path = PILOTS[name](SQUARE, generator(5))
    np.testing.assert_array_equal(path, PILOTS[name](SQUARE, generator(5)))
    assert np.array_equal(path, PILOTS[name](SQUARE, generator(6))) == (name != "random")


@pytest.mark.parametrize("name", ["bezier", "lawnmower"])
def test_fixed_pilots_fit_the_workspace(name, workspace):
    """The same fractions of the width and height in a workspace of any shape."""
    unit = PILOTS[name](Extent(0, 1, 0, 1), generator())
    path = PILOTS[name](workspace, generator())
    np.testing.assert_allclose((path - workspace.lower) / workspace.size, unit, atol=1e-7)


@pytest.mark.parametrize("lanes", [2, 3, 4, 7])
def test_lawnmower_drives_lanes_from_border_to_border(lanes, workspace):
    path = lawnmower_pilot(workspace, generator(), lanes=lanes)
    assert path.shape == (2 * lanes, 2)
    np.testing.assert_allclose(path[0], start_pose(workspace)[:2])
    ends = path.reshape(lanes, 2, 2)
    np.testing.assert_allclose(ends[:, 0, 1], ends[:, 1, 1])  # lanes run east and west
    np.testing.assert_allclose(np.abs(ends[:, 1, 0] - ends[:, 0, 0]), workspace.size[0])
    # Each lane begins on the side where the one before it ended.
    np.testing.assert_allclose(ends[1:, 0, 0], ends[:-1, 1, 0])
    heights = ends[:, 0, 1]
    np.testing.assert_allclose(heights, np.linspace(workspace.ymin, workspace.ymax, lanes))
    length = lanes * workspace.size[0] + workspace.size[1]
    assert path_length(path) == pytest.approx(length)


@pytest.mark.parametrize("lanes", [1, 0, -2])
def test_lawnmower_needs_two_lanes(lanes):
    with pytest.raises(InputError, match="at least 2"):
        lawnmower_pilot(SQUARE, generator(), lanes=lanes)


def test_random_pilot_is_about_as_long_as_the_bezier_pilot(workspace):
    wanted = path_length(bezier_pilot(workspace, generator()))
    for seed in range(10):
        driven = np.vstack((start_pose(workspace)[:2], random_pilot(workspace, generator(seed))))
        assert path_length(driven[:-1]) < wanted <= path_length(driven)


def test_path_length():
    assert path_length(np.array([(0.0, 0.0), (3.0, 4.0), (3.0, 4.0), (3.0, -6.0)])) == 15.0
    assert path_length(np.array([(2.0, 1.0)])) == 0.0


def test_missions_start_lower_right_heading_west():
    assert start_pose(Extent(1, 2, 3, 4)) == (2, 3, math.pi)


# --- Planners ---


class Recorded:
    """A prediction that keeps the points it was asked about."""

    def __init__(self, predict):
        self.predict = predict

    def __call__(self, points):
        self.points = points.copy()
        self.variance = self.predict(points)
        return self.variance


def bumpy(points):
    return 0.3 + 50 * np.sin(points[:, 0] / 7) ** 2 * np.cos(points[:, 1] / 5) ** 2


def best_of(points, variance, position, weight):
    """Index of the highest score, computed one candidate at a time."""
    # The entropy of a Gaussian is an affine function of log variance: scaled alike.
    entropies = [math.log(v) for v in variance]
    distances = [math.dist(point, position) for point in points]

    def scaled(values):
        low, high = min(values), max(values)
        return [(value - low) / (high - low) for value in values]

    pairs = zip(scaled(entropies), scaled(distances), strict=True)
    scores = [entropy - weight * distance for entropy, distance in pairs]
    return int(np.argmax(scores))


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 1.0, 5.0])
def test_max_entropy_takes_the_best_score(weight):
    for seed in range(10):
        predict = Recorded(bumpy)
        position = SQUARE.sample(1, generator(100 + seed))[0]
        waypoint = max_entropy(
            predict, SQUARE, position, generator(seed), candidates=300, distance_weight=weight
        )
        best = best_of(predict.points, predict.variance, position, weight)
        np.testing.assert_array_equal(waypoint, predict.points[best])


def test_max_entropy_defaults_are_the_published_ones():
    position = np.array([-30.0, -30.0])

    # Entropy that grows ever more slowly with the distance: the best distance follows the weight.
    def concave(points):
        return np.exp(10 * (np.linalg.norm(points - position, axis=1) / 85) ** 0.25)

    predict = Recorded(concave)
    waypoint = max_entropy(predict, SQUARE, position, generator())
    assert predict.points.shape == (2000, 2)
    assert SQUARE.contains(predict.points).all()
    best = best_of(predict.points, predict.variance, position, 0.5)
    np.testing.assert_array_equal(waypoint, predict.points[best])


def test_without_distance_weight_the_highest_variance_wins():
    predict = Recorded(bumpy)
    waypoint = max_entropy(predict, SQUARE, np.zeros(2), generator(), distance_weight=0)
    np.testing.assert_array_equal(waypoint, predict.points[np.argmax(predict.variance)])


def test_a_heavy_distance_weight_picks_the_nearest():
    predict = Recorded(bumpy)
    position = np.array([10.0, 10.0])
    waypoint = max_entropy(predict, SQUARE, position, generator(), distance_weight=1e6)
    distances = np.linalg.norm(predict.points - position, axis=1)
    np.testing.assert_array_equal(waypoint, predict.points[np.argmin(distances)])


def test_the_unit_of_the_variance_does_not_matter():
    chosen = [
        max_entropy(lambda p, s=scale: s * bumpy(p), SQUARE, np.ones(2), generator(), 200)
        for scale in (1.0, 1e-6, 1e6)
    ]
    np.testing.assert_array_equal(chosen[0], chosen[1])
    np.testing.assert_array_equal(chosen[0], chosen[2])


def test_where_all_variances_are_alike_the_nearest_wins():
    predict = Recorded(lambda points: np.full(len(points), 2.5))
    position = np.array([-12.0, 5.0])
    waypoint = max_entropy(predict, SQUARE, position, generator(), candidates=200)
    distances = np.linalg.norm(predict.points - position, axis=1)
    np.testing.assert_array_equal(waypoint, predict.points[np.argmin(distances)])
    waypoint = max_entropy(predict, SQUARE, position, generator(), distance_weight=0)
    assert SQUARE.contains(waypoint)


def test_the_only_candidate_is_chosen():
    predict = Recorded(bumpy)
    waypoint = max_entropy(predict, SQUARE, np.zeros(2), generator(), candidates=1)
    np.testing.assert_array_equal(waypoint, predict.points[0])


def test_candidates_without_a_usable_variance_are_left_out(caplog):

    def mostly_bad(points):
        variance = bumpy(points)
        for k, value in enumerate([math.nan, math.inf, -math.inf, 0.0, -3.0]):
            variance[k::6] = value
        return variance

    predict = Recorded(mostly_bad)
    position = np.array([5.0, 5.0])
    with caplog.at_level(logging.WARNING, logger="poam_ros.planning.planners"):
        waypoint = max_entropy(predict, SQUARE, position, generator(), candidates=600)
    # The scales of entropy and distance come from the usable ones alone.
    points, variance = predict.points[5::6], predict.variance[5::6]
    np.testing.assert_array_equal(waypoint, points[best_of(points, variance, position, 0.5)])
    assert "500 of 600 candidates" in caplog.text


def test_usable_variances_are_no_reason_to_warn(caplog):
    max_entropy(bumpy, SQUARE, np.zeros(2), generator())
    assert not caplog.records


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_max_entropy_says_when_no_variance_is_usable(value):
    with pytest.raises(InputError, match="none of 50 candidates"):
        max_entropy(lambda p: np.full(len(p), value), SQUARE, np.zeros(2), generator(), 50)


@pytest.mark.parametrize(
    "predict",
    [lambda p: np.ones((len(p), 1)), lambda p: np.ones(len(p) - 1), lambda p: 1.0],
)
def test_max_entropy_refuses_a_prediction_of_another_shape(predict):
    with pytest.raises(InputError, match=r"expected shape \(2000,\)"):
        max_entropy(predict, SQUARE, np.zeros(2), generator())


@pytest.mark.parametrize("position", [(math.nan, 0), (0, math.inf), (0, 0, 0), ((0, 0),), 1.0])
def test_max_entropy_refuses_a_position_that_is_none(position):
    with pytest.raises(InputError, match="position"):
        max_entropy(bumpy, SQUARE, np.array(position), generator())


@pytest.mark.parametrize("candidates", [0, -5])
def test_max_entropy_needs_candidates(candidates):
    with pytest.raises(InputError, match="candidates"):
        max_entropy(bumpy, SQUARE, np.zeros(2), generator(), candidates=candidates)


def test_random_planner_is_uniform_and_asks_no_model(workspace):
    def never(points):
        raise AssertionError("the random planner looks at no map")

    rng = generator()
    found = np.array([random_waypoint(never, workspace, np.zeros(2), rng) for _ in range(800)])
    assert workspace.contains(found).all()
    fractions = (found - workspace.lower) / workspace.size
    counts, _, _ = np.histogram2d(*fractions.T, bins=2, range=[(0, 1), (0, 1)])
    assert np.all(np.abs(counts - 200) < 5 * math.sqrt(200))


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_stay_inside_and_follow_their_generator(name, workspace):
    def choose(seed):
        position = np.array(start_pose(workspace)[:2])
        return PLANNERS[name](bumpy, workspace, position, generator(seed))

    for seed in range(5):
        assert choose(seed).shape == (2,)
        assert workspace.contains(choose(seed))
        np.testing.assert_array_equal(choose(seed), choose(seed))
    assert not np.array_equal(choose(0), choose(1))


# --- Arrival ---


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


def test_reached_between_two_sparse_positions():
    """2 m/s, one position a second: none of them need lie near the goal."""
    rng = generator(1)
    for _ in range(200):
        goal = rng.uniform(-30, 30, 2)
        before, offset = rng.uniform(5, 25), rng.uniform(-0.099, 0.099)
        line = straight_line(goal, rng.uniform(-4, 4), before, offset, 40)
        outcome, index = follow(GoalWatch(goal, max_speed=2.0), line)
        assert outcome == "reached"
        # Told at the first position within the radius or beyond it.
        first = math.ceil((before - math.sqrt(0.1**2 - offset**2)) / 2 - 1e-9)
        assert index == first


def test_passed_by_the_closest_approach():
    """A miss by less than the capture radius, also where no position lies within it."""
    rng = generator(2)
    for _ in range(200):
        goal = rng.uniform(-30, 30, 2)
        before, offset = rng.uniform(5, 25), rng.uniform(0.101, 1.33) * rng.choice([-1, 1])
        line = straight_line(goal, rng.uniform(-4, 4), before, offset, 40)
        outcome, index = follow(GoalWatch(goal, max_speed=2.0), line)
        assert outcome == "passed"
        # Soon after the closest approach, not before.
        assert before / 2 <= index <= before / 2 + 2


def test_driving_by_at_a_distance_is_no_arrival():
    goal = np.array([3.0, 4.0])
    watch = GoalWatch(goal, max_speed=2.0)
    line = straight_line(goal, 0.3, before=20, offset=1.5, count=200)
    outcome, index = follow(watch, line)
    assert outcome == "timeout"
    assert index == math.floor(2 * math.hypot(20, 1.5) / 2 + 30) + 1


def test_reached_at_once_where_the_vehicle_is_already():
    assert GoalWatch([1.0, 1.0]).update([1.0, 1.09], 7.0) == "reached"
    assert GoalWatch([1.0, 1.0]).update([1.0, 1.11], 7.0) is None


def test_the_goal_radius_decides():
    line = straight_line(np.zeros(2), 0.0, before=9, offset=0.4, count=12)
    assert follow(GoalWatch([0, 0], goal_radius=0.5, max_speed=2.0), line)[0] == "reached"
    assert follow(GoalWatch([0, 0], goal_radius=0.3, max_speed=2.0), line)[0] == "passed"
    far = GoalWatch([0, 0], goal_radius=0.3, capture_radius=0.35, max_speed=2.0)
    assert follow(far, line)[0] is None


def test_the_way_out_of_the_capture_radius_is_no_arrival():
    """A goal inside the turning circle: nearer at first, then out, and only then back to it."""
    watch = GoalWatch([0.0, 0.0])
    out = [(0.8, 0), (0.5, 0), (0.3, 0), (0.5, 0), (0.9, 0), (1.6, 0)]
    assert follow(watch, out)[0] is None
    back = [(1.0, 0.2), (0.3, 0.2), (0, 0.2), (-0.4, 0.2)]
    assert follow(watch, back, start=6.0) == ("passed", 3)


def test_an_approach_counts_once_the_vehicle_has_come_out_or_turned():
    left_first = [(0.8, 0), (1.6, 0), (0.9, 0.2), (0.2, 0.2), (-0.4, 0.2), (-0.9, 0.2)]
    assert follow(GoalWatch([0.0, 0.0]), left_first) == ("passed", 4)
    turned_within = [(0.9, 0), (0.3, 0), (0.6, 0), (0.2, 0), (0.5, 0), (0.8, 0)]
    assert follow(GoalWatch([0.0, 0.0]), turned_within) == ("passed", 4)


def test_jitter_is_no_approach():
    """Noise below the goal radius, on the way to the goal within the capture radius."""
    rng = generator(3)
    for _ in range(20):
        distances = np.arange(10.0, 0.2, -0.05)
        positions = np.column_stack((distances, np.zeros_like(distances)))
        positions[:, 0] += rng.uniform(-0.045, 0.045, len(distances))
        assert follow(GoalWatch([0, 0]), positions, period=0.05)[0] is None


def test_orbiting_runs_out_of_time():
    angles = np.arange(2000) * 0.15
    orbit = np.column_stack((0.7 * np.cos(angles) + 0.04, 0.7 * np.sin(angles)))
    watch = GoalWatch([0.0, 0.0])
    outcome, index = follow(watch, orbit, period=0.1)
    assert outcome == "timeout"
    assert index == pytest.approx((30 + 2 * 0.74) / 0.1, abs=1)


@pytest.mark.parametrize("speed", [0.5, 1.0, 4.0])
def test_timeout_after_twice_the_straight_way_and_half_a_minute(speed):
    watch = GoalWatch([30.0, 40.0], max_speed=speed)
    limit = 2 * 50 / speed + 30
    assert watch.update([0.0, 0.0], 1000.0) is None
    assert watch.update([0.0, 0.0], 1000.0 + limit - 0.01) is None
    assert watch.update([0.0, 0.0], 1000.0 + limit + 0.01) == "timeout"


def test_arriving_at_the_last_moment_is_an_arrival():
    watch = GoalWatch([10.0, 0.0])
    assert watch.update([0.0, 0.0], 0.0) is None
    assert watch.update([10.0, 0.0], 1e6) == "reached"


def test_rest_within_the_capture_radius_has_passed():
    for distance, expected in ((0.2, "passed"), (1.3, "passed"), (1.4, None)):
        line = [(x, 0.0) for x in np.arange(6.0, distance, -0.5)] + 10 * [(distance, 0.0)]
        outcome, index = follow(GoalWatch([0, 0]), line, period=0.5)
        assert outcome == expected
        if expected:
            # Three seconds after it came to rest.
            assert index == len(line) - 10 + 6


def test_a_slow_vehicle_is_not_at_rest():
    positions = [(x, 0.0) for x in np.arange(3.0, -0.1, -0.05)]
    outcome, index = follow(GoalWatch([0, 0], max_speed=0.05), positions, period=1.0)
    assert outcome == "reached"
    assert positions[index][0] == pytest.approx(0.1, abs=0.051)


def test_positions_that_are_none_are_skipped_while_time_runs():
    watch = GoalWatch([10.0, 0.0])
    nothing = [math.nan, 0.0]
    assert watch.update(nothing, 0.0) is None  # the clock starts with the first position
    assert watch.update([0.0, 0.0], 100.0) is None
    assert watch.update([math.inf, 0.0], 149.9) is None
    assert watch.update(nothing, 150.1) == "timeout"

    # A gap does not hide an arrival: the way between the positions around it counts.
    watch = GoalWatch([10.0, 0.0])
    assert follow(watch, [(8.0, 0.0), nothing, nothing, (12.0, 0.0)]) == ("reached", 3)


def test_a_clock_that_jumps_back_starts_anew():
    watch = GoalWatch([10.0, 0.0])
    assert watch.update([0.0, 0.0], 500.0) is None
    assert watch.update([12.0, 1.0], 3.0) is None  # and what lies between is no way driven
    assert watch.update([12.0, 1.0], 3.0 + 30 + 2 * math.sqrt(5) - 0.1) is None
    assert watch.update([12.0, 1.0], 3.0 + 30 + 2 * math.sqrt(5) + 0.1) == "timeout"


def test_the_callers_goal_may_change():
    goal = np.array([5.0, 5.0])
    watch = GoalWatch(goal)
    goal[:] = 0.0
    assert watch.update([5.0, 5.0], 0.0) == "reached"


@pytest.mark.parametrize("goal", [(math.nan, 0), (0, -math.inf), (1,), (1, 2, 3), 4.0])
def test_goal_watch_refuses_a_goal_that_is_none(goal):
    with pytest.raises(InputError, match="goal"):
        GoalWatch(goal)


@pytest.mark.parametrize("name", ["goal_radius", "capture_radius", "max_speed"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
def test_goal_watch_refuses_limits_that_are_not_positive(name, value):
    with pytest.raises(InputError, match=name):
        GoalWatch([0.0, 0.0], **{name: value})


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


@pytest.mark.parametrize(("speed", "half"), [(1.0, 6.0), (1.0, 3.0), (2.0, 8.0)])
def test_a_car_reaches_every_goal_and_passes_none(speed, half):
    """Hundreds of goals, half of them near the car: those inside its turning circle need a loop."""
    environment = Extent(-half, half, -half, half)
    goals = environment.grown(-1.0)
    capture = 2 * speed / 1.5 + 0.01
    car = DubinsVehicle(Pose(0.0, 0.0, 0.0), environment, max_speed=speed)
    rng = generator(7)
    loops = 0
    for k in range(300):
        near = np.array([car.pose.x, car.pose.y]) + rng.uniform(-capture, capture, 2)
        goal = goals.clip(near) if k % 2 else goals.sample(1, rng)[0]
        watch = GoalWatch(goal, capture_radius=capture, max_speed=speed)
        outcome, distances = drive(car, goal, watch)
        assert outcome == "reached", f"goal {k}: {goal} from {distances[0]:.2f} m"
        # From within the capture radius nearer, then away again, before it came back.
        lowest = np.minimum.accumulate(distances)
        loops += bool(np.any((lowest <= capture) & (distances > lowest + 0.1)))
    assert loops > 30


def test_a_car_circles_back_to_every_place_inside_its_turning_circle():
    radius = 1.0 / 1.5
    for share in (0.2, 0.5, 0.9):
        for angle in np.linspace(0, 2 * math.pi, 12, endpoint=False):
            car = DubinsVehicle(Pose(0.0, 0.0, 0.0), Extent(-20, 20, -20, 20))
            # The left turning circle of a car at the origin heading east.
            goal = radius * np.array([share * math.cos(angle), 1 + share * math.sin(angle)])
            outcome, distances = drive(car, goal, GoalWatch(goal))
            assert outcome == "reached"
            assert len(distances) * 0.1 < 15


# --- Places visited since the map ---


def test_discount_is_that_of_one_observation_of_a_gaussian_kernel():
    points = np.array([[0.0, 0.0], [2.0, 0.0], [50.0, 0.0]])
    variance, lengthscale = np.array([9.0, 5.0, 9.0]), np.array([4.0, 4.0, 4.0])
    after = discount_visited(variance, points, lengthscale, np.array([[0.0, 0.0], [-9.0, 0.0]]))
    floor = 5.0  # the smallest of the map
    left = 1 - np.exp(-np.array([0.0, 4.0, 2500.0]) / 16)
    np.testing.assert_allclose(after, floor + (variance - floor) * left)


def test_without_places_nothing_is_discounted():
    variance = np.array([3.0, np.nan, -1.0])
    points, lengthscale = np.zeros((3, 2)), np.ones(3)
    assert discount_visited(variance, points, lengthscale, np.empty((0, 2))) is variance


def test_unusable_variances_do_not_become_the_floor():
    variance = np.array([4.0, np.nan, -np.inf, -2.0, 1.0])
    points = np.zeros((5, 2))
    after = discount_visited(variance, points, np.ones(5), np.zeros((1, 2)))
    assert after[0] == after[4] == 1.0
    broken = np.full(3, np.nan)
    assert np.isnan(discount_visited(broken, points[:3], np.ones(3), np.zeros((1, 2)))).all()


def test_a_stale_map_does_not_keep_the_vehicle_where_it_has_just_been():
    workspace, rng = Extent(0, 20, 0, 20), np.random.default_rng(0)

    def stale(xy):
        return np.full(len(xy), 4.0) + 1e-3 * xy[:, 0]

    track = np.column_stack((np.linspace(0, 10, 40), np.full(40, 10.0)))

    def fresh(xy):
        return discount_visited(stale(xy), xy, np.full(len(xy), 3.0), track)

    here = track[-1]
    stays = max_entropy(stale, workspace, here, rng, distance_weight=5.0)
    leaves = max_entropy(fresh, workspace, here, rng)
    assert np.linalg.norm(stays - here) < 1 < 3 < np.linalg.norm(leaves - track, axis=1).min()
