"""The simulator node: takes a real vehicle's place, and drives simulated time. Holds no maths."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.event_handler import PublisherEventCallbacks
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph_msgs.msg import Clock as ClockMessage
from sensor_msgs.msg import PointCloud2, Range
from std_srvs.srv import Trigger

from ...clock import SECOND
from ...errors import InputError
from ...geometry import Extent
from ...planning.pilots import start_pose
from ...survey.refusals import Refusals
from ...world.pacing import Pacer
from ...world.simulation import Simulation, SonarSettings
from ...world.terrain import load_terrain
from ...world.vehicle import Pose
from .. import messages
from ..outgoing import Outgoing, thinned, transform_broadcaster
from ..parameters import SIMULATOR, declare
from ..running import run_node

TICK = 0.01  # s of wall time between two looks at the clock
MISSION_PATIENCE = 60.0  # s of wall time to wait for a mission that was announced
REPORT_PERIOD = 1.0  # s of wall time
TERRAIN_CELLS = 400  # largest number of rows or columns of the terrain message
GOAL_SLACK = 1e-6  # m outside the workspace that are rounding
START_NS = SECOND  # simulated time begins here: zero means "no time yet" to ROS
CLOCK = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)


class SimulatorNode(Node):
    """Steps a ``Simulation`` by a steady wall clock and publishes what its vehicle would.

    With ``use_sim_time`` it is the source of ``/clock``, ``speed`` times as fast as the wall clock;
    without, stamps follow the wall clock and the speed is 1. Where the machine cannot keep up,
    simulated time slows down (diagnostics give the speed achieved).

    Raises:
        InputError: a parameter or the terrain is wrong.
    """

    def __init__(self, **node_arguments: Any) -> None:
        super().__init__("simulator", **node_arguments)
        self._p = declare(self, SIMULATOR, self._changed)
        self._simulated_time = bool(self.get_parameter("use_sim_time").value)
        if not self._simulated_time and self._p.speed != 1.0:
            raise InputError(_speed_refused(self._p.speed))
        self.add_on_set_parameters_callback(self._validate)
        self._simulation = self._build()
        self._offset_ns = START_NS if self._simulated_time else time.time_ns()
        self._pacer = Pacer(1.0 / self._p.control_rate, self._p.speed, tick=TICK)
        self._goal_ns: int | None = None  # simulation time of the last goal
        self._refusals = Refusals(self.get_logger().warning)
        self._waiting_since = time.monotonic() if self._p.wait_for_mission else None
        self._reported = (time.monotonic(), 0)
        self._open()

    def _build(self) -> Simulation:
        p = self._p
        environment, self._workspace = Extent.of(p.environment), Extent.of(p.workspace)
        low, high = p.elevation_range
        self._terrain = load_terrain(
            p.terrain,
            environment,
            elevation_range=(low, high) if low != high else None,
            seed=p.seed,
        )
        sonar = SonarSettings(
            rate=p.sonar_rate,
            max_range=p.max_range or None,
            **{
                name: getattr(p, name)
                for name in ("noise_std", "clearance", "min_range", "latency")
                + ("dropout", "outlier", "nan", "inf")
            },
        )
        return Simulation(
            self._terrain,
            start=Pose(*start_pose(self._workspace)),
            environment=environment,
            sonar=sonar,
            control_rate=p.control_rate,
            max_speed=p.max_speed,
            max_turn_rate=p.max_turn_rate,
            seed=p.seed,
        )

    def _open(self) -> None:
        """Create publishers, subscriptions, the service and the timers."""
        self._outgoing = Outgoing(self._simulation, self._p.frame_id, self._p.field_of_view)
        # The executor spends most of its time on a publisher's default events; readers tell of
        # settings that do not match as well.
        silent = PublisherEventCallbacks(use_default_callbacks=False)

        def publisher(kind: type, topic: str, qos: QoSProfile | int) -> Publisher:
            return self.create_publisher(kind, topic, qos, event_callbacks=silent)

        self._odometry_publisher = publisher(Odometry, "odom", messages.SENSOR_PUBLISH)
        self._range_publisher = publisher(Range, "sonar/range", messages.SENSOR_PUBLISH)
        self._clock_publisher = None
        if self._simulated_time:
            self._clock_publisher = publisher(ClockMessage, "/clock", CLOCK)
        self._transforms = transform_broadcaster(self, self._p.frame_id)
        self._diagnostics = publisher(DiagnosticArray, "/diagnostics", 10)
        self._terrain_publisher = publisher(PointCloud2, "terrain", messages.LATCHED)
        grid, elevation = thinned(self._terrain, TERRAIN_CELLS)
        self._terrain_publisher.publish(
            messages.write_terrain_cloud(grid, elevation, self._now_ns, self._p.frame_id)
        )
        self._goals = self.create_subscription(
            PoseStamped, "goal_pose", self._on_goal, messages.GOAL
        )
        self.create_service(Trigger, "~/reset", self._on_reset)
        # Wall time drives the simulation; its own /clock must not.
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self.create_timer(TICK, self._on_tick, clock=steady)
        self.create_timer(REPORT_PERIOD, self._report, clock=steady)

    @property
    def _now_ns(self) -> int:
        """The stamp of the present moment."""
        return self._simulation.time_ns + self._offset_ns

    def _on_tick(self) -> None:
        """Take the control steps that wall time has made due."""
        if self._waiting_since is not None and not self._mission_is_there():
            return
        steps, dropped = self._pacer.due(time.monotonic())
        for _ in range(steps):
            self._step()
        if dropped and not self._simulated_time:
            # The stamps follow the wall clock, also over a time in which this machine stood still.
            self._offset_ns += round(dropped * self._pacer.period * SECOND)

    def _mission_is_there(self) -> bool:
        """Whether somebody hears the sonar and gives goals, or was waited for long enough."""
        assert self._waiting_since is not None
        late = time.monotonic() - self._waiting_since > MISSION_PATIENCE
        ready = (
            self._range_publisher.get_subscription_count() > 0
            and self._odometry_publisher.get_subscription_count() > 0
            and self.count_publishers(self._goals.topic_name) > 0
        )
        if late and not ready:
            self.get_logger().warning("no mission appeared; simulated time begins without one")
        if late or ready:
            self._waiting_since = None
        return late or ready

    def _step(self) -> None:
        """One control period: the vehicle moves, and what its sensors say is published."""
        simulation = self._simulation
        stale_ns = round(self._p.goal_timeout * SECOND)
        if self._goal_ns is not None and simulation.time_ns - self._goal_ns > stale_ns:
            simulation.set_goal(None)
            self._goal_ns = None
        step = simulation.step()
        out = self._outgoing
        out.set_stamp(step.time_ns + self._offset_ns)
        if self._clock_publisher is not None:
            self._clock_publisher.publish(out.clock)
        self._odometry_publisher.publish(out.odometry_of(step))
        if self._transforms is not None:
            self._transforms.sendTransform(out.transform_of(step))
        for ping in step.pings:
            self._range_publisher.publish(out.range_of(ping, ping.stamp_ns + self._offset_ns))

    def _on_goal(self, message: PoseStamped) -> None:
        """A goal in our frame moves the vehicle; another is refused, counted and said.

        One outside the workspace is clipped to it, which is counted and said as well.
        """
        frame, goal = messages.bare_frame(message.header.frame_id), messages.read_pose(message)
        if frame != self._p.frame_id:
            self._refusals.add(
                "frame", f"goal refused: expected frame {self._p.frame_id!r}, got {frame!r}"
            )
        elif not np.all(np.isfinite(goal)):
            self._refusals.add(
                "not_finite", f"goal refused: expected finite x and y, got {goal.tolist()}"
            )
        else:
            nearest = self._workspace.clip(goal)
            if not self._workspace.contains(goal, slack=GOAL_SLACK):
                self._refusals.add(
                    "outside",
                    f"goal {goal.tolist()} is outside the workspace: heading for the nearest point "
                    f"in it, {nearest.tolist()}",
                )
            self._simulation.set_goal(nearest)
            self._goal_ns = self._simulation.time_ns

    def _on_reset(self, _: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._simulation.reset()
        self._goal_ns = None
        response.success, response.message = True, "the vehicle is back at its start; time goes on"
        return response

    def _validate(self, parameters: list[Any]) -> SetParametersResult:
        for parameter in parameters:
            if parameter.name == "use_sim_time" and parameter.value != self._simulated_time:
                reason = "parameter use_sim_time: fixed at the simulator's start"
                return SetParametersResult(successful=False, reason=reason)
            fixed = not self._simulated_time and parameter.value not in (1, 1.0)
            if parameter.name == "speed" and fixed:
                return SetParametersResult(successful=False, reason=_speed_refused(parameter.value))
        return SetParametersResult(successful=True)

    def _changed(self, names: frozenset[str]) -> None:
        if "speed" in names:
            self._pacer.speed = self._p.speed

    def _report(self) -> None:
        """Diagnostics: how fast simulated time runs, and what was refused."""
        now, time_ns = time.monotonic(), self._simulation.time_ns
        (since, since_ns), self._reported = self._reported, (now, time_ns)
        achieved = (time_ns - since_ns) / SECOND / (now - since)
        waiting = self._waiting_since is not None
        slow = not waiting and achieved < 0.8 * self._p.speed
        text = "waiting for a mission" if waiting else "too slow" if slow else "running"
        if slow:
            self.get_logger().warning(
                f"simulated time runs at {achieved:.1f} x real time instead of {self._p.speed:g}",
                throttle_duration_sec=30.0,
                skip_first=True,
            )
        values = {
            "speed": self._p.speed,
            "achieved_speed": achieved,
            "time_s": time_ns / SECOND,
            "goals_refused_frame": self._refusals.counts["frame"],
            "goals_refused_not_finite": self._refusals.counts["not_finite"],
            "goals_outside_workspace": self._refusals.counts["outside"],
        }
        level = DiagnosticStatus.WARN if slow else DiagnosticStatus.OK
        name = self.get_fully_qualified_name().lstrip("/")
        self._diagnostics.publish(
            messages.write_diagnostics(name, level, text, values, self._now_ns)
        )


def _speed_refused(speed: object) -> str:
    return f"parameter speed: expected 1 where use_sim_time is false, got {speed!r}"


def main(args: Sequence[str] | None = None) -> int:
    """Run the node; returns the exit status."""
    return run_node(SimulatorNode, args)


if __name__ == "__main__":
    sys.exit(main())
