"""Missions that end by their map: the share within a TVU, and no place far from a ping.

The guarantee is checked by brute force on the pings, with planners that never go where they should.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from missions import PlannedMission

from poam_ros.core.clock import SECOND
from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid, squared_distance_to
from poam_ros.core.maps import ElevationMap, Predicted
from poam_ros.mission.target import GAPS, MAX_VISITS, MapTarget, TargetSettings
from poam_ros.planning.areas import NavigableArea
from poam_ros.planning.planners import PLANNERS
from poam_ros.planning.tvu import CONFIDENCE_95, allowed

WORKSPACE = Extent(0, 60, 0, 40)
GRID = Grid.cells(WORKSPACE, 1.0)
PLACES = Grid.cells(WORKSPACE, 0.5).points
BED = -20.0
GOOD = float(allowed("1b", np.array(20.0))) / CONFIDENCE_95  # m: just within at 20 m
PILOT = np.array([[5.0, 5.0], [15.0, 5.0]])
#: Goals for ever in one corner.
LAZY = [np.array([[5.0, 5.0]]), np.array([[12.0, 9.0]])]


def chart(pings=((5.0, 5.0),), std=10.0, bed=BED, stamp=0.0):
    """A map of a flat bed; std a number or [rows, columns]."""
    deviation = np.broadcast_to(std, GRID.shape)
    drawn = ElevationMap(GRID, np.full(GRID.shape, bed), deviation**2, stamp_ns=int(stamp * SECOND))
    return drawn.with_pings(np.array(pings))


def survey(settings, std=10.0, keep_outs=(), deaf=lambda place: False, limit=20_000, **budget):
    """A vehicle at 1 m/s with a ping a second and a map every 20 s, until the mission ends.

    ``std``: of the map, a function of how many pings it holds. ``deaf``: where none is accepted.
    """
    areas = NavigableArea(WORKSPACE, None, keep_outs, 1.0) if keep_outs else None
    mission = PlannedMission(PILOT, WORKSPACE, areas=areas, **budget)
    target = MapTarget(settings, mission)
    at, now, pings, latest, turn = np.array([2.0, 2.0]), 0.0, [], None, 0
    closed = []  # goals that closed a gap

    def choose(position):
        nonlocal turn
        gap = target.next_goal(latest, now)
        if gap is not None:
            closed.append(gap[0])
            return gap, GAPS
        turn += 1
        return LAZY[turn % 2]

    while mission.state != "done":
        assert now < limit, f"no end: {target.text}"
        goal = mission.goal
        if goal is not None:
            away = goal - at
            at = at + away * min(1.0, 1.0 / max(np.linalg.norm(away), 1e-9))
        now += 1.0
        if not deaf(at):
            pings.append(at)
        mission.count_samples(len(pings))
        mission.update_position(at, now)
        if now % 20 == 0 and mission.state != "pilot":
            deviation = std(len(pings)) if callable(std) else std
            latest = chart(pings, deviation, stamp=now)
            target.learn(latest, now)
            mission.set_planner(choose)
    target.learn(chart(pings, std(len(pings)) if callable(std) else std, stamp=now), now)
    return SimpleNamespace(
        mission=mission, target=target, pings=np.array(pings), closed=closed, now=now
    )


def exploring(settings, place=(5.0, 5.0), now=0.0, **given):
    """A mission without a pilot survey at a place, and its target."""
    mission = PlannedMission(PILOT[:0], WORKSPACE, **given)
    target = MapTarget(settings, mission)
    mission.update_position(np.array(place), now)
    return mission, target


def farthest(pings, places=PLACES):
    return math.sqrt(squared_distance_to(places, pings).max())


def test_the_share_is_of_the_wet_places_that_may_be_entered():
    keep_out = np.array([[30.0, -1.0], [60.5, -1.0], [60.5, 41.0], [30.0, 41.0]])
    mission = PlannedMission(
        PILOT, WORKSPACE, areas=NavigableArea(WORKSPACE, None, (keep_out,), 1.0)
    )
    target = MapTarget(TargetSettings(tvu="1b", share=0.5), mission)
    mission.update_position(np.array([5.0, 5.0]), 1.0)
    std = np.where(GRID.x < 11.5, 0.999 * GOOD, 1.001 * GOOD)  # 11 of 29 columns
    target.learn(chart(std=std), 2.0)
    assert target.status.share == pytest.approx(11 / 29)
    assert target.text == "TVU within 1b in 37.9 % of the workspace"
    assert target.diagnostics()["target_share"] == pytest.approx(11 / 29)
    # The water falls by 12 m: less depth, a smaller TVU.
    assert target.set_water_level(-12.0) == "" and "expected metres" in target.set_water_level(
        math.nan
    )
    target.learn(chart(std=std), 3.0)
    assert target.status.share == 0.0
    target.set_water_level(-21.0)
    target.learn(chart(std=std), 4.0)
    assert math.isnan(target.status.share) and "below the water level of -21 m" in target.fault
    assert mission.state == "pilot"


def test_at_the_end_of_the_budget_the_reason_says_what_the_target_lacks():
    found = survey(TargetSettings(tvu="1b"), max_samples=100)
    expected = "max_samples of 100 reached; TVU within 1b in 0.0 % of the workspace"
    assert found.mission.reason == expected
    # The last batch may come into the map after the end, and is told of.
    found.target.learn(chart(std=GOOD / 2), 200.0)
    assert found.mission.reason.endswith("reached; TVU within 1b in 100.0 % of the workspace")
    found.mission.stop()
    assert found.mission.reason == "stopped"


def test_a_mission_that_was_done_before_a_restart_keeps_its_reason():
    mission, target = exploring(TargetSettings(tvu="1b"), now=1.0)
    assert mission.state == "exploring"
    target.learn(chart(std=GOOD / 2), 2.0)
    assert mission.reason == "TVU within 1b in 100.0 % of the workspace"
    again = PlannedMission(PILOT, WORKSPACE)
    again.restore(mission.to_dict(), False)
    again.update_position(np.array([5.0, 5.0]), 3.0)
    MapTarget(TargetSettings(tvu="1b"), again).learn(chart(), 4.0)
    assert again.reason == mission.reason


@pytest.mark.parametrize(("distance", "depths", "most"), [(12.0, 0.0, 12.0), (5.0, 0.4, 8.0)])
def test_gaps_are_closed_before_the_budget_is_exhausted(distance, depths, most):
    settings = TargetSettings(distance=distance, depth_factor=depths)
    found = survey(settings, max_samples=700)
    assert farthest(found.pings) <= most
    assert len(found.pings) == 700  # the rest of it is for the map
    said = f"every place within {settings.max_distance_text} of a ping"
    assert found.mission.reason == f"max_samples of 700 reached; {said}"
    first = squared_distance_to(np.array(found.closed[:1]), found.pings)
    assert len(found.closed) > 3 and first < 4  # goals were gone to


def test_gaps_are_closed_before_the_time_is_over():
    found = survey(TargetSettings(distance=12.0), max_duration=700.0)
    assert farthest(found.pings) <= 12 and found.now == pytest.approx(700, abs=2)


@pytest.mark.slow
def test_keep_outs_are_covered_from_outside_and_the_rest_is_excluded():
    island = np.array([[20.0, 10.0], [32.0, 10.0], [32.0, 22.0], [20.0, 22.0]])
    wall = np.array([[44.0, -5.0], [46.0, -5.0], [46.0, 45.0], [44.0, 45.0]])
    settings = TargetSettings(distance=9.0)
    found = survey(settings, keep_outs=(island, wall), max_samples=800)
    areas = found.mission.goals.routes.areas
    assert areas.allowed(found.pings[1:]).all()  # nothing was entered for it
    # 7 m from the island's margin to its middle: all of it is covered, from outside.
    assert farthest(found.pings, PLACES[PLACES[:, 0] < 43]) <= 9
    assert farthest(found.pings) > 9
    share = found.target.status.excluded
    beyond = GRID.points[squared_distance_to(GRID.points, found.pings) > 81, 0]
    assert beyond.min() > 50 and share == pytest.approx(len(beyond) / 2400, abs=0.04)
    assert "excluded: no route leads close, or no ping is accepted there" in found.mission.reason


def test_places_without_accepted_pings_are_excluded():
    found = survey(TargetSettings(distance=8.0), deaf=lambda place: place[0] > 45, max_samples=1200)
    covered = PLACES[PLACES[:, 0] < 44]
    assert farthest(found.pings, covered) <= 8
    assert 0.05 < found.target.status.excluded < 0.25 and found.target.status.gaps == 0
    assert "excluded" in found.mission.reason
    far = np.array([goal for goal in found.closed if goal[0] > 50])
    assert 0 < len(far) <= 15 * MAX_VISITS


def test_a_wider_turning_circle_moves_the_goals_of_gaps():
    island = np.array([[20.0, 10.0], [32.0, 10.0], [32.0, 22.0], [20.0, 22.0]])
    areas = NavigableArea(WORKSPACE, None, (island,), 0.5)
    pinged = PLACES[(PLACES[:, 0] > 40) | (PLACES[:, 0] < 12)]  # all but about the island
    settings = TargetSettings(distance=9.0)
    mission, target = exploring(settings, (14.0, 16.0), areas=areas, max_samples=10)
    goals = {}
    for radius in (0.5, 4.0):
        mission.goals.set_arrival({"capture_radius": radius})
        drawn = chart(pinged, stamp=radius)
        target.learn(drawn, radius)
        mission.goals.purpose = GAPS
        goals[radius] = target.next_goal(drawn, radius)[0]
        routes = mission.goals.routes
        assert routes.areas.allowed(goals[radius][None])[0], radius
    assert not np.array_equal(goals[0.5], goals[4.0])


def deaf_mission(settings, pinged):
    """An exploring mission without a pilot; where its vehicle is sent to for a gap from a place,
    by a map of 20 m of water with the given pings and none since; ``go(place)``."""
    mission, target = exploring(settings, (1.0, 1.0), max_samples=10)
    now = 0.0

    def go(place, pings=pinged, new=True):
        nonlocal now
        now += 1.0
        mission.update_position(np.array(place, dtype=float), now)
        drawn = chart(pings, stamp=now)
        if new:
            target.learn(drawn, now)
        mission.goals.purpose = GAPS
        goal = target.next_goal(drawn, now)
        return None if goal is None else goal[0]

    return mission, target, go


@pytest.mark.slow
def test_a_gap_is_given_up_independently_of_others():
    """A place without an echo, and 551 others that are closed between the visits to it."""
    deaf, every = np.array([58.5, 38.5]), GRID.points
    others = every[(every % 2 == 0.5).all(1) & (every < deaf - 1).all(1)]
    pinged = every[(every != deaf).any(1)]
    _, target, go = deaf_mission(TargetSettings(distance=1.5), pinged)
    visits, _ = 0, go(deaf, every)
    for _ in range(MAX_VISITS):
        for other in others:
            gone = go(other, pinged[(pinged != other).any(1)], new=False)
            np.testing.assert_array_equal(gone, other)
        visits += go(deaf) is not None
    assert len(others) * (MAX_VISITS - 1) > 1000
    assert visits == MAX_VISITS and go(deaf) is None and target.status.gaps > 0
    assert go(deaf) is None and target.status.gaps == 0 and target.status.excluded > 0


def test_the_next_mission_tries_given_up_gaps_again():
    """It begins with no pilot survey, so that no map comes before it explores."""
    deaf = np.array([40.5, 20.5])
    pinged = GRID.points[(GRID.points != deaf).any(1)]
    mission, target, go = deaf_mission(TargetSettings(distance=2.0), pinged)
    for _ in range(MAX_VISITS):
        np.testing.assert_array_equal(go(deaf), deaf)
    assert go(deaf) is None
    mission.stop()
    assert mission.start(100.0)[0]
    target.forget()  # as guidance does
    mission.update_position(deaf, 101.0)
    assert mission.state == "exploring"
    np.testing.assert_array_equal(go(deaf), deaf)


def coast(level):
    """A map of a bed that rises to the east: 20 m of water to 40 m, then 3 m of land; one ping."""
    return chart(bed=np.where(GRID.x < 40, level - 20.0, level + 3.0), std=GOOD / 2)


@pytest.mark.parametrize(
    ("distance", "depths", "left_out"), [(0.0, 0.5, 0.33), (8.0, 0.5, 0.2), (8.0, 0.0, 0.0)]
)
def test_the_vehicle_is_not_sent_to_dry_places_if_depths_count(distance, depths, left_out):
    settings = TargetSettings(distance=distance, depth_factor=depths)
    mission, target = exploring(settings)
    target.set_water_level(1.5)
    target.learn(coast(1.5), 1.0)
    assert target.fault == "" and left_out <= target.status.excluded <= left_out + 0.05
    assert ("it is dry" in target.text) == (depths > 0)
    goals, pings = [], [[5.0, 5.0]]
    while (goal := target.next_goal(coast(1.5).with_pings(np.array(pings)), 2.0)) is not None:
        goals.append(goal[0])
        pings.append(goal[0])
    assert (np.array(goals)[:, 0].max() < 40) == (depths > 0)
    # Land within the distance of the water is covered from there.
    near = PLACES[PLACES[:, 0] < 40 + max(distance - 2, 0) * (depths > 0)]
    assert farthest(np.array(pings), near) <= 10 + distance
    target.learn(coast(1.5).with_pings(np.array(pings)), 3.0)
    assert mission.state == "done" and mission.reason.startswith("every place within")


def test_gaps_are_closed_even_in_the_middle_of_a_long_path():
    """A planner whose path is longer than the budget does not keep the vehicle from the gaps."""
    mission, target = exploring(TargetSettings(distance=15.0), max_samples=300)
    mission.set_planner(lambda position: np.tile([[5.0, 5.0], [9.0, 5.0]], (500, 1)))
    for count in range(1, 60):
        mission.update_position(np.array([5.0 + count % 4, 5.0]), float(count))
    mission.count_samples(60)
    target.learn(chart(stamp=60.0), 60.0)
    assert mission.goals.purpose != GAPS and len(mission.goals.queue) > 10
    mission.count_samples(200)
    target.learn(chart(stamp=61.0), 61.0)
    assert mission.goals.purpose == GAPS and mission.needs_goal and not mission.goals.queue


def test_the_target_ends_a_pause_but_not_a_pilot_survey():
    mission = PlannedMission(PILOT, WORKSPACE)
    target = MapTarget(TargetSettings(tvu="1b"), mission)
    mission.update_position(np.array([2.0, 2.0]), 0.0)
    target.learn(chart(std=GOOD / 2), 1.0)
    assert mission.state == "pilot"
    for number, place in enumerate([*PILOT, *PILOT]):
        mission.update_position(place, 1.0 + number)
    assert mission.state == "exploring"
    mission.pause()
    target.learn(chart(std=GOOD / 2), 9.0)
    assert mission.state == "done" and mission.reason.startswith("TVU within 1b in 100.0 %")


def test_what_cannot_be_assessed_is_reported():
    mission = PlannedMission(PILOT, WORKSPACE)
    mission.update_position(np.array([2.0, 2.0]), 0.0)
    blind = MapTarget(TargetSettings(distance=10.0), mission)
    blind.learn(ElevationMap(GRID, np.zeros(GRID.shape), np.ones(GRID.shape)), 1.0)
    assert "lacks the density of its pings" in blind.fault
    fine = MapTarget(TargetSettings(distance=1.4), mission)
    fine.learn(chart(), 1.0)
    assert fine.fault == "1.4 m is less than a cell of the map in places"
    nothing = MapTarget(TargetSettings(), mission)
    nothing.learn(chart(), 1.0)
    assert (nothing.text, nothing.diagnostics(), nothing.fault) == ("", {}, "")


@pytest.mark.parametrize("polygon", [None, np.array([[5.0, 5], [55, 5], [55, 35], [5, 35]])])
def test_a_map_of_another_area_ends_no_mission(polygon):
    grid = Grid.cells(Extent(1000, 1060, 0, 40), 1.0)
    drawn = ElevationMap(grid, np.full(grid.shape, BED), np.ones(grid.shape))
    drawn = drawn.with_pings(np.array([[1005.0, 5.0]]))
    areas = NavigableArea(WORKSPACE, polygon)
    mission, target = exploring(TargetSettings(distance=8.0), (20.0, 20.0), areas=areas)
    target.learn(drawn, 1.0)
    assert mission.state == "exploring" and "no cell" in target.fault
    assert target.text == target.fault and target.next_goal(drawn, 1.0) is None


def rising(variance=None):
    """A map of one ping in a corner; its variance rises to the east."""
    east = np.broadcast_to(1.0 + GRID.x, GRID.shape)
    fields = {"lengthscale": np.full(GRID.shape, 5.0)}
    drawn = ElevationMap(
        GRID, np.full(GRID.shape, BED), east if variance is None else variance, fields
    )
    return drawn.with_pings(np.array([[0.5, 0.5]]))


class West:
    """A view of a map whose variance rises to the west."""

    def predict(self, xy):
        return Predicted(np.zeros(len(xy)), 61.0 - xy[:, 0])


def chosen(drawn, view=None, **settings):
    """The next waypoint, and its purpose, for a mission that explores, at (1, 1)."""
    planner = PLANNERS["max-entropy"]
    _, target = exploring(TargetSettings(**settings), (1.0, 1.0))
    target.learn(rising(), 1.0)
    options, draws = planner.options(distance_weight=0.0), np.random.default_rng(0)
    (goal,), purpose = target.next_path(drawn, 1.0, 0.0, 1.0, planner, options, draws, view)
    return goal, purpose


def test_the_planner_chooses_by_the_map_or_a_given_view_unless_gaps_are_due():
    goal, purpose = chosen(rising())
    assert goal[0] > 58 and not purpose
    assert chosen(None, West())[0][0] < 2
    goal, purpose = chosen(rising(), distance=10.0)  # nothing else ends it: the nearest gap
    assert np.hypot(*(goal - 1.0)) < 20 and purpose == GAPS
    with pytest.raises(InputError, match="no"):
        chosen(rising(np.full(GRID.shape, np.nan)))
