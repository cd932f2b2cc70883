"""The vehicle is a Dubins car that stays inside, reaches what it is sent to, and never orbits."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.simulation.vehicle import (
    ARRIVAL_RADIUS,
    TURN_SPEEDS,
    DubinsVehicle,
    Leg,
    Path,
    Pose,
    dubins_paths,
    wrap,
)  # fmt: skip

ENVIRONMENT = Extent(-31, 31, -31, 31)
WORKSPACE = Extent(-30, 30, -30, 30)
PERIOD = 0.1
SPEED, TURN_RATE = 1.0, 1.5
RADIUS = SPEED / TURN_RATE


def vehicle(x: float = 0.0, y: float = 0.0, yaw: float = 0.0, **options) -> DubinsVehicle:
    limits = {"max_speed": SPEED, "max_turn_rate": TURN_RATE}
    return DubinsVehicle(Pose(x, y, yaw), ENVIRONMENT, **limits, **options)


def distance(pose: Pose, goal) -> float:
    return math.dist((pose.x, pose.y), goal)


def time_bound(pose: Pose, goal) -> float:
    """Seconds within which a goal must be reached: two full circles and the way there."""
    return (distance(pose, goal) + 4 * math.pi * RADIUS) / SPEED + 4.0


def some_goal(rng: np.random.Generator) -> np.ndarray:
    """A workspace point: a corner, an edge, or anywhere."""
    kind = rng.integers(3)
    free = rng.uniform(-30, 30, 2)
    if kind == 0:
        return rng.choice([-30.0, 30.0], 2)
    if kind == 1:
        free[rng.integers(2)] = rng.choice([-30.0, 30.0])
    return free


def check_period(motion, before: Pose, after: DubinsVehicle) -> None:
    """What holds in every control period, wherever the goal."""
    poses = [motion(t) for t in np.linspace(0, PERIOD, 6)]
    assert poses[0] == before
    assert poses[-1] == after.pose
    for pose in poses:
        assert ENVIRONMENT.contains(np.array([pose.x, pose.y]))
        assert -math.pi < pose.yaw <= math.pi
    for a, b in pairwise(poses):
        assert distance(a, (b.x, b.y)) <= SPEED * PERIOD / 5 + 1e-9
        assert abs(wrap(b.yaw - a.yaw)) <= TURN_RATE * PERIOD / 5 + 1e-9
    assert 0 <= after.speed <= SPEED
    assert abs(after.turn_rate) <= TURN_RATE
    if after.turn_rate:
        # Turns are as tight as their speed allows, never tighter.
        assert min(abs(after.speed - share * SPEED) for share in TURN_SPEEDS) < 1e-12
    else:
        assert after.speed in (0.0, SPEED)


def test_random_goals_switched_at_random_times():
    """8 000 periods: inside, within every limit, and each goal left alone is reached in time."""
    rng = np.random.default_rng(4)
    car, since, bound, patience, reached, slowed = vehicle(30, -30, math.pi), 0.0, 0.0, 0.0, 0, 0
    for _ in range(8_000):
        if car.goal is None or car.at_goal or since > patience:
            if rng.random() < 0.05:
                car.set_goal(None)
                car.advance(PERIOD)
            # Nearby goals, too: these force the tight manoeuvres.
            near = np.array([car.pose.x, car.pose.y]) + rng.normal(size=2)
            goal = some_goal(rng) if rng.random() < 0.1 else WORKSPACE.clip(near)
            car.set_goal(goal)
            since, bound = 0.0, time_bound(car.pose, goal)
            patience = rng.exponential(5.0) if rng.random() < 0.5 else math.inf
        before = car.pose
        check_period(car.advance(PERIOD), before, car)
        since += PERIOD
        if car.at_goal:
            reached += 1
            assert distance(car.pose, car.goal) <= ARRIVAL_RADIUS + 1e-9
        assert since <= bound
        slowed += 0 < car.speed < SPEED
    assert reached > 90
    assert slowed > 0


YAWS = np.linspace(-math.pi, math.pi, 9)[1:]
slow = partial(pytest.param, marks=pytest.mark.slow)


@pytest.mark.parametrize("yaw", [*YAWS[::2], *map(slow, YAWS[1::2])])
@pytest.mark.parametrize(
    "start", [(30, 30), (30.6, -30.6), slow((-30, 30)), slow((30, -30)), slow((30, 0))]
)
def test_leaves_a_corner_on_every_heading(start, yaw):
    for goal in ((0.0, 0.0), (start[0] - 0.4, start[1]), (29.9, 29.9), (-30.0, -30.0)):
        car = vehicle(*start, yaw)
        car.set_goal(goal)
        bound = time_bound(car.pose, car.goal)
        for _ in range(math.ceil(bound / PERIOD)):
            if car.at_goal:
                break
            before = car.pose
            check_period(car.advance(PERIOD), before, car)
        assert car.at_goal


def test_closed_form_equals_fine_integration():
    """A path of two arcs and a straight against Heun steps of 20 microseconds, with kinematics."""
    legs = (Leg(1.0, 1.5, 1.3), Leg(1.0, 0.0, 0.8), Leg(0.5, -1.5, 2.1))
    path = Path(Pose(1.0, -2.0, 3.0), legs)
    x, y, yaw, time, step = 1.0, -2.0, 3.0, 0.0, 2e-5
    for leg in legs:
        for _ in range(round(leg.duration / step)):
            later = yaw + leg.turn_rate * step
            x += leg.speed * step * (math.cos(yaw) + math.cos(later)) / 2
            y += leg.speed * step * (math.sin(yaw) + math.sin(later)) / 2
            yaw, time = later, time + step
        pose = path.pose(time)
        assert (pose.x, pose.y) == pytest.approx((x, y), abs=1e-8)
        assert wrap(pose.yaw - yaw) == pytest.approx(0, abs=1e-8)


def test_every_candidate_ends_at_the_goal():
    rng = np.random.default_rng(1)
    for _ in range(500):
        start = Pose(*rng.uniform(-2, 2, 2), rng.uniform(-math.pi, math.pi))
        goal = tuple(rng.uniform(-2, 2, 2))
        paths = dubins_paths(start, goal, SPEED, TURN_RATE, SPEED)
        assert paths
        for path in paths:
            assert distance(path.pose(path.duration), goal) < 1e-7
            assert all(leg.duration >= 0 for leg in path.legs)


def test_shortest_candidate_beats_brute_force():
    """No turn-then-turn or turn-then-straight path on a fine grid of angles is shorter."""
    rng = np.random.default_rng(2)
    first, second = np.meshgrid(np.linspace(0, 2 * np.pi, 1000), np.linspace(0, 2 * np.pi, 1000))
    for goal in rng.uniform(-1.5, 1.5, (3, 2)):
        best = min(p.length() for p in dubins_paths(Pose(0, 0, 0), tuple(goal), 1.0, 1.5, 1.0))
        for side in (1, -1):
            bend_x, bend_y = RADIUS * np.sin(first), side * RADIUS * (1 - np.cos(first))
            turned = first - second
            x = bend_x + RADIUS * (np.sin(first) - np.sin(turned))
            y = bend_y - side * RADIUS * (np.cos(first) - np.cos(turned))
            hit = np.hypot(x - goal[0], y - goal[1]) < 5e-3
            lengths = RADIUS * (first + second)[hit]
            assert lengths.size == 0 or best <= lengths.min() + 0.1
            ahead = second * 0.5
            x, y = bend_x + ahead * np.cos(first), bend_y + side * ahead * np.sin(first)
            hit = np.hypot(x - goal[0], y - goal[1]) < 5e-3
            lengths = (RADIUS * first + ahead)[hit]
            assert lengths.size == 0 or best <= lengths.min() + 0.1


def test_goal_that_keeps_jumping_does_not_trap_or_expel_it():
    """A new goal on the other side every period, beside the border."""
    car = vehicle(30, 0, 0)
    for tick in range(2000):
        pose = car.pose
        side = 1 if tick % 2 else -1
        car.set_goal((30.0, np.clip(pose.y + side * 0.5, -30, 30)))
        check_period(car.advance(PERIOD), pose, car)
    car.set_goal((0, 0))
    for _ in range(500):
        car.advance(PERIOD)
    assert car.at_goal


def test_repeating_the_goal_changes_nothing_and_it_stays_there():
    rng = np.random.default_rng(3)
    once, often = vehicle(), vehicle()
    for goal in rng.uniform(-10, 10, (8, 2)):
        once.set_goal(goal)
        while not once.at_goal:
            often.set_goal(goal)
            assert once.advance(PERIOD)(PERIOD) == often.advance(PERIOD)(PERIOD)
    for _ in range(20):
        often.set_goal(goal)
        often.advance(PERIOD)
    assert often.at_goal and (often.speed, often.turn_rate) == (0.0, 0.0)
    assert distance(often.pose, goal) < 1e-9


def test_waypoints_are_passed_at_full_speed():
    """A caller that answers at_goal with the next goal never sees it stop."""
    rng = np.random.default_rng(5)
    car = vehicle()
    for goal in rng.uniform(-20, 20, (30, 2)):
        car.set_goal(goal)
        while not car.at_goal:
            car.advance(PERIOD)
            assert car.speed == SPEED
        assert distance(car.pose, goal) <= ARRIVAL_RADIUS


@pytest.mark.parametrize("yaw", [0.0, math.pi])
def test_goals_outside_become_the_nearest_place_it_can_go(yaw):
    car = vehicle(0, 0, yaw)
    car.set_goal((1e300, 5.0))
    assert ENVIRONMENT.contains(np.array(car.goal))
    assert car.goal[0] > 30.5
    assert car.goal[1] == 5.0
    for _ in range(450):
        before = car.pose
        check_period(car.advance(PERIOD), before, car)
    assert car.at_goal


@pytest.mark.parametrize("goal", [(math.nan, 0), (0, math.inf), (1, 2, 3), 4.0])
def test_invalid_goals_are_refused_and_the_present_one_stays(goal):
    car = vehicle()
    car.set_goal((5, 0))
    with pytest.raises(InputError, match="goal: expected two finite numbers"):
        car.set_goal(goal)
    assert car.goal == (5.0, 0.0)
    car.advance(PERIOD)
    assert car.speed == SPEED


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"start": Pose(31, 0, 0)}, "start: expected a pose inside"),
        ({"start": Pose(math.nan, 0, 0)}, "start: expected a pose inside"),
        ({"max_speed": 0.0}, "max_speed: expected a positive number"),
        ({"max_turn_rate": math.nan}, "max_turn_rate: expected a positive number"),
        ({"environment": Extent(-0.2, 0.2, -5, 5)}, "environment: expected sides longer than"),
        ({"current": (0.8, 0.6)}, "current: expected less than the vehicle's speed"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    usual = {"start": Pose(0, 0, 0), "environment": ENVIRONMENT}
    with pytest.raises(InputError, match=message):
        DubinsVehicle(**(usual | arguments))


@pytest.mark.parametrize("current", [(0.3, 0.0), (-0.5, 0.6)])
def test_in_a_current_it_holds_its_track_at_its_speed_through_water(current):
    """The motion of the water taken away, it moves at full speed, and where it heads."""
    car = vehicle(current=current)
    for goal in np.random.default_rng(3).uniform(-20, 20, (4, 2)):
        car.set_goal(goal)
        while not car.at_goal:
            before, motion = car.pose, car.advance(0.02)
            after, middle = car.pose, motion(0.01)
            moved = np.array([after.x - before.x, after.y - before.y])
            assert car.speed == pytest.approx(np.hypot(*moved) / 0.02)
            if car.at_goal:
                break
            water = moved / 0.02 - current
            assert np.hypot(*water) == pytest.approx(1.0, abs=0.01)
            assert wrap(math.atan2(water[1], water[0]) - middle.yaw) == pytest.approx(0, abs=0.05)
        assert distance(car.pose, goal) <= ARRIVAL_RADIUS
