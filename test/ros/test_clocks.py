"""Clocks that are set during a mission: limits and watchdogs use the steady clock."""

from __future__ import annotations

import time

import numpy as np
import pytest

pytest.importorskip("rclpy")

from feeder import PATIENT, Guided
from rclpy.clock import ROSClock
from rclpy.clock_type import ClockType
from rclpy.parameter import Parameter
from rclpy.time import Time as Stamp

from poam_ros.app.cli import MODULES
from poam_ros.core.clock import SECOND
from poam_ros.frontend.events import STATES
from poam_ros.mission.states import DRIVEN, Status
from poam_ros.ros import messages
from poam_ros.ros.mapper import MapperNode
from poam_ros.ros.monitor import MonitorNode
from poam_ros.ros.planner import PlannerNode
from poam_ros.ros.simulator import SimulatorNode

STEPS = (-3600.0, -1.0, 3600.0)  # s
WORKSPACE = [-10.0, 10.0, -5.0, 5.0]


class SetClock(ROSClock):
    """The system clock of one node, set by a test; ``offset_s``: its error."""

    offset_s = 0.0

    def now(self) -> Stamp:
        true = super().now()
        return Stamp(
            nanoseconds=true.nanoseconds + round(self.offset_s * SECOND), clock_type=true.clock_type
        )


@pytest.fixture
def ring(ros, eventually, brisk):
    """A planner whose system clock a test sets, in a state; and the boat."""

    def start(state="pilot", **parameters):
        given = {"workspace": WORKSPACE, "pilot": "lawnmower", "planner": "max-entropy"}
        given |= PATIENT
        given |= {"autostart": state != "waiting", "on_done": "home"} | parameters
        # Of the same clock underneath, which timers and /clock hang on.
        planner = ros(PlannerNode, parameters=given, up=False)
        planner.get_clock().__class__ = SetClock
        planner.open()
        planner.mission.ready = True
        boat = ros(Guided, place=(0.0, 0.0), speed=0.0)
        eventually(lambda: planner.mission.position is not None)
        mission = planner.mission
        if state == "exploring":
            mission.status = Status("exploring", "set by the test")
        elif state == "paused":
            mission.pause()
        elif state == "returning":
            mission.home = np.array([-7.0, -7.0])
            mission.end("enough")
        elif state == "done":
            mission.home = None
            mission.end("enough")
        eventually(lambda: mission.state == state)
        return planner, boat

    return start


def watch(planner) -> None:
    """Pause without odometry, from now on."""
    assert planner.set_parameters([Parameter("watchdog.odometry_timeout", value=2.0)])[0].successful


NODES = PlannerNode, MapperNode, SimulatorNode, MonitorNode


def test_every_timer_of_every_node_uses_the_steady_clock(ros):
    assert {kind.__module__ for kind in NODES} == set(MODULES.values())
    for kind in NODES:
        node = ros(kind)
        assert {t.clock.clock_type for t in node.timers} == {ClockType.STEADY_TIME}, kind
        with pytest.raises(TypeError):
            node.create_timer(1.0, print, clock=node.get_clock())


@pytest.mark.parametrize(
    "state",
    [
        "exploring",
        *(pytest.param(each, marks=pytest.mark.slow) for each in STATES if each != "exploring"),
    ],
)
def test_setting_the_system_clock_changes_neither_mission_nor_watchdog(ring, eventually, state):
    planner, boat = ring(state, max_duration=1000.0)

    def stamp_is_right():
        stamp = messages.stamp_to_ns(boat.heard["goal_pose"][-1].header.stamp) / SECOND
        return abs(stamp - planner.now_ns / SECOND) < 60.0

    for count, step in enumerate(STEPS, 1):
        counted = len(boat.goals)
        planner.get_clock().offset_s = boat.offset_s = step
        if state == "pilot":
            eventually(lambda n=counted: len(boat.goals) >= n + 3)  # goals go on being repeated
            eventually(stamp_is_right)
        seen = planner.mission.track.length
        boat.jump((0.5 * count, 0.0), None)
        eventually(lambda seen=seen: planner.mission.track.length > seen)
        assert planner.mission.state == state  # neither spent, nor paused, nor going on
    boat.odometry = boat.sonar = False
    watch(planner)
    if state in DRIVEN:
        eventually(lambda: planner.mission.state == "paused")
        assert planner.mission.reason == "no odometry for 2 s"
        boat.odometry = boat.sonar = True
        eventually(lambda: planner.mission.state == state)


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_restart_after_the_clock_was_set_keeps_the_elapsed_time(
    ros, ring, eventually, tmp_path, step_s
):
    given = {"max_duration": 1000.0, "mission_dir": str(tmp_path)}
    planner, _ = ring("pilot", **given)
    budget = planner.mission.budget
    eventually(lambda: planner.moment.unadjusted_s - budget.start_time_s > 1.0)
    spent = planner.moment.unadjusted_s - budget.start_time_s
    ros.end(planner)
    values = {"workspace": WORKSPACE, "pilot": "lawnmower"} | PATIENT | given
    again = ros(PlannerNode, parameters=values, up=False)
    again.get_clock().__class__ = SetClock
    again.get_clock().offset_s = step_s
    again.open()
    eventually(lambda: again.mission.position is not None)
    assert again.mission.state == "paused"
    assert spent <= again.moment.unadjusted_s - again.mission.budget.start_time_s < 1000.0


def test_the_simulator_s_stamps_follow_the_wall_clock_when_it_is_set(ros, eventually, monkeypatch):
    simulator = ros(SimulatorNode)
    true = time.time_ns
    for step in STEPS:
        monkeypatch.setattr(time, "time_ns", lambda step=step: true() + round(step * SECOND))
        eventually(lambda: abs(simulator.now_ns - time.time_ns()) < SECOND / 2)
