"""Missions among keep-outs end, whatever the vehicle's turning circle: with a Dubins vehicle that
hears of its goals late, as over a network."""

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import yaml

from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent
from poam_ros.mission.mission import Mission
from poam_ros.mission.states import MAP, SONAR, Watchdog, WatchdogSettings
from poam_ros.planning.areas import AreaSettings, NavigableArea, inside
from poam_ros.planning.pilots import PILOTS, start_pose
from poam_ros.simulation.vehicle import DubinsVehicle, Pose

SQUARE = Extent(-30, 30, -30, 30)
CASE = Path(__file__).parents[3] / "shared/cases/mission_that_never_ends.yaml"
GOALS = 4  # after the pilot survey
HOUR = 3600.0


class Voyage:
    """A mission with a vehicle, without a map: ``choose`` gives its goals after the pilot."""

    def __init__(self, area, pilot, start, radius, late_s, choose, step=0.1):
        self.area, self.choose, self.late_s, self.step_s = area, choose, late_s, step
        arrival = {"goal_radius": 0.1, "capture_radius": 2 * radius, "max_speed": 1.0}
        self.mission = Mission(pilot, SQUARE, areas=area, arrival=arrival)
        self.vehicle = DubinsVehicle(
            start, SQUARE.grown(10 * radius), max_speed=1.0, max_turn_rate=1 / radius
        )
        self.watchdog = Watchdog(WatchdogSettings(), area)
        self.time_s, self._checked_s = 0.0, 0.0
        self._goal, self._sent, self._track = None, [], []
        self.roomy = area.gap(np.array([start.x, start.y])) >= 2 * radius  # for the turning circle

    def end(self):
        """How the mission ends: ``done``, the reason of its pause, or ``never``."""
        left = GOALS
        while self.time_s < HOUR:
            mission, pose = self.mission, self.vehicle.pose
            mission.update_position(np.array([pose.x, pose.y]), self.time_s)
            if mission.needs_goal:
                if not left:
                    return "done"
                mission.drive(self.choose())
                left -= 1
            self._guard()
            if mission.state == "paused":
                return mission.reason
            self._drive()
        return "never"

    def _guard(self):
        for source in (SONAR, MAP):
            self.watchdog.received(source)
        self.watchdog.position_received(self.mission, 0.0)
        if self.time_s - self._checked_s >= 1:
            self._checked_s = self.time_s
            self.watchdog.check(self.mission, self.time_s, self.time_s)

    def _drive(self):
        if self.mission.goal is not self._goal:
            self._goal = self.mission.goal
            self._sent.append((self.time_s + self.late_s, self._goal))
        while self._sent and self._sent[0][0] <= self.time_s:
            self.vehicle.set_goal(self._sent.pop(0)[1])
        self.vehicle.advance(self.step_s)
        self._track.append((self.vehicle.pose.x, self.vehicle.pose.y))
        self.time_s += self.step_s

    @property
    def strayed(self):
        """Whether the vehicle was in a keep-out, or outside the polygon."""
        track, area = np.array(self._track), self.area
        entered = any(inside(corners, track).any() for corners in area.keep_outs)
        return entered or (area.polygon is not None and not inside(area.polygon, track).all())


@pytest.mark.parametrize("late_s", [0.05, 0.15])
@pytest.mark.skipif(not CASE.exists(), reason="needs the shared cases")
def test_the_mission_that_never_ended_ends(late_s):
    """It circled beside a corner for ever: each new route led through the same corner again."""
    areas = yaml.safe_load(CASE.read_text())["/**/planner"]["ros__parameters"]["areas"]
    area = AreaSettings(**areas).open(SQUARE)
    pilot = PILOTS["bezier"](SQUARE, np.random.default_rng(0))
    draws = np.random.default_rng(1)
    voyage = Voyage(
        area, pilot, Pose(*start_pose(SQUARE)), 0.67, late_s, lambda: SQUARE.sample(1, draws)
    )
    assert voyage.end() == "done"
    assert voyage.mission.goals.results["timeout"] == 0


