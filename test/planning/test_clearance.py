"""Water under the transducer: rasters of a map, and turning back before the bottom rises."""

import math

import numpy as np
import pytest

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, map_grid
from poam_ros.core.maps import ElevationMap
from poam_ros.frontend.pings import RawPing
from poam_ros.mission.mission import Mission
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.routes import ClearanceSettings, DeepRoutes

SQUARE = Extent(0, 60, 0, 60)
NEEDED = ClearanceSettings(min_depth=2.0)
WEST, EAST = np.array([10.0, 30.0]), np.array([50.0, 30.0])
#: m: of the turning circle, and of the shoal in the middle.
DIAMETER, SHOAL = 1.5, 8.0


def drawn(deviation=0.1, top=-1.0):
    """Bottom at -10 m, with a round shoal in the middle."""
    grid = map_grid(SQUARE, 1.0)
    far = np.linalg.norm(grid.points - SQUARE.centre, axis=1).reshape(grid.shape)
    mean = np.where(far < SHOAL, top, -10.0)
    return ElevationMap(grid, mean, np.full(grid.shape, deviation**2))


def routes(height=0.0, known=None, **areas):
    """After pings at the western place by a transducer at a height."""
    made = DeepRoutes(NavigableArea(SQUARE, **areas), NEEDED)
    made.set_vehicle(DIAMETER, 1.0)
    for k in range(6):
        made.sounded(WEST + (0, 0.3 * k), height + 10.0)
    made.learn(drawn() if known is None else known)
    return made


def from_middle(places):
    return np.linalg.norm(np.asarray(places) - SQUARE.centre, axis=-1)


def test_legs_and_goals_keep_off_a_shoal():
    deep = routes()
    goals = np.array([EAST, [30.0, 30.0], [10.0, 50.0]])
    assert deep.legs_open(WEST, goals).tolist() == [False, False, True]
    assert deep.reachable(WEST, goals).tolist() == [True, False, True]
    short = deep.shortened(WEST, goals)
    assert SHOAL < from_middle(short[0]) < SHOAL + DIAMETER + 2
    assert short[2].tolist() == [10, 50]


@pytest.mark.parametrize("goal", [EAST, np.array([30.0, 33.0])])
def test_a_route_leads_around_a_shoal_to_the_goal_or_the_nearest_place(goal):
    deep = routes()
    route = np.vstack((WEST, deep.route(WEST, goal)))
    legs = np.diff(route, axis=0)
    along = route[:-1, None] + np.linspace(0, 1, 50)[:, None] * legs[:, None]
    assert from_middle(along).min() > SHOAL + DIAMETER / 2
    if goal is EAST:
        assert route[-1].tolist() == EAST.tolist()
        assert np.linalg.norm(legs, axis=1).sum() < 48  # 40 m straight ahead
    else:
        assert from_middle(route[-1]) < SHOAL + DIAMETER + 2


def test_keep_outs_hold_as_well():
    block = np.array([(10, 35), (50, 35), (50, 59), (10, 59)], dtype=float)
    deep = routes(keep_outs=(block,))
    route = deep.route(WEST, EAST)
    assert from_middle(route).min() > SHOAL and route[:, 1].max() < 35


@pytest.mark.parametrize(("height", "deviation", "open_"), [
    (0.0, 0.1, False), (4.0, 0.1, True), (4.0, 2.0, False),
])  # fmt: skip
def test_water_level_and_deviation_decide_on_the_shoal(height, deviation, open_):
    """The transducer's height is known from ranges: 4 m more water leaves 5 m over the shoal."""
    deep = routes(height, drawn(deviation))
    assert deep.legs_open(WEST, EAST[None])[0] == open_


def test_a_place_unknown_to_the_map_is_not_a_goal():
    known = drawn()
    known.mean[:, 40:] = np.nan
    assert not routes(known=known).reachable(WEST, EAST[None])[0]


def test_without_a_map_a_leg_ends_where_the_bottom_may_have_risen():
    deep = DeepRoutes(NavigableArea(SQUARE), NEEDED)
    deep.set_vehicle(DIAMETER, 1.0)
    deep.sounded(WEST, 12.0)
    route = deep.route(WEST, EAST)
    np.testing.assert_allclose(route, [(20, 30), EAST])


@pytest.mark.parametrize(("rise", "turns"), [(0.0, False), (-0.3, False), (0.3, True)])
def test_the_vehicle_turns_back_before_the_bottom_has_risen(rise, turns):
    """Over 6.5 m (1.5 m, 2 s, 3 pings) a rise of 0.3 leaves less than 2 m; level ground not."""
    deep = DeepRoutes(NavigableArea(SQUARE), NEEDED)
    deep.set_vehicle(DIAMETER, 1.0)
    for k in range(6):
        deep.sounded(WEST + (k, 0), 3.6 + rise * (4 - k))
    assert deep.turns_back() == turns
    assert deep.deep_enough(np.array([WEST, WEST + (8, 0)])).tolist() == [True, not turns]


def test_a_shallow_reading_closes_its_place_until_another_pass_finds_more():
    """Whatever later maps say: they may lack what looked like a false echo."""
    deep, place = routes(), np.array([50.0, 10.0])

    def passes(depth):
        for k in range(-12, 13):
            deep.sounded(place + (0.5 * k, 0.0), depth if abs(k) < 3 else 10.0)
        deep.learn(drawn())

    goal = place[None]
    assert deep.deep_enough(goal)[0]
    passes(0.5)
    assert not deep.deep_enough(goal)[0] and deep.deep_enough(goal + (0.0, 6.0))[0]
    deep.learn(drawn())
    assert not deep.deep_enough(goal)[0]
    passes(10.0)
    assert deep.deep_enough(goal)[0]


def drive(mission, depth_at, steps=600):
    """Drive straight to every goal in steps of 0.25 m; the depths on the way."""
    place, depths = np.array([5.0, 30.0]), []
    for k in range(steps):
        if mission.goal is not None:
            aim = mission.goal - place
            place = place + aim * min(1.0, 0.25 / max(math.hypot(*aim), 1e-9))
        mission.update_position(place, float(k))
        mission.sounded(RawPing(k, depth_at(place), 0.3, 100.0))
        depths.append(depth_at(place))
    return depths


def test_a_pilot_survey_returns_by_its_own_track_and_around():
    """A beach in the east rises by 0.5 to land, with a shoal before it; no map yet."""

    def depth(place):
        shoal = 9.0 * (math.dist(place, (25, 30)) < 4)
        return max(20.0 - 0.4 * place[0] - shoal, 0.0)

    pilot = np.array([(40.0, 30.0), (55.0, 30.0), (40.0, 50.0)])
    arrival = {"capture_radius": DIAMETER, "max_speed": 1.0}
    mission = Mission(pilot, SQUARE, clearance=NEEDED, arrival=arrival)
    depths = drive(mission, depth)
    assert min(depths) >= 1.0 and mission.deep.turned_back >= 1
    assert mission.diagnostics()["turned_back"] == mission.deep.turned_back
    assert mission.goals.results["reached"] >= 2 and mission.needs_goal
    assert min(drive(Mission(pilot, SQUARE, arrival=arrival), depth)) == 0


def test_it_is_off_by_default_and_checks_its_values():
    assert Mission(np.array([EAST]), SQUARE, clearance=ClearanceSettings()).deep is None
    with pytest.raises(InputError, match="min_depth_probability"):
        ClearanceSettings(min_depth_probability=1.0)
