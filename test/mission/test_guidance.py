"""Guidance: an operator's commands, goals where a mission needs them, and the guarded way home."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from poam_ros.core.clock import Moment
from poam_ros.core.errors import InputError
from poam_ros.core.geometry import Extent, Grid
from poam_ros.core.maps import ElevationMap
from poam_ros.core.settings import Settings, setting
from poam_ros.frontend.odometry import VehicleState
from poam_ros.frontend.pings import RawPing
from poam_ros.mission.guidance import Guidance
from poam_ros.planning.planners import PLANNERS, PlannerEntry
from poam_ros.ros.parameters import PLANNER

WORKSPACE = Extent(0, 20, 0, 20)
DEFAULTS = {row.name: row.default for row in PLANNER}
VALUES = DEFAULTS | {
    "workspace": WORKSPACE.bounds, "planner": "max-entropy", "target.distance": 30.0,
    "goals.metres": "1 1", "max_samples": 1000,
}  # fmt: skip


def chart():
    grid = Grid.cells(WORKSPACE, 1.0)
    fields = {"lengthscale": np.full(grid.shape, 5.0)}
    drawn = ElevationMap(grid, np.full(grid.shape, -9.0), np.ones(grid.shape), fields, samples=9)
    return drawn.with_pings(np.array([[1.0, 1.0]]))


def test_a_mission_is_given_goals_from_the_first_map_on_and_a_start_begins_anew():
    guidance, now = Guidance(VALUES, lambda *_: None), 0
    mission = guidance.mission

    def locate(x, y):
        nonlocal now
        now += 1
        guidance.locate(VehicleState(now * 10**9, (x, y, 0.0)), 0.0, Moment(now * 10**9, now))

    assert guidance.command("start", 0.5) == (True, "started; no odometry yet")
    assert not guidance.command("start", 0.5)[0] and not guidance.command("resume", 0.5)[0]
    for _ in range(3):
        locate(1.0, 1.0)
    assert mission.needs_goal and mission.goal is None
    guidance.draw(chart(), Moment(now * 10**9, now))
    assert not mission.needs_goal and mission.goal is not None
    assert guidance.target.status is not None
    assert guidance.command("pause", now) == (True, "paused while exploring")
    assert guidance.command("resume", now)[0] and guidance.command("stop", now)[0]
    assert guidance.target.status is not None
    assert guidance.command("start", now)[0] and guidance.target.status is None
    assert mission.station is None


@dataclass(frozen=True)
class Reach(Settings):
    prefix = "near"
    reach: float = setting(9.0, "Reach", "m", mutable=True)

    def __post_init__(self):
        if self.reach < 0:
            raise InputError(f"near.reach: expected at least 0, got {self.reach:g}")


def test_new_options_of_a_planner_are_for_the_next_goal_and_wrong_ones_change_nothing(
    monkeypatch, tmp_path
):
    used, said = [], []

    def near(view, situation, options, rng):
        used.append(options.reach)
        return np.array([[5.0, 5.0 + len(used)]])

    monkeypatch.setitem(PLANNERS, "near", PlannerEntry(near, Reach))
    values = VALUES | {"planner": "near", "near.reach": -1.0, "mission_dir": str(tmp_path)}
    with pytest.raises(InputError, match=r"near\.reach: expected at least 0, got -1") as _failed:
        Guidance(values, lambda *_: None)
    values["near.reach"] = 7.0
    guidance = Guidance(values, lambda *words: said.append(words))  # the folder is free again
    guidance.command("start", 0.5)
    for now, reach in enumerate((7.0, 3.0, -2.0, 4.0), 1):
        values["near.reach"] = reach
        guidance.change()
        guidance.mission.goals.clear()
        guidance.draw(chart(), Moment(now * 10**9, now))
        guidance.locate(VehicleState(now * 10**9, (1.0, 1.0, 0.0)), 0.0, Moment(now * 10**9, now))
        guidance.locate(VehicleState(now * 10**9, (1.0, 1.0, 0.0)), 0.0, Moment(now * 10**9, now))
    guidance.close()
    assert used == [7.0, 3.0, 3.0, 4.0]
    text = "near.reach: expected at least 0, got -2; the options before stay in use"
    assert said == [("planner", text)]


@pytest.mark.parametrize(
    ("fault", "deep", "starts"),
    [
        (None, 0.0, True), ("", 0.0, True), ("no_ping", 0.0, False), ("no_ping", 3.0, False),
        ("above_water", 3.0, False), ("no_return", 0.0, False), ("no_return", 3.0, True),
        ("outside_workspace", 0.0, True), ("jump", 0.0, False),
    ],
)  # fmt: skip
def test_no_mission_begins_while_no_ping_can_be_mapped(fault, deep, starts):
    """Unless the vehicle may drive, or dive, to where they can."""
    guidance = Guidance(VALUES | {"goals.depth": deep}, lambda *_: None)
    guidance.mission.ready = False
    if fault is not None:
        guidance.mapped(fault)
    begun, answer = guidance.command("start", 1.0)
    assert begun == starts == (guidance.mission.state == "pilot")
    assert starts or (fault if fault != "no_ping" else "no ping") in answer
    assert guidance.mission.ready == (starts and fault is not None)


def test_a_reason_that_only_another_version_of_the_mapper_knows_is_named():
    guidance = Guidance(VALUES, lambda *_: None)
    guidance.mapped("of_tomorrow")
    assert not guidance.mission.ready
    assert guidance.fault_text.startswith("every ping is refused as of_tomorrow: see the mapper")


def sunk(drawn=None, **values):
    """A guidance at (1, 1) at z = -2 whose goal is (15, 1); ``at(z)`` moves the vehicle there."""
    given = {**VALUES, "goals.metres": "15 1", "watchdog.max_jump": 0.0, **values}
    guidance, now = Guidance(given, lambda *_: None), 0
    if drawn is not None:
        guidance.map = drawn

    def at(z):
        nonlocal now
        now += 1
        moment = Moment(now * 10**9, now)
        guidance.locate(VehicleState(now * 10**9, (1.0, 1.0, z)), 0.0, moment)
        return guidance.goal_z

    at(-2.0)
    guidance.command("start", now)
    at(-2.0)
    assert guidance.mission.goal.tolist() == [15, 1]
    return guidance, at


def test_the_depth_of_a_goal_is_not_that_of_a_vehicle_that_drifts():
    guidance, at = sunk()
    assert [at(z) for z in (-2.1, -2.5, -3.0, -9.0)] == [-2.0] * 4
    guidance.mission.goals.clear()
    guidance.mission.goals.add(np.array([[1.0, 15.0]]))
    assert at(-9.0) == -2.0  # nor that of the next one
    guidance.command("pause", 9)
    guidance.command("resume", 9)  # an operator let it dive
    guidance.mission.goals.clear()
    guidance.mission.goals.add(np.array([[3.0, 15.0]]))
    assert at(-9.5) == -9.0


def test_goals_are_as_deep_as_is_asked_for():
    assert sunk(**{"goals.depth": 4.5})[0].goal_z == -4.5
    raised = {"goals.depth": 4.5, "odometry.vertical": "datum", "water.level": 400.0}
    assert sunk(**raised)[0].goal_z == 395.5


def test_no_goal_is_asked_of_a_vehicle_that_flies_above_the_water_it_knows():
    """A height above a datum, and no level: its goals would lie far below the bottom."""
    guidance, at = sunk(**{"goals.depth": 4.5, "odometry.vertical": "datum", "water.level": 400.0})
    guidance.command("stop", 9)
    at(410.0)
    done, answer = guidance.command("start", 9)
    assert not done and "z is 410.0 m, above the water at 400.0 m" in answer
    at(399.5)
    assert guidance.command("start", 9)[0]


def test_goals_are_as_high_above_the_bottom_as_is_asked_for_but_never_above_the_water():
    bottom = chart()  # at -9 m, with a standard deviation of 1 m
    assert sunk(bottom, **{"goals.altitude": 3.0})[0].goal_z == -9 + 1.96 + 3
    assert sunk(bottom, **{"goals.altitude": 30.0})[0].goal_z == 0.0
    level = {"goals.altitude": 3.0, "water.level": 2.0}  # z counts from the water, 2 m up
    assert sunk(bottom, **level)[0].goal_z == -11 + 1.96 + 3
    assert sunk(None, **{"goals.altitude": 3.0, "goals.depth": 1.0})[0].goal_z == -1.0


BASINS = "0 0, 20 0, 20 8.7, 40 8.7, 40 0, 60 0, 60 20, 40 20, 40 11.3, 20 11.3, 20 20, 0 20"
TWO_BASINS = {"workspace": (0.0, 60.0, 0.0, 20.0), "areas.polygon": BASINS, "goals.metres": "5 5"}


def test_a_mission_says_once_how_much_it_cannot_reach_when_it_begins():
    said, now = [], 0
    values = {**VALUES, **TWO_BASINS, "autostart": False}
    guidance = Guidance(values, lambda *words: said.append(words))

    def locate():
        nonlocal now
        now += 1
        guidance.locate(VehicleState(now * 10**9, (9.0, 9.0, 0.0)), 0.0, Moment(now * 10**9, now))

    locate()
    assert said == []
    guidance.command("start", now)
    locate()
    (reason, text), *more = said
    assert reason == "out_of_reach" and not more
    assert 46 < float(text.split()[0]) < 54, "half of it, and the channel"
    assert text.endswith(
        " % of the area cannot be reached: passages there are narrower than twice capture_radius "
        "(1.34 m)"
    )
    guidance.command("stop", now)
    guidance.command("start", now)
    guidance.change()
    locate()
    assert len(said) == 1
    values["capture_radius"] = 1.2  # of a channel of 2.6 m
    guidance.change()
    locate()
    assert len(said) == 1
    values["capture_radius"] = 2.0
    guidance.change()
    locate()
    assert len(said) == 2 and said[1][1].endswith("capture_radius (2 m)")


@pytest.mark.parametrize(
    ("given", "ending"),
    [
        ({"areas.margin": 1.5}, "twice areas.margin (1.5 m)"),
        ({"areas.margin": 1.5, "min_depth": 1.0}, "twice areas.margin (1.5 m)"),
        ({"capture_radius": 1.0}, None),
        ({"areas.polygon": "0 0, 60 0, 60 20, 0 20", "capture_radius": 5.0}, None),  # edges alone
        ({"areas.polygon": ""}, None),
    ],
)
def test_what_cannot_be_reached_is_neither_an_edge_nor_for_depth(given, ending):
    said = []
    values = {**VALUES, **TWO_BASINS, "autostart": True, **given}
    guidance = Guidance(values, lambda *words: said.append(words))
    guidance.locate(VehicleState(10**9, (9.0, 9.0, 0.0)), 0.0, Moment(10**9, 1))
    texts = [text for reason, text in said if reason == "out_of_reach"]
    assert len(texts) == (ending is not None) and all(text.endswith(ending) for text in texts)


# --- The way home is guarded like the survey ---

RETURNING = DEFAULTS | {
    "workspace": (0.0, 50.0, 0.0, 50.0), "goals.metres": "40 40", "on_done": "home",
    "max_duration": 60.0, "autostart": True,
}  # fmt: skip


class Homeward:
    """A vehicle that starts at (5, 5) and is on its way home at (40, 40) after a minute."""

    def __init__(self, **values) -> None:
        self.time_s = 0.0
        self.values = {**RETURNING, **values}
        self.guidance = Guidance(self.values, lambda *_: None)
        self.mission = self.guidance.mission
        for place in np.linspace(5, 40, 51):
            self.be_at(place, place)
        self.wait(12)
        assert self.guidance.mission.goal.tolist() == [5, 5]

    @property
    def now(self) -> Moment:
        return Moment(round(self.time_s * 1e9), self.time_s)

    def be_at(self, x, y, seconds=1.0) -> None:
        self.time_s += seconds
        state = VehicleState(self.now.ros_ns, (x, y, 0.0))
        self.guidance.locate(state, 0.0, self.now)
        if self.mission.state != "returning":  # the sonar may be off on the way home
            self.guidance.ping(RawPing(self.now.ros_ns, 9.0, 0.1, 99.0))
        self.guidance.tick(self.now)

    def wait(self, seconds, odometry=True) -> None:
        for _ in range(seconds):
            if odometry:
                self.be_at(40.0, 40.0)
            else:
                self.time_s += 1
                self.guidance.tick(self.now)

    @property
    def paused(self) -> bool:
        mission = self.guidance.mission
        return mission.state == "paused" and mission.goal is None and mission.station is not None


@pytest.fixture
def homeward():
    return Homeward()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (("MANUAL", True, True), "the autopilot's mode is MANUAL; it was GUIDED at the start"),
        (("GUIDED", False, True), "the vehicle was disarmed"),
        (("GUIDED", True, False), "the autopilot is no longer connected"),
    ],
)
def test_somebody_takes_over_or_the_link_is_lost(homeward, told, words):
    pilot = homeward.guidance.autopilot
    for armed in (False, True):  # after the start
        pilot.update(homeward.mission, "GUIDED", armed, True)
    assert homeward.mission.state == "returning"
    pilot.update(homeward.mission, *told)
    pilot.update(homeward.mission, "GUIDED", True, True)
    homeward.wait(60)
    assert homeward.paused and homeward.mission.reason == words
    assert homeward.guidance.taken_over == ""  # the way home is not mapped, whoever drives
    assert homeward.guidance.command("resume", homeward.time_s)[0]
    homeward.wait(2)
    assert homeward.mission.goal.tolist() == [5, 5]


def test_no_odometry_pauses_and_its_return_resumes(homeward):
    homeward.wait(300, odometry=False)
    assert homeward.paused and homeward.mission.reason == "no odometry for 5 s"
    homeward.wait(10)
    assert homeward.mission.state == "returning" and homeward.mission.goal.tolist() == [5, 5]


def test_a_silent_sonar_and_mapper_do_not_strand_it(homeward):
    for step in range(100):
        homeward.be_at(40 - 0.3 * step, 40 - 0.3 * step)
    assert homeward.mission.state == "returning"


def test_the_fence_holds(homeward):
    for metre in range(300):
        homeward.be_at(40.0 + metre, 40.0)
    assert homeward.paused and homeward.mission.reason.endswith("m outside the workspace")


def test_a_vehicle_that_comes_no_nearer_to_home_is_paused(homeward):
    homeward.wait(70)
    assert homeward.paused and "stands still" in homeward.mission.reason


def test_a_home_that_no_route_leads_to_pauses():
    wall = "20 -9, 22 -9, 22 60, 20 60"
    homeward = Guidance({**RETURNING, "areas.keep_outs": wall, "home_degrees": (47.3, 8.55),
        "origin": (47.3, 8.55)}, lambda *_: None)  # fmt: skip
    for second in range(1, 70):
        moment = Moment(second * 10**9, float(second))
        homeward.locate(VehicleState(moment.ros_ns, (40.0, 40.0, 0.0)), 0.0, moment)
    assert homeward.mission.state == "paused"
    assert homeward.mission.reason == "no route leads home"


def test_home_is_not_moved_for_room_to_turn():
    block = "0 0, 3.5 0, 3.5 3.5, 0 3.5"
    homeward = Homeward(**{"areas.keep_outs": block, "capture_radius": 4.0})
    goals = homeward.mission.goals
    assert homeward.mission.state == "returning" and goals.waypoint.tolist() == [5, 5]
    assert not goals.routes.areas.allowed(goals.waypoint[None])[0]