def star(rng, centre, low, high, corners):
    """A polygon around a centre, concave in places."""
    angles, radii = np.sort(rng.uniform(0, 2 * math.pi, corners)), rng.uniform(low, high, corners)
    return centre + np.column_stack((radii * np.cos(angles), radii * np.sin(angles)))


def random_voyage(seed):
    """Random areas, margins and vehicles; many have less margin than their turning circle."""
    rng = np.random.default_rng(seed)
    area = None
    while area is None or len(area.raster) < 0.2 * 48**2:
        outer = star(rng, np.zeros(2), 18, 40, rng.integers(4, 10)) if rng.random() < 0.7 else None
        inner = [
            star(rng, rng.uniform(-22, 22, 2), 2, 9, rng.integers(3, 7))
            for _ in range(rng.integers(1, 5))
        ]
        try:
            outer = None if outer is None else np.clip(outer, -29.5, 29.5)
            area = NavigableArea(SQUARE, outer, inner, float(rng.choice([0.5, 1.0, 2.0, 4.0])))
        except InputError:  # it crosses itself, or leaves no place
            area = None
    radius, places = float(rng.choice([0.4, 0.67, 1.5, 3.0])), SQUARE.sample(200, rng)
    start = places[area.allowed(places)][0]
    pose = Pose(*start, rng.uniform(-3, 3))
    late_s = 0.1 * int(rng.integers(0, 4)) + 0.05
    choose = lambda: SQUARE.sample(1, rng)  # noqa: E731
    return Voyage(area, SQUARE.sample(4, rng), pose, radius, late_s, choose, step=0.2)


def endings(seeds):
    """How many missions are done and paused; none strays that begins with room to turn."""
    found = Counter()
    for seed in seeds:
        voyage = random_voyage(seed)
        how = voyage.end()
        assert how and how != "never", seed
        assert not (voyage.roomy and voyage.strayed), seed
        found["done" if how == "done" else "paused"] += 1
    return found


def test_missions_among_random_keep_outs_end():
    found = endings(range(12))
    assert found["done"] >= 9, found


@pytest.mark.slow
def test_two_hundred_missions_among_random_keep_outs_end():
    found = endings(range(100, 300))
    assert found["done"] >= 180, found


def test_new_routes_do_not_renew_the_time_limit():
    """A vehicle that drifts beside its leg is given new routes, for the time of one waypoint."""
    block = np.array([(-5, -5), (5, -5), (5, 5), (-5, 5)], dtype=float)
    area = NavigableArea(SQUARE, keep_outs=[block], margin=1.0)
    mission = Mission(np.array([[20.0, 0.0]]), SQUARE, areas=area)
    time_s, goals = 0.0, set()
    while mission.state == "pilot" and time_s < 500:
        turn = time_s / 1.8  # in circles beside the block, never past it
        x, y = -7.0 + 1.8 * math.cos(turn), 3.0 + 1.8 * math.sin(turn)
        mission.update_position(np.array([x, y]), time_s)
        goals.add(None if mission.goal is None else tuple(mission.goal))
        time_s += 1.0
    assert len(goals) > 3 and mission.goals.results["timeout"] == 1
    assert time_s < 250  # 2 * 30 m at 1 m/s and half a minute a leg


def test_where_no_goal_can_be_chosen_the_mission_pauses():
    mission = Mission(np.empty((0, 2)), SQUARE)
    watchdog = Watchdog(WatchdogSettings(), NavigableArea(SQUARE))
    for second in range(70):
        mission.update_position(np.zeros(2), float(second))
        mission.blocked = "no place is deep enough"
        for source in ("odometry", SONAR, MAP):
            watchdog.received(source)
        watchdog.check(mission, float(second), float(second))
    assert mission.state == "paused"
    assert mission.reason == "no goal could be chosen for 60 s: no place is deep enough"
