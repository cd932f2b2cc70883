"""The simulator node: replaces a vehicle and publishes simulated time."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from rcl_interfaces.msg import SetParametersResult
from std_srvs.srv import Trigger

from ...core.clock import SECOND
from ...core.errors import InputError, shown
from ...core.geometry import Extent
from ...core.settings import instance
from ...planning.pilots import start_pose
from ...simulation.world.simulator import Pacer, Simulation, SonarSettings
from ...simulation.world.terrain import load_terrain
from ...simulation.world.vehicle import Pose
from ..common import messages, qos
from ..common.executor import run_node
from ..common.node import BaseNode
from ..common.parameters import SIMULATOR
from .topics import SimulatorTopics

CONTROL_PERIOD_S = 0.1  # simulated time between two steps of the vehicle, and two odometries
TICK_S = 0.01  # wall time between two checks of the clock
MISSION_TIMEOUT_S = 60.0  # wall time to wait for a mission
REPORT_PERIOD_S = 1.0  # wall time
MAX_CLOCK_OFFSET_S = 0.25  # of stamps from the wall clock, plus a control period
GOAL_TOLERANCE = 1e-6  # m outside the workspace: rounding
START_NS = SECOND  # start of simulated time: in ROS, zero means "no time yet"
TOO_SLOW = "too slow: lower the simulation's speed, or stop other programs"
GOAL_REFUSALS = ("frame", "not_finite")


class SimulatorNode(BaseNode):
    """Steps a ``Simulation`` by a steady clock, and publishes what a vehicle would.

    With ``use_sim_time`` it publishes ``/clock``, ``speed`` times as fast as wall time. Without,
    stamps follow the wall clock and the speed is 1. If the machine cannot keep up, simulated time
    slows down (diagnostics report the speed achieved). It never goes back.

    Raises:
        InputError: a parameter or the terrain is wrong.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__("simulator", SIMULATOR, **options)
        self._simulated_time = bool(self.get_parameter("use_sim_time").value)
        if not self._simulated_time and self.values.speed != 1.0:
            raise InputError(_speed_refused(self.values.speed))
        self.add_on_set_parameters_callback(self._validate)

    def open(self) -> None:
        """Load the terrain, create the topics, and start time.

        Raises:
            InputError: the terrain is wrong, or the vehicle's start lies outside it.
        """
        super().open()
        self.simulation = self._build()
        self._offset_ns = START_NS
        self._follow_wall_clock()
        p = self.values
        beam = getattr(p, "sonar.field_of_view")
        self._outgoing = SimulatorTopics(self, self.simulation, p.frame_id, beam)
        self._outgoing.send_terrain(self._terrain, self.now_ns)
        self.create_service(Trigger, "~/reset", self._on_reset)
        self._pacer = Pacer(CONTROL_PERIOD_S, p.speed, tick=TICK_S)
        self._goal_ns: int | None = None  # simulation time of the last goal
        self._waiting_since = time.monotonic() if p.wait_for_mission else None
        self._reported = (time.monotonic(), self.simulation.time_ns, self.waiting)
        self._goals = self.create_subscription(PoseStamped, "goal_pose", self._on_goal, qos.GOAL)
        self.create_timer(TICK_S, self._on_tick)
        self.create_timer(REPORT_PERIOD_S, self._report_speed)

    def _build(self) -> Simulation:
        p = self.values
        environment, self._workspace = Extent.of(p.environment), Extent.of(p.workspace)
        low, high = p.elevation_range
        scale = (low, high) if low != high else None
        self._terrain = load_terrain(p.terrain, environment, elevation_range=scale, seed=p.seed)
        return Simulation(
            self._terrain,
            start=Pose(*start_pose(self._workspace)),
            environment=environment,
            sonar=instance(SonarSettings, vars(p)),
            control_rate=1.0 / CONTROL_PERIOD_S,
            max_speed=p.max_speed,
            max_turn_rate=p.max_turn_rate,
            current=p.current,
            seed=p.seed,
        )

    @property
    def now_ns(self) -> int:
        """The present stamp."""
        return self.simulation.time_ns + self._offset_ns

    @property
    def waiting(self) -> bool:
        """Whether time waits for a mission."""
        return self._waiting_since is not None

    def _follow_wall_clock(self) -> None:
        if not self._simulated_time:
            self._offset_ns = time.time_ns() - self.simulation.time_ns

    def _on_tick(self) -> None:
        """Take the control steps that are due."""
        if self._waiting_since is not None and not self._mission_connected():
            return
        for _ in range(self._pacer.due(time.monotonic())):
            self._step()
        if abs(time.time_ns() - self.now_ns) / SECOND > MAX_CLOCK_OFFSET_S + self._pacer.period:
            # After the machine was suspended, or the clock was set.
            self._follow_wall_clock()

    def _mission_connected(self) -> bool:
        """Whether mapper and planner are there, or the wait is over.

        The mapper publishes `map/samples` once it has subscribed to the sensors.
        """
        assert self._waiting_since is not None
        late = time.monotonic() - self._waiting_since > MISSION_TIMEOUT_S
        publishers = map(self.count_publishers, ("map/samples", self._goals.topic_name))
        ready = self._outgoing.connected and all(publishers)
        if late and not ready:
            self.get_logger().warning("no mission appeared; simulated time starts without one")
        if late or ready:
            self._waiting_since = None
        return not self.waiting

    def _step(self) -> None:
        """One control period: move the vehicle, and publish its sensors."""
        simulation = self.simulation
        stale_ns = round(self.values.goal_timeout * SECOND)
        if self._goal_ns is not None and simulation.time_ns - self._goal_ns > stale_ns:
            simulation.set_goal(None)
            self._goal_ns = None
        self._outgoing.send(simulation.step(), self._offset_ns)

    def _on_goal(self, message: PoseStamped) -> None:
        """Take a goal in the map's frame; another is refused with a warning.

        A goal outside the workspace is moved into it, with a warning. No old goal comes: they are
        not latched.
        """
        p, goal = self.values, messages.read_pose(message)
        frame = messages.bare_frame(message.header.frame_id)
        if frame != p.frame_id:
            text = f"goal refused: expected frame {p.frame_id!r}, got '{shown(frame)}'"
            self.warnings.add("frame", text)
        elif not np.all(np.isfinite(goal)):
            text = f"goal refused: expected finite x and y, got {goal.tolist()}"
            self.warnings.add("not_finite", text)
        else:
            nearest = self._workspace.clip(goal)
            if not self._workspace.contains(goal, slack=GOAL_TOLERANCE):
                self.warnings.add(
                    "outside",
                    f"goal {goal.tolist()} is outside the workspace: moved to the nearest point in "
                    f"it, {nearest.tolist()}",
                )
            self.simulation.set_goal(nearest)
            self._goal_ns = self.simulation.time_ns

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.simulation.reset()
        self._goal_ns = None
        response.success, response.message = (
            True,
            "the vehicle is at its start again; time continues",
        )
        return response

    def _validate(self, parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name == "use_sim_time" and parameter.value != self._simulated_time:
                reason = "parameter use_sim_time: expected only at the simulator's start"
                return SetParametersResult(successful=False, reason=reason)
            fixed = not self._simulated_time and parameter.value not in (1, 1.0)
            if parameter.name == "speed" and fixed:
                return SetParametersResult(successful=False, reason=_speed_refused(parameter.value))
        return SetParametersResult(successful=True)

    def changed(self, names: frozenset[str]) -> None:
        """Apply a new speed."""
        if "speed" in names:
            self._pacer.speed = self.values.speed

    def _report_speed(self) -> None:
        """Publish diagnostics: speed of simulated time, and refused goals."""
        now, time_ns = time.monotonic(), self.simulation.time_ns
        (since, since_ns, waited), self._reported = self._reported, (now, time_ns, self.waiting)
        achieved = (time_ns - since_ns) / SECOND / (now - since)
        speed = self.values.speed
        slow = not waited and achieved < 0.8 * speed
        text = "waiting for a mission" if self.waiting else TOO_SLOW if slow else "running"
        if slow:
            self.get_logger().warning(
                f"simulated time runs at {achieved:.1f} x real time instead of {speed:g}",
                throttle_duration_sec=30.0,
                throttle_time_source_type=self.steady_clock,
                skip_first=True,
            )
        counts = self.warnings.counts
        values = {
            "speed": speed,
            "achieved_speed": achieved,
            "time_s": time_ns / SECOND,
            **{f"goals_refused_{reason}": counts[reason] for reason in GOAL_REFUSALS},
            "goals_outside_workspace": counts["outside"],
        }
        self.report(DiagnosticStatus.WARN if slow else DiagnosticStatus.OK, text, values)


def _speed_refused(speed: object) -> str:
    return f"parameter speed: expected 1 where use_sim_time is false, got {speed!r}"


#: Runs the node with ROS arguments; returns the exit status.
main = partial(run_node, SimulatorNode)


if __name__ == "__main__":
    sys.exit(main())
